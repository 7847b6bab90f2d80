"""Span corruption: the paper's example, nothing is lost between source and target, and every place is as likely."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.config import TokenizerConfig
from pellucid.data import span_corruption
from pellucid.data.span_corruption import corrupt, corrupt_rows, draw_spans, sentinels_for, sizes
from pellucid.data.tokenizers import EOS, train_tokenizers
from pellucid.data.tokenizers.interface import FIRST_SENTINEL

texts = st.lists(st.integers(200, 300), min_size=0, max_size=120)
seeds = st.integers(0, 2**32)


def test_the_papers_example() -> None:
    text = "Thank you for inviting me to your party last week ."
    tokenizer = train_tokenizers(TokenizerConfig(kind="word", sentinels=3), [(text, text)], "seq2seq").source
    left, lost = corrupt(tokenizer.encode(text), [(2, 4), (8, 9)])
    assert tokenizer.decode(left) == "Thank you <extra_id_0> me to your party <extra_id_1> week ."
    assert tokenizer.decode(lost) == "<extra_id_0> for inviting <extra_id_1> last <extra_id_2>"


def test_first_and_last_tokens_by_hand() -> None:
    a, b, c = (FIRST_SENTINEL + i for i in range(3))
    assert corrupt([50, 51, 52, 53], [(0, 1), (2, 4)]) == ([a, 51, b], [a, 50, b, 52, 53, c])
    assert corrupt([50], [(0, 1)]) == ([a], [a, 50, b])
    assert corrupt([], []) == ([], [a])


@pytest.mark.parametrize(("length", "lost", "spans"), [(0, 0, 0), (1, 1, 1), (2, 1, 1), (10, 2, 1), (14, 2, 1),
                                                       (30, 4, 1), (34, 5, 2), (100, 15, 5), (511, 77, 26)])
def test_how_much_is_lost_by_hand(length: int, lost: int, spans: int) -> None:
    assert sizes(length) == (lost, spans)  # 15 % of the length, and a third of that, both rounded
    assert sentinels_for(length) == spans + 1


@settings(max_examples=300, deadline=None)
@given(length=st.integers(0, 600), seed=seeds)
def test_spans_are_as_many_and_as_long_as_they_should_be_with_something_between(length: int, seed: int) -> None:
    spans = draw_spans(length, Random(seed))
    assert (sum(stop - start for start, stop in spans), len(spans)) == sizes(length)
    assert all(start < stop for start, stop in spans)
    assert all(before[1] < after[0] for before, after in pairwise(spans))
    assert not spans or (spans[0][0] >= 0 and spans[-1][1] <= length)


@settings(max_examples=300, deadline=None)
@given(ids=texts, seed=seeds)
def test_source_and_target_together_are_the_text(ids: list[int], seed: int) -> None:
    ((left,), (lost,)) = corrupt_rows([[*ids, EOS]], [[EOS]], Random(seed))
    assert (left[-1], lost[-1]) == (EOS, EOS)
    spans: dict[int, list[int]] = {}
    for token in lost[:-1]:
        if token < 200:
            spans[token] = []
        else:
            spans[next(reversed(spans))].append(token)
    *sentinels, last = spans
    assert [*sentinels, last] == list(range(FIRST_SENTINEL, FIRST_SENTINEL + len(spans)))
    assert [token for token in left if token < 200] == [*sentinels, EOS]
    assert spans[last] == []
    assert len(spans) <= sentinels_for(len(ids))
    restored = [spans.get(token, [token]) for token in left[:-1]]
    assert [token for part in restored for token in part] == ids


def test_every_place_of_the_spans_is_as_likely(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = Random(0)
    one = Counter(draw_spans(4, draw)[0][0] for _ in range(4000))
    assert sorted(one) == [0, 1, 2, 3]
    assert all(900 < count < 1100 for count in one.values())  # 1000 each, and 27 is a standard deviation
    monkeypatch.setattr(span_corruption, "DENSITY", 0.5)
    monkeypatch.setattr(span_corruption, "MEAN_LENGTH", 1.5)
    assert sizes(6) == (3, 2)  # lost as 1 + 2 or 2 + 1, and the 3 others around and between them in C(4, 2) ways
    two = Counter(tuple(draw_spans(6, draw)) for _ in range(12_000))
    assert len(two) == 2 * 6
    assert all(880 < count < 1120 for count in two.values())  # 1000 each, and 30 is a standard deviation
