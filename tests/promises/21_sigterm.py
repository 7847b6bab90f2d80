"""Promise 21: a server that is told to go answers what it has accepted; one that changes over answers everybody.

    python tests/promises/21_sigterm.py [--count 100] [--json FILE]

Each time a server is asked by many at once, over connections that they keep and over new ones, and is sent SIGTERM at a
drawn moment. Clients go on until nobody lets them in. Whoever was let in must have a whole answer: the translation, or
429; /ready must say 503 within 100 ms; the process must end by itself, with code 0. While it is asked, some servers are
also told to change over (SIGHUP), some of them to weights that are damaged meanwhile, or to others.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from load import Answer, Client, Lost, get, translate
from serving import TINY, Server, make_run, sentences, start

ASKING, RATE, READY = 24, 50.0, 0.1  # clients that keep their connection; new ones a second; seconds


async def keep_asking(client: Client, draw: random.Random, texts: list[str], counts: Counter[str], close: bool) -> None:
    """Asks, again and again, until nobody lets us in."""
    while True:
        try:
            answer = await client.ask(translate(draw.choice(texts), close))
        except Lost:
            counts["lost"] += 1
        except OSError:
            return
        else:
            counts["answered" if answer.status in (200, 429) else str(answer.status)] += 1
        await asyncio.sleep(draw.expovariate(RATE) if close else draw.choice([0.0, draw.uniform(0, 0.05)]))


async def ready(port: int) -> float:
    """Seconds until /ready says that the server goes."""
    begun = time.perf_counter()
    while time.perf_counter() < begun + 1:
        answer: Answer = await Client(port).ask(get("/ready"))
        if answer.status == 503:
            return time.perf_counter() - begun
    return float("inf")


async def once(server: Server, draw: random.Random, run: Path, other: Path) -> dict[str, Any]:
    """What becomes of those who ask one server until it has gone."""
    texts, counts = sentences(40, seed=2), Counter[str]()
    client = Client(server.port)
    asking = [asyncio.ensure_future(keep_asking(client, draw, texts, counts, close=False)) for _ in range(ASKING)]
    asking += [asyncio.ensure_future(keep_asking(Client(server.port), draw, texts, counts, close=True))
               for _ in range(4)]
    await asyncio.sleep(draw.uniform(0.05, 0.4))
    if draw.random() < 0.3:
        weights = next(run.glob("checkpoints/*/model.safetensors"))
        if draw.random() < 0.5:
            weights.write_bytes(weights.read_bytes()[:-100])  # those before stay
        else:
            shutil.copytree(other / "checkpoints", run / "checkpoints", dirs_exist_ok=True)
        server.process.send_signal(signal.SIGHUP)
        await asyncio.sleep(draw.uniform(0, 0.6))
    server.process.send_signal(signal.SIGTERM)
    seconds = await ready(server.port)
    await asyncio.wait(asking, timeout=30)
    code = await asyncio.to_thread(server.process.wait, 30)
    is_kept = not counts["lost"] and set(counts) <= {"answered", "lost"} and all(task.done() for task in asking)
    return {**counts, "ready": seconds, "code": code, "passed": is_kept and code == 0 and seconds <= READY,
            "told": server.log.read_text().splitlines()[1:]}


def main() -> int:
    """Prints a line for each that fails, and the promise's closing line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    draw, rows = random.Random(arguments.seed), []
    with tempfile.TemporaryDirectory() as scratch:
        run, other = (make_run(Path(scratch) / f"made-{seed}", TINY, seed=seed) for seed in (1, 2))
        copy = Path(scratch) / "run"
        for number in range(arguments.count):
            shutil.copytree(run, copy, dirs_exist_ok=True)
            server = start(copy)
            try:
                rows.append(asyncio.run(once(server, draw, copy, other)))
            finally:
                server.process.kill()
                server.process.wait()
            if not rows[-1]["passed"]:
                print(f"{number}: {rows[-1]}", flush=True)
    answered = sum(row.get("answered", 0) for row in rows)
    print(f"{answered} requests were answered, {sum(row.get('lost', 0) for row in rows)} lost; /ready said 503 after "
          f"{max(row['ready'] for row in rows) * 1000:.0f} ms at the most")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    passed = sum(row["passed"] for row in rows)
    print(f"promise 21: {passed} of {arguments.count}")
    return 0 if passed == arguments.count else 1


if __name__ == "__main__":
    raise SystemExit(main())
