"""Classification scores: by hand, against plain counting, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.evaluate.classification import classification_statistics, confusion_table, confusion_text
from pellucid.evaluate.significance import approximate_randomisation, as_report, corpus_score, paired_bootstrap

LABELS = ["bad", "fair", "good"]
TRUE = ["bad", "bad", "bad", "fair", "good", "good"]
PREDICTED = ["bad", "bad", "good", "good", "good", "bad"]
COLUMNS = st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS)), min_size=1, max_size=30)


def scores_of(predicted: list[str], true: list[str], labels: list[str]) -> dict[str, Any]:
    return as_report(classification_statistics(predicted, true, labels))


def test_by_hand() -> None:
    scores = scores_of(PREDICTED, TRUE, LABELS)
    assert scores["accuracy"] == pytest.approx(50)
    assert scores["macro_f1"] == pytest.approx((200 / 3 + 0 + 40) / 3)
    assert confusion_table(PREDICTED, TRUE, LABELS).tolist() == [[2, 0, 1], [0, 0, 1], [1, 0, 1]]


def test_labels_that_never_occur_do_not_lower_macro_f1() -> None:
    scores = scores_of(["a", "b"], ["a", "b"], ["a", "b", "never"])
    assert (scores["accuracy"], scores["macro_f1"]) == (100.0, 100.0)
    assert all(high == 100 for _, high in scores["interval"].values())


def test_a_label_that_is_only_predicted_counts_as_zero() -> None:
    # a: 1 hit of 1 predicted and 2 true, F1 = 2/3; b: never true, F1 = 0.
    scores = scores_of(["a", "b"], ["a", "a"], ["a", "b"])
    assert scores["macro_f1"] == pytest.approx(100 / 3)


@given(COLUMNS)
@settings(max_examples=60, deadline=None)
def test_scores_follow_from_the_confusion_table(pairs: list[tuple[str, str]]) -> None:
    predicted, true = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    scores = scores_of(predicted, true, LABELS)
    table = confusion_table(predicted, true, LABELS)
    assert table.dtype == np.int64
    for i, label_true in enumerate(LABELS):
        for j, label_predicted in enumerate(LABELS):
            assert table[i, j] == pairs.count((label_predicted, label_true))
    assert scores["accuracy"] == pytest.approx(100 * table.trace() / table.sum())
    f1 = []
    for i in range(len(LABELS)):
        marginals = table[i].sum() + table[:, i].sum()
        if marginals:
            f1.append(200 * table[i, i] / marginals)
    assert scores["macro_f1"] == pytest.approx(sum(f1) / len(f1))
    for low, high in scores["interval"].values():
        assert 0 <= low <= high <= 100


@given(COLUMNS, st.permutations(LABELS))
@settings(max_examples=30, deadline=None)
def test_the_order_of_the_labels_changes_no_score(pairs: list[tuple[str, str]], labels: list[str]) -> None:
    predicted, true = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    scores = scores_of(predicted, true, LABELS)
    others = scores_of(predicted, true, labels)
    assert scores["accuracy"] == others["accuracy"]
    assert scores["macro_f1"] == pytest.approx(others["macro_f1"])


def test_two_classifiers_are_compared() -> None:
    generator = np.random.default_rng(0)
    true = [str(label) for label in generator.choice(LABELS, size=200)]
    poor, good = (classification_statistics(predicted, true, LABELS) for predicted in (["bad"] * 200, true))
    for name in ("accuracy", "macro_f1"):
        comparison = paired_bootstrap(good[name], poor[name], resamples=200)
        assert comparison.p < 0.01
        assert comparison.difference == pytest.approx(corpus_score(good[name]) - corpus_score(poor[name]))


def test_the_table_as_text() -> None:
    expected = "true \\ predicted  bad  fair  good\nbad                 2     0     1\n"
    expected += "fair                0     0     1\ngood                1     0     1"
    assert confusion_text(confusion_table(PREDICTED, TRUE, LABELS), LABELS) == expected


def test_chinese_labels_take_two_columns_a_character() -> None:
    text = confusion_text(np.array([[1000000, 2], [3, 4]]), ["好", "坏坏"])
    assert text.splitlines()[1:] == ["好                1000000     2", "坏坏                    3     4"]


@pytest.mark.parametrize(
    ("predicted", "true", "labels", "message"),
    [
        (["a"], ["a", "a"], ["a"], "1 predicted labels but 2 true ones"),
        ([], [], ["a"], "nothing to score"),
        (["a", "c"], ["a", "b"], ["a", "b"], "predicted label 'c' of sentence 2 is not one of"),
        (["a"], ["c"], ["a", "b"], "true label 'c' of sentence 1 is not one of"),
        (["a"], ["a"], ["a", "a"], "listed twice"),
    ],
)
def test_what_cannot_be_scored_is_refused(
    predicted: list[str], true: list[str], labels: list[str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        classification_statistics(predicted, true, labels)


def test_equal_classifiers_of_rare_labels_are_told_apart_in_one_of_twenty_at_most() -> None:
    """The paired bootstrap called a sixth of them different; what `evaluate` tells is the randomisation's p."""
    random = np.random.default_rng(4)
    labels = [str(i) for i in range(12)]
    share = np.array([0.375, 0.375, *[0.025] * 10])
    below = 0
    for seed in range(200):
        true = random.choice(12, 40, p=share)
        sides = [np.where(random.random(40) < 0.6, true, random.choice(12, 40, p=share)) for _ in range(2)]
        one, other = (classification_statistics([labels[i] for i in side], [labels[i] for i in true],
                                                labels)["macro_f1"] for side in sides)
        assert not one.is_smooth
        below += approximate_randomisation(one, other, trials=99, seed=seed) <= 0.05
    assert below / 200 <= 0.055 + 2 * 0.016
