"""Generated tasks: each pair obeys its rule, splits share no line, sizes and lengths are as asked."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter

import pytest

from pellucid.config import Generated, Task
from pellucid.data.generated.tasks import CLASSIFICATION, TASKS, generate
from pellucid.errors import ConfigError

SMALL = Generated(train=400, validation=60, test=70, symbols=7, min_length=3, max_length=6)
NUMBER_TASKS = [name for name in TASKS if name not in ("grammar", "documents")]


def kind_of(name: str) -> Task:
    return "classification" if name in CLASSIFICATION else "seq2seq"


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(" ")]


@pytest.mark.parametrize("name", NUMBER_TASKS)
def test_sizes_symbols_and_lengths_are_as_asked(name: str) -> None:
    made = generate(dataclasses.replace(SMALL, task=name), kind_of(name), 1)
    assert {split: len(pairs) for split, pairs in made.items()} == {"train": 400, "validation": 60, "test": 70}
    lines = [numbers(a) for pairs in made.values() for a, _ in pairs]
    assert {n for line in lines for n in line} == set(range(1, 8))
    lengths = Counter(map(len, lines))
    assert set(lengths) == {3, 4, 5, 6}
    assert all(0.6 < count / (530 / 4) < 1.4 for count in lengths.values())


@pytest.mark.parametrize("name", NUMBER_TASKS)
def test_held_out_lines_are_in_no_other_split(name: str) -> None:
    made = generate(dataclasses.replace(SMALL, task=name), kind_of(name), 1)
    train, validation, test = ({a for a, _ in made[split]} for split in ("train", "validation", "test"))
    assert not train & test
    assert not train & validation
    assert not validation & test
    assert len(test) == 70
    assert len(validation) == 60


@pytest.mark.parametrize("name", NUMBER_TASKS)
def test_the_seed_decides(name: str) -> None:
    asked = dataclasses.replace(SMALL, task=name)
    assert generate(asked, kind_of(name), 1) == generate(asked, kind_of(name), 1)
    assert generate(asked, kind_of(name), 1) != generate(asked, kind_of(name), 2)


@pytest.mark.parametrize("name", NUMBER_TASKS)
def test_the_test_does_not_change_with_the_size_of_training(name: str) -> None:
    few, many = (generate(dataclasses.replace(SMALL, task=name, train=n), kind_of(name), 1) for n in (10, 300))
    assert few["test"] == many["test"]
    assert few["validation"] == many["validation"]


@pytest.mark.parametrize(("name", "rule"), [("copy", list), ("reverse", lambda n: n[::-1]), ("sort", sorted)])
def test_targets_obey_the_rule(name: str, rule: type[list[int]]) -> None:
    made = generate(dataclasses.replace(SMALL, task=name), "seq2seq", 3)
    assert all(numbers(b) == rule(numbers(a)) for pairs in made.values() for a, b in pairs)


@pytest.mark.parametrize("symbols", [3, 1000])
def test_a_label_says_whether_two_neighbours_are_equal(symbols: int) -> None:
    asked = Generated("adjacent_duplicates", 101, 12, 10, symbols=symbols, min_length=5, max_length=9)
    for pairs in generate(asked, "classification", 1).values():
        for text, label in pairs:
            assert label == str(int(any(a == b for a, b in itertools.pairwise(text.split()))))
        assert sum(label == "1" for _, label in pairs) == len(pairs) // 2
        assert pairs != sorted(pairs, key=lambda pair: pair[1])


def test_lines_without_equal_neighbours_are_drawn_evenly() -> None:
    asked = Generated("adjacent_duplicates", 6000, 1, 1, symbols=4, min_length=3, max_length=3)
    made = generate(asked, "classification", 1)["train"]
    counts = Counter(text for text, label in made if label == "0")
    assert len(counts) == 4 * 3 * 3 - 2  # all but those of validation and test
    assert max(counts.values()) < 1.6 * min(counts.values())


def test_every_length_is_left_for_training() -> None:
    made = generate(Generated("copy", 500, 100, 100, symbols=4, min_length=1, max_length=6), "seq2seq", 1)
    assert {len(a.split()) for a, _ in made["train"]} == {1, 2, 3, 4, 5, 6}


def test_of_any_length_half_of_the_lines_are_held_out_at_most() -> None:
    made = generate(Generated("copy", 50, 4, 3, symbols=2, min_length=1, max_length=3), "seq2seq", 1)
    held_out = Counter(len(a.split()) for name in ("validation", "test") for a, _ in made[name])
    assert held_out == {1: 1, 2: 2, 3: 4}


def test_a_space_that_is_too_small_is_refused() -> None:
    with pytest.raises(ConfigError, match="40 different lines") as caught:
        generate(Generated("copy", 10, 20, 20, symbols=3, min_length=1, max_length=3), "seq2seq", 1)
    assert "39 lines" in caught.value.why
    full = generate(Generated("copy", 10, 10, 8, symbols=3, min_length=1, max_length=3), "seq2seq", 1)
    assert len(full["test"]) == 8  # 1 + 4 + 13 lines may be held out: all of them are
    with pytest.raises(ConfigError, match="two numbers"):
        generate(Generated("adjacent_duplicates", min_length=1), "classification", 1)


def test_names_and_kinds_are_checked() -> None:
    with pytest.raises(ConfigError, match="no generated task") as caught:
        generate(Generated("revers"), "seq2seq", 1)
    assert "did you mean reverse?" in caught.value.fix
    with pytest.raises(ConfigError, match="is classification"):
        generate(Generated("adjacent_duplicates"), "seq2seq", 1)
    with pytest.raises(ConfigError, match="is seq2seq"):
        generate(Generated("copy"), "classification", 1)


def test_the_grammar_gives_what_is_asked() -> None:
    made = generate(Generated("grammar", 200, 20, 30), "seq2seq", 1)
    assert {split: len(pairs) for split, pairs in made.items()} == {"train": 200, "validation": 20, "test": 30}
    assert not {a for a, _ in made["train"]} & {a for a, _ in made["test"]}
