"""A corpus of several windows: a run on it that was stopped in any of them ends in the bytes of one that was not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pellucid.data import blocks, examples
from pellucid.data.corpus import Corpus


@pytest.mark.parametrize("over", [{}, {"data": {"objective": "span_corruption"}, "tokenizer": {"sentinels": 2}}],
                         ids=["as it is", "drawn anew"])
def test_stopped_and_resumed_is_byte_for_byte_the_same(over: dict[str, Any], tmp_path: Path, tiny: Any,
                                                       train_through: Any, snapshot: Any,
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    made = set[tuple[int, range]]()
    look = Corpus.window

    def window(self: Corpus, epoch: int, of: range) -> Any:
        made.add((epoch, of))
        return look(self, epoch, of)

    monkeypatch.setattr(Corpus, "window", window)
    monkeypatch.setattr(blocks, "WINDOW", 2)
    for module in (blocks, examples):
        monkeypatch.setattr(module, "BLOCK", 10)
    whole = train_through(tiny(**over), tmp_path / "whole")
    assert len(made) > 4
    parts = train_through(tiny(**over), tmp_path / "parts", (1, 2, 5, 7))
    assert snapshot(tmp_path / "parts") == snapshot(tmp_path / "whole")
    assert {**parts, "run": ""} == {**whole, "run": ""}
