"""Promise 15: text over HTTP is the text that `pellucid translate` writes, with the same scores to the last bit.

    python tests/promises/15_same_bits.py [--count 10000] [--connections 16] [--seed 1] [--json FILE]
    python tests/promises/15_same_bits.py --run runs/demo --run runs/other

Two runs are served at once, and asked at random: single texts and lists, several sentences in a line, lines with breaks
and blanks between; as JSON, as a form and in the query string; by LibreTranslate's API and by ours, greedily and with a
beam. Connections are used again or closed, some clients go before they are answered, and the runs are opened anew in
between. A line of a text must come back as `pellucid translate --split-sentences` writes it, with what stands around it
as it was. Without --run two small ones are trained first.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from load import Answer, Line, Lost, post

import pellucid

SMALL = ["train", "demo", "--data.generated.train", "4000", "--data.generated.validation", "100",
         "--data.generated.test", "100", "--model.d_model", "32", "--model.d_ff", "64", "--model.n_heads", "2",
         "--train.steps", "300", "--train.validate_every", "300"]
PAIRS = (("en", "fr"), ("de", "es"))
LINES = 400  # of each run, of which texts are made
RELOADS = 4
OPTIONS = ("--decode.min_length", "1")  # of both: `translate` leaves no space where a sentence comes out empty
BREAKS = ("\n", "\r\n", "\n\n", "\n \t\n", "\u2028")


@dataclass(frozen=True)
class Offline:
    """What `pellucid translate` writes.

    Attributes:
        lines: what was translated.
        whole: with --split-sentences.  greedy: with --beam-size 1.  told: with --json.
    """

    lines: list[str]
    whole: dict[str, str]
    greedy: dict[str, str]
    told: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Asked:
    """A request, and what must come back.

    Attributes:
        kind: for a count.
        right: what the answer's JSON must hold.
    """

    kind: str
    data: bytes
    right: Any


def pellucid_(words: Sequence[str], given: str = "") -> str:
    """What `pellucid WORDS` prints."""
    done = subprocess.run([sys.executable, "-m", "pellucid", *words], input=given, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"pellucid {' '.join(words)} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def make_lines(folder: Path, draw: random.Random) -> list[str]:
    """Lines of words that a run knows, some of several sentences, some with what it does not know, some too long."""
    pieces = {piece.strip(" ▁") for piece in pellucid.load(folder).tokenizers.source.spellings()}
    known = sorted(piece for piece in pieces if piece.isalpha() and piece == piece.lower())
    lines = []
    for number in range(LINES):
        longest = 120 if number % 50 == 0 else 12
        parts = [" ".join(draw.choices(known, k=draw.randint(1, longest))) + draw.choice((" .", ".", " ?", "!"))
                 for _ in range(draw.choice((1, 1, 2, 3)))]
        if number % 20 == 0:
            parts.append(draw.choice(("zqx 42 %", "ÿ 🙂 👩‍👧", "<b>&amp;</b>", "日本", "a\tb")))
        lines.append(draw.choice(("", "", "", " ")) + " ".join(parts) + draw.choice(("", "", "", "  ")))
    return list(dict.fromkeys(lines))


def offline(folder: Path, lines: list[str]) -> Offline:
    """What a run makes of lines without a server."""
    given = "\n".join(lines) + "\n"
    whole, greedy, told = (pellucid_(["translate", str(folder), *OPTIONS, *words], given).split("\n")[:-1]
                           for words in (["--split-sentences"], ["--beam-size", "1"], ["--json"]))
    return Offline(lines, *(dict(zip(lines, found, strict=True)) for found in (whole, greedy)),
                   {line: json.loads(one) for line, one in zip(lines, told, strict=True)})


def make_text(known: Offline, draw: random.Random) -> tuple[str, str]:
    """A text of some lines, blank ones among them, and its translation."""
    text = right = draw.choice(("", "", "\n"))
    for number in range(draw.choice((1, 1, 1, 2, 4))):
        line, gap = draw.choice(known.lines), draw.choice(BREAKS) if number else ""
        before, after = line.split(line.strip())
        text, right = text + gap + line, right + gap + before + known.whole[line] + after
    end = draw.choice(("", "", "\n", "\n "))
    return text + end, right + end


def make_request(names: Sequence[str], known: Sequence[Offline], draw: random.Random) -> Asked:
    """One of all kinds."""
    number = draw.randrange(len(known))
    kind = draw.choice(("json", "json list", "form", "form list", "query", "ours", "ours list", "ours greedy",
                        "ours split"))
    (source, target), run = PAIRS[number], known[number]
    count = draw.randint(2, 6) if kind.endswith("list") else 1
    if kind.startswith("ours"):
        by = {"run": names[number]} if draw.random() < 0.5 else {"source": source, "target": target}
        return _ours(kind, by, run, draw.sample(run.lines, count))
    texts = [make_text(run, draw) for _ in range(count)]
    q, right = ([text for text, _ in texts], [one for _, one in texts]) if count > 1 else texts[0]
    asked = {"q": q, "source": source.upper() if draw.random() < 0.2 else source, "target": target}
    if kind.startswith("json"):
        return Asked(kind, post("/translate", asked), right)
    words = urlencode(asked, doseq=True)
    path, body = (f"/translate?{words}", b"") if kind == "query" else ("/translate", words.encode())
    head = (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
            f"Content-Length: {len(body)}\r\n\r\n")
    return Asked(kind, head.encode() + body, right)


def _ours(kind: str, by: dict[str, str], run: Offline, lines: list[str]) -> Asked:
    asked: dict[str, Any] = by | {"text": lines if len(lines) > 1 else lines[0]}
    if kind == "ours greedy":
        return Asked(kind, post("/v1/translate", asked | {"options": {"beam_size": 1}}), [run.greedy[lines[0]]])
    if kind == "ours split":
        return Asked(kind, post("/v1/translate", asked | {"options": {"split_sentences": True}}), [run.whole[lines[0]]])
    keys = ("text", "score", "tokens", "hypotheses")
    return Asked(kind, post("/v1/translate", asked), [{key: run.told[line][key] for key in keys} for line in lines])


def is_right(asked: Asked, answer: Answer) -> bool:
    """Whether what came is what must come."""
    if answer.status != 200:
        return False
    found: Any = json.loads(answer.body)
    if not asked.kind.startswith("ours"):
        return bool(found["translatedText"] == asked.right)
    if asked.kind in ("ours greedy", "ours split"):
        return [one["text"] for one in found["translations"]] == asked.right
    return [{key: one[key] for key in ("text", "score", "tokens", "hypotheses")}
            for one in found["translations"]] == asked.right


class Traffic:
    """Those who ask, and what has come of it."""

    def __init__(self, port: int, names: Sequence[str], known: Sequence[Offline], count: int) -> None:
        self.port, self.names, self.known, self.left = port, names, known, count
        self.right: Counter[str] = Counter()
        self.wrong: list[tuple[Asked, str]] = []
        self.vanished = self.again = 0

    async def ask(self, draw: random.Random) -> None:
        """Asks until enough has been asked, over connections that come and go."""
        line: Line | None = None
        while self.left > 0:
            self.left -= 1
            asked = make_request(self.names, self.known, draw)
            if line is None or not line.is_open or draw.random() < 0.1:
                line = await self._connect(line)
            if draw.random() < 0.03:  # and is not there for the answer
                line.transport.write(asked.data)
                await asyncio.sleep(draw.random() * 0.02)
                self.vanished, line = self.vanished + 1, await self._connect(line)
            try:
                answer = await line.ask(asked.data)
                while answer.status == 429:
                    self.again += 1
                    await asyncio.sleep(int(answer.headers["retry-after"]))
                    answer = await line.ask(asked.data)
            except Lost as error:
                self.wrong.append((asked, f"lost: {error}"))
                continue
            if is_right(asked, answer):
                self.right[asked.kind] += 1
            else:
                self.wrong.append((asked, f"{answer.status} {answer.body.decode()}"))

    async def _connect(self, before: Line | None) -> Line:
        if before is not None:
            before.transport.close()
        return (await asyncio.get_running_loop().create_connection(Line, "127.0.0.1", self.port))[1]


async def drive(traffic: Traffic, connections: int, seed: int, server: subprocess.Popen[bytes]) -> None:
    """Asks over so many connections at once; tells the server now and then to open its runs anew."""
    asking = asyncio.gather(*(traffic.ask(random.Random(f"{seed} {number}")) for number in range(connections)))
    count = traffic.left
    for number in range(RELOADS, 0, -1):
        while not asking.done() and traffic.left > count * number // (RELOADS + 1):
            await asyncio.sleep(0.01)
        server.send_signal(signal.SIGHUP)
    await asking


@contextlib.contextmanager
def serving(folders: Sequence[Path], log: Path) -> Any:
    """A server of these runs, and its port."""
    pairs = [word for pair in PAIRS[: len(folders)] for word in ("--languages", "-".join(pair))]
    command = [sys.executable, "-m", "pellucid", "serve", *map(str, folders), "--port", "0", "--requests-per-minute",
               "0", "--characters", "0", *pairs, *OPTIONS]
    with log.open("wb") as told:
        process = subprocess.Popen(command, stderr=told, stdout=told, env=os.environ | {"PELLUCID_LANG": "en"})
    try:
        while not (found := re.search(r"listening on http://127\.0\.0\.1:(\d+)", log.read_text())):
            if process.poll() is not None:
                raise SystemExit(f"no server: {log.read_text()}")
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
        yield process, int(found[1])
    finally:
        process.kill()
        process.wait()


def main() -> int:
    """Prints what was asked, what came back otherwise, and the promise's closing line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--run", type=Path, action="append", default=[], help="one or two run folders")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folders = arguments.run or [Path(scratch) / name for name in ("one", "two")]
        for number, folder in enumerate(folders if not arguments.run else (), start=1):
            pellucid_([*SMALL, "--seed", str(number), "--out", str(folder)])
        draw = random.Random(arguments.seed)
        known = [offline(folder, make_lines(folder, draw)) for folder in folders]
        log = Path(scratch) / "log"
        with serving(folders, log) as (process, port):
            names = [folder.resolve().name for folder in folders]
            traffic = Traffic(port, names, known, arguments.count)
            asyncio.run(drive(traffic, arguments.connections, arguments.seed, process))
            reloads = log.read_text().count("now serving")
    passed = traffic.right.total()
    print(f"{dict(sorted(traffic.right.items()))}; {traffic.vanished} went before they were answered, {traffic.again} "
          f"asked again when it was busy, the runs were opened anew {reloads} times")
    for asked, what in traffic.wrong[:5]:
        print(f"WRONG {asked.kind}: {asked.data!r}\n  must be {asked.right!r}\n  is {what}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"right": traffic.right, "wrong": len(traffic.wrong),
                                              "vanished": traffic.vanished, "reloads": reloads}, indent=1) + "\n")
    print(f"promise 15: {passed} of {arguments.count}")
    return 0 if passed == arguments.count else 1


if __name__ == "__main__":
    raise SystemExit(main())
