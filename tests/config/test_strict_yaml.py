"""Whatever YAML is given, it is read as plain data or refused with its line; nothing exhausts the stack."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pellucid.config import strict_yaml
from pellucid.config.strict_yaml import as_yaml, read_yaml
from pellucid.errors import ConfigError

TEXT = st.text(st.characters(exclude_categories=("Cs",)))
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=20)


@settings(max_examples=300)
@example("a\x85b")
@example({"a\u2028 \x85\u2029": "\x85"})
@given(PLAIN)
def test_what_is_written_is_read_again(value: Any) -> None:
    text = as_yaml(value)
    assert read_yaml(text, "here") == value == yaml.safe_load(text)


@pytest.mark.parametrize("depth", [33, 100, 330, 480, 1000, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("[", ""), ("{a: ", "}"), ("{a: ", ""), ("- ", ""),
                                                  ("? ", ""), ("[{a: ", "}]")])
def test_what_is_too_deep_is_refused_at_its_line(opening: str, closing: str, depth: int) -> None:
    with pytest.raises(ConfigError) as error:
        read_yaml("# one line\n" + opening * depth + closing * depth, "my.yaml")
    assert error.value.where == "my.yaml:2"
    assert "levels lie inside each other" in error.value.why


def test_without_libyaml_yaml_is_read_and_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    spec = importlib.util.spec_from_file_location("without_libyaml", str(strict_yaml.__file__))
    assert spec is not None
    assert spec.loader is not None
    plain = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plain)
    text = as_yaml({"a": [1, None, {"b": "c: d"}], "e": 0.5, "文": "字"})
    assert plain.read_yaml(text, "here") == read_yaml(text, "here")
    for bad in ("[" * 100_000, "a: 1\na: 2", "a: !!python/name:os.system", "a: \ud800", "a: [1"):
        with pytest.raises(ConfigError, match="is no YAML"):
            plain.read_yaml(bad, "here")


def test_thirty_levels_are_read() -> None:
    assert read_yaml("[" * 30 + "]" * 30, "here") == json.loads("[" * 30 + "]" * 30)


@pytest.mark.parametrize(("text", "why"), [
    (f"a: {'1:' * 200}1.0", "is no float"),
    ("a: &a [*a]", "recursive"), ("a: &a {b: *a}", "recursive"), ("[a]: 1", "unhashable"), ("{a: 1}: 1", "unhashable"),
    ("a: !!bool x", "'x' is no bool"), ("a: !!int ''", "'' is no int"), ("a: !!timestamp x", "'x' is no timestamp"),
    ("a: 2024-13-45", "'2024-13-45' is no timestamp"), ("a: !!map 5", "'5' is no map"), ("a: 0b_", "'0b_' is no int"),
    ("a: " + "1" * 5000, "is no int"), ("a: \0", "characters are not allowed"),
    ("a: \ud800", "not allowed"), ("a: 1\na: 2", "stands twice"),
    ("{b: {a: 1, a: 2}}", "stands twice"), ("{yes: 1, on: 2}", "the key on stands twice"), ("{8: 1, 010: 2}", "twice"),
    ("{<<: {a: 1}, <<: {b: 1}}", "stands twice"), ("a: !!python/name:os.system", "python/name"), ("<<: 5", "merging")])
def test_what_is_no_plain_data_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match="is no YAML") as error:
        read_yaml(text, "my.yaml")
    assert why in error.value.why
    assert len(error.value.why) < 200
    assert error.value.where.startswith("my.yaml")


def test_names_for_what_is_written_twice_are_kept() -> None:
    assert read_yaml("a: &it {x: 1}\nb: *it\nc: {<<: *it, y: 2}", "here") == {
        "a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1, "y": 2}}


def test_what_has_a_meaning_of_its_own_as_a_key_is_no_fault() -> None:
    assert read_yaml("{=: 1, <<: {a: 2}, ~: 3, 1.5: 4}", "here") == {"=": 1, "a": 2, None: 3, 1.5: 4}
