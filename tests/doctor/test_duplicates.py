"""Repeats and leaks are counted exactly; beyond the bound, estimated."""

from __future__ import annotations

import pytest

from pellucid.doctor.duplicates import Leaks, Seen, leaks


def seen(*pairs: tuple[str, str], most: int = 1000) -> Seen:
    found = Seen(most)
    found.add(range(1, len(pairs) + 1), [a for a, _ in pairs], [b for _, b in pairs])
    return found


def test_repeats_by_hand() -> None:
    found = seen(("a b", "x"), ("c", "y"), ("a b", "x"), ("A b!", "x"), ("a b", "z"))
    assert found.repeated() == ([3], [4], 1.0)


def test_leaks_by_hand() -> None:
    training = seen(("one two", "eins zwei"), ("three", "drei"), ("four", "vier"))
    held_out = seen(("three", "drei"), ("One, two.", "Eins zwei"), ("four", "quatre"), ("five", "fünf"))
    assert leaks(held_out, training) == Leaks([1], [2], [3], 1.0)


def test_beyond_the_bound_a_part_is_held_and_counts_are_scaled() -> None:
    pairs = [(f"line {i % 3000}", "x") for i in range(6000)]
    found = Seen(1000)
    for start in range(0, 6000, 500):
        part = pairs[start : start + 500]
        found.add(range(start, start + 500), [a for a, _ in part], [b for _, b in part])
        assert found.rows.shape[1] <= 1000
    exact, normal, rate = found.repeated()
    assert rate == 1 / 8
    assert len(exact) / rate == pytest.approx(3000, rel=0.15)
    assert not normal
    inside = leaks(seen(*[(f"line {i}", "x") for i in range(400)]), found)
    assert len(inside.exact) / inside.rate == pytest.approx(400, rel=0.35)
