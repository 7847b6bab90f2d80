"""What a decoding system is given: weights, source ids, and how to search. Files that every system can read, whatever
environment it lives in; nothing of ours is imported."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

PAD, UNK, BOS, EOS = range(4)
Ids = list[int]
Weights = dict[str, np.ndarray]  # by the names of our state_dict


@dataclass(frozen=True)
class Search:
    """Greedy (beam_size 1) or beam search for log P(Y) / lp(Y).

    Args:
        length_penalty: α of ((5 + |Y|) / 6)^α, for systems that divide by this.
        exponent: β of |Y|^β, for systems that divide by that.
    """

    name: str
    beam_size: int
    length_penalty: float
    exponent: float

    @property
    def is_one_for_all(self) -> bool:
        """Whether every system ranks hypotheses of different lengths alike."""
        return self.beam_size == 1 or self.length_penalty == 0


@dataclass(frozen=True)
class Call:
    """Sentences to be decoded into `high` tokens at most, eos counted, none of the first `low` being eos."""

    sentences: list[int]
    low: int
    high: int


@dataclass(frozen=True)
class Job:
    """One row of work: a model's sizes, the sources (each ending with eos), and the calls that cover them.

    Args:
        one_by_one: every call is timed on its own.
    """

    model: dict[str, Any]
    search: Search
    sources: list[Ids]
    calls: list[Call]
    one_by_one: bool

    @property
    def has_given_lengths(self) -> bool:
        """Whether every output is as long as its call says."""
        return all(call.low == call.high - 1 for call in self.calls)

    def write(self, folder: Path) -> None:
        """As `folder`/job.json."""
        (folder / "job.json").write_text(json.dumps(asdict(self)))


def read(folder: Path) -> Job:
    """The job in a folder."""
    fields = json.loads((folder / "job.json").read_text())
    return Job(**fields | {"search": Search(**fields["search"]), "calls": [Call(**call) for call in fields["calls"]]})


def read_weights(folder: Path) -> Weights:
    """The weights in a folder."""
    with np.load(folder / "weights.npz") as data:
        return {name: data[name] for name in data.files}


def groups(lengths: list[int], budget: int) -> list[list[int]]:
    """Places of about equal lengths together, longest first, at most `budget` padded tokens a group (or one place)."""
    found: list[list[int]] = []
    for place in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if found and (len(found[-1]) + 1) * lengths[found[-1][0]] <= budget:
            found[-1].append(place)
        else:
            found.append([place])
    return found


def padded(rows: list[Ids]) -> np.ndarray:
    """Rows of ids as one matrix, filled up with PAD."""
    out = np.full((len(rows), max(map(len, rows))), PAD, dtype=np.int64)
    for line, row in zip(out, rows):
        line[: len(row)] = row
    return out


def until_eos(ids: Ids, high: int) -> Ids:
    """What a system emitted: at most `high` tokens, the first eos being the last one."""
    ids = ids[:high]
    return ids[: ids.index(EOS) + 1] if EOS in ids else ids
