"""The peak memory of a whole process, training or decoding: what a rehearsal found, and what is beside tensors."""

import math
from dataclasses import dataclass, replace

import torch

from pellucid.config import RunConfig
from pellucid.data.blocks import BLOCK, WINDOW
from pellucid.kernels.allocator import in_use
from pellucid.kernels.compiled import use_kernels
from pellucid.plan.memory import (
    decodes_by_engine,
    decoding_shapes,
    largest_shapes,
    rehearse_average,
    rehearse_decoding,
    rehearse_updates,
)
from pellucid.plan.process import baselines, primitive_bytes
from pellucid.plan.products import PROBE, count_primitives
from pellucid.plan.rehearsal import Holdings
from pellucid.plan.workload import Shape, Workload, shapes_of, workers_of
from pellucid.precision import PRIMITIVES, keep_primitives, resolve, resolve_packed

_PAIR_BYTES = 72  # lengths, offsets and order of a pair of the training data, of which two windows are there
_HOLES = {"decoding": 1.0, "training": 1.8, "training with primitives": 3.0}  # glibc 2.36, see docs/plan.md
_FEWER = {"tcmalloc": {"training": 0.4, "training with primitives": 0.5}}  # 2.10; nothing was fitted to the others
_MIB = 2**20
_PASSING = ("activations", "logits", "gradients")  # of each worker's own part of a batch
_WORKER = 24 * _MIB  # what a worker has written to of what it began with


@dataclass(frozen=True)
class Machine:
    """What holds on this machine, whatever the model.

    Attributes:
        precision: of training's products.  compiled: whether the C++ kernels serve.
        decoding, training: bytes of a process that has loaded what the one or the other needs, and no model.
        primitive: bytes that oneDNN keeps for each new shape of a product; none for fp32, which it does not compute.
    """

    precision: str
    compiled: bool
    decoding: int
    training: int
    primitive: int


@dataclass(frozen=True)
class Budget:
    """Bytes by what holds them when a process holds the most, and the batch that makes it so."""

    holdings: Holdings
    shape: Shape

    @property
    def total(self) -> int:
        """All bytes."""
        return sum(self.holdings.values())


def look_at_machine(config: RunConfig) -> Machine:
    """Measures; before anything of plan/rehearsal.py has run, so that the process is as training's."""
    keep_primitives()
    device = torch.device("cpu")
    precision = resolve(config.train.precision, device)
    compiled = use_kernels(device, config.train.kernels == "auto") == "compiled"
    return Machine(precision, compiled, *baselines(precision),
                   primitive_bytes(config) if precision == "bf16" else 0)


def training(config: RunConfig, workload: Workload, machine: Machine) -> Budget:
    """Of `pellucid train`, from the first update to the average of the last checkpoints."""
    train, known, shapes = config.train, workload.batches(config), shapes_of(workload.epoch(config))
    workers = workers_of(config, known).count
    layers = (config.model.encoder_layers, 0 if workload.classes else config.model.decoder_layers)
    largest = largest_shapes(shapes, layers)
    probe = PROBE._replace(target=1) if workload.classes else PROBE
    parts = [shape._replace(sentences=-(-shape.sentences // workers)) for shape in largest]
    *rehearsed, (_, products) = rehearse_updates(config, workload, [*parts, probe], machine.precision,
                                                 machine.compiled)
    update, shape = max(((held, shape) for (held, _), shape in zip(rehearsed, largest, strict=True)),
                        key=lambda one: _total(one[0]))
    times = dict.fromkeys(_PASSING, workers) | {"gradients": 2 * workers - 1}  # the others' lie where all see them, too
    update = {holder: size * times.get(holder, 1) for holder, size in update.items()}
    standing = {holder: update[holder] for holder in ("optimizer", "moving average") if holder in update}
    peaks = [update]
    if train.average_last > 1:
        peaks.append(rehearse_average(config, workload) | standing)
    if train.monitor in ("bleu", "exact"):
        greedy = replace(config, decode=replace(config.decode, beam_size=1, n_best=1, sample=False))
        peaks.append(_search(greedy, workload, machine)[0] | standing)
    batches = (math.ceil(train.epochs * known.per_epoch * (workload.scale() or 1)) if train.epochs else
               train.steps * train.accumulate)
    passes = 2 if train.r_drop else 1
    primitives = count_primitives(products, shapes[:batches], passes) if machine.primitive else 0
    passing = sum(update.get(holder, 0) // times[holder] for holder in _PASSING)
    work = "training with primitives" if primitives else "training"
    beside = {"process": machine.training, "other workers": (workers - 1) * _WORKER,
              "kernels": workers * min(primitives, PRIMITIVES) * machine.primitive,
              "holes": workers * _holes(passing, batches, work),
              "data": min(workload.count or 0, 2 * WINDOW * BLOCK) * _PAIR_BYTES}
    return Budget(_filled(beside | max(peaks, key=_total)), shape)


def _holes(passing: int, batches: float, work: str) -> int:
    """What the allocator can neither use nor give back of `passing` bytes that come and go: room between blocks that
    stay, too small for the next tensor.

    It grows with the logarithm of the number of batches, of all epochs: each further one finds more of what the ones
    before left, and seldom a place where none has been. Primitives, which stay where they were made, break up more of
    it. And with the power 2/3 of the bytes: the more there are, the larger the blocks, which leave less between them.
    """
    holes = _HOLES | _FEWER.get(in_use(), {})
    return round(holes[work] * math.log(max(1, batches)) * math.pow(passing / _MIB, 2 / 3) * _MIB)


def decoding(config: RunConfig, workload: Workload, machine: Machine) -> Budget:
    """Of `pellucid generate`, or `classify`, on texts like those of the training data."""
    held, shape, groups = _search(config, workload, machine)
    holes = _holes(held["weights"] + held.get("activations", 0), groups, "decoding")  # weights are read, copied
    return Budget(_filled({"process": machine.decoding, "holes": holes} | held), shape)


def _search(config: RunConfig, workload: Workload, machine: Machine) -> tuple[Holdings, Shape, int]:
    """Of the groups of the most sentences and of the most tokens the larger: what is held, its shape; all groups."""
    by_engine = decodes_by_engine(config, workload, machine.compiled)
    shapes = decoding_shapes(config, workload, by_engine)
    at_once = min(torch.get_num_threads(), len(shapes))
    precision = resolve_packed(config.decode.precision, torch.device("cpu"))
    most = {max(shapes, key=lambda s: s.sentences), max(shapes, key=lambda s: s.sentences * s.target)}
    rehearsed = [(rehearse_decoding(config, workload, shape, precision, machine.compiled, by_engine, at_once), shape)
                 for shape in sorted(most)]
    held, shape = max(rehearsed, key=lambda one: _total(one[0]))
    return held, shape, len(shapes)


def _total(held: Holdings) -> int:
    return sum(held.values())


def _filled(held: Holdings) -> Holdings:
    return {holder: size for holder, size in held.items() if size}
