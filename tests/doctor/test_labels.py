"""Labels by hand."""

from __future__ import annotations

from collections import Counter

from pellucid.data.tokenizers.build import MAX_LABELS
from pellucid.doctor.labels import Labels, misspelt


def test_misspelt_labels_are_rare_and_close_to_a_frequent_one() -> None:
    counts = Counter({"positive": 500, "negative": 450, "postive": 3, "Negative": 2, "negative ": 1, "neutral": 20,
                      "0": 400, "1": 5})
    assert misspelt(counts) == {"postive": "positive", "Negative": "negative", "negative ": "negative"}
    assert misspelt(Counter({"positive": 10, "postive": 9})) == {}
    assert misspelt(Counter({"pos": 9, "pos ": 9, "Pos": 9, " ": 9, "": 9, "so  so": 5, "so so": 4})) == {
        "pos ": "pos", "so so": "so  so"}
    assert misspelt(Counter({"grade-1": 500, "grade-2": 3, "Grade-1": 2})) == {"Grade-1": "grade-1"}


def test_as_many_labels_as_a_classifier_may_have_are_labels() -> None:
    labels = Labels()
    names = [str(i) for i in range(MAX_LABELS)]
    labels.count(list(range(MAX_LABELS)), names)
    assert not labels.are_texts
    labels.count([MAX_LABELS], ["one more"])
    assert labels.are_texts


def test_labels_are_counted_and_where_they_stand() -> None:
    labels = Labels()
    labels.count([2, 3, 4], ["good", "bad", "bad"])
    labels.count([5, 6], ["bad", "good"])
    assert labels.counts == {"good": 2, "bad": 3}
    assert labels.first["bad"] == [3, 4, 5]


def test_one_text_with_two_labels() -> None:
    labels = Labels()
    labels.compare([2, 3, 4], ["A fine film", "bad", "a fine film!"], ["good", "bad", "bad"])
    labels.compare([5, 6], ["Bad.", "a fine film"], ["bad", "good"])
    assert (labels.conflicts(), labels.compared) == ([4], 5)
    assert not Labels().conflicts()
