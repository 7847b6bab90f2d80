"""The section of the page that shows what the model knows of order."""

from pellucid.inspection.html import paragraph, picture
from pellucid.inspection.page import Save, Section
from pellucid.inspection.position_figures import bias_curves, bias_matrices, encoding, rotation
from pellucid.inspection.positions import bias_matrix, encoding_matrix, longest, rotation_cosines
from pellucid.inspection.record import attentions, spoken
from pellucid.model.decoder import Decoder
from pellucid.model.encoder import Encoder
from pellucid.model.transformer import Transformer
from pellucid.nn.multi_head_attention import MultiHeadAttention
from pellucid.runs.run import Run

_MOST = 64  # positions in a picture
_OF_A_SCHEME = {"t5": " Learned, one for each of 32 buckets of distances.",
                "transformer_xl": " Only the term that does not depend on the query is drawn."}


def positions(run: Run, save: Save) -> Section:
    """What the model knows of order, by the door that its scheme opens."""
    name, model = run.config.model.position, run.model
    own = {key: one for key, one in attentions(model).items() if not key.endswith("cross_attention")}
    first = next(iter(own.values()))
    door = model.encoder.position.door if first.position.door == "none" else first.position.door
    lead = f"model.position is {name}."
    if door == "embed":
        lead += " It adds a vector to each embedded token before the first layer."
        body = _added(run, save)
    elif door == "rotate":
        lead += " It rotates queries and keys, pair by pair of features."
        body = picture(save("positions", rotation(rotation_cosines(first, _MOST), f"Position encoding: {name}")),
                       "Queries and keys are rotated by these angles in every self-attention, so that their product "
                       "depends on the distance between them. The first pairs turn fast, the last ones slowly.")
    elif door == "bias":
        lead += " It adds a bias to every attention score, another one for each head."
        body = _biases(name, own, save)
    else:
        body = paragraph("The model is told nothing of order: it sees a bag of tokens, but for what the causal mask of "
                         "a decoder gives away. There is nothing to draw.")
    return Section("positions", "Positions", lead, body)


def _added(run: Run, save: Save) -> str:
    """The vectors of each stack; of the encoder alone where nothing about them is learned."""
    config = run.config.model
    stacks: dict[str, Encoder | Decoder] = {"encoder": run.model.encoder}
    if isinstance(run.model, Transformer) and list(run.model.decoder.position.parameters()):
        stacks["decoder"] = run.model.decoder
    body = ""
    for stack, module in stacks.items():
        length = longest(module.position, _MOST)
        matrix = encoding_matrix(module.position, length, config.d_model)
        which, file = (f", {stack}", f"positions-{stack}") if len(stacks) > 1 else ("", "positions")
        body += picture(save(file, encoding(matrix, f"Position encoding: {config.position}{which}")),
                        f"The first {length} positions of {config.d_model} features: all of them, some as curves, and "
                        "how alike the vectors of two positions are.")
    return body


def _biases(name: str, own: dict[str, MultiHeadAttention], save: Save) -> str:
    """The biases of each self-attention; of one alone where nothing about them is learned."""
    if any(list(one.position.parameters()) for one in own.values()):
        titles = [spoken(key).split(",")[0] for key in own]
        biases = [bias_matrix(one, _MOST) for one in own.values()]
        causal = [key.startswith("decoder") for key in own]
    else:
        titles, biases, causal = ["every self-attention"], [bias_matrix(next(iter(own.values())), _MOST)], [False]
    curves = save("positions-curves", bias_curves(biases, titles, causal, f"Position bias over distance: {name}"))
    matrices = save("positions-matrices", bias_matrices(biases, titles, f"Position bias of each head: {name}"))
    return (picture(curves, "What is added to a score, over the distance from the query to the key; left of 0 the key "
                            f"comes first.{_OF_A_SCHEME.get(name, '')}")
            + picture(matrices, f"The same as matrices over the first {_MOST} positions. In a decoder, the causal mask "
                                "hides what is right of the diagonal."))
