"""What `pellucid plan` says beside what is: `python -m benchmarks.plan [--case NAME …] [--quick] [--json FILE]`; with
`--memory 1GiB`, whether training with the batch that it proposes stays below that; with `--times 3`, speed as well;
with `--whole RECIPE [--section.key value …]`, a recipe from its first update to its last.

Each case is planned in one process, trained in another and decoded in a third, by the commands that everyone uses; what
counts is the most that the process and its workers hold together, see benchmarks/processes.py. Data is generated, of
mixed lengths, in as many different words as the vocabulary should have. The training texts are decoded, every output as
long as `decode.max_length`, since a model that has hardly learned stops anywhere.

For time, planning and training take turns, so that whatever else the machine does meets both; what counts is the median
of the tokens a second that were planned over the median of those that whole trainings had.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.arguments import new_file
from benchmarks.plan_cases import BASE, CASES, HELD_OUT, Case
from benchmarks.processes import say, watch


def write_config(case: Case, path: Path) -> None:
    """The case as a configuration."""
    nested: dict[str, Any] = {}
    for key, value in (BASE | case).items():
        place = nested
        *sections, last = key.split(".")
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = value
    path.write_text(json.dumps(nested), encoding="utf-8")  # which is YAML, too


def pellucid(*words: str) -> tuple[int, str]:
    """Runs `pellucid WORDS`: its peak in bytes, and what it printed."""
    return watch([sys.executable, "-m", "pellucid", *words])


def measure(name: str, case: Case, times: int) -> list[dict[str, Any]]:
    """A case: what training and decoding were planned to take, and took.

    Args:
        times: that it is planned and trained, by turns, for their speed as well; 0 for one training that is not timed.
    """
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        config, run = folder / "case.yaml", folder / "run"
        write_config(case, config)
        plan, peaks, speed = trained([str(config)], folder, times)
        texts, lines = folder / "texts", (run / "data" / "train.tsv").read_text(encoding="utf-8").splitlines()
        column = 1 if case.get("task") == "classification" else 0
        texts.write_text("".join(line.split("\t")[column] + "\n" for line in lines), encoding="utf-8")
        verb = "classify" if column else "translate"
        decoded, _ = pellucid(verb, str(run), "--input", str(texts), "--output", str(folder / "out"))
    about = {"model": name, "held_out": name in HELD_OUT}
    return [about | row_of("training", plan, peaks) | speed, about | row_of("decoding", plan, [decoded])]


def measure_whole(words: list[str], times: int) -> dict[str, Any]:
    """A recipe, with its overrides, from its first update to its last."""
    with tempfile.TemporaryDirectory() as place:
        plan, peaks, speed = trained(words, Path(place), times)
    return {"model": words[0], "held_out": False} | row_of("whole", plan, peaks) | speed


def trained(words: list[str], folder: Path, times: int) -> tuple[dict[str, Any], list[int], dict[str, Any]]:
    """Plans and trains in turns: the plan, the peak of each training, and what is told of speed."""
    peaks, planned, had, others = [], [], [], []
    for number in range(max(1, times)):
        plan = json.loads(pellucid("plan", *words, "--json", *([] if times else ["--no-calibration"]))[1])
        run = folder / ("run" if number == 0 else f"run-{number}")
        peaks.append(pellucid("train", *words, "--out", str(run))[0])
        lines = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
        had.append([line["tokens_per_second"] for line in lines if line["event"] == "train"][-1])
        planned.append(plan["time"]["tokens_per_second"])
        others.append(plan["time"]["others"])
    if not times:
        return plan, peaks, {}
    median, said = statistics.median(had), statistics.median(planned)
    return plan, peaks, {"planned_tokens_per_second": said, "tokens_per_second": median, "low": min(had),
                         "high": max(had), "speed_error": said / median - 1, "busy": others}


def row_of(work: str, plan: dict[str, Any], peaks: list[int]) -> dict[str, Any]:
    """The planned memory beside the largest of the measured peaks."""
    planned, peak = plan["memory"]["decoding" if work == "decoding" else "training"], max(peaks)
    say(f"{work} planned {planned['bytes'] / 2**20:,.0f} MiB, measured "
        f"{', '.join(f'{one / 2**20:,.0f}' for one in peaks)} MiB, {100 * (planned['bytes'] / peak - 1):+.1f} %")
    return {"workload": work, "system": "pellucid", "setting": plan["precision"],
            "parameters": plan["parameters"]["total"], "batch": planned["batch"], "held_by": planned["held_by"],
            "planned_bytes": planned["bytes"], "peak_memory_bytes": peak, "error": planned["bytes"] / peak - 1}


def measure_fit(name: str, case: Case, memory: str) -> dict[str, Any]:
    """The batch that the plan proposes for a memory, and what training with it takes."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        config = folder / "case.yaml"
        write_config(case, config)
        words = ["plan", str(config), "--no-calibration", "--json", "--memory", memory]
        fit = json.loads(pellucid(*words)[1])["fit"]
        peak = 0
        if fit["largest"]:
            batch = [f"--train.{fit['key']}", str(fit["largest"])]
            peak, _ = pellucid("train", str(config), "--out", str(folder / "run"), *batch)
    say(f"{name}: in {memory} {fit['largest']} {fit['key']} took {peak / 2**20:,.0f} MiB")
    return {"workload": "fit", "model": name, "system": "pellucid", "memory_bytes": fit["memory"],
            "setting": f"{fit['key']} {fit['largest']}", "peak_memory_bytes": peak, "fits": peak <= fit["memory"]}


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    works = [("training: planned", "training"), ("decoding: planned", "decoding")]
    lines = ["| configuration | parameters | " + " | ".join(f"{said} | measured | off by" for said, _ in works)
             + " | speed: planned | measured, tokens/s | off by |", "|---" * 11 + "|"]
    for name in dict.fromkeys(row["model"] for row in rows if row["workload"] != "fit"):
        of = {row["workload"]: row for row in rows if row["model"] == name}
        training = of.get("training") or of["whole"]
        cells = [f"{name}{' *' if training['held_out'] else ''}", f"{training['parameters']:,}"]
        for row in (training, of.get("decoding")):
            cells += ["", "", ""] if row is None else [
                f"{row['planned_bytes'] / 2**20:,.0f} MiB", f"{row['peak_memory_bytes'] / 2**20:,.0f} MiB",
                f"{100 * row['error']:+.1f} %"]
        cells += [f"{training['planned_tokens_per_second']:,.0f}", f"{training['tokens_per_second']:,.0f}",
                  f"{100 * training['speed_error']:+.1f} %"] if "speed_error" in training else ["", "", ""]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    """Parses, measures every case, writes."""
    cases = CASES | HELD_OUT
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", nargs="*", choices=list(cases), default=list(cases))
    parser.add_argument("--held-out", action="store_true", help="the cases that were written down before any was run")
    parser.add_argument("--quick", action="store_true", help="the first three of them")
    parser.add_argument("--times", type=int, default=0, help="plan and train so many times, by turns, for the speed")
    parser.add_argument("--memory", help="measure what is proposed for a memory such as 1GiB")
    parser.add_argument("--json", type=new_file, help="where to write the results; cases that it has stay")
    parser.add_argument("--whole", nargs=argparse.REMAINDER, help="a recipe and its overrides, in place of the cases")
    args = parser.parse_args()
    wanted = args.whole[:1] if args.whole else list(HELD_OUT) if args.held_out else args.case
    wanted = wanted[:3] if args.quick else wanted
    before = json.loads(args.json.read_text(encoding="utf-8"))["rows"] if args.json and args.json.exists() else []
    rows = [row for row in before if row["model"] not in wanted or (row["workload"] == "fit") != bool(args.memory)]
    for name in wanted:
        say(f"{name}:")
        rows += ([measure_whole(args.whole, args.times)] if args.whole else
                 [measure_fit(name, cases[name], args.memory)] if args.memory else
                 measure(name, cases[name], args.times))
        if args.json:
            from benchmarks import machine

            machine.write(rows, args.json)
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
