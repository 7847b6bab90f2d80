"""From what every run came to, what can be said of each cell: means, differences to its baseline, what else differs."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

from pellucid.ablate.agenda import Planned
from pellucid.ablate.cells import Cell
from pellucid.ablate.outcome import Divergence, Outcome
from pellucid.ablate.statistics import Interval, PairedTest, holm, mean_interval, paired_test
from pellucid.ablate.study import LOWER_IS_BETTER, Study

LEVEL = 0.05  # of the family of tests of one metric
CONFOUNDED = 0.03  # more than this share of parameters or tokens beside the baseline's
Run = tuple[Planned, Outcome]


@dataclass(frozen=True)
class Score:
    """One metric of one cell.

    Attributes:
        values: by seed, of the runs that have it.
        interval: their mean; None without any.
        test: against the baseline, over the seeds that both have; None for a baseline, or without such a seed.
        p: the test's, corrected for all cells of the study that are compared by this metric.
    """

    values: dict[int, float]
    interval: Interval | None
    test: PairedTest | None = None
    p: float | None = None

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
        scores: by metric.
        diverged: by seed.
        missing: runs still to be done.
        confounded: what differs from the baseline besides what the cell changes, in words.
    """

    cell: Cell
    parameters: int | None
    tokens: float | None
    tokens_per_second: float | None
    seconds: float | None
    scores: dict[str, Score]
    diverged: dict[int, Divergence]
    missing: int
    confounded: tuple[str, ...] = ()


def is_lower_better(metric: str) -> bool:
    """Whether a smaller value is the better one."""
    return metric.rsplit(".", 1)[-1] in LOWER_IS_BETTER


def results_of(study: Study, cells: Sequence[Cell], runs: Sequence[Run]) -> list[Result]:
    """A result a cell, in order."""
    plain = [_alone(study, cell, [run for run in runs if run[0].cell.label == cell.label]) for cell in cells]
    by_label = {result.cell.label: result for result in plain}
    compared = [result if result.cell.is_baseline else _against(result, by_label[result.cell.baseline])
                for result in plain]
    for metric in study.metrics:
        tests = [result.scores[metric].test for result in compared]
        corrected = holm([None if test is None else test.p for test in tests])
        compared = [replace(result, scores={**result.scores, metric: replace(result.scores[metric], p=p)})
                    for result, p in zip(compared, corrected, strict=True)]
    return compared


def _alone(study: Study, cell: Cell, runs: Sequence[Run]) -> Result:
    trained = [outcome for _, outcome in runs if outcome.trained is not None]
    return Result(
        cell, trained[0].trained["parameters"] if trained and trained[0].trained else None,
        _mean([outcome.tokens for outcome in trained]), _mean(_values(trained, "tokens_per_second")),
        _mean(_values(trained, "seconds")), {metric: _score(metric, runs) for metric in study.metrics},
        {planned.config.seed: outcome.diverged for planned, outcome in runs if outcome.diverged is not None},
        sum(bool(outcome.lacks(planned.test_sets)) for planned, outcome in runs))


def _score(metric: str, runs: Sequence[Run]) -> Score:
    found = {planned.config.seed: outcome.value(metric) for planned, outcome in runs}
    values = {seed: value for seed, value in found.items() if value is not None}
    return Score(values, mean_interval(list(values.values())) if values else None)


def _against(result: Result, baseline: Result) -> Result:
    scores = {}
    for metric, score in result.scores.items():
        other = baseline.scores[metric].values
        seeds = [seed for seed in score.values if seed in other]
        test = paired_test([score.values[seed] for seed in seeds], [other[seed] for seed in seeds]) if seeds else None
        scores[metric] = replace(score, test=test)
    pairs = (("parameters", result.parameters, baseline.parameters), ("tokens", result.tokens, baseline.tokens))
    confounded = tuple(f"{name} {change(a, b)}" for name, a, b in pairs
                       if a is not None and b and abs(a / b - 1) > CONFOUNDED)
    return replace(result, scores=scores, confounded=confounded)


def as_data(result: Result) -> dict[str, Any]:
    """A result as plain data: every metric with its interval, difference and p-values."""
    scores = {}
    for metric, score in result.scores.items():
        scores[metric] = {"values": score.values, **({} if score.interval is None else asdict(score.interval))}
        if score.test is not None:
            scores[metric] |= {"difference": asdict(score.test.difference), "p": score.test.p, "p_holm": score.p}
    return {"cell": result.cell.label, "levels": result.cell.levels, "baseline": result.cell.baseline,
            "parameters": result.parameters, "tokens": result.tokens, "tokens_per_second": result.tokens_per_second,
            "seconds": result.seconds, "scores": scores, "confounded": list(result.confounded),
            "diverged": {seed: asdict(found) for seed, found in result.diverged.items()}, "missing": result.missing}


def change(a: float, b: float) -> str:
    """How far a lies from b: ``+12 %``, ``−40 %``, ``×2.5``."""
    ratio = a / b
    return f"×{ratio:.2g}" if ratio >= 2 else f"{100 * (ratio - 1):+.0f} %".replace("-", "−")


def _values(outcomes: Sequence[Outcome], metric: str) -> list[float]:
    return [value for outcome in outcomes if (value := outcome.value(metric)) is not None]


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
