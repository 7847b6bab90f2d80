"""The sections of the page, each with its pictures; what a run has no record of is said in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from pellucid.errors import CheckpointError
from pellucid.files import read_json
from pellucid.inspection import figures, position_figures
from pellucid.inspection.curves import flow, training_curves
from pellucid.inspection.examples import Example
from pellucid.inspection.html import attention_map, paragraph, picture, scale, table, text
from pellucid.inspection.measures import HeadTable, Part, parameters_by_part
from pellucid.inspection.page import Section
from pellucid.inspection.positions import added, longest, preferred, turned
from pellucid.inspection.record import attentions, spoken
from pellucid.inspection.shapes import Step
from pellucid.model.classifier import Classifier
from pellucid.model.transformer import Transformer
from pellucid.nn.positional_encoding import NoPosition
from pellucid.run import Run
from pellucid.train.journal import read_metrics

Save = Callable[[str, bytes], bytes]  # keeps a picture under a name, and gives it back
MOST_TOKENS = 48  # of a side, in a picture
POSITIONS = 64
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
                body += f"<details{' open' if name_is_first(kind, example) and number == 1 else ''}>"
                body += f"<summary>{title}, sentence {number}</summary>\n"
                body += "".join(_layer(example, name, number, save) for name in names) + "</details>\n"
    lead = ("Each row is a token and says where it looked: the brighter a dot, the more of that column's token was "
            "mixed in; a row sums to 1. Decoder rows are the token being written, its self-attention columns the "
            "tokens already there. Recorded in one pass over the whole sentence, with the model's own "
            "output as the target.")
    return Section("attention", "Attention", lead, f"<p>attention weight {scale()}</p>\n{body}")


def name_is_first(kind: str, example: Example) -> bool:
    """Whether pictures of this kind are shown at once: those of cross-attention, or of an encoder alone."""
    return kind == ("cross" if example.written else "encoder")


def _told(example: Example) -> str:
    facts = [("text", example.source), ("model", example.output)]
    facts += [("reference", example.reference)] if example.reference is not None else []
    facts += [(label, f"{100 * share:.1f} %") for label, share in
              sorted(example.probabilities.items(), key=lambda item: -item[1])[:5]]
    long = max(len(example.source_tokens), len(example.written)) > MOST_TOKENS
    facts += [("shown", f"the first {MOST_TOKENS} of {len(example.source_tokens)} tokens read"
               + (f" and of {len(example.written)} written" if example.written else ""))] if long else []
    return "<dl>" + "".join(f"<dt>{text(a)}</dt><dd>{text(b)}</dd>" for a, b in facts) + "</dl>"


def _layer(example: Example, name: str, number: int, save: Save) -> str:
    rows, columns = (side[:MOST_TOKENS] for side in example.sides(name))
    weights = example.attention[name][:, : len(rows), : len(columns)]
    heads = [f"head {i + 1}" for i in range(len(weights))]
    save(f"attention-{number}-{name.replace('.', '-')}",
         figures.attention_maps(list(weights), columns, rows, heads, spoken(name).capitalize()))
    maps = "".join(attention_map(matrix, rows, columns, head) for matrix, head in zip(weights, heads, strict=True))
    return f'<h3>{text(spoken(name).capitalize())}</h3>\n<div class="maps">{maps}</div>\n'


def heads(measured: tuple[HeadTable, HeadTable] | None, lost: tuple[HeadTable, float] | None, about: str, unit: str,
          save: Save) -> Section:
    """How widely and how far each head looks, and what the loss gains without it."""
    lead = "Some heads look at one token, some at all alike, some always at the neighbour."
    body = paragraph(about)
    if measured is not None:
        body += picture(save("head-entropy", figures.head_table(measured[0], "Entropy of each head", "bits")),
                        "Mean entropy of a head's weights. 0 bits: one token; each bit more doubles the tokens that it "
                        "spreads over.")
        body += picture(save("head-distance", figures.head_table(measured[1], "How far each head looks", "tokens")),
                        "Mean distance between the place of a token and the places it looks at; in cross-attention "
                        "between a place in the target and one in the source.")
    if lost is not None:
        drawn = figures.head_table(lost[0], "What the loss gains when a head is left out", unit, signed=True)
        body += picture(save("head-importance", drawn),
                        f"The whole model loses {lost[1]:.3f} {unit}. Each number is what one head less "
                        "adds to that; in bold where it is more than two standard errors from 0. Nothing is trained "
                        "again, so this says what the model relies on, not what it could do without.")
    return Section("heads", "Heads", lead, body)


def positions(run: Run, save: Save) -> Section:
    """What the model knows of order, by the door that its scheme opens."""
    name, model = run.config.model.position, run.model
    stacks: list[tuple[str, Any]] = [("encoder", model.encoder)]
    stacks += [("decoder", model.decoder)] if isinstance(model, Transformer) else []
    own = {key: one for key, one in attentions(model).items() if not key.endswith("cross_attention")}
    door = next(iter([*(one.position.door for one in own.values() if one.position.door != "none"),
                      model.encoder.position.door]))
    lead = f"model.position is {name}."
    if door == "embed":
        drawn = stacks if list(model.encoder.position.parameters()) else stacks[:1]
        body = "".join(_added(run, stack, module.position, len(drawn) > 1, save) for stack, module in drawn)
        lead += " It adds a vector to each embedded token before the first layer."
    elif door == "rotate":
        body = picture(save("positions", position_figures.rotation(turned(next(iter(own.values())), POSITIONS),
                                                                   f"Positions: {name}")),
                       "Queries and keys are turned by these angles in every self-attention: their product then "
                       "depends on the distance between them. Low pairs turn fast, high ones slowly.")
        lead += " It turns queries and keys, pair by pair of features."
    elif door == "bias":
        body = _biases(run, own, save)
        lead += " It adds a number to every score, for each head another one."
    else:
        body = paragraph("The model adds, turns and prefers nothing: it sees a bag of tokens, but for what the causal "
                         "mask of a decoder gives away. There is nothing to draw.")
    return Section("positions", "Positions", lead, body)


def _added(run: Run, stack: str, position: NoPosition, several: bool, save: Save) -> str:
    length = longest(position, POSITIONS)
    matrix = added(position.to("cpu"), length, run.config.model.d_model).float()
    position.to(next(run.model.parameters()).device)
    title = f"Positions: {run.config.model.position}" + (f", {stack}" if several else "")
    return picture(save(f"positions-{stack}" if several else "positions", position_figures.encoding(matrix, title)),
                   f"The first {length} positions, {run.config.model.d_model} features. Bottom right: near positions "
                   "are alike where the scheme says so.")


def _biases(run: Run, own: dict[str, Any], save: Save) -> str:
    name = run.config.model.position
    fixed = not any(True for one in own.values() for _ in one.position.parameters())
    shown = dict(list(own.items())[:1]) if fixed else own
    biases = [preferred(one, POSITIONS) for one in shown.values()]
    titles = ["every self-attention"] if fixed else [spoken(key).split(",")[0] for key in shown]
    causal = [not fixed and key.startswith("decoder") for key in shown]
    told = {"transformer_xl": " Only the term that does not depend on the query is drawn.",
            "t5": " Learned, for 32 buckets of distances."}.get(name, "")
    return (picture(save("positions-curves", position_figures.bias_curves(biases, titles, causal,
                                                                          f"Bias over distance: {name}")),
                    "What is added to a score, over the distance from the query to the key, in tokens; left of 0 is "
                    f"before the query.{told}")
            + picture(save("positions-matrices", position_figures.bias_matrices(biases, titles,
                                                                                f"Bias of each head: {name}")),
                      f"The same as matrices over the first {POSITIONS} positions. A causal mask hides what is right "
                      "of the diagonal in a decoder."))


def training(run: Run, save: Save) -> Section:
    """Curves from metrics.jsonl, and the flow through the parts where it was recorded."""
    lead = "What metrics.jsonl tells of the training; an update is one step of the optimizer."
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
    body += picture(save("gradient-flow", norms), "Where the gradient flows: a part that stays dark learns little; one "
                    "that flares up is where training could break.")
    body += picture(save("update-ratios", ratios), "How far each update moved a part, as a share of its length.")
    return Section("training", "Training", lead, body)


def parameters(run: Run) -> Section:
    """Parameters by part, with shares and bytes."""
    parts = parameters_by_part(run.model)
    total = sum(part.parameters for part in parts)
    rows = [_parameter_row(part, total) for part in parts]
    rows.append(["=All", f"{total:,}", "100.0 %", f"{sum(part.bytes for part in parts):,}", ""])
    lead = "A matrix that serves twice counts once. Bytes are those of the weights as they are loaded, without moments."
    return Section("parameters", "Parameters", lead,
                   table(["part", "parameters", "share", "bytes", ""], rows, numbers=(1, 2, 3)))


def _parameter_row(part: Part, total: int) -> list[str]:
    share = part.parameters / total
    bar = f'<span class="bar" style="width:{12 * share:.2f}rem"></span>'
    return [text(part.name), f"{part.parameters:,}", f"{100 * share:.1f} %", f"{part.bytes:,}", bar]


def shapes(steps: Sequence[Step], run: Run) -> Section:
    """The way of one example through the network."""
    def written(shape: tuple[int, ...]) -> str:
        return "[" + ", ".join(f"{size:,}" for size in shape) + "]"

    rows = [["&nbsp;" * 4 * step.depth + text(step.name), text(step.kind), ", ".join(map(written, step.inputs)),
             written(step.output), f"{step.parameters:,}" if step.parameters else ""] for step in steps]
    model = run.config.model
    lead = (f"The first sentence as a batch of 1, D = {model.d_model}, {model.n_heads} heads of width "
            f"{model.d_model // model.n_heads}. A kernel takes queries, keys and values as [batch, heads, tokens, "
            "width].")
    return Section("shapes", "Shapes", lead,
                   table(["step", "class", "in", "out", "parameters"], rows, numbers=(4,)))


def confusion(run: Run, save: Save) -> Section | None:
    """A classifier's confusion table, from its evaluation; None for other models."""
    if not isinstance(run.model, Classifier):
        return None
    lead = "Which labels are taken for which: rows are the truth."
    path = run.folder / "evaluation" / "test.json"
    found = _evaluation(path)
    if found is None:
        return Section("confusion", "Confusion", lead, paragraph(
            f"There is no evaluation with a confusion table yet; `pellucid evaluate {run.folder}` makes one."))
    drawn = figures.confusion(found["confusion"], found["labels"], f"Confusion on {found['n']:,} test examples")
    return Section("confusion", "Confusion", lead, picture(
        save("confusion", drawn), f"Accuracy {found['accuracy']:.1f} %, macro-F1 {found['macro_f1']:.1f} %. Colours "
        "are shares of a row."))


def _evaluation(path: Path) -> dict[str, Any] | None:
    try:
        found = read_json(path)
        square = torch.tensor(found["confusion"]).shape == (len(found["labels"]),) * 2
        return found if square and {"n", "accuracy", "macro_f1"} <= found.keys() else None
    except (CheckpointError, KeyError, TypeError, ValueError):
        return None
