"""Titles and pieces of articles: what is written, and that nothing is both learned from and held out."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks import articles

SPLITS = ("train", "validation", "test")


def pieces(folder: Path, split: str) -> list[tuple[str, str]]:
    lines = (folder / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
    return [(record["title"], record["text"]) for record in map(json.loads, lines)]


def test_a_piece_is_in_one_split_and_stands_in_its_passage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passages = {f"题{i}": "".join(f"第{j}句说{i}的事，{j * 7 + i}年。" for j in range(40)) for i in range(60)}
    file = tmp_path / "questions.json"
    paragraphs = [{"title": title, "paragraphs": [{"context": text, "qas": []}] * 2}
                  for title, text in passages.items()]
    file.write_text(json.dumps({"data": paragraphs}), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["articles", str(file), "--out", str(tmp_path), "--characters", "60"])
    articles.main()
    found = [pieces(tmp_path, split) for split in SPLITS]
    everything = [piece for pairs in found for piece in pairs]
    assert len(set(everything)) == len(everything) > 500
    assert all(15 <= len(text) <= 60 and text in passages[title] for title, text in everything)
    assert {title for title, _ in found[0]} == set(passages)
    for held in found[1:]:
        assert 0.02 < len(held) / len(everything) < 0.06
