"""Every fault of mutations.yaml can be put in, and one is found."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from benchmarks.claims import ROOT
from benchmarks.mutations import Mutation, killers_in, put_in, read_mutations

SOURCE = ROOT / "src/pellucid"


@pytest.mark.parametrize("mutation", read_mutations(), ids=lambda each: each.says)
def test_a_fault_can_be_put_in(mutation: Mutation, tmp_path: Path) -> None:
    for edit in mutation.edits:
        (tmp_path / edit.file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SOURCE / edit.file, tmp_path / edit.file)
    before = put_in(mutation, tmp_path)
    assert all(path.read_text(encoding="utf-8") != text for path, text in before.items())
    assert all(list((ROOT / folder).glob("test_*.py")) for folder in mutation.folders)


def test_the_tests_named_as_the_file_are_asked_first() -> None:
    assert Mutation("nn/dropout.py", "x", "y").own_tests == ["tests/nn/test_dropout.py"]
    assert Mutation("kernels/rows.cpp", "x", "y").own_tests == []


def test_what_found_a_fault_is_asked_again_while_it_is_there(tmp_path: Path) -> None:
    here = "tests/nn/test_dropout.py::test_any_size[size0]"
    gone = ("tests/nn/test_dropout.py::test_of_old", "tests/nn/test_of_old.py::test_any_size",
            "not done after 900 s", None)
    rows = [{"file": str(i), "says": "x", "killed_by": test} for i, test in enumerate((here, *gone))]
    (tmp_path / "last.json").write_text(json.dumps({"mutations": rows}))
    assert killers_in(tmp_path / "last.json") == {("0", "x"): here}
    assert killers_in(tmp_path / "none.json") == killers_in(None) == {}


def test_there_are_enough() -> None:
    assert len(read_mutations()) >= 92


def test_what_stands_there_twice_or_not_at_all_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\nx = 1\n")
    with pytest.raises(ValueError, match=r"a\.py has 2 times 'x = 1'"):
        put_in(Mutation("a.py", "x = 1", "x = 2"), tmp_path)
