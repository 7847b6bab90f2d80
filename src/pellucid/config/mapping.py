"""A mapping → a configuration, checked by name, type and range, and back. Defaults < recipe or file < flags."""

import dataclasses
from typing import Any

from pellucid.config import RunConfig
from pellucid.config.checks import check_pairs, check_ranges
from pellucid.config.reader import read_dataclass


def from_mapping(mapping: dict[str, Any]) -> RunConfig:
    """The run that `mapping` describes, every key checked by name, type and range.

    Raises:
        ConfigError: an unknown key (with the nearest valid one), a wrong type, a value out of range.
    """
    config: RunConfig = read_dataclass(RunConfig, mapping)
    check_ranges(_flatten(to_mapping(config)))
    check_pairs(config)
    return config


def to_mapping(config: RunConfig) -> dict[str, Any]:
    """`config` as plain data, ready for YAML; `from_mapping` gives it back."""
    return {key: _plain(value) for key, value in dataclasses.asdict(config).items()}


def differences(a: RunConfig, b: RunConfig) -> list[tuple[str, Any, Any]]:
    """The keys whose values differ, dotted, with both values."""
    flat_a, flat_b = _flatten(to_mapping(a)), _flatten(to_mapping(b))
    keys = sorted(set(flat_a) | set(flat_b))
    return [(key, flat_a.get(key), flat_b.get(key)) for key in keys if flat_a.get(key) != flat_b.get(key)]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _flatten(mapping: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in mapping.items():
        flat |= _flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat
