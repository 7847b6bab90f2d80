"""What a run folder holds besides weights: config.yaml, environment.json, the tokenizer."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from pellucid import own
from pellucid.cache import delete
from pellucid.config import RunConfig, TokenizerConfig
from pellucid.config.effects import LANGUAGES, differences_in_training
from pellucid.config.mapping import as_table, differences, from_mapping, to_mapping
from pellucid.config.strict_yaml import as_yaml, read_yaml
from pellucid.data.claims import lock
from pellucid.data.reading import texts_of
from pellucid.data.tokenizers.build import Tokenizers, load_tokenizers, train_tokenizers
from pellucid.errors import CheckpointError, ConfigError, right_to_read
from pellucid.files import REPAIR, read_json, write_json, write_text
from pellucid.runs.format import ENVIRONMENT, FORMAT, IMPORTED, STARTED, check_format, unreadable

if TYPE_CHECKING:
    from pellucid.data.splits import Pairs

_DECISIVE = ("task", "data.", "retrieval.", "tokenizer.", "train.initialize_from", "model.max_length")  # for the ids
_TRAINED_ON = "trained_on.json"  # beside a tokenizer: of which data it was made
_TOLD_EVERY = 8192  # pairs
ENDED = "ended.json"  # why the run has ended; not there while it has not
_OURS = (".lock", ENVIRONMENT, "checkpoints")  # one of these is in every folder that a run was begun in
_FREE = {"train.workers", "train.track", "train.shard", "train.timeout", *LANGUAGES}  # a run that has begun may change
_LENGTH = {"train.steps", "train.epochs", "train.patience"}  # and those that say how long it goes on, with a check


@contextlib.contextmanager
def held(folder: Path, how: int, refusal: str) -> Iterator[TextIO]:
    """Holds a run folder while this lasts, alone (fcntl.LOCK_EX) or beside others (LOCK_SH): the file that is locked,
    by a lock that goes with its process, however that ends.

    Raises:
        ConfigError: the refusal; another process holds it.
        OutputError, and a PellucidWarning: as `lock`.
    """
    with (folder / ".lock").open("a") as file:
        if not lock(file.fileno(), folder / ".lock", how):
            raise ConfigError(refusal, where=str(folder), fix="wait for it, or give another --out")
        yield file


@right_to_read()
def read_config(folder: Path) -> RunConfig:
    """The resolved configuration of a run.

    Raises:
        CheckpointError: no run folder, its config.yaml is damaged or may not be read, or a newer version made it.
    """
    path = folder / "config.yaml"
    if not path.is_file():
        what = "no such run folder" if not folder.exists() else "not a run folder: config.yaml is missing"
        raise CheckpointError(what, where=str(folder), fix="give the folder that `pellucid train` wrote")
    check_format(folder)
    try:
        return from_mapping(read_yaml(path.read_text(encoding="utf-8"), str(path)))
    except (UnicodeDecodeError, ConfigError) as error:
        raise unreadable(folder, error) from error


def refuse_foreign(folder: Path, whose: str = "run", ours: Sequence[str] = _OURS) -> None:
    """Makes sure that a run may be written to `folder`: it is new, or empty, or a run's already.

    Args:
        whose: what is written there.
        ours: names of which one is in every folder where such a thing was begun.

    Raises:
        ConfigError: it is no folder, or holds something else, which could be written over.
    """
    if (folder.is_symlink() or folder.exists()) and not folder.is_dir():
        raise ConfigError("this is no folder", where=str(folder), fix="give another --out")
    others = sorted(path.name for path in folder.iterdir() if path.name[0] != ".") if folder.is_dir() else []
    if others and not any((folder / name).exists() for name in ours):
        more = f" and {len(others) - 5:,} more" if len(others) > 5 else ""
        raise ConfigError(f"this folder is no {whose}'s, and is not empty", where=str(folder),
                          why=f"it holds {', '.join(others[:5])}{more}, which could be written over",
                          fix="give another --out, a folder that is new or empty")


def claim_config(config: RunConfig, folder: Path) -> RunConfig | None:
    """Writes config.yaml into a new folder, or one where nothing has been trained yet; in an old one, makes sure that
    it is this run's. What decides only how fast it goes may change each time, and what decides nothing.

    Returns:
        The configuration that the run has begun with, where only the length of the run differs from it; nothing is
        written then. Else None.

    Raises:
        ConfigError: the folder belongs to another configuration, or was prepared with other data; the difference is
            shown.
    """
    path = folder / "config.yaml"
    if not path.exists():
        if (folder / "checkpoints").exists():
            raise CheckpointError("the folder has checkpoints and no config.yaml", where=str(folder))
        write_config(config, folder)
        return None
    before = read_config(folder)
    changed = differences_in_training(before, config)
    if not changed:
        return None
    if all(key in _FREE for key, _, _ in changed):
        write_config(config, folder)
    elif has_begun(folder) and all(key in _FREE | _LENGTH for key, _, _ in changed):
        return before
    elif not has_begun(folder):  # an attempt stopped before anything was trained
        from pellucid.data.splits import PREPARED

        if (folder / PREPARED).exists():  # the work of many processes, it may be
            refuse_other_data(before, config, folder)
        for name in ("data.json", "metrics.jsonl"):
            (folder / name).unlink(missing_ok=True)
        if any(key.startswith(("task", "data.", "tokenizer.", "train.initialize_from")) and key not in LANGUAGES
               for key, _, _ in changed):
            from pellucid.runs.passages import FOLDER as PASSAGES

            for made_of_data in ("tokenizer", PASSAGES, IMPORTED):
                shutil.rmtree(folder / made_of_data, ignore_errors=True)
            (folder / STARTED).unlink(missing_ok=True)
        write_config(config, folder)
    else:
        raise ConfigError("this run folder belongs to another configuration", where=str(folder),
                          why=f"these keys differ:{as_table(changed)}",
                          fix="give another --out, or the configuration it began with")
    return None


def refuse_other_data(before: RunConfig, config: RunConfig, folder: Path) -> None:
    """Raises a ConfigError where keys differ that decide the ids."""
    changed = [row for row in differences(before, config) if row[0].startswith(_DECISIVE) and row[0] not in LANGUAGES]
    if changed:
        raise ConfigError("this run folder has other data", where=str(folder),
                          why=f"these keys differ:{as_table(changed)}",
                          fix="give another --out; or remove this one, if nobody is at work there")


def write_config(config: RunConfig, folder: Path) -> None:
    """config.yaml."""
    write_text(folder / "config.yaml", as_yaml(to_mapping(config)))


def chosen_checkpoint(folder: Path) -> Path:
    """The checkpoint whose weights are in use, as best.json says.

    Raises:
        CheckpointError: there is none yet, or best.json is damaged.
    """
    if not (folder / "best.json").exists():
        what = "none of this run's weights are in use yet" if has_begun(folder) else "this run has no checkpoint yet"
        raise CheckpointError(what, where=str(folder), why="the first validation chooses them, and writes best.json",
                              fix="train it further: the same `pellucid train` command resumes it")
    best = read_json(folder / "best.json", REPAIR)
    if not isinstance(best, dict) or Path(str(best.get("checkpoint"))).name != best.get("checkpoint"):
        raise CheckpointError("best.json is damaged", where=str(folder / "best.json"), fix=REPAIR)
    return folder / "checkpoints" / str(best["checkpoint"])


def missing_places(folder: Path) -> list[Path]:
    """What would be made for a run in `folder`: it and those of its parents that are not there, from the inside."""
    return [place for place in (folder, *folder.parents) if not place.exists()]


@contextlib.contextmanager
def taken_back(folder: Path, made: Sequence[Path]) -> Iterator[None]:
    """A start that fails leaves nothing behind: what was made for it goes again, unless something was trained, or
    measured, or was there before."""
    is_new = bool(made) or all(path.name in (".lock", ".preparing") for path in folder.iterdir())
    try:
        yield
    except Exception:
        if is_new and not has_begun(folder) and not (folder / "metrics.jsonl").exists():
            for path in folder.iterdir():
                delete(path)
            with contextlib.suppress(OSError):  # somebody has put something there meanwhile
                for place in made:
                    place.rmdir()
        raise


def has_begun(folder: Path) -> bool:
    """Whether anything has been trained in it yet."""
    return any((folder / "checkpoints").glob("step-*"))


def tokenizer_options(config: RunConfig) -> TokenizerConfig:
    """How the run comes by its tokenizers: as `config.tokenizer` says, or from the run that it starts from."""
    if config.train.initialize_from is not None:
        return replace(config.tokenizer, path=str(Path(config.train.initialize_from) / "tokenizer"))
    return config.tokenizer


class Counted:
    """Pairs that can be read again and again, and tell how many have been read; `telling` is asked at each reading for
    what is told of it."""

    def __init__(self, pairs: Iterable[tuple[str, str]], telling: Callable[[], Callable[[int], None]]) -> None:
        self._pairs, self._telling = pairs, telling

    def __iter__(self) -> Iterator[tuple[str, str]]:
        told = self._telling()
        for number, pair in enumerate(self._pairs, start=1):
            yield pair
            if number % _TOLD_EVERY == 0:
                told(number)


def prepare_tokenizers(config: RunConfig, pairs: Pairs, folder: Path, say: Callable[[str], None],
                       telling: Callable[[], Callable[[int], None]], is_first: bool = True) -> Tokenizers:
    """The run's tokenizers: those it has, unless nothing has been trained and they were made of other data; else those
    that the configuration names, else trained now on `pairs`, see `Counted`; of several ranks the first one writes."""
    place = folder / "tokenizer"
    if place.exists() and (has_begun(folder) or not is_first):
        return load_tokenizers(place)
    if place.exists() and config.train.initialize_from is None:  # else copied anew
        if _are_of(place, pairs):
            return load_tokenizers(place)
        say("tokenizer: the data has changed since it was made")
    options = tokenizer_options(config)
    say(f"tokenizer: {options.path or f'training {options.kind}'}")
    tokenizers = train_tokenizers(options, texts_of(Counted(pairs, telling), config), config.task, say)
    tokenizers.save(place)
    write_json(place / _TRAINED_ON, {"sha256": pairs.sha256()})
    others = "" if tokenizers.shared or tokenizers.labels else f" and {tokenizers.target.size:,}"
    say(f"vocabulary: {tokenizers.source.size:,}{others} tokens"
        + (f", {len(tokenizers.labels)} labels" if tokenizers.labels else ""))
    return load_tokenizers(place)


def _are_of(tokenizer: Path, pairs: Pairs) -> bool:
    """Whether a tokenizer was made of these pairs, as far as that is known."""
    if not (tokenizer / _TRAINED_ON).exists():
        return True
    record = read_json(tokenizer / _TRAINED_ON, REPAIR)
    return isinstance(record, dict) and record.get("sha256") == pairs.sha256()


def write_environment(folder: Path, config: RunConfig, more: dict[str, Any]) -> None:
    """environment.json: what the numbers of this run were made with."""
    parts = own.used(config.model)
    write_json(folder / ENVIRONMENT, {"format": FORMAT} | environment() | more | ({"own": parts} if parts else {}))


def require_own_parts(folder: Path, config: RunConfig) -> None:
    """Makes sure that the parts that are not pellucid's, and that the run was made with, are registered.

    Raises:
        CheckpointError: one is not.
    """
    path = folder / ENVIRONMENT
    told = read_json(path) if path.exists() else {}
    if isinstance(told, dict) and isinstance(told.get("own"), dict):
        own.require(told["own"], config.model, folder)


def environment() -> dict[str, Any]:
    """The versions and the machine."""
    from importlib.metadata import version

    import torch

    from pellucid.kernels.allocator import in_use

    packages = ("torch", "numpy", "sentencepiece", "sacrebleu", "safetensors")
    return {"pellucid": version("pellucid"), "python": platform.python_version(), "platform": platform.platform(),
            "packages": {name: version(name) for name in packages}, "processor": _processor(),
            "cores": os.cpu_count(), "threads": torch.get_num_threads(), "byte_order": sys.byteorder,
            "allocator": in_use()}


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
