"""`pellucid prepare` says how to go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pellucid.cli import main
from pellucid.train import prepare


def test_the_next_command_has_the_same_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                             capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(prepare, "prepare", lambda config, out, reporter: seen.append(config) or {})
    words = ["copy", "--model.max_length", "20", "--out", str(tmp_path / "a run")]
    assert main(["prepare", *words]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        f"next: pellucid train copy --model.max_length 20 --out '{tmp_path / 'a run'}'")
    assert seen[0].model.max_length == 20


@pytest.mark.usefixtures("no_own_parts")
def test_the_next_command_knows_parts_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                  capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(prepare, "prepare", lambda config, out, reporter: {})
    (tmp_path / "own.py").write_text("")
    monkeypatch.chdir(tmp_path)
    assert main(["prepare", "--import", "own.py", "copy", "--out", "run"]) == 0
    assert capsys.readouterr().out.endswith("next: pellucid train copy --out run --import own.py\n")
