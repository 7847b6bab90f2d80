"""Labels by hand."""

from __future__ import annotations

from collections import Counter

from pellucid.doctor.labels import Labels, misspelt


def test_misspelt_labels_are_rare_and_close_to_a_frequent_one() -> None:
    counts = Counter({"positive": 500, "negative": 450, "postive": 3, "Negative": 2, "negative ": 1, "neutral": 20,
                      "0": 400, "1": 5})
    assert misspelt(counts) == {"postive": "positive", "Negative": "negative", "negative ": "negative"}
    assert misspelt(Counter({"positive": 10, "postive": 9})) == {}


def test_one_text_with_two_labels() -> None:
    labels = Labels()
    labels.add([2, 3, 4], ["A fine film", "bad", "a fine film!"], ["good", "bad", "bad"])
    labels.add([5, 6], ["Bad.", "a fine film"], ["bad", "good"])
    assert labels.conflicts() == [4]
    assert labels.counts == {"good": 2, "bad": 3}
    assert labels.first["bad"] == [3, 4, 5]
    assert not Labels().conflicts()
