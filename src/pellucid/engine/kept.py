"""Packed weights, kept in the cache between two processes, so that the second need not wait for torch.

They lie in a folder that is named by all that they were made from: the weights, the code, the processor. What is under
one name never changes, and of each run and precision the last few are kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pellucid.config import DecodeConfig, RunConfig
from pellucid.data.tokenizers.build import Tokenizers
from pellucid.engine.frozen import LONGEST, Frozen, knows, read, save
from pellucid.engine.layout import Buffer
from pellucid.errors import OutputError
from pellucid.files import cache_folder, remembered_sha256, remove_leftovers
from pellucid.kernels.compiled import Library, find_library
from pellucid.runs.texts import SPECIALS, Searcher, batch_tokens, search_options
from pellucid.search.options import Hypothesis, SearchOptions

LONGEST_SOURCE = 2048  # tokens; what is longer goes through the model
_MOST = 3  # kept of one run and precision
_DEVICES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")  # where there is one, torch decides what computes
_SETTINGS = ("ONEDNN_", "DNNL_")  # variables that change what a precision means


def _code() -> list[str]:
    """The SHA-256 of every file that has a say in how weights are packed, torch's version among them."""
    source, torch = Path(__file__).parents[1], find_spec("torch")
    files = [path for part in ("kernels", "nn", "model", "engine") for path in sorted((source / part).rglob("*.py"))]
    files += [source / "precision.py", source / "train" / "checkpoint.py"]
    if torch is not None and torch.origin:
        files.append(Path(torch.origin).with_name("version.py"))
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]


_CODE = _code()  # as it is imported, whatever is edited later


class KeptWeights:
    """The place of a run's packed weights.

    Args:
        folder: the run's.  weights: the file that they are made from, model.safetensors.  sha256: of that file.
        config: the run's configuration.  tokenizers: whose sizes are the model's.
        precision: of the products, as it is asked for.
    """

    def __init__(self, folder: Path, weights: Path, sha256: str, config: RunConfig, tokenizers: Tokenizers,
                 precision: str) -> None:
        self._weights, self._sha256, self._config = weights, sha256, config
        self._library = find_library()
        self._has_gpu = any(map(os.path.exists, _DEVICES))
        name = hashlib.sha256(f"{folder.resolve()}\0{precision}".encode()).hexdigest()
        settings = sorted((name, value) for name, value in os.environ.items() if name.startswith(_SETTINGS))
        parts = [sha256, asdict(config.model), tokenizers.source.size, tokenizers.target.size, tokenizers.shared,
                 precision, settings, self._library if isinstance(self._library, str) else self._library.name, _CODE]
        self._all = cache_folder("engines") / name[:32]
        self._place = self._all / hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]

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
        """Puts there what `frozen` makes for the longest source and output, if the weights are still the same; where
        that cannot be written, nothing."""
        if self._frozen is not None or self._has_gpu or isinstance(self._library, str):
            return
        with contextlib.suppress(OutputError, OSError):
            if remembered_sha256(self._weights) == self._sha256:
                remove_leftovers(self._all)
                save(frozen(min(self._config.model.max_length, LONGEST_SOURCE), LONGEST), self._place)
                for old in sorted(self._all.iterdir(), key=os.path.getmtime)[:-_MOST]:
                    shutil.rmtree(old, ignore_errors=True)

    @cached_property
    def _frozen(self) -> Frozen | None:
        if self._has_gpu or isinstance(self._library, str):
            return None
        return read(self._place, self._library.call)


class FrozenSearcher:
    """Searches with packed weights alone (see `texts.Searcher`); `whole` takes over where these do not suffice."""

    def __init__(self, frozen: Frozen, library: Library, batch_tokens: int, whole: Callable[[], Searcher]) -> None:
        self.threads, self.batch_tokens = library.most_threads, batch_tokens
        self._frozen, self._library, self._whole = frozen, library, whole

    def search(self, sources: Sequence[NDArray[np.int32]], options: SearchOptions, prefixes: Sequence[Sequence[int]],
               numbers: Sequence[int]) -> list[list[Hypothesis]]:
        tokens = np.concatenate(sources).astype(np.int64)
        lengths, found = np.array([len(ids) for ids in sources]), None
        if lengths.max() <= len(self._frozen.source_places) and not any(prefixes):
            found = self._frozen.search(tokens, lengths, options, SPECIALS)
        return self._whole().search(sources, options, prefixes, numbers) if found is None else found

    def use_threads(self, count: int) -> None:
        self._library.use_threads(count)
