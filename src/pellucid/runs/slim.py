"""A slim copy of a run: what loads, scores and explains it, and nothing that only training would need.

It is a run folder like any other, with the chosen checkpoint alone and without the optimizer's moments, and says of
itself, in export.json, that it is a copy and what it lacks.
"""

import contextlib
import os
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from pellucid.cache import scratch_name
from pellucid.data.tokenizers.build import load_tokenizers
from pellucid.errors import CheckpointError, ConfigError
from pellucid.files import (
    MANIFEST,
    check_folder,
    checked_sha256,
    make_folder,
    output_errors,
    write_bytes,
    write_folder,
    write_json,
)
from pellucid.runs.folder import ENDED, chosen_checkpoint, read_config
from pellucid.runs.format import ENVIRONMENT, FORMAT, IMPORTED, STARTED, WEIGHTS
from pellucid.runs.scored import EVALUATION, scores_in_use

MARK = "export.json"
_FILES = ("config.yaml", ENVIRONMENT, "data.json", "metrics.jsonl", STARTED, "imported.json",
          "best.json", ENDED, "README.md")
_FOLDERS = (EVALUATION, "figures", "passages", IMPORTED)
_OF_CHECKPOINT = (WEIGHTS, "state.json")


@dataclass(frozen=True)
class Exported:
    """What became of an export.

    Attributes:
        checkpoint: the chosen one's name.
        bytes_before, bytes_after: of the run, and of the copy.
        left_out: bytes of what the copy lacks, by what it is, the largest first.
    """

    checkpoint: str
    bytes_before: int
    bytes_after: int
    left_out: dict[str, int]


def export(folder: Path, out: Path) -> Exported:
    """Writes a slim copy of the run in `folder` to `out`, whole and checked, or nothing.

    Raises:
        ConfigError: there is something at `out`.
        CheckpointError: no run, none that was trained, or a file of it that is damaged.
        OutputError: disk full, no permission.
    """
    if os.path.lexists(out):
        raise ConfigError("there is something already", where=str(out), fix="give another --out: nothing is replaced")
    read_config(folder)
    checkpoint = chosen_checkpoint(folder)
    check_folder(checkpoint)
    load_tokenizers(folder / "tokenizer")
    make_folder(out.absolute().parent)
    temporary = scratch_name(out)
    before, left_out = size_of(folder), _left_out(folder, checkpoint)
    with output_errors(out):
        try:
            _copy(folder, checkpoint, temporary)
            _check(folder, checkpoint, temporary)
            write_json(temporary / MARK, {"format": FORMAT, "what": "a slim copy of a run, not to be trained further",
                                          "checkpoint": checkpoint.name, "left_out": left_out})
            temporary.rename(out)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return Exported(checkpoint.name, before, size_of(out), left_out)


def _copy(folder: Path, checkpoint: Path, place: Path) -> None:
    for name in _kept(folder):
        write_bytes(place / name, (folder / name).read_bytes())
    tokenizer = folder / "tokenizer"
    _copy_folder(tokenizer, place / "tokenizer", [path.name for path in plain_files(tokenizer)])
    _copy_folder(checkpoint, place / "checkpoints" / checkpoint.name, _OF_CHECKPOINT)


def _copy_folder(folder: Path, place: Path, names: list[str] | tuple[str, ...]) -> None:
    """Copies files with a manifest of their own."""
    def fill(inside: Path) -> None:
        for name in names:
            if name != MANIFEST:
                shutil.copyfile(folder / name, inside / name)

    write_folder(place, fill)


def _check(folder: Path, checkpoint: Path, place: Path) -> None:
    """What was copied is what the run has, by SHA-256."""
    copied = place / "checkpoints" / checkpoint.name
    check_folder(copied)
    same = checked_sha256(copied, WEIGHTS) == checked_sha256(checkpoint, WEIGHTS)
    if not same or load_tokenizers(place / "tokenizer").sha256() != load_tokenizers(folder / "tokenizer").sha256():
        raise CheckpointError("the run was changed while it was copied", where=str(folder), fix="export it again")


def _kept(folder: Path) -> list[str]:
    """The files that are copied as they are, relative to the run; no scores of other weights than those in use."""
    inside = [path for name in _FOLDERS for path in plain_files(folder / name)]
    stale = {path.stem for path in inside if path.parent.name == EVALUATION and path.suffix == ".json"
             and scores_in_use(folder, path.stem) is None}
    inside = [path for path in inside if path.parent.name != EVALUATION
              or path.stem.removesuffix("-comparison") not in stale]
    return [str(path.relative_to(folder)) for path in [*(folder / name for name in _FILES), *inside]
            if path.is_file() and not path.is_symlink()]


def _left_out(folder: Path, checkpoint: Path) -> dict[str, int]:
    kept = {folder / name for name in _kept(folder)} | {checkpoint / name for name in _OF_CHECKPOINT}
    kept |= set(plain_files(folder / "tokenizer")) | {checkpoint / MANIFEST}
    names = {"data": "generated data, made again when it is needed", "inspection": "what `pellucid inspect` drew"}
    sizes: Counter[str] = Counter()
    for path in all_files(folder):
        if path in kept:
            continue
        top = path.relative_to(folder).parts[0]
        if path.is_relative_to(checkpoint):
            what = "the optimizer's moments"
        else:
            what = "other checkpoints" if top == "checkpoints" else names.get(top, "other files")
        sizes[what] += path.stat().st_size
    return {what: size for what, size in sizes.most_common() if size}


def plain_files(folder: Path) -> list[Path]:
    """The files in a folder that are no links, by name; none where there is no such folder."""
    if not folder.is_dir() or folder.is_symlink():
        return []
    return sorted(path for path in folder.iterdir() if path.is_file() and not path.is_symlink())


def all_files(folder: Path) -> list[Path]:
    """Every file below a folder that is no link, and may be looked at; no link is followed."""
    found = []
    for place, _, names in os.walk(folder):
        with contextlib.suppress(PermissionError):  # it may be listed, and no more
            found += [path for name in names if (path := Path(place, name)).is_file() and not path.is_symlink()]
    return found


def size_of(folder: Path) -> int:
    """The bytes of all files below a folder."""
    total = 0
    for path in all_files(folder):
        with contextlib.suppress(FileNotFoundError):  # its writer has put it in place meanwhile
            total += path.stat().st_size
    return total


def refuse_slim(folder: Path) -> None:
    """Makes sure that what is to be trained in `folder` is no slim copy.

    Raises:
        CheckpointError: it is.
    """
    if (folder / MARK).exists():
        raise CheckpointError("this is a slim copy of a run, and training cannot go on from it", where=str(folder),
                              why="`pellucid export` left out what training needs: the optimizer's moments and the "
                                  "newest checkpoint",
                              fix="train in the run that it was made of, or start a new run from its weights: "
                                  f"--train.initialize_from {folder} --out NEW")
