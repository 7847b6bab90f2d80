"""What a grid of factors says beyond its cells: what a level does on average over the other factors (a main effect),
and whether what it does depends on another factor (a two-way interaction).

On a metric's scale, with μ a mean over all cells that have the levels it names, and 0 the baseline's level:

    main effect of l:          μ(l) − μ(0)
    interaction of l and m:    μ(l, m) − (μ(l, 0) + μ(0, m) − μ(0, 0))

The second is what both levels come to beyond the sum of what each of them does. All of one metric are a family of
their own for Holm's correction. Factors that divide the study (`within`) have no main effect, as nothing is compared
over them, and no interaction with each other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from pellucid.ablate import effects
from pellucid.ablate.cells import Cell
from pellucid.ablate.effects import Interval, PairedTest, Sample
from pellucid.ablate.power import LEVEL, Smallest, smallest
from pellucid.ablate.results import A_TOKEN, Result, Run, sample_of
from pellucid.ablate.scales import scale_of, score_of
from pellucid.ablate.study import MEASURED, Study
from pellucid.evaluate.holm import holm

Weights = dict[str, float]  # of cells, by label
Levels = tuple[str, str]  # of one factor, and of another that it is under
_NOTHING = 1e-9


@dataclass(frozen=True)
class Contrast:
    """Two means of cells, whose difference is looked at.

    Attributes:
        levels: by factor: one of a main effect, two of an interaction.
        upper, lower: weights that sum to 1.
    """

    levels: dict[str, str]
    upper: Weights
    lower: Weights


@dataclass(frozen=True)
class Effect:
    """A main effect or an interaction.

    Attributes:
        test: None where a cell that it needs has no score, or nothing can differ.
        p: the test's, corrected over the family.
        leaves_range: what the levels add up to is no possible score.
    """

    contrast: Contrast
    test: PairedTest | None
    p: float | None
    leaves_range: bool = False

    @property
    def differs(self) -> bool:
        """Beyond chance, at the level of the whole family."""
        return self.p is not None and self.p <= LEVEL


@dataclass(frozen=True)
class Pair:
    """How one factor's effect depends on another.

    Attributes:
        factor, condition: the effect of the first is told under each level of the second.
        interactions: of every level of both but the baseline's.
        alone: the effect of a level of the factor under a level of the condition, by both.
        untold: by both too, why there is no such effect, in words.
        smallest: the interaction that would be found four times in five; None without a test.
    """

    factor: str
    condition: str
    interactions: list[Effect]
    alone: dict[Levels, Interval]
    untold: dict[Levels, str]
    smallest: Smallest | None

    @property
    def is_found(self) -> bool:
        """Whether the two interact beyond chance."""
        return any(effect.differs for effect in self.interactions)


@dataclass(frozen=True)
class Grid:
    """What the grid says of one metric."""

    metric: str
    main: list[Effect]
    pairs: list[Pair]


def grids_of(study: Study, results: Sequence[Result], runs: Sequence[Run]) -> list[Grid]:
    """A grid a metric; none of a study that is no grid of two factors at least, or has one seed."""
    if study.design != "grid" or len(_varied(study)) < 2 or len(study.seeds) < 2:
        return []
    by_cell = {result.cell.label: [run for run in runs if run[0].cell.label == result.cell.label] for result in results}
    return [grid_of(study, metric, results, {label: sample_of(metric, found) for label, found in by_cell.items()})
            for metric in study.metrics]


def grid_of(study: Study, metric: str, results: Sequence[Result], samples: Mapping[str, Sample]) -> Grid:
    """What the cells' samples, by label, say of one metric."""
    cells, factors = [result.cell for result in results], _varied(study)
    main = [_main(study, cells, {factor: level}) for factor in factors if factor not in study.within
            for level in _others(study, factor)]
    pairs = [_ordered(study, pair) for pair in combinations(factors, 2) if not set(pair) <= set(study.within)]
    together = [_interaction(study, cells, {a: one, b: other}) for a, b in pairs
                for one in _others(study, a) for other in _others(study, b)]
    every = [*main, *together]
    can = [not _why_untold(contrast, metric, results) for contrast in every]
    tests = iter(effects.contrast(metric, [_means(contrast, samples) for contrast, one in zip(every, can, strict=True)
                                           if one]))
    tested = [next(tests) if one else None for one in can]
    ps = holm([None if test is None else test.p for test in tested])
    found = [Effect(one, test, p, test is not None and effects.leaves_range(metric, _means(one, samples)[1]))
             for one, test, p in zip(every, tested, ps, strict=True)]
    family = sum(p is not None for p in ps)
    conditional = _alone(study, metric, results, samples, pairs)
    return Grid(metric, found[:len(main)], [
        Pair(*pair, own := [effect for effect in found[len(main):] if tuple(effect.contrast.levels) == pair],
             *conditional[pair], _smallest(metric, own, samples, family)) for pair in pairs])


def _varied(study: Study) -> list[str]:
    return [name for name, factor in study.factors.items() if len(factor.levels) > 1]


def _others(study: Study, factor: str) -> list[str]:
    """The levels but the baseline's."""
    return [level for level in study.factors[factor].levels if level != study.baseline[factor]]


def _ordered(study: Study, pair: tuple[str, str]) -> tuple[str, str]:
    """First the factor whose effect is told, then the one that it may depend on: one that divides the study."""
    return (pair[1], pair[0]) if pair[0] in study.within else pair


def _mean(cells: Sequence[Cell], levels: Mapping[str, str]) -> Weights:
    chosen = [cell.label for cell in cells if levels.items() <= cell.levels.items()]
    return dict.fromkeys(chosen, 1 / len(chosen))


def _main(study: Study, cells: Sequence[Cell], levels: dict[str, str]) -> Contrast:
    return Contrast(levels, _mean(cells, levels), _mean(cells, {factor: study.baseline[factor] for factor in levels}))


def _interaction(study: Study, cells: Sequence[Cell], levels: dict[str, str]) -> Contrast:
    base = {factor: study.baseline[factor] for factor in levels}
    first, second = levels
    lower = _mean(cells, base | {first: levels[first]}) | _mean(cells, base | {second: levels[second]})
    return Contrast(levels, _mean(cells, levels), lower | {label: -w for label, w in _mean(cells, base).items()})


def _means(contrast: Contrast, samples: Mapping[str, Sample]) -> tuple[effects.Mean, effects.Mean]:
    upper, lower = ([(weight, samples[label]) for label, weight in weights.items()]
                    for weights in (contrast.upper, contrast.lower))
    return upper, lower


def _why_untold(contrast: Contrast, metric: str, results: Sequence[Result]) -> str:
    """Why its means are not compared, in words; empty where they are. Not where all of it cancels, cells that are the
    baseline again taken for the baseline; nor, by what is a mean over tokens, where it does not cancel among the cells
    of each tokenizer."""
    weights = {label: contrast.upper.get(label, 0.0) - contrast.lower.get(label, 0.0)
               for label in contrast.upper | contrast.lower}
    cells, tokens = dict[str, float](), dict[str, float]()
    for result in results:
        weight, cell = weights.get(result.cell.label, 0.0), result.cell
        same = cell.baseline if result.is_baseline_again and metric not in MEASURED else cell.label
        cells[same] = cells.get(same, 0.0) + weight
        tokens[result.vocabulary] = tokens.get(result.vocabulary, 0.0) + weight
    if score_of(metric) in A_TOKEN and any(abs(weight) > _NOTHING for weight in tokens.values()):
        return "not comparable, as the tokenizers differ"
    return "" if any(abs(weight) > _NOTHING for weight in cells.values()) else "the same"


def _alone(study: Study, metric: str, results: Sequence[Result], samples: Mapping[str, Sample],
           pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], tuple[dict[Levels, Interval], dict[Levels, str]]]:
    """Of each pair of factors, the effect of a level of the first under each level of the second; and why there is
    none."""
    cells = [result.cell for result in results]
    found: dict[tuple[str, str], tuple[dict[Levels, Interval], dict[Levels, str]]] = {pair: ({}, {}) for pair in pairs}
    wanted: dict[tuple[str, str, str, str], Contrast] = {}
    for factor, condition in pairs:
        for level in _others(study, factor):
            for under in (study.baseline[condition], *_others(study, condition)):
                upper, lower = ({factor: one, condition: under} for one in (level, study.baseline[factor]))
                one = Contrast(upper, _mean(cells, upper), _mean(cells, lower))
                if why := _why_untold(one, metric, results):
                    found[factor, condition][1][level, under] = why
                else:
                    wanted[factor, condition, level, under] = one
    tests = effects.contrast(metric, [_means(one, samples) for one in wanted.values()])
    for (factor, condition, level, under), test in zip(wanted, tests, strict=True):
        if test is None:
            found[factor, condition][1][level, under] = "without a score"
        else:
            found[factor, condition][0][level, under] = test.difference
    return found


def _smallest(metric: str, interactions: Sequence[Effect], samples: Mapping[str, Sample],
              family: int) -> Smallest | None:
    """What would be found of these, from the middle one of their errors, told from what both levels add up to there."""
    known = [(effect.test.error, effect) for effect in interactions
             if effect.test is not None and effect.test.error is not None and effect.test.error.value > 0]
    if not known:
        return None
    error, middle = sorted(known, key=lambda each: each[0].value)[len(known) // 2]
    start = effects.level_of(metric, _means(middle.contrast, samples)[1])
    assert start is not None
    seeds = max(len(s.values) for s in samples.values())
    scale = scale_of(metric, max(s.sentences for s in samples.values()) or effects.UNKNOWN_SENTENCES)
    return smallest(metric, [error], family, seeds, start, scale)


def as_data(grid: Grid) -> dict[str, Any]:
    """A grid as plain data: every effect with its interval and p-values."""
    return {"metric": grid.metric, "main": [_as_data(effect) for effect in grid.main], "pairs": [
        {"factor": pair.factor, "condition": pair.condition, "interact": pair.is_found,
         "interactions": [_as_data(effect) for effect in pair.interactions],
         "alone": [{"level": level, "under": under, **asdict(interval)}
                   for (level, under), interval in pair.alone.items()],
         "smallest": None if pair.smallest is None else asdict(pair.smallest)} for pair in grid.pairs]}


def _as_data(effect: Effect) -> dict[str, Any]:
    test = effect.test
    return {"levels": effect.contrast.levels, "difference": None if test is None else asdict(test.difference),
            "on_scale": None if test is None else test.on_scale, "p": None if test is None else test.p,
            "p_holm": effect.p, "leaves_range": effect.leaves_range}
