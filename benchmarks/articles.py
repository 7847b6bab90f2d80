"""Titles and pieces of articles, as pairs to train on, from questions on passages in SQuAD's layout.

    python -m benchmarks.articles data/reading/cmrc2018_train.json.gz data/reading/drcd_dev.json.gz --out articles

Writes train.jsonl, validation.jsonl and test.jsonl, with `title` and `text`: the passages in pieces of at most
`--characters` that end where sentences do. A twenty-fifth of the pieces is for validation and another for the test,
drawn by their SHA-256, so a piece is held out while others of its article are not: what can be found for a title is the
rest of what is known about it. Titles and pieces that are nearly alike are for `retrieval` to leave out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path

from benchmarks.arguments import positive
from pellucid.retrieve.documents import read_documents
from pellucid.retrieve.passages import Passage, cut

SHARES = 25  # pieces, of which one is for validation and one for the test
SHORTEST = 0.25  # of --characters; a shorter rest of a passage is left out


def digest(piece: Passage) -> str:
    """Of a title and its piece, which the order and the split of the pieces come from."""
    return hashlib.sha256(f"{piece.title}\n{piece.text}".encode()).hexdigest()


def split_of(key: str) -> str:
    """The split that a piece of this digest is for, whatever other pieces there are."""
    return {0: "validation", 1: "test"}.get(int(key, 16) % SHARES, "train")


def main() -> None:
    """Reads the files, cuts, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE", help="in SQuAD's layout, packed or not")
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    parser.add_argument("--characters", type=positive, default=150, help="of a piece, at most (150)")
    given = parser.parse_args()
    pieces = {digest(piece): piece for document in read_documents(given.files) if document.title
              for piece in cut(document, given.characters) if len(piece.text) >= SHORTEST * given.characters}
    given.out.mkdir(parents=True, exist_ok=True)
    for split in ("train", "validation", "test"):
        mine = [pieces[key] for key in sorted(pieces) if split_of(key) == split]
        lines = [json.dumps({"title": piece.title, "text": piece.text}, ensure_ascii=False) + "\n" for piece in mine]
        (given.out / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
        titles = len({piece.title for piece in mine})
        print(f"{split}: {len(mine):,} pieces of {titles:,} articles, "
              f"{sum(len(piece.text) for piece in mine):,} characters")


if __name__ == "__main__":
    main()
