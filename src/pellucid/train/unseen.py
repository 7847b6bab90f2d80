"""What a run holds out must be new to the runs that it starts from: their files are compared, and how they divide them.

Only what lies in one file is found, by its SHA-256: it costs nothing, or one reading where the two divide it
differently. Texts that stand in two files are `pellucid doctor`'s, within one configuration.
"""

from collections.abc import Iterator
from pathlib import Path

from pellucid.config import RunConfig
from pellucid.data.division import Division
from pellucid.data.sources import fields_for, read_records
from pellucid.data.splits import RECORD, Pairs, division_of
from pellucid.errors import CheckpointError, ConfigError
from pellucid.files import read_json
from pellucid.runs.folder import read_config


def check_unseen(config: RunConfig, splits: dict[str, Pairs]) -> None:
    """Makes sure that no run from which `config` starts, at first or second hand, learned what `splits` hold out.

    Raises:
        ConfigError: names the run, the split, and how many of its pairs were learned.
        CheckpointError: what `division_of` says of such a run.
    """
    for folder, before in _ancestors(config):
        if (digest := _digest(folder)) is None:
            continue
        fields, division = fields_for(before.task, before.data), division_of(before.data, folder)
        for held_out in (splits[name] for name in ("validation", "test") if name in splits):
            is_alike = division is not None and (division, fields) == (held_out.division, held_out.fields)
            if is_alike or held_out.sha256() != digest:
                continue
            learned, count = _learned(held_out, Pairs("train", held_out.split, fields, division))
            if learned:
                raise ConfigError(f"{folder} learned {learned:,} of the {count:,} {held_out.name} pairs",
                                  where="train.initialize_from",
                                  why=f"both have one file: {_told(division)} there, {_told(held_out.division)} here",
                                  fix=f"give data.{held_out.name} a file that is new to it, or train it anew with "
                                      "the shares of this one")


def _ancestors(config: RunConfig) -> Iterator[tuple[Path, RunConfig]]:
    """The run that this one starts from, the run that that one started from, and so on, as far as they are there."""
    found: list[Path] = []
    while (name := config.train.initialize_from) is not None and Path(name) not in found:
        found.append(Path(name))
        try:
            config = read_config(found[-1])
        except CheckpointError:
            return
        yield found[-1], config


def _digest(folder: Path) -> str | None:
    """Of the file that a run was trained on; None if that is not known."""
    try:
        return str(read_json(folder / RECORD)["train"]["sha256"])
    except (CheckpointError, KeyError, TypeError):
        return None


def _learned(held_out: Pairs, training: Pairs) -> tuple[int, int]:
    """How many pairs of `held_out` are in `training`, and how many there are. Both read the same files."""
    both = zip(read_records(held_out.split, held_out.fields), read_records(training.split, training.fields),
               strict=False)
    learned = [training.has(theirs[1]) for ours, theirs in both if held_out.has(ours[1])]
    return sum(learned), len(learned)


def _told(division: Division | None) -> str:
    if division is None:
        return "the whole of it"
    return f"validation {division.validation:g}, test {division.test:g} (scheme {division.scheme})"
