"""Training speed beside the peers: `python -m benchmarks.train [--quick] [--json FILE]`.

Each system runs in a process of its own and takes its turn, repetition by repetition; real source and target tokens
are counted, the loss of each batch included. Where a CPU multiplies bf16, the peers run in it and in fp32, and the
faster one counts, whatever `train.precision: auto` is for us. All have tcmalloc where it is installed, as `pellucid
train` has; with `LD_PRELOAD=` in front, all have glibc's allocator. The fraction of the limit is the time of the
update's matrix products alone, at their best, over the time of the update.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks import machine, processes, workloads
from benchmarks.arguments import above_zero, new_file, positive
from benchmarks.limit import Limit, flops, products
from benchmarks.processes import Chosen, Runner, System, interleave, is_chosen, named, say
from benchmarks.worker import read
from pellucid.kernels.allocator import start_anew
from pellucid.kernels.levels import multiplies_bf16
from pellucid.precision import resolve


def formats() -> list[str]:
    """In which the peers run: both where either may be the faster one; imitated bf16 takes minutes."""
    if torch.cuda.is_available():
        return ["bf16"]
    return ["fp32", "bf16"] if multiplies_bf16() else ["fp32"]


COMPILED = [("nn.Transformer", f"{kind} compile") for kind in formats()]
MARIAN = [("marian", f"sdpa {kind}") for kind in formats()]
SYSTEMS: list[System] = list(dict.fromkeys([
    ("pellucid", "default"), ("pellucid", "plain equations"), ("nn.Transformer", "fp32"),
    *(("nn.Transformer", kind) for kind in formats()), *COMPILED, *MARIAN,
    *(("x-transformers", f"flash {kind}") for kind in formats()),
    ("joeynmt", "fp32"), ("joeynmt", "fp32, own batches")]))
ASKED_ALONE = [("pellucid", "fp32"), ("pellucid", "bf16")]  # the default is one of them
CLASSIFIERS = [system for system in SYSTEMS if system[0] in ("pellucid", "nn.Transformer")]
TITLE = [("pellucid", "default"), ("textbook", "fp32"), *COMPILED, *MARIAN]
TEXTBOOK_LENGTH = 512


def systems_of(case: str, joeynmt: str | None, only: Chosen) -> list[System]:
    """Who takes part in a case, of those that are asked for."""
    systems = {"classifier": CLASSIFIERS, "title": TITLE}.get(case, SYSTEMS) + (ASKED_ALONE if only else [])
    return [s for s in systems if is_chosen(s, only) and (s[0] != "joeynmt" or joeynmt)]


def start(system: str, setting: str, path: Path, joeynmt: str | None, *more: str) -> Runner:
    """Starts a system and waits until it has warmed up, or whatever it is to do first."""
    runner = processes.start("benchmarks.worker", system, setting, [str(path), *more], path.parent,
                             joeynmt if system == "joeynmt" else None)
    runner.about["tokens"] = tokens_of(path)
    return runner


def run_case(case: str, repeat: int, joeynmt: str | None, only: Chosen, limit: Limit) -> list[dict[str, Any]]:
    """All systems of a case, interleaved: its rows of the table."""
    with tempfile.TemporaryDirectory() as name:
        paths = inputs_of(case, Path(name))
        model, batches = read(str(paths["given"]))
        best = sum(limit.seconds(products(model, batch)) for batch in batches)
        operations = sum(flops(products(model, batch)) for batch in batches)
        tokens = tokens_of(paths["given"])
        say(f"{case}: {len(batches)} updates of {tokens / len(batches):,.0f} tokens, {operations / tokens / 1e6:.1f} "
            f"MFLOP a token, limit {tokens / best:,.0f} tokens/s; our default is {resolve('auto', limit.device)}")
        runners = start_all(systems_of(case, joeynmt, only), paths, joeynmt)
        check_sizes(runners)
        left = interleave(runners, repeat, lambda runner: float(runner.about["tokens"] / runner.runs[-1]["seconds"]))
        return [row_of(case, model["name"], runner, best / tokens, operations / tokens) for runner in left]


def inputs_of(case: str, folder: Path) -> dict[str, Path]:
    """The ids of a case as they are given to all, and as a textbook pads and as JoeyNMT's own loop batches them."""
    for name in ("given", "textbook", "own"):
        (folder / name).mkdir()
    return {"given": workloads.write(case, folder / "given"),
            "textbook": workloads.write(case, folder / "textbook", textbook_length=TEXTBOOK_LENGTH),
            "own": workloads.write(case, folder / "own", shuffled=True)}


def tokens_of(path: Path) -> int:
    """Real tokens of both sides (for a classifier: of the source)."""
    model, batches = read(str(path))
    sides = [batch[:1] if model["classes"] else batch for batch in batches]
    return sum(int((ids != 0).sum()) for batch in sides for ids in batch)


def start_all(systems: list[System], paths: dict[str, Path], joeynmt: str | None) -> list[Runner]:
    """All systems, warm; one that cannot run is left out, and why is told."""
    runners = []
    for system, setting in systems:
        path = paths["textbook" if system == "textbook" else "own" if "own batches" in setting else "given"]
        try:
            runners.append(start(system, setting, path, joeynmt))
            say(f"  {runners[-1]} is warm after {runners[-1].about['warm_up_seconds']:.0f} s")
        except RuntimeError as error:
            say(f"  left out: {error}")
    return runners


def race(case: str, target: float, joeynmt: str | None, only: Chosen) -> list[dict[str, Any]]:
    """The wall time of every system, one after the other, from its first second to a validation loss."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        path = workloads.write(case, Path(name), updates=60)
        for system, setting in systems_of(case, joeynmt, only):
            if "own" in setting or system == "textbook":
                continue
            try:
                runner = start(system, setting, path, joeynmt, str(target))
            except RuntimeError as error:
                say(f"  left out: {error}")
                continue
            runner.process.wait()
            rows.append({"workload": f"{case} to loss {target}", "model": case, "system": system, "setting": setting,
                         **runner.about})
            say(f"  {runner}: loss {runner.about['loss']:.3f} after {runner.about['seconds']:.0f} s, "
                f"{runner.about['updates']} updates")
    return rows


def check_sizes(runners: list[Runner]) -> None:
    """All systems must hold the same model, within half a percent."""
    sizes = {str(r): r.about["parameters"] for r in runners}
    assert all(one <= 1.005 * other for one in sizes.values() for other in sizes.values()), sizes


def row_of(case: str, model: str, runner: Runner, best: float, operations: float) -> dict[str, Any]:
    """A row of the results; `best` and `operations` are the limit's seconds and the FLOPs of a token."""
    rates = sorted(runner.about["tokens"] / run["seconds"] for run in runner.runs)
    rate = statistics.median(rates)
    return {"workload": case, "model": model, "system": runner.system, "setting": runner.setting,
            "tokens_per_second": rate, "low": rates[0], "high": rates[-1],
            "peak_memory_bytes": max(run["peak_memory_bytes"] for run in runner.runs),
            "fraction_of_limit": best * rate, "flops_per_second": operations * rate,
            "parameters": runner.about["parameters"], "warm_up_seconds": runner.about["warm_up_seconds"],
            "loss": runner.runs[-1]["loss"], "torch": runner.about["torch"]}


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown; "ours ×" is our speed over theirs."""
    lines = ["| workload | system | tokens/s | ours × | of the limit | memory |", "|---|---|---|---|---|---|"]
    ours = {row["workload"]: row["tokens_per_second"] for row in rows if row["setting"] == "default"}
    names = {"pellucid, default": "**pellucid**", "pellucid, plain": "pellucid, plain equations"}  # of older results
    for row in rows:
        name = f"{row['system']}, {row['setting']}"
        has_ratio = row["workload"] in ours and row["setting"] != "default"
        factor = f"{ours[row['workload']] / row['tokens_per_second']:.2f}" if has_ratio else ""
        lines.append(f"| {row['workload']} | {names.get(name, name)} | {row['tokens_per_second']:,.0f} "
                     f"({row['low']:,.0f}–{row['high']:,.0f}) | {factor} | "
                     f"{row['fraction_of_limit']:.2f} | {row['peak_memory_bytes'] / 2**30:.2f} GiB |")
    return "\n".join(lines)


def best_peers(rows: list[dict[str, Any]]) -> str:
    """Our speed over that of the fastest peer in each workload, as Markdown."""
    lines = ["| workload | × the best peer | the best peer |", "|---|---|---|"]
    for workload in dict.fromkeys(row["workload"] for row in rows):
        here = [row for row in rows if row["workload"] == workload]
        ours = [row["tokens_per_second"] for row in here if row["setting"] == "default"]
        peers = [row for row in here if row["system"] != "pellucid"]
        if ours and peers:
            best = max(peers, key=lambda row: row["tokens_per_second"])
            lines.append(f"| {workload} | {ours[0] / best['tokens_per_second']:.2f} | {best['system']}, "
                         f"{best['setting']} |")
    return "\n".join(lines)


def main() -> None:
    """Parses, runs every case, prints the table, writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", nargs="*", choices=list(workloads.CASES), default=[
        case for case in workloads.CASES if torch.cuda.is_available() or case not in workloads.FOR_A_GPU])
    parser.add_argument("--system", nargs="*", default=[], metavar="SYSTEM",
                        type=named(list(dict.fromkeys(SYSTEMS + TITLE)), ASKED_ALONE),
                        help='only these, as in nn.Transformer or "nn.Transformer: bf16"; and "pellucid: fp32" and '
                             '"pellucid: bf16", of which the default is one')
    parser.add_argument("--quick", action="store_true", help="two repetitions in place of five")
    parser.add_argument("--repeat", type=positive, help="repetitions")
    parser.add_argument("--to-loss", type=above_zero, metavar="LOSS",
                        help="time each case from nothing to this validation loss instead, compiling included")
    parser.add_argument("--joeynmt", metavar="PYTHON", help="the interpreter of an environment with joeynmt 2.3.0")
    parser.add_argument("--json", type=new_file, help="where to write the results")
    args = parser.parse_args()
    limit = Limit(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    rows: list[dict[str, Any]] = []
    for case in args.case:
        if args.to_loss:
            rows += race(case, args.to_loss, args.joeynmt, args.system)
        else:
            rows += run_case(case, args.repeat or (2 if args.quick else 5), args.joeynmt, args.system, limit)
            say(table([row for row in rows if row["workload"] == case]))
        if args.json:
            machine.write(rows, args.json)
    if not rows:
        raise SystemExit("none of these systems runs here: why is told above")
    if not args.to_loss:
        print(f"{table(rows)}\n\n{best_peers(rows)}")


if __name__ == "__main__":
    start_anew()
    main()
