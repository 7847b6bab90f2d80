"""pellucid index DATA [DATA …] --out IDX"""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pellucid.cli.arguments import parse
from pellucid.cli.fields import Positional
from pellucid.errors import ConfigError


@dataclass
class Index:
    """An index of your documents, in which pellucid search finds passages. For example: pellucid index docs --out idx

    A document is a .txt or .md file, a record of a .jsonl file with text and, if you like, id and title, of a .json
    file that is a list of such, or a paragraph of one in SQuAD's layout. An index that is there already is replaced
    when the new one is whole; an interrupted build leaves it as it was.
    """

    data: Positional[tuple[Path, ...]]
    """files, or folders that are looked through at any depth"""
    out: str
    """the folder of the index, or qdrant://HOST:PORT/COLLECTION"""
    add: bool = False
    """add the documents to the index that is there; those of the same id are replaced"""
    characters: int = 400
    """the most that a passage may have"""
    json: bool = False
    """print what was done as JSON"""


def main(program: str, words: Sequence[str]) -> int:
    """Builds the index and says what is in it."""
    arguments = parse(Index, program, words)
    if not arguments.data:
        raise ConfigError("give at least one file or folder of documents", where=program)
    from pellucid.retrieve.index import build_index
    from pellucid.retrieve.passages import LONGEST
    from pellucid.train.journal import Reporter

    if arguments.add and arguments.characters != LONGEST:
        raise ConfigError("--characters cannot be given with --add", where=program,
                          why="the passages of one index are cut alike", fix="leave it out, or build the index anew")
    begun = time.monotonic()
    with Reporter() as reporter:
        built = build_index(list(map(str, arguments.data)), arguments.out, arguments.add, arguments.characters,
                            reporter.progress)
    seconds = time.monotonic() - begun
    if arguments.json:
        print(json.dumps({"index": arguments.out, **built, "seconds": round(seconds, 3)}, ensure_ascii=False))
        return 0
    told = ", ".join(f"{count:,} {name if count != 1 else name[:-1]}" for name, count in built.items())
    print(f"{arguments.out}: {told}; {seconds:.1f} s")
    print(f'pellucid search {arguments.out} "…" finds passages in it', file=sys.stderr)
    return 0
