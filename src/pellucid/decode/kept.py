"""Packed weights, kept in the cache between two processes, so that the second need not wait for torch.

One place for each run folder and precision; what lies there is used only if it was made from the same weights, by the
same code, for the same processor.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pellucid.compiled import Library, find_library
from pellucid.config import DecodeConfig, RunConfig
from pellucid.decode.frozen import LONGEST, Frozen, key_of, knows, read, save
from pellucid.decode.layout import Buffer
from pellucid.decode.options import Hypothesis, SearchOptions
from pellucid.decode.texts import SPECIALS, Searcher, batch_tokens, search_options
from pellucid.errors import OutputError
from pellucid.files import cache_folder, remembered_sha256

_SOURCE = Path(__file__).parents[1]
_CODE = [path for part in ("nn", "model", "decode") for path in sorted((_SOURCE / part).rglob("*.py"))]
_DEVICES = ("/dev/nvidiactl", "/dev/kfd")  # where there is one, torch decides what computes


class Kept:
    """The place of a run's packed weights.

    Args:
        folder: the run's.  weights: the file that they are made from, model.safetensors.
        config: the run's configuration; it names everything else that they depend on.
        precision: of the products, as it is asked for.
    """

    def __init__(self, folder: Path, weights: Path, config: RunConfig, precision: str) -> None:
        self._weights, self._config, self._precision = weights, config, precision
        name = hashlib.sha256(f"{folder.resolve()}\0{precision}".encode()).hexdigest()
        self._place = cache_folder("engines") / name[:32]

    def open(self, config: DecodeConfig, whole: Callable[[], Searcher]) -> FrozenSearcher | None:
        """A searcher over what is kept; None where nothing is, or where it cannot search so.

        Args:
            whole: makes the searcher that can do all.
        """
        if self._frozen is None or isinstance(self._library, str):
            return None
        vocabulary, positions = self._frozen.decoder.widths[Buffer.LOGITS], len(self._frozen.target_places)
        if not knows(search_options(config), SPECIALS, vocabulary, positions):
            return None
        return FrozenSearcher(self._frozen, self._library, batch_tokens(True, config), whole)

    def keep(self, frozen: Callable[[int, int], Frozen]) -> None:
        """Puts there what `frozen` makes for the longest source and output; where that cannot be written, nothing."""
        if self._key is not None and self._key != key_of(self._place):
            with contextlib.suppress(OutputError):
                save(frozen(self._config.model.max_length, LONGEST), self._place, self._key)

    @cached_property
    def _frozen(self) -> Frozen | None:
        if not self._place.exists() or any(map(os.path.exists, _DEVICES)):
            return None
        if self._key is None or isinstance(self._library, str):
            return None
        return read(self._place, self._key, self._library.call)

    @cached_property
    def _library(self) -> Library | str:
        return find_library()

    @cached_property
    def _key(self) -> str | None:
        """Of all that the packed weights depend on; None where there are no weights, or nothing to compute with."""
        if not self._weights.is_file() or isinstance(self._library, str):
            return None
        parts = [remembered_sha256(self._weights), self._library.name, self._precision, asdict(self._config.model),
                 [hashlib.sha256(path.read_bytes()).hexdigest() for path in _CODE]]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class FrozenSearcher:
    """Searches with packed weights alone (see `texts.Searcher`); `whole` takes over where these do not suffice."""

    def __init__(self, frozen: Frozen, library: Library, batch_tokens: int, whole: Callable[[], Searcher]) -> None:
        self.threads, self.batch_tokens = library.most_threads, batch_tokens
        self._frozen, self._library, self._whole = frozen, library, whole

    def search(self, sources: Sequence[NDArray[np.int32]], options: SearchOptions, prefixes: Sequence[Sequence[int]],
               numbers: Sequence[int]) -> list[list[Hypothesis]]:
        tokens = np.concatenate(sources).astype(np.int64)
        lengths = np.array([len(ids) for ids in sources])
        found = self._frozen.search(tokens, lengths, options, SPECIALS)
        return self._whole().search(sources, options, prefixes, numbers) if found is None else found

    def use_threads(self, count: int) -> None:
        self._library.use_threads(count)
