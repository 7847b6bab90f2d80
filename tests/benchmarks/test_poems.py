"""Poems without their editors' notes."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest

from benchmarks.poems import main, without_notes


@pytest.mark.parametrize(("poem", "own"), [
    ("秦川雄帝宅，函谷壯皇居。\n（一作《帝京篇》）。", "秦川雄帝宅，函谷壯皇居。"),
    ("秦川（一本（異）作山）雄帝宅。", "秦川雄帝宅。"),
    ("[含]虛皎鏡。〖注〗\n\n賓熬{下爲火}旅。", "含虛皎鏡。\n賓熬旅。"),
    ("（闕）。", ""), ("秦川。\n函谷。", "秦川。\n函谷。")])
def test_only_notes_go(poem: str, own: str) -> None:
    assert without_notes(poem) == own
    assert without_notes(own) == own


def test_a_table_keeps_its_other_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poems = ["秦川。", "（闕）。", "函谷（注）。"]
    rows = [{"title": f"題{i}", "text": poem} for i, poem in enumerate(poems)]
    (tmp_path / "poems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    clean = tmp_path / "clean.jsonl.gz"
    monkeypatch.setattr(sys, "argv", ["poems", str(tmp_path / "poems.jsonl"), str(clean)])
    main()
    with gzip.open(clean, "rt", encoding="utf-8") as lines:
        assert [json.loads(line) for line in lines] == [rows[0], {"title": "題2", "text": "函谷。"}]
