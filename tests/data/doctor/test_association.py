"""What belongs together is learned from pairs alone, and scored as the equation says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pellucid.data.doctor.association import FREQUENT, SIZE, Association, Vocabulary, bags, learn, words

Lines = tuple[list[str], list[str]]
MakeUp = Callable[[int, int], Lines]
Translate = Callable[[str], str]


def learned(lines: Lines) -> Association:
    return learn([([words(a) for a in lines[0]], [words(b) for b in lines[1]])])


def test_words_are_lower_case_marks_apart_and_each_once() -> None:
    assert words("The cat's THE cat, 12!") == ["the", "cat", "'", "s", ",", "12", "!"]
    assert words("日本 ok 日") == ["日", "本", "ok"]
    assert words("") == []


def test_rare_words_share_buckets_on_both_sides_and_numbers_have_their_own() -> None:
    ids = Vocabulary({"the": 0})
    assert ids["the"] == 0
    assert FREQUENT <= ids["2026"] < FREQUENT + 256 <= ids["Zanzibar"] < SIZE
    assert ids["Zanzibar"] == Vocabulary({})["Zanzibar"]
    assert dict(ids) == {"the": 0, "2026": ids["2026"], "Zanzibar": ids["Zanzibar"]}


def test_every_word_finds_its_translation(made_up: MakeUp, translate: Translate) -> None:
    association = learned(made_up(800, 1))
    target = list(association.target_ids)
    for name, number in association.source_ids.items():
        assert target[association.partner[number]] == translate(name)
    assert association.power > 0.99


def test_translations_are_found_though_every_pair_has_slipped_by_two(made_up: MakeUp, translate: Translate) -> None:
    source, target = made_up(800, 1)
    association = learned((source[:-2], target[2:]))
    names = list(association.target_ids)
    right = [names[association.partner[number]] == translate(name) for name, number in association.source_ids.items()]
    assert np.mean(right) > 0.95


def test_sides_that_have_nothing_to_do_with_each_other_have_no_power(made_up: MakeUp) -> None:
    assert learned((made_up(600, 1)[0], made_up(600, 2)[1])).power == pytest.approx(0.5, abs=0.1)


def test_scores_are_the_sum_that_the_equation_gives(made_up: MakeUp, translate: Translate) -> None:
    """Against the same in plain loops, the term of the lengths taken off by comparing lines of equal lengths."""
    source, target = made_up(400, 3)
    association = learned((source, target))
    some = list(association.source_ids)[:5]
    a = [words(" ".join(some)), words(f"{some[0]} 7 {some[1]} unheard of"), words("")]
    b = [words(translate(" ".join(some))), words(f"{translate(some[0])} 7 x y z"), words("q w e r t")]
    left, right = bags(a, association.source_ids), bags(b, association.target_ids)
    scores = association.scores(left, right, (-1, 0, 1))
    mean, near, far = association.ratio
    for i, line in enumerate(a):
        for column, offset in enumerate((-1, 0, 1)):
            j = i + offset
            if not 0 <= j < 3 or not line:
                assert scores[i, column] == 0
                continue
            there = {association.target_ids[w] for w in b[j]}
            ids = [association.source_ids[w] for w in line]
            total = sum(association.hit[f] if association.partner[f] in there else association.miss[f] for f in ids)
            ratio = np.log((len(b[j]) + 1) / (len(line) + 1)) - mean
            total += max(np.log(far / near) - ratio**2 / 2 * (near**-2 - far**-2), -4)
            assert scores[i, column] == pytest.approx(np.clip(total, -15, 15), abs=1e-3)
