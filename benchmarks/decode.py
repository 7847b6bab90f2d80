"""Decoding speed beside the peers: `python -m benchmarks.decode [--run RUN] [--quick] [--json FILE]`.

The same weights in every system, the same ids in, no tokenisation inside the timer; what counts is the emitted tokens
of the best hypothesis, eos included. Each system runs in a process of its own, finds its best batch among a few while
it warms up, and then takes its turn, repetition by repetition. A system has a row only if it passed the gate
(`benchmarks/reference.py`); what it does differently is told in `benchmarks/decoders.py`.

Needs ctranslate2 4.8.5 and transformers beside the project's own packages (`pip install ctranslate2==4.8.5
transformers`); a system that is not there is left out. JoeyNMT runs in an environment of its own: `--joeynmt PYTHON`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import machine, processes, vocabulary_map
from benchmarks.arguments import new_file, positive, run_folder, text_file
from benchmarks.convert import holds, to_ctranslate2
from benchmarks.decode_cases import LENGTHS, PLACED, Case, random_case, run_case
from benchmarks.decode_job import Job, Search
from benchmarks.decode_limit import Bound, bound_of
from benchmarks.decode_table import tables
from benchmarks.limit import Limit
from benchmarks.processes import Runner, System, interleave, is_chosen, named, say
from benchmarks.reference import Gate, Verdict
from pellucid.runs.run import load

WORKERS = ("1x1", "1x2", "2x1")  # of CTranslate2, times the threads of each
SYSTEMS: list[System] = [
    ("pellucid", "int8"), ("pellucid", "bf16"), ("pellucid", "fp32"), ("pellucid", "plain fp32"),
    *(("ctranslate2", f"{kind} {workers}{more}") for kind in ("float32", "int8", "bfloat16")
      for more in ("", " mkl", " vmap") for workers in WORKERS if kind != "bfloat16" or not more),
    ("transformers", "fp32"), ("transformers", "bf16"), ("joeynmt", "fp32")]
SEARCHES = [Search("greedy", 1, 0.0, 0.0), Search("beam 4", 4, 0.0, 0.0), Search("beam 4, penalty", 4, 0.6, 0.6)]
BUDGETS = [512, 1024, 2048, 4096, 8192]  # source tokens a batch
ONE_BY_ONE = 100  # sentences whose latency is measured


def has_row(setting: str, is_run: bool, one_by_one: bool) -> bool:
    """Whether a setting makes sense: two workers for one sentence do not, one thread for many does not, nor a map of a
    random model's vocabulary."""
    return (is_run or "vmap" not in setting) and ("1x1" if not one_by_one else "2x1") not in setting


def is_exact(system: str, setting: str, job: Job) -> bool:
    """Whether the gate asks for the reference's very tokens."""
    if "vmap" in setting or not {"fp32", "float32"} & set(setting.split()):
        return False
    searches_alike = job.search.is_one_for_all and (system != "joeynmt" or job.search.beam_size == 1)
    return system == "pellucid" or job.has_given_lengths or searches_alike


def equalized(search: Search, length: float) -> Search:
    """The search with a β for |Y|^β that at `length` tokens favours one token more as much as our α does."""
    return replace(search, exponent=search.length_penalty * length / (5 + length))


def run_job(case: Case, job: Job, folder: Path, args: argparse.Namespace, limit: Limit) -> list[dict[str, Any]]:
    """All systems at one job, interleaved: its rows of the table."""
    gate = Gate(case.model, job, case.bleu)
    mean = statistics.mean(map(len, gate.reference))
    if not job.has_given_lengths:
        job = replace(job, search=equalized(job.search, mean))
    job.write(folder)
    bound = bound_of(job, mean, limit)
    name = f"{job.search.name}{', one by one' if job.one_by_one else ''}"
    say(f"{case.name}, {name} (β {job.search.exponent:.2f}): {len(job.sources)} sentences, {mean:.1f} tokens each\n"
        f"  {bound}")
    budgets = [0] if job.one_by_one else args.budget
    wanted = [s for s in SYSTEMS if has_row(s[1], bool(args.run), job.one_by_one) and is_chosen(s, args.system)
              and holds(s[0], case.sizes) and (s[0] != "joeynmt" or args.joeynmt)]
    runners = interleave(start_all(wanted, folder, budgets, args.joeynmt), args.repeat or (2 if args.quick else 5),
                         lambda runner: rate(runner.runs[-1]))
    rows = []
    for runner in runners:
        verdict = verdict_of(gate, runner, is_exact(runner.system, runner.setting, job))
        if verdict.passed:
            rows.append(row_of(case, name, runner, verdict, bound))
        else:
            say(f"  no row for {runner}: {'; '.join(verdict.failures)}")
    return rows


def verdict_of(gate: Gate, runner: Runner, exact: bool) -> Verdict:
    """On the outputs of all repetitions (they may differ where two workers share the batches): the worst."""
    different = {json.dumps(run["outputs"]) for run in runner.runs}
    return min((gate.judge(json.loads(outputs), exact) for outputs in different),
               key=lambda verdict: (verdict.passed, verdict.identical))


def start_all(systems: list[System], folder: Path, budgets: list[int], joeynmt: str | None) -> list[Runner]:
    """All systems, warm; one that cannot run is left out, and why is told."""
    runners = []
    for system, setting in systems:
        try:
            runners.append(processes.start("benchmarks.decode_worker", system, setting,
                                           [str(folder), *map(str, budgets)], folder,
                                           joeynmt if system == "joeynmt" else None))
            tried = ", ".join(f"{k}: {v:.2f} s" for k, v in runners[-1].about["tried"].items())
            flags = ", ".join(f"{k}={v}" for k, v in runners[-1].about["flags"].items())
            say(f"  {runners[-1]} is warm; tokens a batch {tried}; {flags}")
        except RuntimeError as error:
            say(f"  left out: {error}")
    return runners


def rate(run: dict[str, Any]) -> float:
    """Emitted tokens a second in one repetition."""
    return sum(map(len, run["outputs"])) / run["seconds"]


def row_of(case: Case, name: str, runner: Runner, verdict: Verdict, bound: Bound) -> dict[str, Any]:
    """A row of the results."""
    rates = sorted(rate(run) for run in runner.runs)
    median = statistics.median(rates)
    lengths = [len(ids) for ids in runner.runs[-1]["outputs"]]
    latencies = np.median([run["parts"] for run in runner.runs], axis=0)
    return {"workload": name, "model": case.name, "system": runner.system, "setting": runner.setting,
            "tokens_per_second": median, "low": rates[0], "high": rates[-1],
            "peak_memory_bytes": max(run["peak_memory_bytes"] for run in runner.runs),
            "fraction_of_limit": median / bound.tokens_per_second, "batch_tokens": runner.about["budget"],
            "flags": runner.about["flags"],
            "p50_seconds": float(np.quantile(latencies, 0.5)), "p95_seconds": float(np.quantile(latencies, 0.95)),
            "identical": verdict.identical, "ties": verdict.ties, "nats_lost": verdict.nats, "bleu": verdict.bleu,
            "bleu_of_reference": verdict.bleu_of_reference, "mean_length": statistics.mean(lengths),
            "length_deviation": statistics.pstdev(lengths), "longest": max(lengths), "step": asdict(bound)}


def table(rows: list[dict[str, Any]], one_by_one: bool) -> str:
    """The rows with all that was measured."""
    lines = []
    for row in rows:
        speed = f"{row['tokens_per_second']:9,.0f} ({row['low']:,.0f}–{row['high']:,.0f})"
        if one_by_one:
            speed += f"  p50 {row['p50_seconds'] * 1e3:.1f} ms, p95 {row['p95_seconds'] * 1e3:.1f} ms"
        score = "" if row["bleu"] is None else f"  BLEU {row['bleu']:.2f} ({row['bleu_of_reference']:.2f})"
        lines.append(f"{row['model']:18} {row['workload']:16} {row['system'] + ' (' + row['setting'] + ')':32}"
                     f"{speed:28}  batch {row['batch_tokens']:5}  limit × {row['fraction_of_limit']:.2f}  "
                     f"{row['peak_memory_bytes'] / 2**30:5.2f} GiB  identical {row['identical']:6.1%} + "
                     f"{row['ties']} ties  length {row['mean_length']:.2f} ± {row['length_deviation']:.2f} "
                     f"to {row['longest']}{score}")
    return "\n".join(lines)


def cases_of(args: argparse.Namespace) -> list[Case]:
    """A trained run's, or a random model's of each size.

    Raises:
        SystemExit: the peers have no such model as the run's.
    """
    if args.run:
        files = (str(args.source), str(args.target)) if args.source else None
        try:
            return [run_case(args.run, files, args.sentences)]
        except ValueError as error:
            raise SystemExit(str(error)) from error
    return [random_case(model, kind, args.sentences, position, args.attention)
            for model in args.model for kind in args.lengths for position in args.position]


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=run_folder, help="a run, in place of random weights; its test set is decoded")
    parser.add_argument("--source", type=text_file, help="a file of sources to decode with the run")
    parser.add_argument("--target", type=text_file, help="their references")
    parser.add_argument("--model", nargs="*", choices=["tiny", "small", "base"], default=["tiny", "small", "base"])
    parser.add_argument("--lengths", nargs="*", choices=list(LENGTHS), default=list(LENGTHS))
    parser.add_argument("--position", nargs="*", choices=PLACED, default=["sinusoidal"], help="of a random model")
    parser.add_argument("--attention", choices=["full", "window"], default="full", help="of a random model")
    parser.add_argument("--search", nargs="*", choices=[s.name for s in SEARCHES],
                        default=[s.name for s in SEARCHES])
    parser.add_argument("--mode", nargs="*", choices=["batches", "one by one"], default=["batches", "one by one"])
    parser.add_argument("--system", nargs="*", default=[], type=named(SYSTEMS), metavar="SYSTEM",
                        help='only these, as in ctranslate2, "ctranslate2: int8" or "ctranslate2: int8 2x1"')
    parser.add_argument("--budget", nargs="+", type=positive, default=BUDGETS,
                        help="source tokens a batch to choose from")
    parser.add_argument("--sentences", type=positive, help="only so many")
    parser.add_argument("--quick", action="store_true", help="two repetitions in place of five")
    parser.add_argument("--repeat", type=positive, help="repetitions")
    parser.add_argument("--joeynmt", metavar="PYTHON", help="the interpreter of an environment with joeynmt 2.3.0")
    parser.add_argument("--label", default="", help="added to the names of models in the table that is printed")
    parser.add_argument("--json", type=new_file, help="where to write the results")
    args = parser.parse_args()
    if bool(args.source) != bool(args.target) or (args.source and not args.run):
        parser.error("--source and --target go together, and with --run")
    return args


def main() -> None:
    """Runs every case, prints the table, writes the JSON."""
    args = arguments()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    limit, rows = Limit(torch.device("cpu")), []
    for case in cases_of(args):
        with tempfile.TemporaryDirectory() as name:
            prepare(case, Path(name), args.run)
            for search in (s for s in SEARCHES if s.name in args.search):
                if case.lengths and search.length_penalty:
                    continue  # it changes nothing where the lengths are given
                for mode in args.mode:
                    one_by_one = mode == "one by one"
                    some = case.first(ONE_BY_ONE) if one_by_one else case
                    new = run_job(some, some.job(search, one_by_one), Path(name), args, limit)
                    say(table(new, one_by_one))
                    rows += new
                    if args.json:
                        machine.write(rows, args.json)
    if not rows:
        raise SystemExit("none of these systems runs here: why is told above")
    print(tables([row | {"model": row["model"] + args.label} for row in rows]))


def prepare(case: Case, folder: Path, run: Path | None) -> None:
    """Writes the weights for all systems."""
    weights = case.weights()
    np.savez(folder / "weights.npz", **weights)
    words = folder / "vmap.txt"
    if run:
        vocabulary_map.write(load(run), words)
    if not holds("ctranslate2", case.sizes):
        return
    try:
        to_ctranslate2(case.sizes, weights, folder / "ctranslate2", words if run else None)
    except ModuleNotFoundError as error:
        say(f"no CTranslate2: {error}")


if __name__ == "__main__":
    main()
