"""The parts of a run's data: train, validation and test, each a thing that can be read again and again.

Where no validation or test data is given, a share of the training pairs is set aside by their source texts, see
division.py. A run that has begun keeps the division that it began with, by the record in its data.json.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pellucid.config import DataConfig, Generated, RunConfig, Source, Split, Task
from pellucid.data import hub, places, shards, sources
from pellucid.data.division import SCHEME, SCHEMES, Division
from pellucid.data.generated import tasks
from pellucid.data.passages import Finder
from pellucid.data.squad import squad_of
from pellucid.data.tables import Fields, Record
from pellucid.errors import CheckpointError, ConfigError, DataError
from pellucid.files import read_json, write_folder, write_json, write_text

GENERATED_SEED = 1  # generated data is the same under every run seed, so that runs can be compared on one test set
_ABOUT = "generated.json"
PREPARED = "prepared"  # in a run folder: the ids that `pellucid prepare` has made
RECORD = "data.json"  # in a run folder: what each split is, as `Pairs.describe` says


@dataclass(frozen=True)
class Pairs:
    """One split; iterating reads its pairs from the files anew.

    Args:
        name: "train", "validation" or "test".
        split: the files.
        fields: the columns.
        division: of the pairs in the files, those whose source it gives to `name`; None: all.
        directory: in which relative paths were given; "" where none is.
        known: what the run that has begun with them remembers of the files; None: there is none.
        prepared: the folder in which ids are prepared for the run; None: there is no run.
        passages: finds what is read beside each source; None: nothing is.
    """

    name: str
    split: Split
    fields: Fields
    division: Division | None = None
    directory: str = dataclasses.field(default="", compare=False)
    known: places.Known | None = dataclasses.field(default=None, compare=False)
    prepared: Path | None = dataclasses.field(default=None, compare=False)
    passages: Finder | None = dataclasses.field(default=None, compare=False)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """(source, target), or (text, label); a source is `Fused` where there are passages.

        Raises:
            DataError: what reading says; no pair at all; the files are not those that the run had.
        """
        for _, first, second in self.records():
            yield self.fused(first, second)[0], second

    def fused(self, source: str, target: str) -> tuple[str, int]:
        """The source with its passages, if there are any, and how many were left out (see `Finder`)."""
        return (source, 0) if self.passages is None else self.passages.fused(source, target)

    def has(self, source: str) -> bool:
        """Whether a pair of the files with this source belongs to it."""
        return self.division is None or self.division.part_of(source) == self.name

    def records(self) -> Iterator[Record]:
        """The same with their numbers, see `shards.place`. Raises what iterating raises."""
        self.check()
        is_empty = True
        for record in sources.read_records(self.split, self.fields):
            if self.has(record[1]):
                is_empty = False
                yield record
        if is_empty:
            raise self.nothing()

    def records_of(self, number: int, shard: shards.Shard) -> Iterator[Record]:
        """Those of one shard, of which there may be none; `number` is its place among all, from 0.

        Raises:
            DataError: what reading says.
        """
        for line, first, second in sources.read_shard(shard, self.fields):
            if self.has(first):
                yield shards.numbered(number, line), first, second

    def check(self) -> None:
        """Makes sure that the files are those that the run had, if one has begun.

        Raises:
            DataError: they are not.
        """
        if self.known is not None:
            self.known.check(self.name, self.split)

    def nothing(self) -> DataError:
        """The error for files without a pair of this split."""
        return DataError(f"no pair falls to {self.name}", where=" and ".join(self.split.paths),
                         why="the sources are divided by a hash, and none lies in its share: there are few, or few "
                             "different ones",
                         fix=f"give data.{self.name}, or change data.validation_share or data.test_share")

    def locate(self, index: int) -> str:
        """Where the pair with this index (from 0, as iterated) stands: ``file:line``. Reads the file up to it."""
        for i, (number, _, _) in enumerate(self.records()):
            if i == index:
                return shards.place(self.split, number)
        raise IndexError(f"{self.name} has no pair {index}")

    def describe(self) -> dict[str, Any]:
        """The files, where they were given, columns and division, as plain data."""
        mixture = [_given_in(source) for source in self.split.mixture or ()]
        files = {"mixture": mixture} if mixture else _given_in(self.split)
        columns = [field.column if field.name is None else field.name
                   for field in (self.fields.first, self.fields.second)]
        tables = {"fields": columns} if any(source.path is not None for source in self.split.sources) else {}
        place = {"directory": self.directory} if self.directory else {}
        division = None if self.division is None else dataclasses.asdict(self.division)
        passages = {} if self.passages is None else {"retrieval": self.passages.about}
        return {"name": self.name, **files, **place, **tables, "division": division, **passages}

    def sha256(self) -> str:
        """The digest of the files, see `shards.sha256_of`; two splits of one file have the same."""
        return shards.sha256_of(self.split)

    def digests(self) -> list[str]:
        """That of each of its files, or pairs of them."""
        return [shard.sha256() for shard in shards.shards_of(self.split)]


def open_splits(config: RunConfig, run_folder: Path) -> dict[str, Pairs]:
    """The splits of a run by name: "train", and "validation" and "test" where there are any.

    Generated data is written to `run_folder`/data once; a hub data set is fetched when it is first read. The files of a
    run that has begun are looked for where it had them, too (see places.py), and are checked when they are read.

    Raises:
        ConfigError: neither data.train nor data.generated is given; a generated task that does not exist, belongs to
            another `task`, or asks for more different lines than there are; `run_folder`/data is not ours.
        CheckpointError: see `division_of`.
        OutputError: generated data cannot be written.
    """
    data = config.data
    fields = sources.fields_for(config.task, data)
    given = {name: _given(name, split.renamed(partial(hub.with_split, split=name)), fields, run_folder)
             for name, split in (("train", data.train), ("validation", data.validation), ("test", data.test)) if split}
    if "train" in given:
        division = division_of(data, run_folder)
        return given | {name: dataclasses.replace(given["train"], name=name, division=division)
                        for name in (division.parts if division else ())}
    if data.generated is None:
        raise ConfigError("there is nothing to train on", where="data.train",
                          fix="give --data.train FILE (TSV, JSONL, Parquet, hub:owner/name), or --data.train.source F "
                              "--data.train.target F, or --data.generated.task copy")
    usual = sources.fields_for(config.task, DataConfig(objective=data.objective))
    written = _write_generated(data.generated, config.task, run_folder / "data")
    made = {name: Split(path=str(path)) for name, path in written.items()}
    return {name: Pairs(name, split, usual, known=places.known_of(run_folder / RECORD, name, split),
                        prepared=run_folder / PREPARED) for name, split in made.items()} | given


def splits_to_train(config: RunConfig, run_folder: Path) -> dict[str, Pairs]:
    """The splits of a run that is to be trained.

    Raises:
        ConfigError: there is no validation data; and what `open_splits` raises.
    """
    splits = open_splits(config, run_folder)
    if "validation" not in splits:
        raise ConfigError("there is no validation data", where="data.validation",
                          fix="give data.validation, or a data.validation_share above 0")
    return splits


def check_beginnings(splits: dict[str, Pairs]) -> None:
    """Reads the first record of each shard, before hours go into those that come before one without any.

    Raises:
        DataError: a file is missing, empty, or not what it should be from the start.
    """
    for split, fields in dict.fromkeys((pairs.split, pairs.fields) for pairs in splits.values()):
        for shard in shards.shards_of(split):
            next(sources.read_shard(shard, fields), None)


def check_splits(splits: dict[str, Pairs], run_folder: Path) -> None:
    """Refuses data that changed since the run in `run_folder` began, those of the test among them.

    Raises:
        DataError: which split is another one now, or gone.
        CheckpointError: data.json is damaged.
    """
    path = run_folder / RECORD
    if path.exists() and any(pairs.known is None for pairs in splits.values()):
        raise CheckpointError("data.json is damaged", where=str(path),
                              fix="put it back; where no share is set aside, remove it, and it is written anew")
    for pairs in splits.values():
        pairs.check()


def _given_in(part: Split | Source) -> dict[str, Any]:
    return {key: value for key, value in dataclasses.asdict(part).items() if value is not None}


def _given(name: str, split: Split, fields: Fields, run_folder: Path) -> Pairs:
    known = places.known_of(run_folder / RECORD, name, split)
    found, directory = places.locate(split, known)
    return Pairs(name, found, fields, directory=directory, known=known, prepared=run_folder / PREPARED)


def division_of(data: DataConfig, run_folder: Path) -> Division | None:
    """How the training data is divided; None where it stays whole.

    The scheme is that of the run in `run_folder` if one has begun there, else the newest.

    Raises:
        CheckpointError: a run has begun there, and no record tells how; or that of a later version does.
    """
    validation = data.validation_share if data.validation is None else 0.0
    test = data.test_share if data.test is None else 0.0
    if data.train is None or (validation == 0 and test == 0):
        return None
    return Division(validation, test, _scheme_of(run_folder))


def _scheme_of(run_folder: Path) -> int:
    path = run_folder / RECORD
    if not path.exists() and not any((run_folder / "checkpoints").glob("step-*")):
        return SCHEME
    try:
        train = read_json(path)["train"]
        scheme = train["division"]["scheme"] if "division" in train else 1  # as all had it before it was recorded
    except (CheckpointError, KeyError, TypeError) as error:
        raise CheckpointError("data.json does not tell how the data of this run was divided", where=str(path),
                              why="what it was trained on might be taken for unseen data",
                              fix="put the file back; if nothing has been trained there yet, remove it") from error
    if not isinstance(scheme, int) or scheme not in SCHEMES:
        raise CheckpointError(f"the data of this run was divided by scheme {scheme!r}", where=str(path),
                              why=f"this version knows {', '.join(map(str, SCHEMES))}",
                              fix="use the version that trained it, or a later one")
    return int(scheme)


def _write_generated(generated: Generated, task: Task, folder: Path) -> dict[str, Path]:
    """Writes the splits, and generated.json which says what they are, unless they are there."""
    ending = ".json" if task == "reading" else ".tsv"
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
                write_text(place / f"{name}{ending}", squad_of(pairs) if task == "reading" else text)
            write_json(place / _ABOUT, about)

        write_folder(folder, fill)
    return {name: folder / f"{name}{ending}" for name in ("train", "validation", "test")}


def _is_there(folder: Path, about: dict[str, Any]) -> bool:
    try:
        return bool(read_json(folder / _ABOUT) == about)
    except CheckpointError:
        return False
