"""Runs as data: frozen dataclasses, what is checked of their values, and the strict reader that makes them.

Imports neither torch nor numpy.
"""

from pellucid.config.mapping import differences, from_mapping, to_mapping
from pellucid.config.schema import (
    DataConfig,
    DecodeConfig,
    Generated,
    ModelConfig,
    RunConfig,
    Split,
    Task,
    TokenizerConfig,
    TrainConfig,
)

__all__ = ["DataConfig", "DecodeConfig", "Generated", "ModelConfig", "RunConfig", "Split", "Task", "TokenizerConfig",
           "TrainConfig", "differences", "from_mapping", "to_mapping"]
