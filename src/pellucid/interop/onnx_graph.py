"""A graph of ONNX, written as equations are: arithmetic on a `Value` adds nodes, and `write` makes a file of it.

The file is made piece by piece, so that no second copy of the weights is ever in memory. What is larger than a message
of protobuf can be lies in a file beside it, as ONNX wants it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from pellucid.errors import ConfigError

try:
    import onnx
    from onnx import helper, numpy_helper
except ImportError as error:
    raise ConfigError("this needs onnx", where="--to onnx", fix="pip install 'pellucid[interop]'") from error

OPSET, IR_VERSION = 18, 9
LARGEST = 2**31 - 2**20  # bytes of weights in one message, below protobuf's limit of 2 GiB
BESIDE = "_data"  # behind the name of the file, where the weights lie if they are larger
_INLINE = 1024  # bytes up to which a tensor stays in the message

Array = np.ndarray[Any, np.dtype[Any]]


class Value:
    """A tensor of a graph, known by its name there; Python's numbers become constants beside it."""

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph = graph
        self.name = name

    def __add__(self, other: Operand) -> Value:
        return self.graph.op("Add", self, other)

    def __sub__(self, other: Operand) -> Value:
        return self.graph.op("Sub", self, other)

    def __mul__(self, other: Operand) -> Value:
        return self.graph.op("Mul", self, other)

    def __truediv__(self, other: Operand) -> Value:
        return self.graph.op("Div", self, other)

    def __matmul__(self, other: Value) -> Value:
        return self.graph.op("MatMul", self, other)

    def reshape(self, *shape: int) -> Value:
        """0 keeps a size, and -1 is what remains."""
        return self.graph.op("Reshape", self, self.graph.integers(*shape))

    def transpose(self, *axes: int) -> Value:
        """The axes in this order."""
        return self.graph.op("Transpose", self, attributes={"perm": list(axes)})

    def unsqueeze(self, *axes: int) -> Value:
        """Axes of size 1 at these places."""
        return self.graph.op("Unsqueeze", self, self.graph.integers(*axes))

    def length(self, axis: int) -> Value:
        """The size along an axis: [1], an integer."""
        return self.graph.op("Shape", self, attributes={"start": axis, "end": axis + 1})

    def between(self, start: Value | int, end: Value | int, axis: int) -> Value:
        """The part from `start` up to `end` along an axis."""
        bounds = [self.graph.integers(each) if isinstance(each, int) else each for each in (start, end)]
        return self.graph.op("Slice", self, *bounds, self.graph.integers(axis))

    def sum(self, axis: int) -> Value:
        """Along an axis, which stays as one of size 1."""
        return self.graph.op("ReduceSum", self, self.graph.integers(axis))

    def mean(self, axis: int) -> Value:
        """Along an axis, which stays as one of size 1."""
        return self.graph.op("ReduceMean", self, self.graph.integers(axis))

    def cast(self, dtype: Any) -> Value:
        """Its numbers as another type of numpy's."""
        return self.graph.op("Cast", self, attributes={"to": helper.np_dtype_to_tensor_dtype(np.dtype(dtype))})


Operand = Value | float


class Graph:
    """Nodes, and the weights that they read.

    Args:
        name: of the graph.  dtype: of its floating-point numbers, as numpy has it.
    """

    def __init__(self, name: str, dtype: Any) -> None:
        self.name = name
        self.dtype = np.dtype(dtype)
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.weights: dict[str, Array] = {}  # views of the model's own memory

    def op(self, kind: str, *operands: Operand, attributes: Mapping[str, Any] | None = None) -> Value:
        """A node of the operator `kind`; its attributes are ONNX's own."""
        names = [each.name if isinstance(each, Value) else self.number(each).name for each in operands]
        out = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, names, [out], name=out, **attributes or {}))
        return Value(self, out)

    def concat(self, parts: Sequence[Value], axis: int) -> Value:
        """The parts, one behind another along an axis."""
        return self.op("Concat", *parts, attributes={"axis": axis})

    def number(self, value: float) -> Value:
        """A constant, integer or of the graph's floating-point type."""
        return self._known(f"number_{value!r}", np.array(value, np.int64 if isinstance(value, int) else self.dtype))

    def integers(self, *values: int) -> Value:
        """A vector of integers."""
        return self._known(f"integers_{'_'.join(map(str, values))}", np.array(values, np.int64))

    def weight(self, name: str, tensor: Tensor) -> Value:
        """A tensor of the model's, by its name there, in its own type."""
        return self._known(name, tensor.detach().numpy())

    def _known(self, name: str, array: Array) -> Value:
        self.weights.setdefault(name, array)
        return Value(self, name)

    def input(self, name: str, dtype: Any, shape: Sequence[int | str]) -> Value:
        """What is given to the graph; a size that is a name may be any."""
        self.inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape))
        return Value(self, name)

    def output(self, name: str, value: Value, shape: Sequence[int | str]) -> None:
        """What the graph gives, under this name; floating-point numbers."""
        self.nodes.append(helper.make_node("Identity", [value.name], [name], name=name))
        kind = helper.np_dtype_to_tensor_dtype(self.dtype)
        self.outputs.append(helper.make_tensor_value_info(name, kind, shape))

    def write(self, path: Path) -> None:
        """Makes the file at `path`, and beside it one of weights where these are larger than `LARGEST`."""
        model = onnx.ModelProto(ir_version=IR_VERSION, producer_name="pellucid")
        model.opset_import.append(helper.make_opsetid("", OPSET))
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs).SerializeToString()
        if sum(array.nbytes for array in self.weights.values()) > LARGEST:
            with path.with_name(path.name + BESIDE).open("wb") as beside:
                tensors = [_field(5, part) for part in self._tensors(_outside(beside))]
            lengths = [len(part) for part in tensors]
        else:
            lengths = [len(_field(5, part)) for part in self._tensors(numpy_helper.from_array)]
            tensors = None
        with path.open("wb") as file:  # field 7 of a model is its graph, and field 5 of a graph a tensor
            file.write(model.SerializeToString() + _start(7, len(graph) + sum(lengths)) + graph)
            for part in tensors or (_field(5, part) for part in self._tensors(numpy_helper.from_array)):
                file.write(part)

    def _tensors(self, make: Callable[[Array, str], Any]) -> Iterator[bytes]:
        """Each weight as a message, made when it is asked for."""
        for name, array in self.weights.items():
            yield make(array, name).SerializeToString()


def _outside(beside: Any) -> Callable[[Array, str], Any]:
    """Who writes tensors to the file `beside`, and makes messages that say where they lie."""
    def make(array: Array, name: str) -> Any:
        if array.nbytes <= _INLINE:
            return numpy_helper.from_array(array, name)
        beside.write(bytes(-beside.tell() % 4096))
        tensor = onnx.TensorProto(name=name, dims=array.shape, data_location=onnx.TensorProto.EXTERNAL,
                                  data_type=helper.np_dtype_to_tensor_dtype(array.dtype))
        for key, value in (("location", Path(beside.name).name), ("offset", beside.tell()), ("length", array.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
        beside.write(np.ascontiguousarray(array).data)
        return tensor

    return make


def _start(number: int, length: int) -> bytes:
    """How a field of protobuf that has a length begins: its number and its kind, and the length in groups of 7 bits."""
    groups = []
    while length > 127:
        groups.append(length & 127 | 128)
        length >>= 7
    return bytes([number << 3 | 2, *groups, length])


def _field(number: int, content: bytes) -> bytes:
    return _start(number, len(content)) + content
