"""A stack of layers as a list of operations that one call of a kernel executes: no Python between them.

What is written here is the layer as `model/` has it; what each operation computes stands in `kernels/decoding.cpp`.
A product of a row has the same bits whatever the other rows are.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.engine.frozen import Stack
from pellucid.engine.layout import PANEL, Activation, Buffer, Execution, Group, Kind, Norm, Operation, row_rooms
from pellucid.engine.tables import Table, biases, keys_by_distance, turns
from pellucid.engine.widths import Heads, Projection, fill_inner, fill_outer, heads_of
from pellucid.kernels import calls
from pellucid.nn.embeddings import Embedding
from pellucid.nn.feed_forward import FeedForward, GatedFeedForward, gelu_tanh
from pellucid.nn.layer_norm import LayerNorm, NoNorm, RmsNorm, StdNorm
from pellucid.nn.multi_head_attention import MultiHeadAttention
from pellucid.nn.positional_encoding import Position, RotaryPosition
from pellucid.nn.residual_connection import PostNormResidual, PreNormResidual, Residual

ACTIVATIONS: dict[Callable[..., Tensor], Activation] = {
    F.relu: Activation.RELU, F.gelu: Activation.GELU, F.silu: Activation.SWISH, gelu_tanh: Activation.GELU_TANH}
NORMS: dict[type[nn.Module], Norm] = {
    NoNorm: Norm.NO_NORM, LayerNorm: Norm.LAYER_NORM, RmsNorm: Norm.RMS_NORM, StdNorm: Norm.STD_NORM}
LEAST = 64  # positions that tables are made for
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
        self._weights: list[Tensor] = []
        self._tables: list[tuple[int, str, Table]] = []  # of which operation, by its number, and under what name
        self._stack: Stack | None = None
        self._in_bytes: int | None = None  # what Buffer.BYTES holds

    def embed(self, embedding: Embedding, norm: nn.Module) -> None:
        """Rows of its table [V, D], scaled in fp32, and their places, normalised, and the same for those who read it
        without a norm of their own."""
        table = embedding.weight.detach().float() * embedding.scale
        self._write(Operation(kind=Kind.EMBED, to=Buffer.STREAM, outer=self.d_model, weight=self._keep(table)))
        self._normalize(norm, in_place=not isinstance(norm, NoNorm))

    def connect(self, residual: Residual, sub_layer: Callable[[], tuple[Buffer, Projection]]) -> None:
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

    def multiply(self, to: int, *projections: Projection, activation: Activation = Activation.LINEAR) -> None:
        """What the stack has made so far times some matrices at once, their outputs one behind the other."""
        self._multiply(Operation(kind=Kind.MULTIPLY, from_=Buffer.TYPED, to=to, activation=activation), *projections)

    def feed_forward(self, layer: nn.Module) -> tuple[Buffer, Projection]:
        """All but the last product."""
        assert isinstance(layer, FeedForward | GatedFeedForward)
        activation, inner = ACTIVATIONS[layer.activation], fill_outer(layer.inner, 1)
        if isinstance(layer, GatedFeedForward):
            self.multiply(Buffer.GATES, fill_outer(layer.gate, 1), inner)
            width = len(inner.weight)
            self._write(Operation(kind=Kind.GATE, from_=Buffer.GATES, to=Buffer.INNER, inner=2 * width, outer=width,
                                  activation=activation))
        else:
            self.multiply(Buffer.INNER, inner, activation=activation)
        return Buffer.INNER, fill_inner(layer.outer, 1)

    def attend(self, attention: MultiHeadAttention, window: int) -> tuple[Buffer, Projection]:
        """Self-attention inside a sentence, to tokens less than `window` positions away; to all, if that is 0."""
        heads = heads_of(attention)
        self.multiply(Buffer.JOINT, heads.query, heads.key, heads.value)
        width = heads.keys + heads.row
        self._rotate(attention.position, Operation(to=Buffer.JOINT, outer=width, heads=2 * heads.count,
                                                   keys_width=2 * heads.keys))
        return self._attend(attention, heads, Operation(
            kind=Kind.ATTEND_SOURCE, inner=width, keys=Buffer.JOINT, keys_at=heads.keys, keys_stride=width,
            window=window))

    def attend_past(self, attention: MultiHeadAttention, window: int, layer: int) -> tuple[Buffer, Projection]:
        """Self-attention of the newest token to those up to it, as far as the window goes."""
        heads = heads_of(attention)
        self.multiply(Buffer.REMEMBERED + layer, heads.key, heads.value)
        self.multiply(Buffer.JOINT, heads.query)
        for to, width in ((Buffer.REMEMBERED + layer, heads.row), (Buffer.JOINT, heads.keys)):
            self._rotate(attention.position, Operation(to=to, outer=width, heads=heads.count, keys_width=heads.keys))
        return self._attend(attention, heads, Operation(kind=Kind.ATTEND_PAST, inner=heads.keys, layer=layer,
                                                        window=window))

    def attend_source(self, attention: MultiHeadAttention, first: int, width: int) -> tuple[Buffer, Projection]:
        """Cross-attention, over keys and values of all layers side by side, its own from the column `first` on."""
        heads = heads_of(attention)
        self.multiply(Buffer.JOINT, heads.query)
        return self._attend(attention, heads, Operation(
            kind=Kind.ATTEND_SOURCE, inner=heads.keys, keys=Buffer.SOURCE, keys_at=first, keys_stride=width))

    def buffers(self, rows: int) -> dict[int, Tensor]:
        """Room for so many rows, but not for what is remembered."""
        return {buffer: torch.empty(rows, numbers, dtype=DTYPES[kind])
                for buffer, (numbers, kind) in row_rooms(self.widths, self.typed).items()}

    def run(self, execution: Execution) -> None:
        """Executes all operations, for as many positions as it has seen."""
        self.stack(execution.seen).run(execution, self.call)

    def stack(self, positions: int) -> Stack:
        """What has been written, with tables for so many positions, or more; no more can be added."""
        stack = self._stack
        if stack is None or (self._tables and positions > stack.operations[self._tables[0][0]].span):
            self._stack = stack = self._with_tables(max(LEAST, 1 << (positions - 1).bit_length()))
        return stack

    @torch.no_grad()
    def _with_tables(self, span: int) -> Stack:
        """Tables that are equal are one."""
        operations, tables = (Operation * len(self.operations))(*self.operations), list[Tensor]()
        for number, name, of in self._tables:
            made = of(span).contiguous()
            table = next((each for each in tables if each.dtype == made.dtype and torch.equal(each, made)), made)
            if table is made:
                tables.append(made)
            operations[number].span = span
            setattr(operations[number], name, table.data_ptr())
        return Stack(operations, [block.flatten().view(torch.uint8).numpy() for block in (*self._weights, *tables)],
                     self.widths, self.typed)

    def _rotate(self, position: Position, operation: Operation) -> None:
        """Queries and keys where they lie, if the position turns them."""
        if isinstance(position, RotaryPosition):
            operation.kind, operation.from_, operation.inner = Kind.ROTATE, operation.to, operation.outer
            self._look_up("weight", turns(position))
            self._write(operation)

    def _attend(self, attention: MultiHeadAttention, heads: Heads, operation: Operation) -> tuple[Buffer, Projection]:
        operation.from_, operation.to, operation.outer = Buffer.JOINT, Buffer.ATTENDED, heads.values
        operation.heads, operation.keys_width = heads.count, heads.keys
        operation.scale = 1 / math.sqrt(heads.key_width)
        looks_ahead = operation.kind == Kind.ATTEND_SOURCE
        self._look_up("bias", biases(attention.position, heads.count, heads.key_width, looks_ahead))
        self._look_up("weight", keys_by_distance(attention.position, self.dtype, looks_ahead))
        self._write(operation)
        return Buffer.ATTENDED, heads.output

    def _look_up(self, name: str, table: Table | None) -> None:
        """The next operation's `name` will be the table."""
        if table is not None:
            self._tables.append((len(self.operations), name, table))

    def _normalize(self, norm: nn.Module, in_place: bool) -> None:
        operation = Operation(kind=Kind.NORMALIZE, from_=Buffer.STREAM, to=Buffer.TYPED, inner=self.d_model,
                              outer=self.d_model, norm=NORMS[type(norm)], in_place=in_place)
        if isinstance(norm, LayerNorm | RmsNorm | StdNorm):
            operation.epsilon = norm.epsilon
        for name, value in norm.named_parameters():  # gain and bias, as far as it has them
            setattr(operation, name, self._keep(value.float()))
        self._write(operation)

    def _multiply(self, operation: Operation, *projections: Projection) -> None:
        """Weights are packed as [outer / PANEL, inner / group, PANEL, group], with zeros behind the last column: a
        group of numbers is multiplied at once. In bytes, each column (a row of `weight`) has a gain of its own."""
        weight = torch.cat([p.weight for p in projections]).detach().float()
        operation.outer, operation.inner = weight.shape
        if any(p.bias is not None for p in projections):
            bias = torch.cat([p.weight.new_zeros(len(p.weight)) if p.bias is None else p.bias for p in projections])
            operation.bias = self._keep(bias.float())
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
