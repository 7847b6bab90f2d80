"""What a study's tests say, in sentences: which way, how much, how surely; of what is not told apart, too."""

from collections.abc import Sequence

from pellucid.ablate.cells import told_level
from pellucid.ablate.grid import Effect, Grid, Pair
from pellucid.ablate.results import A_TOKEN, Result, is_lower_better, is_tested
from pellucid.ablate.scales import score_of
from pellucid.ablate.study import MEASURED, Study
from pellucid.ablate.telling import judged, number, probability, with_unit
from pellucid.language import so_many


def in_words(study: Study, results: Sequence[Result], grids: Sequence[Grid]) -> list[str]:
    """Of each score what its tests say, then what the grid says of it; then what else a reader must know."""
    said = []
    if len(study.seeds) == 1:
        said.append("There is one seed, so nothing can be said about chance: no interval, no test, only a hint.")
    if len(study.seeds) == 2:
        said.append("There are two seeds, which hardly tell how far seeds lie apart: only very large effects are "
                    "found, and where tests are over sentences, too, false alarms are two to four times as many as "
                    "Holm's correction promises. With a third one, effects of a third of the size are found, or "
                    "smaller ones, and it holds.")
    of_grids = {grid.metric: grid for grid in grids}
    for metric in study.metrics:
        said += _verdicts(metric, results, len(study.seeds))
        if metric in of_grids:
            said += _grid(study, of_grids[metric])
    return said + _cautions(study, results)


def _verdicts(metric: str, results: Sequence[Result], seeds: int) -> list[str]:
    """One metric's cells by what their tests say, each with its difference, and its seeds where some are lost."""
    seeds_of = {result.cell.label: result.scores[metric].values.keys() for result in results
                if metric in result.scores}
    groups: dict[str, list[str]] = {"worse than the baseline beyond chance": [],
                                    "better than the baseline beyond chance": [],
                                    f"not told apart by {seeds} seeds (which is not to say equal)": [],
                                    "without a test": []}
    worse, better, apart, alone = groups
    for result in (result for result in results if is_tested(result, metric)):
        score = result.scores[metric]
        paired = len(score.values.keys() & seeds_of[result.cell.baseline])
        of_fewer = f", by {so_many(paired, 'seed')}" if paired < seeds else ""
        told = result.cell.label + (f": {judged(metric, score.test.difference)}{of_fewer}" if score.test else "")
        if score.test is None or score.p is None:
            groups[alone].append(told)
        elif not score.differs:
            groups[apart].append(told)
        else:
            is_worse = (score.test.difference.mean > 0) == is_lower_better(metric)
            groups[worse if is_worse else better].append(told)
    return [f"{metric}, {verdict}: {'; '.join(told)}." for verdict, told in groups.items() if told]


def _grid(study: Study, grid: Grid) -> list[str]:
    """Whether factors interact, pair by pair; then what each level does on average."""
    said = [f"{grid.metric}: {_pair(study, grid.metric, pair)}" for pair in grid.pairs]
    for factor in dict.fromkeys(factor for effect in grid.main for factor in effect.contrast.levels):
        own = [effect for effect in grid.main if factor in effect.contrast.levels]
        over = [other for other in study.factors if other != factor and len(study.factors[other].levels) > 1]
        mixed = [other for other in over if any(pair.is_found and {factor, other} == {pair.factor, pair.condition}
                                                for pair in grid.pairs)]
        which = "which" if mixed == over else " and ".join(map(_short, mixed))
        said.append(f"{grid.metric}, {_short(factor)} on average over {' and '.join(map(_short, over))}"
                    + (f" (with {which} it interacts, so that this stands for no single level)" if mixed else "")
                    + f", in place of {told_level(study, factor, study.baseline[factor])}. "
                    + "; ".join(_average(study, grid.metric, effect) for effect in own) + ".")
    return said


def _average(study: Study, metric: str, effect: Effect) -> str:
    """``post-norm: 1.07 nats worse (0.98 worse to 1.16 worse), p < 0.001``."""
    ((factor, level),) = effect.contrast.levels.items()
    name = told_level(study, factor, level)
    if effect.test is None or effect.p is None:
        return f"{name}: without a test"
    apart = "" if effect.differs else ", not told apart"
    return f"{name}: {judged(metric, effect.test.difference)}{apart}, {_p(effect.p)}"


def _pair(study: Study, metric: str, pair: Pair) -> str:
    """Do they interact? Which level's effect depends on what, and what of the others would have been found."""
    found, rest = dict[str, list[Effect]](), list[str]()
    for level in dict.fromkeys(effect.contrast.levels[pair.factor] for effect in pair.interactions):
        own = [effect for effect in pair.interactions if effect.contrast.levels[pair.factor] == level]
        if any(effect.differs for effect in own):
            found[level] = own
        elif any(effect.p is not None for effect in own):
            rest.append(told_level(study, pair.factor, level))
    base = told_level(study, pair.factor, study.baseline[pair.factor])
    said = [f"{told_level(study, pair.factor, level)} in place of {base} is "
            f"{'; '.join(_under(study, metric, pair, own))}." for level, own in found.items()]
    if any(effect.differs and effect.leaves_range for effect in pair.interactions):
        said.append("(What both add up to would be no possible score, so the end of the range may be all that they "
                    "share.)")
    if rest and (smallest := pair.smallest) is not None:
        whose = f" of {'; '.join(rest)}" if found else ""
        below, above = ("" if size is None else number(metric, size) for size in (smallest.down, smallest.up))
        sizes = [f"±{below}"] if below == above else [sign + size for sign, size in zip("−+", (below, above)) if size]
        would = (f"one of {with_unit(metric, ' or '.join(sizes))} would have been found four times in five"
                 if below or above else "none within the range of such scores could have been")
        said.append(f"{'No' if found else 'no'} interaction{whose} was found; {would}.")
    both = f"{_short(pair.factor)} and {_short(pair.condition)}"
    if not said:
        return f"whether {both} interact cannot be tested."
    return f"{both}{' interact.' if found else ':'} {' '.join(said)}"


def _under(study: Study, metric: str, pair: Pair, own: Sequence[Effect]) -> list[str]:
    """A level's effect under each level of the condition, and whether it is another one than under the baseline's."""
    level, told = own[0].contrast.levels[pair.factor], list[str]()
    others = {effect.contrast.levels[pair.condition]: effect for effect in own}
    for under in (study.baseline[pair.condition], *others):
        alone = pair.alone.get((level, under))
        size = pair.untold[level, under] if alone is None else judged(metric, alone)
        p = None if under not in others else others[under].p
        verdict = "" if p is None else f", {'another effect' if others[under].differs else 'not told apart'}, {_p(p)}"
        told.append(f"with {told_level(study, pair.condition, under)} {size}{verdict}")
    return told


def _p(p: float) -> str:
    text = probability(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def _short(factor: str) -> str:
    """``n_heads`` for ``model.n_heads``."""
    return factor.rsplit(".", 1)[-1]


def _cautions(study: Study, results: Sequence[Result]) -> list[str]:
    """What a reader must know beside the tests."""
    compared, said = [result for result in results if not result.cell.is_baseline], []
    if again := [result.cell.label for result in compared if result.is_baseline_again]:
        speeds = " but speeds" if any(metric in MEASURED for metric in study.metrics) else ""
        said.append(f"Same outputs as the baseline, seed by seed: nothing{speeds} to test, and nothing corrected for: "
                    f"{'; '.join(again)}.")
    others = [result.cell.label for result in compared if result.is_other_vocabulary]
    if others and (metrics := [metric for metric in study.metrics if score_of(metric) in A_TOKEN]):
        said.append(f"Not comparable by {' and '.join(metrics)}, a mean over tokens, as the tokenizer differs: "
                    f"{'; '.join(others)}.")
    if confounded := [result.cell.label for result in compared if result.confounded]:
        said.append("Confounded, as parameters, tokens, operations or pretraining differ too: "
                    f"{'; '.join(confounded)}.")
    if (shared := max((result.at_once for result in results), default=1)) > 1:
        said.append(f"Speeds were measured while {shared} runs shared the machine, and are confounded by what ran "
                    "beside them.")
    if diverged := [f"{result.cell.label} ({len(result.diverged)} of {len(study.seeds)})"
                    for result in results if result.diverged]:
        said.append(f"Diverged: {'; '.join(diverged)}.")
    lost: dict[str, list[str]] = {}
    for result in results:
        for metric, score in result.scores.items():
            count = len(study.seeds) - len(result.diverged) - result.missing - len(score.values)
            if count > 0:
                lost.setdefault(metric, []).append(f"{result.cell.label} ({count} of {len(study.seeds)})")
    said += [f"Without a finite {metric}, so that means and tests are of the other seeds: {'; '.join(told)}."
             for metric, told in lost.items()]
    said += [f"{data}: examples longer than model.max_length lost their ends, and scores are of what was left: "
             f"{'; '.join(told)}." for data, told in _cut(results).items()]
    if missing := sum(result.missing for result in results):
        said.append(f"Not finished: {so_many(missing, 'run')} {'is' if missing == 1 else 'are'} still to be done, and "
                    "the report is of the others.")
    return said


def _cut(results: Sequence[Result]) -> dict[str, list[str]]:
    """By test set, the cells that lost ends of its examples: ``4 heads (3 of 500)``."""
    found: dict[str, list[str]] = {}
    for result in results:
        for data, (cut, whole) in result.cut.items():
            found.setdefault(data, []).append(f"{result.cell.label} ({cut:,} of {whole:,})")
    return found
