"""pellucid plan CONFIG"""

from __future__ import annotations

import json
import re
import shutil
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pellucid.cli.arguments import parse_with_overrides, read_config
from pellucid.cli.fields import Positional
from pellucid.cli.sizes import in_words, read_bytes, read_rate
from pellucid.errors import ConfigError
from pellucid.language import shortened

if TYPE_CHECKING:
    from pellucid.inspection.measures import Part
    from pellucid.plan.budget import Budget
    from pellucid.plan.fit import Fit
    from pellucid.plan.plan import Plan

_WIDE = 60  # columns from which each row has room on a line


@dataclass
class PlanCommand:
    """What a run will take, before it runs: parameters, operations, peak memory, disk and time.

    Any configuration key can be given as --section.key value. For example: pellucid plan demo --memory 2GiB
    """

    config: Positional[str]
    """a recipe's name (see `pellucid recipes`) or a YAML file"""
    memory: str | None = None
    """a memory that training should fit into, such as 8GiB or 600MB: says whether it does, and the largest batch"""
    world: int | None = None
    """so many ranks, up to 1,024: their speed, waiting, traffic and memory as well"""
    per_host: int | None = None
    """ranks of a host; as many as there are cores here, or 8 with --gpu, if left out"""
    gpu: str | None = None
    """the GPU of each rank, such as H100; a core like those here if left out"""
    network: str | None = None
    """what a host sends to others, such as 40GB/s or 100Gbit/s; 12.5GB/s if left out"""
    no_calibration: bool = False
    """do not time a few real updates (about ten seconds)"""
    json: bool = False
    """print the plan as JSON"""


def main(program: str, words: Sequence[str]) -> int:
    """Plans, and prints a table."""
    arguments, overrides = parse_with_overrides(PlanCommand, program, words)
    config = read_config(arguments.config, overrides)
    memory = None if arguments.memory is None else read_bytes(arguments.memory)
    network = None if arguments.network is None else read_rate(arguments.network)
    _check_world(arguments)
    from pellucid.plan.plan import as_json, plan
    from pellucid.plan.ranks import Asked
    from pellucid.train.journal import Reporter

    world = (None if arguments.world is None else
             Asked(arguments.world, arguments.gpu, network, arguments.per_host))

    width = max(40, min(80, shutil.get_terminal_size().columns))
    with Reporter() as reporter:
        made = plan(config, memory, not arguments.no_calibration, reporter.progress, world)
    print(json.dumps(as_json(made), ensure_ascii=False) if arguments.json else "\n".join(as_lines(made, width)))
    return 0


def _check_world(arguments: PlanCommand) -> None:
    """Refuses what says something of a world where none is asked for."""
    for name in ("gpu", "network", "per_host"):
        if arguments.world is None and vars(arguments)[name] is not None:
            raise ConfigError("of how many ranks?", where=f"--{name.replace('_', '-')}", fix="add --world, such as 8")


def as_lines(plan: Plan, width: int) -> Iterator[str]:
    """The plan for people, in lines of at most `width` characters (40 or more)."""
    from pellucid.cli.plan_world import world_lines
    from pellucid.doctor.busy import BUSY

    row = partial(_row, width)

    def titled(text: str) -> str:
        return "\n" + textwrap.fill(text, width)

    def said(text: str) -> str:
        return textwrap.fill(text, width, initial_indent="  ", subsequent_indent="    ")

    def memory(name: str, holdings: dict[str, int]) -> Iterator[str]:
        yield titled(f"Peak memory of {name}")
        for holder, size in sorted(holdings.items(), key=lambda item: -item[1]):
            yield row(holder, in_words(size), size / sum(holdings.values()))
        yield row("all", in_words(sum(holdings.values())))

    def held(name: str, budget: Budget) -> Iterator[str]:
        sentences, source, target = budget.shape
        yield from memory(name, budget.holdings)
        yield said(f"with {sentences:,} sentences of {source:,} and {target:,} tokens in the largest batch")

    total, machine = sum(part.parameters for part in plan.parts), plan.machine
    yield "Parameters"
    yield from (row(name, f"{count:,}", count / total) for name, count in _grouped(plan.parts).items())
    yield row("all", f"{total:,}")
    yield "\nFloating-point operations of training"
    yield from (row(name, f"{count:.3g}") for name, count in _operations(plan))
    kernels = "compiled" if machine.compiled else "plain"
    if plan.tokenizer:
        yield from memory("the tokenizer's training", plan.tokenizer)
        yield said("the most that `pellucid train` takes; a lower tokenizer.sample_characters takes less"
                   if plan.peak == "tokenizer" else "training the model takes more")
    yield from held(f"training ({machine.precision}, {kernels} kernels)", plan.training)
    yield from held("decoding", plan.decoding)
    yield "\nDisk"
    yield from (row(name, in_words(size)) for name, size in plan.disk.items() if size)
    times = dict(_times(plan))
    if times:
        yield "\nTime"
        yield from (row(name, value) for name, value in times.items())
    if plan.speed is not None:
        yield said(f"by {plan.speed.workers}")
        if plan.speed.others is not None and plan.speed.others >= BUSY:
            yield said(f"the machine is busy: other processes take about {100 * plan.speed.others:.0f} % of it; the "
                       "time is that of a machine as busy as now")
    if plan.fit is not None:
        yield from _fit_lines(plan, plan.fit, said)
    if plan.ranks is not None:
        yield from world_lines(plan.ranks, row, said, titled)
    if plan.assumptions:
        yield "\nAssumed"
        yield from map(said, plan.assumptions)
    if plan.notes:
        yield "\nNotes"
        yield from map(said, plan.notes)


def _operations(plan: Plan) -> Iterator[tuple[str, float]]:
    """Floating-point operations, by what they are of."""
    token, step = plan.operations
    yield "a token", token
    if step:
        yield f"a step of {plan.config.train.optimizer}", step
    yield f"an update of {plan.updates.tokens:,.0f} tokens", plan.operations.of_update(plan.updates.tokens)


def _row(width: int, name: str, value: str, share: float | None = None) -> str:
    """A name, its value, and the share that it is of all; a name that leaves too little room stands above them."""
    told = "" if share is None else f"{100 * share:5.1f} %"
    if width < _WIDE:
        room = width - 21
        first = textwrap.fill(f"  {name}", width) + f"\n  {'':<{room}}" if len(name) > room else f"  {name:<{room}}"
        return f"{first} {value:>10} {told}".rstrip()
    room = min(35, width - 26)
    drawn = "" if share is None else "█" * round((width - room - 27) * share)
    return f"  {shortened(name, room):<{room}} {value:>13}  {told}  {drawn}".rstrip()


def _fit_lines(plan: Plan, fit: Fit, said: Callable[[str], str]) -> Iterator[str]:
    """What goes into the memory that was asked about."""
    yield f"\nIn {in_words(fit.memory)}"
    yield said(f"train.{fit.key} {fit.configured:,} {'fits' if fit.fits else 'does not fit'}")
    yield said(f"the largest tried that fits: --train.{fit.key} {fit.largest}" if fit.largest is not None else
               f"no batch does: the most modest one tried takes {in_words(fit.least)}, "
               f"{in_words(plan.machine.training)} of it before there is a model")
    if sum(plan.tokenizer.values()) > fit.memory:
        yield said("the tokenizer's training does not fit; a lower tokenizer.sample_characters takes less")


def _times(plan: Plan) -> Iterator[tuple[str, str]]:
    """What is known of updates and their time."""
    from pellucid.train.journal import duration

    updates = plan.updates
    if updates.per_epoch is not None:
        yield "updates an epoch", f"{updates.per_epoch:,.0f}"
    if updates.total is not None:
        yield "updates", f"{updates.total:,}"
    if plan.speed is not None:
        yield "tokens a second, here", f"{plan.speed.tokens_per_second:,.0f}"
        yield "an update", f"{updates.tokens / plan.speed.tokens_per_second:.3g} s"
    if plan.seconds is not None:
        yield "all, validations aside", f"about {duration(plan.seconds)}"


def _grouped(parts: Sequence[Part]) -> dict[str, int]:
    """Parameters by part; the layers of a stack together, a shared matrix by its first name alone."""
    counts: dict[str, int] = {}
    for part in parts:
        name = re.sub(r" = .*", " (shared)", re.sub(r"layer \d+", "layers", part.name))
        counts[name] = counts.get(name, 0) + part.parameters
    return counts
