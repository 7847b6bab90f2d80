"""Is the right passage found, and how soon among a million? `python -m benchmarks.retrieval [FILE …] [--quick]`.

FILE: questions in SQuAD's layout. All their paragraphs are one index, and each question is asked: recall@k is the share
of questions for which a passage of their own paragraph is among the first k, `answer` those for which one of the first
k holds an answer's place, whole. Then an index of made-up text, `--passages` of 400 characters, words drawn by Zipf's
law: seconds and peak memory of building it, of opening it, and milliseconds of a search for 8 to 20 characters of it;
`cpu` is what the processor worked for it, however many other programs and the disk were waited for. `--keep IDX` leaves
that index there, and searches the one that is there already.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arguments import new_file, positive
from benchmarks.machine import write
from pellucid.files import read_json
from pellucid.retrieve.documents import read_paragraphs
from pellucid.retrieve.folder import ABOUT, FolderIndex
from pellucid.retrieve.index import build_index

KS = (1, 5, 20)
CHARACTERS, WORDS, WORDS_OF_A_TEXT = 5_000, 60_000, 215


def recalls(paths: Sequence[str], folder: Path) -> Iterator[dict[str, Any]]:
    """A row for each file and each k."""
    build_index(paths, str(folder))
    index = FolderIndex(folder)
    for path in paths:
        wanted, found, holds = list[str](), list[list[str]](), dict.fromkeys(KS, 0)
        for document, questions in read_paragraphs(path):
            for question in questions:
                passages = [one.passage for one in index.search(question["question"], max(KS))]
                places = [(one["answer_start"], one["answer_start"] + len(one["text"])) for one in question["answers"]]
                wanted.append(document.id)
                found.append([one.document for one in passages])
                for k in KS:
                    holds[k] += any(one.document == document.id and one.start <= start and end <= one.end
                                    for one in passages[:k] for start, end in places)
        for k in KS:
            recall = sum(one in names[:k] for one, names in zip(wanted, found, strict=True)) / len(wanted)
            yield {"workload": Path(path).name, "model": "BM25", "system": "pellucid", "setting": f"k = {k}",
                   "questions": len(wanted), "recall": recall, "answer": holds[k] / len(wanted)}


def write_texts(count: int, path: Path) -> None:
    """Documents of one passage each, in a language without sense."""
    draw = np.random.default_rng(1)
    letters = np.array([chr(0x4E00 + i) for i in range(CHARACTERS)])
    shares = 1 / np.arange(1, CHARACTERS + 1) ** 0.9
    sizes = draw.choice([1, 2, 2, 2, 3], size=WORDS)
    words = np.array(["".join(draw.choice(letters, size=size, p=shares / shares.sum())) for size in sizes], object)
    chances = np.cumsum(1 / np.arange(1, WORDS + 1))
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            row = words[np.searchsorted(chances, draw.random(WORDS_OF_A_TEXT) * chances[-1])]
            text = "。".join("".join(row[i : i + 12]) for i in range(0, WORDS_OF_A_TEXT, 12))[:399] + "。"
            file.write(json.dumps({"id": str(number), "text": text}, ensure_ascii=False) + "\n")


def build(count: int, folder: Path, out: Path) -> dict[str, Any]:
    """What an index of so many passages takes until it is built."""
    write_texts(count, folder / "texts.jsonl")
    begun = time.monotonic()
    subprocess.run([sys.executable, "-m", "pellucid", "index", str(folder / "texts.jsonl"), "--out",
                    str(out)], check=True, capture_output=True)
    built = time.monotonic() - begun
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"build_seconds": round(built, 1), "build_cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
            "peak_memory_bytes": used.ru_maxrss * 1024}


def search(path: Path, searches: int) -> dict[str, Any]:
    """What an index takes when it is opened and searched."""
    begun = time.monotonic()
    index = FolderIndex(path)
    opened = time.monotonic() - begun
    count = index.about["passages"]
    draw, seconds, worked = np.random.default_rng(2), [], []
    for _ in range(searches):
        text = index.passage(int(draw.integers(count))).text
        start = int(draw.integers(len(text) - 20))
        begun, work = time.perf_counter(), time.thread_time()
        index.search(text[start : start + int(draw.integers(8, 21))], 5)
        seconds.append(time.perf_counter() - begun)
        worked.append(time.thread_time() - work)
    low, high = (round(float(np.percentile(seconds, share)) * 1e3, 2) for share in (50, 95))
    return {"workload": f"{count} passages of 400 characters", "model": "BM25", "system": "pellucid",
            "setting": f"{searches} searches", "open_seconds": round(opened, 3), "search_ms_p50": low,
            "search_ms_p95": high, "search_cpu_ms_p95": round(float(np.percentile(worked, 95)) * 1e3, 2),
            "index_bytes": sum(one.stat().st_size for one in path.iterdir())}


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--passages", type=int, default=1_000_000, help="0 leaves this part out")
    parser.add_argument("--searches", type=positive, default=3000)
    parser.add_argument("--quick", action="store_true", help="2,000 passages, 100 searches")
    parser.add_argument("--keep", type=Path, metavar="IDX", help="where that index comes to lie, or lies")
    parser.add_argument("--json", type=new_file)
    arguments = parser.parse_args(words)
    count, searches = (2000, 100) if arguments.quick else (arguments.passages, arguments.searches)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        if arguments.files:
            rows += recalls(arguments.files, Path(folder) / "questions")
        if count:
            path = arguments.keep or Path(folder) / "index"
            built = {} if (path / ABOUT).exists() else build(count, Path(folder), path)
            if (there := read_json(path / ABOUT)["passages"]) != count:
                parser.error(f"{path} has {there:,} passages, not {count:,}")
            rows.append(search(path, searches) | built)
    for row in rows:
        print("  ".join(f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
                        for name, value in row.items() if name not in ("model", "system")))
    if arguments.json:
        write(rows, arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
