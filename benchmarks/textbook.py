"""The loop that tutorials write for title→text generation: every sequence padded to the full length, masks as
tensors, attention and logits written out in fp32, Adam. Ours, so that what it costs can be measured here."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.peers import PAD, SMOOTHING, Embed, shifted


class Attention(nn.Module):
    """Scores, mask, softmax, sum: one line each."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor, memory: Tensor, hidden: Tensor) -> Tensor:
        split = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # noqa: E731
        q, k, v = split(self.q(x)), split(self.k(memory)), split(self.v(memory))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(hidden, -1e9).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """A layer of either stack, pre-norm."""

    def __init__(self, m: dict[str, Any], cross: bool) -> None:
        super().__init__()
        self.attentions = nn.ModuleList(Attention(m["d_model"], m["n_heads"]) for _ in range(1 + cross))
        self.feed_forward = nn.Sequential(nn.Linear(m["d_model"], m["d_ff"]), nn.ReLU(),
                                          nn.Linear(m["d_ff"], m["d_model"]))
        self.norms = nn.ModuleList(nn.LayerNorm(m["d_model"]) for _ in range(2 + cross))
        self.dropout = nn.Dropout(m["dropout"])

    def forward(self, x: Tensor, masks: list[Tensor], memory: Tensor | None = None) -> Tensor:
        for number, (attention, mask) in enumerate(zip(self.attentions, masks, strict=True)):
            normed = self.norms[number](x)
            x = x + self.dropout(attention(normed, normed if number == 0 else memory, mask))
        return x + self.dropout(self.feed_forward(self.norms[-1](x)))


class Textbook(nn.Module):
    """Encoder, decoder, tied projection."""

    def __init__(self, m: dict[str, Any]) -> None:
        super().__init__()
        self.embed = Embed(m)
        self.encoder = nn.ModuleList(Layer(m, cross=False) for _ in range(m["encoder_layers"]))
        self.decoder = nn.ModuleList(Layer(m, cross=True) for _ in range(m["decoder_layers"]))
        self.norms = nn.ModuleList(nn.LayerNorm(m["d_model"]) for _ in range(2))

    def forward(self, source: Tensor, target: Tensor, source_padding: Tensor | None) -> Tensor:
        hidden_source = (source == PAD)[:, None, None, :]
        length = target.shape[1]
        future = torch.ones(length, length, dtype=torch.bool, device=target.device).triu(1)
        x, y = self.embed(source), self.embed(shifted(target))
        for layer in self.encoder:
            x = layer(x, [hidden_source])
        memory = self.norms[0](x)
        for layer in self.decoder:
            y = layer(y, [future, hidden_source], memory)
        logits = F.linear(self.norms[1](y), self.embed.tokens.weight)
        return F.cross_entropy(logits.transpose(1, 2), target, ignore_index=PAD, label_smoothing=SMOOTHING)
