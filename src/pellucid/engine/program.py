"""A stack of layers as a list of operations that one call of a kernel executes: no Python between them.

What is written here is the layer as `model/` has it; what each operation computes stands in `kernels/decoding.cpp`.
A product of a row has the same bits whatever the other rows are.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.engine.frozen import Stack
from pellucid.engine.layout import Buffer, Kind, Operation, Step
from pellucid.kernels import calls as kernels
from pellucid.model.encoder import Residual
from pellucid.nn.feed_forward import FeedForward, GatedFeedForward
from pellucid.nn.layer_norm import LayerNorm, NoNorm, RmsNorm, StdNorm
from pellucid.nn.multi_head_attention import MultiHeadAttention
from pellucid.nn.residual_connection import PreNormResidual

PANEL = 64  # columns of a packed matrix that lie together
GROUP = {"fp32": 1, "bf16": 2, "int8": 4}  # inner numbers that are multiplied at once
ACTIVATIONS: dict[Callable[..., Tensor], int] = {F.relu: 1, F.gelu: 2, F.silu: 3}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "uint8": torch.uint8}
NORMS: dict[type[nn.Module], int] = {NoNorm: 0, LayerNorm: 1, RmsNorm: 2, StdNorm: 3}


class Program:
    """The operations in their order, and the weights they use, packed.

    Args:
        precision: of the products, "fp32", "bf16" or "int8". Their sums are fp32 (integers for int8).
        d_model: the width D.  n_heads: the number of heads H.

    Attributes:
        call: calls a function of the kernels by its name.
        typed, dtype: of what goes from one operation to the next: bf16 for int8.
        widths: of the buffers that it uses.
    """

    def __init__(self, precision: str, d_model: int, n_heads: int) -> None:
        self.precision, self.d_model, self.n_heads = precision, d_model, n_heads
        self.typed = "float32" if precision == "fp32" else "bfloat16"
        self.dtype = DTYPES[self.typed]
        self.call = kernels.caller()
        self.operations: list[Operation] = []
        self.widths: dict[int, int] = {}
        self._weights: list[Tensor] = []
        self._in_bytes: int | None = None  # what Buffer.BYTES holds

    def embed(self, table: Tensor) -> None:
        """Rows of the table [V, D], and their places, and the same for those who read it without a norm."""
        self._write(Operation(kind=Kind.EMBED, to=Buffer.STREAM, outer=self.d_model, weight=self._keep(table)))
        self._normalize(None, keep=False)

    def connect(self, residual: Residual, sub_layer: Callable[[], tuple[Buffer, nn.Linear]]) -> None:
        """A residual connection around a sub-layer, which ends before its last projection: the product is added."""
        if isinstance(residual, PreNormResidual):
            self._normalize(residual.norm, keep=False)
        inner, last = sub_layer()
        alpha = 1.0 if isinstance(residual, PreNormResidual) else getattr(residual, "alpha", 0.0)
        self._multiply(Operation(kind=Kind.ADD_PRODUCT, from_=inner, to=Buffer.STREAM, scalar=alpha), last)
        if not isinstance(residual, PreNormResidual):
            self._normalize(residual.norm, keep=True)

    def close(self, norm: nn.Module) -> None:
        """The norm at the end of a stack, if it has one."""
        if not isinstance(norm, nn.Identity):
            self._normalize(norm, keep=False)

    def multiply(self, to: int, *projections: nn.Linear | Tensor, activation: int = 0) -> None:
        """What the stack has made so far times some matrices at once, their outputs one behind the other."""
        self._multiply(Operation(kind=Kind.MULTIPLY, from_=Buffer.TYPED, to=to, variant=activation,
                                 scalar=float(to == Buffer.LOGITS)), *projections)

    def feed_forward(self, layer: nn.Module) -> tuple[Buffer, nn.Linear]:
        """All but the last product."""
        assert isinstance(layer, FeedForward | GatedFeedForward)
        activation = ACTIVATIONS[layer.activation]
        if isinstance(layer, GatedFeedForward):
            self.multiply(Buffer.GATES, layer.gate, layer.inner)
            self._write(Operation(kind=Kind.GATE, from_=Buffer.GATES, to=Buffer.INNER, outer=layer.inner.out_features,
                                  variant=activation))
        else:
            self.multiply(Buffer.INNER, layer.inner, activation=activation)
        return Buffer.INNER, layer.outer

    def attend(self, attention: MultiHeadAttention) -> tuple[Buffer, nn.Linear]:
        """Self-attention inside a sentence."""
        self.multiply(Buffer.JOINT, attention.query, attention.key, attention.value)
        return self._attend(attention, Operation(
            kind=Kind.ATTEND_SOURCE, from_stride=3 * self.d_model, keys=Buffer.JOINT, keys_at=self.d_model,
            stride=3 * self.d_model))

    def attend_past(self, attention: MultiHeadAttention, layer: int, layers: int) -> tuple[Buffer, nn.Linear]:
        """Self-attention of the newest token to all up to it."""
        self.multiply(Buffer.REMEMBERED + layer, attention.key, attention.value)
        self.multiply(Buffer.JOINT, attention.query)
        return self._attend(attention, Operation(kind=Kind.ATTEND_PAST, keys=layer, stride=layers))

    def attend_source(self, attention: MultiHeadAttention, layer: int, layers: int) -> tuple[Buffer, nn.Linear]:
        """Cross-attention, over keys and values of all layers side by side."""
        self.multiply(Buffer.JOINT, attention.query)
        return self._attend(attention, Operation(
            kind=Kind.ATTEND_SOURCE, from_stride=self.d_model, keys=Buffer.SOURCE, keys_at=2 * layer * self.d_model,
            stride=2 * layers * self.d_model))

    def buffers(self, rows: int) -> dict[int, Tensor]:
        """Room for so many rows, but not for what is remembered."""
        return {number: torch.empty(rows, width, dtype=DTYPES[Buffer(number).type_name(self.typed)])
                for number, width in self.widths.items() if number < Buffer.REMEMBERED}

    def run(self, step: Step) -> None:
        """Executes all operations."""
        self.stack.run(step, self.call)

    @functools.cached_property
    def stack(self) -> Stack:
        """What has been written; no more can be added."""
        return Stack((Operation * len(self.operations))(*self.operations),
                     [weight.flatten().view(torch.uint8).numpy() for weight in self._weights], self.widths, self.typed)

    def _attend(self, attention: MultiHeadAttention, operation: Operation) -> tuple[Buffer, nn.Linear]:
        width = self.d_model // self.n_heads
        operation.from_, operation.to, operation.outer = Buffer.JOINT, Buffer.ATTENDED, self.d_model
        operation.heads, operation.inner, operation.scalar = self.n_heads, width, 1 / math.sqrt(width)
        self._write(operation)
        return Buffer.ATTENDED, attention.output

    def _normalize(self, norm: nn.Module | None, keep: bool) -> None:
        operation = Operation(kind=Kind.NORMALIZE, from_=Buffer.STREAM, to=Buffer.TYPED, inner=self.d_model,
                              outer=self.d_model, variant=NORMS[NoNorm if norm is None else type(norm)],
                              epsilon=getattr(norm, "epsilon", 0.0), keys=Buffer.STREAM if keep else -1)
        for name, value in [] if norm is None else norm.named_parameters():
            setattr(operation, name, self._keep(value))
        self._write(operation)

    def _multiply(self, operation: Operation, *projections: nn.Linear | Tensor) -> None:
        """Weights are packed as [outer / PANEL, inner / group, PANEL, group], with zeros behind the last column: a
        group of numbers is multiplied at once. In bytes, each column (a row of `weight`) has a gain of its own."""
        weight = torch.cat([p.weight if isinstance(p, nn.Linear) else p for p in projections]).detach()
        biases: list[Tensor] = [p.bias for p in projections if isinstance(p, nn.Linear)]
        operation.outer, operation.inner = weight.shape
        operation.bias = self._keep(torch.cat(biases)) if biases else None
        weight = F.pad(weight, (0, 0, 0, -len(weight) % PANEL))
        if self.precision == "int8":
            self._quantize(operation)
            gain = weight.abs().amax(1).clamp(min=1e-30) / 127
            weight = (weight / gain[:, None]).round().to(torch.int8)
            operation.gain = self._keep(gain)
            operation.shift = self._keep(-128 * weight.sum(1, dtype=torch.int32))
        else:
            weight = weight.to(self.dtype)
        group = GROUP[self.precision]
        operation.weight = self._keep(weight.view(-1, PANEL, operation.inner // group, group).transpose(1, 2))
        self._write(operation)

    def _quantize(self, product: Operation) -> None:
        """What a product reads as bytes, unless they are there already."""
        if self._in_bytes != product.from_:
            self.widths[Buffer.SCALES] = 1
            room = max(product.inner, self.widths.get(Buffer.BYTES, 0))
            self._write(Operation(kind=Kind.QUANTIZE, from_=product.from_, to=Buffer.BYTES, inner=product.inner,
                                  outer=room))
            self._in_bytes = product.from_
        product.from_ = Buffer.BYTES

    def _keep(self, tensor: Tensor) -> int:
        """A frozen copy; where it lies."""
        self._weights.append(tensor.detach().clone(memory_format=torch.contiguous_format))
        return self._weights[-1].data_ptr()

    def _write(self, operation: Operation) -> None:
        """Adds an operation, and what it makes known of the buffer it writes to."""
        self.widths[operation.to] = operation.outer
        if self._in_bytes == operation.to:
            self._in_bytes = None
        self.operations.append(operation)
