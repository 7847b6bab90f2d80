"""The fast step: what `TransformerStep` computes, from frozen weights, and without moving what has been seen.

- Weights are cast once; queries, keys and values are one product, and so are the keys and values of the source for all
  layers together.
- The queries, keys and values of a step stay where that step's product left them. A hypothesis finds its past through a
  table of ancestors, its source through the number of its sentence: choosing rows moves small integers alone.

It serves softmax attention without bias, rotation or window, on a CPU with compiled kernels; `obstacle` names what a
model has that it does not know, and the plain step decodes that.
"""

from __future__ import annotations

import copy
import math
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.decode.stepper import TransformerStep
from pellucid.model.decoder import DecoderLayer
from pellucid.model.transformer import Transformer
from pellucid.nn import kernels
from pellucid.nn.multi_head_attention import MultiHeadAttention
from pellucid.nn.scaled_dot_product_attention import ScaledDotProductAttention
from pellucid.precision import resolve

_LANES = 16  # numbers that the kernels take at once


@dataclass
class EngineState:
    """What decoding remembers between two steps.

    Attributes:
        source: keys and values of every layer, [B, S, layers · 2 · D].
        lengths: [B], of the real source tokens, which come first.
        sentences: [R], whose hypothesis a row is.
        ancestors: [R, t], int32: the row of this row's hypothesis at each step.
        steps: of each layer the queries, keys and values [R_t, 3·D] of each step.
    """

    source: Tensor
    lengths: Tensor
    sentences: Tensor
    ancestors: Tensor
    steps: list[list[Tensor]] = field(default_factory=list)


class Joint(nn.Module):
    """Several projections of one input as one product."""

    def __init__(self, projections: list[nn.Linear], dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = torch.cat([p.weight.detach() for p in projections]).to(dtype)
        self.bias = torch.cat([p.bias.detach() for p in projections]).to(dtype)

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] → [..., the outputs of all, one behind the other]"""
        return F.linear(x.to(self.weight.dtype), self.weight, self.bias)


def obstacle(model: Transformer) -> str | None:
    """Why the engine cannot decode with this model, or None if it can."""
    if not kernels.serve(model.output.weight):
        return "no compiled kernels"
    for attention in _attentions(model):
        if not isinstance(attention.kernel, ScaledDotProductAttention):
            return f"attention is {type(attention.kernel).__name__}"
        if attention.position.door not in ("none", "embed"):
            return f"positions are {type(attention.position).__name__}"
        if (attention.query.in_features // attention.n_heads) % _LANES:
            return f"the width of a head is no multiple of {_LANES}"
    return "attention has a window" if model.window_size is not None else None


def step_for(model: Transformer, precision: str) -> Engine | TransformerStep:
    """The engine for `model` as it is now, made once; the plain step, in fp32, where it does not know the model.

    Args:
        model: in evaluation mode.
        precision: "auto", "fp32" or "bf16".
    """
    if obstacle(model) is not None:
        return TransformerStep(model)
    dtype = torch.bfloat16 if resolve(precision, model.output.weight.device) == "bf16" else torch.float32
    state = dtype, sum(parameter._version for parameter in model.parameters())
    if model not in _engines or _engines[model][0] != state:
        _engines[model] = state, Engine(model, dtype)
    return _engines[model][1]


_engines: weakref.WeakKeyDictionary[Transformer, tuple[tuple[torch.dtype, int], Engine]] = weakref.WeakKeyDictionary()


def _attentions(model: Transformer) -> Iterator[MultiHeadAttention]:
    for layer in model.decoder.stack():
        yield from (layer.self_attention, layer.cross_attention)


class Engine:
    """A step of `search` over a frozen copy of `model`.

    Args:
        model: with no `obstacle`; later changes of its weights are not seen.
        dtype: of the products and of what is remembered, bf16 or fp32.
    """

    def __init__(self, model: Transformer, dtype: torch.dtype) -> None:
        self.model = copy.deepcopy(model).eval()
        for module in self.model.modules():
            if isinstance(module, nn.Linear):
                module.weight, module.bias = (nn.Parameter(p.detach().to(dtype), requires_grad=False)
                                              for p in (module.weight, module.bias))
        self.dtype = dtype
        self.output = model.output.weight.detach().to(dtype)
        self.layers = list(self.model.decoder.stack())
        self.joints = [Joint([a.query, a.key, a.value], dtype) for a in (one.self_attention for one in self.layers)]
        self.source = Joint([projection for layer in self.layers
                             for projection in (layer.cross_attention.key, layer.cross_attention.value)], dtype)

    def start(self, source: tuple[Tensor, Tensor | None]) -> EngineState:
        """Encodes (ids [B, S], real [B, S] or None), padding at the end."""
        ids, real = source
        with self._precision():
            memory, _ = self.model.encode(ids, real)
            keys_and_values = self.source(memory)
        rows, longest = ids.shape
        lengths = torch.full((rows,), longest) if real is None else real.sum(1)
        return EngineState(keys_and_values, lengths, torch.arange(rows), torch.empty(rows, 0, dtype=torch.int32),
                           [[] for _ in self.layers])

    def step(self, state: EngineState, tokens: Tensor) -> tuple[Tensor, EngineState]:
        """tokens [R] → logits [R, V], typed as the products are, and the state after them."""
        own = torch.arange(len(tokens), dtype=torch.int32)[:, None]
        state.ancestors = torch.cat([state.ancestors, own], dim=1)
        here = torch.tensor([state.ancestors.shape[1] - 1])
        with self._precision():
            y = self.model.decoder.position.embed(self.model.target_embedding(tokens[:, None]), here)[:, 0]  # [R, D]
            for number, layer in enumerate(self.layers):
                y = self._layer(y, number, layer, state)
            y = self.model.decoder.closing_norm(y)
            return F.linear(y.to(self.dtype), self.output), state

    def select(self, state: EngineState, rows: Tensor) -> EngineState:
        """The rows [R'] of the state."""
        state.sentences, state.ancestors = state.sentences[rows], state.ancestors[rows]
        return state

    def _layer(self, y: Tensor, number: int, layer: DecoderLayer, state: EngineState) -> Tensor:
        y = layer.residual_1(y, lambda y: self._attend_past(y, number, layer.self_attention, state))
        y = layer.residual_2(y, lambda y: self._attend_source(y, number, layer.cross_attention, state))
        return layer.residual_3(y, layer.feed_forward)

    def _attend_past(self, y: Tensor, number: int, attention: MultiHeadAttention, state: EngineState) -> Tensor:
        """Self-attention of the newest tokens [R, D] → [R, D]"""
        steps, (rows, width) = state.steps[number], y.shape
        steps.append(self.joints[number](y))
        places = torch.tensor([kernels.address(joint) for joint in steps])
        out = y.new_empty(rows, width, dtype=self.dtype)
        kernels.run("attend_past", self.dtype, places, state.ancestors, out, rows, len(steps), attention.n_heads,
                    width // attention.n_heads, _scale(attention))
        projected: Tensor = attention.output(out)
        return projected

    def _attend_source(self, y: Tensor, number: int, attention: MultiHeadAttention, state: EngineState) -> Tensor:
        """Cross-attention of the newest tokens [R, D] → [R, D]"""
        rows, width = y.shape
        q = F.linear(y.to(self.dtype), attention.query.weight, attention.query.bias)
        out = torch.empty_like(q)
        kernels.run("attend_source", self.dtype, q, state.source[:, :, 2 * number * width:], state.sentences,
                    state.lengths, out, rows, *state.source.shape[1:], attention.n_heads, width // attention.n_heads,
                    _scale(attention))
        projected: Tensor = attention.output(out)
        return projected

    def _precision(self) -> torch.autocast:
        return torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.dtype == torch.bfloat16)


def _scale(attention: MultiHeadAttention) -> float:
    return math.sqrt(attention.n_heads / attention.query.in_features)
