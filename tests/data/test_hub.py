"""Hub data sets: written out once, read like any local file. A folder stands for the Hub: no test needs a network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pellucid.config import DataConfig, Split
from pellucid.data.hub import with_split
from pellucid.data.sources import fields_for, read_pairs
from pellucid.errors import ConfigError, DataError

PAIRS = [("a cat", "un chat"), ("", "vide"), ("line\u2028sep", "日本 😀")]


def write(path: Path, pairs: list[tuple[str, str]]) -> None:
    path.write_text("".join(json.dumps({"source": a, "target": b}) + "\n" for a, b in pairs), encoding="utf-8")


def test_a_split_is_named_where_the_address_names_none() -> None:
    assert with_split("hub:owner/name:de-en", "validation") == "hub:owner/name:de-en#validation"
    assert with_split("hub:owner/name#dev", "validation") == "hub:owner/name#dev"
    assert with_split("a.tsv", "validation") == "a.tsv"


def test_a_hub_data_set_is_written_out_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("datasets")
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = tmp_path / "set"
    folder.mkdir()
    write(folder / "train.jsonl", PAIRS)
    write(folder / "test.jsonl", PAIRS[:1])
    fields = fields_for("seq2seq", DataConfig())
    assert list(read_pairs(Split(path=f"hub:{folder}"), fields)) == PAIRS
    assert list(read_pairs(Split(path=f"hub:{folder}#test"), fields)) == PAIRS[:1]
    kept = list((tmp_path / "cache" / "hub").iterdir())
    assert len(kept) == 2
    times = {path: path.stat().st_mtime_ns for path in kept}
    assert list(read_pairs(Split(path=f"hub:{folder}#train"), fields)) == PAIRS
    assert {path: path.stat().st_mtime_ns for path in kept} == times
    write(folder / "train.jsonl", PAIRS[1:])
    assert list(read_pairs(Split(path=f"hub:{folder}"), fields)) == PAIRS[1:]
    with pytest.raises(DataError, match="Hub data set cannot be read"):
        list(read_pairs(Split(path=f"hub:{folder}#none"), fields))
    with pytest.raises(ConfigError, match="no Hub address"):
        list(read_pairs(Split(path="hub:"), fields))
