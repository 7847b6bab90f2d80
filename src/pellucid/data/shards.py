"""The shards of a split: what a folder, a glob and a list of places stand for, file by file.

They come place by place, and in each by name, so that the n-th example is the same one on every machine. A source file
and its target file are one shard; where several are found on either side, their names tell which belong together.
"""

import glob
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pellucid.config import Source, Split
from pellucid.data import hub
from pellucid.data.json_array import about_how_many
from pellucid.data.parquet import count_rows
from pellucid.data.text_lines import count_lines, open_raw
from pellucid.errors import DataError
from pellucid.files import remembered_sha256

_LINES = 2**40  # more than any file has
_LONGEST = 4096  # of paths, in characters


@dataclass(frozen=True)
class Shard:
    """Files that are read side by side from the first line to the last: one table, or a source and its target.

    Args:
        files: their paths, one or two.
        weight: how many times an epoch has each of its examples.
    """

    files: tuple[str, ...]
    weight: float = 1.0

    @property
    def is_table(self) -> bool:
        """Whether it is one file."""
        return len(self.files) == 1

    def place(self, line: int, side: int | None = None) -> str:
        """Where the record of this line, row or number stands, as ``file:line`` where the format has lines.

        Args:
            side: 0 or 1 where the source or the target alone is meant.
        """
        if self.is_table and suffix(self.files[0]) == ".parquet":
            return f"{self.files[0]}, row {line}"
        if self.is_table and suffix(self.files[0]) == ".json":
            return f"{self.files[0]}, record {line}"
        files = self.files if self.is_table or side is None else self.files[side : side + 1]
        return " and ".join(f"{file}:{line}" for file in files)

    def lines(self) -> int | None:
        """How many lines or rows it has; of a JSON array about how many records, by its beginning. None where only
        reading all of it would tell: of other JSON.

        Raises:
            DataError: a file cannot be read.
            ConfigError: a package that the format needs is not installed.
        """
        count = {".json": about_how_many, ".parquet": count_rows}.get(suffix(self.files[0]), count_lines)
        return count(self.files[0])

    def sha256(self) -> str:
        """SHA-256 of the file as it lies on the disk; of two files, that of their two digests, a line each.

        Raises:
            DataError: a file cannot be read.
        """
        digests = []
        for path in self.files:
            with open_raw(path):  # which tells what is wrong with it
                digests.append(remembered_sha256(Path(path)))
        return digests[0] if self.is_table else sha256_of_lines(digests)


def shards_of(split: Split) -> list[Shard]:
    """What a split consists of; a Hub data set is fetched first. A file that is not there is a shard all the same, and
    told when it is read.

    Raises:
        DataError: a folder or glob without files; files of two sides that do not match.
    """
    return [Shard(files, source.weight) for source in split.sources for files in _files(source)]


def lines_of(split: Split) -> int | None:
    """How many lines or rows all shards of a split have; None where `Shard.lines` does not tell it of one.

    Raises:
        DataError, ConfigError: as of `Shard.lines`.
    """
    counts = [shard.lines() for shard in shards_of(split)]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def numbered(shard: int, line: int) -> int:
    """The number of a record: that of its shard, from 0, and that of its line in one. In the first, it is the line."""
    return shard * _LINES + line


def shard_and_line(number: int) -> tuple[int, int]:
    """What `numbered` was given."""
    return divmod(number, _LINES)


def place(split: Split, number: int, side: int | None = None) -> str:
    """Where the record with this number stands, see `Shard.place`."""
    shard, line = shard_and_line(number)
    return shards_of(split)[shard].place(line, side)


def sha256_of(split: Split) -> str:
    """The digest of all files of a split: that of its shard, or of the digests of several, a line each.

    Raises:
        DataError: a file cannot be read.
    """
    digests = [shard.sha256() for shard in shards_of(split)]
    return digests[0] if len(digests) == 1 else sha256_of_lines(["shards", *digests])


def sha256_of_lines(lines: Sequence[str]) -> str:
    """SHA-256 of a text of these lines."""
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def suffix(path: str) -> str:
    """The ending of a file's name in lower case, that of a packed one without .gz."""
    name = path.lower().removesuffix(".gz")
    return Path(name).suffix


def are_there(path: str) -> bool:
    """Whether a path names a file, or several, that are there and may be looked at."""
    try:
        return Path(path).is_file() or _is_folder(path) or (_is_glob(path) and any(_matching(path)))
    except (OSError, DataError):
        return False


def _files(source: Source) -> list[tuple[str, ...]]:
    if source.path is not None:
        path = hub.fetch(source.path) if hub.is_address(source.path) else source.path
        return [(file,) for file in _named_by(path)]
    assert source.source is not None
    assert source.target is not None
    return _side_by_side(source.source, source.target)


def _named_by(path: str) -> list[str]:
    """The files that a path names: itself, those in a folder, those that match a glob."""
    if _is_folder(path):
        try:
            found = sorted(str(file) for file in Path(path).iterdir() if file.name[0] not in "._")
            inner = [file for file in found if Path(file).is_dir()]
        except OSError as error:
            raise _unreadable(error, path) from error
        if inner:
            raise DataError("there is a folder in this folder of data", where=inner[0],
                            fix=f"name all files in and below it by a glob: {Path(path) / '**' / '*.*'}")
    elif _is_glob(path):
        found = sorted(_matching(path))
    else:
        return [path]
    if not found:
        raise DataError("there is no file of data here", where=path,
                        why="files and folders whose names begin with . or _ do not count")
    return found


def _is_folder(path: str) -> bool:
    try:
        return path != "" and Path(path).is_dir()
    except OSError:  # nobody may look: whoever reads it is told so
        return False


def _is_glob(path: str) -> bool:
    return glob.has_magic(path) and "\0" not in path and not os.path.lexists(path)


def _matching(path: str) -> Iterator[str]:
    """The files that match a glob, in any order."""
    if len(path) > _LONGEST:  # to read one takes time as the square of its brackets
        raise DataError("this glob cannot be read", where=path,
                        why=f"it has {len(path):,} characters, and a path at most {_LONGEST:,}")
    root = Path(_root(path))
    try:
        for file in root.glob(str(Path(path).relative_to(root))):
            if file.is_file() and all(name[0] not in "._" for name in file.relative_to(root).parts):
                yield str(file)
    except ValueError as error:
        raise DataError("this glob cannot be read", where=path, why=str(error)) from error
    except OSError as error:  # a folder that may be listed and not entered
        raise _unreadable(error, path) from error


def _unreadable(error: OSError, path: str) -> DataError:
    return DataError("the folder cannot be read", where=path, why=error.strerror or str(error))


def _side_by_side(source: str, target: str) -> list[tuple[str, ...]]:
    """The files of two sides, each with its partner: their names differ as all the others do, as 01.en and 01.de."""
    sides = _named_by(source), _named_by(target)
    if len(sides[0]) == len(sides[1]) == 1:
        return [(sides[0][0], sides[1][0])]
    pairs: list[tuple[str, ...]] = list(zip(*sides, strict=False))
    names = [(a.removeprefix(_root(source)), b.removeprefix(_root(target))) for a, b in pairs]
    unlike = [_difference(a, b) for a, b in names]
    odd = next((i for i, one in enumerate(unlike) if one is None or one != unlike[0]), len(pairs))
    counts = f"{source} names {len(sides[0]):,} files and {target} {len(sides[1]):,}"
    if len(sides[0]) != len(sides[1]):
        lone = max(sides, key=len)[odd]
        raise DataError("the source and the target have different numbers of files", where=lone, why=counts,
                        fix="find the file without a partner; no pair of this data can be trusted before")
    if odd < len(pairs):
        raise DataError("a file of the source and one of the target do not belong together by their names",
                        where=" and ".join(pairs[odd]), why="names may differ in one way in all of them, as 01.en and "
                        "01.de, 02.en and 02.de", fix="name them so, or list them: [{source: F, target: F}, …]")
    return pairs


def _root(path: str) -> str:
    """What all files that a path names have in front of their names."""
    return path if _is_folder(path) else str(Path(re.split(r"[*?[]", path)[0] + "x").parent)


def _difference(a: str, b: str) -> list[tuple[str, str]] | None:
    """The numbers and words in which two names differ, and what stands between these; None where one has more words."""
    words = [re.findall(r"\d+|[^\W\d_]+", name) for name in (a, b)]
    if len(words[0]) != len(words[1]):
        return None
    between = ["".join(re.findall(r"[\W_]+", name)) for name in (a, b)]
    return [(x, y) for x, y in zip([*words[0], between[0]], [*words[1], between[1]], strict=True) if x != y]
