"""Training by ranks beside what plan says of it: `python -m benchmarks.ranks [--quick] [--rounds N] [--json FILE]`.

One to three ranks under torchrun, which are processes of one thread; one process of one worker, and of two, without
torchrun. They take turns, each beside its own plan, so that whatever else the machine does meets all of them; what
counts is the median, and how much of the processors others had is told. Beside that, the collectives of an update are
counted, and the bytes that a rank writes meanwhile (Linux).

--quick takes a small model and one round.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.promises.ranks import in_world, torchrun

from benchmarks import machine
from benchmarks.arguments import new_file, positive
from benchmarks.collectives import WORDS, counted
from benchmarks.plan import write_config
from benchmarks.plan_cases import LARGE, TINY
from benchmarks.processes import say
from pellucid.config import ModelConfig, RunConfig, TrainConfig
from pellucid.doctor.busy import watched
from pellucid.model.build import build
from pellucid.plan.traffic import sizes_of, traffic
from pellucid.plan.workload import Shape

TRAIN = {"train.accumulate": 6, "train.batch_tokens": 512, "train.epochs": None, "train.steps": 6, "train.log_every": 2,
         "train.validate_every": 1000, "train.average_last": 1, "data.generated.train": 1200}
SYSTEMS = ["1 worker", "2 workers", "1 rank", "2 ranks", "3 ranks"]
WORLDS = [(2, 1), (3, 1), (2, 2), (4, 2)]  # ranks, and how many divide the weights


def speed_of(system: str, config: Path, run: Path) -> dict[str, float]:
    """Source and target tokens a second from the second update on, and the share of waiting at the end."""
    count = int(system.split()[0])
    words = ["train", str(config), "--out", str(run)]
    command = (torchrun(count, words) if "rank" in system else
               [sys.executable, "-m", "pellucid", *words, "--train.workers", str(count)])
    with watched() as others:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-2000:]}")
    lines = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    first, *_, last = [line for line in lines if line["event"] == "train"]
    tokens = sum(last[key] - first[key] for key in ("source_tokens", "target_tokens"))
    return {"tokens_per_second": tokens / (last["seconds"] - first["seconds"]), "waiting": last.get("waiting", 0.0),
            "others": others.share or 0.0}


def plan_of(ranks: int, config: Path) -> dict[str, Any]:
    """What plan says of so many ranks on this machine."""
    words = ["plan", str(config), "--world", str(ranks), "--per-host", str(ranks), "--json"]
    done = subprocess.run([sys.executable, "-m", "pellucid", *words], capture_output=True, text=True, check=True)
    world: dict[str, Any] = json.loads(done.stdout)["world"]
    return world


def measure(name: str, rounds: int) -> list[dict[str, Any]]:
    """Every system in turn, so many times."""
    found: dict[str, list[dict[str, float]]] = {system: [] for system in SYSTEMS}
    plans: dict[str, list[dict[str, Any]]] = {system: [] for system in SYSTEMS}
    with tempfile.TemporaryDirectory() as place:
        config = Path(place) / "case.yaml"
        write_config((LARGE if name == "base" else TINY) | TRAIN, config)
        for number in range(rounds):
            for system in SYSTEMS:
                found[system].append(speed_of(system, config, Path(place) / f"{number} {system}"))
                say(f"{system}: {found[system][-1]}")
                if "rank" in system:
                    plans[system].append(plan_of(int(system.split()[0]), config)["predicted"])
                    say(f"planned: {plans[system][-1]}")
    return [row_of(name, system, found[system], plans[system]) for system in SYSTEMS]


def row_of(name: str, system: str, found: list[dict[str, float]], plans: list[dict[str, Any]]) -> dict[str, Any]:
    """What a system did, and was said to do."""
    speeds = [one["tokens_per_second"] for one in found]
    median = statistics.median(speeds)
    row = {"workload": "ranks", "model": name, "system": "pellucid", "setting": system, "tokens_per_second": median,
           "low": min(speeds), "high": max(speeds), "busy": statistics.median(one["others"] for one in found),
           "waiting": statistics.median(one["waiting"] for one in found)}
    if not plans:
        return row
    planned = [plan["tokens_per_second"] for plan in plans]
    said = statistics.median(planned)
    return row | {"planned_tokens_per_second": said, "planned_low": min(planned), "planned_high": max(planned),
                  "error": said / median - 1,
                  "planned_waiting": statistics.median(plan["waiting"] + plan["exchanging"] for plan in plans)}


def count_collectives() -> list[dict[str, Any]]:
    """An update of two micro-batches a rank: its collectives, and its bytes beside those that plan says."""
    rows, model = [], ModelConfig(d_model=256, n_heads=4, d_ff=1024, encoder_layers=3, decoder_layers=3)
    sizes = sizes_of(build(model, WORDS, WORDS, shared=True))
    for size, shard in WORLDS:
        config = RunConfig(model=model, train=replace(TrainConfig(), shard=shard, accumulate=2 * size))
        told = in_world(size, counted(config, Shape(8, 10, 10)))
        said = traffic(sizes, size, shard, 2, by_gloo=True)
        rows.append({"workload": "collectives", "model": "small", "system": "pellucid",
                     "setting": f"{size} ranks, {'DDP' if shard == 1 else f'FSDP2 over {shard}'}",
                     "collectives": sum(told[0]["collectives"].values()), "by_name": told[0]["collectives"],
                     "planned_collectives": said.collectives, "bytes": told[0]["bytes"],
                     "planned_bytes": round(said.bytes), "error": said.bytes / told[0]["bytes"] - 1})
        say(str(rows[-1]))
    return rows


def tables(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = ["| Training | tokens/s | lowest to highest | planned | off by | others had |", "|---|---|---|---|---|---|"]
    for row in rows:
        if row["workload"] == "ranks":
            planned = [f"{row['planned_tokens_per_second']:,.0f}", f"{100 * row['error']:+.1f} %"] if (
                "error" in row) else ["", ""]
            lines.append(f"| {row['setting']} | {row['tokens_per_second']:,.0f} | {row['low']:,.0f} to "
                         f"{row['high']:,.0f} | {planned[0]} | {planned[1]} | {100 * row['busy']:.0f} % |")
    lines += ["", "| Update | collectives | planned | sent, MB | planned, MB | off by |", "|---|---|---|---|---|---|"]
    for row in rows:
        if row["workload"] == "collectives":
            lines.append(f"| {row['setting']} | {row['collectives']} | {row['planned_collectives']} | "
                         f"{row['bytes'] / 1e6:.1f} | {row['planned_bytes'] / 1e6:.1f} | {100 * row['error']:+.1f} % |")
    of = {row["setting"]: row["tokens_per_second"] for row in rows if row["workload"] == "ranks"}
    if of:
        lines += ["", f"2 ranks over 2 workers: {of['2 ranks'] / of['2 workers']:.2f}",
                  f"1 rank over 1 worker: {of['1 rank'] / of['1 worker']:.2f}"]
    return "\n".join(lines)


def main() -> int:
    """Parses, measures, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small model, one round")
    parser.add_argument("--rounds", type=positive, default=3)
    parser.add_argument("--json", type=new_file, help="where to write the results")
    args = parser.parse_args()
    rows = count_collectives() + measure("tiny" if args.quick else "base", 1 if args.quick else args.rounds)
    if args.json:
        machine.write(rows, args.json)
    print(tables(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
