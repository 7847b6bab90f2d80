"""Takes out of poems what editors put in: `python -m benchmarks.poems TABLE CLEAN`, both `.jsonl` or `.jsonl.gz`.

Notes in brackets go, with the line or the poem that is left empty; of a character that the edition supplies, `[何]`,
the brackets go; a rare character that it only describes, `熬{下爲火}`, keeps its base. Other columns stay as they are.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from pathlib import Path
from typing import TextIO

from pellucid.data.text_lines import read_lines

_NOTE = re.compile(r"（[^（）]*）|〖[^〖〗]*〗|\([^()]*\)|\{[^{}]*\}")
_UNSPOKEN = re.compile(r"\W*")


def without_notes(poem: str) -> str:
    """The poem's own text; notes may hold notes."""
    while (shorter := _NOTE.sub("", poem)) != poem:
        poem = shorter
    lines = re.sub(r"[\[\]]", "", poem).split("\n")
    return "\n".join(line for line in lines if not _UNSPOKEN.fullmatch(line))


def main() -> None:
    """Parses, cleans line by line, counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path, help="poems with their editors' notes")
    parser.add_argument("clean", type=Path, help="where to write them without")
    parser.add_argument("--field", default="text", help="the column of the poem")
    args = parser.parse_args()
    read, changed = 0, 0
    with _writer(args.clean) as clean:
        for line in read_lines(str(args.table)):
            row = json.loads(line)
            poem = without_notes(row[args.field])
            read, changed = read + 1, changed + (poem != row[args.field])
            if poem:
                clean.write(json.dumps(row | {args.field: poem}, ensure_ascii=False) + "\n")
    print(f"{args.clean}: {changed:,} of {read:,} poems had notes or gaps")


def _writer(path: Path) -> TextIO:
    return gzip.open(path, "wt", encoding="utf-8") if path.suffix == ".gz" else path.open("w", encoding="utf-8")


if __name__ == "__main__":
    main()
