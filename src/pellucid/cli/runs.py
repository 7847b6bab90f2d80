"""pellucid runs [DIR], pellucid runs clean [DIR]"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.cli.arguments import parse
from pellucid.cli.fields import Positional
from pellucid.cli.passages import plain
from pellucid.cli.sizes import on_disk
from pellucid.errors import ConfigError
from pellucid.language import columns, padded, so_many

if TYPE_CHECKING:
    from pellucid.runs.care import Listed


@dataclass
class Runs:
    """List the runs in a folder: task, state, updates, the validation score of the weights in use, size, date; and the
    cache that all runs share. `pellucid runs clean --help` says how to free disk."""

    folder: Positional[Path] = Path("runs")
    """the folder of runs, looked through at any depth; or one run"""
    json: bool = False
    """print them as JSON"""


@dataclass
class Clean:
    """Free what nobody needs: checkpoints that are neither in use nor the newest nor averaged at the end, moments of
    the optimizer beside all but the newest, leftovers of processes that were killed, starts that failed. What loads,
    evaluates or resumes a run stays. Says all of it first, and asks."""

    folder: Positional[Path] = Path("runs")
    """the folder of runs, looked through at any depth; or one run"""
    cache: bool = False
    """empty the cache that all runs share, in place of cleaning runs; what is needed again is made again"""
    dry_run: bool = False
    """say what would go, and leave it there"""
    yes: bool = False
    """do not ask"""
    json: bool = False
    """print what goes as JSON; asks nothing, and so needs --yes or --dry-run"""


def main(program: str, words: Sequence[str]) -> int:
    """Lists, or cleans."""
    if words and words[0] == "clean":
        return _clean(parse(Clean, f"{program} clean", words[1:]))
    arguments = parse(Runs, program, words)
    from pellucid.runs.care import find_runs, look_at

    _must_exist(arguments.folder)
    listed = [look_at(run) for run in find_runs(arguments.folder)]
    if arguments.json:
        print(json.dumps({"runs": [asdict(one) for one in listed], "cache": _cache()}, ensure_ascii=False))
        return 0
    print("\n".join([*_table(listed, arguments.folder), "", _told_cache()]))
    return 0


def _must_exist(folder: Path) -> None:
    if not folder.is_dir():
        raise ConfigError("there is no such folder", where=str(folder), fix="give the folder that holds the runs: "
                          "pellucid runs DIR")


def _table(listed: Sequence["Listed"], folder: Path) -> Iterator[str]:
    if not listed:
        yield f"no runs in {folder}"
        return
    rows = [("run", "task", "state", "updates", "score", "size", "date")]
    for one in listed:
        of = f"{one.step:,}" + (f" of {one.steps:,}" if one.steps is not None and one.steps != one.step else "")
        score = "–" if one.score is None else f"{plain(str(one.monitor))} {one.score:.4g}"
        rows.append((plain(one.run), one.task or "–", one.state, of, score, on_disk(one.bytes), one.date[:16]))
    widths = [max(columns(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.rjust(width) if i in (3, 5) else padded(cell, width)
                        for i, (cell, width) in enumerate(zip(row, widths, strict=True))).rstrip()
    yield from (plain(f"{one.run}: {one.why}") for one in listed if one.why)
    yield f"{so_many(len(listed), 'run')}, {on_disk(sum(one.bytes for one in listed))}"


def _cache() -> dict[str, Any]:
    from pellucid import cache

    kinds = dict.fromkeys(cache.KINDS, 0)
    for one in cache.contents():
        kinds[one.kind] += one.bytes
    return {"folder": str(cache.root_folder()), "bytes": sum(kinds.values()), "limit": cache.limit_bytes(),
            "kinds": kinds}


def _told_cache() -> str:
    from pellucid import cache

    about = _cache()
    kinds = ", ".join(f"{cache.KINDS[kind]} {on_disk(size)}" for kind, size in about["kinds"].items() if size)
    return (f"cache {about['folder']}: {on_disk(about['bytes'])}{f' ({kinds})' if kinds else ''}; at most "
            f"{about['limit'] / 2**30:g} GiB of ids, packed weights and digests are kept (PELLUCID_CACHE_GIB)")


def _clean(arguments: Clean) -> int:
    from functools import partial

    from pellucid import cache
    from pellucid.runs.care import Waste, free, waste_in

    passed: list[str] = []
    if arguments.cache and arguments.folder != Clean.folder:
        raise ConfigError("the cache is that of all runs", where="--cache",
                          fix=f"leave {arguments.folder} out, or --cache")
    if arguments.cache:
        waste = [Waste(one.path, cache.KINDS[one.kind], one.bytes, partial(cache.remove, one.path))
                 for one in cache.contents()]
    else:
        _must_exist(arguments.folder)
        waste, passed = waste_in(arguments.folder)
    total = sum(one.bytes for one in waste)
    if arguments.json:
        print(json.dumps({"waste": [{"path": str(one.path), "what": one.what, "bytes": one.bytes} for one in waste],
                          "bytes": total, "passed_over": passed, "freed": arguments.yes and not arguments.dry_run},
                         ensure_ascii=False))
    else:
        if arguments.cache:
            print(_told_cache())
        else:
            print("".join(f"{on_disk(one.bytes):>9}  {one.path}: {one.what}\n" for one in waste), end="")
        print("".join(f"passed over: {sentence}\n" for sentence in passed), end="")
        print(f"{on_disk(total)} can be freed" if waste else "there is nothing to free", flush=True)
    if not waste or arguments.dry_run or not (arguments.yes or _agreed(total, arguments.json)):
        return 0
    freed = sum(free(one) for one in waste)
    if not arguments.json:
        print(f"freed {on_disk(freed)}")
    return 0


def _agreed(total: int, is_json: bool) -> bool:
    """Asks a person; where there is none, nothing is removed that was not asked for."""
    if is_json or sys.stdin is None or not sys.stdin.isatty():
        raise ConfigError("nothing was removed: nobody can be asked here", where="pellucid runs clean",
                          fix="say --yes, or --dry-run to look only")
    print(f"remove all of this, {on_disk(total)}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
