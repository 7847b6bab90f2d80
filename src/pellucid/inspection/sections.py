"""The sections of the page, each with its pictures; what a run has no record of is said in a sentence."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import torch

from pellucid.inspection import figures
from pellucid.inspection.chinese import named, told
from pellucid.inspection.curves import Events, flow, flow_points, training_curves, training_points
from pellucid.inspection.examples import Example
from pellucid.inspection.html import attention_map, paragraph, picture, scale, table, text
from pellucid.inspection.measures import HeadMeasures, Part, parameters_by_part
from pellucid.inspection.page import Save, Section
from pellucid.inspection.points import grid, of_attention, of_heads
from pellucid.inspection.record import spoken
from pellucid.inspection.shapes import ModuleCall
from pellucid.inspection.style import drawn, drawn_name
from pellucid.inspection.weights import drawn_parts
from pellucid.model.classifier import Classifier
from pellucid.runs.run import Run
from pellucid.runs.scored import scores_in_use

MOST_TOKENS = 48  # of a side, in a picture
KINDS = {"encoder": "Encoder self-attention", "self": "Decoder self-attention", "cross": "Cross-attention"}


def unit_of(run: Run) -> str:
    """What a loss is counted in; one of the sentences of chinese.py."""
    return "nats per text" if isinstance(run.model, Classifier) else "nats per target token"


def kind_of(name: str) -> str:
    """Which of KINDS an attention is of."""
    return "encoder" if name.startswith("encoder") else "cross" if name.endswith("cross_attention") else "self"


def attention(examples: Sequence[Example], note: str, save: Save) -> Section:
    """Every layer and head, for each sentence."""
    body = paragraph(note) if note else ""
    for number, example in enumerate(examples, start=1):
        body += f"<h3>{told('Sentence {number}').format(number=number)}</h3>\n{_told(example)}\n"
        for kind, title in KINDS.items():
            names = [name for name in example.attention if kind_of(name) == kind]
            if names:
                body += f"<details{' open' if number == 1 and _is_first(kind, example) else ''}>"
                body += f"<summary>{told(title)}{told(', sentence {number}').format(number=number)}</summary>\n"
                body += "".join(_layer(example, name, number, save) for name in names) + "</details>\n"
    lead = told("Each row is a token and shows what it attended to: the darker a cell, the more of that column's token "
                "went into it; a row sums to 1, unless an attention of your own has it otherwise.")
    if any(example.written for example in examples):
        lead += told(" Rows of the decoder are the tokens being written, columns of its self-attention the tokens "
                     "already there. Recorded in one pass with the model's own output as the target.")
    return Section("attention", told("Attention"), lead, f"<p>{told('attention weight')} {scale()}</p>\n{body}")


def _is_first(kind: str, example: Example) -> bool:
    """Whether pictures of this kind are shown at once: those of cross-attention, or of an encoder alone."""
    return kind == ("cross" if example.written else "encoder")


def _told(example: Example) -> str:
    facts = [(told("text"), example.source), (told("model"), example.output)]
    facts += [(told("reference"), example.reference)] if example.reference is not None else []
    likely = sorted(example.probabilities.items(), key=lambda item: -item[1])[:5]
    facts += [(told("probabilities"),
               ", ".join(f"{label}: {100 * share:.1f} %" for label, share in likely))] if likely else []
    if example.cut:
        lost = told("the last {cut} tokens of the text: the model takes no longer ones")
        facts.append((told("left out"), lost.format(cut=example.cut)))
    if max(len(example.source_tokens), len(example.written)) > MOST_TOKENS:
        shown = told("the first {of_read} of {read} tokens read and {of_written} of {written} written"
                     if example.written else "the first {of_read} of {read} tokens read")
        read, written = len(example.source_tokens), len(example.written)
        facts.append((told("shown"), shown.format(read=read, of_read=min(read, MOST_TOKENS), written=written,
                                                  of_written=min(written, MOST_TOKENS))))
    return "<dl>" + "".join(f"<dt>{text(a)}</dt><dd>{text(b)}</dd>" for a, b in facts) + "</dl>"


def _layer(example: Example, name: str, number: int, save: Save) -> str:
    rows, columns = (side[:MOST_TOKENS] for side in example.sides(name))
    weights = example.attention[name][:, : len(rows), : len(columns)]
    heads, title = range(1, len(weights) + 1), _capital(drawn_name(spoken(name)))
    if weights.shape != example.attention[name].shape:
        title += drawn(": the first {rows} of {queries} rows, the first {columns} of {keys} columns").format(
            rows=len(rows), columns=len(columns), queries=example.attention[name].shape[1],
            keys=example.attention[name].shape[2])
    png = figures.attention_maps(list(weights), rows, columns, [drawn("head {number}").format(number=i) for i in heads],
                                 title, kind_of(name) == "encoder")
    save(f"attention-{number}-{name.replace('.', '-')}", png, of_attention(weights, rows, columns))
    maps = "".join(attention_map(matrix, rows, columns, told("head {number}").format(number=i))
                   for matrix, i in zip(weights, heads, strict=True))
    return f'<h3>{text(_capital(named(spoken(name))))}</h3>\n<div class="maps">{maps}</div>\n'


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]


def heads(measured: HeadMeasures | None, about: str, unit: str, save: Save) -> Section:
    """How widely and how far each head looks, and what the loss gains without it; `about` says on what, or why not."""
    lead = told("Some heads attend to one token, some to all alike, some always to a neighbour; some are not needed.")
    body = paragraph(about)
    if measured is not None:
        png = figures.head_table(measured.entropy, drawn("Mean attention entropy"), drawn("bits"))
        body += picture(save("head-entropy", png, of_heads(measured.entropy)), told(
            "Entropy of a head's weights, averaged over all queries. 0 bits: all on one token; n bits: as if spread "
            "evenly over 2ⁿ tokens."))
        png = figures.head_table(measured.distance, drawn("Mean attention distance"), drawn("tokens"))
        of_distance = told("Distance between a token and the tokens it attends to, weighted by attention and averaged.")
        if any(kind_of(name) != "encoder" for name in measured.distance.rows):
            of_distance += told(" Cross-attention goes from a position of the target to one of the source; the "
                                "decoder's self-attention counts from the token that was read last, which stands "
                                "before the one that is written.")
        body += picture(save("head-distance", png, of_heads(measured.distance)), of_distance)
        title = drawn("Head importance: increase of the loss without the head")
        png = figures.head_table(measured.importance, title, drawn(unit), signed=True)
        body += picture(save("head-importance", png, of_heads(measured.importance)), told(
            "The loss of the whole model is {loss:.3f} {unit}. Each number is what leaving out one head adds to that, "
            "in bold where it is more than two standard errors from 0. Nothing is trained again: this says what the "
            "model relies on, not what it could do without.").format(loss=measured.loss, unit=told(unit)))
    return Section("heads", told("Heads"), lead, body)


def training(run: Run, events: Events, damage: str, save: Save) -> Section:
    """Curves from metrics.jsonl, and the flow through the parts where it was recorded; or what is wrong with that
    file."""
    title, lead = told("Training"), told("From metrics.jsonl; an update is one step of the optimizer.")
    if damage:
        return Section("training", title, lead, paragraph(
            told("The metrics cannot be read: {what}.").format(what=damage)))
    if not any(event["event"] == "train" for event in events):
        return Section("training", title, lead, paragraph(told(
            "There is no metrics.jsonl with training steps in this run folder, so there are no curves.")))
    body = picture(save("training", training_curves(events, unit_of(run)), training_points(events)), told(
        "Loss, learning rate and gradient norm over training, and the scores of the validations where there are some."))
    names = drawn_parts(run.model)
    norms = flow(events, "gradient_norms", drawn("Gradient norm of each part, before clipping"),
                 drawn("‖g‖₂, logarithmic"), names)
    ratios = flow(events, "update_ratios", drawn("Update-to-weight ratio of each part"),
                  drawn("‖Δw‖₂ / ‖w‖₂, logarithmic"), names)
    if norms is None or ratios is None:
        body += paragraph(told("Gradient norms and update ratios by part were not recorded when this run was trained."))
        return Section("training", title, lead, body)
    body += picture(save("gradient-flow", norms, flow_points(events, "gradient_norms")), told(
        "Where the gradient flows: a part that stays pale learns little; one that turns dark of a sudden is where "
        "training could break."))
    body += picture(save("update-ratios", ratios, flow_points(events, "update_ratios")), told(
        "How far an update moved the weights of a part, as a share of their norm; grey where it did not move them. A "
        "rule of thumb is 0.001."))
    return Section("training", title, lead, body)


def parameters(run: Run) -> Section:
    """Parameters by part, with shares and bytes."""
    parts = parameters_by_part(run.model)
    total = sum(part.parameters for part in parts)
    rows = [_parameter_row(part, total) for part in parts]
    rows.append(["=" + told("All"), f"{total:,}", f"{sum(part.bytes for part in parts):,}", "100.0 %", ""])
    lead = told("A matrix with several uses counts once. Bytes are those of the weights in memory; training needs "
                "more.")
    head = [told("part"), told("parameters"), told("bytes"), told("share"), ""]
    return Section("parameters", told("Parameters"), lead, table(head, rows, numbers=(1, 2, 3)))


def _parameter_row(part: Part, total: int) -> list[str]:
    share = part.parameters / total
    bar = f'<span class="bar" style="width:{12 * share:.2f}rem"></span>'
    percent = f"{100 * share:.1f} %" if share >= 0.0005 else "&lt; 0.1 %"
    return [text(named(part.name)), f"{part.parameters:,}", f"{part.bytes:,}", percent, bar]


def shapes(calls: Sequence[ModuleCall], run: Run) -> Section:
    """The way of one example through the network."""
    rows, around = [], [""]
    for call in calls:
        del around[call.depth + 1:]
        name = call.name.removeprefix(around[-1]).lstrip(", ")
        around.append(call.name)
        repeated = [(shape, len(list(same))) for shape, same in groupby(call.inputs)]
        inputs = ", ".join((f"{count} × " if count > 1 else "") + _shape(shape) for shape, count in repeated)
        rows.append(["&nbsp;" * 5 * call.depth + text(named(name)), text(call.kind), inputs, _shape(call.output),
                     f"{call.parameters:,}" if call.parameters else ""])
    model = run.config.model
    lead = told("The first sentence as a batch of 1, with D = {d_model} and {heads} heads; of a head, queries and keys "
                "have width {key} and values {width}. Attention takes them as [batch, heads, tokens, width], and a "
                "bias where the positions add one.").format(d_model=model.d_model, heads=model.n_heads,
                                                            key=model.key_width, width=model.value_width)
    head = [told("step"), told("class"), told("in"), told("out"), told("parameters")]
    return Section("shapes", told("Shapes"), lead, table(head, rows, numbers=(4,)))


def _shape(sizes: tuple[int, ...]) -> str:
    return "[" + ", ".join(f"{size:,}" for size in sizes) + "]"


def confusion(run: Run, save: Save) -> Section | None:
    """A classifier's confusion table, from its evaluation; None for other models."""
    if not isinstance(run.model, Classifier):
        return None
    title = told("Confusion")
    lead = told("Which labels are taken for which: rows are the true labels, columns the predicted ones.")
    found = _evaluation(run.folder)
    if found is None:
        return Section("confusion", title, lead, paragraph(told(
            "There is no evaluation with a confusion table yet; `pellucid evaluate {run}` makes one.").format(
                run=run.folder)))
    counts, labels = torch.tensor(found["confusion"]), found["labels"]
    png = figures.confusion(found["confusion"], labels,
                            drawn("Confusion matrix of {n:,} test examples").format(n=found["n"]))
    points = grid(counts, {"true": labels, "predicted": labels}, "examples")
    return Section("confusion", title, lead, picture(save("confusion", png, points), told(
        "Accuracy {accuracy:.1f} %, macro-F1 {macro_f1:.1f} %. Colours are shares of a row; numbers are examples."
    ).format(accuracy=found["accuracy"], macro_f1=found["macro_f1"])))


def _evaluation(folder: Path) -> dict[str, Any] | None:
    found = scores_in_use(folder, "test")
    if found is None:
        return None
    try:
        square = torch.tensor(found["confusion"]).shape == (len(found["labels"]),) * 2
        return found if square and {"n", "accuracy", "macro_f1"} <= found.keys() else None
    except (KeyError, TypeError, ValueError):
        return None
