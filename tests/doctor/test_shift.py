"""Where sides slipped is found to the line, wherever that is; the path is the best of all."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.doctor.association import learn
from pellucid.doctor.shift import CHANGE, LOST, ShiftDetector, Stretch, _viterbi, stretches_of
from pellucid.doctor.words import words_of

COUNT = 600
Lines = tuple[list[str], list[str]]
MakeUp = Callable[[int, int], Lines]


def detected(source: list[str], target: list[str], window: int = 8192) -> list[Stretch]:
    """The stretches of lines from which nothing but the lines themselves is known."""
    count = min(len(source), len(target))
    association = learn([(words_of(source[:count]), words_of(target[:count]))])
    detector = ShiftDetector(association)
    for start in range(0, count, window):
        part = slice(start, start + window)
        left = association.source_ids.ids(words_of(source[:count][part]))
        right = association.target_ids.ids(words_of(target[:count][part]))
        detector.add(np.arange(start, start + len(left)), left, right, np.zeros(len(left), dtype=np.bool_))
    return detector.stretches


@pytest.fixture(scope="module")
def clean(made_up: MakeUp) -> Lines:
    return made_up(COUNT, 5)


def test_a_clean_corpus_is_one_stretch(clean: Lines) -> None:
    assert detected(*clean) == [Stretch(0, COUNT, 0)]
    assert detected(*clean, window=200) == [Stretch(0, COUNT, 0)]


class TestOneSlip:
    """Anywhere but in the last few lines, which are too few to tell."""

    @settings(max_examples=8, deadline=None)
    @given(place=st.integers(10, COUNT - 20), many=st.integers(1, 4))
    def test_missing_in_the_source(self, made_up: MakeUp, place: int, many: int) -> None:
        source, target = made_up(COUNT, 5)
        first, second = detected(source[:place] + source[place + many :], target)
        assert (first.offset, second.offset) == (0, many)
        assert abs(second.first - place) <= 1

    @settings(max_examples=8, deadline=None)
    @given(place=st.integers(10, COUNT - 20), many=st.integers(1, 4))
    def test_missing_in_the_target(self, made_up: MakeUp, place: int, many: int) -> None:
        source, target = made_up(COUNT, 5)
        found = detected(source, target[:place] + target[place + many :])
        assert found[0].offset == 0
        assert found[-1].offset == -many
        assert abs(found[0].last - place) <= many + 1

    @settings(max_examples=6, deadline=None)
    @given(place=st.integers(COUNT // 2, COUNT - 250), many=st.integers(20, 90))
    def test_many_lines_missing(self, made_up: MakeUp, place: int, many: int) -> None:
        """The words are learned from the pairs before that place: so far off, the others teach nothing."""
        source, target = made_up(COUNT, 5)
        found = detected(source[:place] + source[place + many :], target)
        assert found[-1].offset == many
        assert abs(found[0].last - place) <= 2

    @settings(max_examples=6, deadline=None)
    @given(place=st.integers(20, COUNT - 100), length=st.integers(20, 60))
    def test_a_block(self, made_up: MakeUp, place: int, length: int) -> None:
        source, target = made_up(COUNT, 5)
        target.insert(place + length, target.pop(place))
        found = detected(source, target)
        assert [part.offset for part in found] == [0, -1, 0]
        assert abs(found[1].first - place) <= 2
        assert abs(found[1].last - place - length) <= 2


def test_slips_that_lie_in_different_windows_are_put_together(clean: Lines) -> None:
    source, target = clean
    found = detected(source[:150] + source[151:400] + source[401:], target, window=256)
    assert [part.offset for part in found] == [0, 1, 2]
    assert abs(found[1].first - 150) <= 1
    assert abs(found[2].first - 399) <= 1


def test_lines_that_nothing_fits_are_lost(made_up: MakeUp, clean: Lines) -> None:
    source, target = list(clean[0]), list(clean[1])
    target[200:300] = made_up(100, 77)[1]
    found = detected(source, target)
    assert [part.offset for part in found] == [0, LOST, 0]
    assert abs(found[1].first - 200) <= 2
    assert abs(found[1].last - 300) <= 2


@cache
def paths(length: int, states: int) -> list[tuple[int, ...]]:
    return list(itertools.product(range(states), repeat=length))


@given(st.lists(st.lists(st.floats(-60, 60), min_size=3, max_size=3), min_size=1, max_size=5), st.integers(0, 2))
def test_viterbi_finds_the_best_of_all_paths(rows: list[list[float]], begin: int) -> None:
    blocks = np.asarray(rows)

    def worth(path: tuple[int, ...]) -> float:
        changes = sum(a != b for a, b in itertools.pairwise((begin, *path)))
        return sum(row[state] for row, state in zip(rows, path, strict=True)) - CHANGE * changes

    best = max(map(worth, paths(len(rows), 3)))
    assert worth(tuple(_viterbi(blocks, begin).tolist())) == pytest.approx(best)


def test_stretches_by_hand() -> None:
    scores = np.full((40, 2), -5.0, dtype=np.float32)
    scores[:21, 0] = scores[21:, 1] = 5
    assert stretches_of(scores, (0, 1), 0) == [Stretch(0, 21, 0), Stretch(21, 40, 1)]
    scores[:, 1] = -5
    scores[21:24, 1] = 12  # three lines are too few
    scores[21:24, 0] = -12
    scores[24:, 0] = 5
    assert stretches_of(scores, (0, 1), 0) == [Stretch(0, 40, 0)]
