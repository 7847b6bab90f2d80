"""Main effects and interactions: cases by hand, scipy's t, false alarms by simulation, and what is said of them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from scipy import stats

from pellucid.ablate import effects
from pellucid.ablate.cells import cells_of
from pellucid.ablate.effects import Sample
from pellucid.ablate.grid import Effect, Grid, as_data, grid_of, grids_of
from pellucid.ablate.results import Result
from pellucid.ablate.study import Study
from pellucid.ablate.tables import grid_table
from pellucid.ablate.words import in_words

Make = Callable[..., Study]
WIDTH = {"narrow": {}, "wide": {"model.d_ff": 48}}
DEPTH = {"low": {}, "high": {"model.encoder_layers": 2}, "higher": {"model.encoder_layers": 3}}
PAIR = {"model.position": ["sinusoidal", "none"], "width": WIDTH}


def plain(study: Study, again: tuple[str, ...] = ()) -> list[Result]:
    return [Result(cell, None, None, None, None, None, 0, 1, {}, {}, 0, str(cell.config.tokenizer),
                   is_baseline_again=cell.label in again) for cell in cells_of(study)]


def grid(study: Study, metric: str, values: Mapping[str, tuple[float, ...]], **of_sample: Any) -> Grid:
    """Of cells with these values, by seed."""
    samples = {label: Sample(dict(enumerate(row, start=1)), **{"influences": {}, **of_sample})
               for label, row in values.items()}
    return grid_of(study, metric, plain(study), samples)


def every(found: Grid) -> list[Effect]:
    return [*found.main, *(effect for pair in found.pairs for effect in pair.interactions)]


def losses(corner: float, noise: float = 0.0) -> dict[str, tuple[float, ...]]:
    """2 and 6 against 1 and 3: everything is doubled by width and tripled by position, but for the corner."""
    means = {"position sinusoidal, narrow": 1.0, "position sinusoidal, wide": 2.0, "position none, narrow": 3.0,
             "position none, wide": corner}
    random = np.random.default_rng(1)
    return {label: tuple(mean * np.exp(noise * random.normal(size=3))) for label, mean in means.items()}


def test_by_hand_effects_add_up_on_the_scale_and_are_told_in_the_unit(study: Make) -> None:
    found = grid(study({"factors": PAIR}), "validation.loss", losses(12.0))
    position, width = found.main
    assert position.contrast.levels == {"model.position": "none"}
    assert position.test is not None
    assert position.test.on_scale == pytest.approx((math.log(3 / 1) + math.log(12 / 2)) / 2)
    assert position.test.difference.mean == pytest.approx(math.sqrt(3 * 12) - math.sqrt(1 * 2))
    assert width.test is not None
    assert width.test.on_scale == pytest.approx((math.log(2 / 1) + math.log(12 / 3)) / 2)
    (pair,) = found.pairs
    (both,) = pair.interactions
    assert both.test is not None
    assert both.test.on_scale == pytest.approx(math.log(12 / 6))  # tripled and doubled would be 6
    assert both.test.difference.mean == pytest.approx(12 - 6)
    assert (pair.factor, pair.condition) == ("model.position", "width")
    assert pair.alone["none", "narrow"].mean == pytest.approx(3 - 1)
    assert pair.alone["none", "wide"].mean == pytest.approx(12 - 2)


def test_what_multiplies_losses_alike_does_not_interact(study: Make) -> None:
    made = study({"factors": PAIR})
    (pair,) = grid(made, "validation.loss", losses(6.0, 0.01)).pairs
    assert not pair.is_found
    assert pair.interactions[0].p is not None
    assert pair.smallest is not None
    assert 0 < pair.smallest.down < pair.smallest.up < 1
    (pair,) = grid(made, "validation.loss", losses(12.0, 0.01)).pairs
    assert pair.is_found


def test_the_table_of_a_grid_has_the_numbers_of_its_tests(study: Make) -> None:
    made, rows = study({"factors": PAIR}), losses(12.0, 0.01)
    assert grid_table(made, grid(made, "validation.loss", rows)).rows == (
        ("position none", "+4.5949", "+4.5486 to +4.6417", "+1.4447", "± 0.0095", "< 0.001", "< 0.001 *"),
        ("wide", "+3.1690", "+3.1103 to +3.2286", "+1.0381", "± 0.0100", "< 0.001", "< 0.001 *"),
        ("position none × wide", "+6.0553", "+5.8442 to +6.2632", "+0.6995", "± 0.0316", "< 0.001", "< 0.001 *"))
    few = grid(made, "validation.loss", rows | {"position none, wide": rows["position none, wide"][:1]})
    assert grid_table(made, few).rows[2] == ("position none × wide", "+6.1651", *"–" * 5)  # one seed is common to all
    assert "position and width interact cannot be tested." in said(made, few)[0]


def test_a_single_contrast_is_the_t_test_of_its_values_by_seed() -> None:
    table = np.random.default_rng(2).normal(size=(4, 5))
    a, b, c, d = (Sample(dict(enumerate(np.exp(row).tolist())), {}) for row in table)
    (test,) = effects.contrast("validation.loss", [([(1.0, a)], [(1.0, b), (1.0, c), (-1.0, d)])])
    assert test is not None
    assert test.p == pytest.approx(stats.ttest_1samp(table[0] - table[1] - table[2] + table[3], 0).pvalue)
    (mean,) = effects.contrast("validation.loss", [([(0.5, a), (0.5, b)], [(0.5, c), (0.5, d)])])
    assert mean is not None
    assert mean.p == pytest.approx(stats.ttest_1samp((table[0] + table[1] - table[2] - table[3]) / 2, 0).pvalue)


def test_an_interval_leaves_out_zero_where_the_test_says_so(study: Make) -> None:
    made, random = study({"factors": PAIR}), np.random.default_rng(3)
    labels = [cell.label for cell in cells_of(made)]
    for _ in range(30):
        rows = dict(zip(labels, map(tuple, random.uniform(20, 40, (4, 4)).tolist()), strict=True))
        for effect in every(grid(made, "test.bleu", rows)):
            assert effect.test is not None
            assert effect.test.p is not None
            low, high = effect.test.difference.low, effect.test.difference.high
            assert low is not None
            assert high is not None
            assert -100 <= low <= effect.test.difference.mean <= high <= 100
            if abs(effect.test.p - 0.05) > 5e-3:
                assert (low > 0 or high < 0) == (effect.test.p < 0.05)


def test_a_factor_that_divides_the_study_has_no_effect_of_its_own(study: Make) -> None:
    made = study({"factors": {"depth": DEPTH, **PAIR}, "within": ["depth"]})
    labels = [cell.label for cell in cells_of(made)]
    found = grid(made, "validation.loss", {label: (1.0, 1.1, 1.2 + i / 100) for i, label in enumerate(labels)})
    assert [effect.contrast.levels for effect in found.main] == [{"model.position": "none"}, {"width": "wide"}]
    assert [(pair.factor, pair.condition, len(pair.interactions)) for pair in found.pairs] == [
        ("model.position", "depth", 2), ("width", "depth", 2), ("model.position", "width", 1)]
    contrast = found.pairs[2].interactions[0].contrast
    assert set(contrast.upper.values()) == {1 / 3}  # on average over the three depths
    assert sum(contrast.upper.values()) == pytest.approx(sum(contrast.lower.values()))


def test_sentences_are_paired_only_where_they_are_the_same() -> None:
    hard = 100.0 * (np.arange(100) < 40) - 40
    here, there = (Sample({1: 40.0, 2: 41.0, 3: 40.5}, dict.fromkeys((1, 2, 3), hard), 100, data)
                   for data in ("short", "long"))
    apart, same = (effects.contrast("test.bleu", [([(1.0, here)], [(1.0, other)])])[0]
                   for other in (there, Sample({1: 40.1, 2: 41.0, 3: 40.4}, here.influences, 100, "short")))
    assert apart is not None
    assert same is not None
    assert apart.error is not None
    assert same.error is not None
    assert len(apart.error.parts) == 3  # the seeds, and two sets of sentences
    assert len(same.error.parts) == 2
    assert apart.error.value > 100 * same.error.value


def test_what_cannot_differ_is_not_tested_and_costs_nothing(study: Make) -> None:
    made = study({"factors": dict(reversed(PAIR.items()))})
    samples = {cell.label: Sample({1: 1.0, 2: 1.1, 3: 1.3}, {}) for cell in cells_of(made)}
    found = grid_of(made, "validation.loss", plain(made, ("wide, position sinusoidal",)), samples)
    assert list(found.pairs[0].alone) == [("wide", "none")]  # with sinusoidal, width changes nothing
    tokens = study({"factors": {"tokenizer.kind": ["word", "character"], "width": WIDTH}})
    samples = {cell.label: Sample({1: 1.0, 2: 1.1, 3: 1.3 + i}, {}) for i, cell in enumerate(cells_of(tokens))}
    kind, width = grid_of(tokens, "validation.loss", plain(tokens), samples).main
    assert kind.test is None  # a mean over other tokens
    assert width.test is not None  # the same in both
    assert all(effect.test for effect in grid_of(tokens, "test.exact", plain(tokens), samples).main)


def test_a_cell_without_a_score_leaves_what_needs_it_untold(study: Make) -> None:
    made = study({"factors": PAIR})
    found = grid(made, "validation.loss", losses(6.0, 0.01) | {"position none, wide": ()})
    assert all(effect.test is None and effect.p is None for effect in every(found))
    assert list(found.pairs[0].alone) == [("none", "narrow")]
    assert "whether position and width interact cannot be tested" in " ".join(said(made, found))
    assert grid_table(made, found).rows[0] == ("position none", *"–" * 6)
    json.dumps(as_data(found))


@pytest.mark.parametrize("over", [{"design": "one_at_a_time"}, {"seeds": [1]},
                                  {"factors": {"model.position": ["sinusoidal", "none"]}}])
def test_only_a_grid_of_two_factors_and_two_seeds_has_effects(study: Make, over: dict[str, Any]) -> None:
    made = study(over)
    assert grids_of(made, plain(made), []) == []


def said(study: Study, found: Grid) -> list[str]:
    """The sentences about the grid alone: cells that are the baseline again say nothing of themselves."""
    return in_words(study, [result for result in plain(study) if result.cell.is_baseline], [found])


def test_do_they_interact_is_answered_in_words(study: Make) -> None:
    made = study({"factors": PAIR, "metrics": ["validation.loss"]})
    yes, *average = said(made, grid(made, "validation.loss", losses(12.0, 0.01)))
    assert yes.startswith("validation.loss: position and width interact. position none in place of position sinusoidal "
                          "is with narrow 1.99")
    assert yes.count(" nats worse (") == 2
    assert "; with wide 9.9" in yes or "; with wide 10." in yes
    assert "another effect, p " in yes
    assert all("with which it interacts" in sentence for sentence in average)
    assert average[0].startswith("validation.loss, position on average over width")
    no, *average = said(made, grid(made, "validation.loss", losses(6.0, 0.01)))
    assert no.startswith("validation.loss: position and width: no interaction was found; one of −0.")
    assert no.endswith("nats would have been found four times in five.")
    assert not any("with which it interacts" in sentence for sentence in average)


def test_what_a_level_does_on_average_and_which_interaction_is_not_found_are_told(study: Make) -> None:
    """A factor of one level is averaged over by nobody; who interacts with one of two others is not said to with both.
    """
    made = study({"metrics": ["validation.loss"], "factors": {
        "model.position": ["sinusoidal", "none"], "width": WIDTH, "depth": DEPTH, "alike": {"only": {}}}})
    random, rows = np.random.default_rng(1), {}
    for cell in cells_of(made):
        none, width, depth = (cell.levels[name] for name in ("model.position", "width", "depth"))
        mean = (3.0 if none == "none" else 1.0) * (4.0 if (none, width) == ("none", "wide") else 1.0)
        rows[cell.label] = tuple(mean * (2 if depth == "higher" else 1) * np.exp(0.01 * random.normal(size=3)))
    pair, *none, position, width, depth = said(made, grid(made, "validation.loss", rows))
    assert pair.startswith("validation.loss: position and width interact. ")
    assert "possible score" not in pair
    assert [re.sub(r"[−+±]?\d+\.\d+", "N", text) for text in none] == [
        f"validation.loss: {both}: no interaction was found; one of N or N nats would have been found four times in "
        "five." for both in ("position and depth", "width and depth")]
    assert position.startswith("validation.loss, position on average over width and depth (with width it interacts, so")
    assert width.startswith("validation.loss, width on average over position and depth (with position it interacts, so")
    assert re.sub(r"\d+\.\d+", "N", depth) == (
        "validation.loss, depth on average over position and width, in place of low. high: N nats better (N better to "
        "N worse), not told apart, p = N; higher: N nats worse (N worse to N worse), p < N.")


def test_what_has_no_effect_alone_is_not_said_to_have_no_score(study: Make) -> None:
    """It is the baseline again, or its loss is a mean over other tokens: its scores stand in the tables."""
    made = study({"factors": PAIR, "metrics": ["validation.loss"]})
    rows = losses(12.0, 0.01) | {"position none, narrow": losses(12.0, 0.01)["position sinusoidal, narrow"]}
    samples = {label: Sample(dict(enumerate(row)), {}) for label, row in rows.items()}
    found = grid_of(made, "validation.loss", plain(made, ("position none, narrow",)), samples)
    assert "in place of position sinusoidal is with narrow the same; with wide 10.0" in said(made, found)[0]
    made = study({"factors": {"tokenizer.kind": ["word", "character"], "width": WIDTH}, "metrics": ["validation.loss"]})
    rows = dict(zip([cell.label for cell in cells_of(made)], losses(12.0, 0.01).values(), strict=True))
    assert ("kind character in place of kind word is with narrow not comparable, as the tokenizers differ; with wide "
            "not comparable, as the tokenizers differ, another effect, p < 0.001.") in said(
                made, grid(made, "validation.loss", rows))[0]


def test_two_seeds_name_no_interaction_that_no_score_could_show(study: Make) -> None:
    made, random = study({"factors": PAIR, "metrics": ["validation.loss"], "seeds": [1, 2]}), np.random.default_rng(1)
    rows = {cell.label: tuple(2.3 * np.exp(random.normal(0, 0.05, 2))) for cell in cells_of(made)}
    caution, first, *_ = said(made, grid(made, "validation.loss", rows))
    assert caution.startswith("There are two seeds")
    assert "false alarms" in caution
    assert "no interaction was found; one of −2.2555 nats would have been found" in first


def test_the_end_of_the_range_is_not_taken_for_an_interaction(study: Make) -> None:
    """Each level alone costs 8 of 10 points; both together cannot cost 16."""
    made = study({"factors": PAIR, "metrics": ["test.bleu"]})
    found = grid(made, "test.bleu", dict(zip(
        [cell.label for cell in cells_of(made)], [(10, 10.1, 9.9), (2, 2.1, 1.9), (2, 1.9, 2.1), (1, 1.1, 0.9)],
        strict=True)))
    (pair,) = found.pairs
    assert pair.is_found
    assert pair.interactions[0].leaves_range
    assert "would be no possible score" in said(made, found)[0]


@pytest.mark.parametrize("metric", ["validation.loss", "test.exact"])
def test_studies_of_nothing_give_few_false_alarms(study: Make, metric: str) -> None:
    """At most one in twenty finds anything in its whole family; 95 of 100 intervals hold the truth."""
    made = study({"factors": {"model.position": ["sinusoidal", "none"], "depth": DEPTH}})
    results, random = plain(made), np.random.default_rng(4)
    alarms, held, studies = 0, list[bool](), 60
    for _ in range(studies):
        samples = {}
        hard = random.normal(0, 1.5, 200)
        for result in results:
            if metric == "test.exact":
                right = 100.0 * (random.random((3, 200)) < 1 / (1 + np.exp(-hard - random.normal(0, 0.1, (3, 1)))))
                samples[result.cell.label] = Sample(dict(enumerate(right.mean(axis=1).tolist())),
                                                    {i: row - row.mean() for i, row in enumerate(right)}, 200)
            else:
                samples[result.cell.label] = Sample(dict(enumerate(np.exp(random.normal(0, 0.04, 3)).tolist())), {})
        found = every(grid_of(made, metric, results, samples))
        alarms += any(effect.differs for effect in found)
        spans = [effect.test.difference for effect in found if effect.test is not None]
        held += [span.low <= 0 <= span.high for span in spans if span.low is not None and span.high is not None]
    assert alarms <= 8  # 3 are to be expected, 9 in one such simulation of a hundred
    assert fmean(held) > 0.92
