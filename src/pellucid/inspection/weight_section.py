"""The section of the page that shows the weights: pictures, and numbers by part and by parameter."""

from collections.abc import Sequence

import numpy as np

from pellucid.inspection.chinese import named, told
from pellucid.inspection.curves import Events, recorded
from pellucid.inspection.html import paragraph, picture, table, text
from pellucid.inspection.page import Save, Section
from pellucid.inspection.points import Points
from pellucid.inspection.weight_figures import Range, hills, sizes
from pellucid.inspection.weights import (
    Matrices,
    Statistics,
    Weights,
    by_part,
    drawn_parts,
    histogram_rows,
    histograms,
    weights_of,
)
from pellucid.runs.run import Run


def weights(run: Run, events: Events, save: Save) -> tuple[Section, list[Weights]]:
    """How the weights are spread, how large they are beside their gradients, and all that is told of each parameter;
    with these numbers themselves."""
    found = weights_of(run.model)
    (edges, matrices), names = histograms(run.model), drawn_parts(run.model)
    body = ""
    if matrices:
        points = Points(("part", "kind", "from", "to", "share"), histogram_rows(edges, matrices))
        body += picture(save("weights", hills(edges, matrices, names), points), told(
            "The matrices of each part: how many of their weights have which value; all hills have the same area. "
            "Narrow hills are small weights, a spike at 0 is weights that do nothing. Biases and gains are left out."))
        gradients = gradient_ranges(events)
        body += picture(save("weight-sizes", sizes(matrices, gradients, names), _sizes(matrices, gradients)), told(
            "How large the weights of a part are, and beside it how strongly the loss pulled at the part during "
            "training. Layers that differ much from their neighbours are worth a look."))
    body += f"<h3>{text(told('By part'))}</h3>\n{_parts(found)}"
    body += f"<details><summary>{text(told('Each parameter'))}</summary>\n{_parameters(found)}</details>"
    body += paragraph(told(
        "Near 0: the share of weights that are at most a hundredth of the root mean square of their parameter; of a "
        "normal distribution 0.8 % are. Norm: √Σ w². Spectral norm: the largest singular value. Effective rank: "
        "exp(−Σ p ln p) of the singular values as shares p of their sum, so the directions that a matrix uses, of as "
        "many as its shorter side has (Roy and Vetterli 2007)."))
    return Section("weights", told("Weights"), told("What training has made of the parameters."), body), found


def gradient_ranges(events: Events) -> dict[str, Range]:
    """The 10th percentile, the median and the 90th of each part's gradient norms over the logged updates."""
    norms: dict[str, list[float]] = {}
    for _, values in recorded(events, "gradient_norms"):
        for part, value in values.items():
            norms.setdefault(part, []).append(value)
    ranges = {part: np.percentile(values, (10, 50, 90)).tolist() for part, values in norms.items()}
    return {part: (low, middle, high) for part, (low, middle, high) in ranges.items()}


def _sizes(matrices: Sequence[Matrices], gradients: dict[str, Range]) -> Points:
    rows: list[tuple[object, ...]] = [(one.part, f"root mean square, {one.kind}", one.size) for one in matrices]
    for part, values in gradients.items():
        rows += [(part, f"gradient norm, {name}", value)
                 for name, value in zip(("10th percentile", "median", "90th percentile"), values, strict=True)]
    return Points(("part", "measure", "value"), rows)


def _parts(found: Sequence[Weights]) -> str:
    head = [told("part"), told("parameters"), *_head()]
    rows = [[text(named(part)), f"{one.count:,}", *_cells(one)] for part, one in by_part(found).items()]
    return table(head, rows, numbers=range(1, len(head)))


def _parameters(found: Sequence[Weights]) -> str:
    head = [told("parameter"), told("shape"), *_head(), told("spectral norm"), told("effective rank")]
    rows = [[f"<code>{text(one.name)}</code>", " × ".join(f"{size:,}" for size in one.shape), *_cells(one.statistics),
             _number(one.statistics.spectral_norm), _number(one.statistics.effective_rank)] for one in found]
    return table(head, rows, numbers=range(1, len(head)))


def _head() -> list[str]:
    return [told("mean"), told("standard deviation"), told("least"), told("greatest"), told("near 0"), told("norm")]


def _cells(one: Statistics) -> list[str]:
    return [_number(one.mean), _number(one.deviation), _number(one.minimum), _number(one.maximum),
            f"{100 * one.near_zero:.1f} %", _number(one.norm)]


def _number(value: float | None) -> str:
    """Three digits, and nothing where there is no such number."""
    return "" if value is None else f"{value:.3g}".replace("-", "−")
