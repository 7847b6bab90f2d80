"""Promise 20: clients that vanish leave nothing behind, and the next one is answered as if they had not been there.

    python tests/promises/20_vanished.py [--count 2000] [--wave 100] [--json FILE]

In waves, clients connect, and go at a drawn moment: in the middle of the head or of the body, as soon as they have
asked, while others are decoded before them, or as they are answered; some say that they go, others are just gone. Right
after each wave somebody asks for a translation: it must come within 100 ms (of which the model takes what is printed as
"alone"), and after it no request may be under way and none wait. At the end the server has as many open files as
before.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import socket
import struct
import tempfile
import time
from pathlib import Path

from load import Client, get, translate
from serving import SLOW, Server, make_run, sentences, serving

NEXT = 0.1  # seconds
SECONDS = 0.3  # in which a wave vanishes


async def vanish(port: int, request: bytes, draw: random.Random) -> None:
    """Asks, or begins to, and goes."""
    loop, line = asyncio.get_running_loop(), socket.socket()
    line.setblocking(False)
    await loop.sock_connect(line, ("127.0.0.1", port))
    if draw.random() < 0.5:  # a reset, and no goodbye
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    part = draw.choice([0, draw.randrange(len(request)), *[len(request)] * 6])
    await loop.sock_sendall(line, request[:part])
    await asyncio.sleep(draw.choice([0.0, draw.uniform(0, SECONDS)]))
    line.close()


def gauges(text: str) -> dict[str, float]:
    """What has no labels in an answer of /metrics."""
    pairs = (line.split() for line in text.splitlines() if line.startswith("pellucid_") and "{" not in line)
    return {name.removeprefix("pellucid_"): float(value) for name, value in pairs}


async def is_empty(client: Client) -> bool:
    """Whether nobody is asking but us, within a second."""
    for _ in range(100):
        found = gauges((await client.ask(get("/metrics"))).body.decode())
        if found["requests_under_way"] == 1 and not found["queue_requests"] and not found["queue_seconds"]:
            return True
        await asyncio.sleep(0.01)
    return False


async def measure(server: Server, count: int, wave: int, draw: random.Random) -> dict[str, float]:
    """All waves: how many clients left nothing behind, and how long the next took."""
    client, texts = Client(server.port), sentences(50, seed=2)
    alone = min([(await client.ask(translate(text))).seconds for text in texts])
    files = Path(f"/proc/{server.process.pid}/fd")
    before, passed, late, times = len(list(files.iterdir())), 0, 0, []
    for first in range(0, count, wave):
        size = min(wave, count - first)
        await asyncio.gather(*(vanish(server.port, translate(draw.choice(texts)), draw) for _ in range(size)))
        answer = await client.ask(translate(texts[0]))
        times.append(answer.seconds)
        is_clean = answer.status == 200 and await is_empty(client)
        late += answer.seconds > NEXT
        passed += size if is_clean and answer.seconds <= NEXT else 0
    for _ in range(100):  # a connection that is reset is noticed when it is looked at
        await asyncio.sleep(0.1)
        left = len(list(files.iterdir())) - before
        if left <= 0:
            break
    client.close()
    times.sort()
    return {"passed": passed if left <= 0 else 0, "late waves": late, "files left": left, "alone": alone,
            "next p50": times[len(times) // 2], "next max": times[-1]}


def main() -> int:
    """Prints what was seen, and the promise's closing line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--wave", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, serving(make_run(Path(folder) / "run", SLOW, tokens=10)) as server:
        seen = asyncio.run(measure(server, arguments.count, arguments.wave, random.Random(arguments.seed)))
    for name, value in seen.items():
        print(f"{name}: {value:.4g}")
    print(f"{time.perf_counter() - begun:.0f} s")
    if arguments.json:
        arguments.json.write_text(json.dumps(seen, indent=1) + "\n", encoding="utf-8")
    print(f"promise 20: {seen['passed']} of {arguments.count}")
    return 0 if seen["passed"] == arguments.count else 1


if __name__ == "__main__":
    raise SystemExit(main())
