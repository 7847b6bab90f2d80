"""The equations of nn/ and model/ as nodes of ONNX; what each one is and where it comes from is said there.

Positions whose numbers depend on nothing but the weights are tables here, made by our own classes, so that they are the
same to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.interop.onnx_graph import Graph, Value
from pellucid.nn.feed_forward import GatedFeedForward
from pellucid.nn.layer_norm import LayerNorm, NoNorm, RmsNorm, StdNorm
from pellucid.nn.linear_attention import LinearAttention
from pellucid.nn.multi_head_attention import MultiHeadAttention
from pellucid.nn.positional_encoding import (
    AlibiPosition,
    LearnedPosition,
    QuadraticPosition,
    RotaryPosition,
    SinusoidalPosition,
    T5Position,
    TransformerXlPosition,
)
from pellucid.nn.residual_connection import NoResidual, PostNormResidual, PreNormResidual, Residual

_BIASED = AlibiPosition | T5Position | QuadraticPosition | TransformerXlPosition


@dataclass(frozen=True)
class Layers:
    """What the layers of a model have in common.

    Args:
        graph: where nodes go.  names: of the modules of the model, which their weights go by.
        config: of the model.  rows: how many positions there are at most.
    """

    graph: Graph
    names: dict[nn.Module, str]
    config: ModelConfig
    rows: int

    def weight(self, module: nn.Module, name: str, tensor: Tensor | None = None) -> Value:
        """A parameter of a module, or a table made of it, in the graph's type."""
        whole = getattr(module, name) if tensor is None else tensor
        return self.graph.weight(f"{self.names[module]}.{name}", _like(whole, self.graph))


def _like(tensor: Tensor, graph: Graph) -> Tensor:
    return tensor.double() if graph.dtype == np.float64 else tensor.float()


def linear(of: Layers, module: nn.Linear, x: Value) -> Value:
    """x Wᵀ + b"""
    out = x @ of.weight(module, "weight", module.weight.T)
    return out if module.bias is None else out + of.weight(module, "bias")


def norm(of: Layers, module: nn.Module, x: Value) -> Value:
    """One of the norms over the last axis."""
    if isinstance(module, NoNorm):
        return x
    gain = of.weight(module, "gain")
    if isinstance(module, LayerNorm):
        known = {"axis": -1, "epsilon": module.epsilon}
        return of.graph.op("LayerNormalization", x, gain, of.weight(module, "bias"), attributes=known)
    if isinstance(module, RmsNorm):
        return gain * x / of.graph.op("Sqrt", (x * x).mean(-1) + module.epsilon)
    assert isinstance(module, StdNorm)
    centred = x - x.mean(-1)
    variance = (centred * centred).sum(-1) / float(max(of.config.d_model - 1, 1))
    tiny = of.graph.number(float(np.finfo(of.graph.dtype).tiny))
    deviation = of.graph.op("Sqrt", of.graph.op("Max", variance, tiny))
    return gain * centred / (deviation + module.epsilon) + of.weight(module, "bias")


def residual(of: Layers, module: Residual, x: Value, sub_layer: Callable[[Value], Value]) -> Value:
    """The connection around a sub-layer."""
    if isinstance(module, PreNormResidual):
        return x + sub_layer(norm(of, module.norm, x))
    if isinstance(module, NoResidual):
        return norm(of, module.norm, sub_layer(x))
    assert isinstance(module, PostNormResidual)
    scaled = x if module.alpha == 1 else x * float(module.alpha)
    return norm(of, module.norm, scaled + sub_layer(x))


def activation(name: str, x: Value) -> Value:
    """An elementwise function, by its name in a configuration; a gate's too."""
    op = x.graph.op
    if name == "relu":
        return op("Relu", x)
    if name == "tanh":
        return op("Tanh", x)
    if name in ("swish", "swiglu"):
        return x * op("Sigmoid", x)
    if name in ("gelu", "geglu"):
        return x * 0.5 * (op("Erf", x * math.sqrt(0.5)) + 1.0)
    assert name in ("gelu_tanh", "geglu_tanh")
    return x * 0.5 * (op("Tanh", (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)) + 1.0)


def feed_forward(of: Layers, module: Any, x: Value) -> Value:
    """The position-wise layer, gated or not."""
    inner = linear(of, module.inner, x)
    if isinstance(module, GatedFeedForward):
        return linear(of, module.outer, activation(of.config.feed_forward, linear(of, module.gate, x)) * inner)
    return linear(of, module.outer, activation(of.config.feed_forward, inner))


@dataclass(frozen=True)
class Sight:
    """Who looks at whom, as an `AttentionPattern` has it.

    Args:
        allowed: [B or 1, 1, T or 1, S], true where a query may look.
        distance: key position - query position, [B or 1, 1, T, S]; None in cross-attention.
        query_positions: [B or 1, T]; None in cross-attention.
    """

    allowed: Value
    distance: Value | None = None
    query_positions: Value | None = None


def see(of: Layers, queries: Value, keys: Value, real: Value | None) -> Sight:
    """Self-attention from positions `queries` [B or 1, T] to `keys`, where `real` [B, S] is true; if that is None, as
    in a decoder, to what is not behind them."""
    op = of.graph.op
    distance = (keys.unsqueeze(1) - queries.unsqueeze(2)).unsqueeze(1)
    allowed = op("LessOrEqual", distance, 0) if real is None else real.unsqueeze(1, 2)
    if of.config.attention == "window":
        allowed = op("And", allowed, op("LessOrEqual", op("Abs", distance), of.config.window))
    return Sight(allowed, distance, queries)


def embed(of: Layers, position: nn.Module, x: Value, positions: Value) -> Value:
    """What a scheme makes of embeddings [B, T, D] at `positions`."""
    if isinstance(position, SinusoidalPosition):
        table = of.weight(position, "encodings", position.table(torch.arange(of.rows)))
    elif isinstance(position, LearnedPosition):
        table = of.weight(position, "table")
    else:
        return x
    return x + of.graph.op("Gather", table, positions)


def rotate(of: Layers, position: nn.Module, heads: Value, positions: Value | None) -> Value:
    """Queries or keys [B, H, T, d_k] turned by their positions, where the scheme turns any."""
    if not isinstance(position, RotaryPosition):
        return heads
    assert positions is not None
    width, op = position.d_key, of.graph.op
    ones = torch.zeros(1, 1, of.rows, width)
    ones[..., 0::2] = 1  # (1, 0) turned by an angle is its cosine and its sine
    turned = position.rotate(ones, torch.arange(of.rows))[0, 0]
    cos, sin = (op("Gather", of.weight(position, name, part), positions).unsqueeze(1)
                for name, part in (("cosines", turned[:, 0::2]), ("sines", turned[:, 1::2])))
    pairs = heads.reshape(0, 0, 0, width // 2, 2)
    a, b = (op("Gather", pairs, i, attributes={"axis": 4}) for i in (0, 1))
    both = [(a * cos - b * sin).unsqueeze(4), (a * sin + b * cos).unsqueeze(4)]
    return of.graph.concat(both, 4).reshape(0, 0, 0, width)


def bias(of: Layers, position: nn.Module, queries: Value, distance: Value | None) -> Value | None:
    """What a scheme adds to the scores: [B or 1, H, T, S]."""
    op = of.graph.op
    if distance is None or not isinstance(position, _BIASED):
        return None
    if isinstance(position, AlibiPosition):
        slopes = of.weight(position, "slopes", -torch.tensor(position.slopes, dtype=torch.float64)[:, None, None])
        return slopes * op("Abs", distance).cast(of.graph.dtype)
    if isinstance(position, T5Position):
        far = position.max_distance  # from there on all are in one bucket
        table = position.table.detach()[position.bucket(torch.arange(-far, far + 1))]
        found = op("Gather", of.weight(position, "by_distance", table), op("Clip", distance, -far, far) + far)
        return op("Squeeze", found.transpose(0, 4, 2, 3, 1), of.graph.integers(4))  # of [B or 1, 1, T, S, H]
    if isinstance(position, QuadraticPosition):
        away = distance.cast(of.graph.dtype) - of.weight(position, "centre", position.centre[:, None, None])
        return of.weight(position, "sharpness", -position.sharpness[:, None, None]) * (away * away)
    return _transformer_xl(of, position, queries, distance)


def _transformer_xl(of: Layers, position: TransformerXlPosition, queries: Value, distance: Value) -> Value:
    """(q' + position_bias)·W_R r / √d_k of every distance once, and of those the one of each pair."""
    op, heads, last = of.graph.op, position.n_heads, of.rows - 1
    with torch.no_grad():
        sinusoids = position.sinusoids.table(torch.arange(-last, last + 1))
        r = position.projection(sinusoids.to(position.projection.weight.dtype))
    width = r.shape[-1] // heads
    table = of.weight(position, "by_distance", r.view(len(r), heads, width).permute(1, 2, 0))  # [H, d_k, distances]
    q = queries + of.weight(position, "position_bias", position.position_bias[:, None])
    longest = op("Max", distance.length(2), distance.length(3))  # nothing is as far away as that
    here = table.between(of.graph.integers(last + 1) - longest, longest + last, 2)
    by_distance = (q @ here) / math.sqrt(width)  # [B, H, T, distances]
    shape = [queries.length(0), queries.length(1), distance.length(2), distance.length(3)]
    index = op("Expand", longest - 1 - distance, of.graph.concat(shape, 0))  # of query position - key position
    return op("GatherElements", by_distance, index, attributes={"axis": 3})


def keys_and_values(of: Layers, module: MultiHeadAttention, x: Value, positions: Value | None) -> tuple[Value, Value]:
    """Those of x [B, S, D] at `positions`, for as many queries as may come."""
    keys, values = (_heads(of, module, each, x) for each in (module.key, module.value))
    return rotate(of, module.position, keys, positions), values


def attention(of: Layers, module: MultiHeadAttention, x: Value, known: tuple[Value, Value], sight: Sight) -> Value:
    """Queries from x [B, T, D] over keys and values that are known → [B, T, D]."""
    (keys, values), op = known, of.graph.op
    queries = _heads(of, module, module.query, x)
    added = bias(of, module.position, queries, sight.distance)
    queries = rotate(of, module.position, queries, sight.query_positions)
    here = sight.allowed.cast(of.graph.dtype)  # 0 for all keys gives a query that sees nothing the weights 0
    if isinstance(module.function, LinearAttention):
        products = (_features(queries) @ _features(keys).transpose(0, 1, 3, 2)) * here
        total = products.sum(-1)
        weights = products / op("Where", op("Equal", total, 0.0), 1.0, total)
    else:
        scores = (queries / math.sqrt(module.query.out_features // module.n_heads)) @ keys.transpose(0, 1, 3, 2)
        scores = scores if added is None else scores + added
        hidden = op("Where", sight.allowed, scores, float(np.finfo(of.graph.dtype).min))
        weights = op("Softmax", hidden, attributes={"axis": -1}) * here
    heads = (weights @ values).transpose(0, 2, 1, 3)  # [B, T, H, d_v]
    return linear(of, module.output, heads.reshape(0, 0, module.value.out_features))


def _features(x: Value) -> Value:
    """Of linear attention."""
    return x.graph.op("Elu", x) + 1.0


def _heads(of: Layers, module: MultiHeadAttention, projection: nn.Linear, x: Value) -> Value:
    """x [B, T, D] → [B, H, T, width]"""
    width = projection.out_features // module.n_heads
    return linear(of, projection, x).reshape(0, 0, module.n_heads, width).transpose(0, 2, 1, 3)
