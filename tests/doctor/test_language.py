"""Letters tell the sides apart, and what belongs to neither."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from pellucid.doctor.language import SCRIPTS, CharacterModel, Sides, letters_of

Lines = tuple[list[str], list[str]]
MakeUp = Callable[[int, int], Lines]


def test_trigrams_do_not_cross_lines() -> None:
    letters = letters_of(["abc", "", "abcd", "x"])
    assert letters.counts.tolist() == [3, 0, 4, 1]  # ⏎ab abc bc⏎; none; ⏎ab abc bcd cd⏎; ⏎x⏎
    assert letters.lines.tolist() == [0, 0, 0, 2, 2, 2, 2, 3]
    assert letters.trigrams[:2].tolist() == letters.trigrams[3:5].tolist()
    assert letters.trigrams[2] != letters.trigrams[5]


def test_the_order_of_characters_counts() -> None:
    trigrams = letters_of(["abc", "acb", "bac", "bca", "cab", "cba"]).trigrams
    assert len(set(trigrams.tolist())) == 18


def test_scripts() -> None:
    letters = letters_of(["Straße 7", "улица", "街道とか", "Σωκράτης", "123 …", "مرحبا"])
    named = [SCRIPTS[row[1:].argmax() + 1] if row[1:].any() else "" for row in letters.scripts]
    assert named == ["Latin", "Cyrillic", "Han or kana", "Greek", "", "Arabic"]


def test_the_probability_of_a_character_by_hand() -> None:
    """After ⏎a there was b, after ab there was ⏎, both twice."""
    model = CharacterModel.learn(letters_of(["ab", "ab"]))
    smooth = 0.5 * 0.5 + 0.5 / 200  # half of all are b, half are line ends
    seen, unseen = np.log((1 + smooth) / 2), np.log(0.5 / 200)  # of what is seen twice, once counts
    assert model.means(letters_of(["ab", "", "xy"])) == pytest.approx(
        [seen, 0, (unseen + np.log(smooth)) / 2], abs=1e-6)


def test_swapped_pairs_and_untranslated_ones(made_up: MakeUp) -> None:
    source, target = made_up(500, 1)
    sides = Sides.learn(source, target)
    assert sides.apart > 1
    assert [mask.any() for mask in sides.judge(letters_of(source), letters_of(target))] == [False] * 3
    swapped, one_side, strange = sides.judge(letters_of(target), letters_of(source))
    assert (swapped.all(), one_side.any(), strange.any()) == (True, False, False)
    swapped, one_side, strange = sides.judge(letters_of(source), letters_of(source))
    assert (swapped.any(), one_side.all(), strange.any()) == (False, True, False)


def test_two_sides_alike_are_never_swapped(made_up: MakeUp) -> None:
    source = made_up(500, 1)[0]
    sides = Sides.learn(source[:250], source[250:])
    assert sides.apart == 0
    assert not np.any(sides.judge(letters_of(source[250:]), letters_of(source[:250])))


def test_strangers_and_foreign_scripts(made_up: MakeUp) -> None:
    source, target = made_up(500, 1)
    sides = Sides.learn(source, target)
    lines = letters_of(["qwhx vyjc zzxq whcv qyxj", "московская улица", source[0], "12 34"])
    right = letters_of(target[:4])
    assert sides.judge(lines, right)[2].tolist() == [True, True, False, False]
    assert sides.strangers(lines).tolist() == [True, True, False, False]
    assert [SCRIPTS[i] for i in sides.foreign_script(lines, 0)] == ["", "Cyrillic", "", ""]


def test_a_block_is_told_as_a_whole_though_it_has_taught_the_models(made_up: MakeUp) -> None:
    source, target = made_up(2000, 1)
    draw = Random(1)
    words = ["".join(draw.choices("abdefgiklmnoprstu", k=5)) for _ in range(60)]
    source[200:250] = [" ".join(draw.choices(words, k=6)) for _ in range(50)]
    strange = Sides.learn(source, target).judge(letters_of(source), letters_of(target))[2]
    assert strange[200:250].all()
    assert not strange[:200].any()
    assert not strange[250:].any()
