"""A folder of texts in, a folder of outputs out: which shards there are, which are done, from what and with what.

Every file of the input, at any depth, is a shard, and its output has its name. Beside the outputs lies `.pellucid`, by
which processes that work on the same folder know of each other:

    manifest.json        the weights and options that all outputs are made with
    records/NAME.json    what the output of a shard is made of; there when it is done
    claims/NAME          who is making it (data/claims.py)
"""

import contextlib
import gzip
import io
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from pellucid import __version__
from pellucid.config import DecodeConfig
from pellucid.config.mapping import as_table, flatten
from pellucid.data.claims import awaited
from pellucid.data.text_lines import lines_if_any, open_raw
from pellucid.errors import CheckpointError, ConfigError, DataError, check_format
from pellucid.files import output_errors, read_json, remove_leftovers, sha256, write_json, writing

_FORMAT = 1
_UNUSED = 24 * 3600.0  # seconds after which nobody is writing to an unfinished file any more
_SPEED_ONLY = ("batch_tokens",)  # options that may change on the way

Fill = Callable[[Iterator[str], int, TextIO], dict[str, Any]]


class ShardFolder:
    """The shards of a folder and their outputs in another.

    Args:
        source: the folder of texts.
        output: the folder of outputs, which is made if there is none.
        ending: what outputs have after the names of their shards, before .gz.

    Attributes:
        names: of the shards, relative to `source`, in order.
        sizes: their bytes on the disk.
        claims: the folder where they are claimed.

    Raises:
        ConfigError: one of the folders lies in the other, or `output` is a file.
        DataError: a folder cannot be read, or there is no shard.
    """

    def __init__(self, source: Path, output: Path, ending: str = "") -> None:
        self.source, self.output, self._ending = source, output, ending
        inner, outer = source.resolve(), output.resolve()
        if inner.is_relative_to(outer) or outer.is_relative_to(inner):
            raise ConfigError("--output lies in --input, or --input in --output", where=str(output),
                              why="outputs would be taken for shards", fix="give a folder beside it")
        if output.exists() and not output.is_dir():
            raise ConfigError("--input is a folder, and --output is none", where=str(output), fix="give a folder")
        self.names = _shards_in(source)
        self.sizes = {name: _size(source / name) for name in self.names}
        self._own = output / ".pellucid"
        self.claims, self._records = self._own / "claims", self._own / "records"

    def begin(self, run: Path, weights: str, decode: DecodeConfig, progress: Callable[[str], None]) -> None:
        """Writes the manifest, or makes sure that the folder was begun with the same weights and options.

        Args:
            weights: their SHA-256.
            progress: hears what is waited for, again and again.

        Raises:
            ConfigError: it was begun with others, which are shown; or it holds files and has no manifest.
            CheckpointError: the manifest is damaged, or of a newer version.
            OutputError: it cannot be written.
        """
        path, wanted = self._own / "manifest.json", _made_with(weights, asdict(decode), self._ending)
        if not path.exists():
            with awaited(self._own / "manifest.lock",
                         lambda who: progress(f"waiting for {who}, to begin {self.output}")):
                if not path.exists():
                    self._refuse_strangers()
                    write_json(path, {"format": _FORMAT, "pellucid": __version__, "run": str(run), "weights": weights,
                                      "decode": asdict(decode), "ending": self._ending})
        changed = [(key, before, wanted.get(key)) for key, before in _read_manifest(path).items()
                   if before != wanted.get(key)]
        if changed:
            raise ConfigError("this folder was begun with other weights or options", where=str(self.output),
                              why=f"its outputs would not belong together:{as_table(changed)}",
                              fix="give another --output, or what it began with")
        for folder in {self.output_of(name).parent for name in self.names}:
            with contextlib.suppress(OSError):  # they are in nobody's way
                remove_leftovers(folder, _UNUSED)

    def _refuse_strangers(self) -> None:
        with output_errors(self.output):
            strangers = sorted(path.name for path in self.output.iterdir() if path.name[0] != ".")
        if strangers:
            raise ConfigError("--output holds other files", where=str(self.output / strangers[0]),
                              why="nothing says that they are outputs of this command, and they might be written over",
                              fix="give a new folder")

    def output_of(self, name: str) -> Path:
        """Where the output of a shard lies."""
        return self.output / (f"{name[:-3]}{self._ending}{name[-3:]}" if _is_packed(name) else name + self._ending)

    def is_done(self, name: str) -> bool:
        """Whether the output of a shard is there, and made of the shard as it is now.

        Raises:
            DataError: the output has another size than was written, or the shard cannot be read.
        """
        place, output = self._record_of(name), self.output_of(name)
        try:
            record = read_json(place)
            made, made_of, before = record["output"]["bytes"], record["input"], record["input"]["sha256"]
            if output.stat().st_size != made:
                raise DataError("the output was changed after it was made", where=str(output),
                                fix="remove it, and it is made again; or move it away, to keep it")
        except (CheckpointError, KeyError, TypeError, FileNotFoundError):  # not yet, or it was removed or damaged
            return False
        if self._is_untouched(name, made_of):
            return True
        now = self._input(name)
        if now["sha256"] != before:
            return False
        write_json(place, record | {"input": now})  # so that nobody reads it again
        return True

    def done(self) -> set[str]:
        """The shards that have a record: those that are done, unless somebody has changed something since."""
        records = (Path(place, file).relative_to(self._records).as_posix()
                   for place, _, files in os.walk(self._records) for file in files)
        return {record.removesuffix(".json") for record in records} & set(self.names)

    def make(self, name: str, fill: Fill) -> dict[str, Any]:
        """Makes the output of a shard, and then its record.

        Args:
            fill: writes the output, given the lines, how many there are and the file; what it gives is recorded too.

        Returns:
            The record.

        Raises:
            DataError: the shard cannot be read, or was changed meanwhile. Nothing is written then.
            OutputError: the output cannot be written.
        """
        source, output = str(self.source / name), self.output_of(name)
        made_of = self._input(name)
        count = sum(1 for _ in lines_if_any(source))  # what cannot be read is told before an hour is lost on it
        self._record_of(name).unlink(missing_ok=True)  # which is of another output from here on
        with writing(output) as file, _text(file, _is_packed(name)) as text:
            told = fill(lines_if_any(source), count, text)
            if self._input(name)["sha256"] != made_of["sha256"]:
                raise DataError("the shard was changed while it was read", where=source, fix="run it again")
        made = {"bytes": _size(output), "sha256": sha256(output)}
        record = {"input": made_of, "output": made, "lines": count, "pellucid": __version__} | told
        write_json(self._record_of(name), record)
        return record

    def _record_of(self, name: str) -> Path:
        return self._records / f"{name}.json"

    def _input(self, name: str) -> dict[str, Any]:
        path = self.source / name
        with open_raw(str(path)):  # which tells what is wrong with it
            state = path.stat()
            return {"bytes": state.st_size, "modified": state.st_mtime_ns, "sha256": sha256(path)}

    def _is_untouched(self, name: str, made_of: dict[str, Any]) -> bool:
        with contextlib.suppress(OSError):
            state = (self.source / name).stat()
            return (state.st_size, state.st_mtime_ns) == (made_of.get("bytes"), made_of.get("modified"))
        return False


def _shards_in(folder: Path) -> list[str]:
    def refuse(error: OSError) -> None:
        raise DataError("the folder cannot be read", where=str(error.filename),
                        why=error.strerror or str(error)) from error

    names = []
    for place, inner, files in os.walk(folder, onerror=refuse):
        inner[:] = [name for name in inner if name[0] not in "._"]
        for name in inner:
            if Path(place, name).is_symlink():
                raise DataError("a link to a folder is not followed", where=str(Path(place, name)),
                                fix="give that folder as --input, or link to its files")
        names += [Path(place, name).relative_to(folder).as_posix() for name in files if name[0] not in "._"]
    if not names:
        raise DataError("there is no shard in this folder", where=str(folder),
                        why="files and folders whose names begin with . or _ do not count")
    return sorted(names)


def _made_with(weights: object, decode: dict[str, Any], ending: object) -> dict[str, Any]:
    """What outputs depend on, by dotted keys."""
    decode = {key: value for key, value in (asdict(DecodeConfig()) | decode).items() if key not in _SPEED_ONLY}
    return flatten({"weights": weights, "decode": decode, "--json": ending != ""})


def _read_manifest(path: Path) -> dict[str, Any]:
    """What the manifest says of them."""
    fix = "if nobody needs its outputs, remove the folder"
    try:
        found = read_json(path)
        check_format(found.get("format") if isinstance(found, dict) else None, _FORMAT, str(path))
        return _made_with(found["weights"], dict(found["decode"]), found["ending"])
    except CheckpointError as error:
        raise CheckpointError(error.what, where=error.where, why=error.why, fix=fix) from error
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError("the manifest is damaged", where=str(path), why=str(error), fix=fix) from error


def _is_packed(name: str) -> bool:
    return name.lower().endswith(".gz")


def _size(path: Path) -> int:
    """In bytes; 0 of what is not there."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


@contextlib.contextmanager
def _text(file: BinaryIO, is_packed: bool) -> Iterator[TextIO]:
    """Lines of UTF-8 for a file, which stays open; the same bytes for the same lines."""
    with contextlib.ExitStack() as stack:
        packed = stack.enter_context(gzip.GzipFile("", "wb", 6, file, mtime=0)) if is_packed else file
        text = io.TextIOWrapper(cast(BinaryIO, packed), encoding="utf-8", newline="\n")
        try:
            yield text
        finally:
            text.detach()
