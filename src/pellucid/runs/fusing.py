"""The texts that a run is asked about, with the passages that it reads beside them, if it reads any."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pellucid.config import RunConfig
from pellucid.data.passages import Fused

if TYPE_CHECKING:
    from pellucid.runs.passages import Passages


class Fusing:
    """What a run does with texts that it is asked about; the index is opened with the first of them."""

    def __init__(self, config: RunConfig, folder: Path) -> None:
        self._config, self._folder = config, folder
        self._passages: Passages | None = None

    def __call__(self, texts: Sequence[str]) -> Sequence[str]:
        """The texts with their passages, where the run reads any; those that have theirs stay as they are.

        Raises:
            ConfigError, DataError: see `open_passages`.
        """
        if not self._config.retrieval.is_on:
            return texts
        if self._passages is None:
            from pellucid.runs.passages import open_passages

            self._passages = open_passages(self._config, self._folder)
        passages = self._passages
        return [text if isinstance(text, Fused) else passages.fused(text, None)[0] for text in texts]
