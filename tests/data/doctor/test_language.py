"""Letters tell the sides apart, and what belongs to neither."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pellucid.data.doctor.language import SCRIPTS, Sides, letters_of

Lines = tuple[list[str], list[str]]
MakeUp = Callable[[int, int], Lines]


def test_trigrams_do_not_cross_lines() -> None:
    letters = letters_of(["abc", "", "abcd", "x"])
    assert letters.counts.tolist() == [3, 0, 4, 1]  # ⏎ab abc bc⏎; none; ⏎ab abc bcd cd⏎; ⏎x⏎
    assert letters.trigrams[:2].tolist() == letters.trigrams[3:5].tolist()
    assert letters.trigrams[2] != letters.trigrams[5]


def test_the_order_of_characters_counts() -> None:
    trigrams = letters_of(["abc", "acb", "bac", "bca", "cab", "cba"]).trigrams
    assert len(set(trigrams.tolist())) == 18


def test_scripts() -> None:
    letters = letters_of(["Straße 7", "улица", "街道とか", "Σωκράτης", "123 …", "مرحبا"])
    named = [SCRIPTS[row[1:].argmax() + 1] if row[1:].any() else "" for row in letters.scripts]
    assert named == ["Latin", "Cyrillic", "Han or kana", "Greek", "", "Arabic"]


def test_swapped_pairs_and_untranslated_ones(made_up: MakeUp) -> None:
    source, target = made_up(500, 1)
    sides = Sides.learn(source, target)
    assert sides.apart > 1
    right = sides.turned(letters_of(source), letters_of(target))
    assert not right[0].any()
    assert not right[1].any()
    swapped, one = sides.turned(letters_of(target), letters_of(source))
    assert swapped.all()
    assert not one.any()
    swapped, one = sides.turned(letters_of(source), letters_of(source))
    assert one.all()
    assert not swapped.any()


def test_two_sides_alike_are_never_swapped(made_up: MakeUp) -> None:
    source = made_up(500, 1)[0]
    sides = Sides.learn(source[:250], source[250:])
    assert sides.apart == 0
    assert not np.any(sides.turned(letters_of(source[250:]), letters_of(source[:250])))


def test_strangers_and_foreign_scripts(made_up: MakeUp) -> None:
    source, target = made_up(500, 1)
    sides = Sides.learn(source, target)
    lines = letters_of(["qwhx vyjc zzxq whcv qyxj", "московская улица", source[0], "12 34"])
    assert sides.strangers(lines, 0).tolist() == [True, True, False, False]
    assert [SCRIPTS[i] for i in sides.foreign_script(lines, 0)] == ["", "Cyrillic", "", ""]
    assert sides.strangers(letters_of(source), 0).mean() < 0.01
