"""The sections of the page, each with its pictures; what a run has no record of is said in a sentence."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import torch

from pellucid.errors import CheckpointError
from pellucid.files import read_json
from pellucid.inspection import figures
from pellucid.inspection.curves import flow, training_curves
from pellucid.inspection.examples import Example
from pellucid.inspection.html import attention_map, paragraph, picture, scale, table, text
from pellucid.inspection.measures import HeadMeasures, Part, parameters_by_part
from pellucid.inspection.page import Save, Section
from pellucid.inspection.record import spoken
from pellucid.inspection.shapes import ModuleCall
from pellucid.model.classifier import Classifier
from pellucid.runs.run import Run
from pellucid.train.journal import read_metrics

MOST_TOKENS = 48  # of a side, in a picture
KINDS = {"encoder": "Encoder self-attention", "self": "Decoder self-attention", "cross": "Cross-attention"}


def unit_of(run: Run) -> str:
    """What a loss is counted in."""
    return "nats per text" if isinstance(run.model, Classifier) else "nats per target token"


def kind_of(name: str) -> str:
    """Which of KINDS an attention is of."""
    return "encoder" if name.startswith("encoder") else "cross" if name.endswith("cross_attention") else "self"


def attention(examples: Sequence[Example], note: str, save: Save) -> Section:
    """Every layer and head, for each sentence."""
    body = paragraph(note) if note else ""
    for number, example in enumerate(examples, start=1):
        body += f"<h3>Sentence {number}</h3>\n{_told(example)}\n"
        for kind, title in KINDS.items():
            names = [name for name in example.attention if kind_of(name) == kind]
            if names:
                body += f"<details{' open' if number == 1 and _is_first(kind, example) else ''}>"
                body += f"<summary>{title}, sentence {number}</summary>\n"
                body += "".join(_layer(example, name, number, save) for name in names) + "</details>\n"
    lead = ("Each row is a token and shows what it attended to: the darker a cell, the more of that column's token "
            "went into it; a row sums to 1.")
    if any(example.written for example in examples):
        lead += (" Rows of the decoder are the tokens being written, columns of its self-attention the tokens already "
                 "there. Recorded in one pass with the model's own output as the target.")
    return Section("attention", "Attention", lead, f"<p>attention weight {scale()}</p>\n{body}")


def _is_first(kind: str, example: Example) -> bool:
    """Whether pictures of this kind are shown at once: those of cross-attention, or of an encoder alone."""
    return kind == ("cross" if example.written else "encoder")


def _told(example: Example) -> str:
    facts = [("text", example.source), ("model", example.output)]
    facts += [("reference", example.reference)] if example.reference is not None else []
    likely = sorted(example.probabilities.items(), key=lambda item: -item[1])[:5]
    facts += [("probabilities", ", ".join(f"{label} {100 * share:.1f} %" for label, share in likely))] if likely else []
    long = max(len(example.source_tokens), len(example.written)) > MOST_TOKENS
    facts += [("shown", f"the first {MOST_TOKENS} of {len(example.source_tokens)} tokens read"
               + (f" and of {len(example.written)} written" if example.written else ""))] if long else []
    return "<dl>" + "".join(f"<dt>{text(a)}</dt><dd>{text(b)}</dd>" for a, b in facts) + "</dl>"


def _layer(example: Example, name: str, number: int, save: Save) -> str:
    rows, columns = (side[:MOST_TOKENS] for side in example.sides(name))
    weights = example.attention[name][:, : len(rows), : len(columns)]
    heads = [f"head {i + 1}" for i in range(len(weights))]
    save(f"attention-{number}-{name.replace('.', '-')}",
         figures.attention_maps(list(weights), rows, columns, heads, spoken(name).capitalize()))
    maps = "".join(attention_map(matrix, rows, columns, head) for matrix, head in zip(weights, heads, strict=True))
    return f'<h3>{text(spoken(name).capitalize())}</h3>\n<div class="maps">{maps}</div>\n'


def heads(measured: HeadMeasures | None, about: str, unit: str, save: Save) -> Section:
    """How widely and how far each head looks, and what the loss gains without it; `about` says on what, or why not."""
    lead = "Some heads attend to one token, some to all alike, some always to a neighbour; some are not needed."
    body = paragraph(about)
    if measured is not None:
        drawn = figures.head_table(measured.entropy, "Mean attention entropy", "bits")
        body += picture(save("head-entropy", drawn),
                        "Entropy of a head's weights, averaged over all queries. 0 bits: all on one token; n bits: "
                        "as if spread evenly over 2ⁿ tokens.")
        drawn = figures.head_table(measured.distance, "Mean attention distance", "tokens")
        body += picture(save("head-distance", drawn),
                        "Distance between a token and the tokens it attends to, weighted by attention and averaged; "
                        "in cross-attention between a position of the target and one of the source.")
        title = "Head importance: increase of the loss without the head"
        drawn = figures.head_table(measured.importance, title, unit, signed=True)
        body += picture(save("head-importance", drawn),
                        f"The loss of the whole model is {measured.loss:.3f} {unit}. Each number is what leaving out "
                        "one head adds to that, in bold where it is more than two standard errors from 0. Nothing is "
                        "trained again: this says what the model relies on, not what it could do without.")
    return Section("heads", "Heads", lead, body)


def training(run: Run, save: Save) -> Section:
    """Curves from metrics.jsonl, and the flow through the parts where it was recorded."""
    lead = "From metrics.jsonl; an update is one step of the optimizer."
    try:
        events = read_metrics(run.folder / "metrics.jsonl")
    except CheckpointError as error:
        return Section("training", "Training", lead, paragraph(f"The metrics cannot be read: {error.what}."))
    if not any(event["event"] == "train" for event in events):
        return Section("training", "Training", lead, paragraph("There is no metrics.jsonl with training steps in this "
                                                               "run folder, so there are no curves."))
    body = picture(save("training", training_curves(events, unit_of(run))),
                   "Loss, learning rate and gradient norm over training.")
    norms = flow(events, "gradient_norms", "Gradient norm of each part, before clipping", "‖g‖₂, logarithmic")
    ratios = flow(events, "update_ratios", "Update-to-weight ratio of each part", "‖Δw‖₂ / ‖w‖₂, logarithmic")
    if norms is None or ratios is None:
        body += paragraph("Gradient norms and update ratios by part were not recorded when this run was trained.")
        return Section("training", "Training", lead, body)
    body += picture(save("gradient-flow", norms), "Where the gradient flows: a part that stays pale learns little; one "
                    "that turns dark of a sudden is where training could break.")
    body += picture(save("update-ratios", ratios), "How far an update moved the weights of a part, as a share of "
                    "their norm; grey where it did not move them. A rule of thumb is 0.001.")
    return Section("training", "Training", lead, body)


def parameters(run: Run) -> Section:
    """Parameters by part, with shares and bytes."""
    parts = parameters_by_part(run.model)
    total = sum(part.parameters for part in parts)
    rows = [_parameter_row(part, total) for part in parts]
    rows.append(["=All", f"{total:,}", f"{sum(part.bytes for part in parts):,}", "100.0 %", ""])
    lead = "A matrix with several uses counts once. Bytes are those of the weights in memory; training needs more."
    return Section("parameters", "Parameters", lead,
                   table(["part", "parameters", "bytes", "share", ""], rows, numbers=(1, 2, 3)))


def _parameter_row(part: Part, total: int) -> list[str]:
    share = part.parameters / total
    bar = f'<span class="bar" style="width:{12 * share:.2f}rem"></span>'
    percent = f"{100 * share:.1f} %" if share >= 0.0005 else "&lt; 0.1 %"
    return [text(part.name), f"{part.parameters:,}", f"{part.bytes:,}", percent, bar]


def shapes(calls: Sequence[ModuleCall], run: Run) -> Section:
    """The way of one example through the network."""
    rows, around = [], [""]
    for call in calls:
        del around[call.depth + 1:]
        name = call.name.removeprefix(around[-1]).lstrip(", ")
        around.append(call.name)
        repeated = [(shape, len(list(same))) for shape, same in groupby(call.inputs)]
        inputs = ", ".join((f"{count} × " if count > 1 else "") + _shape(shape) for shape, count in repeated)
        rows.append(["&nbsp;" * 5 * call.depth + text(name), text(call.kind), inputs, _shape(call.output),
                     f"{call.parameters:,}" if call.parameters else ""])
    model = run.config.model
    lead = (f"The first sentence as a batch of 1, with D = {model.d_model} and {model.n_heads} heads of width "
            f"{model.d_model // model.n_heads}. Attention takes queries, keys and values as [batch, heads, tokens, "
            "width], and a bias where the positions add one.")
    return Section("shapes", "Shapes", lead, table(["step", "class", "in", "out", "parameters"], rows, numbers=(4,)))


def _shape(sizes: tuple[int, ...]) -> str:
    return "[" + ", ".join(f"{size:,}" for size in sizes) + "]"


def confusion(run: Run, save: Save) -> Section | None:
    """A classifier's confusion table, from its evaluation; None for other models."""
    if not isinstance(run.model, Classifier):
        return None
    lead = "Which labels are taken for which: rows are the true labels, columns the predicted ones."
    path = run.folder / "evaluation" / "test.json"
    found = _evaluation(path)
    if found is None:
        return Section("confusion", "Confusion", lead, paragraph(
            f"There is no evaluation with a confusion table yet; `pellucid evaluate {run.folder}` makes one."))
    drawn = figures.confusion(found["confusion"], found["labels"], f"Confusion matrix of {found['n']:,} test examples")
    return Section("confusion", "Confusion", lead, picture(
        save("confusion", drawn), f"Accuracy {found['accuracy']:.1f} %, macro-F1 {found['macro_f1']:.1f} %. Colours "
        "are shares of a row; numbers are examples."))


def _evaluation(path: Path) -> dict[str, Any] | None:
    try:
        found = read_json(path)
        square = torch.tensor(found["confusion"]).shape == (len(found["labels"]),) * 2
        return found if square and {"n", "accuracy", "macro_f1"} <= found.keys() else None
    except (CheckpointError, KeyError, TypeError, ValueError):
        return None
