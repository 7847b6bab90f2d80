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
