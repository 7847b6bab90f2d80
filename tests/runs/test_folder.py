"""What a run that has begun may still be told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pellucid.cli import main
from pellucid.config.mapping import from_mapping
from pellucid.data.splits import open_splits
from pellucid.errors import ConfigError
from pellucid.runs.folder import claim_config, has_begun, prepare_tokenizers, read_config, write_config
from pellucid.runs.scored import scores_in_use


def test_a_run_that_has_begun_can_be_told_its_languages_and_no_other_data(tmp_path: Path) -> None:
    begun = {"train": "a.tsv"}
    write_config(from_mapping({"data": begun}), tmp_path)
    (tmp_path / "checkpoints" / "step-00000001").mkdir(parents=True)
    assert has_begun(tmp_path)
    told = from_mapping({"data": {**begun, "source_language": "en", "target_language": "fr"}})
    assert claim_config(told, tmp_path) is None
    assert read_config(tmp_path) == told
    with pytest.raises(ConfigError, match="another configuration"):
        claim_config(from_mapping({"data": {"train": "b.tsv"}}), tmp_path)


@pytest.mark.parametrize(("told", "expected"), [
    ({"task": "classification"}, "vocabulary: 6 tokens, 2 labels"),
    ({"tokenizer": {"kind": "word", "shared": False}}, "vocabulary: 6 and 7 tokens"), ({}, "vocabulary: 9 tokens")])
def test_the_vocabularies_that_there_are_are_told(told: dict[str, Any], expected: str, tmp_path: Path) -> None:
    columns = ("text", "label") if "task" in told else ("source", "target")
    data = tmp_path / "data.tsv"
    data.write_text("\t".join(columns) + "\na b\tx y\na\tz\n")
    config = from_mapping({"data": {"train": str(data)}, "tokenizer": {"kind": "word"}, **told})
    said: list[str] = []
    prepare_tokenizers(config, open_splits(config, tmp_path)["train"], tmp_path / "run", said.append, lambda: told_of)
    assert said[-1] == expected


def test_so_it_is_where_a_tokenizer_is_trained_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data.tsv").write_text("".join(f"{i}\ta\n" for i in range(10_000)))
    said: list[str] = []
    monkeypatch.setattr("pellucid.train.journal.Reporter.progress", lambda self, line: said.append(line))
    assert main(["tokenizer", "train", "copy", "--data.train", str(tmp_path / "data.tsv"), "--data.validation",
                 str(tmp_path / "data.tsv"), "--out", str(tmp_path / "made")]) == 0
    assert [line.partition(", about")[0] for line in said] == ["tokenizer: 8,192 of 10,000 lines read"]


def told_of(lines: int) -> None:
    raise AssertionError("so few lines take no time")


def test_how_many_lines_a_tokenizer_has_counted_is_told_at_each_reading(tmp_path: Path) -> None:
    data = tmp_path / "data.tsv"
    data.write_text("label\ttext\n" + "".join(f"{i % 2}\t{i} a\n" for i in range(20_000)))
    config = from_mapping({"task": "classification", "tokenizer": {"kind": "word"},
                           "data": {"train": str(data), "validation": str(data)}})
    told: list[list[int]] = []

    def telling() -> Callable[[int], None]:
        told.append([])
        return told[-1].append

    prepare_tokenizers(config, open_splits(config, tmp_path)["train"], tmp_path / "run", lambda line: None, telling)
    assert told == [[8192, 16_384]] * 2  # of labels, and of words


@pytest.mark.parametrize("report", ["[" * 100_000, "{", "[]", None], ids=["deep", "cut", "another", "none"])
def test_a_report_that_cannot_be_read_tells_nothing(report: str | None, tmp_path: Path) -> None:
    (tmp_path / "evaluation").mkdir()
    if report is not None:
        (tmp_path / "evaluation" / "test.json").write_text(report)
    assert scores_in_use(tmp_path, "test") is None
