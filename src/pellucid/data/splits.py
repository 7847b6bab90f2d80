"""The parts of a run's data: train, validation and test, each a thing that can be read again and again.

Where no validation data is given, a share of the training pairs is set aside: u(source) = blake2b(source) / 2⁶⁴ puts
every source text at a place in [0, 1), and each split owns an interval of it. So equal texts share a side, the division
is the same in every run and on every machine, and nothing need be held or shuffled.
"""

import dataclasses
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.config import DataConfig, Generated, RunConfig, Split, Task
from pellucid.data import hub, sources
from pellucid.data.generated import tasks
from pellucid.data.tables import Fields
from pellucid.errors import CheckpointError, ConfigError, DataError
from pellucid.files import read_json, write_folder, write_json, write_text

GENERATED_SEED = 1  # generated data is the same under every run seed, so that runs can be compared on one test set
_ABOUT = "generated.json"


@dataclass(frozen=True)
class Pairs:
    """One split; iterating reads its pairs from the files anew.

    Args:
        name: "train", "validation" or "test".
        split: the files.
        fields: the columns.
        interval: the pairs whose source lies in [low, high) belong to it; (0, 1) is the whole.
    """

    name: str
    split: Split
    fields: Fields
    interval: tuple[float, float] = (0.0, 1.0)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """(source, target), or (text, label).

        Raises:
            DataError: what reading says; no pair at all.
        """
        for _, first, second in self._records():
            yield first, second

    def _records(self) -> Iterator[tuple[int, str, str]]:
        low, high = self.interval
        is_whole = self.interval == (0.0, 1.0)
        is_empty = True
        for record in sources.read_records(self.split, self.fields):
            if is_whole or low <= position(record[1]) < high:
                is_empty = False
                yield record
        if is_empty:
            raise DataError(f"no pair falls to {self.name}", where=self.split.path or self.split.source or "",
                            why=f"of so little data, none lies in its share, {low:g} to {high:g}",
                            fix=f"give data.{self.name}, or change data.validation_share or data.test_share")

    def locate(self, index: int) -> str:
        """Where the pair with this index (from 0, as iterated) stands: ``file:line``. Reads the file up to it."""
        for i, (number, _, _) in enumerate(self._records()):
            if i == index:
                return sources.place(self.split, number)
        raise IndexError(f"{self.name} has no pair {index}")

    def describe(self) -> dict[str, Any]:
        """The files, columns and share, as plain data."""
        files = {key: value for key, value in dataclasses.asdict(self.split).items() if value is not None}
        columns = [field.column if field.name is None else field.name
                   for field in (self.fields.first, self.fields.second)]
        tables = {} if self.split.path is None else {"fields": columns}
        return {"name": self.name, **files, **tables, "interval": list(self.interval)}

    def sha256(self) -> str:
        """The digest of the files, see `sources.sha256_of`; two splits of one file have the same."""
        return sources.sha256_of(self.split)


def position(text: str) -> float:
    """The place of a text in [0, 1), spread evenly over texts."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8"), digest_size=8).digest()) / 2**64


def open_splits(config: RunConfig, run_folder: Path) -> dict[str, Pairs]:
    """The splits of a run by name: "train", and "validation" and "test" where there are any.

    Generated data is written to `run_folder`/data once; a hub data set is fetched when it is first read.

    Raises:
        ConfigError: neither data.train nor data.generated is given; a generated task that does not exist, belongs to
            another `task`, or asks for more different lines than there are; `run_folder`/data is not ours.
        OutputError: generated data cannot be written.
    """
    data = config.data
    fields = sources.fields_for(config.task, data)
    given = {name: Pairs(name, Split(path=hub.with_split(split.path, name)) if split.path else split, fields)
             for name, split in (("train", data.train), ("validation", data.validation), ("test", data.test)) if split}
    if "train" in given:
        return _with_shares(given, data)
    if data.generated is None:
        raise ConfigError("there is nothing to train on", where="data.train",
                          fix="give --data.train FILE (TSV, JSONL, Parquet, hub:owner/name), or --data.train.source F "
                              "--data.train.target F, or --data.generated.task copy")
    usual = sources.fields_for(config.task, DataConfig(objective=data.objective))
    written = _write_generated(data.generated, config.task, run_folder / "data")
    return {name: Pairs(name, Split(path=str(path)), usual) for name, path in written.items()} | given


def _with_shares(given: dict[str, Pairs], data: DataConfig) -> dict[str, Pairs]:
    """Adds the splits that are shares of the training data, and leaves the rest to train."""
    train = given["train"]
    low = 0.0
    for name, share in (("validation", data.validation_share), ("test", data.test_share)):
        if name not in given and share > 0:
            given[name] = dataclasses.replace(train, name=name, interval=(low, low + share))
            low += share
    return given | {"train": dataclasses.replace(train, interval=(low, 1.0))}


def _write_generated(generated: Generated, task: Task, folder: Path) -> dict[str, Path]:
    """Writes the splits, and generated.json which says what they are, unless they are there."""
    about = {"seed": GENERATED_SEED, **dataclasses.asdict(generated)}
    if not _is_there(folder, about):
        if folder.exists() and not (folder / _ABOUT).exists():
            raise ConfigError("generated data would replace a folder that holds something else", where=str(folder),
                              fix="give another --out")
        columns = (1, 0) if task == "classification" else (0, 1)  # without a header: label, text; source, target
        made = tasks.generate(generated, task, GENERATED_SEED)

        def fill(place: Path) -> None:
            for name, pairs in made.items():
                text = "".join(f"{pair[columns[0]]}\t{pair[columns[1]]}\n" for pair in pairs)
                write_text(place / f"{name}.tsv", text)
            write_json(place / _ABOUT, about)

        write_folder(folder, fill)
    return {name: folder / f"{name}.tsv" for name in ("train", "validation", "test")}


def _is_there(folder: Path, about: dict[str, Any]) -> bool:
    try:
        return bool(read_json(folder / _ABOUT) == about)
    except CheckpointError:
        return False
