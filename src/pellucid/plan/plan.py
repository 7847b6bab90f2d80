"""`pellucid plan`: what a configuration will take, before anything runs."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields

import torch

from pellucid.config import RunConfig
from pellucid.config.checks import refuse_readers
from pellucid.config.lengths import too_short
from pellucid.inspection.measures import Part, parameters_by_part
from pellucid.model.build import check
from pellucid.plan.budget import Budget, Machine, decoding, look_at_machine, training
from pellucid.plan.calibration import Speed, measure
from pellucid.plan.fit import Fit, largest_batch
from pellucid.plan.learner import model_of
from pellucid.plan.memory import Operations, rehearse_operations
from pellucid.plan.ranks import Asked, Ranks, completed, plan_ranks
from pellucid.plan.ranks import as_json as ranks_as_json
from pellucid.plan.rehearsal import Holdings, rehearsal
from pellucid.plan.workload import Workload, workload_of
from pellucid.train.length import steps_of

_WEIGHT = 4  # bytes a parameter: fp32
_PAIR = 16  # bytes of the places of a pair's two sides


@dataclass(frozen=True)
class Updates:
    """How the data falls into updates; None where nobody knows how much data there is.

    Attributes:
        per_epoch, total: updates.
        tokens: source and target tokens of an update, padding not counted.
    """

    per_epoch: float | None
    total: int | None
    tokens: float


@dataclass(frozen=True)
class Plan:
    """Everything that was found out; bytes and seconds.

    Attributes:
        operations: of an update's matrix products.
        speed: of updates, or None where it was not measured.
        tokenizer: bytes by what holds them while it is trained; none where that is not known, or it is not.
        disk: bytes by what lies there.
        ranks: a world of them, where one is asked for.
    """

    config: RunConfig
    machine: Machine
    parts: list[Part]
    updates: Updates
    operations: Operations
    training: Budget
    decoding: Budget
    tokenizer: Holdings
    disk: Holdings
    speed: Speed | None
    fit: Fit | None
    assumptions: tuple[str, ...]
    ranks: Ranks | None = None

    @property
    def seconds(self) -> float | None:
        """Of all updates."""
        if self.speed is None or self.updates.total is None:
            return None
        return self.updates.total * self.updates.tokens / self.speed.tokens_per_second

    @property
    def peak(self) -> str:
        """The step of `pellucid train` that takes the most memory: "tokenizer" or "training"."""
        return "tokenizer" if sum(self.tokenizer.values()) > self.training.total else "training"

    @property
    def notes(self) -> list[str]:
        """What the run is too short for."""
        total, per_epoch = self.updates.total, self.updates.per_epoch
        return [] if total is None else too_short(self.config.train, total, None if per_epoch is None else
                                                  max(1, round(per_epoch)))


def plan(config: RunConfig, memory: int | None, calibrate: bool, say: Callable[[str], None],
         world: Asked | None = None) -> Plan:
    """Finds out what `config` will take on this machine's processor.

    Args:
        memory: bytes that training should fit into, or None.
        calibrate: whether to time a few real updates.
        world: of ranks, to be planned as well.

    Raises:
        UserError: what training would stop at before its first step, missing data aside.
    """
    check(config.model)
    refuse_readers(config, "plan", "task")
    world = None if world is None else completed(world, config)  # before any data is read
    say("looking at this machine")
    machine = look_at_machine(config)
    workload = workload_of(config, say)
    say("rehearsing an update and a search")
    with rehearsal(compiled=False):
        parts = parameters_by_part(model_of(config, workload))
    updates = updates_of(config, workload)
    assumptions = workload.assumptions
    if torch.cuda.is_available():
        assumptions += ("training uses the GPU that is here; memory and time are those of the processor",)
    trained = training(config, workload, machine)
    fit = None if memory is None else largest_batch(config, workload, machine, memory, say)
    ranks = None if world is None else plan_ranks(config, workload, machine, world, calibrate, say)
    disk = disk_of(config, workload, sum(p.parameters for p in parts), trained.holdings["optimizer"])
    return Plan(config, machine, parts, updates, rehearse_operations(config, workload), trained,
                decoding(config, workload, machine), _with_process(workload.tokenizer, machine), disk,
                measure(config, workload, machine.precision, say) if calibrate else None, fit,
                assumptions, ranks)


def _with_process(held: Holdings, machine: Machine) -> Holdings:
    return {"process": machine.training, **held} if held else {}


def updates_of(config: RunConfig, workload: Workload) -> Updates:
    """Counts, as training does."""
    train, corpus, scale = config.train, workload.examples.in_epoch(0), workload.scale()
    batches = workload.batches(config).per_epoch
    tokens = float(corpus.source.lengths.sum() + corpus.target.lengths.sum()) / batches * train.accumulate
    if scale is None:
        return Updates(None, None if train.epochs else train.steps, tokens)
    per_epoch = batches * scale / train.accumulate
    return Updates(per_epoch, steps_of(config, batches if scale == 1 else round(batches * scale)), tokens)


def disk_of(config: RunConfig, workload: Workload, parameters: int, moments: int) -> Holdings:
    """The run folder when it is largest, with so many bytes of moments, and the ids in the cache."""
    train, corpus = config.train, workload.examples.in_epoch(0)
    checkpoint = moments + parameters * _WEIGHT * (2 if train.ema_decay else 1)
    kept = train.average_last + 1  # the last ones, and the best
    ids = float(corpus.source.lengths.sum() + corpus.target.lengths.sum()) * (workload.scale() or 0)
    width = 2 if max(workload.source_vocab, workload.target_vocab) <= 2**16 else 4
    return {"a checkpoint": checkpoint, "checkpoints kept": kept * checkpoint,
            "one being written": checkpoint,
            "average of checkpoints": parameters * _WEIGHT if train.average_last > 1 else 0,
            "ids of the training data": round(ids * width) + (workload.count or 0) * _PAIR}


def as_json(plan: Plan) -> dict[str, object]:
    """The plan as plain data."""
    total, operations = sum(part.parameters for part in plan.parts), plan.operations
    return {
        "parameters": {"total": total, "parts": [{"name": part.name, "parameters": part.parameters,
                                                  "share": part.parameters / total} for part in plan.parts]},
        "flops": {"per_token": operations.token, "optimizer": operations.step,
                  "per_update": operations.of_update(plan.updates.tokens)},
        "updates": asdict(plan.updates),
        "memory": {name: {"bytes": budget.total, "held_by": budget.holdings, "batch": budget.shape._asdict()}
                   for name, budget in (("training", plan.training), ("decoding", plan.decoding))} | {
            "tokenizer": {"bytes": sum(plan.tokenizer.values()), "held_by": plan.tokenizer} if plan.tokenizer else None,
            "peak": plan.peak},
        "precision": plan.machine.precision, "kernels": "compiled" if plan.machine.compiled else "plain",
        "disk": plan.disk,
        "time": (dict.fromkeys(field.name for field in fields(Speed)) if plan.speed is None else asdict(plan.speed)) | {
            "seconds": plan.seconds},
        "fit": None if plan.fit is None else asdict(plan.fit), "assumptions": list(plan.assumptions),
        "notes": plan.notes, "world": None if plan.ranks is None else ranks_as_json(plan.ranks)}
