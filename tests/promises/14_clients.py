"""Promise 14: clients that people have get from `pellucid serve` what they ask LibreTranslate for.

    python tests/promises/14_clients.py --environment clients

Six of them, unmodified, by all the calls that each has, and requests as Mastodon and Weblate send them. The clients are
installed into the folder `--environment` if they are not there yet, and into one that is removed otherwise.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.promises.recorded import KEY, Answer, fault_of, requests, texts

import pellucid

RUN = Path(__file__).parents[1] / "runs" / "kept" / "0.1.0" / "run"
CLIENTS = Path(__file__).with_name("clients")
PYTHON = {"libretranslatepy": "2.1.4", "libretranslate_aio": "0.1.3", "deep_translator": "1.11.4",
          "argostranslate": "1.11.0"}
NODE = {"translate": "3.1.0", "libretranslate": "1.0.1"}
MORE = ["the dog sleeps .", "who are you ?", "we do not work today .", "the king's old hat", "I like milk!  And you?",
        "the cat sleeps .\n\nthe dog sleeps .", " the boy sings .\t"]


def install(folder: Path) -> None:
    """Puts the clients into a folder: four into a virtual environment, two beside it, each as it is published."""
    python = folder / "python" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder / "python"], check=True)
    alone = {"argostranslate"}  # its apis.py needs nothing of what it translates with by itself
    for names, words in ((PYTHON.keys() - alone, []), (alone, ["--no-deps"])):
        wanted = [f"{name.replace('_', '-')}=={PYTHON[name]}" for name in sorted(names)]
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *words, *wanted],
                       check=True)
    if not all((folder / "node_modules" / name).exists() for name in NODE):
        subprocess.run(["npm", "install", "--prefix", folder, "--silent", "--ignore-scripts", "--no-audit", "--no-fund",
                        *(f"{name}@{version}" for name, version in NODE.items())], check=True)


@contextlib.contextmanager
def server(folder: Path, *words: str) -> Iterator[str]:
    """Serves the run, English to French and the other way round; the address."""
    command = [sys.executable, "-m", "pellucid", "serve", str(RUN), str(RUN), "--languages", "en-fr", "--languages",
               "fr-en", "--port", "0", *words]
    with (folder / f"server{len(list(folder.glob('server*')))}.log").open("w+") as log:
        process = subprocess.Popen(command, stderr=log, stdout=log)
        try:
            for _ in range(600):
                log.seek(0)
                if found := re.search(r"listening on (http://\S+)", log.read()):
                    break
                assert process.poll() is None, (log.seek(0), log.read())[1]
                time.sleep(0.1)
            assert found
            yield found[1]
        finally:
            process.terminate()
            process.wait(timeout=60)


def send_to(urls: dict[str, str], name: str, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
    """A request over a connection of its own."""
    connection = http.client.HTTPConnection(urls[name].removeprefix("http://"), timeout=60)
    try:
        connection.request(method, path, body or None, headers)
        answer = connection.getresponse()
        return Answer(answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def of_client(folder: Path, name: str, task: dict[str, Any]) -> list[tuple[str, bool, str]]:
    """The calls of one client: what it was, whether it went well, what came."""
    if name in PYTHON:
        command = [str(folder / "python" / "bin" / "python"), str(CLIENTS / "python_clients.py"), name]
    else:
        command = ["node", str(CLIENTS / "node_clients.mjs"), name]
    done = subprocess.run(command, input=json.dumps(task), capture_output=True, text=True, check=False, timeout=600,
                          env={**os.environ, "NODE_PATH": str(folder / "node_modules")})
    if done.returncode:
        return [("start", False, done.stderr[-2000:])]
    return [(call, is_right, found) for call, is_right, found in json.loads(done.stdout)]


def check(folder: Path, work: Path, count: int, with_recorded: bool = True) -> list[dict[str, Any]]:
    """A row for each request: who made it, which, and whether it was answered well.

    Args:
        folder: where the clients are.
        work: for what servers tell.
        count: how many calls at least, all together.
    """
    run, asked = pellucid.load(RUN), requests() if with_recorded else []
    known = sorted({*texts(), *(part for text in MORE for part in text.split("\n") if part)})
    each = {text: one.text for text, one in zip(known, run.generate(known), strict=True)}
    (work / "keys").write_text(f"{KEY}  # of the clients\n")
    (work / "text.txt").write_text("the cat sleeps .")
    keys = ["--api-keys", str(work / "keys")]
    rows = []
    few = [*keys, "--requests-per-minute", "3"]
    with (server(work) as open_, server(work, *keys) as keyed, server(work, *few) as strict,
          server(work, *few) as of_clients):
        urls = {"open": open_, "keyed": keyed, "strict": strict}
        for request in asked:
            fault = fault_of(request, lambda *words: send_to(urls, *words), each)
            rows.append({"client": "recorded", "call": request["name"], "passed": not fault, "found": fault})
        pairs = [(text, each[text]) for text in texts()]
        names = [*PYTHON, *NODE]
        for number, name in enumerate(names):
            left = max(0, count - len(rows)) // (len(names) - number)
            task = {"open": open_, "keyed": keyed, "strict": of_clients, "key": KEY, "count": left, "pairs": pairs,
                    "file": str(work / "text.txt")}
            rows += [{"client": name, "call": call, "passed": is_right, "found": found}
                     for call, is_right, found in of_client(folder, name, task)]
    return rows


def main() -> int:
    """Prints what went wrong, a line a client, and the promise's closing line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--environment", type=Path, help="a folder with the clients, or for them")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folder = (arguments.environment or Path(work) / "clients").absolute()
        install(folder)
        rows = check(folder, Path(work), arguments.count)
    for row in rows:
        if not row["passed"]:
            print(json.dumps(row, ensure_ascii=False))
    for name in dict.fromkeys(row["client"] for row in rows):
        own = [row["passed"] for row in rows if row["client"] == name]
        print(f"{name:20} {sum(own)} of {len(own)}")
    passed = sum(row["passed"] for row in rows)
    if arguments.json:
        arguments.json.write_text(json.dumps({"promise": 14, "versions": PYTHON | NODE, "rows": rows}, indent=2))
    print(f"promise 14: {passed} of {len(rows)}")
    return 0 if passed == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
