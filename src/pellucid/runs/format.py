"""The format of run folders, by number: environment.json has it, and it is looked at before anything else is read.

It rises when the version before could not read a run folder of this one, or would misread it. A key that is new in
config.yaml does not need that: no version reads past a key that it does not know, and then the versions are compared.
Every version reads all earlier formats.
"""

import dataclasses
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pellucid.config import RunConfig
from pellucid.config.reader import hints_of, key_of
from pellucid.config.strict_yaml import read_yaml
from pellucid.errors import CheckpointError, ConfigError
from pellucid.files import read_json

FORMAT = 1
ENVIRONMENT = "environment.json"
WEIGHTS, MOMENTS = "model.safetensors", "optimizer.safetensors"  # of a checkpoint
IMPORTED = "imported"  # a folder: what an imported run was elsewhere, for its way back
STARTED = "initialized_from.json"  # which run the first weights are of
AVERAGE = "average"  # the folder of the mean of the last checkpoints; every other one has its step in its name
_LONGEST = 40  # characters of a version that are shown


def made_by(folder: Path) -> tuple[str, int]:
    """The version of pellucid that a run was made by, "" if that is not known, and the format of its folder."""
    try:
        about = read_json(folder / ENVIRONMENT)
    except CheckpointError:  # nothing has been trained there yet, or what needs it will tell
        return "", FORMAT
    about = about if isinstance(about, dict) else {}
    version, number = about.get("pellucid"), about.get("format", 1)  # as it was before it was recorded
    return version[:_LONGEST] if isinstance(version, str) else "", number if isinstance(number, int) else FORMAT


def check_format(folder: Path) -> None:
    """Refuses a run whose folder has a later format.

    Raises:
        CheckpointError: both versions, both formats, and the keys of its config.yaml that are not known here.
    """
    version, number = made_by(folder)
    if number > FORMAT:
        raise _newer(folder, version, number)


def unreadable(folder: Path, error: Exception) -> CheckpointError:
    """The error of a config.yaml that cannot be understood: a newer version wrote what is not known here, or else it is
    damaged."""
    version, number = made_by(folder)
    if isinstance(error, ConfigError) and _numbers(version) > _numbers(_here()):
        return _newer(folder, version, number, error)
    return CheckpointError("the run's configuration is damaged", where=str(folder / "config.yaml"), why=str(error))


def _here() -> str:
    """The version of this pellucid."""
    from importlib.metadata import version  # 10 ms, which no translation needs

    return version("pellucid")


def _newer(folder: Path, version: str, number: int, error: ConfigError | None = None) -> CheckpointError:
    unknown = _unknown_keys_of(folder)
    told = [f"pellucid {version or '(version not recorded)'} made it, in run format {number}; this is pellucid "
            f"{_here()}, which reads formats up to {FORMAT}"]
    if unknown:
        told.append(f"not known here: {', '.join(unknown)}")
    elif error is not None:
        told.append(error.what)
    return CheckpointError("this run was made by a newer version of pellucid", where=str(folder), why="; ".join(told),
                           fix=f"use pellucid {version or 'of that version'} or a later one")


def _unknown_keys_of(folder: Path) -> list[str]:
    try:
        mapping = read_yaml((folder / "config.yaml").read_text(encoding="utf-8"), "config.yaml")
    except (OSError, UnicodeDecodeError, ConfigError):
        return []
    return list(_unknown(RunConfig, mapping)) if isinstance(mapping, dict) else []


def _unknown(kind: Any, mapping: dict[Any, Any], prefix: str = "") -> Iterator[str]:
    hints = {key_of(field): hint for field, hint in hints_of(kind).items()}
    for key, value in mapping.items():
        if key not in hints:
            yield f"{prefix}{key}"
            continue
        section = next((m for m in (hints[key], *typing.get_args(hints[key])) if dataclasses.is_dataclass(m)), None)
        if section is not None and isinstance(value, dict):
            yield from _unknown(section, value, f"{prefix}{key}.")


def _numbers(version: str) -> tuple[int, ...]:
    """"0.2.1.dev3" → (0, 2, 1); of what is no version, (), which is older than all."""
    return tuple(int(part) for part in re.findall(r"\d{1,9}", version)[:3])
