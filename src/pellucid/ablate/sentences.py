"""What each test sentence does to the scores of a run: a small table a run and test set, made from the run's outputs
once they are there, and kept in the study's folder, so that reports can be made again from it."""

from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pellucid.ablate.agenda import Planned, path_of_test
from pellucid.ablate.outcome import finite
from pellucid.data.splits import open_splits
from pellucid.errors import CheckpointError, UserError
from pellucid.evaluate.classification import classification_statistics
from pellucid.evaluate.influence import influences
from pellucid.evaluate.significance import SentenceStatistics
from pellucid.evaluate.translation import SCORES, translation_statistics
from pellucid.files import read_json, write_json

_DIGITS = 4  # after the point; scores are percentages


def sentence_influences(planned: Planned, test: str) -> dict[str, NDArray[np.float64]]:
    """By score, the influence of each source of the test set (evaluate/influence.py); empty where it cannot be known,
    as the run's outputs or the data are gone.

    Raises:
        CheckpointError: the kept table is damaged.
    """
    path = table_of(planned, test)
    if not path.exists():
        return _from_outputs(planned, test)
    try:
        return {score: np.asarray(values, dtype=np.float64).reshape(-1) for score, values in read_json(path).items()}
    except (TypeError, ValueError, AttributeError) as error:
        raise CheckpointError("a table of sentences is damaged", where=str(path),
                              fix="remove it: it is made again from the run's outputs, while they are there") from error


def keep_influences(planned: Planned, tests: Iterable[str]) -> None:
    """Writes the tables of these test sets, as far as they are not there and can be made."""
    for test in tests:
        path = table_of(planned, test)
        if not path.exists() and (made := _from_outputs(planned, test)):
            write_json(path, {score: values.tolist() for score, values in made.items()})


def table_of(planned: Planned, test: str) -> Path:
    """Where the influences are kept."""
    return planned.outcome.parent.parent / "sentences" / f"{planned.outcome.stem}.{test}.json"


def _from_outputs(planned: Planned, test: str) -> dict[str, NDArray[np.float64]]:
    """Of what `pellucid evaluate` left in the run's folder, if it is of this test set: its scores are the outcome's."""
    stem = planned.folder / "evaluation" / ("test" if test == "test" else "files")
    outputs, report = stem.with_suffix(".hyp"), stem.with_suffix(".json")
    if not (outputs.exists() and report.exists()):
        return {}
    scores, told = finite(read_json(report)), planned.read().scores.get(test, {})
    if any(scores.get(name) != value for name, value in told.items()):
        return {}
    hypotheses = outputs.read_bytes().decode().split("\n")[:-1]  # a carriage return in one of them ends no line
    try:
        pairs = _pairs(planned, test, len(hypotheses))
    except (UserError, OSError):
        return {}
    if len(pairs) != len(hypotheses):
        return {}
    sources, references = [source for source, _ in pairs], [reference for _, reference in pairs]
    return {name: np.round(influences(metric, sources), _DIGITS)
            for name, metric in _statistics(planned, hypotheses, references, told).items()}


def _pairs(planned: Planned, test: str, count: int) -> list[tuple[str, str]]:
    if test == "test":
        pairs = iter(open_splits(planned.config, planned.folder)["test"])
        if planned.config.task == "classification":  # as `pellucid evaluate`, which leaves out what has no label
            pairs = (pair for pair in pairs if pair[1])
        return list(islice(pairs, count + 1))
    out = planned.outcome.parent.parent
    sides = (path_of_test(out, test, side).read_text(encoding="utf-8").split("\n")[:-1]
             for side in ("source", "target"))
    return list(zip(*sides, strict=True))


def _statistics(planned: Planned, hypotheses: Sequence[str], references: Sequence[str], scored: Collection[str],
                ) -> dict[str, SentenceStatistics]:
    if planned.config.task == "classification":
        return classification_statistics(hypotheses, references, sorted({*hypotheses, *references}))
    return translation_statistics(hypotheses, references, [name for name in SCORES if name in scored])
