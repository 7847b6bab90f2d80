"""Promise 26: every answer is the piece of the document that it cites, character by character.

    python tests/promises/26_cited.py [--count 10000] [--json FILE]

Documents of what breaks offsets: ligatures, full-width and half-width letters, accents and Hangul in parts, emoji that
are joined, characters beyond U+FFFF (in JSON as pairs of surrogates too), every kind of line end, empty lines, words
without end. They are written in every layout that `pellucid index` reads, packed or not, and indexed; pieces of them
are asked for, and tiny random readers with every kind of tokenizer answer. What the answer says of its place, and what
each passage says, is looked up in the file as it stands, which is read anew: without a byte order mark at its start,
`document[start:end]` must be the text. Questions without an answer do not count.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

import torch
from cited import LAYOUTS, asked, drawn, faults, write
from tiny import SUBWORDS, tiny_reader

KINDS: list[dict[str, Any]] = [{"kind": "word", "lowercase": True}, {"kind": "character"}, SUBWORDS,
                               {"kind": "character", "lowercase": True, "strip_punctuation": True}]


def main() -> int:
    """Prints what does not stand where it is said to, and the promise's closing line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="of answers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    draw, begun, asked_for, wrong = Random(arguments.seed), time.perf_counter(), 0, list[str]()
    runs, answered = [tiny_reader(seed, kind) for seed, kind in enumerate(KINDS)], 0
    while answered < arguments.count:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            texts = {layout: [drawn(draw) for _ in range(8)] + ["the key"] for layout in LAYOUTS}
            paths = [path for layout in LAYOUTS for path in write(folder, layout, texts[layout], draw)]
            questions = [asked(draw, draw.choice(list(texts.values()))) for _ in range(100)]
            found = list(faults(draw.choice(runs), folder, paths, questions, draw.choice([1, 3, 8])))
        found = found[: arguments.count - answered]
        asked_for, answered = asked_for + len(questions), answered + len(found)
        wrong += filter(None, found)
    print(*wrong[:10], sep="\n", end="\n" * bool(wrong))
    seconds = time.perf_counter() - begun
    print(f"{answered:,} answers to {asked_for:,} questions; {seconds:.0f} s")
    if arguments.json:
        seen = {"answers": answered, "questions": asked_for, "wrong": len(wrong), "seconds": round(seconds, 1)}
        arguments.json.write_text(json.dumps(seen) + "\n", encoding="utf-8")
    print(f"promise 26: {answered - len(wrong)} of {arguments.count}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
