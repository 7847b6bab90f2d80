"""Every format that the contract names trains, with and without a header, packed or not; a dry run writes nothing."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from pellucid.data.reading import Question, Reference
from pellucid.data.squad import squad_of

SHARE = ("--data.validation_share", "0.2")


def pairs(folder: Path) -> list[tuple[str, str]]:
    return [(a, b) for a, b in (line.split("\t") for line in (folder / "pairs.tsv").read_text().splitlines())]


@pytest.fixture
def trains(train_on: Callable[..., Any], data: Path) -> Callable[..., None]:
    """Trains two steps on forty pairs, and finds all of them."""

    def check(*words: object) -> None:
        done = train_on(*words, *SHARE)
        assert done.code == 0, done.err
        splits = json.loads((data / "out" / "data.json").read_text())
        assert splits["train"]["kept"] + splits["validation"]["kept"] == 40

    return check


def test_a_tsv_without_a_header(trains: Callable[..., None], data: Path) -> None:
    trains("--data.train", data / "pairs.tsv")


@pytest.mark.parametrize("header", ["source\ttarget", "target\tid\tsource"])
def test_a_tsv_with_a_header(trains: Callable[..., None], data: Path, header: str) -> None:
    names = header.split("\t")
    rows = [dict(zip(names, names)), *({"source": a, "target": b, "id": "7"} for a, b in pairs(data))]
    (data / "h.tsv").write_text("".join("\t".join(row[name] for name in names) + "\n" for row in rows))
    trains("--data.train", data / "h.tsv")


def test_tsv_columns_by_name_and_by_number(trains: Callable[..., None], data: Path) -> None:
    (data / "n.tsv").write_text("de\tx\ten\n" + "".join(f"{b}\t0\t{a}\n" for a, b in pairs(data)))
    trains("--data.train", data / "n.tsv", "--data.source_field", "en", "--data.target_field", "de")


def test_two_files_packed(trains: Callable[..., None], data: Path) -> None:
    for name in ("s", "t"):
        (data / f"{name}.gz").write_bytes(gzip.compress((data / f"{name}.txt").read_bytes()))
    trains("--data.train.source", data / "s.gz", "--data.train.target", data / "t.gz")


def test_jsonl_with_nested_fields(trains: Callable[..., None], data: Path) -> None:
    lines = "".join(json.dumps({"translation": {"en": a, "de": b}}) + "\n" for a, b in pairs(data))
    (data / "j.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    trains("--data.train", data / "j.jsonl.gz", "--data.source_field", "translation.en",
           "--data.target_field", "translation.de")


def test_parquet(trains: Callable[..., None], data: Path) -> None:
    table = pytest.importorskip("pyarrow").table({"source": [a for a, _ in pairs(data)],
                                                  "target": [b for _, b in pairs(data)]})
    pytest.importorskip("pyarrow.parquet").write_table(table, data / "p.parquet")
    trains("--data.train", data / "p.parquet")


def test_flags_replace_the_split_of_a_file(trains: Callable[..., None], data: Path) -> None:
    trains("--data.train", "/nowhere", "--data.train.source", data / "s.txt", "--data.train.target", data / "t.txt")


def test_flags_over_file_over_defaults(cli: Any, tiny: Path) -> None:
    report = json.loads(cli("train", tiny, "--dry-run", "--json", "--model.d_ff=48", "--seed", "3",
                            "--train.learning_rate", "1e-3").out)
    config = report["config"]
    assert (config["model"]["d_ff"], config["seed"], config["train"]["learning_rate"]) == (48, 3, 0.001)
    assert (config["model"]["d_model"], config["model"]["norm"]) == (16, "layernorm")


def test_a_dry_run_writes_nothing(cli: Any, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = cli("train", tiny, "--dry-run")
    assert shown.code == 0
    assert list(tmp_path.iterdir()) == []
    assert yaml.safe_load(shown.out)["model"]["d_model"] == 16
    assert "parameters" in shown.out
    assert "runs/tiny" in shown.out


def test_a_run_is_named_after_its_configuration(cli: Any, tiny: Path, tmp_path: Path,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli("train", tiny, "--train.steps", 1).code == 0
    assert (tmp_path / "runs" / "tiny" / "best.json").exists()


def test_what_to_do_next_can_be_typed_as_it_is_told(cli: Any, tiny: Path, tmp_path: Path) -> None:
    told = cli("train", tiny, "--train.steps", 1, "--out", tmp_path / "my first run").out
    assert f"next: pellucid evaluate '{tmp_path / 'my first run'}'\n" in told
    assert f"pellucid translate '{tmp_path / 'my first run'}'\n" in told


def test_a_tokenizer_alone(cli: Any, data: Path, tiny: Path, trains: Callable[..., None]) -> None:
    words = ("tokenizer", "train", tiny, "--data.train", data / "pairs.tsv", "--out", data / "tok")
    assert "tokens" in cli(*words).out
    cli(*words).says(2, "the folder exists", str(data / "tok"))
    answer = cli("tokenizer", "show", data / "tok", "--json", stdin="1 2\n\n").out
    shown = [json.loads(line) for line in answer.splitlines()]
    assert [line["text"] for line in shown] == ["1 2", ""]
    assert shown[0]["decoded"] == "1 2"
    assert shown[0].keys() == {"text", "pieces", "ids", "decoded"}
    assert shown[1]["ids"] == []
    assert "pieces   1 2" in cli("tokenizer", "show", data / "tok", "--text", "1 2", "--target").out
    trains("--data.train", data / "pairs.tsv", "--tokenizer.path", data / "tok")
    assert "pieces" in cli("tokenizer", "show", data / "out", "--text", "1 2").out


def test_a_tokenizer_for_a_reader_learns_from_what_is_read_and_asked(cli: Any, tmp_path: Path) -> None:
    asked = [("The cat sleeps, long.", Question(f"no-{i}", "Who sleeps?", (Reference("The cat", 0),)).as_json())
             for i in range(9)]
    (tmp_path / "asked.json").write_text(squad_of(asked), encoding="utf-8")
    (tmp_path / "reader.yaml").write_text("{task: reading, tokenizer: {kind: word}}", encoding="utf-8")
    cli("tokenizer", "train", tmp_path / "reader.yaml", "--data.train", tmp_path / "asked.json",
        "--data.validation_share", 0, "--out", tmp_path / "tok")
    tokens = json.loads((tmp_path / "tok" / "shared.vocab.json").read_text(encoding="utf-8"))["tokens"]
    assert set(tokens) == {"The", "cat", "sleeps", ",", "long", ".", "Who", "?"}


def test_a_tokenizer_that_is_not_there(cli: Any, train_on: Callable[..., Any], data: Path) -> None:
    train_on("--data.train", data / "pairs.tsv", "--tokenizer.path", data / "tok").says(4, str(data / "tok"))
    cli("tokenizer", "show", data / "tok", "--text", "x").says(4, str(data / "tok"))
