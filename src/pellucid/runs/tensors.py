"""Files of tensors, safetensors; those of large models one tensor at a time, read, made of others, and written."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, final

import safetensors
import torch
from safetensors.torch import load_file
from torch import Tensor

from pellucid.errors import CheckpointError

_DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
           "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8,
           "BOOL": torch.bool}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


@final
class Lazily(Mapping[str, Tensor]):
    """Tensors that are made anew each time they are asked for, and not kept.

    Args:
        names: of all of them.  make: the tensor of a name.
    """

    def __init__(self, names: Iterable[str], make: Callable[[str], Tensor]) -> None:
        self._names, self._make = dict.fromkeys(names), make

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._names:
            raise KeyError(name)
        return self._make(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __or__(self, others: Mapping[str, Tensor]) -> "Lazily":
        return Lazily([*self, *others], lambda name: others[name] if name in others else self[name])

    def but(self, *left_out: str) -> "Lazily":
        """All but these."""
        return Lazily([name for name in self if name not in left_out], self._make)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, by name.

    Raises:
        CheckpointError: it cannot be read.
    """
    try:
        return load_file(path)
    except (safetensors.SafetensorError, OSError) as error:
        raise _unreadable(path, error) from error


def tensors_in(path: Path) -> tuple[Lazily, dict[str, torch.Size]]:
    """The tensors of a safetensors file, and their shapes; a tensor is read from it when it is asked for.

    They are read and not mapped, so that what was looked at takes no memory, and nothing changes with the file.

    Raises:
        CheckpointError: it cannot be read, now or later.
    """
    if path.exists() and not path.is_file():
        raise _unreadable(path, "a pipe, device or folder is in its place")
    try:
        with safetensors.safe_open(path, framework="pt"):  # checks the header against the size of the file
            pass
        with path.open("rb") as file:
            start = 8 + int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(start - 8))
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    header.pop("__metadata__", None)
    if strange := [name for name, each in header.items() if each["dtype"] not in _DTYPES]:
        raise _unreadable(path, f"{strange[0]} is of the type {header[strange[0]]['dtype']}")

    def read(name: str) -> Tensor:
        (begin, end), shape = header[name]["data_offsets"], header[name]["shape"]
        content = bytearray(end - begin)
        try:
            with path.open("rb") as file:
                file.seek(start + begin)
                count = file.readinto(content)
        except OSError as error:
            raise _unreadable(path, error) from error
        if count != len(content):
            raise _unreadable(path, "it has become shorter")
        dtype = _DTYPES[header[name]["dtype"]]
        return (torch.frombuffer(content, dtype=dtype) if content else torch.empty(0, dtype=dtype)).view(shape)

    return Lazily(header, read), {name: torch.Size(each["shape"]) for name, each in header.items()}


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Writes a safetensors file; each tensor is asked for twice, for its place and for its content.

    Raises:
        OSError: disk full, no permission.
    """
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    sizes: dict[str, tuple[int, str, list[int]]] = {}
    for name in tensors:
        tensor = tensors[name]
        sizes[name] = tensor.element_size(), _NAMES[tensor.dtype], list(tensor.shape)
    order, place = sorted(sizes, key=lambda name: (-sizes[name][0], name)), 0  # so that each is aligned
    for name in order:
        size, dtype, shape = sizes[name]
        begin, place = place, place + size * torch.Size(shape).numel()
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, place]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            content: Any = tensors[name].detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
            file.write(memoryview(content))


def shapes_of(tensors: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    """Of each its shape."""
    return {name: tensors[name].shape for name in tensors}


def _unreadable(path: Path, why: object) -> CheckpointError:
    return CheckpointError("the weights cannot be read", where=str(path), why=str(why),
                           fix="only safetensors files are read here, never a pickle")
