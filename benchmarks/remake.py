"""Makes the figures of README and docs again: `python -m benchmarks.remake [LINE …] [--quick] [--list] [--data DIR]`.

Each line of benchmarks/claims.yaml has its commands, its places in the text and its bands. What is done is kept in
`results/`, so that the same command goes on where it was stopped. At the end stands what moved, with both values and
both machines, and what fell out of its band (exit code 1); `results/text.diff` holds the new text, and `--write` writes
it. With `--quick` smaller versions run, in minutes; they are held to bands of their own and leave the text alone.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.claims import ROOT, Claims, Line, Version, read_claims
from benchmarks.desk import CommandFailed, Desk
from benchmarks.places import Spot, find, read_pages
from benchmarks.readings import values_of
from benchmarks.tables import cells
from benchmarks.verdicts import Verdict, difference, judge, rewritten, told
from pellucid.errors import ConfigError, DataError, UserError


@dataclass(frozen=True)
class Asked:
    """What is to be made: a line, and which version of it."""

    line: Line
    version: Version


def choose(claims: Claims, names: list[str], is_quick: bool) -> list[Asked]:
    """The lines of these names, or all, each after those whose runs it uses.

    Raises:
        ConfigError: there is no line of that name, or it has no quick version.
    """
    asked: dict[str, Asked] = {}

    def add(name: str, is_named: bool) -> None:
        if name not in claims.lines:
            raise ConfigError(f"there is no line {name}", where="claims.yaml", fix="--list names them")
        line = claims.lines[name]
        version = line.quick if is_quick else line.whole
        if version is None:
            if is_named:
                raise ConfigError(f"{name} has no quick version", where="claims.yaml")
            return
        for other in version.needs.lines:
            add(other, True)
        asked.setdefault(name, Asked(line, version))

    for name in names or claims.lines:
        add(name, bool(names))
    return list(asked.values())


def make(asked: list[Asked], desk: Desk, pages: dict[str, str], spots: list[Spot], is_quick: bool) -> list[Verdict]:
    """Runs what has not been run, and judges each number."""
    widths = {cell.corner: cell.width for page, text in pages.items() for cell in cells(page, text)}
    verdicts: list[Verdict] = []
    minutes, spent, expected = sum(one.version.minutes for one in asked), 0.0, 0.0
    left_out: set[str] = set()
    for number, one in enumerate(asked, start=1):
        name, version = one.line.name, one.version
        left = (minutes - expected) * (spent / expected if spent > 60 and expected else 1)
        _say(f"[{number}/{len(asked)}] {name}: about {version.minutes:g} min; {left:.0f} min left in all")
        expected += version.minutes
        missing = [other for other in version.needs.lines if other in left_out]
        if reason := f"{missing[0]} was left out" if missing else desk.lacks(version.needs):
            _say(f"  left out: {reason}")
            left_out.add(name)
            continue
        began = time.monotonic()
        try:
            outcome = _outcome(one, desk, widths)
        except CommandFailed as error:
            left_out.add(name)
            verdicts.append(Verdict(name, "", "failed", message=str(error)))
            _say(f"  {error}")
            continue
        finally:
            spent += (time.monotonic() - began) / 60
        new = judge(one.line, outcome, spots, is_quick)
        for told_of in dict.fromkeys(map(str, new)):  # once, in however many places it stands
            _say(f"  {told_of}")
        verdicts += new
    return verdicts


def _outcome(one: Asked, desk: Desk, widths: dict[str, int]) -> dict[str, Any]:
    if kept := desk.outcome(one.line, one.version):
        _say(f"  kept from {kept['date']} (commit {kept['commit']}; --again makes it anew)")
        return kept
    values, lacking = values_of(one.line, desk.run(one.line, one.version), widths)
    for name, reason in lacking.items():
        if one.version is one.line.whole or name in one.version.bands:
            _say(f"  {name}: {reason}")
    return desk.keep(one.line, one.version, values)


def main(words: list[str] | None = None) -> int:
    """0: every number is in its band; 1: one is not, or a command failed; otherwise the exit code of a mistake."""
    try:
        return _main(_arguments(words))
    except UserError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"{error.filename or 'a file'}: {error.strerror}", file=sys.stderr)
        return 74
    except KeyboardInterrupt:
        print("stopped; the same command goes on", file=sys.stderr)
        return 130


def _arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.remake", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("line", nargs="*", help="lines of claims.yaml; all of them, if none is named")
    parser.add_argument("--quick", action="store_true", help="the smaller versions")
    parser.add_argument("--list", action="store_true", help="name the lines, with their time and what they need")
    parser.add_argument("--data", type=Path, metavar="DIR", help="a folder that holds multi30k/, trec/ and so on")
    parser.add_argument("--results", type=Path, default=ROOT / "results", metavar="DIR", help="where to keep it")
    parser.add_argument("--again", action="store_true", help="make anew what is done")
    parser.add_argument("--write", action="store_true", help="write what moved into README and docs")
    return parser.parse_args(words)


def _main(args: argparse.Namespace) -> int:
    claims, pages = read_claims(), read_pages()
    asked = choose(claims, args.line, args.quick)
    if args.list:
        print("\n".join(_listed(one) for one in asked))
        return 0
    if args.data is not None and not args.data.is_dir():
        raise DataError(f"there is no folder {args.data}", where="--data")
    if args.write and args.quick:
        raise ConfigError("the text is written from whole versions alone", where="--write", fix="leave out --quick")
    spots, faults = find(claims, pages)
    desk = Desk(args.results / ("quick" if args.quick else "whole"), args.data)
    if args.again:
        for one in asked:
            desk.forget(one.line)
    verdicts = make(asked, desk, pages, spots, args.quick)
    print(told(verdicts, faults, args.quick))
    if not args.quick:
        new = rewritten(pages, verdicts)
        (args.results / "text.diff").write_text(difference(pages, new), encoding="utf-8")
        for page, text in new.items() if args.write else ():
            (ROOT / page).write_text(text, encoding="utf-8")
    return 1 if faults or any(verdict.is_wrong for verdict in verdicts) else 0


def _listed(one: Asked) -> str:
    needs = one.version.needs
    wanted = [*(f"data/{name}" for name in needs.data), *needs.packages, *["bf16"] * needs.bf16, *needs.lines]
    return (f"{one.line.name:26} {one.version.minutes:6g} min  {one.line.about}"
            + (f"  (needs {', '.join(wanted)})" if wanted else ""))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
