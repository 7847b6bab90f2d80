"""pellucid doctor CONFIG|RUN"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from pellucid.cli.arguments import parse_with_overrides, read_config
from pellucid.config import RunConfig, from_mapping, to_mapping
from pellucid.strict_reader import merge

if TYPE_CHECKING:
    from pellucid.checkup import Checkup
    from pellucid.data.doctor.finding import Finding

_WIDTH = 79
_BROKEN = 3  # the exit code
_BAR = 30  # characters of the longest bar of a histogram


@dataclass
class Doctor:
    """Find what is wrong with the data or the machine before an hour is lost on it.

    For example: pellucid doctor multi30k-en-de --data.train.source train.en --data.train.target train.de. Any
    configuration key can be given as --section.key value. Ends with 3 where something is broken.
    """

    config: tyro.conf.Positional[str]
    """a recipe's name, a YAML file, or a run folder"""
    out: Path | None = None
    """where the run would be written, for the free disk; runs/NAME if left out"""
    json: bool = False
    """print the report as JSON"""


def main(program: str, words: Sequence[str]) -> int:
    """Examines, prints, and says by the exit code whether training may begin."""
    arguments, overrides = parse_with_overrides(Doctor, program, words)
    run = Path(arguments.config) if Path(arguments.config).is_dir() else None
    config = _of_run(run, overrides) if run is not None else read_config(arguments.config, overrides)
    from pellucid.checkup import check_up
    from pellucid.train.journal import Reporter

    out = run or arguments.out or Path("runs") / Path(arguments.config).stem
    report = check_up(config, run, out, Reporter().progress)
    print(json.dumps(report.to_mapping(), ensure_ascii=False) if arguments.json
          else "\n".join(as_text(report, arguments.config)))
    return _BROKEN if report.count("broken") else 0


def _of_run(run: Path, overrides: dict[str, Any]) -> RunConfig:
    from pellucid.run_folder import read_config as read_run_config

    return from_mapping(merge(to_mapping(read_run_config(run)), overrides))


def as_text(report: Checkup, subject: str) -> Iterator[str]:
    """The report for people, in lines of at most 79 characters where file names allow."""
    counts = [f"{report.count(name)} {name if report.count(name) == 1 or name == 'broken' else name + 's'}"
              for name in ("broken", "warning", "note")]
    yield f"{subject}: {', '.join(counts)}"
    for finding in report.findings:
        yield ""
        yield from _finding(finding)
    yield ""
    yield from _facts(report.facts)


def _finding(finding: Finding) -> Iterator[str]:
    label, indent = f"{finding.severity:<9}", " " * 9
    yield from textwrap.wrap(f"{finding.where}: {finding.what}  [{finding.kind}]", _WIDTH, initial_indent=label,
                             subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    if finding.share is not None and finding.kind != "unreadable":
        share = f"{finding.share:.1%}" if finding.share >= 0.001 else f"{finding.share:.3%}"
        yield f"{indent}{finding.count:,} of {finding.total:,} ({share.replace('%', ' %')})"
    for example in finding.examples:
        yield f"{indent}{example.place}"
        if example.text:
            yield f"{indent}  {example.text}"
    for name, text in (("costs:", finding.cost), ("do:", finding.do)):
        if text:
            yield from textwrap.wrap(text, _WIDTH, initial_indent=f"{indent}{name:<7}",
                                     subsequent_indent=indent + " " * 7, break_long_words=False, break_on_hyphens=False)


def _facts(facts: dict[str, Any]) -> Iterator[str]:
    data, machine = facts["data"], facts["environment"]
    splits = [f"{name} {data[name]['records']:,}" for name in ("train", "validation", "test") if name in data]
    yield f"records      {', '.join(splits)}"
    if tokens := data.get("tokens"):
        yield f"vocabulary   {tokens['vocabulary']:,} tokens, {tokens['unknown']:.2%} of the text unknown"
        if "filled" in tokens:
            yield (f"batches      {tokens['batches_per_epoch']:,} an epoch, {tokens['epochs']:g} epochs, "
                   f"{tokens['filled']:.1%} filled (the rest is padding)")
        for side, lengths in tokens["lengths"].items():
            yield ""
            yield (f"{side} tokens: median {lengths['median']}, 95 % up to {lengths['p95']}, 99 % up to "
                   f"{lengths['p99']}, longest {lengths['longest']}")
            most = max(lengths["histogram"].values(), default=0)
            for span, count in lengths["histogram"].items():
                bar = "█" * round(_BAR * count / max(most, 1))
                yield f"  {span:>9}  {bar:<{_BAR}} {count:,}"
    yield ""
    yield from textwrap.wrap(
        f"environment  {machine['device']}, {machine['cores']} cores, {machine['threads']} threads, "
        f"{', '.join(machine['processor']) or 'no vector extensions known'}; {machine['precision']} products, kernels "
        f"{machine['kernels']}; {machine['parameters']:,} parameters; {_gib(machine['free_memory_bytes'])} of memory "
        f"and {_gib(machine['free_disk_bytes'])} of disk free; Python {machine['python']}, torch "
        f"{machine['packages']['torch']}", _WIDTH, subsequent_indent=" " * 13, break_on_hyphens=False)
    if run := facts.get("run"):
        yield (f"run          {run['whole']} of {run['checkpoints']} checkpoints whole, best {run['best']}, "
               f"resumes from {run['resumes_from']}")


def _gib(count: int | None) -> str:
    return "?" if count is None else f"{count / 2**30:.1f} GiB"
