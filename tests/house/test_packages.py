"""What can be installed: each package of an extra has a version in constraints.txt, one that is asked for."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = {"": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
LINES = [line for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if line[0] != "#"]
PINS = {canonicalize_name(name): version for name, version in (line.split("==") for line in LINES)}


@pytest.mark.parametrize(("extra", "wanted"), [(extra, text) for extra, texts in EXTRAS.items() for text in texts])
def test_every_package_of_an_extra_is_pinned(extra: str, wanted: str) -> None:
    requirement = Requirement(wanted)
    assert requirement.specifier.contains(PINS[canonicalize_name(requirement.name)])


def test_trackio_finds_a_pillow_that_it_takes() -> None:
    """Which is below 13, where matplotlib, that needs it too, takes any."""
    assert int(PINS["pillow"].split(".")[0]) < 13


def test_each_package_is_pinned_once() -> None:
    assert len(PINS) == len(LINES)
