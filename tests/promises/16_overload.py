"""Promise 16: a server that is asked ten times as much as it can do does what it can, and tells the others at once.

    python tests/promises/16_overload.py [--count 20000] [--times 10] [--json FILE]

A run with random weights whose model takes some milliseconds a sentence is served on the loopback address. Its capacity
is what 32 connections get that ask again whenever they are answered, the best of five times. Then requests depart at
ten times that rate, whether or not those before are answered, and are timed from the moment at which they were to
depart. Each must have one answer: the translation that it has on a quiet server, or 429 with Retry-After, and nothing
behind it; what is translated while requests come must be at least 90 % of capacity, and 99 % of refusals must come
within 50 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import tempfile
import time
from pathlib import Path

from load import Answer, Client, translate
from serving import SLOW, Server, make_run, sentences, serving

GOODPUT, REFUSAL = 0.9, 0.05
CONNECTIONS, TEXTS = 32, 200


async def measure(server: Server, count: int, times: float) -> dict[str, float]:
    """Asks as the promise says, and gives what was seen."""
    gc.disable()  # a client that halts would be told as a server that does
    client, texts = Client(server.port), sentences(TEXTS, seed=2)
    right = [(await client.ask(translate(text))).body for text in texts]
    rates = []
    for _ in range(5):
        begun = time.perf_counter()
        await client.in_turn([translate(text) for text in texts], CONNECTIONS)
        rates.append(TEXTS / (time.perf_counter() - begun))
    capacity = max(rates)
    rate = times * capacity
    begun = time.perf_counter()
    found = await client.at_rate([translate(texts[number % TEXTS]) for number in range(count)], rate)
    until = begun + count / rate
    answers = [(number, one) for number, one in enumerate(found) if isinstance(one, Answer)]
    done = [one for number, one in answers if one.status == 200 and one.body == right[number % TEXTS]]
    refused = sorted(one.seconds for _, one in answers if one.status == 429 and "retry-after" in one.headers)
    client.close()
    return {"capacity": capacity, "rate": rate, "seconds": count / rate, "translated": len(done),
            "refused": len(refused), "other": count - len(done) - len(refused), "stray": client.stray,
            "goodput": sum(one.end <= until for one in done) / (count / rate) / capacity,
            "refusal p50": refused[len(refused) // 2] if refused else 0.0,
            "refusal p99": refused[int(0.99 * len(refused))] if refused else 0.0,
            "refusal max": refused[-1] if refused else 0.0, "longest": max(one.seconds for one in done),
            "MiB": server.memory("VmHWM") / 2**20}


def main() -> int:
    """Prints what was seen, and the promise's closing line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--times", type=float, default=10.0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, serving(make_run(Path(folder) / "run", SLOW, tokens=60)) as server:
        seen = asyncio.run(measure(server, arguments.count, arguments.times))
    for name, value in seen.items():
        print(f"{name}: {value:.4g}", flush=True)
    passed = int(seen["translated"] + seen["refused"]) if not seen["stray"] else 0
    holds = seen["goodput"] >= GOODPUT and seen["refusal p99"] <= REFUSAL
    if not holds:
        print(f"goodput must be {GOODPUT:.0%} of capacity, and 99 % of refusals come within {REFUSAL * 1000:.0f} ms")
    if arguments.json:
        arguments.json.write_text(json.dumps(seen, indent=1) + "\n", encoding="utf-8")
    print(f"promise 16: {passed} of {arguments.count}")
    return 0 if holds and passed == arguments.count else 1


if __name__ == "__main__":
    raise SystemExit(main())
