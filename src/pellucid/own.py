"""Parts of one's own: which were registered, from which file, and which of them a run needs.

A run names its parts and no code. Its environment.json says which of them do not ship with pellucid, and the file and
SHA-256 that they came from; whoever opens it registers them first, by `pellucid.register` or ``--import own.py``.
Nothing is ever imported because a run says so.
"""

import contextlib
import hashlib
import importlib.util
import inspect
import sys
import traceback
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pellucid.config import ModelConfig
from pellucid.errors import CheckpointError, ConfigError, PellucidWarning


@dataclass(frozen=True)
class Origin:
    """Which file a part came from: that which was given by ``--import``, else that of its class; of one that was typed
    into an interpreter, none."""

    file: str | None = None
    sha256: str | None = None


_known: dict[tuple[str, str], Origin] = {}  # by part and name; of this process, as its imports are
_files: dict[str, Origin] = {}  # that were given by ``--import``
_now: Origin | None = None  # that which is being imported


def import_file(path: Path) -> None:
    """Runs a Python file for what it registers.

    Raises:
        ConfigError: it cannot be read, or fails; its own line is named.
    """
    global _now
    if not path.is_file():
        raise ConfigError("the file does not exist", where=f"--import {path}", fix="give the path of a Python file")
    spec = importlib.util.spec_from_file_location(f"own_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ConfigError("this is no Python file", where=f"--import {path}", fix="give a file that ends in .py")
    _now = _files[str(path)] = _origin_of(path)
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)  # where dataclasses look for it
    sys.path.insert(0, str(path.parent.absolute()))  # what lies beside it can be imported, as of a program
    try:
        spec.loader.exec_module(module)
    except ConfigError:
        raise
    except Exception as error:
        line = getattr(error, "lineno", None)
        raise ConfigError("this file cannot be imported", why=f"{type(error).__name__}: {error}",
                          where=f"{path}:{line}" if line else place_of(error) or str(path)) from error
    finally:
        sys.path.remove(str(path.parent.absolute()))
        _now = None


def _origin_of(path: Path) -> Origin:
    return Origin(str(path), hashlib.sha256(path.read_bytes()).hexdigest())


def note(part: str, name: str, kind: type) -> None:
    """Remembers that a part was registered, and from where."""
    origin = Origin()
    if _now is None:
        with contextlib.suppress(TypeError, OSError):  # it was typed in
            origin = _origin_of(Path(inspect.getsourcefile(kind) or ""))
    _known[part, name] = _now or origin


def words() -> list[str]:
    """What a command line needs to know the parts of this process that were imported for one."""
    return [word for file in _files for word in ("--import", file)]


def place_of(error: BaseException) -> str | None:
    """The last line that an error passed of a file given by ``--import``; None if it passed none."""
    files = {str(Path(file).absolute()): file for file in _files}
    return next((f"{files[frame.filename]}:{frame.lineno}" for frame in
                 reversed(traceback.extract_tb(error.__traceback__)) if frame.filename in files), None)


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
                fix=(f"--import {file}, if you trust it; in Python, import it before" if file else
                     f"pellucid.register({part!r}, {told['name']!r}, …) before, or --import a file that does"))
        if here.sha256 != told.get("sha256"):
            warnings.warn(f"model.{part} {told['name']!r} is not from the file that {run} was made with "
                          f"({file or 'a program'}); what it computes may differ", PellucidWarning, stacklevel=2)
