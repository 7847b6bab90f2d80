"""Scores of predicted labels: accuracy and macro-F1; and the confusion table.

A label's ``F1 = 2·hits / (predicted + true)``. Macro-F1 is the mean F1 of the labels that occur among the true or the
predicted, as scikit-learn has it.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pellucid.evaluate.intervals import Bounds, design_effect
from pellucid.evaluate.macro_f1 import macro_f1_interval
from pellucid.evaluate.significance import SentenceStatistics, Sums, mean_percentage, share_interval
from pellucid.language import columns, padded


def classification_statistics(
        predicted: Sequence[str], true: Sequence[str], labels: Sequence[str]) -> dict[str, SentenceStatistics]:
    """Per-sentence statistics of `accuracy` and `macro_f1`. Two systems are tested by the macro-F1 of the true labels,
    which are the same for both and in every resample.

    Args:
        predicted, true: n labels each.
        labels: every label there is, once, in the order of the tables; those that never occur count for nothing.

    Raises:
        ValueError: if the counts differ or are zero, or a label is unknown or listed twice.
    """
    predictions, truths = _places(predicted, true, labels)
    n, every = len(truths), np.arange(len(truths))
    hit = (predictions == truths).astype(np.float64)
    # A sentence's row for macro-F1 is [hits, predicted, true], each with one place a label.
    table = np.zeros((n, 3, len(labels)))
    table[every, 0, truths] = hit
    table[every, 1, predictions] = 1
    table[every, 2, truths] = 1
    true_labels = np.unique(truths)

    def over_true_labels(sums: Sums) -> float:
        return float(_f1(sums)[true_labels].mean())

    return {"accuracy": SentenceStatistics("accuracy", np.stack([hit, np.ones(n)], axis=1), mean_percentage,
                                           share_interval),
            "macro_f1": SentenceStatistics("macro_f1", table.reshape(n, -1), _macro_f1, _macro_f1_interval,
                                           tested=over_true_labels, is_smooth=False)}


def confusion_table(predicted: Sequence[str], true: Sequence[str], labels: Sequence[str]) -> NDArray[np.int64]:
    """Counts of sentences ``[true, predicted]`` in the order of `labels`; errors as in `classification_statistics`."""
    predictions, truths = _places(predicted, true, labels)
    table = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(table, (truths, predictions), 1)
    return table


def confusion_text(table: NDArray[np.int64], labels: Sequence[str]) -> str:
    """The confusion table as aligned text: a row for each true label, a column for each predicted one."""
    rows = [["true \\ predicted", *labels]]
    rows += [[label, *map(str, counts)] for label, counts in zip(labels, table.tolist(), strict=True)]
    widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [padded(first, widths[0])]
        cells += [" " * (width - columns(cell)) + cell for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join(cells))
    return "\n".join(lines)


def _places(
    predicted: Sequence[str], true: Sequence[str], labels: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each label's place in `labels`, after all the checks: (predicted ``[n]``, true ``[n]``)."""
    if len(predicted) != len(true):
        raise ValueError(f"{len(predicted)} predicted labels but {len(true)} true ones")
    if len(true) == 0:
        raise ValueError("0 predicted and 0 true labels: there is nothing to score")
    place = {label: i for i, label in enumerate(labels)}
    if len(place) != len(labels):
        raise ValueError(f"a label is listed twice among {list(labels)}")
    for kind, column in (("predicted", predicted), ("true", true)):
        for i, label in enumerate(column):
            if label not in place:
                raise ValueError(f"{kind} label {label!r} of sentence {i + 1} is not one of {list(labels)}")
    return np.array([place[label] for label in predicted]), np.array([place[label] for label in true])


def _f1(sums: Sums) -> NDArray[np.float64]:
    """Of each label, in 0 to 100; 0 of one that does not occur."""
    hits, predictions, truths = sums.reshape(3, -1)
    whole = predictions + truths
    return np.divide(200.0 * hits, whole, out=np.zeros_like(hits), where=whole > 0)


def _macro_f1(sums: Sums) -> float:
    return float(_f1(sums)[sums.reshape(3, -1)[1:].sum(axis=0) > 0].mean())


def _macro_f1_interval(metric: SentenceStatistics) -> Bounds:
    _, predicted, true = metric.statistics.reshape(len(metric.statistics), 3, -1).transpose(1, 0, 2)
    hits, _, rows = metric.by_source.reshape(len(metric.by_source), 3, -1).sum(axis=2).T
    return macro_f1_interval(true.T @ predicted / design_effect(hits, rows))
