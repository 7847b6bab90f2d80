"""Packed weights, kept in the cache between two processes, so that the second need not wait for torch.

They lie in a folder that is named by all that they were made from: the weights, the code, the processor. What is under
one name never changes, and of each run and precision the last few are kept.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

from pellucid.cache import bound, cache_folder, is_scratch, lasts, note_use, remove, tell_of_damage
from pellucid.engine.frozen import LONGEST, Frozen, Refusal, read, save
from pellucid.errors import OutputError
from pellucid.files import remembered_sha256, remove_leftovers
from pellucid.kernels.compiled import Library, find_library

LONGEST_SOURCE = 2048  # tokens; what is longer is not searched with kept weights
_MOST = 3  # kept of one run and precision
_UNUSED = 3600.0  # seconds after which what another process packs is taken for forgotten
_DEVICES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")  # where there is one, torch decides what computes
_SETTINGS = ("ONEDNN_", "DNNL_")  # variables that change what a precision means


def _code() -> list[str]:
    """The SHA-256 of every file that has a say in how weights are packed, torch's version among them."""
    source, torch = Path(__file__).parents[1], find_spec("torch")
    files = [path for part in ("kernels", "nn", "model", "engine") for path in sorted((source / part).rglob("*.py"))]
    files += [source / "precision.py", source / "runs" / "checkpoint.py"]
    if torch is not None and torch.origin:
        files.append(Path(torch.origin).with_name("version.py"))
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]


_CODE = _code()  # as it is imported, whatever is edited later


class KeptWeights:
    """The place of a run's packed weights.

    Args:
        folder: the run's.  weights: the file that they are made from, model.safetensors.  sha256: of that file.
        model: all else that decides what they are, as plain data: the architecture, the sizes of both vocabularies, and
            whether they are one.
        longest: tokens of a source that there should be room for.
        precision: of the products, as it is asked for.
    """

    def __init__(self, folder: Path, weights: Path, sha256: str, model: Sequence[object], longest: int,
                 precision: str) -> None:
        self.precision, self._tried = precision, False
        self._vocabularies = list(model[1:3])
        self._weights, self._sha256, self._longest = weights, sha256, min(longest, LONGEST_SOURCE)
        self._library = find_library()
        name = hashlib.sha256(f"{folder.resolve()}\0{precision}".encode()).hexdigest()
        settings = sorted((name, value) for name, value in os.environ.items() if name.startswith(_SETTINGS))
        parts = [sha256, *model, precision, settings,
                 self._library if isinstance(self._library, str) else self._library.name, _CODE]
        self._all = cache_folder("engines", name[:32])
        self._place = self._all / hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]

    def read(self) -> tuple[Frozen, Library]:
        """What is kept, and the kernels that it needs.

        Raises:
            Refusal: nothing is kept, or torch must decide what computes.
        """
        if isinstance(self._library, str):
            raise Refusal(f"the kernels are {self._library}")
        if any(map(os.path.exists, _DEVICES)):
            raise Refusal("there is a GPU, and torch decides what computes")
        if self._frozen is None:
            raise Refusal("nothing is kept of these weights yet")
        return self._frozen, self._library

    def keep(self, frozen: Callable[[int, int], Frozen]) -> None:
        """Puts there what `frozen` makes for the longest source and output, if nothing is there and the weights are
        still the same; where that cannot be written, or goes with this process, nothing."""
        is_there = self._tried or self._frozen is not None
        if is_there or any(map(os.path.exists, _DEVICES)) or isinstance(self._library, str) or not lasts(self._all):
            return
        self._tried = True
        with contextlib.suppress(OutputError, OSError):
            if remembered_sha256(self._weights) == self._sha256:
                remove_leftovers(self._all, unused=_UNUSED)
                save(frozen(self._longest, LONGEST), self._place)
                whole = [path for path in self._all.iterdir() if not is_scratch(path)]
                for old in sorted(whole, key=os.path.getmtime)[:-_MOST]:
                    remove(old)
                bound()

    @cached_property
    def _frozen(self) -> Frozen | None:
        found = None if isinstance(self._library, str) else read(self._place, self._library.call)
        if found is not None and [found.encoder.vocabulary, found.vocabulary] != self._vocabularies:
            tell_of_damage(self._place, ValueError("its vocabularies are not the tokenizers'"))
            return None
        if found is not None:
            note_use(self._place)
        return found
