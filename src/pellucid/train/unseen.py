"""What a run holds out must be new to the runs that it starts from: their files are compared, and how they divide them.

Only what lies in a file of both is found, by its SHA-256: it costs nothing, or one reading where the two divide it
differently. Texts that stand in two files are `pellucid doctor`'s, within one configuration.
"""

from collections.abc import Iterator
from pathlib import Path

from pellucid.config import RunConfig
from pellucid.data.division import Division
from pellucid.data.shards import Shard, shards_of
from pellucid.data.sources import fields_for, read_shard
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
        if not (digests := _digests(folder)):
            continue
        fields, division = fields_for(before.task, before.data), division_of(before.data, folder)
        for held_out in (splits[name] for name in ("validation", "test") if name in splits):
            if division is not None and (division, fields) == (held_out.division, held_out.fields):
                continue
            of_both = _of_both(held_out, digests)
            learned = _learned(of_both, held_out, Pairs("train", held_out.split, fields, division))
            if learned:
                count = sum(1 for _ in held_out.records())
                files = "one file" if len(of_both) == 1 else f"{len(of_both):,} files"
                raise ConfigError(f"{folder} learned {learned:,} of the {count:,} {held_out.name} pairs",
                                  where="train.initialize_from",
                                  why=f"both have {files}: {_told(division)} there, {_told(held_out.division)} here",
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


def _digests(folder: Path) -> set[str]:
    """Of the files that a run was trained on, and of all of them together; none if that is not known."""
    try:
        train = read_json(folder / RECORD)["train"]
        return {str(train["sha256"]), *map(str, train.get("files", []))}
    except (CheckpointError, KeyError, TypeError, AttributeError):
        return set()


def _of_both(held_out: Pairs, digests: set[str]) -> list[Shard]:
    """Its files that have one of these digests; all, where they have one together."""
    shards = shards_of(held_out.split)
    return shards if held_out.sha256() in digests else [shard for shard in shards if shard.sha256() in digests]


def _learned(of_both: list[Shard], held_out: Pairs, training: Pairs) -> int:
    """How many pairs of these files belong to both."""
    both = (pair for shard in of_both
            for pair in zip(read_shard(shard, held_out.fields), read_shard(shard, training.fields), strict=False))
    return sum(held_out.has(ours[1]) and training.has(theirs[1]) for ours, theirs in both)


def _told(division: Division | None) -> str:
    if division is None:
        return "the whole of it"
    return f"validation {division.validation:g}, test {division.test:g} (scheme {division.scheme})"
