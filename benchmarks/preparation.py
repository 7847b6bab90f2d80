"""What a large corpus takes before training begins: `python -m benchmarks.preparation [--records N] [--json FILE]`.

A JSON array of so many records of the shape of the Chinese Wikipedia (id, title, tags, text) is made up and prepared
as the recipe wikipedia-zh-title has it: the tokenizer is trained, texts become ids. Then a run on it starts again, and
again. Each of these is a process of its own, measured by the clock and by the most memory that it ever held.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arguments import new_file, positive
from pellucid.config import RunConfig, Split
from pellucid.config.mapping import from_mapping
from pellucid.recipes import read_recipe

RECIPE = "wikipedia-zh-title"
RECORDS = 1_470_000
WORDS, LONGEST = 60_000, 4  # of the made-up language, and characters of a word
MEDIAN, SPREAD = 250, 1.0  # characters of a text: log-normal
WORDS_A_CLAUSE = 6
RECORDS_AT_ONCE = 10_000


def write_corpus(path: Path, records: int) -> None:
    """The file, records one a line."""
    with path.open("w", encoding="utf-8") as file:
        for i, (title, text) in enumerate(articles(records)):
            record = {"id": str(i), "title": f"{title}{i}", "tags": title, "text": text}
            file.write(("," if i else "[") + "\n" + json.dumps(record, ensure_ascii=False))
        file.write("\n]\n")


def articles(count: int) -> Iterator[tuple[str, str]]:
    """Titles and texts in words whose frequencies fall like those of a language (Zipf), the same in every call."""
    random = np.random.default_rng(1)
    characters = np.asarray([chr(code) for code in range(0x4E00, 0x4E00 + 6000)])
    lengths = random.integers(1, LONGEST + 1, WORDS)
    words = np.asarray(["".join(characters[np.minimum(random.zipf(1.2, n) - 1, 5999)]) for n in lengths])
    words[::50] = [str(number) for number in random.integers(1, 3000, len(words[::50]))]
    marks = np.asarray([*"，，，。。、；：（）《》“”", "km²", "℃", "→", "α", "±"])
    share = 1 / np.arange(1, WORDS + 1)
    for start in range(0, count, RECORDS_AT_ONCE):
        number = min(RECORDS_AT_ONCE, count - start)
        sizes = (random.lognormal(np.log(MEDIAN / 2), SPREAD, number) / 2.5).astype(np.int64) * 2 + WORDS_A_CLAUSE
        drawn = words[random.choice(WORDS, int(sizes.sum()), p=share / share.sum())]
        drawn[::WORDS_A_CLAUSE] = marks[random.integers(len(marks), size=len(drawn[::WORDS_A_CLAUSE]))]
        for line in np.split(drawn, np.cumsum(sizes)[:-1]):
            yield "".join(line[1:3]), "".join(line[1:])


def config_for(corpus: Path) -> RunConfig:
    """The recipe, on this file."""
    config = from_mapping(read_recipe(RECIPE).mapping)
    return dataclasses.replace(config, data=dataclasses.replace(config.data, train=Split(path=str(corpus))))


def prepare(corpus: Path, run: Path) -> dict[str, float]:
    """What `pellucid train` does before there is a model, up to the first batch; then the order of a second epoch."""
    from pellucid.data.batching import Batches
    from pellucid.data.splits import open_splits
    from pellucid.runs.folder import prepare_tokenizers
    from pellucid.train.journal import Reporter, telling_lines
    from pellucid.train.train import read_corpus, remember_data

    config, reporter = config_for(corpus), Reporter()
    run.mkdir(exist_ok=True)
    splits = open_splits(config, run)
    telling = functools.partial(telling_lines, splits["train"].split, "tokenizer", reporter)
    tokenizers = prepare_tokenizers(config, splits["train"], run, reporter.say, telling)
    corpora = {name: read_corpus(pairs, tokenizers, config, reporter) for name, pairs in splits.items()}
    remember_data(splits, corpora, run)
    batches = Batches(corpora["train"], config.train.batch_tokens, config.train.batch_sentences, config.seed)
    first = batches[0]
    started = time.monotonic()
    batches.examples(1)
    report = corpora["train"].report
    return {"records": report.records, "tokens": report.source_tokens + report.target_tokens,
            "batches_per_epoch": batches.per_epoch, "first_batch_tokens": first.target_tokens,
            "next_epoch_seconds": time.monotonic() - started}


def in_a_process(step: str, corpus: Path, run: Path, cache: Path) -> dict[str, Any]:
    """Runs `prepare` in a new process: its numbers, its seconds from start to end, its peak memory."""
    command = [sys.executable, "-m", "benchmarks.preparation", "--worker", str(corpus), str(run)]
    started = time.monotonic()
    done = subprocess.run(command, env={**os.environ, "PELLUCID_CACHE": str(cache)}, stdout=subprocess.PIPE, text=True,
                          check=True)
    seconds = time.monotonic() - started
    return {"workload": step, "system": "pellucid", "setting": RECIPE, "seconds": seconds, **json.loads(done.stdout)}


def bytes_in(folder: Path) -> int:
    """What the files of a folder take on the disk."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def worker(corpus: Path, run: Path) -> None:
    """The other process: prepares, and prints what it took."""
    numbers: dict[str, float] = dict(prepare(corpus, run))
    numbers["peak_memory_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(numbers))


def main() -> None:
    """Parses, makes the corpus, measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=positive, default=RECORDS, help="records of the corpus")
    parser.add_argument("--quick", action="store_true", help="50,000 records in place of --records")
    parser.add_argument("--folder", type=Path, help="an existing folder for the files, emptied of them afterwards")
    parser.add_argument("--json", type=new_file, help="where to write the results")
    parser.add_argument("--worker", type=Path, nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        worker(*args.worker)
        return
    from benchmarks import machine
    from benchmarks.train import say

    records = 50_000 if args.quick else args.records
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        corpus, run, cache = folder / "articles.json", folder / "run", folder / "cache"
        write_corpus(corpus, records)
        say(f"{records:,} records, {corpus.stat().st_size / 2**20:,.0f} MiB")
        rows = []
        for step in ("preparation", "start", "start again"):
            rows.append({**in_a_process(step, corpus, run, cache), "corpus_bytes": corpus.stat().st_size,
                         "disk_bytes": bytes_in(cache) + bytes_in(run)})
            say(f"{step:<12} {rows[-1]['seconds']:8.1f} s  {rows[-1]['peak_memory_bytes'] / 2**30:5.2f} GiB at most  "
                f"{rows[-1]['disk_bytes'] / 2**20:,.0f} MiB on the disk  next epoch after "
                f"{rows[-1]['next_epoch_seconds']:.2f} s")
    if args.json:
        machine.write(rows, args.json)


if __name__ == "__main__":
    main()
