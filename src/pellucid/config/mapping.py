"""A mapping → a configuration, checked by name, type and range, and back. Defaults < recipe or file < flags."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from pellucid.config import RunConfig
from pellucid.config.checks import check_pairs, check_ranges
from pellucid.config.reader import key_of, merge, read_dataclass
from pellucid.errors import ConfigError

_STANDS_IN = {"steps": "epochs", "batch_tokens": "batch_sentences"}  # keys of `train`, and what is used in their place


def from_mapping(mapping: dict[str, Any]) -> RunConfig:
    """The run that `mapping` describes, every key checked by name, type and range.

    Raises:
        ConfigError: an unknown key (with the nearest valid one), a wrong type, a value out of range.
    """
    config: RunConfig = read_dataclass(RunConfig, mapping)
    check_ranges(flatten(to_mapping(config)))
    check_pairs(config)
    return config


def override(mapping: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`mapping` with `over` laid on top: what `over` gives counts, whatever stands in for it in `mapping`.

    Raises:
        ConfigError: `over` gives a key and what stands in for it.
    """
    train = over.get("train")
    if not isinstance(train, dict):  # nothing, or what the reader will refuse
        return merge(mapping, over)
    given = {key: stand_in for key, stand_in in _STANDS_IN.items() if key in train}
    for key, stand_in in given.items():
        if train.get(stand_in) is not None:
            raise ConfigError(f"train.{key} and train.{stand_in} are given at once", where=f"train.{key}",
                              why=f"train.{stand_in} stands in for train.{key}", fix="give one of them")
    return merge(mapping, merge({"train": dict.fromkeys(given.values())}, over))


def to_mapping(config: RunConfig) -> dict[str, Any]:
    """`config` as plain data, ready for YAML; `from_mapping` gives it back."""
    return {key: _plain(value) for key, value in dataclasses.asdict(config).items()}


def differences(a: RunConfig, b: RunConfig) -> list[tuple[str, Any, Any]]:
    """The keys whose values differ, dotted, with both values."""
    return [(key, *values) for key, values in differing([a, b])]


def as_table(rows: Iterable[tuple[str, Any, Any]]) -> str:
    """Such rows for the reason of an error, a line each."""
    return "".join(f"\n         {key}: {there} there, {here} here" for key, there, here in rows)


def differing(configs: Sequence[RunConfig]) -> list[tuple[str, list[Any]]]:
    """The keys whose values are not the same in all of them, dotted, with each one's value."""
    flat = [flatten(to_mapping(config)) for config in configs]
    found = ((key, [one.get(key) for one in flat]) for key in sorted(set().union(*flat)))
    return [(key, values) for key, values in found if any(value != values[0] for value in values)]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key_of(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def flatten(mapping: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The same with dotted keys: ``{"a": {"b": 1}}`` → ``{"a.b": 1}``."""
    flat: dict[str, Any] = {}
    for key, value in mapping.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat
