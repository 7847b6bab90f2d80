"""The step that search sees, on a GPU: all that a step launches is recorded once, as a graph, and launched at once.

A step of a Transformer is two hundred small launches, which take a processor five milliseconds and a GPU less than one.
A graph knows places in memory and no sizes: so a recorded step has caches of a fixed size, and looks at the part of
them that is filled. Graphs are kept, for the batches to come; rows, source and target are rounded up, so that there are
few of them.

The equations are those of the modules: what is recorded is `Transformer.decode_next`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from threading import Lock

import torch
from torch import Tensor, nn

from pellucid.engine.frozen import Refusal
from pellucid.kernels import gpu
from pellucid.kernels.gpu import Launch, first_line, recorder
from pellucid.model.decoder import LayerCache
from pellucid.model.stepper import TransformerStep, evaluating
from pellucid.model.transformer import Transformer
from pellucid.nn.embeddings import Embedding, OutputProjection
from pellucid.nn.key_value_cache import KeyValueCache
from pellucid.nn.linear_attention import LinearAttention
from pellucid.nn.positional_encoding import LearnedPosition
from pellucid.precision import products_in

_SOURCE, _TARGET = 32, 64  # tokens of which a cache holds a multiple; the target's grows by doubling
_MOST = 64  # graphs that are kept
_CLOSE = 0.1  # differences of logits, in their standard deviations: those of bf16, and not those of a fault


class FixedCache(KeyValueCache):
    """Keys and values [R, H, L, width] of as many tokens as will come, of which those up to `place` [1] are there."""

    def __init__(self, both: tuple[Tensor, Tensor], place: Tensor) -> None:
        super().__init__(both)
        self._place = place

    def append(self, keys: Tensor, values: Tensor) -> None:
        """Writes those of the token at `place` there."""
        for held, new in zip(self.read(), (keys, values), strict=True):
            held.index_copy_(2, self._place, new)

    def copy(self) -> FixedCache:
        """Itself: nobody goes on from here twice."""
        return self


class Recorded:
    """A step over R rows, S source tokens and up to L target tokens, and the memory that it works in."""

    def __init__(self, model: Transformer, like: tuple[LayerCache, ...], rows: int, source: int, target: int,
                 precision: str, record: Callable[[Launch], Launch]) -> None:
        device = model.output.weight.device
        self.rows, self.source, self.target = rows, source, target
        self.tokens = torch.zeros(rows, dtype=torch.int64, device=device)
        self.parents = torch.arange(rows, device=device)
        self.place = torch.zeros(1, dtype=torch.int64, device=device)
        self.real_source = torch.zeros(rows, source, dtype=torch.bool, device=device)
        self.caches = tuple(LayerCache(KeyValueCache(_room(layer.source, rows, source)),
                                       FixedCache(_room(layer.source, rows, target), self.place)) for layer in like)
        self._model, self._precision = model, precision
        self._source_positions = torch.arange(source, device=device)
        self._target_positions = torch.arange(target, device=device)
        self._step()  # what has to be compiled or made first cannot be while it is recorded
        self._choose()
        self.step = record(self._step)  # from tokens, caches and place to logits, and what is seen in the caches
        self.choose = record(self._choose)  # each row goes on from what its parent has seen

    def _step(self) -> None:
        seen = (self._target_positions <= self.place).expand(self.rows, -1)
        positions = self.place, self._target_positions, self._source_positions
        with products_in(self._precision, self.tokens.device):
            self.logits = self._model.decode_next(self.tokens, self.caches, positions, seen, self.real_source).float()

    def _choose(self) -> None:
        for cache in self.caches:
            for held in cache.target.read():
                held.copy_(held.index_select(0, self.parents))

    def held(self) -> Iterator[Tensor]:
        """The caches' tensors, of the source and of the target in turn."""
        for cache in self.caches:
            yield from cache.source.read()
            yield from cache.target.read()


@dataclass(frozen=True)
class GraphedState:
    """What decoding remembers between two steps: the rows [R'] of a recorded step that are in use, how many tokens they
    have seen, and how many rows a sentence has."""

    recorded: Recorded
    rows: Tensor
    length: int
    beams: int


class GraphedStep:
    """A step of `search` on a GPU; one search at a time.

    Args:
        model: of softmax attention, in evaluation mode. In fp32 its own weights are read, in bf16 a copy of them.
        precision: of the products, "fp32" or "bf16".
        beams: rows a sentence will have from the first choice on; 1 where each row goes on from itself alone.

    Attributes:
        turn: to be held by whoever searches.
        fault: why its steps cannot be used on this machine, if they cannot.
    """

    def __init__(self, model: Transformer, precision: str, beams: int) -> None:
        self.model, self.turn = model, Lock()
        self._precision, self._beams = precision, beams
        self._known: dict[tuple[int, int, int], Recorded] = {}
        try:
            if precision == "bf16":
                self.model = in_bf16(model)
            self._record = recorder()
            self.fault = self._fault()
        except Refusal as refusal:
            self.fault = str(refusal)
        except RuntimeError as error:  # what CUDA raises
            self.fault = f"nothing can be recorded here ({first_line(error)})"
        self._known.clear()  # of two rows, which was for that alone
        if self.fault is not None:
            self.model = model  # a copy would stay for nothing

    def _fault(self) -> str | None:
        """What two of its steps show beside those of the modules: that they give other logits when they are launched
        again."""
        device = self.model.output.weight.device
        ids = torch.zeros(2, 3, dtype=torch.int64, device=device)
        plain, first, second = TransformerStep(self.model), ids[:, 0], ids[:, 0] + 1
        with torch.no_grad(), evaluating(self.model):
            with products_in(self._precision, device):
                expected = plain.step(plain.step(plain.start((ids, None)), first)[1], second)[0]
            found = self.step(self.step(self.start((ids, None)), first)[1], second)[0]
        is_close = (found - expected).abs().max() <= _CLOSE * expected.std()
        return None if is_close else "recorded steps give other logits"

    def start(self, source: tuple[Tensor, Tensor | None]) -> GraphedState:
        """Encodes (ids [B, S], real [B, S] or None)."""
        ids, real = source
        with products_in(self._precision, ids.device):
            state = self.model.start(ids, real)
        rows = torch.arange(len(ids), device="cpu")
        recorded = self._recorded(state.caches, len(ids), ids.shape[1], 1)
        for held in (recorded.real_source, *recorded.held()):  # a weight of 0 does not undo what was no number there
            held.zero_()
        recorded.real_source[: len(ids), : ids.shape[1]] = True if real is None else real
        for cache, filled in zip(recorded.caches, state.caches, strict=True):
            for held, new in zip(cache.source.read(), filled.source.read(), strict=True):
                held[: len(ids), :, : ids.shape[1]] = new
        return GraphedState(recorded, rows, 0, 1)

    def step(self, state: GraphedState, tokens: Tensor) -> tuple[Tensor, GraphedState]:
        """tokens [R'] → logits [R', V], good until the next step, and the state after them."""
        if state.length == state.recorded.target:
            state = self._moved(state, state.rows, state.beams)
        recorded = state.recorded
        device = recorded.tokens.device
        held = torch.zeros(recorded.rows, dtype=torch.int64, device="cpu")
        held[state.rows] = tokens.cpu()
        recorded.tokens.copy_(held)
        recorded.place.fill_(state.length)
        recorded.step()
        return recorded.logits.index_select(0, state.rows.to(device)), replace(state, length=state.length + 1)

    def select(self, state: GraphedState, rows: Tensor) -> GraphedState:
        """The rows [R''] of the state. They stay where rows of their sentence are, unless they become more."""
        rows = rows.cpu()
        if len(rows) > len(state.rows) or self._beams > state.beams:
            return self._moved(state, state.rows[rows], self._beams)
        if state.beams == 1:
            return replace(state, rows=state.rows[rows])
        number = torch.arange(len(rows), device="cpu")
        places = state.rows[rows - rows % self._beams + number % self._beams]
        parents = torch.arange(state.recorded.rows, device="cpu")
        parents[places] = state.rows[rows]
        state.recorded.parents.copy_(parents)
        state.recorded.choose()
        return replace(state, rows=places)

    def _moved(self, state: GraphedState, rows: Tensor, beams: int) -> GraphedState:
        """These rows of the recorded step, in another one that has room for them and for one more token."""
        old = state.recorded
        new = self._recorded(old.caches, len(rows), old.source, state.length + 1)
        there = rows.to(old.tokens.device)
        real = old.real_source[there]  # both may be the same one: what is read is read before it is written
        new.real_source.zero_()
        new.real_source[: len(rows)] = real
        for to, of in zip(new.held(), old.held(), strict=True):
            width = min(to.shape[2], of.shape[2])
            kept = of[there, :, :width]
            to.zero_()
            to[: len(rows), :, :width] = kept
        return GraphedState(new, torch.arange(len(rows), device="cpu"), state.length, beams)

    def _recorded(self, like: tuple[LayerCache, ...], rows: int, source: int, target: int) -> Recorded:
        """One that has room for so many: made, if there is none yet.

        Raises:
            Refusal: it cannot be recorded.
        """
        sizes = (_power_of_two(rows), -(-source // _SOURCE) * _SOURCE, max(_TARGET, _power_of_two(target)))
        if sizes not in self._known:
            if len(self._known) == _MOST:
                self._known.clear()
            fault = self._make(like, sizes)
            if fault and self._known:  # whose memory may be what is missing, here or in the steps that go on without
                self._known.clear()
                fault = self._make(like, sizes)
            if fault:
                raise Refusal(f"a step cannot be recorded ({fault})")
        return self._known[sizes]

    def _make(self, like: tuple[LayerCache, ...], sizes: tuple[int, int, int]) -> str | None:
        """Records one of these sizes; why it cannot be, told when the memory of what failed is free again."""
        try:
            self._known[sizes] = Recorded(self.model, like, *sizes, self._precision, self._record)
        except RuntimeError as error:
            return first_line(error)
        return None


def against_recording(model: Transformer) -> str | None:
    """Why the steps of a model cannot be recorded, if they cannot."""
    if {weight.dtype for weight in model.parameters()} != {torch.float32}:
        return "not all weights are torch.float32"
    return unrecordable(model)


def unrecordable(model: nn.Module) -> str | None:
    """Why what a model does cannot be recorded, if it cannot."""
    if not next(model.parameters()).is_cuda:
        return "there is no GPU"
    if not gpu.is_used():
        return "the kernels are not loaded"
    for module in model.modules():
        if module._forward_hooks or module._forward_pre_hooks:
            return "a module has a hook"
        if isinstance(module, LinearAttention | LearnedPosition):
            return f"{type(module).__name__} waits for the GPU at each step"
        if not type(module).__module__.startswith(("pellucid.", "torch.nn.")):
            return f"{type(module).__name__} is not pellucid's"
    return None


def in_bf16(model: Transformer) -> Transformer:
    """A copy whose products have their weights in bf16, as autocast would make them at every step."""
    made = copy.deepcopy(model).eval()
    for module in made.modules():
        if isinstance(module, nn.Linear):
            module.bfloat16()
    if isinstance(made.output, Embedding | OutputProjection):
        weight = made.output.weight
        made.output = OutputProjection(*weight.shape).bfloat16()
        made.output.weight = nn.Parameter(weight.detach().bfloat16(), requires_grad=False)
    return made


def _room(like: KeyValueCache, rows: int, tokens: int) -> tuple[Tensor, Tensor]:
    """Zeros for the keys and values of so many rows and tokens."""
    keys, values = (each.new_zeros(rows, each.shape[1], tokens, each.shape[3]) for each in like.read())
    return keys, values


def _power_of_two(number: int) -> int:
    return 1 << max(0, number - 1).bit_length()
