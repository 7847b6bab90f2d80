"""Whether poems that are drawn freely keep the form: `python -m benchmarks.verse RUN [--top-p P] [--json FILE]`.

The form of regular verse: every line is two clauses of five characters, or of seven, the same throughout the poem, the
first closed by a comma and the second by a full stop, or by marks that may stand for them. The titles are the first
ones of the split whose own poem has this form.
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from benchmarks import machine
from benchmarks.arguments import new_file, positive, run_folder
from pellucid.data.splits import open_splits
from pellucid.evaluate.significance import SentenceStatistics, interval_of, mean_percentage, share_interval
from pellucid.runs.run import Run, load

_CHARACTER = r"[\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
_LINES = [rf"{_CHARACTER}{{{n}}}[，、；：？！]{_CHARACTER}{{{n}}}[。；？！]" for n in (5, 7)]
_REGULAR = [re.compile(rf"{line}(?:\n{line})*") for line in _LINES]


def is_regular(poem: str) -> bool:
    """Whether the whole poem is lines of 5 + 5, or of 7 + 7 characters, each clause with its mark."""
    return any(form.fullmatch(poem) for form in _REGULAR)


def draw(run: Run, split: str, titles: int, top_p: float) -> list[dict[str, Any]]:
    """A sample for each title: {"title", "poem", "regular"}."""
    regular = (title for title, poem in open_splits(run.config, run.folder)[split] if is_regular(poem))
    chosen = list(islice(regular, titles))
    poems = run.generate(chosen, options=replace(run.config.decode, sample=True, n_best=1, top_p=top_p))
    return [{"title": title, "poem": poem.text, "regular": is_regular(poem.text)}
            for title, poem in zip(chosen, poems, strict=True)]


def summary(rows: list[dict[str, Any]]) -> tuple[float, float, float]:
    """The percentage of regular poems, and its 95 % interval."""
    table = np.asarray([[row["regular"], 1.0] for row in rows], dtype=np.float64)
    low, high = interval_of(SentenceStatistics("regular", table, mean_percentage, share_interval))
    return mean_percentage(table.sum(axis=0)), low, high


def main() -> None:
    """Parses, draws, prints the first samples and the share, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=run_folder, help="a run folder whose targets are poems")
    parser.add_argument("--titles", type=positive, default=200, help="so many poems are drawn, if there are as many")
    parser.add_argument("--split", default="test", help="of which the titles are")
    parser.add_argument("--top-p", type=float, help="in place of the run's own decode.top_p")
    parser.add_argument("--json", type=new_file, help="where to write the poems")
    args = parser.parse_args()
    run = load(args.run)
    top_p = run.config.decode.top_p if args.top_p is None else args.top_p
    rows = draw(run, args.split, args.titles, top_p)
    for row in rows[:5]:
        print(f"{row['title']}\n  " + row["poem"].replace("\n", "\n  "))
    share, low, high = summary(rows)
    print(f"{share:.1f} % of {len(rows)} poems are regular (95 % interval {low:.1f} to {high:.1f})")
    if args.json:
        told = {"top_p": top_p, "regular": share, "interval": [low, high], "rows": rows}
        text = json.dumps({**machine.describe(), **told}, indent=1, ensure_ascii=False)
        args.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
