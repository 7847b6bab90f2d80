"""Numbers about heads and parameters: how widely a head looks, how far, how much it matters, how large each part is."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pellucid.data.batching import pad
from pellucid.inspection.chinese import named, told
from pellucid.inspection.examples import Ids, attend
from pellucid.inspection.record import attentions, spoken, without_head
from pellucid.model.classifier import Classifier
from pellucid.model.transformer import Transformer
from pellucid.runs.generate import score_targets
from pellucid.runs.run import Run
from pellucid.runs.texts import length_groups

Pair = tuple[Ids, Ids]


def entropy(weights: Tensor) -> Tensor:
    """-Σ_s w_s log₂ w_s in bits, for shares [..., S] of 1 → [...]: 0 looks at one token, log₂ S at all alike."""
    return -(torch.xlogy(weights, weights) / math.log(2)).sum(-1)


def distance(weights: Tensor) -> Tensor:
    """Σ_s w_s |t - s| in tokens, for shares [..., T, S] of 1 → [..., T]."""
    queries, keys = torch.arange(weights.shape[-2]), torch.arange(weights.shape[-1])
    return (weights * (queries[:, None] - keys).abs()).sum(-1)


@dataclass(frozen=True)
class HeadTable:
    """A number for each head: a row an attention layer, a column a head.

    Attributes:
        rows: the names of the attentions.
        values: [rows, H].
        errors: their standard errors [rows, H], where they are estimates with one.
    """

    rows: tuple[str, ...]
    values: Tensor
    errors: Tensor | None = None


@dataclass(frozen=True)
class HeadMeasures:
    """What is known of every head.

    Attributes:
        entropy: in bits.  distance: in tokens.
        importance: what the loss gains without the head.  loss: of the whole model; both in nats a target token.
    """

    entropy: HeadTable
    distance: HeadTable
    importance: HeadTable
    loss: float


def entropy_and_distance(run: Run, pairs: Sequence[Pair]) -> tuple[HeadTable, HeadTable]:
    """The mean entropy (bits) and the mean distance (tokens) of every head, over all queries of all pairs."""
    names = tuple(attentions(run.model))
    sums = {name: torch.zeros(2, run.config.model.n_heads) for name in names}
    counts = dict.fromkeys(names, 0)
    for source, target in pairs:
        for name, weights in attend(run, source, target).items():
            whole = weights.sum(-1, keepdim=True)  # 1, but where an attention of one's own weighs each key for itself
            shares = weights / torch.where(whole == 0, 1, whole)
            sums[name] += torch.stack([entropy(shares).sum(-1), distance(shares).sum(-1)])
            counts[name] += weights.shape[-2]
    means = torch.stack([sums[name] / counts[name] for name in names])  # [rows, 2, H]
    return HeadTable(names, means[:, 0]), HeadTable(names, means[:, 1])


def importance(run: Run, pairs: Sequence[Pair], progress: Callable[[str], None]) -> tuple[HeadTable, float]:
    """What the loss gains, in nats a target token, when one head is left out (Michel et al. 2019), and the loss of the
    whole model; no head is trained to do without another."""
    whole, tokens = losses(run, pairs)
    heads, few = run.config.model.n_heads, math.sqrt(len(pairs) / max(1, len(pairs) - 1))
    names = tuple(attentions(run.model))
    values, errors = torch.zeros(len(names), heads), torch.zeros(len(names), heads)
    for row, name in enumerate(names):
        for head in range(heads):
            progress(told("leaving out {name}, head {number}").format(name=named(spoken(name)), number=head + 1))
            with without_head(run.model, name, head):
                change = losses(run, pairs)[0] - whole
            mean = change.sum() / tokens.sum()
            spread = (change - mean * tokens).square().sum().sqrt()  # of a ratio of two sums over sentences
            values[row, head], errors[row, head] = mean, few * spread / tokens.sum()
    return HeadTable(names, values, errors if len(pairs) > 1 else None), float(whole.sum() / tokens.sum())


@torch.inference_mode()
def losses(run: Run, pairs: Sequence[Pair]) -> tuple[Tensor, Tensor]:
    """The cross-entropy of each pair in nats, and its number of target tokens: [pairs] each, in fp64."""
    budget = run.config.decode.batch_tokens
    if isinstance(run.model, Transformer):
        found = score_targets(run.model, pairs, budget)
        return (torch.tensor([-sum(row) for row in found], dtype=torch.float64),
                torch.tensor([len(row) for row in found], dtype=torch.float64))
    assert isinstance(run.model, Classifier)
    device = run.model.head_2.weight.device
    nats = torch.zeros(len(pairs), dtype=torch.float64)
    for group in length_groups([len(source) for source, _ in pairs], budget):
        ids, real = pad([pairs[i][0] for i in group])
        logits = run.model(ids.to(device), None if real is None else real.to(device)).float().log_softmax(-1)
        wanted = torch.tensor([int(pairs[i][1][0]) for i in group], device=device)
        nats[group] = -logits.gather(1, wanted[:, None])[:, 0].double().cpu()
    return nats, torch.ones(len(pairs), dtype=torch.float64)


@dataclass(frozen=True)
class Part:
    """The parameters of one part of the model."""

    name: str
    parameters: int
    bytes: int


def parameters_by_part(model: nn.Module) -> list[Part]:
    """Each part's parameters, in the order of the model; a matrix with several uses counts once and names them all."""
    totals: dict[str, list[int]] = {}
    for names, tensor in tensors_of(model):
        total = totals.setdefault(part_named(names), [0, 0])
        total[0] += tensor.numel()
        total[1] += tensor.numel() * tensor.element_size()
    return [Part(name, count, size) for name, (count, size) in totals.items()]


def tensors_of(model: nn.Module) -> list[tuple[tuple[str, ...], nn.Parameter]]:
    """Every parameter once, in the order of the model, with all the names that it has."""
    names: dict[nn.Parameter, list[str]] = {}
    for name, tensor in model.named_parameters(remove_duplicate=False):
        names.setdefault(tensor, []).append(name)
    return [(tuple(uses), tensor) for tensor, uses in names.items()]


def part_named(names: Sequence[str]) -> str:
    """The part of a parameter with these names, as people say it; all parts that it serves."""
    return " = ".join(dict.fromkeys(map(_part, names)))


def _part(name: str) -> str:
    """A parameter's part as people say it; the norms of a layer together."""
    words = name.split(".")
    if words[1:2] == ["layers"]:
        inside = "norms" if words[3].startswith("residual") else words[3]
        inside = "position" if "position" in words[4:] else inside
        return spoken(".".join([*words[:3], inside]))
    return spoken(".".join(words[:-1])).replace("output", "output projection")
