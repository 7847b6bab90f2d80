"""A stand-in for `pellucid train` and `pellucid evaluate` whose losses are a rule of the configuration, and which
resumes like them: a step a line of metrics.jsonl. Each call is noted in calls.txt, two folders above the run."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pellucid.config import RunConfig


def loss(config: RunConfig, step: int) -> float:
    """Falls with the steps; noise that follows from the configuration and the step."""
    from pellucid.config.mapping import to_mapping

    noise = int(hashlib.sha256(f"{to_mapping(config)} {step}".encode()).hexdigest()[:6], 16) / 16**6
    return 5 / step + (config.model.position == "none") + 0.1 * noise


def train(words: list[str]) -> int:
    import yaml

    from pellucid.cli.arguments import read_config, split_overrides
    from pellucid.config.mapping import to_mapping

    own, overrides = split_overrides(words)
    config, out = read_config(own[0], overrides), Path(own[own.index("--out") + 1])
    out.mkdir(parents=True, exist_ok=True)
    note(out, "train")
    if config.train.learning_rate == 9:
        print("pellucid: the loss or its gradient is not finite at step 7\n  where: step 7\n  why:   loss nan, "
              "gradient norm nan\n  do:    try a lower train.learning_rate", file=sys.stderr)
        return 5
    if config.train.learning_rate == 8:
        print("pellucid: the disk is full\n  where: there", file=sys.stderr)
        return 74
    if config.train.learning_rate == 6:
        return 0
    if config.train.learning_rate == 7 and (out / "tried").exists():
        raise ImportError("no module is left")
    if config.train.learning_rate == 7:
        (out / "tried").touch()
        print("pellucid: the disk is full", file=sys.stderr)
        return 74
    (out / "config.yaml").write_text(yaml.safe_dump(to_mapping(config)))
    (out / "environment.json").write_text(json.dumps({
        "pellucid": "0", "packages": {"torch": "0"}, "processor": "none", "precision": "fp32",
        "threads": 1}))
    data = out.parents[2] / "data.txt"
    if data.exists():
        sha256 = hashlib.sha256(data.read_bytes()).hexdigest()
        (out / "data.json").write_text(json.dumps({"train": {"sha256": sha256}, "test": {"sha256": "0"}}))
    metrics = out / "metrics.jsonl"
    done = metrics.read_text().count("\n") if metrics.exists() else 0
    for step in range(done + 1, config.train.steps + 1):
        with metrics.open("a") as file:
            file.write(json.dumps({"event": "validation", "step": step, "loss": loss(config, step)}) + "\n")
        time.sleep(0.005)
    print(json.dumps({"run": str(out), "step": config.train.steps, "best": f"step-{config.train.steps:08d}",
                      "monitor": "loss", "score": loss(config, config.train.steps),
                      "parameters": 1000 + config.model.d_ff, "source_tokens": 500, "target_tokens": 500,
                      "seconds": 2.0}))
    return 0


def evaluate(words: list[str]) -> int:
    out = Path(words[0])
    note(out, "evaluate")
    last = json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])
    print(json.dumps({"runs": [{"run": str(out), "n": 10, "exact": 100 - 10 * last["loss"], "bleu": 1.0}]}))
    return 0


def note(out: Path, verb: str) -> None:
    with (out.parent.parent / "calls.txt").open("a") as file:
        file.write(f"{verb} {out.name}\n")


if __name__ == "__main__":
    sys.exit({"train": train, "evaluate": evaluate}[sys.argv[1]](sys.argv[2:]))
