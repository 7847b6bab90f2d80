"""Makes the run that later versions must load: `python tests/runs/keep.py`, once a release, before its tag.

It writes tests/runs/kept/VERSION: run/, a slim copy of a tiny translator that was trained on the bundled grammar, and
outputs.json, what it made of a few sentences in fp32. Nothing that is there is written again.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
import tempfile
from pathlib import Path

import pellucid
from pellucid.config.mapping import from_mapping
from pellucid.runs.slim import export
from pellucid.train.journal import Reporter
from pellucid.train.train import train

KEPT = Path(__file__).with_name("kept")
COUNT = 8  # sentences, those that it is surest of: another processor rounds otherwise, and must not change a word
CONFIG = {
    "data": {"generated": {"task": "grammar", "train": 3000, "validation": 50, "test": 20}},
    "tokenizer": {"kind": "word", "shared": False, "vocab_size": 200},
    "model": {"d_model": 16, "n_heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0,
              "max_length": 48},
    "train": {"steps": 1200, "batch_sentences": 32, "learning_rate": 0.01, "warmup_steps": 50, "precision": "fp32",
              "validate_every": 400, "log_every": 200, "workers": 1},
    "decode": {"beam_size": 2, "max_length": 48, "precision": "fp32"},
}


def main() -> int:
    """Trains, copies, asks."""
    place = KEPT / pellucid.__version__
    if place.exists():
        print(f"{place} is there, and a run that was kept is not made again", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "kept"
        train(from_mapping(CONFIG), out, Reporter(io.StringIO()))
        export(out, place / "run")
        lines = (out / "data" / "train.tsv").read_text("utf-8").splitlines()[:200]
    shutil.rmtree(place / "run" / "figures")
    for name in ("README.md", "data.json"):
        path = place / "run" / name
        text = path.read_text("utf-8").replace(str(out), "run").replace("![loss](figures/loss.png)\n\n", "")
        path.write_text(text, encoding="utf-8")
    run = pellucid.load(place / "run")
    sources = [line.split("\t")[0] for line in lines]
    ranked = sorted(zip(run.generate(sources), sources, strict=True), key=lambda pair: -pair[0].score)[:COUNT]
    scored = run.score([source for _, source in ranked], [one.text for one, _ in ranked])
    outputs = [{"source": source, "text": one.text, "score": one.score, "log_probability": of.log_probability}
               for (one, source), of in zip(ranked, scored, strict=True)]
    (place / "outputs.json").write_text(json.dumps(outputs, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
