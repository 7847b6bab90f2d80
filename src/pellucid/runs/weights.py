"""The weights of a run, checked when it is opened and read when they are needed."""

from __future__ import annotations

import os
import weakref
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pellucid.errors import CheckpointError
from pellucid.files import checked_sha256, sha256
from pellucid.runs.format import WEIGHTS

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Weights:
    """model.safetensors in a checkpoint folder.

    Attributes:
        handle: of the file, held open; None where it is read by its name.
    """

    folder: Path
    sha256: str
    handle: int | None = None

    def held(self) -> Weights:
        """The same, that can be read whatever becomes of the folder, as long as this is kept.

        Raises:
            CheckpointError: it is gone already.
        """
        try:
            handle = os.open(self.folder / WEIGHTS, os.O_RDONLY)
        except OSError as error:
            raise CheckpointError("the weights cannot be read", where=str(self.folder), why=str(error)) from error
        held = replace(self, handle=handle)
        weakref.finalize(held, os.close, handle)
        return held

    def fill(self, model: nn.Module) -> None:
        """Copies them into a model.

        Raises:
            CheckpointError: those of another architecture, or not those of when the run was opened.
        """
        from pellucid.runs.checkpoint import fill_from, load_weights

        if self.handle is None:
            load_weights(model, self.folder)
            now = checked_sha256(self.folder, WEIGHTS)
        else:
            file = Path(f"/dev/fd/{self.handle}")
            fill_from(file, model, self.folder)
            now = sha256(file)
        if now != self.sha256:
            raise CheckpointError("the weights were replaced after the run was opened", where=str(self.folder),
                                  fix="open it again")
