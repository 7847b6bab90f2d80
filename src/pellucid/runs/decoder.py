"""Which decoder runs: the one place that decides it, and can say why.

There are four ways from sources to hypotheses, the fastest first (`WAYS`). Each refuses, with its reason, what it
cannot do; the first that does not is taken, and for a batch that it must give up, the next. All find the same outputs,
up to the rounding of their precision. Imports no torch: the first way needs none.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from pellucid.config import DecodeConfig
from pellucid.data.tokenizers.interface import BOS, EOS, PAD
from pellucid.engine.frozen import Frozen, Refusal, check
from pellucid.engine.kept import KeptWeights
from pellucid.errors import PellucidWarning
from pellucid.search.options import Hypothesis, SearchOptions, Specials

if TYPE_CHECKING:
    from pellucid.engine.engine import Engine
    from pellucid.model.transformer import Transformer

SPECIALS = Specials(bos=BOS, eos=EOS, pad=PAD)
ENGINE_TOKENS = 1024  # of a batch's sources: as many as the caches of a processor hold the keys and values of
Sources = Sequence[NDArray[np.int32]]
Prefixes = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Route:
    """The way that decoding takes.

    Attributes:
        decoder: its name in `WAYS`.
        precision: of its products.
        against: why each faster way was not taken.
    """

    decoder: str
    precision: str
    against: dict[str, str]

    def __str__(self) -> str:
        reasons = "".join(f"; not {name}: {reason}" for name, reason in self.against.items())
        return f"{self.decoder}, {self.precision}{reasons}"


class Engines:
    """The engines of a model by precision, each made when it is first needed, and again when weights have changed."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[int, Engine]] = {}

    def of(self, model: Transformer, precision: str) -> Engine:
        """The engine for the model as it is now.

        Raises:
            Refusal: the engine does not know such a model, or not here.
        """
        from pellucid.engine.engine import Engine, obstacle
        from pellucid.precision import resolve

        reason = obstacle(model)
        if reason is not None:
            raise Refusal(reason)
        precision = resolve(precision, model.output.weight.device)
        version = sum(parameter._version for parameter in model.parameters())
        if precision not in self._made or self._made[precision][0] != version:
            self._made[precision] = version, Engine(model, precision)
        return self._made[precision][1]


@dataclass(frozen=True)
class Request:
    """What is to be decoded with, and how.

    Attributes:
        model: gives the model, which is not read before it is needed.
        options: of the search.  config: its precision and its batches.
        has_prefixes: whether outputs must begin with given tokens.
        kept: where packed weights are kept between processes, or why they may not be used.
        engines: those that have been made of the model.
    """

    model: Callable[[], Transformer]
    options: SearchOptions
    config: DecodeConfig
    has_prefixes: bool = False
    kept: KeptWeights | str = "the model is in memory, where it may have been changed"
    engines: Engines = field(default_factory=Engines)


class Way(Protocol):
    """A way to decode what is requested; making it raises `Refusal` where it cannot.

    Attributes:
        precision: of its products.
        threads: batches that it searches side by side, each on a thread of its own.
        batch_tokens: source tokens of a batch.
    """

    precision: str
    threads: int
    batch_tokens: int

    def search(self, sources: Sources, prefixes: Prefixes, numbers: Sequence[int]) -> list[list[Hypothesis]]:
        """For each source its hypotheses, best first; `Refusal` where it must give up on this batch."""

    def use_threads(self, count: int) -> None:
        """How many threads one search takes, when the calling thread calls it."""


class KeptEngine:
    """Packed weights that an earlier process has kept: whole searches in one call of a kernel, and no torch."""

    def __init__(self, request: Request) -> None:
        if isinstance(request.kept, str):
            raise Refusal(request.kept)
        self._frozen, self._library, self._options = *request.kept.read(), request.options
        check(self._options, request.has_prefixes, SPECIALS, self._frozen.vocabulary, len(self._frozen.target_places))
        self.precision = request.kept.precision if request.kept.precision == "int8" else self._frozen.precision
        self.threads, self.batch_tokens = self._library.most_threads, batch_tokens(True, request.config)

    def search(self, sources: Sources, prefixes: Prefixes, numbers: Sequence[int]) -> list[list[Hypothesis]]:
        return _search_at_once(self._frozen, sources, self._options)

    def use_threads(self, count: int) -> None:
        self._library.use_threads(count)


class EngineSteps:
    """Weights that are packed now: a call of a kernel for each step, and the search between them in torch. Kernels let
    other threads of Python run meanwhile, so there are as many batches at once as torch has threads."""

    def __init__(self, request: Request) -> None:
        from torch import get_num_threads

        self._request, self._engine = request, request.engines.of(request.model(), request.config.precision)
        if isinstance(request.kept, KeptWeights):
            request.kept.keep(self._engine.largest)
        self.precision = self._engine.precision
        self.threads, self.batch_tokens = get_num_threads(), batch_tokens(True, request.config)

    def search(self, sources: Sources, prefixes: Prefixes, numbers: Sequence[int]) -> list[list[Hypothesis]]:
        from pellucid.data.batching import pad
        from pellucid.search.search import search

        return search(self._engine, pad(sources), len(sources), self._request.options, SPECIALS, prefixes, numbers)

    def use_threads(self, count: int) -> None:
        from pellucid.kernels.calls import use_threads

        use_threads(count)


class WholeEngine(EngineSteps):
    """Weights that are packed now: whole searches in one call of a kernel."""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        check(request.options, request.has_prefixes, SPECIALS, self._engine.vocabulary,
              self._engine.target_places.limit)

    def search(self, sources: Sources, prefixes: Prefixes, numbers: Sequence[int]) -> list[list[Hypothesis]]:
        options = self._request.options
        return _search_at_once(self._engine.frozen(max(map(len, sources)), options.max_length), sources, options)


class PlainSteps:
    """The model itself, step by step, in fp32. It knows everything; a single batch is shared by all threads."""

    precision = "fp32"
    threads = 1

    def __init__(self, request: Request) -> None:
        from pellucid.model.stepper import TransformerStep

        self._request, self._step = request, TransformerStep(request.model())
        self.batch_tokens = batch_tokens(False, request.config)

    def search(self, sources: Sources, prefixes: Prefixes, numbers: Sequence[int]) -> list[list[Hypothesis]]:
        from pellucid.data.batching import pad
        from pellucid.model.stepper import evaluating
        from pellucid.search.search import search

        device = self._step.model.output.weight.device
        ids, real = pad(sources)
        source = (ids.to(device), None if real is None else real.to(device))
        with evaluating(self._step.model):
            return search(self._step, source, len(sources), self._request.options, SPECIALS, prefixes, numbers)

    def use_threads(self, count: int) -> None:
        raise AssertionError("it searches one batch at a time")


WAYS: dict[str, Callable[[Request], Way]] = {
    "kept engine": KeptEngine, "engine": WholeEngine, "engine by steps": EngineSteps, "plain steps": PlainSteps}


class Decoder:
    """What decodes as requested.

    Attributes:
        route: which way it takes, and why no faster one.
        threads, batch_tokens: as of a `Way`.
    """

    def __init__(self, request: Request) -> None:
        self._request, self._made, self._making = request, dict[str, Way | str](), Lock()
        way = next(self._ways())
        self.threads, self.batch_tokens, self.use_threads = way.threads, way.batch_tokens, way.use_threads
        name, against = list(self._made)[-1], {name: one for name, one in self._made.items() if isinstance(one, str)}
        self.route = Route(name, way.precision, against)
        if request.config.precision not in ("auto", way.precision):
            warnings.warn(f"decode.precision {request.config.precision} is not used, but {way.precision}: "
                          f"{against['engine']}", PellucidWarning, stacklevel=4)

    def search(self, sources: Sources, prefixes: Prefixes, numbers: Sequence[int]) -> list[list[Hypothesis]]:
        """For each source its hypotheses, best first; prefixes and numbers as those of `search.search`."""
        for way in self._ways():
            try:
                return way.search(sources, prefixes, numbers)
            except Refusal:
                continue
        raise AssertionError("the plain steps refuse nothing")

    def _ways(self) -> Iterator[Way]:
        """Those that do not refuse, the fastest first, each made when it is first asked for."""
        for name, make in WAYS.items():
            with self._making:
                if name not in self._made:
                    try:
                        self._made[name] = make(self._request)
                    except Refusal as reason:
                        self._made[name] = str(reason)
                way = self._made[name]
            if not isinstance(way, str):
                yield way


def batch_tokens(by_engine: bool, config: DecodeConfig) -> int:
    """Source tokens of a batch; 1 for sentences that must be alone to come out exactly."""
    if by_engine:  # its rows do not see each other anyway
        return min(config.batch_tokens, ENGINE_TOKENS)
    return 1 if config.exact else config.batch_tokens


def _search_at_once(frozen: Frozen, sources: Sources, options: SearchOptions) -> list[list[Hypothesis]]:
    lengths = np.array([len(ids) for ids in sources])
    return frozen.search(np.concatenate(sources).astype(np.int64), lengths, options, SPECIALS)
