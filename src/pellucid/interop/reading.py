"""A folder of somebody else's: read as data alone, nothing in it believed before it has been looked at."""

import json
from pathlib import Path
from typing import Any

import torch

from pellucid.errors import CheckpointError
from pellucid.runs.format import WEIGHTS
from pellucid.runs.tensors import Lazily, tensors_in

INDEX = "model.safetensors.index.json"
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.ckpt", "*.h5", "*.msgpack")
_MOST_JSON = 128 * 2**20  # bytes; a large tokenizer.json has 17 MB
_CODE = ("auto_map", "custom_pipelines")


def read_config(folder: Path) -> dict[str, Any]:
    """config.json.

    Raises:
        CheckpointError: no folder, no such file, no JSON, or one that asks for code of its own.
    """
    if not folder.is_dir():
        raise CheckpointError("no such folder", where=str(folder), fix="give a folder with config.json and "
                              f"{WEIGHTS}, as transformers writes it")
    if (folder / "config.yaml").is_file() and not (folder / "config.json").exists():
        raise CheckpointError("this is a run already, and no model of transformers", where=str(folder),
                              fix="use it as it is; pellucid export writes it for others")
    config = read_mapping(folder / "config.json")
    if asked := [key for key in _CODE if key in config]:
        raise CheckpointError("this model needs code of its own", where=str(folder / "config.json"),
                              why=f"it has {asked[0]}, and no code is run because a file names it")
    return config


def read_mapping(path: Path) -> dict[str, Any]:
    """A JSON object of somebody else's.

    Raises:
        CheckpointError: missing, too large, or something else.
    """
    try:
        if path.exists() and not path.is_file():
            raise CheckpointError("a pipe, device or folder is in the place of a file", where=str(path))
        if path.stat().st_size > _MOST_JSON:
            raise CheckpointError(f"a file has more than {_MOST_JSON:,} bytes", where=str(path))
        value = json.loads(path.read_bytes())
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()  # no NaN, no half of a character
    except CheckpointError:
        raise
    except FileNotFoundError as error:
        raise CheckpointError("a file is missing", where=str(path)) from error
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError("a file cannot be read as JSON", where=str(path), why=str(error)[:200]) from error
    if not isinstance(value, dict):
        raise CheckpointError("a file holds no JSON object", where=str(path))
    return value


def read_weights(folder: Path) -> Lazily:
    """All tensors in float32, by their names; each is looked at now, and read again when it is asked for.

    Raises:
        CheckpointError: no safetensors (a pickle is not opened), a damaged file, numbers that are not finite.
    """
    places: dict[str, Lazily] = {}
    for path in weight_files(folder):
        found, _ = tensors_in(path)
        for name, tensor in found.items():
            if not tensor.is_floating_point():
                continue  # position_ids and the like, which hold no weights
            if not bool(torch.isfinite(tensor.float()).all()):
                raise CheckpointError(f"the tensor {name} has numbers that are not finite", where=str(path))
            places[name] = found
    return Lazily(places, lambda name: places[name][name].float())


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files, as far as it can be told without opening them.

    Raises:
        CheckpointError: there are none, or an index that names what is no file beside it.
    """
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if (folder / INDEX).is_file():
        named = read_mapping(folder / INDEX).get("weight_map")
        names = list(named.values()) if isinstance(named, dict) else []
        wrong = [name for name in names if not isinstance(name, str) or Path(name).name != name]
        if wrong or not names:
            raise CheckpointError("the index of the weights is damaged", where=str(folder / INDEX),
                                  why=f"it names {str(wrong[0])[:80]!r}, which is no file beside it" if wrong else
                                  "it names no files")
        return sorted({folder / str(name) for name in names})
    if folder.is_dir() and any(path.match(pattern) for path in folder.iterdir() for pattern in _PICKLES):
        raise CheckpointError("the weights are in a pickle or another format, and those are not opened here",
                              where=str(folder), why="a pickle can run any code when it is read",
                              fix="convert it where it is trusted: AutoModel.from_pretrained(…).save_pretrained(…) "
                                  "writes model.safetensors")
    raise CheckpointError("there are no weights", where=str(folder), why=f"{WEIGHTS} is missing")


class Fields:
    """The keys of a config.json, each looked up with its type.

    Args:
        values: of the file.  where: its path, for errors.
    """

    def __init__(self, values: dict[str, Any], where: Path) -> None:
        self.values, self.where = values, where

    @property
    def architecture(self) -> str:
        """The class that it names, or its family, in ASCII that a terminal shows."""
        named = self.values.get("architectures")
        what = str(named[0] if isinstance(named, list) and named else self.values["model_type"])
        return what.encode("unicode_escape").decode()[:80]

    @property
    def search(self) -> dict[str, Any]:
        """How outputs are searched for, without nulls: generation_config.json, or config.json where there is none.

        Raises:
            CheckpointError: generation_config.json is damaged.
        """
        path = self.where.with_name("generation_config.json")
        told = read_mapping(path) if path.is_file() else self.values
        return {key: value for key, value in told.items() if value is not None}

    def number(self, key: str, default: int | None = None, most: int = 2**24) -> int:
        """A whole number from 1 on."""
        value = self.values.get(key, default)
        value = default if value is None else value
        if type(value) is not int or not 0 < value <= most:
            raise self.wrong(key, f"a whole number from 1 to {most:,}")
        return value

    def real(self, key: str, default: float) -> float:
        """A number from 0 on."""
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
            raise self.wrong(key, "a number from 0 on and below 1")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return value

    def one_of(self, key: str, default: str, choices: dict[str, str]) -> str:
        """What one of these names is called here."""
        value = self.values.get(key, default)
        if not isinstance(value, str) or value not in choices:
            raise self.wrong(key, " or ".join(choices))
        return choices[value]

    def token(self, key: str, default: int | None, size: int) -> int:
        """The id of a token."""
        value = self.values.get(key, default)
        value = value[0] if isinstance(value, list) and len(value) == 1 else value
        if type(value) is not int or not 0 <= value < size:
            raise self.wrong(key, f"a token below {size}")
        return value

    def same(self, *keys: str) -> None:
        """Refuses keys that must be equal and are not. One that is left out has a default of its own there."""
        if len({repr(self.values.get(key)) for key in keys}) > 1:
            raise CheckpointError(f"{' and '.join(keys)} differ", where=str(self.where),
                                  why="both stacks have the same sizes here")

    def wrong(self, key: str, wanted: str) -> CheckpointError:
        """The error of a key that is not as it should be."""
        return CheckpointError(f"{key} is {str(self.values.get(key))[:60]!r}, which cannot be imported",
                               where=str(self.where), why=f"it must be {wanted}")
