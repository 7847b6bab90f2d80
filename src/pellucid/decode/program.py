"""A stack of layers as a list of operations that one call of a kernel executes: no Python between them.

What is written here is the layer as `model/` has it; what each operation computes stands in `nn/kernels/decoding.cpp`.
A product of a row has the same bits whatever the other rows are.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from ctypes import c_float, c_int64, c_void_p
from enum import IntEnum

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.model.encoder import Residual
from pellucid.nn import kernels
from pellucid.nn.feed_forward import FeedForward, GatedFeedForward
from pellucid.nn.layer_norm import LayerNorm, NoNorm, RmsNorm, StdNorm
from pellucid.nn.multi_head_attention import MultiHeadAttention
from pellucid.nn.residual_connection import PreNormResidual

PANEL = 64  # columns of a packed matrix that lie together
ACTIVATIONS: dict[Callable[..., Tensor], int] = {F.relu: 1, F.gelu: 2, F.silu: 3}
NORMS: dict[type[nn.Module], int] = {NoNorm: 0, LayerNorm: 1, RmsNorm: 2, StdNorm: 3}


class Kind(IntEnum):
    """What an operation does, as the kernel numbers it."""

    MULTIPLY = 0
    ADD_PRODUCT = 1
    NORMALIZE = 2
    GATE = 3
    ATTEND_SOURCE = 4
    ATTEND_PAST = 5


class Buffer(IntEnum):
    """What the operations read and write, a row for each token: all in the type of the products but for the stream and
    the logits, which are fp32. From REMEMBERED on come the newest keys and values of each layer."""

    STREAM = 0
    TYPED = 1
    JOINT = 2
    ATTENDED = 3
    GATES = 4
    INNER = 5
    SOURCE = 6
    LOGITS = 7
    REMEMBERED = 8


class Operation(ctypes.Structure):
    """As the kernel has it."""

    _fields_ = [*((name, c_int64) for name in ("kind", "from_", "from_stride", "to", "inner", "outer", "variant", "heads",
                                               "keys", "keys_at", "stride")),
                ("weight", c_void_p), ("gain", c_void_p), ("bias", c_void_p), ("scalar", c_float), ("epsilon", c_float)]


class Step(ctypes.Structure):
    """What one execution works on, as the kernel has it."""

    _fields_ = [("buffers", c_void_p), ("rows", c_int64), ("seen", c_int64), ("longest", c_int64),
                *((name, c_void_p) for name in ("steps", "ancestors", "sentences", "firsts", "lengths"))]


class Program:
    """The operations in their order, and the weights they use, packed.

    Args:
        dtype: of the products, fp32 or bf16; sums are fp32.
        d_model: the width D.  n_heads: the number of heads H.

    Attributes:
        widths: of the buffers that it uses.
    """

    def __init__(self, dtype: torch.dtype, d_model: int, n_heads: int) -> None:
        self.dtype, self.d_model, self.n_heads = dtype, d_model, n_heads
        self.operations: list[Operation] = []
        self.widths: dict[int, int] = {Buffer.STREAM: d_model, Buffer.TYPED: d_model, Buffer.ATTENDED: d_model}
        self._weights: list[Tensor] = []

    def enter(self) -> None:
        """The stream as it comes in, for those who read it without a norm."""
        self._normalize(None, keep=False)

    def connect(self, residual: Residual, sub_layer: Callable[[], tuple[Buffer, nn.Linear]]) -> None:
        """A residual connection around a sub-layer, which ends before its last projection: the product is added."""
        if isinstance(residual, PreNormResidual):
            self._normalize(residual.norm, keep=False)
        inner, last = sub_layer()
        alpha = 1.0 if isinstance(residual, PreNormResidual) else getattr(residual, "alpha", 0.0)
        self._add(Kind.ADD_PRODUCT, from_=inner, to=Buffer.STREAM, scalar=alpha, **self._pack(last))
        if not isinstance(residual, PreNormResidual):
            self._normalize(residual.norm, keep=True)

    def close(self, norm: nn.Module) -> None:
        """The norm at the end of a stack, if it has one."""
        if not isinstance(norm, nn.Identity):
            self._normalize(norm, keep=False)

    def multiply(self, to: int, *projections: nn.Linear | Tensor, activation: int = 0) -> None:
        """What the stack has made so far times some matrices at once, their outputs one behind the other."""
        packed = self._pack(*projections)
        self.widths[to] = packed["outer"]
        self._add(Kind.MULTIPLY, from_=Buffer.TYPED, to=to, variant=activation, scalar=float(to == Buffer.LOGITS),
                  **packed)

    def feed_forward(self, layer: nn.Module) -> tuple[Buffer, nn.Linear]:
        """All but the last product."""
        assert isinstance(layer, FeedForward | GatedFeedForward)
        activation = ACTIVATIONS[layer.activation]
        if isinstance(layer, GatedFeedForward):
            self.multiply(Buffer.GATES, layer.gate, layer.inner)
            self.widths[Buffer.INNER] = layer.inner.out_features
            self._add(Kind.GATE, from_=Buffer.GATES, to=Buffer.INNER, outer=layer.inner.out_features,
                      variant=activation)
        else:
            self.multiply(Buffer.INNER, layer.inner, activation=activation)
        return Buffer.INNER, layer.outer

    def attend(self, attention: MultiHeadAttention) -> tuple[Buffer, nn.Linear]:
        """Self-attention inside a sentence."""
        self.multiply(Buffer.JOINT, attention.query, attention.key, attention.value)
        return self._attend(Kind.ATTEND_SOURCE, attention, from_stride=3 * self.d_model, keys=Buffer.JOINT,
                            keys_at=self.d_model, stride=3 * self.d_model)

    def attend_past(self, attention: MultiHeadAttention, layer: int, layers: int) -> tuple[Buffer, nn.Linear]:
        """Self-attention of the newest token to all up to it."""
        self.multiply(Buffer.REMEMBERED + layer, attention.key, attention.value)
        self.multiply(Buffer.JOINT, attention.query)
        return self._attend(Kind.ATTEND_PAST, attention, keys=layer, stride=layers)

    def attend_source(self, attention: MultiHeadAttention, layer: int, layers: int) -> tuple[Buffer, nn.Linear]:
        """Cross-attention, over keys and values of all layers side by side."""
        self.multiply(Buffer.JOINT, attention.query)
        return self._attend(Kind.ATTEND_SOURCE, attention, from_stride=self.d_model, keys=Buffer.SOURCE,
                            keys_at=2 * layer * self.d_model, stride=2 * layers * self.d_model)

    def run(self, step: Step) -> None:
        """Executes all operations; no more can be added."""
        kernels.run("execute", self.dtype, ctypes.addressof(self._array), len(self._array), step, self.n_heads)

    @functools.cached_property
    def _array(self) -> ctypes.Array[Operation]:
        return (Operation * len(self.operations))(*self.operations)

    def _attend(self, kind: Kind, attention: MultiHeadAttention, **fields: int) -> tuple[Buffer, nn.Linear]:
        width = self.d_model // self.n_heads
        self._add(kind, from_=Buffer.JOINT, to=Buffer.ATTENDED, heads=self.n_heads, inner=width,
                  scalar=1 / math.sqrt(width), **fields)
        return Buffer.ATTENDED, attention.output

    def _normalize(self, norm: nn.Module | None, keep: bool) -> None:
        fields = {name: self._keep(value).data_ptr() for name, value in ([] if norm is None else norm.named_parameters())}
        self._add(Kind.NORMALIZE, from_=Buffer.STREAM, to=Buffer.TYPED, inner=self.d_model,
                  variant=NORMS[type(norm)] if norm is not None else 0, epsilon=getattr(norm, "epsilon", 0.0),
                  keys=Buffer.STREAM if keep else -1, **fields)

    def _pack(self, *projections: nn.Linear | Tensor) -> dict[str, int]:
        """The matrices [outer, inner] as one, [outer / PANEL, inner / pair, PANEL, pair], zeros behind the last
        column: a pair of bf16 numbers is multiplied at once."""
        weight = torch.cat([p.weight if isinstance(p, nn.Linear) else p for p in projections]).detach()
        outer, inner = weight.shape
        pair = 2 if self.dtype == torch.bfloat16 else 1
        padded = F.pad(weight.float(), (0, 0, 0, -outer % PANEL)).to(self.dtype)
        packed = padded.view(-1, PANEL, inner // pair, pair).transpose(1, 2).contiguous()
        fields = {"inner": inner, "outer": outer, "weight": self._keep(packed).data_ptr()}
        biases = [p.bias for p in projections if isinstance(p, nn.Linear)]
        if biases:
            fields["bias"] = self._keep(torch.cat(biases)).data_ptr()
        return fields

    def _keep(self, tensor: Tensor) -> Tensor:
        self._weights.append(tensor.detach().clone())
        return self._weights[-1]

    def _add(self, kind: Kind, **fields: float) -> None:
        self.operations.append(Operation(kind=kind, **fields))

