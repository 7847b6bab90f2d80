"""From what every run came to, what can be said of each cell: means, differences to its baseline, what else differs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean
from typing import Any

from pellucid.ablate import effects
from pellucid.ablate.agenda import Planned
from pellucid.ablate.cells import Cell
from pellucid.ablate.confounds import confounds, pretraining_of
from pellucid.ablate.effects import Interval, PairedTest, Sample
from pellucid.ablate.outcome import Divergence, Outcome, data_of, vocabulary_of
from pellucid.ablate.power import LEVEL, Smallest, smallest
from pellucid.ablate.scales import scale_of, score_of
from pellucid.ablate.sentences import sentence_influences
from pellucid.ablate.study import LOWER_IS_BETTER, MEASURED, Study
from pellucid.config import TokenizerConfig
from pellucid.evaluate.holm import holm

Run = tuple[Planned, Outcome]
A_TOKEN = ("loss", "perplexity")  # scores that are a mean over tokens
_COUNTED = ("step", "n", "sources", "cut")  # beside the scores, and no scores


@dataclass(frozen=True)
class Score:
    """One metric of one cell.

    Attributes:
        values: by seed, of the runs that have it.
        interval: their mean; None without any.
        test: against the baseline, over the seeds that both have; None for a baseline, without such a seed, or where
            there is nothing to test.
        p: the test's, corrected for all cells of the study that are compared by this metric.
        sentences: that were tested, those of one source as one, where that is known.
        with_sentences: whether interval and test are over the test sentences as well as over the seeds.
    """

    values: dict[int, float]
    interval: Interval | None
    test: PairedTest | None = None
    p: float | None = None
    sentences: int = 0
    with_sentences: bool = False

    @property
    def differs(self) -> bool:
        """Beyond chance, at the level of the whole family."""
        return self.p is not None and self.p <= LEVEL


@dataclass(frozen=True)
class Result:
    """All that is told of one cell.

    Attributes:
        parameters: of its model; None until a run is trained.
        tokens, tokens_per_second, seconds: means over its trained runs.
        operations: floating-point operations of an update, a token; None where they could not be counted.
        pretraining: updates that its first weights had already.
        at_once: how many runs shared the machine, the most of its runs.
        scores: by metric.
        diverged: by seed.
        missing: runs still to be done.
        vocabulary: what decides on the tokens of its targets: a digest of the trained tokenizer, or where nobody
            knows that, how it is configured.
        is_other_vocabulary: it is not the baseline's, so that a loss or perplexity is a mean over other tokens.
        is_baseline_again: every run has exactly the scores of the baseline's under its seed, or diverged as that did,
            which not all have: it is the same model.
        confounded: what differs from the baseline besides what the cell changes, in words.
        cut: by test set of which a run lost ends, as the model takes no longer examples: the most of them, and of how
            many.
    """

    cell: Cell
    parameters: int | None
    tokens: float | None
    tokens_per_second: float | None
    seconds: float | None
    operations: float | None
    pretraining: int
    at_once: int
    scores: dict[str, Score]
    diverged: dict[int, Divergence]
    missing: int
    vocabulary: str
    is_other_vocabulary: bool = False
    is_baseline_again: bool = False
    confounded: tuple[str, ...] = ()
    cut: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def all_operations(self) -> float | None:
        """Floating-point operations of a whole run."""
        return None if self.operations is None or self.tokens is None else self.operations * self.tokens


def is_lower_better(metric: str) -> bool:
    """Whether a smaller value is the better one."""
    return score_of(metric) in LOWER_IS_BETTER


def is_tested(result: Result, metric: str) -> bool:
    """Whether a cell belongs to the family of tests of a metric: not a baseline, nor one that is the baseline again,
    whose speed may differ all the same, nor, by what is a mean over tokens, one of other tokens."""
    if result.is_other_vocabulary and score_of(metric) in A_TOKEN:
        return False
    return not result.cell.is_baseline and (metric in MEASURED or not result.is_baseline_again)


def results_of(study: Study, cells: Sequence[Cell], runs: Sequence[Run],
               operations: Mapping[str, float]) -> list[Result]:
    """A result a cell, in order.

    Args:
        operations: of an update and token, by label.
    """
    by_cell = {cell.label: [run for run in runs if run[0].cell.label == cell.label] for cell in cells}
    plain = {cell.label: _alone(cell, by_cell[cell.label], operations.get(cell.label)) for cell in cells}
    results = [_beside(plain[cell.label], plain[cell.baseline], by_cell) for cell in cells]
    for metric in study.metrics:
        results = _with_scores(metric, results, {label: sample_of(metric, found) for label, found in by_cell.items()})
    return results


def smallest_effects(study: Study, results: Sequence[Result]) -> list[Smallest]:
    """What the study could have found, of each metric that was tested, told from the first baseline."""
    found = []
    for metric in study.metrics:
        scores = [result.scores[metric] for result in results if is_tested(result, metric)]
        errors = [score.test.error for score in scores if score.test is not None and score.test.error is not None]
        start = next((r.scores[metric].interval for r in results if r.cell.is_baseline), None)
        scale = scale_of(metric, max((score.sentences for score in scores), default=0) or effects.UNKNOWN_SENTENCES)
        seeds = max((len(score.values) for score in scores), default=0)
        if start is not None and (one := smallest(metric, errors, len(errors), seeds, start.mean, scale)):
            found.append(one)
    return found


def _alone(cell: Cell, runs: Sequence[Run], operations: float | None) -> Result:
    trained = [outcome for _, outcome in runs if outcome.trained is not None]
    return Result(
        cell, trained[0].trained["parameters"] if trained and trained[0].trained else None,
        _mean([outcome.tokens for outcome in trained]), _mean(_values(trained, "tokens_per_second")),
        _mean(_values(trained, "seconds")), operations,
        max((pretraining_of(planned.folder) for planned, _ in runs), default=0),
        max((outcome.at_once for outcome in trained), default=1), {},
        {planned.config.seed: outcome.diverged for planned, outcome in runs if outcome.diverged is not None},
        sum(bool(planned.lacks(outcome)) for planned, outcome in runs), _vocabulary(cell, runs), cut=_cut(trained))


def _cut(trained: Sequence[Outcome]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for data, scores in (each for outcome in trained for each in outcome.scores.items()):
        if scores.get("cut"):
            found[data] = max(found.get(data, (0, 0)), (int(scores["cut"]), int(scores["n"])))
    return found


def _beside(result: Result, baseline: Result, by_cell: Mapping[str, Sequence[Run]]) -> Result:
    """With what there is to say of it and its baseline before any test."""
    if result.cell.is_baseline:
        return result
    here, there = by_cell[result.cell.label], by_cell[baseline.cell.label]
    is_again = not result.missing and not baseline.missing and result.parameters is not None and (
        _outputs(here) == _outputs(there))
    return replace(result, is_baseline_again=is_again, is_other_vocabulary=_is_other_vocabulary(result, baseline),
                   confounded=confounds(_costs(result), _costs(baseline)))


def _is_other_vocabulary(here: Result, there: Result) -> bool:
    """As they are configured, where one has no trained run, and so no tokenizer whose digest could be known."""
    if here.parameters is None or there.parameters is None:
        return _configured(here.cell) != _configured(there.cell)
    return here.vocabulary != there.vocabulary


def _vocabulary(cell: Cell, runs: Sequence[Run]) -> str:
    for planned, outcome in runs:
        if outcome.trained is not None and (found := outcome.vocabulary or vocabulary_of(planned.folder)):
            return found
    return _configured(cell)


def _configured(cell: Cell) -> str:
    """How its tokenizer is made, but for what decides on no token."""
    return str(replace(cell.config.tokenizer, sampling=TokenizerConfig().sampling))


def _costs(result: Result) -> dict[str, float | None]:
    return {"parameters": result.parameters, "tokens": result.tokens, "operations": result.all_operations,
            "updates of pretraining": result.pretraining}


def _outputs(runs: Sequence[Run]) -> dict[int, dict[str, dict[str, float]] | Divergence]:
    """By seed, every score of every run, to the last digit; of one that diverged, how."""
    return {planned.config.seed: outcome.diverged if outcome.diverged is not None else
            {data: {name: value for name, value in found.items() if name not in _COUNTED}
             for data, found in outcome.scores.items()} for planned, outcome in runs}


def sample_of(metric: str, runs: Sequence[Run]) -> Sample:
    """One metric of the runs of a cell."""
    found = {planned.config.seed: outcome.value(metric) for planned, outcome in runs}
    values = {seed: value for seed, value in found.items() if value is not None}
    data, _, score = metric.partition(".")
    if not score or data == "validation":
        return Sample(values, {})
    tables = {planned.config.seed: sentence_influences(planned, data) for planned, _ in runs
              if planned.config.seed in values}
    told = next((outcome.scores[data] for _, outcome in runs if "n" in outcome.scores.get(data, {})), {"n": 0})
    count = int(told.get("sources", told["n"]))  # sentences of one source tell less than as many of their own
    return Sample(values, {seed: rows[score] for seed, rows in tables.items() if score in rows}, count,
                  _test_data(runs) if data == "test" else "")


def _test_data(runs: Sequence[Run]) -> str:
    """The digest of the test data, as the first run knows it that does; further test sets are the same for all."""
    found = (outcome.data or data_of(planned.folder) for planned, outcome in runs)
    return next((data.get("test", "") for data in found if data), "")


def _with_scores(metric: str, results: Sequence[Result], samples: Mapping[str, Sample]) -> list[Result]:
    """The results with one more metric: intervals over all cells that differ, and tests of those that can."""
    labels = [result.cell.label for result in results if not result.is_baseline_again or is_tested(result, metric)]
    intervals = dict(zip(labels, effects.intervals(metric, [samples[label] for label in labels]), strict=True))
    tested = {result.cell.label: result.cell.baseline for result in results if is_tested(result, metric)}
    tests = effects.compare(metric, [(samples[a], samples[b]) for a, b in tested.items()])
    by_label = dict(zip(tested, tests, strict=True))
    corrected = dict(zip(tested, holm([None if test is None else test.p for test in tests]), strict=True))
    found = []
    for result in results:
        label = result.cell.label
        sample = samples[label]
        score = Score(dict(sample.values), intervals.get(label, intervals.get(result.cell.baseline)),
                      by_label.get(label), corrected.get(label), sample.sentences,
                      bool(sample.values) and all(seed in sample.influences for seed in sample.values))
        found.append(replace(result, scores={**result.scores, metric: score}))
    return found


def as_data(result: Result) -> dict[str, Any]:
    """A result as plain data: every metric with its interval, difference and p-values."""
    scores = {}
    for metric, score in result.scores.items():
        scores[metric] = {"values": score.values, **({} if score.interval is None else asdict(score.interval)),
                          "with_sentences": score.with_sentences}
        if score.test is not None:
            scores[metric] |= {"difference": asdict(score.test.difference), "p": score.test.p, "p_holm": score.p}
    return {"cell": result.cell.label, "levels": result.cell.levels, "baseline": result.cell.baseline,
            "parameters": result.parameters, "tokens": result.tokens, "tokens_per_second": result.tokens_per_second,
            "seconds": result.seconds, "operations_per_token": result.operations, "pretraining": result.pretraining,
            "at_once": result.at_once, "scores": scores, "same_as_baseline": result.is_baseline_again,
            "confounded": list(result.confounded), "cut": result.cut,
            "diverged": {seed: asdict(found) for seed, found in result.diverged.items()}, "missing": result.missing}


def _values(outcomes: Sequence[Outcome], metric: str) -> list[float]:
    return [value for outcome in outcomes if (value := outcome.value(metric)) is not None]


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
