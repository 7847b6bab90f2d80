"""Which decoder runs: the one place that decides it, and can say why.

There are five ways from sources to hypotheses, the fastest first (`WAYS`). Each refuses, with its reason, what it
cannot do; the first that does not is taken, and for a batch that it must give up, the next. All find the same outputs,
up to the rounding of their precision. Imports no torch: the first way needs none.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pellucid.config import DecodeConfig
from pellucid.data.tokenizers.interface import BOS, EOS, PAD
from pellucid.engine.engines import Engines
from pellucid.engine.frozen import Frozen, Refusal, check
from pellucid.engine.kept import KeptWeights
from pellucid.errors import PellucidWarning
from pellucid.search.beginnings import Beginning
from pellucid.search.options import Hypothesis, SearchOptions, Specials

if TYPE_CHECKING:
    from torch import Tensor

    from pellucid.model.transformer import Transformer
    from pellucid.search.observer import Observer
    from pellucid.search.step import Step

SPECIALS = Specials(bos=BOS, eos=EOS, pad=PAD)
ENGINE_TOKENS = 1024  # of a batch's sources: as many as the caches of a processor hold the keys and values of
Sources = Sequence[NDArray[np.int32]]
Prefixes = Sequence[Beginning]


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


def refuse_kept() -> KeptWeights:
    """Nothing is kept of a model that somebody holds."""
    raise Refusal("somebody holds the model, and may have changed it")


@dataclass(frozen=True)
class Request:
    """What is to be decoded with, and how.

    Attributes:
        model: gives the model, which is not read before it is needed.
        options, config: of the search; its precision and its batches.  has_prefixes: given tokens begin the outputs.
        kept: gives the place where packed weights are kept between processes, or refuses.
        engines: those that have been made of the model.
        observer: told of every step of a search.
    """

    model: Callable[[], Transformer]
    options: SearchOptions
    config: DecodeConfig
    has_prefixes: bool = False
    kept: Callable[[], KeptWeights] = refuse_kept
    engines: Engines = field(default_factory=Engines)
    observer: Observer | None = None

    def must_be_whole(self) -> None:
        """Refuses searches that are one call of a kernel, where somebody wants to be told of their steps."""
        if self.observer is not None:
            raise Refusal("an observer is told of every step")


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
        request.must_be_whole()
        kept = request.kept()
        self._frozen, self._library, self._options = *kept.read(), request.options
        check(self._options, request.has_prefixes, SPECIALS, self._frozen.vocabulary, len(self._frozen.target_places))
        self.precision = "int8" if kept.precision == "int8" else self._frozen.precision
        self.threads, self.batch_tokens = self._library.most_threads, batch_tokens(True, request.config)

    def search(self, sources: Sources, prefixes: Prefixes, numbers: Sequence[int]) -> list[list[Hypothesis]]:
        return _search_at_once(self._frozen, sources, prefixes, self._options)

    def use_threads(self, count: int) -> None:
        self._library.use_threads(count)


class _Packed:
    """What both ways with weights that are packed now have in common. The engine's kernels let other threads of Python
    run meanwhile: there are as many batches at once as torch has threads."""

    def __init__(self, request: Request) -> None:
        from torch import get_num_threads

        from pellucid.kernels.calls import use_threads

        self._request, self._engine = request, request.engines.of(request.model(), request.config.precision)
        with contextlib.suppress(Refusal):
            request.kept().keep(self._engine.largest)
        self.precision, self.threads, self.use_threads = self._engine.precision, get_num_threads(), use_threads
        self.batch_tokens = batch_tokens(True, request.config)


class WholeEngine(_Packed):
    """Weights that are packed now: whole searches in one call of a kernel."""

    def __init__(self, request: Request) -> None:
        request.must_be_whole()
        super().__init__(request)
        positions = self._engine.target_places.limit
        check(request.options, request.has_prefixes, SPECIALS, self._engine.vocabulary, positions)

    def search(self, sources: Sources, prefixes: Prefixes, numbers: Sequence[int]) -> list[list[Hypothesis]]:
        frozen = self._engine.frozen(max(map(len, sources)), self._request.options.max_length)
        return _search_at_once(frozen, sources, prefixes, self._request.options)


class EngineSteps(_Packed):
    """Weights that are packed now: a call of a kernel for each step, and the search between them in torch."""

    def search(self, sources: Sources, prefixes: Prefixes, numbers: Sequence[int]) -> list[list[Hypothesis]]:
        from pellucid.data.batching import pad
        from pellucid.search.search import search

        return search(self._engine, pad(sources), len(sources), self._request.options, SPECIALS, prefixes, numbers,
                      self._request.observer)


class PlainSteps:
    """The model itself, step by step, in fp32. It knows everything; a single batch is shared by all threads."""

    precision = "fp32"
    threads = 1
    _step: Step[tuple[Tensor, Tensor | None], Any]

    def __init__(self, request: Request) -> None:
        from pellucid.model.stepper import TransformerStep

        self._request, self._model = request, request.model()
        self._step, self.batch_tokens = TransformerStep(self._model), batch_tokens(False, request.config)

    def search(self, sources: Sources, prefixes: Prefixes, numbers: Sequence[int]) -> list[list[Hypothesis]]:
        from pellucid.data.batching import pad
        from pellucid.model.stepper import evaluating
        from pellucid.search.search import search

        device = self._model.output.weight.device
        ids, real = pad(sources)
        with evaluating(self._model):
            return search(self._step, (ids.to(device), None if real is None else real.to(device)), len(sources),
                          self._request.options, SPECIALS, prefixes, numbers, self._request.observer)

    def use_threads(self, count: int) -> None:
        raise AssertionError("it searches one batch at a time")


class GraphedSteps(PlainSteps):
    """The model on a GPU, each step launched at once. One search at a time: steps work in memory of their own."""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        beams = 1 if request.options.sample else request.options.beam_size
        graphed, self.precision = request.engines.recorded(self._model, request.config.precision, beams)
        self._step, self._turn = graphed, graphed.turn

    def search(self, sources: Sources, prefixes: Prefixes, numbers: Sequence[int]) -> list[list[Hypothesis]]:
        with self._turn:
            return super().search(sources, prefixes, numbers)


WAYS: dict[str, Callable[[Request], Way]] = {
    "kept engine": KeptEngine, "engine": WholeEngine, "engine by steps": EngineSteps, "graphed steps": GraphedSteps,
    "plain steps": PlainSteps}


class Decoder:
    """What decodes as requested.

    Attributes:
        route: which way it takes, and why no faster one.
        threads, batch_tokens, use_threads: as of a `Way`.
    """

    def __init__(self, request: Request) -> None:
        self._request, self._made, self._making = request, dict[str, Way | Refusal](), Lock()
        way = next(self._ways())
        self.threads, self.batch_tokens, self.use_threads = way.threads, way.batch_tokens, way.use_threads
        against = {name: str(one) for name, one in self._made.items() if isinstance(one, Refusal)}
        self.route = Route(list(self._made)[-1], way.precision, against)
        if request.config.precision not in ("auto", way.precision):
            reason = against["engine by steps"]  # the last that has all precisions
            warnings.warn(f"decode.precision {request.config.precision} is not used, but {way.precision}: {reason}",
                          PellucidWarning, stacklevel=4)

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
                    except Refusal as refusal:
                        self._made[name] = refusal
                way = self._made[name]
            if not isinstance(way, Refusal):
                yield way


def batch_tokens(by_engine: bool, config: DecodeConfig) -> int:
    """Source tokens of a batch; 1 for sentences that must be alone to come out exactly."""
    if by_engine:  # its rows do not see each other anyway
        return min(config.batch_tokens, ENGINE_TOKENS)
    return 1 if config.exact else config.batch_tokens


def _search_at_once(frozen: Frozen, sources: Sources, prefixes: Prefixes,
                    options: SearchOptions) -> list[list[Hypothesis]]:
    lengths = np.array([len(ids) for ids in sources])
    return frozen.search(np.concatenate(sources).astype(np.int64), lengths, options, SPECIALS, prefixes)
