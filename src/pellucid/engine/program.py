"""A stack of layers as a list of operations that one call of a kernel executes: no Python between them.

What is written here is the layer as `model/` has it; what each operation computes stands in `kernels/decoding.cpp`.
A product of a row has the same bits whatever the other rows are.
"""

import functools
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.engine.frozen import Stack
from pellucid.engine.layout import PANEL, Activation, Buffer, Execution, Group, Kind, Norm, Operation, row_rooms
from pellucid.kernels import calls
from pellucid.nn.embeddings import Embedding
from pellucid.nn.feed_forward import FeedForward, GatedFeedForward
from pellucid.nn.layer_norm import LayerNorm, NoNorm, RmsNorm, StdNorm
from pellucid.nn.multi_head_attention import MultiHeadAttention
from pellucid.nn.residual_connection import PostNormResidual, PreNormResidual, Residual

ACTIVATIONS: dict[Callable[..., Tensor], Activation] = {
    F.relu: Activation.RELU, F.gelu: Activation.GELU, F.silu: Activation.SWISH}
NORMS: dict[type[nn.Module], Norm] = {
    NoNorm: Norm.NO_NORM, LayerNorm: Norm.LAYER_NORM, RmsNorm: Norm.RMS_NORM, StdNorm: Norm.STD_NORM}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int16": torch.int16}


class Program:
    """The operations in their order, and the weights they use, packed.

    Args:
        precision: of the products, "fp32", "bf16" or "int8". Their sums are fp32 (integers for int8).
        d_model: the width D.

    Attributes:
        call: calls a function of the kernels by its name.
        typed, dtype: of what goes from one operation to the next: bf16 for int8.
        widths: of the buffers that it uses.
    """

    def __init__(self, precision: str, d_model: int) -> None:
        self.precision, self.d_model = precision, d_model
        self.typed = "float32" if precision == "fp32" else "bfloat16"
        self.dtype = DTYPES[self.typed]
        self.call = calls.caller()
        self.operations: list[Operation] = []
        self.widths: dict[int, int] = {}
        self._words = 0  # rows of the table
        self._weights: list[Tensor] = []
        self._in_bytes: int | None = None  # what Buffer.BYTES holds

    def embed(self, embedding: Embedding) -> None:
        """Rows of its table [V, D], scaled in fp32, and their places, and the same for those who read it without a
        norm."""
        table = embedding.weight.detach().float() * embedding.scale
        self._words = len(table)
        self._write(Operation(kind=Kind.EMBED, to=Buffer.STREAM, outer=self.d_model, weight=self._keep(table)))
        self._normalize(NoNorm(self.d_model), in_place=False)

    def check(self, tokens: Tensor) -> None:
        """Raises:
            IndexError: one of the tokens has no row in the table, as torch's own embedding says it.
        """
        if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < self._words:
            raise IndexError(f"index out of range: the embedding has {self._words} rows")

    def connect(self, residual: Residual, sub_layer: Callable[[], tuple[Buffer, nn.Linear]]) -> None:
        """A residual connection around a sub-layer, which ends before its last projection: the product is added."""
        if isinstance(residual, PreNormResidual):
            self._normalize(residual.norm, in_place=False)
        inner, last = sub_layer()
        alpha = residual.alpha if isinstance(residual, PostNormResidual) else type(residual).alpha  # no other is used
        self._multiply(Operation(kind=Kind.ADD_PRODUCT, from_=inner, to=Buffer.STREAM, alpha=alpha), last)
        if not isinstance(residual, PreNormResidual):
            self._normalize(residual.norm, in_place=True)

    def close(self, norm: nn.Module) -> None:
        """The norm at the end of a stack, which may be the identity."""
        self._normalize(norm, in_place=False)

    def multiply(self, to: int, *projections: nn.Linear | Tensor, activation: Activation = Activation.LINEAR) -> None:
        """What the stack has made so far times some matrices at once, their outputs one behind the other."""
        self._multiply(Operation(kind=Kind.MULTIPLY, from_=Buffer.TYPED, to=to, activation=activation), *projections)

    def feed_forward(self, layer: nn.Module) -> tuple[Buffer, nn.Linear]:
        """All but the last product."""
        assert isinstance(layer, FeedForward | GatedFeedForward)
        activation = ACTIVATIONS[layer.activation]
        if isinstance(layer, GatedFeedForward):
            self.multiply(Buffer.GATES, layer.gate, layer.inner)
            width = layer.inner.out_features
            self._write(Operation(kind=Kind.GATE, from_=Buffer.GATES, to=Buffer.INNER, inner=2 * width, outer=width,
                                  activation=activation))
        else:
            self.multiply(Buffer.INNER, layer.inner, activation=activation)
        return Buffer.INNER, layer.outer

    def attend(self, attention: MultiHeadAttention) -> tuple[Buffer, nn.Linear]:
        """Self-attention inside a sentence."""
        self.multiply(Buffer.JOINT, attention.query, attention.key, attention.value)
        return self._attend(attention, Operation(
            kind=Kind.ATTEND_SOURCE, inner=3 * self.d_model, keys=Buffer.JOINT, keys_at=self.d_model,
            keys_stride=3 * self.d_model))

    def attend_past(self, attention: MultiHeadAttention, layer: int) -> tuple[Buffer, nn.Linear]:
        """Self-attention of the newest token to all up to it."""
        self.multiply(Buffer.REMEMBERED + layer, attention.key, attention.value)
        self.multiply(Buffer.JOINT, attention.query)
        return self._attend(attention, Operation(kind=Kind.ATTEND_PAST, inner=self.d_model, layer=layer))

    def attend_source(self, attention: MultiHeadAttention, layer: int, layers: int) -> tuple[Buffer, nn.Linear]:
        """Cross-attention, over keys and values of all layers side by side."""
        self.multiply(Buffer.JOINT, attention.query)
        return self._attend(attention, Operation(
            kind=Kind.ATTEND_SOURCE, inner=self.d_model, keys=Buffer.SOURCE, keys_at=2 * layer * self.d_model,
            keys_stride=2 * layers * self.d_model))

    def buffers(self, rows: int) -> dict[int, Tensor]:
        """Room for so many rows, but not for what is remembered."""
        return {buffer: torch.empty(rows, numbers, dtype=DTYPES[kind])
                for buffer, (numbers, kind) in row_rooms(self.widths, self.typed).items()}

    def run(self, execution: Execution) -> None:
        """Executes all operations."""
        self.stack.run(execution, self.call)

    @functools.cached_property
    def stack(self) -> Stack:
        """What has been written; no more can be added."""
        return Stack((Operation * len(self.operations))(*self.operations),
                     [weight.flatten().view(torch.uint8).numpy() for weight in self._weights], self.widths, self.typed)

    def _attend(self, attention: MultiHeadAttention, operation: Operation) -> tuple[Buffer, nn.Linear]:
        operation.from_, operation.to, operation.outer = Buffer.JOINT, Buffer.ATTENDED, self.d_model
        operation.heads, operation.scale = attention.n_heads, 1 / math.sqrt(self.d_model // attention.n_heads)
        self._write(operation)
        return Buffer.ATTENDED, attention.output

    def _normalize(self, norm: nn.Module, in_place: bool) -> None:
        operation = Operation(kind=Kind.NORMALIZE, from_=Buffer.STREAM, to=Buffer.TYPED, inner=self.d_model,
                              outer=self.d_model, norm=NORMS[type(norm)], in_place=in_place)
        if isinstance(norm, LayerNorm | RmsNorm | StdNorm):
            operation.epsilon = norm.epsilon
        for name, value in norm.named_parameters():  # gain and bias, as far as it has them
            setattr(operation, name, self._keep(value.float()))
        self._write(operation)

    def _multiply(self, operation: Operation, *projections: nn.Linear | Tensor) -> None:
        """Weights are packed as [outer / PANEL, inner / group, PANEL, group], with zeros behind the last column: a
        group of numbers is multiplied at once. In bytes, each column (a row of `weight`) has a gain of its own."""
        weight = torch.cat([p.weight if isinstance(p, nn.Linear) else p for p in projections]).detach().float()
        biases: list[Tensor] = [p.bias for p in projections if isinstance(p, nn.Linear)]
        operation.outer, operation.inner = weight.shape
        operation.bias = self._keep(torch.cat(biases).float()) if biases else None
        weight = F.pad(weight, (0, 0, 0, -len(weight) % PANEL))
        if self.precision == "int8":
            self._quantize(operation)
            gain = weight.abs().amax(1).clamp(min=1e-30) / 127
            weight = (weight / gain[:, None]).round().to(torch.int8)
            operation.gain = self._keep(gain)
            operation.shift = self._keep(-128 * weight.sum(1, dtype=torch.int32))
        else:
            weight = weight.to(self.dtype)
        group = Group[self.precision.upper()]
        operation.weight = self._keep(weight.view(-1, PANEL, operation.inner // group, group).transpose(1, 2))
        self._write(operation)

    def _quantize(self, product: Operation) -> None:
        """What a product reads as bytes, unless they are there already."""
        if self._in_bytes != product.from_:
            self.widths[Buffer.SCALES] = 1
            self._write(Operation(kind=Kind.QUANTIZE, from_=product.from_, to=Buffer.BYTES, inner=product.inner,
                                  outer=product.inner))
            self._in_bytes = product.from_
        product.from_ = Buffer.BYTES

    def _keep(self, tensor: Tensor) -> int:
        """A frozen copy; where it lies."""
        self._weights.append(tensor.detach().clone(memory_format=torch.contiguous_format))
        return self._weights[-1].data_ptr()

    def _write(self, operation: Operation) -> None:
        """Adds an operation, and what it makes known of the buffer it writes to."""
        self.widths[operation.to] = max(operation.outer, self.widths.get(operation.to, 0))
        if self._in_bytes == operation.to:
            self._in_bytes = None
        self.operations.append(operation)
