"""One decoding system in a process of its own: `python -m benchmarks.decode_worker SYSTEM SETTING FOLDER BUDGET…`.

Reads the job in FOLDER and decodes it twice with one budget of tokens a batch after the other, until they get clearly
slower, then, each time it is told to "run", once with the one that was fastest. Answers with JSON lines: first the
flags, the budgets and their seconds, then for each run seconds, what came out, and the process's peak memory; for a job
that is decoded one by one the seconds of each call.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import decode_job
from benchmarks.decode_job import Ids
from benchmarks.decoders import Decode, make
from benchmarks.processes import answers, peak_memory

WARM_UP = 32  # sentences
TRIES = 2  # of a budget: the faster one counts, for the first has much to do once
CLEARLY = 1.1  # times as long as the fastest budget: larger ones are not tried


def timed(decode: Decode, job: decode_job.Job, budget: int) -> dict[str, Any]:
    """One repetition: the seconds of all, of each part that was timed on its own, and the outputs in order."""
    parts = [[call] for call in job.calls] if job.one_by_one else [job.calls]
    outputs: dict[int, Ids] = {}
    seconds = []
    for part in parts:
        started = time.perf_counter()
        found = decode(part, budget)
        seconds.append(time.perf_counter() - started)
        outputs |= found
    return {"seconds": sum(seconds), "parts": seconds, "outputs": [outputs[i] for i in range(len(job.sources))]}


def main() -> None:
    """Warms up, then repeats."""
    system, setting, folder = sys.argv[1:4]
    budgets = [int(budget) for budget in sys.argv[4:]]
    output = answers()
    job = decode_job.read(Path(folder))
    decode = make(system, setting, job, Path(folder))
    first = job.calls[0]
    decode([replace(first, sentences=first.sentences[:WARM_UP])], budgets[0])
    gc.freeze()  # what is loaded stays: looking through it again and again is nobody's work
    tried: dict[int, float] = {}
    for budget in budgets:
        tried[budget] = min(timed(decode, job, budget)["seconds"] for _ in range(TRIES))
        if tried[budget] > CLEARLY * min(tried.values()):
            break
    best = min(tried, key=tried.__getitem__)
    output.write(json.dumps({"budget": best, "tried": tried, "flags": decode.flags}) + "\n")
    for _ in sys.stdin:
        output.write(json.dumps({**timed(decode, job, best), "peak_memory_bytes": peak_memory()}) + "\n")


if __name__ == "__main__":
    main()
