"""pellucid doctor CONFIG|RUN"""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.cli.arguments import parse_with_overrides, read_config, run_folder
from pellucid.cli.fields import Positional
from pellucid.language import shortened

if TYPE_CHECKING:
    from pellucid.doctor.checkup import Checkup
    from pellucid.doctor.finding import Finding

_MOST_COLUMNS = 80
_BROKEN = 3  # the exit code
_BAR = 30  # characters of the longest bar of a histogram


@dataclass
class Doctor:
    """Find what is wrong with the data or the machine before an hour is lost on it.

    For example: pellucid doctor multi30k-en-de --data.train.source train.en --data.train.target train.de. Any
    configuration key can be given as --section.key value. Ends with 3 where something is broken.
    """

    config: Positional[str]
    """a recipe's name, a YAML file, or a run folder"""
    out: Path | None = None
    """where the run would be written, for the free disk; runs/NAME if left out"""
    json: bool = False
    """print the report as JSON"""


def main(program: str, words: Sequence[str]) -> int:
    """Examines, prints, and says by the exit code whether training may begin."""
    arguments, overrides = parse_with_overrides(Doctor, program, words)
    run, config = run_folder(arguments.config), read_config(arguments.config, overrides)
    from pellucid.doctor.checkup import check_up
    from pellucid.train.journal import Reporter

    out = run or arguments.out or Path("runs") / Path(arguments.config).stem
    with Reporter() as reporter:
        report = check_up(config, run, out, reporter.progress)
    print(json.dumps(report.to_mapping(), ensure_ascii=False) if arguments.json
          else "\n".join(as_text(report, arguments.config, min(shutil.get_terminal_size().columns, _MOST_COLUMNS))))
    return _BROKEN if report.count("broken") else 0


def as_text(report: Checkup, subject: str, width: int) -> Iterator[str]:
    """The report for people, in lines of `width` characters where file names allow."""
    counts = {name: report.count(name) for name in ("broken", "warning", "note")}
    yield (f"{subject}: {counts['broken']} broken, {_many(counts['warning'], 'warning')}, "
           f"{_many(counts['note'], 'note')}")
    told: set[tuple[str, str]] = set()
    for finding in report.findings:
        advice = finding.cost, finding.do
        yield ""
        yield from _finding(finding, width, () if advice in told else advice)
        told.add(advice)
    yield ""
    yield from _facts(report.facts, width)


def _wrapped(label: str, text: str, width: int, indent: int = 9) -> list[str]:
    lines = textwrap.wrap(text.replace(" %", "\xa0%"), width, initial_indent=f"{label:<{indent}}",
                          subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\xa0", " ") for line in lines]


def _finding(finding: Finding, width: int, advice: Sequence[str]) -> Iterator[str]:
    """What it costs and what to do about it, `advice`, is said once for all findings that share it."""
    indent = " " * 9
    share = "" if finding.share is None else f": {finding.count:,} of {finding.total:,} ({_percent(finding.share)})"
    yield from _wrapped(finding.severity, f"{finding.where}: {finding.what}{share}  [{finding.kind}]", width)
    for example in finding.examples:
        yield f"{indent}{example.place}"
        joined = " | ".join(example.texts)
        for text in [joined] if len(joined) <= width - 11 else example.texts:
            if text:
                yield f"{indent}  {shortened(text, width - 11)}"
    for name, text in zip(("costs:", "do:"), advice, strict=False):
        if text:
            yield from _wrapped(f"{indent}{name}", text, width, 16)


def _facts(facts: dict[str, Any], width: int) -> Iterator[str]:
    data, machine = facts["data"], facts["environment"]
    splits = [f"{name} {data[name]['records']:,}" for name in ("train", "validation", "test") if name in data]
    yield f"records      {', '.join(splits)}"
    if tokens := data.get("tokens"):
        yield f"vocabulary   {tokens['vocabulary']:,} tokens, {_percent(tokens['unknown'])} of the text unknown"
        if "filled" in tokens:
            yield from _wrapped("batches", f"{tokens['batches_per_epoch']:,} an epoch, {tokens['epochs']:,g} epochs, "
                                f"{_percent(tokens['filled'])} filled (the rest is padding)", width, 13)
        for side, lengths in tokens["lengths"].items():
            yield ""
            yield from _wrapped("", f"{side} tokens: median {lengths['median']}, 95 % up to {lengths['p95']}, "
                                f"99 % up to {lengths['p99']}, longest {lengths['longest']}", width, 0)
            most = max(lengths["histogram"].values(), default=0)
            for span, count in lengths["histogram"].items():
                yield f"  {span:>9}  {'█' * round(_BAR * count / max(most, 1)):<{_BAR}} {count:,}"
    yield ""
    yield from _wrapped(
        "environment", f"{machine['device']}, {_many(machine['cores'], 'core')}, "
        f"{_many(machine['threads'], 'thread')}, {', '.join(machine['features']) or 'no vector extensions known'}; "
        f"{machine['precision']} products, kernels {machine['kernels']}; {machine['parameters']:,} parameters; "
        f"{machine['free_disk_bytes'] / 2**30:.1f} GiB of disk free; Python {machine['python']}, torch "
        f"{machine['packages']['torch']}", width, 13)
    if run := facts.get("run"):
        resumes = ("a slim copy, which cannot be resumed" if run["slim"] else
                   f"resumes from {run['resumes_from'] or 'the beginning'}")
        yield from _wrapped("run", f"{run['whole']} of {_many(run['checkpoints'], 'checkpoint')} whole, best "
                            f"{run['best'] or 'none'}, {resumes}", width, 13)


def _many(count: int, name: str) -> str:
    return f"{count:,} {name}" if count == 1 else f"{count:,} {name}s"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share >= 0.001 or share == 0 else f"{100 * share:.3f} %"
