"""Promise 22: whatever is sent to a server, it answers or closes, fails nobody, and grows no larger.

    python tests/promises/22_hostile.py [--count 50000] [--raw 200] [--minutes 0] [--json FILE]

First connections misbehave, side by side: slow, cut, malformed, huge, smuggling (misbehaviour.py); each must be
answered as it deserves, or not, and be closed in time. Then come requests drawn from /openapi.json, something wrong in
most of them: each must be answered, in time, with a status below 500 (or 503, where the deadline came first), in JSON.
While both last, a good request must always be answered well. In the second half of all requests memory may grow by 3 %
at most; `--minutes` spreads them evenly over that long.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from load import Client, get, translate
from misbehaviour import fault_of, misbehaviours
from serving import TINY, Server, make_run, serving
from strange import Drawer

AT_ONCE, PATIENCE, GROWTH = 8, 40.0, 0.03
SETTLED = 5000  # requests after which memory is looked at


async def exchange(reader: asyncio.StreamReader, method: str) -> tuple[int, dict[str, str], bytes]:
    """The answer to a request."""
    status = 100
    while status == 100:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        status = int(first.split()[1])
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if method == "HEAD":
        return status, headers, b""
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
        return status, headers, body
    return status, headers, await reader.readexactly(int(headers["content-length"]))


def fault_in(status: int, headers: dict[str, str], body: bytes, method: str) -> str | None:
    """What is wrong with an answer."""
    if status >= 500 and not (status == 503 and b"took too long" in body):
        return f"status {status}"
    if "Traceback" in body.decode("utf-8", "replace"):
        return "a traceback"
    if headers.get("x-content-type-options") != "nosniff" and "connection" not in headers:
        return "no headers of security"
    if "access-control-allow-origin" in headers:
        return "another site may read it"
    if status >= 400 and method != "HEAD" and headers["content-type"] == "application/json":
        return None if isinstance(json.loads(body).get("error"), str) else "no error is told"
    return None


async def strange(port: int, drawer: Drawer, departures: Iterator[float], seen: dict[str, Any]) -> None:
    """Asks what is drawn, not before it is to depart, over one connection as long as it lasts."""
    reader = writer = None
    for departure in departures:
        await asyncio.sleep(max(0.0, departure - time.monotonic()))
        method, path, request = drawer.request()
        if writer is None or writer.is_closing() or reader is None or reader.at_eof():
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        begun = time.perf_counter()
        try:
            writer.write(request)
            async with asyncio.timeout(PATIENCE):
                status, headers, body = await exchange(reader, method)
            fault = fault_in(status, headers, body, method)
            seen["statuses"][f"{path} {status}"] += 1
            if headers.get("connection") == "close":
                writer.close()
        except (OSError, asyncio.IncompleteReadError) as error:
            fault = f"no answer: {error!r}"
            writer.close()
        except (TimeoutError, ValueError, KeyError) as error:
            fault = repr(error)
            writer.close()
        if (seconds := time.perf_counter() - begun) > seen["slowest"][0]:
            seen["slowest"] = (seconds, request[:300].decode("latin-1"))
        seen["asked"] += 1
        if fault:
            seen["faults"].append(f"{fault}: {request[:600]!r}")


async def watch(server: Server, seen: dict[str, Any], seconds: float) -> None:
    """Asks what is right, and looks at the memory."""
    client = Client(server.port)
    while True:
        answer = await client.ask(translate("the cat sleeps"))
        if answer.status != 200:
            seen["faults"].append(f"a good request is answered with {answer.status}: {answer.body!r}")
        seen["memory"].append((seen["asked"], server.memory()))
        await asyncio.sleep(seconds)


async def measure(server: Server, arguments: argparse.Namespace) -> dict[str, Any]:
    """All of it, and what was seen."""
    draw = random.Random(arguments.seed)
    seen: dict[str, Any] = {"asked": 0, "faults": [], "statuses": Counter(), "memory": [], "slowest": (0.0, "")}
    watching = asyncio.ensure_future(watch(server, seen, 0.5))
    raw = list(itertools.islice((one for _ in itertools.count() for one in misbehaviours(draw)), arguments.raw))
    for first in range(0, len(raw), 50):
        found = await asyncio.gather(*(fault_of(server.port, one) for one in raw[first : first + 50]))
        seen["faults"] += [fault for fault in found if fault]
    seen["raw faults"], seen["memory"] = len(seen["faults"]), []
    document = json.loads((await Client(server.port).ask(get("/openapi.json"))).body)
    drawer, begun, pause = Drawer(document, draw), time.monotonic(), 60 * arguments.minutes / arguments.count
    departures = (begun + number * pause for number in range(arguments.count))
    await asyncio.gather(*(strange(server.port, drawer, departures, seen) for _ in range(AT_ONCE)))
    if watching.done():
        seen["faults"].append(f"a good request was not answered: {watching.exception()!r}")
    watching.cancel()
    return seen


def growth(memory: list[tuple[int, int]], asked: int) -> float:
    """By which share the server holds more in the last tenth than at the beginning of the second half."""
    def mean(low: float, high: float) -> float:
        found = [size for number, size in memory if low * asked <= number <= high * asked]
        return sum(found) / len(found) if found else 0.0

    return mean(0.9, 1.0) / mean(0.5, 0.6) - 1 if mean(0.5, 0.6) else 0.0


def main() -> int:
    """Prints what was seen, and the promise's closing line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--raw", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, serving(make_run(Path(folder) / "run", TINY), "--page") as server:
        seen = asyncio.run(measure(server, arguments))
        told = server.log.read_text().splitlines()[1:]
    more = growth(seen["memory"], seen["asked"])
    for fault in seen["faults"][:20]:
        print(fault[:1000])
    by_status = Counter(key.split()[1] for key in seen["statuses"].elements())
    print(f"{arguments.raw} misbehaviours, {seen['raw faults']} badly met; {seen['asked']} requests in "
          f"{time.perf_counter() - begun:.0f} s: {dict(sorted(by_status.items()))}; the slowest took "
          f"{seen['slowest'][0]:.2f} s")
    most = max((size for _, size in seen["memory"]), default=0) / 2**20
    print(f"memory: {most:.0f} MiB at the most, {more:+.1%} in the second half; the server's log has "
          f"{len(told)} lines")
    print("\n".join(told[:20]))
    if arguments.json:
        arguments.json.write_text(json.dumps(seen, indent=1) + "\n", encoding="utf-8")
    count = arguments.raw + seen["asked"]
    passed = max(0, count - len(seen["faults"])) if (more <= GROWTH or seen["asked"] < SETTLED) and not told else 0
    print(f"promise 22: {passed} of {count}")
    return 0 if passed == count else 1


if __name__ == "__main__":
    raise SystemExit(main())
