"""README.md of a run folder: what this model is, what it was made from, how it scored, how it is used."""

import shlex
from pathlib import Path
from typing import Any

from pellucid.config import RunConfig
from pellucid.files import read_json, write_text
from pellucid.train.journal import duration, read_metrics

_PIPELINES = {"classification": "text-classification", "reading": "question-answering", "seq2seq": "translation"}
_TARGETS = {"classification": "labels", "reading": "spans", "seq2seq": "target tokens"}


def write_model_card(config: RunConfig, summary: dict[str, Any], out: Path) -> None:
    """Writes README.md into the run folder `out`."""
    data, environment = read_json(out / "data.json"), read_json(out / "environment.json")
    verb = {"classification": "classify", "reading": "answer", "seq2seq": "generate"}[config.task]
    model = config.model
    begun = f" They began as those of `{config.train.initialize_from}`." if config.train.initialize_from else ""
    use = "train CONFIG --train.initialize_from" if config.data.objective == "span_corruption" else "evaluate"
    extended = "".join(f" At step {event['step']:,} it was extended from {event['from']:,} to {event['to']:,} updates: "
                       "up to there its learning rates were those of the shorter run."
                       for event in read_metrics(out / "metrics.jsonl") if event["event"] == "extended")
    again = "the same configuration and seed on the same machine give " + (
        "other weights, since the run was extended." if extended else "the same weights.")
    rows = "".join(f"| {name} | {split.get('kept', '–')} | `{split['sha256'][:16]}…` |\n"
                   for name, split in data.items())
    threads = f"{environment['threads']} thread{'s' * (environment['threads'] != 1)}"
    files = dict.fromkeys(part["file"] for part in environment.get("own", {}).values() if part["file"])
    run = shlex.join([str(out), *(word for file in files for word in ("--import", file))])
    stacks = f"{model.encoder_layers} encoder" + ("" if verb != "generate" else f" and {model.decoder_layers} decoder")
    write_text(out / "README.md", f"""---
library_name: pellucid
pipeline_tag: {_PIPELINES[config.task]}
---

# {out.name}

A Transformer for {config.task}, trained by pellucid {environment["pellucid"]}: {summary["parameters"]:,} parameters,
width {model.d_model}, {stacks} layers, {model.n_heads} heads, feed-forward width {model.d_ff},
position {model.position}, norm {model.norm}, residual {model.residual}.

Trained for {summary["step"]:,} updates on {summary["target_tokens"]:,} {_TARGETS[config.task]} in
{duration(summary["seconds"])} ({environment["processor"]}, {threads}, {environment["precision"]} products, torch
{environment["packages"]["torch"]}). The weights in use are `checkpoints/{summary["best"]}`, chosen by validation
{summary["monitor"]}: {summary["score"]:.4f}.{begun}

The run has ended: {summary["why"]}.{extended}

| data | examples used | SHA-256 |
|---|---|---|
{rows}
![loss](figures/loss.png)

```
pellucid {verb} {run}{" --index IDX" if verb == "answer" else ""} < input.txt
pellucid {use} {run}
```

Every choice is in `config.yaml`; {again}
""")
