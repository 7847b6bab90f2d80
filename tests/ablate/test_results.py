"""From outcomes to results: pairing by seed, correction, confounding, divergence; tables and the report."""

from __future__ import annotations

import csv
import dataclasses
import itertools
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from pellucid.ablate.agenda import Planned, plan
from pellucid.ablate.cells import cells_of
from pellucid.ablate.confounds import change, pretraining_of
from pellucid.ablate.effects import Interval
from pellucid.ablate.figures import forest
from pellucid.ablate.outcome import (
    Divergence,
    Outcome,
    divergence,
    finite,
    last_screen,
    trained_scores,
    write_outcome,
)
from pellucid.ablate.power import Smallest, smallest
from pellucid.ablate.report import escaped, latex, markdown, write_report
from pellucid.ablate.results import Result, as_data, results_of, sample_of, smallest_effects
from pellucid.ablate.scales import scale_of
from pellucid.ablate.statistics import Error, Variance
from pellucid.ablate.study import Study
from pellucid.ablate.tables import Table, either, gained, lost, metric_table, overview, results_csv
from pellucid.ablate.telling import judged, probability, signed
from pellucid.ablate.words import in_words

Make = Callable[..., Study]
LOSSES = {"sinusoidal": (1.0, 1.1, 0.9), "none": (2.0, 2.2, 1.9)}  # by seed


def outcome(planned: Planned, parameters: int = 1000, tokens: int = 1000, extra: float = 0.0) -> Outcome:
    value = LOSSES[planned.config.model.position][planned.config.seed - 1] + extra
    return Outcome(trained={"parameters": parameters, "source_tokens": tokens, "target_tokens": 0, "seconds": 2.0,
                            "step": 20}, scores={"validation": {"loss": value}, "test": {"exact": 100 - 10 * value}},
                   threads=1)


def planned_of(study: Study, out: Path) -> list[Planned]:
    return plan(study, cells_of(study), out)


def results(study: Study, runs: list[tuple[Planned, Outcome]]) -> dict[str, Result]:
    return {result.cell.label: result for result in results_of(study, cells_of(study), runs, {})}


def test_a_score_that_is_not_finite_is_told(study: Make, tmp_path: Path) -> None:
    made = study({"factors": {"model.position": ["sinusoidal", "none"]}, "metrics": ["test.perplexity", "test.exact"]})
    runs = [(one, dataclasses.replace(outcome(one), scores={"test": finite(
        {"exact": 50.0, "perplexity": 2.0 if one.config.seed < 3 or one.cell.is_baseline else math.inf})}))
        for one in planned_of(made, tmp_path)]
    said = in_words(made, list(results(made, runs).values()), [])
    assert [text for text in said if "finite" in text] == [
        "Without a finite test.perplexity, so that means and tests are of the other seeds: position none "
        "(1 of 3)."]


def test_examples_that_were_cut_are_told_by_test_set_and_cell(study: Make, tmp_path: Path) -> None:
    """The most of any run; a count of them is no score by which a cell would differ from its baseline."""
    made = study({"factors": {"model.position": ["sinusoidal", "none"]}, "metrics": ["test.exact"]})
    cut = {"none": (3, 4, 0), "sinusoidal": (0, 0, 0)}
    runs = [(one, dataclasses.replace(outcome(one), scores={
        "test": {"exact": 50.0, "n": 10.0, "cut": 0.0}, "long": {
            "exact": 40.0, "n": 1200.0, "cut": float(cut[one.config.model.position][one.config.seed - 1])}}))
        for one in planned_of(made, tmp_path)]
    found = list(results(made, runs).values())
    assert [text for text in in_words(made, found, []) if "lost" in text] == [
        "long: examples longer than model.max_length lost their ends, and scores are of what was left: position none "
        "(4 of 1,200)."]
    assert [as_data(result)["cut"] for result in found] == [{}, {"long": (4, 1200)}]
    assert found[1].is_baseline_again
    left = [(one, Outcome() if one is runs[-1][0] else came) for one, came in runs]
    assert in_words(made, list(results(made, left).values()), [])[-1] == (
        "Not finished: 1 run is still to be done, and the report is of the others.")


def test_large_numbers_below_effects_can_be_read(study: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = study({"factors": {"model.position": ["sinusoidal", "none"]}, "metrics": ["tokens_per_second"]})
    runs = [(one, outcome(one, tokens=10**6 * (4 if one.config.model.position == "none" else one.config.seed)))
            for one in planned_of(made, tmp_path)]
    figures: list[Any] = []
    monkeypatch.setattr("pellucid.ablate.figures.as_png", figures.append)
    forest("tokens_per_second", list(results(made, runs).values()))
    figures[0].draw_without_rendering()
    axes = figures[0].axes[0]
    assert axes.xaxis.get_offset_text().get_text() == ""
    low, high = axes.get_xlim()
    ticks = zip(axes.get_xticklabels(), axes.get_xticks(), strict=True)
    shown = [label for label, tick in ticks if low <= tick <= high]
    assert any(label.get_text().endswith(",000") for label in shown)
    boxes = [label.get_window_extent() for label in shown]
    assert [a for a, b in itertools.pairwise(boxes) if a.overlaps(b)] == []


def test_an_interval_without_end_does_not_hide_the_others(study: Make, tmp_path: Path,
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two seeds of a perplexity it reached to 10²⁰¹, and so did the axis."""
    made = study({"factors": {"model.position": ["sinusoidal", "none"]}, "metrics": ["test.perplexity"],
                  "seeds": [1, 2]})
    runs = [(one, dataclasses.replace(outcome(one), scores={"test": {"perplexity": 2.0 + 4 * (
        one.config.seed == 2 and not one.cell.is_baseline)}})) for one in planned_of(made, tmp_path)]
    figures: list[Any] = []
    monkeypatch.setattr("pellucid.ablate.figures.as_png", figures.append)
    forest("test.perplexity", list(results(made, runs).values()))
    axes = figures[0].axes[0]
    assert 80 <= axes.get_xlim()[1] < 100  # twenty times the larger difference
    assert [line.get_xdata()[0] for line in axes.lines if line.get_marker() == ">" and len(line.get_xdata())] == [80]


@pytest.fixture
def two(study: Make) -> Study:
    return study({"factors": {"model.position": ["sinusoidal", "none"]}})


def test_means_intervals_and_the_paired_test(two: Study, tmp_path: Path) -> None:
    found = results(two, [(one, outcome(one)) for one in planned_of(two, tmp_path)])
    score = found["position none"].scores["validation.loss"]
    assert score.test is not None
    assert score.test.difference.mean == pytest.approx((1.0 + 1.1 + 1.0) / 3)
    logs = {position: np.log(losses) for position, losses in LOSSES.items()}
    assert score.test.p == pytest.approx(stats.ttest_rel(logs["none"], logs["sinusoidal"]).pvalue)
    assert score.p == score.test.p  # a family of one
    assert found["position sinusoidal"].scores["validation.loss"].test is None
    for each in found.values():
        interval = each.scores["validation.loss"].interval
        assert interval is not None
        assert interval.low is not None
        assert interval.high is not None
        assert 0 < interval.low < interval.mean < interval.high


def test_a_table_has_the_numbers_of_the_tests(two: Study, tmp_path: Path) -> None:
    found = list(results(two, [(one, outcome(one)) for one in planned_of(two, tmp_path)]).values())
    assert [metric_table(metric, found).rows for metric in two.metrics] == [
        (("position sinusoidal", "3", "1.0000", "0.7813 to 1.2714", *"–" * 4),
         ("position none", "3", "2.0333", "1.6920 to 2.4344", "+1.0333", "+0.8980 to +1.1852", "< 0.001", "< 0.001 *")),
        (("position sinusoidal", "3", "90.00", "87.46 to 92.31", *"–" * 4),
         ("position none", "3", "79.67", "75.87 to 83.24", "−10.33", "−11.77 to −8.93", "< 0.001", "< 0.001 *"))]


def test_holm_is_over_the_cells_of_one_metric(study: Make, tmp_path: Path) -> None:
    made = study()
    noise = {"narrow": (0.0, 0.0, 0.0), "wide": (0.01, -0.02, 0.05)}
    runs = [(one, outcome(one, extra=noise[one.cell.levels["width"]][one.config.seed - 1]))
            for one in planned_of(made, tmp_path)]
    scores = [result.scores["test.exact"] for result in results(made, runs).values()][1:]
    raw = [score.test.p for score in scores if score.test]
    assert max(p for p in (score.p for score in scores) if p is not None) >= max(p for p in raw if p is not None)
    smallest = min(range(3), key=lambda i: raw[i] or 0)
    assert scores[smallest].p == pytest.approx(min(1.0, 3 * (raw[smallest] or 0)))


def test_pairs_are_of_seeds_that_both_have(two: Study, tmp_path: Path) -> None:
    lost = Outcome(diverged=Divergence(7, "the loss is not finite", "loss nan"))
    runs = [(one, lost if one.cell.is_baseline and one.config.seed == 2 else outcome(one))
            for one in planned_of(two, tmp_path)]
    found = results(two, runs)
    baseline, other = found["position sinusoidal"], found["position none"]
    assert baseline.diverged == {2: lost.diverged}
    assert baseline.scores["validation.loss"].values == {1: 1.0, 3: 0.9}
    test = other.scores["validation.loss"].test
    assert test is not None
    assert test.difference.mean == pytest.approx(1.0)
    assert len(other.scores["validation.loss"].values) == 3


def test_a_cell_that_always_diverges_has_no_score_and_breaks_nothing(two: Study, tmp_path: Path) -> None:
    lost = Outcome(diverged=Divergence(7, "the loss is not finite", "loss nan"))
    for loser in ("position none", "position sinusoidal"):
        runs = [(one, lost if one.cell.label == loser else outcome(one)) for one in planned_of(two, tmp_path)]
        counted = {cell.label: 5.0 for cell in cells_of(two)}  # of an update, whatever came of it
        found = {result.cell.label: result for result in results_of(two, cells_of(two), runs, counted)}
        assert found[loser].all_operations is None
        assert found[loser].scores["validation.loss"].interval is None
        assert found["position none"].scores["validation.loss"].test is None
        assert f"{loser} (3 of 3)" in " ".join(in_words(two, list(found.values()), []))


@pytest.mark.parametrize(("parameters", "tokens", "expected"), [
    (1000, 1000, ()), (1029, 980, ()), (1040, 1000, ("parameters +4 %",)), (600, 1000, ("parameters −40 %",)),
    (1000, 2500, ("tokens ×2.5",)), (500, 900, ("parameters −50 %", "tokens −10 %"))])
def test_a_confounded_comparison_is_flagged(two: Study, tmp_path: Path, parameters: int, tokens: int,
                                            expected: tuple[str, ...]) -> None:
    runs = [(one, outcome(one) if one.cell.is_baseline else outcome(one, parameters, tokens))
            for one in planned_of(two, tmp_path)]
    found = results(two, runs)
    assert found["position none"].confounded == expected
    assert found["position sinusoidal"].confounded == ()
    assert any("Confounded" in sentence for sentence in in_words(two, list(found.values()), [])) == bool(expected)


def test_a_cell_that_is_the_baseline_again_costs_no_verdict(study: Make, tmp_path: Path) -> None:
    """The baseline's scores, seed for seed and to the last digit: left out of the tests and of the correction."""
    made = study({"factors": {"model.position": ["sinusoidal", "none"], "width": {"narrow": {}, "wide": {
        "model.d_ff": 48}}}, "design": "one_at_a_time"})
    runs = [(one, outcome(one)) for one in planned_of(made, tmp_path)]
    found = results(made, runs)
    again, other = found["wide"], found["position none"]
    assert again.is_baseline_again
    assert not other.is_baseline_again
    assert again.scores["validation.loss"].test is None
    assert other.scores["validation.loss"].test is not None
    assert other.scores["validation.loss"].p == other.scores["validation.loss"].test.p  # a family of one
    assert again.scores["validation.loss"].interval == found["baseline"].scores["validation.loss"].interval
    said = in_words(made, list(found.values()), [])
    assert sum("nothing to test" in sentence and "wide" in sentence for sentence in said) == 1
    assert not any("not told apart" in sentence for sentence in said)
    nearly = [(one, outcome(one, extra=1e-12 * (one.cell.label == "wide"))) for one, _ in runs]
    assert not results(made, nearly)["wide"].is_baseline_again


def test_runs_that_are_still_to_do_are_no_outputs(two: Study, tmp_path: Path) -> None:
    assert in_words(two, list(results(two, [(one, Outcome()) for one in planned_of(two, tmp_path)]).values()), []) == [
        "validation.loss, without a test: position none.", "test.exact, without a test: position none.",
        "Not finished: 6 runs are still to be done, and the report is of the others."]


@pytest.mark.parametrize(("steps", "is_again"), [((5, 9), False), ((5, 5), True)])
def test_cells_that_both_diverged_are_one_model_only_if_they_did_alike(steps: tuple[int, int], is_again: bool,
                                                                      two: Study, tmp_path: Path) -> None:
    """And where something else tells so: a loss that is no number at the same step says little, be it of all seeds."""
    runs = [(one, Outcome(diverged=Divergence(steps[not one.cell.is_baseline], "the loss is not finite", "")))
            for one in planned_of(two, tmp_path)]
    assert not results(two, runs)["position none"].is_baseline_again
    alike = dataclasses.replace(outcome(runs[0][0]), seconds={})
    one_lost = [(one, came if one.config.seed == 2 else alike) for one, came in runs]
    assert results(two, one_lost)["position none"].is_baseline_again == is_again


def test_an_average_has_the_scores_that_it_was_chosen_with(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"event": "validation", "step": 9, "loss": 0.7, "accuracy": 79.0}\n')
    summary = {"best": "average", "monitor": "accuracy", "score": 80.0, "scores": {"accuracy": 80.0, "loss": 0.5}}
    assert trained_scores(tmp_path, summary) == {
        "accuracy": 80.0, "loss": 0.5, "perplexity": pytest.approx(math.exp(0.5))}


def test_losses_of_different_vocabularies_are_not_compared(study: Make, tmp_path: Path) -> None:
    made = study({"factors": {"tokenizer.kind": ["word", "character"]}})
    runs = [(one, outcome(one, extra=0.01 * one.config.seed)) for one in planned_of(made, tmp_path)]
    found = list(results(made, runs).values())
    assert found[1].scores["validation.loss"].test is None
    assert found[1].scores["validation.loss"].interval is not None
    assert found[1].scores["test.exact"].test is not None or found[1].is_baseline_again
    assert any("Not comparable by validation.loss" in sentence for sentence in in_words(made, found, []))


def test_a_figure_says_why_a_cell_is_not_compared(study: Make, tmp_path: Path,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that have a loss over other tokens are there; it said that there was none to compare. Of one run that
    diverged and two that were still to do, it said that one of one had."""
    made = study({"factors": {"tokenizer.kind": ["word", "character"], "model.position": ["sinusoidal", "none"],
                              "model.d_ff": [24, 48], "train.label_smoothing": [0.0, 0.1]}, "design": "one_at_a_time"})
    lost = Outcome(diverged=Divergence(7, "the loss is not finite", ""))
    runs = [(one, Outcome() if one.config.model.d_ff == 48 else
             (lost, Outcome())[one.config.seed > 1] if one.config.train.label_smoothing else
             outcome(one, extra=0.1 * (one.config.tokenizer.kind == "character")))
            for one in planned_of(made, tmp_path)]
    figures: list[Any] = []
    monkeypatch.setattr("pellucid.ablate.figures.as_png", figures.append)
    forest("validation.loss", list(results(made, runs).values()))
    assert [text.get_text() for text in figures[0].axes[0].texts] == [
        "a mean over other tokens: not compared", "no run to compare", "diverged under 1 seed"]


def test_a_study_that_was_stopped_at_once_has_no_empty_figure(study: Make, tmp_path: Path) -> None:
    """matplotlib warned of the empty legend, on the user's terminal."""
    made = study({"factors": {"model.position": ["sinusoidal", "none"]}, "metrics": ["test.exact", "long.exact"],
                  "tests": {"long": {"min_length": 7, "max_length": 8}}})
    write_report(made, cells_of(made), planned_of(made, tmp_path), "pellucid ablate toy.yaml", tmp_path, {})
    assert list((tmp_path / "figures").iterdir()) == []
    assert "test.exact, without a test: position none." in (tmp_path / "report.md").read_text()


def test_a_table_says_whose_intervals_are_over_seeds_alone(two: Study, tmp_path: Path) -> None:
    found = list(results(two, [(one, outcome(one)) for one in planned_of(two, tmp_path)]).values())

    def lead(*known: bool) -> str:
        scores = [dataclasses.replace(result.scores["test.exact"], with_sentences=one)
                  for result, one in zip(found, known, strict=False)]
        cells = [dataclasses.replace(result, scores={"test.exact": score})
                 for result, score in zip(found, scores, strict=False)]
        return metric_table("test.exact", cells).lead.rpartition("over the cells of this table. ")[2]

    count = len(found)
    assert lead(*[True] * count) == "Intervals and tests are over seeds and test sentences."
    assert lead(*[False] * count) == "Intervals and tests are over seeds alone."
    assert lead(*[True] * (count - 1), False) == (
        "Intervals and tests are over seeds and test sentences, but over seeds alone where they are of "
        f"{found[-1].cell.label}, whose outputs or test data are gone.")


def test_operations_and_pretraining_are_confounds(two: Study, tmp_path: Path) -> None:
    runs = [(one, outcome(one)) for one in planned_of(two, tmp_path)]
    for one, _ in runs:
        if not one.cell.is_baseline:
            one.folder.mkdir(parents=True)
            (one.folder / "initialized_from.json").write_text(json.dumps(
                {"run": str(tmp_path / "pretrained"), "checkpoint": "step-00000300"}))
    found = {result.cell.label: result for result in results_of(
        two, cells_of(two), runs, {"position sinusoidal": 1e6, "position none": 1.9e6})}
    assert found["position none"].confounded == ("operations +90 %",
                                                 "updates of pretraining 300 where the baseline has none")
    assert found["position sinusoidal"].confounded == ()


@pytest.mark.parametrize(("known", "updates"), [({"step": 900}, 1200), ({}, 1250)], ids=["told", "of an older version"])
def test_pretraining_that_ended_with_a_mean_counts_its_updates(known: dict[str, int], updates: int,
                                                               tmp_path: Path) -> None:
    for name, source, checkpoint in (("tuned", "mean", "average"), ("mean", "first", "step-00000300")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "initialized_from.json").write_text(json.dumps(
            {"run": str(tmp_path / source), "checkpoint": checkpoint} | (known if name == "tuned" else {})))
    (tmp_path / "mean/best.json").write_text(json.dumps({"checkpoint": "average", "step": 950}))  # trained on since
    assert pretraining_of(tmp_path / "tuned") == updates
    (tmp_path / "first").mkdir()  # anew, from the one that began with it
    (tmp_path / "first/initialized_from.json").write_text(json.dumps(
        {"run": str(tmp_path / "tuned"), "checkpoint": "step-00000010"}))
    assert pretraining_of(tmp_path / "tuned") == updates + 10


def test_a_shared_machine_is_told_beside_its_speeds(study: Make, tmp_path: Path) -> None:
    made = study({"factors": {"model.position": ["sinusoidal", "none"]}, "metrics": ["tokens_per_second"]})
    runs = [(one, dataclasses.replace(outcome(one), at_once=2)) for one in planned_of(made, tmp_path)]
    found = list(results(made, runs).values())
    assert "2 runs shared the machine" in metric_table("tokens_per_second", found).lead
    columns = results_csv(made, runs).partition("\n")[0].split(",")
    assert len(set(columns)) == len(columns)  # what is measured anyway stands there once
    assert any("2 runs shared the machine" in sentence for sentence in in_words(made, found, []))


def test_words_give_direction_and_size_of_what_is_not_told_apart_too(study: Make, tmp_path: Path) -> None:
    made = study({"metrics": ["validation.loss", "test.exact", "tokens_per_second"]})
    noise = {"narrow": (0.0, 0.0, 0.0), "wide": (0.02, -0.02, 0.06)}
    runs = [(one, outcome(one, extra=noise[one.cell.levels["width"]][one.config.seed - 1]))
            for one in planned_of(made, tmp_path)]
    found = list(results(made, runs).values())
    said = in_words(made, found, [])
    (apart,) = [sentence for sentence in said if sentence.startswith("validation.loss, not told apart by 3 seeds")]
    assert re.search(r": position sinusoidal, wide: 0\.0200 nats worse \(0\.\d{4} better to 0\.\d{4} worse\)", apart)
    (worse,) = [sentence for sentence in said if sentence.startswith("test.exact, worse than the baseline")]
    assert re.search(r": position none, narrow: 10\.33 points worse \(1\d\.\d\d worse to 9\.\d\d worse\)", worse)
    assert any(sentence.startswith("tokens_per_second, ") and "0 tokens/s" in sentence for sentence in said)
    assert metric_table("test.exact", found).title == "test.exact (points, higher is better)"
    assert metric_table("validation.loss", found).title == "validation.loss (nats, lower is better)"
    assert overview(made, found).head == ("cell", "validation.loss, nats ↓", "test.exact, points ↑",
                                          "tokens_per_second, tokens/s ↑")


def test_words_say_what_is_better(study: Make, tmp_path: Path) -> None:
    made = study({"factors": {"model.position": ["none", "sinusoidal"]}})
    said = in_words(made, list(results(made, [(one, outcome(one)) for one in planned_of(made, tmp_path)]).values()), [])
    assert [text.partition(":")[0] for text in said] == ["validation.loss, better than the baseline beyond chance",
                                                         "test.exact, better than the baseline beyond chance"]


def test_cautions_name_the_cells_that_they_are_of(study: Make, tmp_path: Path) -> None:
    made = study({"factors": {"model.position": ["sinusoidal", "none"], "tokenizer.kind": ["word", "character"],
                              "width": {"narrow": {}, "wide": {"model.d_ff": 48}},
                              "train.label_smoothing": [0.0, 0.1]}, "design": "one_at_a_time"})
    runs = []
    for one in planned_of(made, tmp_path):
        label, seed = one.cell.label, one.config.seed
        came = outcome(one, 1000 + 500 * (label == "position none"), extra=0.1 * (label == "kind character"))
        if label.startswith("label_smoothing") and seed < 3:
            came = (Outcome(diverged=Divergence(7, "the loss is not finite", "")),
                    dataclasses.replace(came, scores={"test": came.scores["test"]}))[seed - 1]
        runs.append((one, Outcome() if (label, seed) == ("position none", 2) else came))
    said = in_words(made, list(results(made, runs).values()), [])
    assert [text for text in said if not text.startswith(tuple(made.metrics))] == [
        "Same outputs as the baseline, seed by seed: nothing to test, and nothing corrected for: wide.",
        "Not comparable by validation.loss, a mean over tokens, as the tokenizer differs: kind character.",
        "Confounded, as parameters, tokens, operations or pretraining differ too: position none.",
        "Diverged: label_smoothing 0.1 (1 of 3).",
        "Without a finite validation.loss, so that means and tests are of the other seeds: label_smoothing 0.1 "
        "(1 of 3).", "Not finished: 1 run is still to be done, and the report is of the others."]


def test_words_say_by_how_many_seeds_where_some_are_lost(study: Make, tmp_path: Path) -> None:
    made = study({"metrics": ["validation.loss"]})
    lost = Outcome(diverged=Divergence(7, "the loss is not finite", "loss nan"))
    runs = [(one, lost if (one.cell.label, one.config.seed) == ("position none, narrow", 2) else outcome(one))
            for one in planned_of(made, tmp_path)]
    said = " ".join(in_words(made, list(results(made, runs).values()), []))
    assert re.search(r"position none, narrow: [^;]*\), by 2 seeds[.;]", said)
    assert re.search(r"position none, wide: [^;)]*\)[.;]", said)


@pytest.mark.parametrize(("metric", "difference", "told"), [
    ("test.bleu", Interval(-3.1, -4.0, 0.25), "3.10 points worse (4.00 worse to 0.25 better)"),
    ("test.perplexity", Interval(-1.0, -2.0, -0.5), "1.000 better (2.000 better to 0.500 better)"),
    ("tokens_per_second", Interval(1200.0, 0.0, 2400.0), "1,200 tokens/s better (0 to 2,400 better)"),
    ("test.perplexity", Interval(2.0, -1.02, 8.5123e201), "2.000 worse (1.020 better to 8.5e+201 worse)"),
    ("seconds", Interval(0.5, None, None), "0.5 s worse")])
def test_a_difference_is_judged(metric: str, difference: Interval, told: str) -> None:
    assert judged(metric, difference) == told


def test_change() -> None:
    assert [change(a, 100) for a in (104, 60, 199, 200, 250)] == ["+4 %", "−40 %", "+99 %", "×2", "×2.5"]


def test_one_seed_says_so(study: Make, tmp_path: Path) -> None:
    made = study({"factors": {"model.position": ["sinusoidal", "none"]}, "seeds": [1]})
    found = list(results(made, [(one, outcome(one)) for one in planned_of(made, tmp_path)]).values())
    assert "one seed" in in_words(made, found, [])[0]
    assert "validation.loss, without a test: position none: 1.0000 nats worse." in in_words(made, found, [])
    assert "One seed" in overview(made, found).lead
    rows = metric_table("validation.loss", found).rows
    assert rows[1] == ("position none", "1", "2.0000", "–", "+1.0000", "–", "–", "–")
    assert "Intervals" not in metric_table("validation.loss", found).lead
    json.dumps([as_data(result) for result in found])


def test_the_trainers_words_are_understood() -> None:
    log = "pellucid: an older one\nstep 3/20\npellucid: the loss or its gradient is not finite at step 12\n" \
          "  where: step 12\n  why:   loss nan, gradient norm inf\n  do:    try something\n"
    assert divergence(log) == Divergence(12, "the loss or its gradient is not finite at step 12",
                                         "loss nan, gradient norm inf")
    assert last_screen(log).startswith("the loss or")


def test_latex_is_escaped_and_markdown_too() -> None:
    assert escaped("50 % of a_b & −1 ± 2") == r"50 \% of a\_b \& $-$1 $\pm$ 2"
    table = Table("T", "Lead.", ("cell", "n"), (("a|b_c", "1"),), (1,))
    assert r"a|b\_c & 1 \\" in latex(table)
    assert r"\begin{tabular}{lr}" in latex(table)
    assert "| a\\|b_c | 1 |\n" in markdown(table)
    assert "|---|---:|\n" in markdown(table)


@pytest.fixture
def reported(two: Study, tmp_path: Path) -> tuple[Path, list[Planned]]:
    """A report of outcomes that are made up; one run diverged, another is missing."""
    runs = planned_of(two, tmp_path)
    for i, one in enumerate(runs):
        one.folder.mkdir(parents=True)
        (one.folder / "environment.json").write_text(json.dumps({
            "pellucid": "0", "packages": {"torch": "0"}, "processor": "slow", "precision": "fp32"}))
        events = [{"event": "validation", "step": step, "loss": 5 / step + i / 10} for step in (5, 10, 20)]
        (one.folder / "metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
        if i < 4:
            write_outcome(one.outcome, outcome(one))
    write_outcome(runs[4].outcome, Outcome(diverged=Divergence(7, "the loss is not finite", "loss nan")))
    (tmp_path / "figures").mkdir()
    for name in ("effects", "test-sets"):
        (tmp_path / "figures" / f"{name}-of-a-metric-that-went.png").touch()
    write_report(two, cells_of(two), runs, "pellucid ablate toy.yaml", tmp_path, {"position none": 5.0})
    return tmp_path, runs


def test_the_report_has_all_its_parts(reported: tuple[Path, list[Planned]], check_page: Callable[[str], Any]) -> None:
    out, runs = reported
    text = (out / "report.md").read_text()
    for part in ("# toy", "`pellucid ablate toy.yaml`", "## In words", "## Overview", "## validation.loss",
                 "## test.exact", "## Cost", "## Diverged", "## The exact commands", "Not finished: 1 run",
                 "**runs**: 4 trained, 1 diverged, of 6\n", "**speed**: measured with 1 run at once\n",
                 "| position none (1 to be done) | 2.1000 (1.1449 to 3.8432) * | 79.00 (65.11 to 90.12) * |\n",
                 "| position none (1 to be done) | 1,000 | 1,000 | 5.00e+03 | 500 | 2 s | – |\n",
                 "| position sinusoidal (1 diverged) | 3 | 7 | the loss is not finite: loss nan |\n"):
        assert part in text, part
    assert text.count("\npellucid train copy") == len(runs)
    for name in ("curves.png", "effects-validation-loss.png", "effects-test-exact.png"):
        assert f"](figures/{name})" in text
        assert (out / "figures" / name).read_bytes().startswith(b"\x89PNG")
    assert len(list((out / "figures").iterdir())) == 3
    html = (out / "report.html").read_text()
    assert check_page(html) >= {"words", "figures", "commands", "table-0"}
    assert html.count("data:image/png") == 3
    tex = (out / "report.tex").read_text()
    assert tex.count(r"\begin{tabular}") == tex.count(r"\end{tabular}") == 6
    assert text.count("the best look during training: where there were several, it flatters") == 1  # one may be all
    assert "## Smallest effects that would be found" in text


def test_threads_that_an_older_version_did_not_note_are_not_told_as_none(two: Study, tmp_path: Path) -> None:
    runs = planned_of(two, tmp_path)
    write_outcome(runs[0].outcome, dataclasses.replace(outcome(runs[0]), threads=0))
    write_report(two, cells_of(two), runs, "pellucid ablate toy.yaml", tmp_path, {})
    assert "\n- **made with**: in a folder that is gone\n" in (tmp_path / "report.md").read_text()


def test_the_csv_has_a_row_a_run(reported: tuple[Path, list[Planned]]) -> None:
    out, _ = reported
    rows = list(csv.DictReader((out / "results.csv").open()))
    assert [row["status"] for row in rows] == ["done"] * 4 + ["diverged", "missing"]
    assert [row["seed"] for row in rows] == ["1", "1", "2", "2", "3", "3"]
    assert [float(row["validation.loss"]) for row in rows[:4]] == [1.0, 2.0, 1.1, 2.2]
    assert (rows[4]["diverged_at"], rows[4]["why"], rows[4]["validation.loss"]) == (
        "7", "the loss is not finite: loss nan", "")
    costs = ("steps", "parameters", "source_tokens", "target_tokens", "threads", "seconds", "tokens_per_second")
    assert [[rows[i][name] for name in costs] for i in (0, 5)] == [
        ["20", "1000", "1000", "0", "1", "2.0", "500.0"], [""] * 7]
    assert {row["model.position"] for row in rows} == {"sinusoidal", "none"}


def test_a_p_and_a_difference_are_told_with_their_digits() -> None:
    assert [probability(p) for p in (1.0, 0.0126, 0.001, 0.0009, 0.0, None)] == [
        "1.000", "0.013", "0.001", "< 0.001", "< 0.001", "–"]
    assert [signed("test.exact", value) for value in (1.0, 0.0, -1.0)] == ["+1.00", "0.00", "−1.00"]


def test_effects_that_no_score_could_have_are_not_told() -> None:
    """Of 60 sentences, with 2 % in the baseline, none can be told apart below."""
    def found(metric: str, baseline: float) -> Smallest:
        one = smallest(metric, [Error((Variance(0.02, 4.0),))], 6, 5, baseline, scale_of(metric, 60))
        assert one is not None
        return one

    for baseline, none in ((0.0, "down"), (2.0, "down"), (100.0, "up")):
        effect = found("test.exact", baseline)
        assert getattr(effect, none) is None
        assert (lost(effect) if none == "down" else gained(effect)) == "–"
        assert (lost(effect) if none == "up" else gained(effect))[0] in "+−"
    effect = found("validation.loss", 1.0)
    assert effect.down is not None
    assert effect.up is not None
    assert 0 < effect.down < effect.up
    nothing, scale = Error((Variance(0.0, 4.0),)), scale_of("validation.loss", 60)  # of cells that do not vary
    assert smallest("validation.loss", [nothing, Error((Variance(0.02, 4.0),)), nothing], 6, 5, 1.0, scale) == effect
    assert smallest("validation.loss", [nothing], 6, 5, 1.0, scale) is None


@pytest.mark.parametrize(("metric", "baseline", "most"), [
    ("validation.loss", 2.3, 14), ("validation.perplexity", 10.0, 1e6), ("tokens_per_second", 9000.0, 90_000)])
def test_effects_without_bound_are_not_told(metric: str, baseline: float, most: float) -> None:
    """On a logarithm a variance that is hardly known reaches as far as one likes: to no score that there is."""
    reaches = [smallest(metric, [Error((Variance(variance, 1.0),))], 3, 2, baseline, scale_of(metric, 500))
               for variance in (1e-4, 1e-3, 0.01, 0.1, 1.0)]
    told = [one.up for one in reaches if one is not None and one.up is not None]
    assert told
    assert all(baseline + up <= most for up in told)
    assert reaches[-1] is not None
    assert gained(reaches[-1]) == "–"
    assert either(Smallest(metric, 3, baseline, None, None, False)) == "none that such scores could have"
    assert either(Smallest("validation.loss", 3, 1.0, 0.5, None, True)) == "−50 %"


def test_sentences_of_one_source_count_as_one(two: Study, tmp_path: Path) -> None:
    told = {"n": 400.0, "sources": 100.0}
    runs = [(one, dataclasses.replace(each := outcome(one), scores={
        **each.scores, "test": {**each.scores["test"], **told}})) for one in planned_of(two, tmp_path)]
    assert sample_of("test.exact", runs).sentences == 100
    del told["sources"]  # of an older version
    assert sample_of("test.exact", [(one, dataclasses.replace(each, scores={"test": {"exact": 1.0, **told}}))
                                    for one, each in runs]).sentences == 400


def test_sentences_are_of_the_test_data_that_a_run_had_and_count_where_all_seeds_have_them(
        two: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [(one, dataclasses.replace(outcome(one), data={"test": "d1g"} if one.config.seed > 1 else {}))
            for one in planned_of(two, tmp_path)]
    assert sample_of("test.exact", runs).data == "d1g"
    assert sample_of("long.exact", runs).data == ""  # made alike for all cells
    for known, wanted in (((1, 2, 3), True), ((1, 2), False)):
        monkeypatch.setattr("pellucid.ablate.results.sentence_influences", lambda planned, test, known=known: {
            "exact": np.array([-50.0, 50.0])} if planned.config.seed in known else {})
        found = results(two, runs)
        assert {result.scores["test.exact"].with_sentences for result in found.values()} == {wanted}
        assert {result.scores["validation.loss"].with_sentences for result in found.values()} == {False}


def test_speeds_are_tested_of_a_cell_that_is_the_baseline_again_too(study: Make, tmp_path: Path) -> None:
    made = study({"factors": {"width": {"narrow": {}, "wide": {"model.d_ff": 48}}},
                  "metrics": ["test.exact", "tokens_per_second"]})
    runs = [(one, outcome(one, tokens=1000 * (10 if one.cell.is_baseline else 5) + one.config.seed))
            for one in planned_of(made, tmp_path)]
    found = list(results(made, runs).values())
    assert found[1].is_baseline_again
    assert (found[1].scores["test.exact"].test is None, found[1].scores["tokens_per_second"].differs) == (True, True)
    assert any(text.startswith("Same outputs as the baseline, seed by seed: nothing but speeds to test, and nothing ")
               for text in in_words(made, found, []))
    (effect,) = smallest_effects(made, found)
    assert (effect.metric, effect.cells, effect.baseline) == ("tokens_per_second", 1, pytest.approx(5001))


def test_a_run_without_measurable_seconds_has_no_speed() -> None:
    trained = {"source_tokens": 5, "target_tokens": 5, "seconds": 0.0}
    assert Outcome(trained=trained).value("tokens_per_second") is None
    assert Outcome(trained=trained | {"seconds": 0.004}).value("tokens_per_second") == 2500


def test_perplexities_over_other_tokens_are_not_compared_though_the_configuration_is_the_same(two: Study,
                                                                                              tmp_path: Path) -> None:
    runs = [(one, dataclasses.replace(outcome(one), vocabulary="ab"[one.cell.is_baseline]))
            for one in planned_of(two, tmp_path)]
    other = results(two, runs)["position none"]
    assert other.is_other_vocabulary
    assert other.scores["validation.loss"].test is None
    assert other.scores["test.exact"].test is not None
    same = results(two, [(one, dataclasses.replace(each, vocabulary="a")) for one, each in runs])["position none"]
    assert same.scores["validation.loss"].test is not None


@pytest.mark.parametrize("untrained", [Outcome(), Outcome(diverged=Divergence(7, "the loss is not finite", ""))])
def test_a_cell_without_a_trained_run_is_not_said_to_have_another_tokenizer(untrained: Outcome, study: Make,
                                                                           tmp_path: Path) -> None:
    made = study({"factors": {"tokenizer.kind": ["word", "character"], "model.position": ["sinusoidal", "none"]},
                  "design": "one_at_a_time"})
    for missing in ([False, True, True], [True, False, False]):  # the others, the baseline
        without = {cell.label for cell, one in zip(cells_of(made), missing, strict=True) if one}
        runs = [(one, untrained if one.cell.label in without else dataclasses.replace(
            outcome(one), vocabulary=one.config.tokenizer.kind)) for one in planned_of(made, tmp_path)]
        said = in_words(made, list(results(made, runs).values()), [])
        assert [text.rpartition(": ")[2] for text in said if text.startswith("Not comparable")] == ["kind character."]
        assert "validation.loss, without a test: position none." in said
    made = study({"factors": {"sampled": {"no": {"tokenizer.kind": "sentencepiece", "tokenizer.vocab_size": 30},
                                          "yes": {"tokenizer.kind": "sentencepiece", "tokenizer.vocab_size": 30,
                                                  "tokenizer.sampling": 0.1}}}})
    runs = [(one, outcome(one) if one.cell.is_baseline else untrained) for one in planned_of(made, tmp_path)]
    assert not results(made, runs)["yes"].is_other_vocabulary  # the same tokens, cut otherwise


def test_effects_told_in_shares_of_the_baseline() -> None:
    assert lost(Smallest("validation.loss", 6, 0.7, 0.07, 0.08, True)) == "−10 %"
