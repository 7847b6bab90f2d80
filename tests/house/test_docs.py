"""The reference pages say what the code says: every key of the configuration, every name in the paper's index."""

from __future__ import annotations

import ast
import dataclasses
import re
import types
import typing
from pathlib import Path
from typing import Any, Literal

import pytest

from pellucid import nn
from pellucid.ablate.study import StudyFile
from pellucid.config import RunConfig, TokenizerConfig
from pellucid.config.reader import key_of
from pellucid.data.generated.tasks import TASKS
from pellucid.doctor.advice import ADVICE
from pellucid.model import build
from pellucid.recipes import read_recipe, recipe_names
from pellucid.studies import study_names

DOCS = Path(__file__).resolve().parents[2] / "docs"


def type_text(hint: Any) -> str:
    """A type as the page writes it."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join(type_text(member) for member in typing.get_args(hint))
    if typing.get_origin(hint) is Literal:
        return ", ".join(f"`{choice}`" for choice in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        members = typing.get_args(hint)
        return "list of " + (f"{type_text(members[0])}s" if members[-1] is ... else f"{len(members)} numbers")
    names = {int: "whole number", float: "number", bool: "true or false", str: "text", type(None): "null"}
    return names.get(hint, hint.__name__.lower())


def default_text(value: Any) -> str:
    """A default as the page writes it."""
    if value is None or isinstance(value, bool):
        return {None: "`null`", True: "`true`", False: "`false`"}[value]
    return f"`{list(value) if isinstance(value, tuple) else value}`"


def expected(kind: Any = RunConfig, prefix: str = "") -> dict[str, tuple[str, str]]:
    """Each key of the configuration → its type and default."""
    keys: dict[str, tuple[str, str]] = {}
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        section = next((m for m in (hint, *typing.get_args(hint)) if dataclasses.is_dataclass(m)), None)
        if section is None or type(None) in typing.get_args(hint):
            keys[prefix + key_of(field.name)] = (type_text(hint), default_text(field.default))
        if section is not None and section.__name__ != "Split":
            keys |= expected(section, f"{prefix}{field.name}.")
    return keys


def rows(page: str) -> list[list[str]]:
    """The cells of every table row of a page."""
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]


def test_the_configuration_page_has_every_key_with_its_type_and_default() -> None:
    found = {row[0].strip("`"): (row[1], row[2]) for row in rows("configuration.md") if row[0].startswith("`")}
    assert found == expected()
    assert all(row[3] for row in rows("configuration.md"))


@pytest.mark.parametrize(("key", "registry"), [
    ("model.position", build.POSITIONS), ("model.norm", build.NORMS), ("model.residual", build.RESIDUALS),
    ("model.feed_forward", build.FEED_FORWARDS), ("model.attention", build.ATTENTIONS),
    ("model.pooling", build.POOLINGS), ("data.generated.task", TASKS)])
def test_the_configuration_page_lists_every_registered_name(key: str, registry: dict[str, Any]) -> None:
    (meaning,) = [row[3] for row in rows("configuration.md") if row[0] == f"`{key}`"]
    assert set(registry) <= set(re.findall(r"`(\w+)`", meaning))


def names_in(path: Path) -> set[str]:
    """The functions and classes that a file defines, at any depth."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def test_the_paper_page_names_what_exists() -> None:
    checked = 0
    for row in rows("paper.md"):
        if link := re.search(r"\[`(\S+)`\]\((\S+)\)", row[2]):
            assert link[2].endswith(link[1])
            wanted = set(re.findall(r"`(\w+)`", row[3]))
            assert wanted, row
            assert wanted <= names_in((DOCS / link[2]).resolve()), row
            checked += len(wanted)
    assert checked > 40


def test_the_paper_page_leaves_out_no_part_of_the_ground_floor() -> None:
    text = (DOCS / "paper.md").read_text(encoding="utf-8")
    for registry in (build.POSITIONS, build.NORMS):
        for entry in registry.values():
            part = entry.kind if isinstance(entry, build.Choice) else entry
            assert f"`{part.__name__}`" in text
    for path in Path(nn.__file__).parent.glob("*.py"):
        assert path.name == "__init__.py" or f"`nn/{path.name}`" in text


def test_the_recipes_page_has_a_section_for_each_recipe() -> None:
    text = (DOCS / "recipes.md").read_text(encoding="utf-8")
    for name in recipe_names():
        section = " ".join(text.split(f"## {name}\n")[1].split("\n## ")[0].split())
        assert f"pellucid train {name}" in section
        assert f"Cost: {read_recipe(name).about['cost']}" in section, name


def test_the_studies_page_has_a_row_for_each_study_and_each_key() -> None:
    first = {row[0].strip("`") for row in rows("studies.md")}
    assert set(study_names()) <= first
    assert {"about", *(field.name for field in dataclasses.fields(StudyFile))} <= first


def test_every_kind_of_tokenizer_is_described() -> None:
    (row,) = [row for row in rows("configuration.md") if row[0] == "`tokenizer.kind`"]
    kinds = typing.get_args(typing.get_type_hints(TokenizerConfig)["kind"])
    assert all(f"`{kind}`" in row[1] for kind in kinds)


def test_the_doctors_page_has_a_row_for_each_finding() -> None:
    source = DOCS.parent / "src" / "pellucid"
    files = list((source / "doctor").glob("*.py"))
    pattern = re.compile(r"""(?:Finding|Draft|of_error|_damaged)\(\s*"(\w+)",""")
    made = {kind for path in files for kind in pattern.findall(path.read_text(encoding="utf-8"))}
    listed = {row[0].strip("`") for row in rows("doctor.md") if row[0].startswith("`")}
    assert listed == made | set(ADVICE)
