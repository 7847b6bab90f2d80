"""A study as data: a base, factors, seeds, a budget, metrics; read strictly, before anything runs.

A factor is a configuration key with its values, or a name with bundles of keys:
``{model.position: [sinusoidal, none], part: {all: {}, one head: {model.n_heads: 1}}}``.
"""

import dataclasses
from dataclasses import MISSING, dataclass, field
from typing import Any, Literal

import yaml

from pellucid.ablate.scales import score_of
from pellucid.config import Generated, RunConfig
from pellucid.config.checks import refuse_readers
from pellucid.config.mapping import flatten, from_mapping, override, to_mapping
from pellucid.config.reader import merge, nest, read_dataclass, unknown_key
from pellucid.errors import ConfigError
from pellucid.recipes import read_recipe
from pellucid.studies import read_study_file

Design = Literal["grid", "one_at_a_time"]

TEST_SCORES = {"seq2seq": ("bleu", "bleu_lowercase", "chrf", "chrf_lowercase", "ter", "ter_lowercase", "meteor",
                           "meteor_lowercase", "exact", "exact_lowercase", "perplexity", "nats_per_character"),
               "classification": ("accuracy", "macro_f1")}
_OF_THE_STUDY = ("seed", "train.steps")  # keys that its seeds and its budget decide
MEASURED = ("tokens_per_second", "seconds")
LOWER_IS_BETTER = ("loss", "perplexity", "nats_per_character", "ter", "seconds")


@dataclass(frozen=True)
class Budget:
    """How long each run trains; exactly one of the three."""

    steps: int | None = None
    tokens: int | None = None  # source and target tokens, padding not counted
    minutes: float | None = None  # of training, at the speed measured when the study began

    def __post_init__(self) -> None:
        given = [value for value in (self.steps, self.tokens, self.minutes) if value is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of steps, tokens and minutes")
        if given[0] <= 0:
            raise ValueError("it must be above 0")

    def __str__(self) -> str:
        unit, value = next((key, value) for key, value in dataclasses.asdict(self).items() if value is not None)
        return f"{value:,} {unit if value != 1 else unit.removesuffix('s')}"


@dataclass(frozen=True)
class Factor:
    """What is varied: its levels by name, each with the keys that it sets, nested as a configuration is; and whether it
    is a key with values, or a name with bundles."""

    levels: dict[str, dict[str, Any]]
    is_key: bool


@dataclass(frozen=True)
class Study:
    """What is compared, on what, and how.

    Attributes:
        name: of the study, or of its file without the ending.
        about: title, question and cost, for people; may be empty.
        base: the recipe or file that every run starts from.
        mapping: the configuration that all cells share: the base, `common` and the command line laid over it.
        base_config: the configuration of `base` alone, which commands are told as changes to.
        factors: by name, their levels; the first is the baseline's unless `baseline` names another.
        design: `grid` is every combination, `one_at_a_time` the baseline and each single change to it.
        within: factors that divide the study: cells are compared with the baseline that shares these.
        tests: further test sets by name: the base's data.generated with other keys, such as greater lengths.
    """

    name: str
    about: dict[str, str]
    base: str
    mapping: dict[str, Any]
    base_config: RunConfig
    factors: dict[str, Factor]
    baseline: dict[str, str]
    seeds: tuple[int, ...]
    budget: Budget
    metrics: tuple[str, ...]
    design: Design
    within: tuple[str, ...]
    tests: dict[str, Generated]

    @property
    def test_sets(self) -> list[str]:
        """The data that runs are evaluated on: "test" and further sets, as far as the metrics ask for them."""
        wanted = {metric.split(".")[0] for metric in self.metrics}
        return [name for name in ("test", *self.tests) if name in wanted]

    def wants(self, score: str) -> bool:
        """Whether a metric is of this score, on any data, with or without regard to letter case."""
        return any(score_of(metric) == score for metric in self.metrics)


@dataclass(frozen=True)
class StudyFile:
    """The keys of a study's file, as they are written."""

    base: str
    factors: dict[str, Any]
    seeds: tuple[int, ...]
    budget: Budget
    metrics: tuple[str, ...]
    baseline: dict[str, Any] = field(default_factory=dict)
    design: Design = "grid"
    within: tuple[str, ...] = ()
    common: dict[str, Any] = field(default_factory=dict)
    tests: dict[str, Any] = field(default_factory=dict)


def read_study(name: str, overrides: dict[str, Any]) -> Study:
    """The study of this name or file; `overrides` are configuration keys that all its cells get.

    Raises:
        ConfigError: an unknown key (the nearest is named), a wrong type, or something that does not go together.
    """
    shipped = read_study_file(name)
    keys = {field.name: field.default is MISSING and field.default_factory is MISSING
            for field in dataclasses.fields(StudyFile)}
    for key in shipped.mapping:
        if key not in keys:
            raise unknown_key(str(key), list(keys))
    if missing := [key for key, needed in keys.items() if needed and key not in shipped.mapping]:
        raise ConfigError(f"the study has no {missing[0]}", where=name)
    file: StudyFile = read_dataclass(StudyFile, shipped.mapping)
    base = read_recipe(file.base).mapping
    mapping = override(override(base, undotted(file.common, "common")), overrides)
    config = from_mapping(mapping)
    refuse_readers(config, "ablate", name)
    factors = {str(factor): _factor(str(factor), values) for factor, values in file.factors.items()}
    if not factors:
        raise ConfigError("the study has no factor", where="factors")
    for factor in file.within:
        if factor not in factors:
            raise unknown_key(factor, list(factors))
    _check_reach(overrides, factors)
    if not file.seeds or len(set(file.seeds)) != len(file.seeds):
        raise ConfigError("seeds must be different numbers, one at least", where="seeds")
    tests = {str(test): _test_set(str(test), keys, config) for test, keys in file.tests.items()}
    _check_metrics(file.metrics, config, list(tests))
    return Study(name=shipped.name, about=shipped.about, base=file.base, mapping=mapping,
                 base_config=from_mapping(base), factors=factors, baseline=_baseline(file.baseline, factors),
                 seeds=file.seeds, budget=file.budget, metrics=file.metrics, design=file.design, within=file.within,
                 tests=tests)


def undotted(mapping: Any, where: str) -> dict[str, Any]:
    """``{"model.n_heads": 1, "train": {"steps": 2}}`` → ``{"model": {"n_heads": 1}, "train": {"steps": 2}}``."""
    nested: dict[str, Any] = {}
    for key, value in _mapping(mapping, where):
        nested = merge(nested, nest(str(key), value))
    return nested


def level_name(value: Any) -> str:
    """A value as YAML writes it on one line."""
    return value if isinstance(value, str) else yaml.safe_dump(
        value, default_flow_style=True, width=10_000).removesuffix("\n").removesuffix("\n...")


def _mapping(value: Any, where: str) -> list[tuple[Any, Any]]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where} must be a mapping, not {value!r}", where=where)
    return list(value.items())


def _factor(name: str, values: Any) -> Factor:
    """A key's values, or named bundles of keys."""
    if isinstance(values, list):
        pairs = [(level_name(value), nest(name, value)) for value in values]
    else:
        pairs = [(level_name(level), undotted(bundle, f"factors.{name}.{level}"))
                 for level, bundle in _mapping(values, f"factors.{name}")]
    if not pairs or len(dict(pairs)) != len(pairs):
        raise ConfigError(f"the factor {name} needs levels, each once", where=f"factors.{name}")
    return Factor(dict(pairs), isinstance(values, list))


def _baseline(given: dict[str, Any], factors: dict[str, Factor]) -> dict[str, str]:
    baseline = {name: next(iter(factor.levels)) for name, factor in factors.items()}
    for name, value in given.items():
        if name not in factors:
            raise unknown_key(f"baseline.{name}", [f"baseline.{known}" for known in factors])
        if level_name(value) not in factors[name].levels:
            raise ConfigError(f"the baseline's {name} is {level_name(value)}, which is none of its levels",
                              where=f"baseline.{name}", fix=f"choose {', '.join(factors[name].levels)}")
        baseline[name] = level_name(value)
    return baseline


def _check_reach(overrides: dict[str, Any], factors: dict[str, Factor]) -> None:
    """Refuses keys of the command line that no cell would have, for the study says them itself."""
    for key in flatten(overrides):
        varied = [name for name, factor in factors.items()
                  if all(key in flatten(change) for change in factor.levels.values())]
        if varied or key in _OF_THE_STUDY:
            raise ConfigError(f"--{key} changes nothing here", where=key,
                              why=f"the factor {varied[0]} varies it" if varied else "the study says it for all runs",
                              fix="leave it out, or write a study of your own: see docs/studies.md")


def _test_set(name: str, keys: Any, config: RunConfig) -> Generated:
    """A further test set: the shared data.generated, with these keys changed; refused as that of a run would be."""
    if config.data.generated is None or config.data.train is not None:
        raise ConfigError("further test sets are generated, and this study's data is not", where=f"tests.{name}",
                          why="they change keys of data.generated")
    if name in ("test", "validation") or not name.replace("-", "").replace("_", "").isalnum():
        raise ConfigError("a test set's name is letters, digits, - and _, and neither test nor validation",
                          where=f"tests.{name}")
    changed = dataclasses.asdict(config.data.generated) | dict(_mapping(keys, f"tests.{name}"))
    made: Generated = read_dataclass(Generated, changed, f"tests.{name}")
    try:
        from_mapping(override(to_mapping(config), {"data": {"generated": dataclasses.asdict(made)}}))
    except ConfigError as error:
        raise ConfigError(error.what, where=f"tests.{name}", why=error.why, fix=error.fix) from error
    return made


def _check_metrics(metrics: tuple[str, ...], config: RunConfig, tests: list[str]) -> None:
    scores = TEST_SCORES[config.task]
    decoded = ("bleu", "exact") if config.train.monitor in ("bleu", "exact") else ()  # greedily, for the monitor's sake
    of_validation = ("loss", "perplexity", *(decoded if config.task == "seq2seq" else scores))
    known = [f"validation.{score}" for score in of_validation] + list(MEASURED)
    known += [f"{data}.{score}" for data in ("test", *tests) for score in scores]
    for metric in metrics:
        if metric not in known:
            raise unknown_key(metric, known)
    if not metrics or len(set(metrics)) != len(metrics):
        raise ConfigError("metrics must be different names, one at least", where="metrics")
    data = config.data
    has_test = data.test is not None or data.test_share > 0 or (data.train is None and data.generated is not None)
    if any(metric.startswith("test.") for metric in metrics) and not has_test:
        raise ConfigError("there is no test data to measure on", where="metrics",
                          fix="give data.test or data.test_share, or measure on validation")
