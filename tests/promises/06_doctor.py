"""Promise 06: `pellucid doctor` finds twenty faults of twenty kinds, each seeded alone into a clean parallel corpus, by
kind and place; and raises no alarm about the clean one that is not true of it (those it raises are listed).

    python tests/promises/06_doctor.py                                       the bundled grammar
    python tests/promises/06_doctor.py --train train.en train.de --validation val.en val.de --test test.en test.de

A fault is found if a finding of its kind, with a share to match, shows lines that were seeded. Numbers of lines are
those of a real accident: one dropped line, 1 % of pairs swapped, 50 test pairs in the training data.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from pellucid.config.mapping import from_mapping
from pellucid.doctor.checkup import check_up

Lines = list[str]
SPLITS = ("train", "validation", "test")
WORDS = [["il ragazzo", "la donna", "un vecchio signore", "la bambina", "il nostro vicino", "uno dei cani"],
         ["mangia", "guarda", "porta via", "vorrebbe comprare", "ha perso", "cerca ancora"],
         ["una mela rossa", "il giornale di ieri", "le scarpe nuove", "degli occhiali", "qualcosa di buono"],
         ["nel giardino", "alla stazione", "vicino al fiume", "sotto gli alberi", "davanti alla chiesa"]]


@dataclass
class Corpus:
    """Splits of two sides of lines, and how they are written.

    Attributes:
        raw: (split, side) → what is done to a file's bytes.
    """

    lines: dict[str, tuple[Lines, Lines]]
    raw: dict[tuple[str, int], Callable[[bytes], bytes]] = field(default_factory=dict)

    def copy(self) -> Corpus:
        return Corpus({name: (list(a), list(b)) for name, (a, b) in self.lines.items()})

    def write(self, folder: Path) -> dict[str, Any]:
        """Writes the files; gives `data` of a configuration."""
        data: dict[str, Any] = {}
        for name, sides in self.lines.items():
            for side, lines in enumerate(sides):
                path = folder / f"{name}.{('source', 'target')[side]}"
                content = "".join(line + "\n" for line in lines).encode()
                path.write_bytes(self.raw.get((name, side), lambda content: content)(content))
                data.setdefault(name, {})[("source", "target")[side]] = str(path)
        return data


@dataclass(frozen=True)
class Seeded:
    """What doctor must say: one of `kinds`, at lines among `places` of `split`."""

    kinds: tuple[str, ...]
    split: str
    places: range | set[int]  # line numbers, from 1
    count: int = 1


Fault = Callable[[Corpus, Random], Seeded]


def near(line: int) -> range:
    """A place told to within two lines."""
    return range(line - 2, line + 3)


def chosen(lines: Lines, share: float, draw: Random) -> list[int]:
    """So many places, from 0, of lines that are long enough to show a fault."""
    able = [i for i, line in enumerate(lines) if len(line) >= 20]
    return draw.sample(able, round(share * len(lines)))


def numbers(places: Iterable[int]) -> set[int]:
    return {place + 1 for place in places}


def dropped_line(corpus: Corpus, draw: Random) -> Seeded:
    source, _ = corpus.lines["train"]
    place = draw.randrange(100, len(source) - 100)
    del source[place]
    return Seeded(("shifted",), "train", near(place + 1), len(source) - place)


def extra_line(corpus: Corpus, draw: Random) -> Seeded:
    """… and the last one cut off, so that both files have as many."""
    source, target = corpus.lines["train"]
    place = draw.randrange(100, len(target) - 100)
    target.insert(place, target[draw.randrange(len(target))])
    target.pop()
    return Seeded(("shifted",), "train", near(place + 1), len(source) - place)


def shifted_block(corpus: Corpus, draw: Random) -> Seeded:
    _, target = corpus.lines["train"]
    place = draw.randrange(100, len(target) - 500)
    target.insert(place + 300, target.pop(place))
    return Seeded(("shifted",), "train", near(place + 1), 300)


def fifty_missing(corpus: Corpus, draw: Random) -> Seeded:
    source, target = corpus.lines["train"]
    place = draw.randrange(100, len(target) - 1000)
    del target[place : place + 50]
    return Seeded(("shifted",), "train", near(place + 1), len(source) - place - 50)


def swapped_pairs(corpus: Corpus, draw: Random) -> Seeded:
    source, target = corpus.lines["train"]
    places = chosen(source, 0.01, draw)
    for i in places:
        source[i], target[i] = target[i], source[i]
    return Seeded(("swapped",), "train", numbers(places), len(places))


def swapped_files(corpus: Corpus, draw: Random) -> Seeded:
    source, target = corpus.lines["validation"]
    corpus.lines["validation"] = target, source
    return Seeded(("swapped",), "validation", range(1, len(source) + 1), len(source))


def empty_lines(corpus: Corpus, draw: Random) -> Seeded:
    source, target = corpus.lines["train"]
    places = chosen(source, 0.005, draw)
    for i in places:
        (source if draw.random() < 0.5 else target)[i] = ""
    return Seeded(("empty",), "train", numbers(places), len(places))


def latin_1(corpus: Corpus, draw: Random) -> Seeded:
    _, target = corpus.lines["train"]
    corpus.raw["train", 1] = lambda content: content.decode().encode("latin-1", "replace")
    places = [i for i, line in enumerate(target) if any("\xa0" <= c <= "\xff" for c in line)]
    return Seeded(("encoding",), "train", numbers(places), len(places))


def decoded_twice(corpus: Corpus, draw: Random) -> Seeded:
    _, target = corpus.lines["train"]
    able = [i for i, line in enumerate(target) if any("\xc0" <= c <= "\xff" for c in line)]
    places = draw.sample(able, min(len(able), len(target) // 100))
    for i in places:
        target[i] = target[i].encode().decode("latin-1")
    return Seeded(("mojibake",), "train", numbers(places), len(places))


def odd_characters(corpus: Corpus, draw: Random) -> Seeded:
    source, _ = corpus.lines["train"]
    places = chosen(source, 0.003, draw)
    for i in places:
        middle = len(source[i]) // 2
        source[i] = source[i][:middle] + draw.choice("\x00\x07\x1b\x85\u2028") + source[i][middle:]
    return Seeded(("control_character",), "train", numbers(places), len(places))


def line_ends(corpus: Corpus, draw: Random) -> Seeded:
    source, _ = corpus.lines["train"]
    places = chosen(source, 0.3, draw)
    for i in places:
        source[i] += "\r"
    return Seeded(("carriage_return",), "train", numbers(places), len(places))


def leaked(corpus: Corpus, draw: Random) -> Seeded:
    test = draw.sample(range(len(corpus.lines["test"][0])), 50)
    for i in test:
        place = draw.randrange(len(corpus.lines["train"][0]))
        for side in (0, 1):
            corpus.lines["train"][side].insert(place, corpus.lines["test"][side][i])
    return Seeded(("leak",), "test", numbers(test), 50)


def leaked_in_other_letters(corpus: Corpus, draw: Random) -> Seeded:
    test = draw.sample(range(len(corpus.lines["test"][0])), 50)
    for i in test:
        place = draw.randrange(len(corpus.lines["train"][0]))
        for side in (0, 1):
            corpus.lines["train"][side].insert(place, corpus.lines["test"][side][i].upper().rstrip(" .") + " !")
    return Seeded(("leak_normalised",), "test", numbers(test), 50)


def repeated(corpus: Corpus, draw: Random) -> Seeded:
    source, target = corpus.lines["train"]
    count = len(source)
    for i in draw.sample(range(count), round(0.06 * count)):
        source.append(source[i])
        target.append(target[i])
    return Seeded(("duplicates",), "train", range(count + 1, len(source) + 1), len(source) - count)


def copied(corpus: Corpus, draw: Random) -> Seeded:
    source, target = corpus.lines["train"]
    places = chosen(source, 0.01, draw)
    for i in places:
        target[i] = source[i]
    return Seeded(("copied",), "train", numbers(places), len(places))


def other_script(corpus: Corpus, draw: Random) -> Seeded:
    _, target = corpus.lines["train"]
    place = draw.randrange(len(target) - 200)
    letters = {c: chr(0x430 + i) for i, c in enumerate("abcdefghijklmnopqrstuvwxyz")}
    for i in range(place, place + 200):
        target[i] = "".join(letters.get(c, c) for c in target[i].lower())
    return Seeded(("foreign_script",), "train", range(place + 1, place + 201), 200)


def other_language(corpus: Corpus, draw: Random) -> Seeded:
    _, target = corpus.lines["train"]
    place = draw.randrange(len(target) - 200)
    for i in range(place, place + 200):
        target[i] = " ".join(draw.choice(words) for words in WORDS) + " ."
    return Seeded(("strange_language",), "train", range(place + 1, place + 201), 200)


def shuffled(corpus: Corpus, draw: Random) -> Seeded:
    source, target = corpus.lines["train"]
    places = chosen(source, 0.03, draw)
    moved = [target[i] for i in places]
    for i, line in zip(places, [*moved[1:], *moved[:1]], strict=True):
        target[i] = line
    return Seeded(("misaligned", "length_ratio"), "train", numbers(places), len(places))


def overlong(corpus: Corpus, draw: Random) -> Seeded:
    _, target = corpus.lines["train"]
    places = chosen(target, 0.005, draw)
    for i in places:
        target[i] = " ".join([target[i], *draw.sample(target, 6)])
    return Seeded(("length_ratio",), "train", numbers(places), len(places))


def untranslated(corpus: Corpus, draw: Random) -> Seeded:
    source, target = corpus.lines["train"]
    places = chosen(source, 0.01, draw)
    for i in places:
        target[i] = source[i].rstrip(" .") + " !"
    return Seeded(("one_side_twice",), "train", numbers(places), len(places))


FAULTS: list[Fault] = [
    dropped_line, extra_line, shifted_block, fifty_missing, swapped_pairs, swapped_files, empty_lines, latin_1,
    decoded_twice, odd_characters, line_ends, leaked, leaked_in_other_letters, repeated, copied, other_script,
    other_language, shuffled, overlong, untranslated]


def examined(corpus: Corpus) -> list[dict[str, Any]]:
    """Doctor's findings about the data."""
    with tempfile.TemporaryDirectory() as name:
        config = from_mapping({"data": corpus.write(Path(name)), "tokenizer": {"kind": "word"},
                               "model": {"d_model": 16, "n_heads": 2, "d_ff": 16}})
        report = check_up(config, None, Path(name), lambda line: None).to_mapping()
    return [finding for finding in report["findings"] if finding["where"] != "environment"]


def is_found(seeded: Seeded, found: list[dict[str, Any]], clean: list[dict[str, Any]]) -> bool:
    """Whether a finding of the kind is there, of about the count beyond what the clean corpus has, with examples of
    which half at least are lines that were seeded."""
    for finding in found:
        if finding["kind"] not in seeded.kinds or not finding["where"].startswith(seeded.split):
            continue
        before = sum(f["count"] for f in clean if (f["kind"], f["where"]) == (finding["kind"], finding["where"]))
        lines = [int(example["place"].rsplit(":", 1)[1]) for example in finding["examples"]]
        right = sum(line in seeded.places for line in lines)
        if finding["count"] - before >= seeded.count / 2 and right * 2 >= len(lines) > 0:
            return True
    return False


def bundled() -> Corpus:
    """The grammar's sentences."""
    from pellucid.data.generated.grammar import splits

    made = splits(train=20_000, validation=1_000, test=1_000)
    return Corpus({name: ([a for a, _ in getattr(made, name)], [b for _, b in getattr(made, name)])
                   for name in SPLITS})


def main() -> int:
    """Prints a line a fault, and the promise's closing line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in SPLITS:
        parser.add_argument(f"--{name}", type=Path, nargs=2, help="source and target")
    parser.add_argument("--count", type=int, default=len(FAULTS), help="so many of the faults")
    parser.add_argument("--only", help="the name of one fault")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    corpus = bundled()
    if arguments.train:
        corpus = Corpus({name: tuple(path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
                                     for path in getattr(arguments, name)) for name in SPLITS})
    clean = examined(corpus)
    for finding in clean:
        print(f"clean: {finding['severity']:<8} {finding['kind']:<22} {finding['where']:<20} {finding['count']:>6} of "
              f"{finding['total']}", flush=True)
    rows = []
    faults = [fault for fault in FAULTS if arguments.only in (None, fault.__name__)][: arguments.count]
    for fault in faults:
        broken, began = corpus.copy(), time.monotonic()
        seeded = fault(broken, Random(f"{arguments.seed} {fault.__name__}"))
        found = examined(broken)
        rows.append({"fault": fault.__name__, "found": is_found(seeded, found, clean), "kinds": seeded.kinds,
                     "count": seeded.count, "told": sorted({f["kind"] for f in found if f["severity"] != "note"}),
                     "seconds": round(time.monotonic() - began, 1)})
        print(json.dumps(rows[-1]), flush=True)
        if not rows[-1]["found"]:
            places = sorted(seeded.places)[:3]
            print(f"  seeded at {places}; " + "; ".join(
                f"{f['kind']} {f['count']} {[e['place'].rsplit('/', 1)[-1] for e in f['examples']]}" for f in found))
    if arguments.json:
        arguments.json.write_text(json.dumps({"promise": 6, "clean": clean, "rows": rows}, indent=2))
    passed = sum(row["found"] for row in rows)
    print(f"promise 06: {passed} of {len(rows)}")
    return 0 if passed == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
