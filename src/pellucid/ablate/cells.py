"""The cells of a study, and what tells one from another: its resolved configuration, never its place in the grid."""

import hashlib
import itertools
import json
import re
from dataclasses import asdict, dataclass, replace
from typing import Any

from pellucid.ablate.study import Budget, Study, level_name
from pellucid.config import RunConfig
from pellucid.config.effects import LANGUAGES, without_effect
from pellucid.config.mapping import differences, from_mapping, override
from pellucid.config.strict_yaml import NUMBER_OR_QUOTED
from pellucid.errors import ConfigError
from pellucid.model.build import check


@dataclass(frozen=True)
class Cell:
    """One setting of all factors; it runs once under every seed.

    Attributes:
        label: for people; unlike any other cell's.
        levels: the name of each factor's level.
        baseline: the label of the cell that it is compared with; its own, if it is one itself.
        config: the configuration under the first seed; with the budget's steps, or one step until they are known.
    """

    label: str
    levels: dict[str, str]
    baseline: str
    config: RunConfig

    @property
    def is_baseline(self) -> bool:
        """Whether others are compared with it."""
        return self.label == self.baseline


def cells_of(study: Study) -> list[Cell]:
    """Every cell, the baseline's levels first within each factor.

    Raises:
        ConfigError: a cell that cannot be built, or two that are the same.
    """
    cells: list[Cell] = []
    for levels in _combinations(study):
        label = label_of(study, levels)
        cell = Cell(label, levels, label_of(study, _compared_with(study, levels)), _config(study, levels, label))
        if label in {other.label for other in cells}:
            raise ConfigError(f"two cells of the study are called {label}", where="factors",
                              fix="give a level of one of them another name")
        key = key_of(cell.config, study.budget)
        same = next((other for other in cells if key_of(other.config, study.budget) == key), None)
        if same is not None:
            raise ConfigError(f"two cells of the study are the same: {same.label}, and {label}", where="factors",
                              why="they resolve to one configuration", fix="leave one of them out")
        cells.append(cell)
    return cells


def label_of(study: Study, levels: dict[str, str]) -> str:
    """What a cell is called: all its levels in a grid; what it changes, one at a time."""
    if study.design == "one_at_a_time" or len(study.factors) == 1:
        changed = [factor for factor in levels if levels[factor] != study.baseline[factor]]
        if not changed and len(study.factors) > 1:
            return "baseline"
        return ", ".join(told_level(study, factor, levels[factor]) for factor in changed or levels)
    return ", ".join(told_level(study, factor, level) for factor, level in levels.items())


def told_level(study: Study, factor: str, level: str) -> str:
    """What a level is called: ``n_heads 8`` for a key's value, ``no positions`` for a bundle; with the factor's whole
    name before it, where a level of another factor would be called the same."""
    def short(name: str, level: str) -> str:
        return f"{name.rsplit('.', 1)[-1]} {level}" if study.factors[name].is_key else level

    taken = {short(name, one) for name, other in study.factors.items() if name != factor for one in other.levels}
    own = short(factor, level)
    return f"{factor} {level}" if own in taken else own


def _combinations(study: Study) -> list[dict[str, str]]:
    ordered = {name: [study.baseline[name], *(level for level in factor.levels if level != study.baseline[name])]
               for name, factor in study.factors.items()}
    if study.design == "grid":
        return [dict(zip(ordered, names, strict=True)) for names in itertools.product(*ordered.values())]
    blocks = itertools.product(*(ordered[factor] for factor in study.within))
    found = []
    for block in blocks:
        first = study.baseline | dict(zip(study.within, block, strict=True))
        found.append(first)
        found += [first | {factor: name} for factor, names in ordered.items() if factor not in study.within
                  for name in names[1:]]
    return found


def _compared_with(study: Study, levels: dict[str, str]) -> dict[str, str]:
    return {factor: level if factor in study.within else study.baseline[factor] for factor, level in levels.items()}


def _config(study: Study, levels: dict[str, str], label: str) -> RunConfig:
    mapping = study.mapping
    for factor, level in levels.items():
        mapping = override(mapping, study.factors[factor].levels[level])
    mapping = override(mapping, {"seed": study.seeds[0], "train": {"steps": study.budget.steps or 1}})
    config = from_mapping(mapping)
    try:
        check(config.model)
    except ConfigError as error:
        raise ConfigError(f"the cell {label} cannot be built", where="factors", why=error.what,
                          fix=f"{error.fix}; else leave that value out, or set design: one_at_a_time" if error.fix
                          else "leave that value out, or set design: one_at_a_time") from error
    return config


def with_seed(config: RunConfig, seed: int) -> RunConfig:
    """The same configuration under another seed."""
    return replace(config, seed=seed)


def with_steps(config: RunConfig, steps: int) -> RunConfig:
    """The same configuration with so many updates."""
    return replace(config, train=replace(config.train, steps=steps))


def key_of(config: RunConfig, budget: Budget) -> str:
    """Twelve characters that belong to this configuration and budget alone: a digest of all that is not default.

    Steps that follow from a budget of tokens or minutes do not count, nor what the languages are called.
    """
    changed = {key: value for key, _, value in differences(RunConfig(), config)
               if key not in ("train.steps", *LANGUAGES)}
    text = json.dumps([changed, {k: v for k, v in asdict(budget).items() if v is not None}], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def folder_name(label: str, config: RunConfig, budget: Budget) -> str:
    """What a run's folder is called: for people, then its key, by which it is found again under any label."""
    slug = re.sub(r"[^a-z0-9.]+", "-", label.lower()).strip("-.")[:48]
    return f"{slug}-seed{config.seed}-{key_of(config, budget)}"


def overrides_of(config: RunConfig, base: RunConfig) -> list[str]:
    """The flags that turn the configuration `base` into `config`; a key that would be refused, as it changes nothing
    in it, is left out."""
    words, refused = list[str](), {key for key, (_, fix) in without_effect(config).items() if fix}
    for key, _, value in differences(base, config):
        words += [f"--{key}", _word_of(key, value)] if key not in refused else []
    return words


def _word_of(key: str, value: Any) -> str:
    """A value on a command line; quoted where it is the name of a column that would be read as its number, or none."""
    is_name = isinstance(value, str) and key.endswith("_field")
    if is_name and (value in ("null", "~") or NUMBER_OR_QUOTED.fullmatch(value)):
        return level_name([value])[1:-1]
    return level_name(value)
