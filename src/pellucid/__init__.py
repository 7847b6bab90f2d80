"""pellucid: a Transformer you can see through.

    import pellucid
    run = pellucid.load("runs/demo")
    run.generate(["the cat sleeps ."])[0].text

Importing this imports no torch; the names below are fetched when they are first used.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pellucid.config import DecodeConfig, ModelConfig, RunConfig
    from pellucid.errors import UserError
    from pellucid.model.build import build, build_classifier, register
    from pellucid.nn.positional_encoding import Position
    from pellucid.runs.run import Run, load

_HOMES = {"load": "pellucid.runs.run", "Run": "pellucid.runs.run", "build": "pellucid.model.build",
          "build_classifier": "pellucid.model.build", "register": "pellucid.model.build",
          "Position": "pellucid.nn.positional_encoding", "ModelConfig": "pellucid.config",
          "DecodeConfig": "pellucid.config", "RunConfig": "pellucid.config", "UserError": "pellucid.errors"}

__all__ = ["DecodeConfig", "ModelConfig", "Position", "Run", "RunConfig", "UserError", "build", "build_classifier",
           "load", "register"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'pellucid' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
