"""The peak memory of a whole process, training or decoding: what a rehearsal found, and what is beside tensors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from pellucid.compiled import use_kernels
from pellucid.config import RunConfig
from pellucid.plan.memory import decoding_shapes, largest_shapes, rehearse_average, rehearse_decoding, rehearse_update
from pellucid.plan.process import baseline, kernel_bytes
from pellucid.plan.products import PROBE, count_kernels
from pellucid.plan.rehearsal import Holdings
from pellucid.plan.workload import Shape, Workload, shapes_of
from pellucid.precision import keep_kernels, resolve

_PAIR_BYTES = 72  # lengths, offsets and order of a pair of the training data
_MOST_KERNELS = 65_536  # that precision.keep_kernels lets oneDNN keep


@dataclass(frozen=True)
class Machine:
    """What holds on this machine, whatever the model.

    Attributes:
        precision: of training's products.  compiled: whether the kernels of nn/kernels serve.
        process: bytes of a process that has done nothing yet.
        kernel: bytes that oneDNN keeps for each new shape of a product.
    """

    precision: str
    compiled: bool
    process: int
    kernel: int


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
    keep_kernels()
    device = torch.device("cpu")
    precision = resolve(config.train.precision, device)
    compiled = use_kernels(device, config.train.kernels == "auto") == "compiled"
    process = baseline(precision)
    return Machine(precision, compiled, process, kernel_bytes(config, precision))


def training(config: RunConfig, workload: Workload, machine: Machine) -> Budget:
    """Of `pellucid train`, from the first update to the average of the last checkpoints."""
    batches = workload.batches(config)
    shapes = shapes_of(batches)
    layers = (config.model.encoder_layers, 0 if workload.classes else config.model.decoder_layers)
    rehearsed = [(rehearse_update(config, workload, shape, machine.precision, machine.compiled), shape)
                 for shape in largest_shapes(shapes, layers)]
    update, shape = max(rehearsed, key=lambda pair: pair[0].total)
    peaks = [update.holdings]
    if config.train.average_last > 1:
        peaks.append(rehearse_average(config, workload))
    if config.train.monitor in ("bleu", "exact"):
        greedy = replace(config, decode=replace(config.decode, beam_size=1, n_best=1, sample=False))
        precision, optimizer = greedy.decode.precision, {"optimizer": update.holdings["optimizer"]}
        peaks += [rehearse_decoding(greedy, workload, one, precision, machine.compiled).holdings | optimizer
                  for one in decoding_shapes(greedy, workload)]
    most = max(peaks, key=lambda held: sum(held.values()))
    probe = PROBE._replace(target=1) if workload.classes else PROBE
    products = rehearse_update(config, workload, probe, machine.precision, machine.compiled).products
    seen = len(shapes) if config.train.epochs else min(len(shapes), config.train.steps * config.train.accumulate)
    kernels = count_kernels(products, shapes[:seen], (workload.scale() or 1) if seen == len(shapes) else 1)
    return Budget(_beside(machine, kernels, (workload.count or 0) * _PAIR_BYTES) | most, shape)


def decoding(config: RunConfig, workload: Workload, machine: Machine) -> Budget:
    """Of `pellucid generate`, or `classify`, on texts like those of the training data."""
    shapes = decoding_shapes(config, workload)
    precision = "fp32" if workload.classes else resolve(config.decode.precision, torch.device("cpu"))
    rehearsed = [(rehearse_decoding(config, workload, shape, precision, machine.compiled), shape) for shape in shapes]
    most, shape = max(rehearsed, key=lambda pair: pair[0].total)
    kinds = max(one.sentences for one in shapes) if precision == "bf16" else 0  # each number of those left
    return Budget(_beside(machine, len(most.products) * kinds, 0) | most.holdings, shape)


def _beside(machine: Machine, kernels: int, data: int) -> Holdings:
    held = {"process": machine.process, "kernels": min(kernels, _MOST_KERNELS) * machine.kernel, "data": data}
    return {holder: size for holder, size in held.items() if size}
