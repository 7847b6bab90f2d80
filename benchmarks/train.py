"""Training speed beside the peers: `python -m benchmarks.train [--quick] [--json FILE]`.

Each system runs in a process of its own and takes its turn, repetition by repetition; real source and target tokens
are counted, the loss of each batch included. The fraction of the limit is the time of the update's matrix products
alone, at their best, over the time of the update.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks import machine, workloads
from benchmarks.limit import Limit, flops, products
from benchmarks.worker import read

SYSTEMS: list[tuple[str, str]] = [
    ("pellucid", "default"), ("pellucid", "plain"), ("nn.Transformer", "fp32"), ("nn.Transformer", "bf16"),
    ("nn.Transformer", "bf16 compile"), ("marian", "sdpa bf16"), ("x-transformers", "flash bf16"), ("joeynmt", "fp32")]
CLASSIFIERS = [system for system in SYSTEMS if system[0] in ("pellucid", "nn.Transformer")]
TITLE = [("pellucid", "default"), ("textbook", "fp32"), ("nn.Transformer", "bf16 compile"), ("marian", "sdpa bf16")]
TEXTBOOK_LENGTH = 512


@dataclass
class Runner:
    """A system in its process, ready for a repetition."""

    system: str
    setting: str
    process: subprocess.Popen[str]
    about: dict[str, Any]
    runs: list[dict[str, Any]]

    def run(self) -> None:
        """One repetition."""
        assert self.process.stdin is not None
        self.process.stdin.write("run\n")
        self.process.stdin.flush()
        self.runs.append(self.answer())

    def answer(self) -> dict[str, Any]:
        """The next line that the process writes."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.system} ({self.setting}) ended")
        answer: dict[str, Any] = json.loads(line)
        return answer


def systems_of(case: str, joeynmt: str | None) -> list[tuple[str, str]]:
    """Who takes part in a case."""
    if case == "classifier":
        return CLASSIFIERS
    systems = TITLE if case == "title" else SYSTEMS
    return [s for s in systems if s[0] != "joeynmt" or joeynmt]


def start(system: str, setting: str, path: Path, joeynmt: str | None, log: Path) -> Runner:
    """Starts a system and waits until it has warmed up."""
    python = joeynmt if system == "joeynmt" else sys.executable
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    process = subprocess.Popen([str(python), "-m", "benchmarks.worker", system, setting, str(path)], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log.open("w"), env=environment)
    runner = Runner(system, setting, process, {}, [])
    runner.about = runner.answer()
    return runner


def run_case(case: str, repeat: int, joeynmt: str | None, only: list[str], limit: Limit) -> list[dict[str, Any]]:
    """All systems of a case, interleaved: its rows of the table."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder, padded = Path(name), Path(name) / "padded"
        padded.mkdir()
        path = workloads.write(case, folder)
        model, batches = read(str(path))
        tokens = sum(int((side != 0).sum()) for batch in batches for side in batch)
        if model["classes"]:
            tokens = sum(int((source != 0).sum()) for source, _ in batches)
        best = sum(limit.seconds(products(model, batch)) for batch in batches)
        operations = sum(flops(products(model, batch)) for batch in batches)
        say(f"{case}: {len(batches)} updates of {tokens / len(batches):,.0f} tokens, {operations / tokens / 1e6:.1f} "
            f"MFLOP a token, limit {tokens / best:,.0f} tokens/s")
        runners = []
        for system, setting in systems_of(case, joeynmt):
            if only and system not in only:
                continue
            full = workloads.write(case, padded, TEXTBOOK_LENGTH) if system == "textbook" else path
            try:
                runners.append(start(system, setting, full, joeynmt, folder / "log"))
            except RuntimeError as error:
                say(f"  left out: {error}\n{(folder / 'log').read_text()[-2000:]}")
                continue
            say(f"  {system} ({setting}) is warm after {runners[-1].about['warm_up_seconds']:.0f} s")
        for number in range(repeat):
            for runner in runners[number % len(runners):] + runners[: number % len(runners)]:
                runner.run()
            say(f"  repetition {number + 1} of {repeat}: " + ", ".join(
                f"{r.system} ({r.setting}) {tokens / r.runs[-1]['seconds']:,.0f}" for r in runners))
        check_sizes(runners)
        rows = [row_of(case, model["name"], runner, tokens, best, operations) for runner in runners]
        for runner in runners:
            runner.process.kill()
            runner.process.wait()
    return rows


def check_sizes(runners: list[Runner]) -> None:
    """All systems must hold the same model, within half a percent."""
    sizes = {f"{r.system} ({r.setting})": r.about["parameters"] for r in runners}
    assert max(sizes.values()) <= 1.005 * min(sizes.values()), sizes


def row_of(case: str, model: str, runner: Runner, tokens: int, best: float, operations: int) -> dict[str, Any]:
    """A row of the results."""
    rates = sorted(tokens / run["seconds"] for run in runner.runs)
    rate = statistics.median(rates)
    return {"workload": case, "model": model, "system": runner.system, "setting": runner.setting,
            "tokens_per_second": rate, "low": rates[0], "high": rates[-1],
            "peak_memory_bytes": max(run["peak_memory_bytes"] for run in runner.runs),
            "fraction_of_limit": best * rate / tokens, "flops_per_second": operations * rate / tokens,
            "parameters": runner.about["parameters"], "warm_up_seconds": runner.about["warm_up_seconds"],
            "loss": runner.runs[-1]["loss"], "torch": runner.about["torch"]}


def table(rows: list[dict[str, Any]]) -> str:
    """The rows for people; the last column is our speed over theirs."""
    lines = []
    ours = {row["workload"]: row["tokens_per_second"] for row in rows if row["setting"] == "default"}
    for row in rows:
        ratio = ours.get(row["workload"], float("nan")) / row["tokens_per_second"]
        lines.append(f"{row['workload']:12} {row['system'] + ' (' + row['setting'] + ')':30}"
                     f"{row['tokens_per_second']:9,.0f} ({row['low']:,.0f}–{row['high']:,.0f})".ljust(68)
                     + f"{row['peak_memory_bytes'] / 2**30:6.2f} GiB  limit × {row['fraction_of_limit']:.2f}  "
                       f"ours × {ratio:.2f}  loss {row['loss']:.2f}")
    return "\n".join(lines)


def say(line: str) -> None:
    """To standard error, at once."""
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    """Parses, runs every case, prints the table, writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", nargs="*", choices=list(workloads.CASES), default=list(workloads.CASES))
    parser.add_argument("--system", nargs="*", default=[], help="only these systems")
    parser.add_argument("--quick", action="store_true", help="two repetitions in place of five")
    parser.add_argument("--repeat", type=int, help="repetitions")
    parser.add_argument("--joeynmt", metavar="PYTHON", help="the interpreter of an environment with joeynmt 2.3.0")
    parser.add_argument("--json", type=Path, help="where to write the results")
    args = parser.parse_args()
    limit = Limit(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    rows: list[dict[str, Any]] = []
    for case in args.case:
        rows += run_case(case, args.repeat or (2 if args.quick else 5), args.joeynmt, args.system, limit)
        print(table([row for row in rows if row["workload"] == case]), flush=True)
        if args.json:
            args.json.write_text(json.dumps({**machine.describe(), "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
