"""Scores: the equation computed by hand, bm25s on its own, and the best passages without looking at all of them."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import bm25s
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.retrieve import bm25, postings
from pellucid.retrieve.bm25 import K1, B, Scores
from pellucid.retrieve.postings import Postings
from pellucid.retrieve.terms import distinct_terms, terms_of

TEXTS = ["a cat and a dog", "a cat, a cat", "the dog sleeps all day long", "天地玄黃，宇宙洪荒。", "天地人", "no more"]
QUESTIONS = ["cat", "a dog", "天地", "天", "the cat and the dog sleep", "unheard", "，", "cat cat cat", "宇宙 dog"]


def scores_of(texts: list[str], folder: Path, at_once: int) -> Scores:
    """Made in runs of so many passages."""
    scratch = folder / "runs"
    scratch.mkdir(parents=True)
    made = Postings(scratch)
    for start in range(0, len(texts), at_once):
        made.add(texts[start : start + at_once])
    made.write(folder)
    arrays = {name: np.load(folder / f"{name}.npy") for name in ("terms", "bounds", "passages", "scores", "peaks")}
    return Scores(**arrays, count=len(texts))


def by_hand(texts: list[str], question: str) -> list[float]:
    """The equation, passage by passage, in double precision."""
    bags = [Counter(terms_of([text])[0].tolist()) for text in texts]
    average = sum(bag.total() for bag in bags) / len(bags)
    sums = []
    for bag in bags:
        total = 0.0
        for term in distinct_terms(question).tolist():
            holders = sum(term in other for other in bags)
            weight = math.log(1 + (len(bags) - holders + 0.5) / (holders + 0.5))
            total += weight * bag[term] / (bag[term] + K1 * (1 - B + B * bag.total() / average))
        sums.append(total)
    return sums


def test_a_term_may_stand_more_often_than_its_frequency_has_numbers_for(tmp_path: Path) -> None:
    texts = ["cat " * 70_000, "a cat"]
    scores, expected = scores_of(texts, tmp_path, 1), by_hand(texts, "cat")
    assert dict(scores.best(distinct_terms("cat"), 2)) == {0: pytest.approx(expected[0], rel=1e-5),
                                                           1: pytest.approx(expected[1], rel=1e-5)}


@pytest.mark.parametrize("at_once", [1, 2, 6])
def test_scores_are_the_equation_computed_by_hand(at_once: int, tmp_path: Path) -> None:
    scores = scores_of(TEXTS, tmp_path, at_once)
    for question in QUESTIONS:
        expected = by_hand(TEXTS, question)
        found = dict(scores.best(distinct_terms(question), len(TEXTS)))
        assert found.keys() == {number for number, score in enumerate(expected) if score > 0}
        for number, score in found.items():
            assert score == pytest.approx(expected[number], rel=1e-5)


def test_one_score_in_figures(tmp_path: Path) -> None:
    """Two passages, "x x y" and "y": of the term x, one passage of two has it, twice among three terms; average 2."""
    (number, score), = scores_of(["x x y", "y"], tmp_path, 2).best(distinct_terms("x"), 2)
    assert number == 0
    assert score == pytest.approx(math.log(2) * 2 / (2 + 1.2 * (0.25 + 0.75 * 3 / 2)), rel=1e-6)
    (_, score), = scores_of(["x", "y"], tmp_path / "shorter", 2).best(distinct_terms("x"), 2)
    assert score == pytest.approx(math.log(2) / (1 + 1.2), rel=1e-6)


def test_the_peak_of_a_term_is_its_highest_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower ones would lose passages of an index that is large enough to be searched by them."""
    monkeypatch.setattr(postings, "_AT_ONCE", 4)
    made = scores_of(TEXTS, tmp_path, 2)
    assert made.peaks.tolist() == [made.scores[begin:end].max() for begin, end in itertools.pairwise(made.bounds)]


def test_bm25s_gives_the_same_on_its_own(tmp_path: Path) -> None:
    bags = [[str(term) for term in terms_of([text])[0]] for text in TEXTS]
    theirs = bm25s.BM25(method="lucene", k1=K1, b=B)
    theirs.index(bags, show_progress=False)
    ours = scores_of(TEXTS, tmp_path, 3)
    for question in QUESTIONS[:5]:
        expected = theirs.get_scores([str(term) for term in distinct_terms(question)])
        for number, score in ours.best(distinct_terms(question), len(TEXTS)):
            assert score == pytest.approx(float(expected[number]), rel=1e-5)


def test_of_equal_scores_those_that_come_first(tmp_path: Path) -> None:
    scores = scores_of(["b", "a b", "a b", "c", "a b"] * 500, tmp_path, 1000)
    assert [number for number, _ in scores.best(distinct_terms("a b"), 4)] == [1, 2, 4, 6]


@pytest.mark.parametrize("at_once", [3, 10**6])
def test_ranges_of_terms_change_nothing(at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = scores_of(TEXTS, tmp_path / "whole", 6)
    monkeypatch.setattr(postings, "_AT_ONCE", at_once)
    parts = scores_of(TEXTS, tmp_path / "parts", 2)
    for name in ("terms", "bounds", "passages", "scores", "peaks"):
        assert np.array_equal(getattr(whole, name), getattr(parts, name)), name


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 40), alike=st.booleans())
def test_the_best_are_those_of_all_sums(seed: int, k: int, alike: bool) -> None:
    """Whatever is left out on the way: terms that most passages have, blocks whose highest sum is low. To the bit, with
    terms that nothing has between those that something has, and of equal sums the first."""
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 3000))
    holders = [np.flatnonzero(random.random(count) < share) for share in random.random(12) ** 3]
    holders = [each if len(each) else np.array([0]) for each in holders]
    scales = np.float32(9) * random.random(12, np.float32) ** 2
    values = [(random.integers(1, 4, len(each)) if alike else random.random(len(each))).astype(np.float32) * scale
              for each, scale in zip(holders, np.ceil(scales) if alike else scales, strict=True)]
    peaks = np.array([each.max() for each in values])
    scores = Scores(2 * np.arange(12, dtype=np.uint64), np.append(0, np.cumsum([len(each) for each in holders])),
                    np.concatenate(holders).astype(np.int32), np.concatenate(values), peaks, count)
    asked = np.sort(random.choice(26, size=int(random.integers(1, 20)), replace=False))
    known = asked[(asked % 2 == 0) & (asked < 24)] // 2
    sums = np.zeros(count, np.float32)
    for term in known[np.argsort(-peaks[known], kind="stable")]:
        sums[holders[term]] += values[term]
    order = np.lexsort((np.arange(count), -sums))
    expected = [(int(number), float(sums[number])) for number in order[:k] if sums[number] > 0]
    assert scores.best(asked.astype(np.uint64), k) == expected
    with pytest.MonkeyPatch.context() as patch:  # of a thousand passages, what is done for a million
        patch.setattr(bm25, "_FEW", 0)
        patch.setattr(bm25, "_BLOCK", 16)
        assert replace(scores).best(asked.astype(np.uint64), k) == expected


def test_the_kth_sum_is_found_by_blocks() -> None:
    values = np.random.default_rng(1).random(5120).astype(np.float32)
    values[5000:] = 0
    for k in (1, 4, 5, 10, 11, 100, 5000):
        assert bm25._Sums(values).kth(k) == np.sort(values)[-k]
    assert bm25._Sums(values).kth(5001) == 0
