"""Twins on two sides of a division: `python -m benchmarks.twins FILE [--share 0.05] [--json FILE]`.

Twins are source texts that are the same but for case, punctuation and blanks. Counted is how many such groups the file
has, and how many of them shares of that size for validation and for test would put on more than one side: by a hash of
the text as it stands, as versions before the second scheme did it, and by that of its canonical form.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from benchmarks.arguments import new_file
from pellucid.config import DataConfig, Split
from pellucid.data.canonical import canonical
from pellucid.data.division import SCHEMES, Division
from pellucid.data.sources import fields_for, read_records


def count(texts: Iterable[str], share: float) -> dict[str, Any]:
    """ "texts", "forms", "groups" of twins, and "divided": for each scheme how many groups are on two sides."""
    groups: dict[str, set[str]] = defaultdict(set)
    for text in texts:
        groups[canonical(text)].add(text)
    twins = [group for group in groups.values() if len(group) > 1]
    divided = {scheme: sum(len(set(map(Division(share, share, scheme).part_of, group))) > 1 for group in twins)
               for scheme in SCHEMES}
    return {"texts": sum(map(len, groups.values())), "forms": len(groups), "groups": len(twins), "divided": divided}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--json", type=new_file)
    arguments = parser.parse_args()
    records = read_records(Split(path=arguments.file), fields_for("seq2seq", DataConfig()))
    found = count((source for _, source, _ in records), arguments.share)
    print(f"{found['texts']:,} different texts, {found['groups']:,} groups of twins; on two sides: "
          + ", ".join(f"{number:,} by scheme {scheme}" for scheme, number in found["divided"].items()))
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
