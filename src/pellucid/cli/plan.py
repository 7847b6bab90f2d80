"""pellucid plan CONFIG"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import tyro

from pellucid.cli.arguments import parse_with_overrides, read_config
from pellucid.errors import ConfigError

if TYPE_CHECKING:
    from pellucid.plan.budget import Budget
    from pellucid.plan.plan import Plan

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_BAR = 18  # characters


@dataclass
class PlanCommand:
    """What a run will take, before it runs: parameters, operations, peak memory, disk and time.

    Any configuration key can be given as --section.key value. For example: pellucid plan demo --memory 2GiB
    """

    config: tyro.conf.Positional[str]
    """a recipe's name (see `pellucid recipes`) or a YAML file"""
    memory: str | None = None
    """a memory that training should fit into, such as 8GiB or 600MB: says whether it does, and the largest batch"""
    no_calibration: bool = False
    """do not time a few real updates (about ten seconds)"""
    json: bool = False
    """print the plan as JSON"""


def main(program: str, words: Sequence[str]) -> int:
    """Plans, and prints a table."""
    arguments, overrides = parse_with_overrides(PlanCommand, program, words)
    config = read_config(arguments.config, overrides)
    memory = None if arguments.memory is None else read_bytes(arguments.memory)
    from pellucid.plan.plan import as_json, plan
    from pellucid.train.journal import Reporter

    made = plan(config, memory, not arguments.no_calibration, Reporter().progress)
    print(json.dumps(as_json(made), ensure_ascii=False) if arguments.json else "\n".join(as_lines(made)))
    return 0


def read_bytes(text: str) -> int:
    """8GiB → 8 · 2³⁰; 600MB → 600 · 10⁶.

    Raises:
        ConfigError: it is no size.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", text.lower())
    size = round(float(match[1]) * _UNITS[match[2] or ""]) if match else 0
    if size < 1:
        raise ConfigError(f"{text!r} is no size of a memory", where="--memory", fix="write 8GiB, or 600MB")
    return size


def in_words(size: float) -> str:
    """1610612736 → "1.50 GiB"."""
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.2f} GiB"


def as_lines(plan: Plan) -> Iterator[str]:
    """The plan for people, 80 columns wide."""
    from pellucid.train.journal import duration

    total, updates = sum(part.parameters for part in plan.parts), plan.updates
    yield "Parameters"
    for part in plan.parts:
        yield _row(part.name, f"{part.parameters:,}", part.parameters / total)
    yield _row("all", f"{total:,}", None)
    yield f"\nOperations: {plan.flops:.3g} a token, {plan.flops * updates.tokens:.3g} an update of "
    yield f"{updates.tokens:,.0f} source and target tokens"
    kernels = "compiled" if plan.machine.compiled else "plain"
    yield from _budget(f"training, {plan.machine.precision} products, {kernels} kernels", plan.training)
    yield from _budget("decoding", plan.decoding)
    yield "\nDisk"
    yield from (_row(name, in_words(size), None) for name, size in plan.disk.items() if size)
    yield "\nTime"
    if updates.per_epoch is not None:
        yield f"  an epoch is {updates.per_epoch:,.0f} updates"
    if plan.speed is not None:
        yield (f"  {plan.speed:,.0f} tokens/s here, {updates.tokens / plan.speed:.3g} s an update")
    if plan.seconds is not None:
        yield f"  {updates.total:,} updates in about {duration(plan.seconds)}, validations not counted"
    if plan.fit is not None:
        fit = plan.fit
        answer = "fits" if fit.fits else "does not fit"
        yield f"\nIn {in_words(fit.memory)}: train.{fit.key} {fit.configured:,} {answer}"
        yield (f"  the largest that does: --train.{fit.key} {fit.largest}" if fit.largest is not None
               else "  not even the smallest batch does: choose a smaller model or vocabulary, or shorter texts")
    if plan.assumptions:
        yield "\nAssumed"
        yield from (f"  {line}" for line in plan.assumptions)


def _budget(name: str, budget: Budget) -> Iterator[str]:
    sentences, source, target = budget.shape
    yield f"\nPeak memory of {name}"
    for holder, size in sorted(budget.holdings.items(), key=lambda item: -item[1]):
        yield _row(holder, in_words(size), size / budget.total)
    yield _row("all", in_words(budget.total), None)
    yield f"  when {sentences:,} sentences of {source:,} and {target:,} tokens are one batch"


def _row(name: str, value: str, share: float | None) -> str:
    name = name if len(name) <= 34 else name[:33] + "…"
    told = "" if share is None else f"{100 * share:5.1f} %  {'█' * round(_BAR * share)}"
    return f"  {name:<34} {value:>14}  {told}".rstrip()
