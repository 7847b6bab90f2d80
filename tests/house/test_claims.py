"""Every number in a table of README and docs is held by a line of benchmarks/claims.yaml, whose command exists."""

from __future__ import annotations

import importlib.util
import re
import shlex

import pytest

from benchmarks.claims import ROOT, read_claims
from benchmarks.places import find, read_pages
from pellucid.cli import VERBS
from pellucid.cli.arguments import split_overrides
from pellucid.config.mapping import from_mapping, override
from pellucid.recipes import read_recipe

CLAIMS = read_claims()
LINES = list(CLAIMS.lines.values())
COMMANDS = [(line.name, command) for line in LINES for version in (line.whole, line.quick) if version
            for command in version.commands]
RECIPE = re.compile(r"[a-z][a-z0-9-]*")


def test_no_number_stands_in_a_table_without_a_command() -> None:
    spots, faults = find(CLAIMS, read_pages())
    assert faults == []
    assert len(spots) > 500


def test_a_number_that_is_added_is_found() -> None:
    pages = read_pages()
    new = "| Speed of light | 299,792 km/s | |\n"
    pages["README.md"] = pages["README.md"].replace("| Copy: new", f"{new}| Copy: new", 1)
    assert any("299,792 km/s" in fault for fault in find(CLAIMS, pages)[1])


@pytest.mark.parametrize(("name", "command"), COMMANDS)
def test_every_command_is_one_that_exists(name: str, command: str) -> None:
    plain = command.replace("{seed}", "1").replace("{root}", str(ROOT)).replace("{json}", "out.json")
    for words in (shlex.split(part) for part in re.split(r"&&|;|\||\bdo\b", plain)):
        while words and ("=" in words[0] or words[0] in ("taskset", "-c", "0")):
            words = words[1:]
        if words[:1] == ["pellucid"]:
            verb, *rest = words[1:]
            assert verb in VERBS or verb == "--help", command
            if verb == "train" and RECIPE.fullmatch(rest[0]):
                own, overrides = split_overrides(rest)
                from_mapping(override(read_recipe(own[0]).mapping, overrides))
        for i in [i for i, word in enumerate(words) if word == "-m" and words[i + 1].startswith("benchmarks.")]:
            assert importlib.util.find_spec(words[i + 1]) is not None, command
        for word in words:
            assert not word.startswith(str(ROOT) + "/tests") or (ROOT / word).exists(), command


def test_every_study_has_been_written_by_its_command() -> None:
    for report in ROOT.glob("docs/studies/*/report.md"):
        assert (report.parent / "results.csv").exists()
        assert f"`pellucid ablate {report.parent.name}" in report.read_text(encoding="utf-8")


def test_the_quick_lines_need_neither_data_nor_peers_and_take_minutes() -> None:
    quick = [line.quick for line in LINES if line.quick]
    assert len(quick) >= 10
    assert sum(version.minutes for version in quick) <= 30
    assert not any(version.needs.data or version.needs.packages or version.needs.variables for version in quick)
    assert all(version.bands for version in quick)
