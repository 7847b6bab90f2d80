"""Documents that nobody would write, in every layout that an index reads, and whether answers stand where they say."""

from __future__ import annotations

import gzip
import json
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from pellucid.retrieve.index import build_index, open_index
from pellucid.runs.answers import answers
from pellucid.runs.run import Run
from pellucid.runs.texts import CutWarning

PIECES = ["The king lost the key in the garden. ", "范廷颂于1919年出生。", "他在河内大修道院完成学业！", "Dr. Who", " ",
          "\u3000", "ﬁne ﬂour", "①②㌔㍿", "ＡＢＣ１２", "ｶﾞｷﾞ", "Å\u212b", "Cafe\u0301", "q\u0323\u0307", "한국어",
          "각\u1100\u1161\u11a8", "\uf900\uf901", "\U0002f800", "ſ\u0130ß", "👩\u200d👧", "👩🏽\u200d🚀", "🇫🇷",
          "❤\ufe0f", "\U0001d518\U0001d52b", "\U0010ffff", "\uffff", "\ue000", "\r\n", "\n", "\r", "\x0b", "\x0c",
          "\x1c", "\x85", "\u2028", "\u2029", "\n\n\n", " \n \r\n", "\t", "\0", "\u200b", "\u202eabc\u202c",
          "\xad", "\ufeff", "עברית", "ไทย", "क्षि", "½ kg", "x" * 90, "長" * 90, '"\\', "\\u0041"]
LAYOUTS = ("folder", "text", "lines", "list", "squad")


def drawn(draw: Random) -> str:
    """A document: blank, short, or long."""
    return "".join(draw.choices(PIECES, k=draw.choice([1, 3, 10, 30, 100, 300])))


def asked(draw: Random, texts: Sequence[str]) -> str:
    """A question: a part of a document, cut anywhere."""
    text = draw.choice(texts)
    start = draw.randrange(len(text) + 1)
    return text[start : start + draw.choice([2, 8, 40])] or "the key"


def write(folder: Path, layout: str, texts: Sequence[str], draw: Random) -> list[str]:
    """Writes documents in a layout, packed or not, under names of its own, and gives the paths to index."""
    def put(path: Path, text: str) -> str:
        path.parent.mkdir(parents=True, exist_ok=True)
        mark = "\ufeff" if draw.random() < 0.2 and not text.startswith("\ufeff") else ""
        raw = (mark + text).encode()
        packed = draw.random() < 0.3
        path = path.with_name(path.name + ".gz") if packed else path
        path.write_bytes(gzip.compress(raw) if packed else raw)
        return str(path)

    if layout in ("folder", "text"):
        paths = [put(folder / layout / f"{n % 3}" / f"{n}{draw.choice(['.txt', '.md'])}", text)
                 for n, text in enumerate(texts) if layout == "folder" or text.strip("\ufeff").strip()]
        return paths if layout == "text" else [str(folder / layout)]
    escaped = draw.random() < 0.5  # then what is beyond U+FFFF is written as a pair of surrogates
    if layout == "squad":
        content: Any = {"data": [{"title": "ﬁ", "paragraphs": [{"context": text, "qas": []} for text in texts]}]}
        return [put(folder / "squad.json", json.dumps(content, ensure_ascii=escaped))]
    rows = [{"text": text} | ({"id": f"{layout}-{n}"} if draw.random() < 0.5 else {}) for n, text in enumerate(texts)]
    if layout == "list":
        return [put(folder / "list.json", json.dumps(rows, ensure_ascii=escaped, indent=draw.choice([None, 1])))]
    return [put(folder / "lines.jsonl", "".join(json.dumps(row, ensure_ascii=escaped) + "\n" for row in rows))]


def documents_in(path: str) -> dict[str, str]:
    """What stands in a file or folder, by the names that answers have, read here anew in the plainest way."""
    if Path(path).is_dir():
        files = [file for file in Path(path).rglob("*") if file.is_file()]
        return {file.relative_to(path).as_posix(): _content(file) for file in files}
    content, name = _content(Path(path)), path.removesuffix(".gz")
    if name.endswith((".txt", ".md")):
        return {path: content}
    if name.endswith(".jsonl"):
        rows = [(f"{path}:{n}", json.loads(line)) for n, line in enumerate(content.split("\n"), start=1) if line]
    elif isinstance(found := json.loads(content), list):
        rows = [(f"{path}, record {n}", row) for n, row in enumerate(found, start=1)]
    else:
        paragraphs = [one for article in found["data"] for one in article["paragraphs"]]
        return {f"{path}#{n}": one["context"] for n, one in enumerate(paragraphs, start=1)}
    return {row.get("id", name): row["text"] for name, row in rows}


def _content(path: Path) -> str:
    raw = path.read_bytes()
    return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode().removeprefix("\ufeff")


def faults(run: Run, folder: Path, paths: Sequence[str], questions: Sequence[str], k: int) -> Iterator[str | None]:
    """For each question that a run answers from an index of these files, as `pellucid answer --json` has it: None where
    the answer is the piece of the document that it says, and so are the passages; else what it said."""
    place = str(folder / "idx")
    build_index(paths, place)
    documents = {name: text for path in paths for name, text in documents_in(path).items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CutWarning)  # the readers are tiny
        found = answers(run, open_index(place), [text for text in questions if text.strip()], k)
    for one in found:
        line = json.dumps(one.to_mapping(), ensure_ascii=False).encode()
        told = json.loads(line.decode())
        if told["document"] is None:
            assert (told["answer"], told["start"], told["end"]) == ("", None, None)
            continue
        said = [(told["document"], told["start"], told["end"], told["answer"])]
        said += [(each["document"], each["start"], each["end"], each["text"]) for each in told["passages"]]
        is_right = told["answer"] and all(documents.get(name, "")[start:end] == text for name, start, end, text in said)
        yield None if is_right else line.decode()
