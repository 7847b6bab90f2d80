"""Data that is missing, damaged or does not fit: exit 3, with the file, the line and the byte."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Train = Callable[..., Any]


def test_missing_files(train_on: Train, data: Path) -> None:
    train_on("--data.train", data / "pears.tsv").says(3, str(data / "pears.tsv"), f"did you mean {data / 'pairs.tsv'}?")
    train_on("--data.train.source", data / "s.txt", "--data.train.target", data / "u.txt").says(3, str(data / "u.txt"))
    train_on("--data.train", data / "none" / "x.tsv").says(3, str(data / "none"))
    train_on("--data.train", data).says(3, "folder")
    train_on("--data.train", data / "pairs.tsv", "--data.validation", data / "v.tsv").says(3, str(data / "v.tsv"))


def test_a_mistake_put_right_can_use_the_same_folder(train_on: Train, data: Path) -> None:
    train_on("--data.train", data / "pears.tsv").says(3)
    (data / "bad.tsv").write_text("one column\n")
    train_on("--data.train", data / "pairs.tsv", "--data.validation", data / "bad.tsv").says(3)
    done = train_on("--data.train", data / "pairs.tsv", "--data.validation_share", "0.2",
                    "--tokenizer.lowercase", "true")
    assert done.code == 0, done.err
    assert "lowercase: true" in (data / "out" / "config.yaml").read_text()


@pytest.mark.parametrize(("lines", "counts"), [(38, ("40 lines", "38")), (43, ("40 lines", "43"))])
def test_files_of_different_lengths(train_on: Train, data: Path, lines: int, counts: tuple[str, str]) -> None:
    (data / "t.txt").write_text("1 2\n" * lines)
    files = ("--data.train.source", data / "s.txt", "--data.train.target", data / "t.txt")
    train_on(*files).says(3, *counts, str(data / "s.txt"), str(data / "t.txt"))
    train_on(*files, "--dry-run").says(3, *counts)


def test_score_and_evaluate_want_as_many_lines(cli: Any, run: Path, data: Path) -> None:
    (data / "t.txt").write_text("1 2\n" * 38)
    for verb in ("score", "evaluate"):
        cli(verb, run, "--source", data / "s.txt", "--target", data / "t.txt").says(3, "40", "38", str(data / "t.txt"))
        cli(verb, run, "--source", data / "s.txt", "--target", data / "none").says(3, str(data / "none"))


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf"])
def test_empty_files(train_on: Train, cli: Any, run: Path, data: Path, content: bytes) -> None:
    (data / "t.txt").write_bytes(content)
    train_on("--data.train.source", data / "s.txt", "--data.train.target", data / "t.txt").says(3, str(data / "t.txt"))
    (data / "e.tsv").write_bytes(content)
    train_on("--data.train", data / "e.tsv").says(3, "empty", str(data / "e.tsv"))
    (data / "e.jsonl").write_bytes(content)
    train_on("--data.train", data / "e.jsonl").says(3, str(data / "e.jsonl"))
    cli("evaluate", run, "--source", data / "s.txt", "--target", data / "t.txt").says(3, str(data / "t.txt"))


def test_nothing_but_empty_lines(train_on: Train, data: Path) -> None:
    (data / "blank.tsv").write_text("\t\n" * 30)
    train_on("--data.train", data / "blank.tsv", "--data.validation", data / "pairs.tsv").says(3, "where:")
    train_on("--data.train", data / "pairs.tsv", "--data.validation", data / "blank.tsv").says(
        3, "validation data has no usable line")


def test_too_little_for_a_validation_share(train_on: Train, data: Path) -> None:
    (data / "two.tsv").write_text("1\t1\n2\t2\n")
    train_on("--data.train", data / "two.tsv").says(3, "validation", "data.validation_share")


def test_no_validation_data_is_told_before_any_work(train_on: Train, cli: Any, data: Path, tiny: Path) -> None:
    share = ("--data.train", data / "pairs.tsv", "--data.validation_share", "0")
    train_on(*share).says(2, "there is no validation data")
    train_on(*share, "--dry-run").says(2, "there is no validation data")
    done = cli("prepare", tiny, "--out", data / "out", *share)
    assert (done.code, "there is no validation data" in done.err) == (2, True)
    assert not (data / "out" / "tokenizer").exists()


def test_bytes_that_are_no_utf8(train_on: Train, cli: Any, run: Path, data: Path) -> None:
    (data / "t.txt").write_bytes(b"1 2\n" * 6 + b"1 \xff2\n" + b"1 2\n" * 33)
    wanted = (f"{data / 't.txt'}:7", "0xff", "26")  # six lines of four bytes, and two more
    files = [data / "s.txt", data / "t.txt"]
    train_on("--data.train.source", files[0], "--data.train.target", files[1]).says(3, *wanted)
    cli("score", run, "--source", files[0], "--target", files[1]).says(3, *wanted)
    cli("translate", run, "--input", files[1]).says(3, *wanted)
    cli("translate", run, stdin=files[1].read_bytes()).says(3, "standard input:7", "0xff", "byte 3")
    cli("translate", run, "--input", files[0], "--prefix", files[1]).says(3, *wanted)
    cli("tokenizer", "show", run, "--text", "caf\udcff").says(2, "--text", "0xff", "character 4")


@pytest.mark.parametrize(("line", "told"), [("only one column", "1 column"), ("a\tb\tc", "3 columns")])
def test_tsv_lines_of_another_shape(train_on: Train, data: Path, line: str, told: str) -> None:
    (data / "p.tsv").write_text("1 2\t2\n" * 11 + line + "\n" + "1 2\t2\n" * 20)
    train_on("--data.train", data / "p.tsv").says(3, f"{data / 'p.tsv'}:12", told)


def test_a_column_that_is_not_there(train_on: Train, data: Path) -> None:
    (data / "p.tsv").write_text("english\tgerman\n" + "1 2\t2\n" * 30)
    train_on("--data.train", data / "p.tsv", "--data.source_field", "englsh").says(
        3, f"{data / 'p.tsv'}:1", "englsh", "did you mean english?")
    train_on("--data.train", data / "p.tsv", "--data.source_field", 0).says(2, "data.source_field", "from 1")


@pytest.mark.parametrize(("line", "told"), [
    ('{"source": "1", "targ', "no whole JSON"), ("", "empty"), ("[1]", "object"),
    ('{"source": "1"}', "no field target"),
    ('{"source": "1", "target": 5}', "number"), ('{"source": "1", "target": null}', "null"),
    ('{"source": "\\ud800", "target": "1"}', "surrogate")])
def test_jsonl_lines(train_on: Train, data: Path, line: str, told: str) -> None:
    (data / "p.jsonl").write_text('{"source": "1", "target": "2"}\n' * 4 + line + "\n")
    train_on("--data.train", data / "p.jsonl").says(3, f"{data / 'p.jsonl'}:5", told)


def test_packed_files_cut_short(train_on: Train, data: Path) -> None:
    packed = gzip.compress((data / "pairs.tsv").read_bytes())
    (data / "p.tsv.gz").write_bytes(packed[:-20])
    train_on("--data.train", data / "p.tsv.gz").says(3, str(data / "p.tsv.gz"), "cut short")
    (data / "p.tsv.gz").write_bytes((data / "pairs.tsv").read_bytes())
    train_on("--data.train", data / "p.tsv.gz").says(3, str(data / "p.tsv.gz"), "not valid gzip")
    (data / "p.tsv").write_bytes(packed)
    train_on("--data.train", data / "p.tsv").says(3, "name it .gz")
    (data / "p.csv").write_text("a,b\n")
    train_on("--data.train", data / "p.csv").says(3, ".csv", ".jsonl")
    (data / "p.parquet").write_bytes(b"PAR1 nothing PAR1")
    train_on("--data.train", data / "p.parquet").says(3, str(data / "p.parquet"))


def test_a_vocabulary_larger_than_the_text_allows(train_on: Train, data: Path) -> None:
    sentencepiece = ("--data.train", data / "pairs.tsv", "--data.validation_share", "0.2",
                     "--tokenizer.kind", "sentencepiece")
    train_on(*sentencepiece).says(2, "tokenizer.vocab_size is 8,000", "at most", "or less")
    train_on(*sentencepiece, "--tokenizer.vocab_size", "6").says(2, "tokenizer.vocab_size is 6", "at least")


class TestLabels:
    """Labels never seen in training, too few of them, or none."""

    def test_in_validation(self, cli: Any, tiny_classifier: Path, labelled: Path, tmp_path: Path) -> None:
        (tmp_path / "v.tsv").write_text("ab\taab1\nxy\tddc2\n")
        cli("train", tiny_classifier, "--out", tmp_path / "r", "--data.validation", tmp_path / "v.tsv").says(
            3, "'xy'", f"{tmp_path / 'v.tsv'}:2", "ab, dc")

    def test_in_evaluate(self, cli: Any, classifier: Path, tmp_path: Path) -> None:
        (tmp_path / "s.txt").write_text("aab1\nddc2\nab3\n")
        (tmp_path / "l.txt").write_text("ab\ndc\nxy\n")
        cli("evaluate", classifier, "--source", tmp_path / "s.txt", "--target", tmp_path / "l.txt").says(
            3, "'xy'", f"{tmp_path / 'l.txt'}:3", "ab, dc")

    def test_only_one(self, cli: Any, tiny_classifier: Path, tmp_path: Path) -> None:
        (tmp_path / "one.tsv").write_text("ab\taab1\n" * 30)
        cli("train", tiny_classifier, "--out", tmp_path / "r", "--data.train", tmp_path / "one.tsv").says(
            3, "two labels", "has 1", "data.label_field")

    def test_only_in_the_share_that_is_set_aside(self, cli: Any, tiny_classifier: Path, tmp_path: Path) -> None:
        """The file is that of the training: it is no help to be told to train with examples that stand there."""
        (tmp_path / "rare.tsv").write_text("".join(f"l{i}\ttext {i}\n" for i in range(40)))
        cli("train", tiny_classifier, "--out", tmp_path / "r", "--data.train", tmp_path / "rare.tsv",
            "--data.validation", "null", "--data.validation_share", "0.3").says(
            3, "never seen in training", f"{tmp_path / 'rare.tsv'}:", "a share that is set aside")

    def test_a_run_of_the_other_task(self, cli: Any, run: Path, classifier: Path) -> None:
        cli("classify", run, stdin="1 2\n").says(2, "cannot classify", "pellucid translate RUN")
        cli("translate", classifier, stdin="ab\n").says(2, "cannot generate", "pellucid classify RUN")


def test_generated_tasks(train_on: Train) -> None:
    train_on("--data.generated.task", "copi").says(2, "did you mean copy?")
    train_on("--data.generated.task", "adjacent_duplicates").says(2, "set task: classification")
    train_on("--data.generated.symbols", 2, "--data.generated.test", 5000).says(2, "different lines")


def test_generated_data_replaces_no_folder_of_the_user(cli: Any, tiny: Path, tmp_path: Path,
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.txt").write_text("precious\n")
    monkeypatch.chdir(tmp_path)
    cli("train", tiny, "--out", ".").says(2, "data", "do:")
    assert cli("tokenizer", "train", tiny, "--out", "tok").code == 0
    assert (tmp_path / "data" / "mine.txt").read_text() == "precious\n"
