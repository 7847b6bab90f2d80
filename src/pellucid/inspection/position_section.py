"""The section of the page that shows what the model knows of order."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from pellucid.inspection.chinese import told
from pellucid.inspection.html import paragraph, picture
from pellucid.inspection.page import Save, Section
from pellucid.inspection.points import Points, grid, joined
from pellucid.inspection.position_figures import bias_curves, bias_matrices, encoding, near, rotation
from pellucid.inspection.positions import (
    Trained,
    bias_matrix,
    encoding_matrix,
    longest,
    rotation_cosines,
    seen,
    trained_lengths,
)
from pellucid.inspection.record import attentions, spoken
from pellucid.inspection.style import drawn, drawn_name
from pellucid.model.decoder import Decoder
from pellucid.model.encoder import Encoder
from pellucid.model.transformer import Transformer
from pellucid.nn.multi_head_attention import MultiHeadAttention
from pellucid.nn.positional_encoding import Position
from pellucid.runs.run import Run

_MOST = 64  # positions in a picture


def positions(run: Run, save: Save) -> Section:
    """What the model knows of order, by the door that its scheme opens; what is learned, no further than training
    went."""
    name, model = run.config.model.position, run.model
    own = {key: one for key, one in attentions(model).items() if not key.endswith("cross_attention")}
    first = next(iter(own.values()))
    door = model.encoder.position.door if first.position.door == "none" else first.position.door
    if door == "embed":
        lead = told("model.position is {name}. It adds a vector to each embedded token before the first layer.")
        body = _added(run, save)
    elif door == "rotate":
        lead = told("model.position is {name}. It rotates queries and keys, pair by pair of features.")
        body = _rotated(name, first, save)
    elif door == "bias":
        lead = told("model.position is {name}. It adds a bias to every attention score, another one for each head.")
        body = _biases(run, own, save)
    else:
        lead = told("model.position is {name}.")
        body = paragraph(told("The model is told nothing of order: it sees a bag of tokens, but for what the causal "
                              "mask of a decoder gives away. There is nothing to draw."))
    return Section("positions", told("Positions"), lead.format(name=name), body)


def _is_learned(position: Position) -> bool:
    return bool(list(position.parameters()))


def _as_trained(trained: Trained) -> str:
    """How far pictures of what is learned go, and why."""
    if trained.reason:
        return told("How long the sequences of training were is not known here ({reason}): of positions beyond them, "
                    "nothing was learned.").format(reason=trained.reason)
    if not trained.target:
        return told("Learned, and drawn as far as training went: up to {source} tokens read, in the first {pairs:,} "
                    "training examples.").format(source=trained.source, pairs=trained.pairs)
    return told("Learned, and drawn as far as training went: up to {source} tokens read and {target} written, in the "
                "first {pairs:,} training examples.").format(
                    source=trained.source, target=trained.target, pairs=trained.pairs)


def _added(run: Run, save: Save) -> str:
    """The vectors of each stack; of the encoder alone where nothing about them is learned."""
    config, encoder = run.config.model, run.model.encoder
    stacks: dict[str, Encoder | Decoder] = {"encoder": encoder}
    is_learned = _is_learned(encoder.position)
    if isinstance(run.model, Transformer) and is_learned:
        stacks["decoder"] = run.model.decoder
    trained = trained_lengths(run) if is_learned else None
    body = ""
    for stack, module in stacks.items():
        length = longest(module.position, _reach(trained, stack))
        matrix = encoding_matrix(module.position, length, config.d_model)
        title, file = drawn("Position encoding: {name}").format(name=config.position), "positions"
        if len(stacks) > 1:
            title, file = f"{title}, {drawn_name(stack)}", f"positions-{stack}"
        points = grid(matrix, {"position": range(length), "feature": range(config.d_model)}, "value")
        body += picture(save(file, encoding(matrix, title), points), told(
            "The first {length} positions of {features} features: all of them, some as curves, and how alike the "
            "vectors of two positions are.").format(length=length, features=config.d_model))
    return body + (paragraph(_as_trained(trained)) if trained else "")


def _rotated(name: str, attention: MultiHeadAttention, save: Save) -> str:
    cosines = rotation_cosines(attention, _MOST)
    points = grid(cosines, {"position": range(_MOST), "pair": range(cosines.shape[1])}, "cosine")
    title = drawn("Position encoding: {name}").format(name=name)
    return picture(save("positions", rotation(cosines, title), points), told(
        "Queries and keys are rotated by these angles in every self-attention, so that their product depends on the "
        "distance between them. The first pairs turn fast, the last ones slowly."))


def _biases(run: Run, own: Mapping[str, MultiHeadAttention], save: Save) -> str:
    """The biases of each self-attention; of one alone where nothing about them is learned."""
    name, window = run.config.model.position, run.model.window_size
    is_learned = any(_is_learned(one.position) for one in own.values())
    trained = trained_lengths(run) if is_learned else None
    shown = own if is_learned else dict([next(iter(own.items()))])
    biases = {key: seen(bias_matrix(one, _reach(trained, key.split(".")[0])),
                        is_learned and key.startswith("decoder"), window) for key, one in shown.items()}
    titles = [drawn_name(spoken(key).split(",")[0]) for key in shown] if is_learned else [drawn("every self-attention")]
    all_biases = list(biases.values())
    curves = save("positions-curves", bias_curves(
        all_biases, titles, drawn("Position bias over distance: {name}").format(name=name)), _curve_points(biases))
    matrices = save("positions-matrices", bias_matrices(
        all_biases, titles, drawn("Position bias of each head: {name}").format(name=name)), _matrix_points(biases))
    body = picture(curves, told("What is added to a score, over the distance from the query to the key; left of 0 the "
                                "key comes first."))
    of_matrices = told("The same as matrices over the first positions.")
    if any(key.startswith("decoder") for key in shown):
        of_matrices += told(" In a decoder, the causal mask hides what is right of the diagonal.")
    body += picture(matrices, of_matrices)
    if name == "t5":
        body += paragraph(told("A number for each of {buckets} buckets of distances: the far ones share one.").format(
            buckets=next(iter(own.values())).position.buckets))
    if name == "quadratic":
        body += paragraph(told("A parabola for each head: it looks about the top, the closer the steeper it is."))
    if name == "transformer_xl":
        body += paragraph(told("Only the term that does not depend on the query is drawn."))
    return body + (paragraph(_as_trained(trained)) if trained else "")


def _reach(trained: Trained | None, stack: str) -> int:
    """Positions to draw."""
    known = 0 if trained is None else trained.source if stack == "encoder" else trained.target
    return min(_MOST, known or _MOST)


def _curve_points(biases: Mapping[str, Tensor]) -> Points:
    parts = {}
    for name, bias in biases.items():
        distances, values = near(bias)
        parts[name] = grid(values, {"head": _heads(bias), "distance": distances.tolist()}, "bias")
    return joined("attention", parts)


def _matrix_points(biases: Mapping[str, Tensor]) -> Points:
    """Without what is hidden."""
    parts = {}
    for name, bias in biases.items():
        at = range(bias.shape[-1])
        points = grid(bias, {"head": _heads(bias), "query": at, "key": at}, "bias")
        parts[name] = Points(points.columns, [row for row in points.rows if row[-1] == row[-1]])  # NaN is not
    return joined("attention", parts)


def _heads(bias: Tensor) -> Sequence[int]:
    return range(1, len(bias) + 1)
