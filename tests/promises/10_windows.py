"""Promise 10: a corpus larger than memory trains in bounded memory, starts at once, has every pair once an epoch, and
any of its batches is found by its number.

    python tests/promises/10_windows.py [--count 30] [--block 250000] [--json FILE]

Writes `--count` million made-up pairs as the ids that `pellucid train` keeps, into a folder that is removed. Processes
of their own then open it, with nothing of it in the system's memory, and go through an epoch, adding up a hash of each
pair; and look for 1,000 batches in any order. The same is done with smaller corpora, one of them of half as many
windows that are as full: what memory holds more for the pairs beyond these is their difference. Smaller blocks make
more windows of fewer pairs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pellucid.data import blocks
from pellucid.data.batching import Batch, Batches
from pellucid.data.blocks import SIDES, write_blocks
from pellucid.data.corpus import is_whole, kept_corpus
from pellucid.data.encoding import Report
from pellucid.data.tokenizers.interface import EOS
from pellucid.files import write_folder

DTYPE = np.dtype(np.uint16)
WORDS, LONGEST, TOKENS = 30_000, 60, 25_000  # ids, tokens of a sentence, tokens of a batch
SEED, FOUND, EPOCH = 1, 1_000, 1  # the epoch that is gone through, and batches that are looked for
SMALL, CHUNK = 100_000, 25_000  # pairs; those that are written in one go
GIB = 2**30
MEMORY, START = 2 * GIB, 10.0  # bytes above a small corpus, seconds
MIX = np.uint64(0x9E3779B97F4A7C15)


def hashes(ids: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A hash of each row of ids [B, L]; padding at the end, id 0, changes nothing."""
    places = np.random.default_rng(0).integers(1, 2**63, LONGEST + 1, dtype=np.uint64)[: ids.shape[1]] | np.uint64(1)
    found: NDArray[np.uint64] = (ids.astype(np.uint64) * places).sum(axis=1, dtype=np.uint64)
    return found


def sum_of(source: NDArray[np.int64], target: NDArray[np.int64]) -> int:
    """The sum over pairs of a hash of both their sides, modulo 2^64."""
    mixed = (hashes(source) ^ (hashes(target) * MIX)) * MIX
    return int(((mixed ^ (mixed >> np.uint64(29))) * MIX).sum(dtype=np.uint64))


def pairs_of_block(draw: np.random.Generator, pairs: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """For each side, ids in rows with padding, and their lengths: about 20 tokens, log-normal."""
    lengths = np.clip(np.rint(20 * np.exp(draw.normal(-0.125, 0.5, pairs))), 2, LONGEST).astype(np.int64)
    sides = []
    for side in (lengths, np.clip(lengths + draw.integers(-2, 3, pairs), 2, LONGEST)):
        ids = draw.integers(EOS + 1, WORDS, (pairs, LONGEST), dtype=np.int64)
        ids[np.arange(LONGEST) >= side[:, None]] = 0
        ids[np.arange(pairs), side - 1] = EOS
        sides.append((ids, side))
    return sides


def write(folder: Path, pairs: int) -> int:
    """Writes so many pairs as a corpus, and gives the sum of their hashes."""
    total = 0

    def fill(place: Path) -> None:
        nonlocal total
        draw, tokens = np.random.default_rng(pairs), dict.fromkeys(SIDES, 0)
        files = {(side, part): (place / f"{side}.{part}").open("wb") for side in SIDES for part in ("ids", "offsets")}
        for side in SIDES:
            files[side, "offsets"].write(np.zeros(1, dtype=np.int64).tobytes())
        for start in range(0, pairs, CHUNK):
            made = pairs_of_block(draw, min(CHUNK, pairs - start))
            total += sum_of(made[0][0], made[1][0])
            for side, (ids, lengths) in zip(SIDES, made, strict=True):
                files[side, "ids"].write(ids[ids != 0].astype(DTYPE).tobytes())
                files[side, "offsets"].write((tokens[side] + lengths.cumsum()).tobytes())
                tokens[side] += int(lengths.sum())
        for file in files.values():
            file.close()
        report = Report(pairs, pairs, 0, 0, tokens["source"], tokens["target"])
        (place / "report.json").write_text(json.dumps(asdict(report)), encoding="utf-8")
        (place / "shards.json").write_text(json.dumps([pairs]), encoding="utf-8")
        write_blocks(place, [(np.memmap(place / f"{side}.ids", DTYPE, mode="r"),
                              np.memmap(place / f"{side}.offsets", np.int64, mode="r")) for side in SIDES])

    write_folder(folder, fill)
    return total % 2**64


def forget(folder: Path) -> None:
    """Lets the system's memory go of the files, so that they are read from the disk."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def digest(batch: Batch) -> str:
    """Of all ids of a batch."""
    return hashlib.sha256(batch.source.numpy().tobytes() + batch.target.numpy().tobytes()).hexdigest()


def started(folder: Path) -> tuple[Batches, float]:
    """The batches, and the seconds from opening the folder to having the first one."""
    forget(folder)
    begun = time.monotonic()
    assert is_whole(folder, DTYPE)
    batches = Batches(kept_corpus(folder, DTYPE), TOKENS, None, SEED)
    _ = batches[0]
    return batches, time.monotonic() - begun


def epoch(folder: Path) -> dict[str, Any]:
    """Goes through an epoch: what its pairs add up to, the digests of some batches, and the most memory."""
    batches, start = started(folder)
    first, total, pairs = EPOCH * batches.per_epoch, 0, 0
    chosen = set(random.Random(SEED).sample(range(batches.per_epoch), min(FOUND, batches.per_epoch)))
    digests, waits, begun = {}, list[float](), time.monotonic()
    for place in range(batches.per_epoch):
        asked = time.monotonic()
        batch = batches[first + place]
        waits.append(time.monotonic() - asked)
        total += sum_of(batch.source.numpy(), batch.target.numpy())
        pairs += len(batch.source)
        if place in chosen:
            digests[place] = digest(batch)
    return {"start": start, "batches": batches.per_epoch, "sum": total % 2**64, "pairs": pairs, "digests": digests,
            "seconds": time.monotonic() - begun, "longest_wait": max(waits)}


def find(folder: Path, wanted: dict[str, str]) -> dict[str, Any]:
    """Looks for batches of the epoch in any order, each window of it in one go and 20 across all."""
    batches, start = started(folder)
    places, seconds, same = sorted(map(int, wanted)), list[float](), 0
    across = random.Random(SEED).sample(places, min(20, len(places)))
    for place in across + places:
        begun = time.monotonic()
        batch = batches[EPOCH * batches.per_epoch + place]
        seconds.append(time.monotonic() - begun)
        same += digest(batch) == wanted[str(place)]
    return {"start": start, "found": same, "looked_for": len(seconds), "seek": statistics.median(seconds[:len(across)]),
            "longest_seek": max(seconds), "within_window": statistics.median(seconds[len(across):])}


def peak() -> int:
    """The most bytes that this process ever held; what the system tells as such of a process that was started counts
    those of the one that started it, too."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def in_a_process(task: str, folder: Path, given: str = "") -> dict[str, Any]:
    """What a new process finds, with the most memory that it ever held."""
    words = ["--worker", task, str(folder), "--block", str(blocks.BLOCK)]
    done = subprocess.run([sys.executable, __file__, *words], input=given, text=True, stdout=subprocess.PIPE,
                          check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def worker(task: str, folder: Path) -> None:
    """The new process."""
    torch.set_num_threads(1)
    found = epoch(folder) if task == "epoch" else find(folder, json.loads(sys.stdin.read()))
    print(json.dumps(found | {"peak": peak()}))


def half(pairs: int) -> int:
    """So many pairs that they have half as many windows, at least four, which are as full."""
    windows = len(blocks.windows_of(blocks.count_blocks(pairs)))
    return min(pairs, pairs * max(4, windows // 2) // windows)


def main() -> int:
    """Prints what each corpus took, and the promise's closing line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=float, default=30, help="million pairs")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--block", type=int, default=blocks.BLOCK, help="pairs")
    parser.add_argument("--folder", type=Path, help="where to write the pairs for a while")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    blocks.BLOCK = arguments.block
    if arguments.worker:
        worker(arguments.worker[0], Path(arguments.worker[1]))
        return 0
    count, rows = round(arguments.count * 10**6), []
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        for pairs in sorted({SMALL, half(count), count}):
            folder = Path(scratch) / str(pairs)
            expected = write(folder, pairs)
            row = {"pairs": pairs, "bytes": sum(path.stat().st_size for path in folder.iterdir()),
                   **in_a_process("epoch", folder)}
            row["once"] = (row.pop("sum"), row["pairs"]) == (expected, pairs)
            digests = row.pop("digests")
            if pairs == count:
                row |= {"search": in_a_process("find", folder, json.dumps(digests))}
            rows.append(row)
            print(f"{pairs:,} pairs, {row['bytes'] / GIB:.2f} GiB: first batch after {row['start']:.1f} s, an epoch of "
                  f"{row['batches']:,} batches in {row['seconds']:.0f} s, waiting {row['longest_wait']:.1f} s at most; "
                  f"peak memory {row['peak'] / GIB:.2f} GiB; each pair once: {row['once']}", flush=True)
    search, above = rows[-1]["search"], rows[-1]["peak"] - rows[0]["peak"]
    growth = (rows[-1]["peak"] - rows[-2]["peak"]) / (count - rows[-2]["pairs"])
    print(f"{search['found']:,} of {search['looked_for']:,} batches found: anywhere after {search['seek']:.1f} s "
          f"({search['longest_seek']:.1f} s at most), in the same window after {search['within_window'] * 1000:.1f} ms")
    print(f"peak memory above that of {SMALL:,} pairs: {above / GIB:.2f} GiB, {growth:.1f} bytes more a pair")
    held = [all(row["once"] for row in rows), above <= MEMORY, rows[-1]["start"] <= START,
            search["found"] == search["looked_for"]]
    if arguments.json:
        arguments.json.write_text(json.dumps({"rows": rows, "above": above, "bytes_a_pair": growth}, indent=1) + "\n",
                                  encoding="utf-8")
    print(f"promise 10: {sum(held)} of {len(held)}")
    return 0 if all(held) else 1


if __name__ == "__main__":
    raise SystemExit(main())
