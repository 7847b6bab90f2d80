"""What a run is too short for is told; nothing is, where it is long enough."""

from __future__ import annotations

from typing import Any

import pytest

from pellucid.ablate.ablate import too_short_for
from pellucid.ablate.cells import cells_of
from pellucid.ablate.study import read_study
from pellucid.config import TrainConfig
from pellucid.config.lengths import too_short
from pellucid.config.mapping import from_mapping
from pellucid.recipes import read_recipe, recipe_names
from pellucid.studies import study_names


@pytest.mark.parametrize(("keys", "steps", "told"), [
    ({"warmup_steps": 2000}, 400, "ends within its warm-up: 400 updates, and train.warmup_steps is 2,000"),
    ({"warmup_steps": 400}, 400, "rises to 100 % of its peak"),
    ({"warmup_steps": 0, "validate_every": 500}, 400, "the only validation is the one at the end"),
    ({"warmup_steps": 0, "validate_every": None}, 99, "an epoch, after which is validated, is 100"),
    ({"warmup_steps": 500, "patience": 10}, 5500, "train.patience 10 cannot end the run early: 9 validations"),
    ({"warmup_steps": 0, "patience": 2}, 1500, "train.patience 2 cannot end the run early: 1 validations"),
    ({"warmup_steps": 0, "average_last": 5}, 2000, "train.average_last 5 finds 4 validations"),
    ({"warmup_steps": 0, "validate_every": 10}, 99, "training losses make no curve"),
])
def test_too_short(keys: dict[str, Any], steps: int, told: str) -> None:
    found = too_short(TrainConfig(**keys), steps, 100)
    assert len([text for text in found if told in text]) == 1


@pytest.mark.parametrize(("keys", "steps"), [
    ({"warmup_steps": 2000}, 2001), ({"warmup_steps": 0, "validate_every": 500}, 500),
    ({"warmup_steps": 500, "patience": 10}, 6000), ({"warmup_steps": 500, "patience": 2}, 1550),
    ({"warmup_steps": 0, "average_last": 5}, 2001),
    ({"warmup_steps": 0, "validate_every": 10}, 100)])
def test_long_enough(keys: dict[str, Any], steps: int) -> None:
    assert too_short(TrainConfig(**keys), steps, 100) == []


def test_what_ships_is_long_enough() -> None:
    for name in recipe_names():
        train = from_mapping(read_recipe(name).mapping).train
        assert train.epochs is not None or too_short(train, train.steps) == [], name
    for name in study_names():
        study = read_study(name, {})
        cells = cells_of(study)
        assert not study.budget.steps or too_short_for(cells, [study.budget.steps] * len(cells)) == [], name


def test_cells_that_are_too_short_are_named_where_others_are_not() -> None:
    cells = cells_of(read_study("components", {}))[:2]
    steps = [10_000, 10]
    assert all(text.endswith(f"({cells[1].label})") for text in too_short_for(cells, steps))
    assert all("(" not in text for text in too_short_for(cells, [10, 10]))
