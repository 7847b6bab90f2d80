"""Translation over HTTP beside the same in one process, and beside CTranslate2 behind FastAPI:
`python -m benchmarks.serve RUN --source F [--fastapi PYTHON]`.

A client of 64 connections asks for one sentence at a time, without a pause; client, server and decoder share the
machine, as in-process decoding has all of it. CTranslate2 runs in two ways, of which the faster counts: a call for each
request on FastAPI's threads, two of them at once; and all that waits in one call. The same weights, search and
tokenizer on both sides, int8 on both and float32 on theirs. Systems take turns; the table has medians.

`--fastapi` is the Python of an environment with fastapi, uvicorn, httptools, ctranslate2 4.8.5 and sentencepiece.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.arguments import new_file, positive, run_folder, text_file
from benchmarks.http_load import ask, post
from benchmarks.processes import ending
from benchmarks.translate import prepare
from pellucid.runs.run import load

CONNECTIONS = 64
OURS = {"PYTHONPATH": os.environ.get("PYTHONPATH", str(Path(__file__).parents[1] / "src"))}
IN_PROCESS = """
import json, sys, time
from pellucid.runs.run import load
run, lines = load(sys.argv[1]), open(sys.argv[2], encoding="utf-8").read().splitlines()
from dataclasses import replace
options = replace(run.config.decode, beam_size=int(sys.argv[3]), precision=sys.argv[4], split_sentences=True)
run.generate(lines[:64], options=options)
begun = time.perf_counter()
found = run.generate(lines, options=options, scores=False)
elapsed = time.perf_counter() - begun
ones = []
for line in lines[:200]:
    begun = time.perf_counter()
    run.generate([line], options=options, scores=False)
    ones.append(time.perf_counter() - begun)
print(json.dumps({"per_second": len(lines) / elapsed, "p50": sorted(ones)[100], "texts": [one.text for one in found]}))
"""


@contextlib.contextmanager
def server(command: list[str], environment: dict[str, str]) -> Iterator[tuple[int, int, float]]:
    """A server that says on standard error where it listens: its port, its process, and the seconds until then.

    Raises:
        SystemExit: it ended before it was told to; with how, and what it said last.
    """
    begun = time.perf_counter()
    with subprocess.Popen(command, env=os.environ | environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        told = ""
        for line in process.stderr:
            told += line
            if found := re.search(r"(?:listening|running) on http://127\.0\.0\.1:(\d+)", line):
                break
        else:
            raise SystemExit(f"the server {ending(process.wait(), told)}")
        try:
            yield int(found[1]), process.pid, time.perf_counter() - begun
        except ConnectionError as error:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=5)
            process.terminate()
            said = process.communicate(timeout=60)[1]
            raise SystemExit(f"{error}: the server {ending(process.returncode, said)}") from error
        finally:
            process.terminate()
            process.communicate(timeout=60)


def over_http(command: list[str], environment: dict[str, str], path: str, bodies: list[Any]) -> dict[str, Any]:
    """Texts a second from all connections, and seconds of one request at a time."""
    requests = [post(path, body) for body in bodies]
    with server(command, environment) as (port, process, ready):
        ask(port, requests[:256], CONNECTIONS)
        many = ask(port, requests, CONNECTIONS)
        one = ask(port, requests[:200], 1)
        memory = int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process}/status").read_text())[1]) / 1024  # type: ignore[index]
    texts = [next(iter(json.loads(body).values())) for body in many.bodies]
    return {"per_second": len(requests) / many.elapsed, "p50": statistics.median(one.seconds),
            "p99": sorted(many.seconds)[int(0.99 * len(requests))], "texts": texts, "peak_mib": memory, "ready": ready}


def in_process(run: Path, source: Path, beam: int, precision: str) -> dict[str, Any]:
    """The same for lines in one call of `Run.generate`, and in one call each."""
    done = subprocess.run([sys.executable, "-c", IN_PROCESS, str(run), str(source), str(beam), precision], check=True,
                          capture_output=True, text=True, env=os.environ | OURS)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def jobs_of(args: argparse.Namespace, folder: Path) -> dict[str, Callable[[], dict[str, Any]]]:
    """What takes turns, by name."""
    source = folder / "source"
    lines = args.source.read_text(encoding="utf-8").splitlines()
    lines = (lines * (args.count // len(lines) + 1))[: args.count]
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    ours = [sys.executable, "-m", "pellucid", "serve", str(args.run), "--languages", "en-de", "--port", "0",
            "--requests-per-minute", "0", "--decode.precision", args.precision, "--decode.beam_size", str(args.beam)]
    asked = [{"q": line, "source": "en", "target": "de"} for line in lines]
    jobs: dict[str, Callable[[], dict[str, Any]]] = {
        "in one process": lambda: in_process(args.run, source, args.beam, args.precision),
        "pellucid serve": lambda: over_http(ours, OURS, "/translate", asked)}
    if args.fastapi is not None:
        theirs = [*prepare(args.run, folder), str(args.beam), str(args.penalty)]
        for way in ("a call each", "one call for all that wait"):
            for precision in ("int8", "float32"):
                command = [str(args.fastapi), str(Path(__file__).with_name("serve_peer.py")), *theirs, precision, way]
                jobs[f"CTranslate2 {precision}, FastAPI, {way}"] = (
                    lambda command=command: over_http(command, {}, "/translate", [{"q": line} for line in lines]))
    return jobs


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = ["| system | sentences a second | one at a time, p50 | 64 at once, p99 | ready after | peak memory |",
             "|---|---|---|---|---|---|"]
    for row in rows:
        p99 = f"{row['p99'] * 1e3:.0f} ms" if "p99" in row else ""
        memory = f"{row['ready']:.2f} s | {row['peak_mib']:.0f} MiB" if "ready" in row else "|"
        lines.append(f"| {row['system']} | {row['per_second']:.0f} ({row['low']:.0f}–{row['high']:.0f}) | "
                     f"{row['p50'] * 1e3:.2f} ms | {p99} | {memory} |")
    return "\n".join(lines)


def main() -> None:
    """Runs the jobs in turn, prints the table, writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=run_folder, help="a run folder with a shared SentencePiece vocabulary")
    parser.add_argument("--source", type=text_file, required=True, help="a file of sentences")
    parser.add_argument("--count", type=positive, default=3000, help="requests")
    parser.add_argument("--fastapi", type=Path, help="Python of the environment of the peer")
    parser.add_argument("--repeat", type=positive, default=5)
    parser.add_argument("--beam-size", type=positive, help="in place of the run's")
    parser.add_argument("--json", type=new_file, help="where to write the results")
    args = parser.parse_args()
    decode = load(args.run).config.decode
    args.beam, args.penalty, args.precision = args.beam_size or decode.beam_size, decode.length_penalty, "int8"
    with tempfile.TemporaryDirectory() as name:
        jobs = jobs_of(args, Path(name))
        found: dict[str, list[dict[str, Any]]] = {job: [] for job in jobs}
        for _ in range(args.repeat):
            for job, measure in jobs.items():
                found[job].append(measure())
                print(f"{job}: {found[job][-1]['per_second']:.0f}/s", file=sys.stderr, flush=True)
    same = found["in one process"][0]["texts"] == found["pellucid serve"][0]["texts"]
    rows = [{"system": job, "low": min(speeds), "high": max(speeds)} |
            {key: statistics.median(turn[key] for turn in turns) for key in turns[0] if key != "texts"}
            for job, turns in found.items() if (speeds := [turn["per_second"] for turn in turns])]
    print(table(rows))
    ours, others = rows[1]["per_second"], [row["per_second"] for row in rows[2:]]
    print(f"\nover HTTP {ours / rows[0]['per_second']:.0%} of in-process" + (
        f", {ours / max(others):.2f} times the peer's best" if others else "") + f"; the same texts: {same}")
    if args.json:
        machine.write(rows, args.json)


if __name__ == "__main__":
    main()
