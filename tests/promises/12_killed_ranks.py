"""Promise 12: a rank that is killed at any moment changes nothing of what is learned.

    python tests/promises/12_killed_ranks.py [--count 30] [--ranks 3] [--json FILE]

Each time torchrun starts the ranks of a run, SIGKILL ends one of them, drawn, at a drawn moment, torchrun begins anew
at the last checkpoint, and the run must end with the weights, bit for bit, of one that nobody touched. After that, a
run that is killed goes on with one rank less; its loss must lie within those of other seeds.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from ranks import arguments_of, await_checkpoint, children, close, train_with

WORDS = ["train", "copy", "--train.epochs", "null", "--train.steps", "150", "--train.accumulate", "12",
         "--train.batch_sentences", "8", "--train.validate_every", "10", "--train.average_last", "3", "--model.dropout",
         "0.1", "--train.ema_decay", "0.9", "--train.timeout", "60"]


def digests(run: Path) -> dict[str, str]:
    """The SHA-256 of the final weights: the last checkpoint's, and those in use."""
    last, best = (json.loads((run / name).read_text())["checkpoint"] for name in ("last.json", "best.json"))
    return {place: hashlib.sha256((run / "checkpoints" / name / "model.safetensors").read_bytes()).hexdigest()
            for place, name in (("last", last), ("best", best))}


def train(ranks: int, out: Path, more: Sequence[str] = (), after: float | None = None,
          draw: random.Random | None = None, restarts: int = 3) -> tuple[int, float]:
    """Trains to the end; `after` so many seconds from its first line in metrics.jsonl, one rank is killed.

    Returns:
        How many ranks were killed in the middle of the training, and how long all of it took.
    """
    started, killed = time.monotonic(), 0
    process = train_with(ranks, [*WORDS, *more], out, restarts)
    if after is not None and draw is not None:
        await_checkpoint(process, out)
        time.sleep(after)
        there = children(process.pid)
        if process.poll() is None and len(there) == ranks:
            os.kill(draw.choice(there), signal.SIGKILL)
            killed = 1
    process.wait()
    return killed, time.monotonic() - started


def final_loss(run: Path) -> float:
    """The last validation's."""
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [float(event["loss"]) for event in events if event["event"] == "validation"][-1]


def main() -> int:
    """Prints a line a run, and the promise's closing line."""
    arguments = arguments_of(__doc__, count=30, ranks=3)
    draw, ranks, passed, rows = random.Random(arguments.seed), arguments.ranks, 0, []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        _, seconds = train(ranks, folder / "whole")
        expected = digests(folder / "whole")
        print(f"unbroken: {seconds:.0f} s, {expected['last'][:16]}", flush=True)
        training = json.loads((folder / "whole/metrics.jsonl").read_text().splitlines()[-2])["seconds"]
        number = 0
        while number < arguments.count:
            out = folder / f"killed-{number}"
            after = draw.uniform(0, 0.9 * training)
            killed, seconds = train(ranks, out, after=after, draw=draw)
            if not killed:  # it had ended before
                shutil.rmtree(out)
                continue
            found = digests(out) if (out / "best.json").exists() else {}
            passed, number = passed + (found == expected), number + 1
            rows.append({"after": after, "seconds": seconds, "same": found == expected})
            print(f"{'same' if found == expected else 'OTHER'}: a rank killed after {after:.1f} s, all of it "
                  f"{seconds:.0f} s", flush=True)
            shutil.rmtree(out)
        others = []
        for seed in ("43", "44", "45"):
            train(ranks, folder / seed, ["--seed", seed])
            others.append(final_loss(folder / seed))
        train(ranks, folder / "fewer", after=training / 2, draw=draw, restarts=0)
        train(ranks - 1, folder / "fewer")
        loss, whole = final_loss(folder / "fewer"), final_loss(folder / "whole")
        spread = max(*others, whole) - min(*others, whole)
        fewer = abs(loss - whole) <= spread
        print(f"{ranks} ranks, then {ranks - 1}: loss {loss:.4f}, with {ranks} all the way {whole:.4f}, other seeds "
              f"{', '.join(f'{other:.4f}' for other in others)}: {'within' if fewer else 'OUTSIDE of'} their spread")
    told = {"rows": rows, "fewer": loss, "whole": whole, "others": others}
    return close(12, passed, len(rows), told, arguments.json) or int(not fewer)


if __name__ == "__main__":
    raise SystemExit(main())
