"""Parts of one's own: which were registered, from which file, and which of them a run needs.

A run names its parts and no code. Its environment.json says which of them do not ship with pellucid, and the file and
SHA-256 that they came from; whoever opens it registers them first, by `pellucid.register` or ``--import own.py``.
Nothing is ever imported because a run says so.
"""

import hashlib
import importlib.util
import traceback
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pellucid.config import ModelConfig
from pellucid.errors import CheckpointError, ConfigError, PellucidWarning


@dataclass(frozen=True)
class Origin:
    """Where a part was registered: in a file that was given by ``--import``, or, with neither, in a program."""

    file: str | None = None
    sha256: str | None = None


_known: dict[tuple[str, str], Origin] = {}  # by part and name; of this process, as its imports are
_origin = Origin()  # of what is being registered now


def import_file(path: Path) -> None:
    """Runs a Python file for what it registers.

    Raises:
        ConfigError: it cannot be read, or fails; its own line is named.
    """
    global _origin
    if not path.is_file():
        raise ConfigError("the file does not exist", where=f"--import {path}", fix="give the path of a Python file")
    spec = importlib.util.spec_from_file_location(f"own_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ConfigError("this is no Python file", where=f"--import {path}", fix="give a file that ends in .py")
    _origin = Origin(str(path), hashlib.sha256(path.read_bytes()).hexdigest())
    try:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    except ConfigError:
        raise
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        line = getattr(error, "lineno", None) or (lines[-1] if lines else None)
        raise ConfigError("this file cannot be imported", where=f"{path}:{line}" if line else str(path),
                          why=f"{type(error).__name__}: {error}") from error
    finally:
        _origin = Origin()


def note(part: str, name: str) -> None:
    """Remembers that a part was registered, and from where."""
    _known[part, name] = _origin


def words() -> list[str]:
    """What a command line needs to know the parts of this process."""
    files = dict.fromkeys(origin.file for origin in _known.values() if origin.file is not None)
    return [word for file in files for word in ("--import", file)]


def used(model: ModelConfig) -> dict[str, Any]:
    """The parts of a model that are one's own, for environment.json: key of the configuration → name and origin."""
    names = asdict(model)
    return {part: {"name": name, **asdict(origin)} for (part, name), origin in _known.items() if names[part] == name}


def require(recorded: dict[str, Any], model: ModelConfig, run: Path) -> None:
    """Makes sure that the parts that a run was made with are there, before it is built.

    Args:
        recorded: what `used` said when it was trained.

    Raises:
        CheckpointError: one is not registered.
    """
    for part, told in recorded.items():
        if not isinstance(told, dict) or told.get("name") != asdict(model).get(part, ""):
            continue
        here, file = _known.get((part, told["name"])), told.get("file")
        if here is None:
            raise CheckpointError(
                f"the run was made with a model.{part} of its own, {told['name']!r}", where=str(run),
                why="a run holds no code, and what it names is not registered",
                fix=f"--import {file}, if you trust it" if file else
                f"pellucid.register({part!r}, {told['name']!r}, …) before, or --import a file that does")
        if here.sha256 != told.get("sha256"):
            warnings.warn(f"model.{part} {told['name']!r} is not from the file that {run} was made with "
                          f"({file or 'a program'}); what it computes may differ", PellucidWarning, stacklevel=2)
