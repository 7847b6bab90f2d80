"""Peak memory of training and of decoding, by what holds it: a rehearsal of an update, of averaging, of a search."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves

from pellucid.config import RunConfig
from pellucid.engine.engine import Engine
from pellucid.engine.frozen import Refusal, check
from pellucid.engine.obstacle import obstacle
from pellucid.model.stepper import TransformerStep
from pellucid.model.transformer import Transformer
from pellucid.nn.key_value_cache import KeyValueCache
from pellucid.plan.learner import blank, in_micro_batches, learner_of, model_of
from pellucid.plan.rehearsal import Holdings, Ledger, Product, rehearsal
from pellucid.plan.workload import Shape, Workload
from pellucid.runs.checkpoint import weights_of
from pellucid.runs.decoder import SPECIALS, batch_tokens
from pellucid.runs.texts import length_groups, search_options
from pellucid.train import objective
from pellucid.train.averaging import mean_of
from pellucid.train.flow import watch
from pellucid.train.update import update

_BLOCK = 2048  # lines that are decoded together
_SMALLEST = Shape(1, 2, 1)
_LOSSES = ("linear_cross_entropy", "linear_r_drop", "label_smoothed_cross_entropy", "r_drop_cross_entropy")


def rehearse_updates(config: RunConfig, workload: Workload, shapes: Sequence[Shape], precision: str,
                     compiled: bool) -> list[tuple[Holdings, set[Product]]]:
    """For a batch of each shape, an update that is logged, with the optimizer's state in place: the peak, and the
    products of matrices."""
    with rehearsal(compiled) as ledger, _logits_in(ledger):
        with ledger.holding("weights"):
            model = model_of(config, workload)
        micro = min(config.train.accumulate, 2)  # two show what many take
        batches = [blank(shape) for shape in (_SMALLEST, *shapes) for _ in range(micro)]
        learner = learner_of(in_micro_batches(config, micro), model, batches, precision)
        update(learner)  # makes the optimizer's state
        for state in learner.optimizer.state.values():
            for tensor in state.values():
                ledger.belongs("optimizer", tensor)
        for tensor in learner.average.weights.values() if learner.average else ():
            ledger.belongs("moving average", tensor)
        learner.optimizer.register_step_pre_hook(lambda *_: _claim_gradients(model, ledger))
        found = []
        for _ in shapes:
            begun, ledger.products = len(ledger.events), set()
            with watch(model, learner.optimizer):
                update(learner)
            found.append((ledger.peak(begun), ledger.products))
        return found


@contextlib.contextmanager
def _logits_in(ledger: Ledger) -> Iterator[None]:
    """While this lasts, what the losses of train/objective.py allocate is of logits and their gradients."""
    losses = {name: getattr(objective, name) for name in _LOSSES}
    for name, loss in losses.items():
        setattr(objective, name, ledger.holding("logits")(loss))
    try:
        yield
    finally:
        for name, loss in losses.items():
            setattr(objective, name, loss)


def _claim_gradients(model: torch.nn.Module, ledger: Ledger) -> None:
    for parameter in model.parameters():
        ledger.belongs("gradients", parameter.grad)


def rehearse_average(config: RunConfig, workload: Workload) -> Holdings:
    """The peak of averaging the last checkpoints, beside what training holds as well."""
    with rehearsal(False) as ledger:
        with ledger.holding("weights"):
            model = model_of(config, workload)
        begun = len(ledger.events)
        with ledger.holding("average of checkpoints"), torch.no_grad():
            mean_of({name: torch.empty_like(p) for name, p in weights_of(model).items()} for _ in range(2))
        return ledger.peak(begun)


def decodes_by_engine(config: RunConfig, workload: Workload, compiled: bool) -> bool:
    """Whether the engine knows the model."""
    with rehearsal(compiled):
        model = model_of(config, workload)
        return isinstance(model, Transformer) and obstacle(model) is None


def rehearse_decoding(config: RunConfig, workload: Workload, shape: Shape, precision: str, compiled: bool,
                      by_engine: bool, at_once: int) -> Holdings:
    """The peak of reading the weights, and of searching for the outputs of a batch of sources, each output as long as
    `shape.target`; of a classifier's logits.

    The engine works by addresses, so its tensors have data: weights as at the start, and room that nothing writes to.

    Args:
        by_engine: see `decodes_by_engine`.
        at_once: batches that the engine decodes beside each other.
    """
    with rehearsal(compiled, with_data=by_engine) as ledger, torch.no_grad():
        with ledger.holding("weights"):
            model = model_of(config, workload).eval()
        with ledger.holding("weights being read"):
            read = [torch.empty_like(p) for p in model.parameters()]
        del read
        if not isinstance(model, Transformer):
            model(blank(shape).source)
            return ledger.peak(0)
        with ledger.holding("packed weights"):
            step = Engine(model, precision) if by_engine else TransformerStep(model)
        beam = 1 if config.decode.sample else config.decode.width
        _search(step, shape, beam, at_once if by_engine else 1, ledger)
        held = ledger.peak(0)
        if isinstance(step, Engine):
            with contextlib.suppress(Refusal):
                check(search_options(config.decode), False, SPECIALS, step.vocabulary, step.target_places.limit)
                held.pop("logits", None)  # the search in one call ranks them part by part
        return held


def _search(step: Any, shape: Shape, beam: int, at_once: int, ledger: Ledger) -> None:
    """As many steps as the target has tokens, every hypothesis kept to the end."""
    rows = torch.arange(shape.sentences).repeat_interleave(beam)
    tokens = torch.zeros(len(rows), dtype=torch.int64)
    states = [step.select(step.start((blank(shape).source, None)), rows) for _ in range(at_once)]
    for _ in range(shape.target):
        for place, state in enumerate(states):
            logits, state = step.step(state, tokens)
            states[place] = step.select(state, torch.arange(len(rows)))
            for leaf in tree_leaves(vars(states[place])):
                for tensor in leaf.read() if isinstance(leaf, KeyValueCache) else (leaf,):
                    ledger.belongs("cache", tensor)
            ledger.belongs("logits", logits)


def largest_shapes(shapes: list[Shape], layers: tuple[int, int]) -> list[Shape]:
    """The batches that may take the most: of the most tokens, weighted by the layers they go through; of the most
    pairs of tokens."""
    encoder, decoder = layers

    def tokens(shape: Shape) -> int:
        return shape.sentences * (encoder * shape.source + decoder * shape.target)

    def pairs(shape: Shape) -> int:
        return shape.sentences * (encoder * shape.source**2 + decoder * shape.target * (shape.source + shape.target))

    return sorted({max(shapes, key=tokens), max(shapes, key=pairs)})


def decoding_shapes(config: RunConfig, workload: Workload, by_engine: bool) -> list[Shape]:
    """The groups that a block of lines like those of the training data is decoded in."""
    corpus = workload.examples.in_epoch(0)
    chosen = range(0, len(corpus), max(1, len(corpus) // _BLOCK))
    source, target = (side.lengths[list(chosen)] for side in (corpus.source, corpus.target))
    limit = 1 if workload.classes else config.decode.max_length
    return [Shape(len(group), int(source[group].max()), min(limit, int(target[group].max())))
            for group in length_groups(source.tolist(), batch_tokens(by_engine, config.decode))]


class Operations(NamedTuple):
    """Floating-point operations of matrix products, two for each multiplication and addition.

    Attributes:
        token: of the forward and backward pass, for each source and target token of typical length.
        step: of the optimizer, once an update, however large the batch: Muon's.
    """

    token: float
    step: float

    def of_update(self, tokens: float) -> float:
        """Of an update on so many tokens."""
        return self.token * tokens + self.step


def rehearse_operations(config: RunConfig, workload: Workload) -> Operations:
    """Those of an update, counted in the plain equations, where attention computes what a mask hides as well."""
    corpus = workload.examples.in_epoch(0)
    shape = Shape(2, round(float(corpus.source.lengths.mean())), round(float(corpus.target.lengths.mean())))
    passes = list[int]()
    with rehearsal(compiled=False) as ledger:
        learner = learner_of(in_micro_batches(config, 1), model_of(config, workload), [blank(shape)], "bf16")
        learner.optimizer.register_step_pre_hook(lambda *_: passes.append(ledger.operations))
        update(learner)
    tokens = shape.sentences * (shape.source + shape.target)
    return Operations(passes[0] / tokens, float(ledger.operations - passes[0]))


def count_launches(config: RunConfig, workload: Workload, shape: Shape) -> int:
    """Tensors that begin in an update of one micro-batch of this shape, in the plain equations: about as many as there
    are operations."""
    with rehearsal(compiled=False) as ledger:
        learner = learner_of(in_micro_batches(config, 1), model_of(config, workload), [blank(shape)], "bf16")
        update(learner)  # makes the optimizer's state
        begun = len(ledger.events)
        update(learner)
        return sum(size > 0 for _, size in ledger.events[begun:])
