"""What `pellucid plan` says beside what is: `python -m benchmarks.plan [--case NAME …] [--quick] [--json FILE]`; with
`--memory 1GiB`, whether training with the batch that it proposes stays below that.

Each case is planned in one process, trained in another and decoded in a third, by the commands that everyone uses; what
counts is the peak resident set of the process from its first instruction to its last. Data is generated: numbers to be
copied, of mixed lengths, in as many different words as the vocabulary should have. The training texts are decoded,
every output as long as `decode.max_length`, since a model that has hardly learned stops anywhere.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.processes import peak_memory, say

BASE = {"data.generated.task": "copy", "data.generated.train": 1200, "data.generated.validation": 60,
        "data.generated.test": 10, "data.generated.symbols": 4000, "data.generated.min_length": 8,
        "data.generated.max_length": 40, "tokenizer.kind": "word", "tokenizer.vocab_size": 100_000,
        "train.batch_tokens": 4096, "train.epochs": 2, "train.validate_every": 50, "train.learning_rate": 0.0001,
        "decode.min_length": 15, "decode.max_length": 16}
LABELS = {"task": "classification", "data.generated.task": "adjacent_duplicates"}
LONG = {"data.generated.train": 120, "data.generated.validation": 8, "data.generated.min_length": 200,
        "data.generated.max_length": 300, "decode.min_length": 199, "decode.max_length": 200}
TINY = {"model.d_model": 128, "model.n_heads": 4, "model.d_ff": 256, "model.encoder_layers": 4,
        "model.decoder_layers": 4}
LARGE = {"model.d_model": 512, "model.n_heads": 8, "model.d_ff": 2048, "model.encoder_layers": 6,
         "model.decoder_layers": 6, "data.generated.train": 600}
FP32, PLAIN = {"train.precision": "fp32", "decode.precision": "fp32"}, {"train.kernels": "plain"}
CASES: dict[str, dict[str, Any]] = {
    "tiny": TINY,
    "tiny, fp32": TINY | FP32,
    "tiny, plain kernels": TINY | PLAIN,
    "small": {},
    "small, fp32": FP32,
    "small, long": LONG,
    "small, not tied": {"model.tie_embeddings": False, "tokenizer.shared": False},
    "small, 16,000 words": {"data.generated.symbols": 16_000, "data.generated.train": 3000},
    "small, 6 layers": {"model.encoder_layers": 6, "model.decoder_layers": 6},
    "small, large batches": {"train.batch_tokens": 12_000, "data.generated.train": 2400},
    "base": LARGE,
    "base, fp32": LARGE | FP32,
    "classifier": LABELS | {"model.d_model": 128, "model.d_ff": 256},
    "classifier, fp32": LABELS | FP32,
}
HELD_OUT: dict[str, dict[str, Any]] = {  # never looked at while the plan was written
    "tall, rotary, RMSNorm, SwiGLU": {"model.position": "rotary", "model.norm": "rmsnorm",
                                      "model.feed_forward": "swiglu", "model.encoder_layers": 8,
                                      "model.decoder_layers": 2, "model.d_model": 192, "model.n_heads": 6},
    "moving average, T5 positions": {"model.position": "t5", "train.ema_decay": 0.99, "train.batch_tokens": 2048,
                                     "train.accumulate": 2},
    "wide classifier, long": LABELS | LONG | {"model.d_model": 384, "model.n_heads": 6, "model.d_ff": 1536,
                                              "model.encoder_layers": 4, "data.generated.train": 300},
}


def write_config(case: dict[str, Any], path: Path) -> None:
    """The case as a configuration."""
    nested: dict[str, Any] = {}
    for key, value in (BASE | case).items():
        place = nested
        *sections, last = key.split(".")
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = value
    path.write_text(json.dumps(nested), encoding="utf-8")  # which is YAML, too


def peak_of(words: list[str], folder: Path) -> tuple[int, str]:
    """Runs `pellucid WORDS` in a process of its own: its peak resident set in bytes, and what it printed."""
    done = subprocess.run([sys.executable, "-m", "benchmarks.plan", "--worker", str(folder / "peak"), *words],
                          capture_output=True, text=True, check=False, env=os.environ)
    if done.returncode:
        raise RuntimeError(f"pellucid {' '.join(words)}: {done.stderr[-2000:]}")
    return int((folder / "peak").read_text(encoding="ascii")), done.stdout


def measure(name: str, case: dict[str, Any]) -> list[dict[str, Any]]:
    """A case: what training and decoding were planned to take, and took."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        config, run = folder / "case.yaml", folder / "run"
        write_config(case, config)
        plan = json.loads(peak_of(["plan", str(config), "--no-calibration", "--json"], folder)[1])
        trained, _ = peak_of(["train", str(config), "--out", str(run)], folder)
        texts, lines = folder / "texts", (run / "data" / "train.tsv").read_text(encoding="utf-8").splitlines()
        column = 1 if case.get("task") == "classification" else 0
        texts.write_text("".join(line.split("\t")[column] + "\n" for line in lines), encoding="utf-8")
        verb = "classify" if column else "translate"
        decoded, _ = peak_of([verb, str(run), "--input", str(texts), "--output", str(folder / "out")], folder)
    rows = []
    for work, peak in (("training", trained), ("decoding", decoded)):
        planned = plan["memory"][work]
        rows.append({"workload": work, "model": name, "system": "pellucid", "setting": plan["precision"],
                     "parameters": plan["parameters"]["total"], "batch": planned["batch"],
                     "held_by": planned["held_by"], "planned_bytes": planned["bytes"], "peak_memory_bytes": peak,
                     "error": planned["bytes"] / peak - 1, "held_out": name in HELD_OUT})
        say(f"{name}: {work} planned {planned['bytes'] / 2**20:,.0f} MiB, measured {peak / 2**20:,.0f} MiB, "
            f"{100 * rows[-1]['error']:+.1f} %")
    return rows


def measure_fit(name: str, case: dict[str, Any], memory: str) -> dict[str, Any]:
    """The batch that the plan proposes for a memory, and what training with it takes."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        config = folder / "case.yaml"
        write_config(case, config)
        words = ["plan", str(config), "--no-calibration", "--json", "--memory", memory]
        fit = json.loads(peak_of(words, folder)[1])["fit"]
        peak = 0
        if fit["largest"]:
            batch = [f"--train.{fit['key']}", str(fit["largest"])]
            peak, _ = peak_of(["train", str(config), "--out", str(folder / "run"), *batch], folder)
    say(f"{name}: in {memory} {fit['largest']} {fit['key']} took {peak / 2**20:,.0f} MiB")
    return {"workload": "fit", "model": name, "system": "pellucid", "memory_bytes": fit["memory"],
            "setting": f"{fit['key']} {fit['largest']}", "peak_memory_bytes": peak, "fits": peak <= fit["memory"]}


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = ["| configuration | parameters | training: planned | measured | off by | decoding: planned | measured | "
             "off by |", "|---|---|---|---|---|---|---|---|"]
    for name in dict.fromkeys(row["model"] for row in rows if row["workload"] == "training"):
        training, decoding = (next(r for r in rows if (r["model"], r["workload"]) == (name, work))
                              for work in ("training", "decoding"))
        cells = [f"{name}{' *' if training['held_out'] else ''}", f"{training['parameters']:,}"]
        for row in (training, decoding):
            cells += [f"{row['planned_bytes'] / 2**20:,.0f} MiB", f"{row['peak_memory_bytes'] / 2**20:,.0f} MiB",
                      f"{100 * row['error']:+.1f} %"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def work(peak: str, words: list[str]) -> int:
    """In a process of its own: the command, then its peak into a file."""
    from pellucid.cli import main as pellucid

    code = pellucid(words)
    Path(peak).write_text(str(peak_memory()), encoding="ascii")
    return code


def main() -> int:
    """Parses, measures every case, writes."""
    if sys.argv[1:2] == ["--worker"]:
        return work(sys.argv[2], sys.argv[3:])
    cases = CASES | HELD_OUT
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", nargs="*", choices=list(cases), default=list(cases))
    parser.add_argument("--quick", action="store_true", help="the first three cases")
    parser.add_argument("--memory", help="measure what is proposed for a memory such as 1GiB")
    parser.add_argument("--json", type=Path, help="where to write the results; cases that it has stay")
    args = parser.parse_args()
    before = json.loads(args.json.read_text(encoding="utf-8"))["rows"] if args.json and args.json.exists() else []
    rows = [row for row in before if row["model"] not in args.case or (row["workload"] == "fit") != bool(args.memory)]
    for name in args.case[:3] if args.quick else args.case:
        rows += [measure_fit(name, cases[name], args.memory)] if args.memory else measure(name, cases[name])
        if args.json:
            from benchmarks import machine

            args.json.write_text(json.dumps({**machine.describe(), "rows": rows}, indent=1) + "\n", encoding="utf-8")
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
