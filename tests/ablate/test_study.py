"""A study is read strictly, and its cells are what the factors say."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pellucid.ablate.agenda import Planned, pairs_of_test, plan, write_tests
from pellucid.ablate.cells import cells_of, key_of, with_seed, with_steps
from pellucid.ablate.outcome import Outcome
from pellucid.ablate.study import Budget, Study
from pellucid.cli.arguments import split_overrides
from pellucid.config.mapping import from_mapping, to_mapping
from pellucid.config.reader import merge
from pellucid.errors import ConfigError
from pellucid.recipes import read_recipe

Make = Callable[..., Study]


def labels(study: Study) -> list[str]:
    return [cell.label for cell in cells_of(study)]


def test_a_grid_has_every_combination(study: Make) -> None:
    cells = cells_of(study())
    assert [cell.label for cell in cells] == [
        "position sinusoidal, narrow", "position sinusoidal, wide", "position none, narrow", "position none, wide"]
    assert [(cell.config.model.position, cell.config.model.d_ff) for cell in cells] == [
        ("sinusoidal", 24), ("sinusoidal", 48), ("none", 24), ("none", 48)]
    assert [cell.is_baseline for cell in cells] == [True, False, False, False]
    assert {cell.baseline for cell in cells} == {cells[0].label}


def test_one_at_a_time_changes_one_thing(study: Make) -> None:
    assert labels(study({"design": "one_at_a_time"})) == ["baseline", "position none", "wide"]


def test_a_baseline_can_be_named(study: Make) -> None:
    made = study({"design": "one_at_a_time", "baseline": {"model.position": "none"}})
    assert labels(made) == ["baseline", "position sinusoidal", "wide"]
    assert cells_of(made)[0].config.model.position == "none"


def test_levels_that_are_called_the_same_are_told_with_their_factor(study: Make) -> None:
    twins = {"encoder": {"two": {}, "one": {"model.encoder_layers": 2}},
             "decoder": {"two": {}, "one": {"model.decoder_layers": 2}},
             "width": {"low": {}, "high": {"model.d_ff": 48}}}
    one_at_a_time = [cell.label for cell in cells_of(study({"factors": twins, "design": "one_at_a_time"}))]
    assert one_at_a_time == ["baseline", "encoder one", "decoder one", "high"]
    keys = {"train.precision": ["fp32", "bf16"], "decode.precision": ["fp32", "bf16"]}
    grid = [cell.label for cell in cells_of(study({"factors": keys}))]
    assert grid[3] == "train.precision bf16, decode.precision bf16"
    taken = {"encoder": {"two": {}, "baseline": {"model.encoder_layers": 2}}, "width": twins["width"]}
    with pytest.raises(ConfigError, match="two cells of the study are called baseline"):
        cells_of(study({"factors": taken, "design": "one_at_a_time"}))


@pytest.mark.parametrize("design", ["grid", "one_at_a_time"])
def test_within_a_factor_each_level_has_its_baseline(study: Make, design: str) -> None:
    cells = cells_of(study({"design": design, "within": ["width"]}))
    assert len(cells) == 4
    for cell in cells:
        (baseline,) = [other for other in cells if other.label == cell.baseline]
        assert baseline.levels == {"model.position": "sinusoidal", "width": cell.levels["width"]}
    assert sum(cell.is_baseline for cell in cells) == 2


def test_values_of_every_kind_are_levels(study: Make) -> None:
    made = study({"factors": {"train.clip_norm": [1.0, None], "train.betas": [[0.9, 0.98], [0.9, 0.999]]}})
    assert labels(made) == ["clip_norm 1.0, betas [0.9, 0.98]", "clip_norm 1.0, betas [0.9, 0.999]",
                            "clip_norm null, betas [0.9, 0.98]", "clip_norm null, betas [0.9, 0.999]"]


def test_what_a_study_gives_counts_whatever_stands_in_for_it_in_the_recipe(study: Make) -> None:
    """`copy` has batch_sentences."""
    made = study({"base": "copy", "common": {}, "factors": {"train.batch_tokens": [50, 60]}})
    assert [(cell.config.train.batch_tokens, cell.config.train.batch_sentences) for cell in cells_of(made)] == [
        (50, None), (60, None)]
    made = study({"base": "copy", "common": {}}, flags={"train": {"batch_tokens": 70}})
    assert {(cell.config.train.batch_tokens, cell.config.train.batch_sentences) for cell in cells_of(made)} == {
        (70, None)}


def test_flags_hold_for_all_cells_and_factors_stand_above_them(study: Make) -> None:
    made = study(flags={"model": {"d_ff": 8, "dropout": 0.3}})  # a bundle sets d_ff, another does not
    assert {cell.config.model.dropout for cell in cells_of(made)} == {0.3}
    assert [cell.config.model.d_ff for cell in cells_of(made)] == [8, 48, 8, 48]


@pytest.mark.parametrize(("over", "says"), [
    ({"sedes": [1]}, "did you mean seeds"), ({"design": "gird"}, "did you mean grid"),
    ({"factors": {"model.positon": ["none"]}}, "did you mean model.position"),
    ({"factors": {"a": {"b": {"model.n_head": 1}}}}, "did you mean model.n_heads"),
    ({"factors": {}}, "no factor"), ({"factors": {"model.n_heads": []}}, "needs levels"),
    ({"factors": {"model.n_heads": [1, 1]}}, "each once"), ({"factors": ["model.n_heads"]}, "must be a mapping"),
    ({"factors": {"model.n_heads": 2}}, "must be a mapping"), ({"tests": {"a b": {}}}, "letters, digits"),
    ({"factors": {"a": {"x": {}, "y": {"model.d_ff": 24}}}}, "two cells of the study are the same"),
    ({"factors": {"model.position": ["alibi"], "model.attention": ["full", "linear"]}}, "cannot be built"),
    ({"factors": {"model.position": ["sinusoidal", "rotry"]}}, "rotry"),
    ({"common": {"model.d_modle": 3}}, "did you mean model.d_model"),
    ({"budget": {}}, "exactly one"), ({"budget": {"steps": 2, "minutes": 1}}, "exactly one"),
    ({"budget": {"steps": 0}}, "above 0"), ({"budget": {"step": 3}}, "did you mean budget.steps"),
    ({"seeds": []}, "seeds must be"), ({"seeds": [1, 1]}, "seeds must be"), ({"seeds": ["one"]}, "whole number"),
    ({"metrics": []}, "metrics must be"), ({"metrics": ["seconds", "seconds"]}, "must be different"),
    ({"metrics": ["validation.los"]}, "did you mean validation.loss"),
    ({"metrics": ["validation.accuracy"]}, "unknown key"), ({"metrics": ["validation.exact"]}, "unknown key"),
    ({"factors": {"data.source_language": ["en", "de"]}}, "two cells of the study are the same"),
    ({"metrics": ["twice.exact"]}, "unknown key twice.exact"), ({"metrics": ["test.accuracy"]}, "unknown key"),
    ({"baseline": {"model.positions": "none"}}, "did you mean baseline.model.position"),
    ({"baseline": {"model.position": "rotary"}}, "choose sinusoidal, none"),
    ({"within": ["widht"]}, "did you mean width"), ({"base": "cop"}, "did you mean copy"),
    ({"metrics": ["twce.exact"], "tests": {"twice": {"max_length": 20}}}, "did you mean twice.exact"),
    ({"tests": {"twice": {"lenght": 3}}}, "unknown key"), ({"tests": {"test": {}}}, "neither test nor validation"),
    ({"tests": {"long": {"min_length": 12}}}, "max_length is below"),
    ({"tests": {"none": {"test": 0}}}, "out of range"),
    ({"common": {"data.train": "a.tsv"}}, "no test data"),
    ({"common": {"data.train": "a.tsv"}, "tests": {"twice": {}}}, "generated"),
])
def test_a_mistake_is_told(study: Make, over: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        cells_of(study(over))


def test_a_misspelt_key_is_named_and_not_the_one_that_is_missing_for_it(study: Make) -> None:
    with pytest.raises(ConfigError, match="did you mean metrics"):
        study({"metric": ["validation.loss"]}, without=("metrics",))


@pytest.mark.parametrize(("flags", "why"), [
    ({"seed": 3}, "the study says it for all runs"), ({"train": {"steps": 9}}, "the study says it for all runs"),
    ({"model": {"position": "none"}}, "the factor model.position varies it")])
def test_a_flag_that_no_cell_would_have_is_refused(study: Make, flags: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match="changes nothing here") as error:
        study(flags=flags)
    assert error.value.why == why


@pytest.mark.parametrize("key", ["base", "factors", "seeds", "budget", "metrics"])
def test_what_a_study_must_have(study: Make, key: str) -> None:
    with pytest.raises(ConfigError, match=f"no {key}"):
        study(without=(key,))


def test_a_key_belongs_to_the_configuration_and_not_to_the_place(study: Make) -> None:
    before = {cell.label: key_of(cell.config, study().budget) for cell in cells_of(study())}
    assert len(set(before.values())) == 4
    more = study({"factors": {"model.position": ["rotary", "none", "sinusoidal"],
                              "width": {"wider": {"model.d_ff": 96}, "wide": {"model.d_ff": 48}, "narrow": {}}},
                  "seeds": [1, 9], "metrics": ["validation.loss"]})
    after = {cell.label: key_of(cell.config, more.budget) for cell in cells_of(more)}
    assert before.items() <= after.items()
    config = cells_of(study())[0].config
    budget = Budget(steps=20)
    assert key_of(with_seed(config, 2), budget) != key_of(config, budget)
    assert key_of(config, Budget(steps=30)) != key_of(config, budget)
    assert key_of(with_steps(config, 77), Budget(minutes=2)) == key_of(config, Budget(minutes=2))
    assert key_of(from_mapping(merge(to_mapping(config), {"data": {"source_language": "en"}})),
                  budget) == key_of(config, budget)


def resolved(words: list[str]) -> Any:
    """What `pellucid train` makes of these words."""
    own, overrides = split_overrides(words)
    return from_mapping(merge(read_recipe(own[2]).mapping, overrides))


def test_a_commands_configuration_is_its_cells(study: Make, tmp_path: Path) -> None:
    made = study({"factors": {"train.clip_norm": [1.0, None], "train.betas": [[0.9, 0.98], [0.9, 0.999]],
                              "train.epsilon": [1e-9, 1e-8], "tokenizer.shared": [True, False]}})
    planned = plan(made, cells_of(made), tmp_path / "out")
    assert len(planned) == 3 * 16
    for one in planned:
        assert resolved(one.commands["train"]) == one.config
        assert list(one.commands) == ["train", "test"]


def test_plans_name_a_folder_for_people_and_find_it_again(study: Make, tmp_path: Path) -> None:
    first: Planned = plan(study(), cells_of(study()), tmp_path)[0]
    assert first.folder.name.startswith("position-sinusoidal-narrow-seed1-")
    first.folder.mkdir(parents=True)
    other = study({"factors": {"model.position": ["sinusoidal", "none"]}})
    again = plan(other, cells_of(other), tmp_path)[0]
    assert again.cell.label == "position sinusoidal"
    assert again.folder == first.folder


def test_ter_is_computed_where_a_study_wants_it_alone(study: Make, tmp_path: Path) -> None:
    """Also where it asks for it later: the test set is then evaluated again."""
    made = study({"metrics": ["test.exact"]})
    (planned, *_) = plan(made, cells_of(made), tmp_path)
    assert planned.commands["test"][-2:] == ["--without", "ter"]
    trained = Outcome(trained={"step": 1}, scores={"test": {"exact": 1.0}})
    assert planned.lacks(trained) == []
    made = study({"metrics": ["test.exact", "test.ter_lowercase"]})
    (planned, *_) = plan(made, cells_of(made), tmp_path)
    assert "--without" not in planned.commands["test"]
    assert planned.lacks(trained) == ["train", "test"]  # the run is not there
    planned.folder.mkdir(parents=True)
    assert planned.lacks(trained) == ["test"]


def test_a_further_test_set_of_the_same_name_is_another_one(study: Make, tmp_path: Path) -> None:
    def first(longest: int) -> Planned:
        made = study({"tests": {"long": {"max_length": longest}}, "metrics": ["long.exact"]})
        return plan(made, cells_of(made), tmp_path)[0]

    done = Outcome(trained={"step": 1}, scores={"long": {"exact": 1.0}})
    assert first(30).lacks(done) == first(60).lacks(done) == []  # by a version that noted none
    done = dataclasses.replace(done, tests=first(30).tests)
    assert first(30).lacks(done) == []
    first(60).folder.mkdir(parents=True)
    assert first(60).lacks(done) == ["long"]


def test_further_test_sets_are_written_once_and_are_as_told(study: Make, tmp_path: Path) -> None:
    made = study({"tests": {"twice": {"min_length": 12, "max_length": 12}}, "metrics": ["twice.exact"]})
    write_tests(made, "seq2seq", tmp_path)
    text = (tmp_path / "tests" / "twice.source").read_text()
    assert [len(line.split()) for line in text.splitlines()] == [12] * 10
    write_tests(made, "seq2seq", tmp_path)
    assert (tmp_path / "tests" / "twice.source").read_text() == text
    assert made.test_sets == ["twice"]
    words = plan(made, cells_of(made), tmp_path)[0].commands["twice"]
    assert words[-2:] == [f"--source={tmp_path}/tests/twice.source", f"--target={tmp_path}/tests/twice.target"]
    short = dataclasses.replace(made.tests["twice"], min_length=3, max_length=3)
    assert {a.count(" ") for a, _ in pairs_of_test(short, "seq2seq")} == {2}
