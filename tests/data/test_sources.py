"""Reading pairs: every format gives the same pairs, every damaged file is refused with its place."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pellucid.config import DataConfig, Split, Task
from pellucid.data import text_lines
from pellucid.data.shards import place, sha256_of
from pellucid.data.sources import Fields, fields_for, read_records
from pellucid.data.text_lines import read_lines
from pellucid.errors import ConfigError, DataError

PAIRS = [("a cat", "un chat"), ("", "vide"), ("  two  spaces ", "l'œuvre\u00a0!"),
         ("line\u2028sep \x85 \x0b\x0c", "日本 😀")]
TRAPS = ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\r", "\0", "é", "a", " ", "\t"]


def read_pairs(split: Split, fields: Fields) -> Iterator[tuple[str, str]]:
    return ((first, second) for _, first, second in read_records(split, fields))



def pairs_of(path: Path, task: Task = "seq2seq", **data: Any) -> list[tuple[str, str]]:
    return list(read_pairs(Split(path=str(path)), fields_for(task, DataConfig(**data))))


def written(path: Path, content: str | bytes) -> Path:
    data = content.encode("utf-8") if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def refused(path: Path, task: Task = "seq2seq", **data: Any) -> DataError:
    with pytest.raises(DataError) as caught:
        pairs_of(path, task, **data)
    return caught.value


def parquet(path: Path, columns: dict[str, Any]) -> Path:
    pytest.importorskip("pyarrow.parquet").write_table(pytest.importorskip("pyarrow").table(columns), path)
    return path


def as_tsv(pairs: list[tuple[str, str]]) -> str:
    return "".join(f"{a}\t{b}\n" for a, b in pairs)


def as_jsonl(pairs: list[tuple[str, str]]) -> str:
    return "".join(json.dumps({"target": b, "id": 1, "source": a}) + "\n" for a, b in pairs)


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_every_format_gives_the_same_pairs(tmp_path: Path, ending: str) -> None:
    source = written(tmp_path / f"s.en{ending}", "".join(a + "\n" for a, _ in PAIRS))
    target = written(tmp_path / f"t.fr{ending}", "".join(b + "\n" for _, b in PAIRS))
    fields = fields_for("seq2seq", DataConfig())
    assert list(read_pairs(Split(source=str(source), target=str(target)), fields)) == PAIRS
    assert pairs_of(written(tmp_path / f"a.tsv{ending}", as_tsv(PAIRS))) == PAIRS
    assert pairs_of(written(tmp_path / f"a.txt{ending}", "source\ttarget\n" + as_tsv(PAIRS))) == PAIRS
    assert pairs_of(written(tmp_path / f"a.jsonl{ending}", as_jsonl(PAIRS))) == PAIRS
    assert pairs_of(written(tmp_path / f"lines.json{ending}", as_jsonl(PAIRS))) == PAIRS
    array = json.dumps([{"source": a, "target": b} for a, b in PAIRS], indent=1)
    assert pairs_of(written(tmp_path / f"array.json{ending}", array)) == PAIRS
    table = parquet(tmp_path / "a.parquet", {"source": [a for a, _ in PAIRS], "target": [b for _, b in PAIRS]})
    if ending:
        table = written(tmp_path / "b.parquet.gz", table.read_bytes())
    assert pairs_of(table) == PAIRS


@pytest.mark.parametrize("seed", range(200))
def test_a_file_has_the_lines_that_wc_counts(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    lines = ["".join(rng.choices(TRAPS, k=rng.randrange(8))) for _ in range(rng.randrange(1, 30))]
    lines = [line.rstrip("\r") for line in lines]  # a return before the line feed belongs to the line's end
    ends = [rng.choice(["\n", "\r\n"]) for _ in lines]
    path = written(tmp_path / "lines", "".join(map("".join, zip(lines, ends, strict=True))))
    assert list(read_lines(str(path))) == lines
    assert len(lines) == path.read_bytes().count(b"\n")


def test_a_last_line_needs_no_end_and_a_mark_at_the_start_is_skipped(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", codecs.BOM_UTF8 + b"source\ttarget\r\na\tb\r\n\xef\xbb\xbfc\td\xef\xbb\xbf")
    assert pairs_of(path) == [("a", "b"), ("\ufeffc", "d\ufeff")]


@pytest.mark.parametrize(("text", "task", "data", "expected"), [
    ("target\tsource\nb\ta\n", "seq2seq", {}, [("a", "b")]),
    ("a\tb\n", "seq2seq", {}, [("a", "b")]),
    ("x\ttitle\ttext\n1\ta\tb\n", "seq2seq", {"source_field": "title", "target_field": "text"}, [("a", "b")]),
    ("source\ttarget\tx\na\tb\tc\n", "seq2seq", {"source_field": 3, "target_field": 1}, [("x", "source"), ("c", "a")]),
    ("text\tlabel\ngood\t1\n", "classification", {}, [("good", "1")]),
    ("1\tgood\n", "classification", {}, [("good", "1")]), ("Source\tb\n", "seq2seq", {}, [("Source", "b")]),
    ("1\tgood\t5\n", "classification", {"label_field": 3}, [("good", "5")]),
])
def test_a_header_is_a_first_line_with_the_names_asked_for(tmp_path: Path, text: str, task: Task, data: dict[str, Any],
                                                          expected: list[tuple[str, str]]) -> None:
    assert pairs_of(written(tmp_path / "a.tsv", text), task, **data) == expected


def test_json_and_parquet_fields_may_be_nested_and_labels_may_be_numbers(tmp_path: Path) -> None:
    rows = [{"translation": {"de": "Hund", "en": "dog"}, "label": 3, "ok": True}]
    nested = {"source_field": "translation.en", "target_field": "translation.de"}
    lines = written(tmp_path / "a.jsonl", json.dumps(rows[0]))
    table = parquet(tmp_path / "a.parquet", {key: [row[key] for row in rows] for key in rows[0]})
    for path in (lines, table):
        assert pairs_of(path, **nested) == [("dog", "Hund")]
        assert pairs_of(path, "classification", source_field="translation.en") == [("dog", "3")]
        assert pairs_of(path, "classification", source_field="translation.en", label_field="ok") == [("dog", "true")]
    assert pairs_of(parquet(tmp_path / "b.parquet", {"x": ["1"], "y": ["2"]}), source_field=2, target_field=1) == [
        ("2", "1")]


@pytest.mark.parametrize(("text", "task", "what"), [
    ("target\ten\nune\tone\n", "seq2seq", "there is no field source"),
    ("source\tother\na\tb\n", "seq2seq", "there is no field target"),
    ("sentence\tlabel\ngood\tyes\n", "classification", "there is no field text"),
    ("label\tsentence\nyes\tgood\n", "classification", "there is no field text"),
    ("Target\tSource\nune\tone\n", "seq2seq", "there is no field source"),
    ("'source' \t'target'\na\tb\n", "seq2seq", "there is no field source"),
    ("TEXT\tLABEL\ngood\tyes\n", "classification", "there is no field text")])
def test_half_a_header_is_no_data(tmp_path: Path, text: str, task: Task, what: str) -> None:
    table = written(tmp_path / "a.tsv", text)
    with pytest.raises(DataError, match=what) as error:
        pairs_of(table, task)
    assert "a number from 1" in error.value.fix
    first, second = ("source_field", "target_field" if task == "seq2seq" else "label_field")
    assert len(pairs_of(table, task, **{first: 1, second: 2})) == 2  # by numbers it is data all the same


def test_a_column_is_one_side_alone(tmp_path: Path) -> None:
    """Who gives the number of one side takes the other's usual column with it: a text would be its own label."""
    table = written(tmp_path / "a.tsv", "good film\tyes\nbad film\tno\n")
    for task, number in (("classification", 1), ("seq2seq", 2)):
        assert refused(table, task, source_field=number).what == f"column {number} is asked for twice"
    assert pairs_of(table, "classification", source_field=1, label_field=2)[0] == ("good film", "yes")
    headed = written(tmp_path / "b.tsv", "target\tsource\nb\ta\n")
    assert pairs_of(headed, source_field=2) == [("a", "b")]
    assert refused(headed, source_field=1).where == f"{headed}:1"
    rows = parquet(tmp_path / "a.parquet", {"target": ["b"], "source": ["a"]})
    assert pairs_of(rows, source_field=2) == [("a", "b")]
    assert refused(rows, source_field=1).what == "column 1 is asked for twice"
    for alone, text in ((headed, "a"), (rows, "a")):  # without a second side there is nothing to mistake it for
        assert pairs_of(alone, source_field=2, objective="span_corruption")[-1] == (text, text)


def test_a_name_with_a_point_a_way_through_text_and_a_label_that_is_no_whole_number(tmp_path: Path) -> None:
    lines = written(tmp_path / "a.jsonl", json.dumps({"a.b": "x", "target": "y", "label": 1.5, "text": "z"}))
    assert pairs_of(lines, source_field="a.b") == [("x", "y")]
    rows = parquet(tmp_path / "a.parquet", {"a.b": ["x"], "target": ["y"]})
    assert pairs_of(rows, source_field="a.b") == [("x", "y")]
    assert refused(lines, source_field="text.z").what == "there is no field text.z"
    assert refused(lines, "classification").what == (
        "the field label is a number where text or a whole number is wanted")


def test_a_list_is_no_struct(tmp_path: Path) -> None:
    table = parquet(tmp_path / "a.parquet", {"tags": [["a"], ["b"]], "target": ["x", "y"]})
    with pytest.raises(DataError, match=r"there is no field tags\.element"):
        pairs_of(table, source_field="tags.element")


def test_files_of_different_lengths_are_refused_with_both_counts(tmp_path: Path) -> None:
    a, b = written(tmp_path / "a", "x\n" * 1200), written(tmp_path / "b", "x\n" * 1003)
    for source, target, what in [(a, b, "1,200 lines and the target 1,003"),
                                 (b, a, "1,003 lines and the target 1,200")]:
        split = Split(source=str(source), target=str(target))
        with pytest.raises(DataError, match=what) as caught:
            list(read_pairs(split, fields_for("seq2seq", DataConfig())))
        assert str(a) in caught.value.where
        assert str(b) in caught.value.where


@pytest.mark.parametrize(("name", "content", "line", "says"), [
    ("a.tsv", b"", None, "empty"),
    ("a.tsv", codecs.BOM_UTF8, None, "empty"),
    ("a.tsv.gz", b"", None, "empty"),
    ("a.tsv", b"source\ttarget\n", None, "no records"),
    ("a.tsv", b"a\tb\na\xffb\tc\n", 2, "byte 0xff at offset 5 "),
    ("a.tsv", codecs.BOM_UTF8 + b"a\tb\na\xffb\tc\n", 2, "byte 0xff at offset 8 "),
    ("a.tsv", b"a\tb\n\xed\xa0\x80\tx\n", 2, "offset 4 "),
    ("a.tsv", b"a\tb\nx\t\xc3", 2, "unexpected end"),
    ("a.tsv", "a\tb\n".encode("utf-16"), 1, "UTF-16"),
    ("a.tsv", "é\tb\n".encode("latin-1"), 1, "byte 0xe9 at offset 0 "),
    ("a.tsv", b"\x1f\x8b\x08\x00", 1, "gzip"),
    ("a.tsv", b"a\tb\nonly\n", 2, "1 column where columns 1 and 2"),
    ("a.tsv", b"a\tb\n\n", 2, "1 column where"),
    ("a.tsv", b"a\tb\na\tb\tc\n", 2, "3 columns where the first line has 2"),
    ("a.tsv", b"only\n", 1, "1 column where"),
    ("a.jsonl", b'{"source": "a", "target": "b"}\n{"source": "a", "tar', 2, "no whole JSON"),
    ("a.jsonl", b'{"source": "a", "target": "b"}\n\n', 2, "empty where"),
    ("a.jsonl", b'["a", "b"]\n', 1, "not a list"),
    ("a.jsonl", b'3\n', 1, "not a number"),
    ("a.jsonl", b'{"source": "a", "targte": "b"}\n', 1, "did you mean targte"),
    ("a.jsonl", b'{"source": "a", "target": 3}\n', 1, "target is a number where text"),
    ("a.jsonl", b'{"source": "a", "target": "b", "source": "c"}\n', 1, "more than one field source"),
    ("a.json", b'[{"source": "a", "target": "b", "target": "c"}]', "record 1", "more than one field target"),
    ("a.jsonl", b'{"source": null, "target": "b"}\n', 1, "source is null"),
    ("a.jsonl", b'{"source": "\\ud800", "target": "b"}\n', 1, "surrogate"),
    ("a.jsonl", b"[" * 100_000, 1, "cannot be read"),
    ("a.jsonl", b'{"source": ' + b"1" * 10_000 + b"}", 1, "cannot be read"),
    ("a.json", b"[\n" + b'{"source": "a", "target": "b"},\n' * 2 + b'{"sou', None, "line 4"),
    ("a.json", b"[" * 100_000, None, "cannot be read"),
    ("a.json", b'[{"source": "a"}]', "record 1", "no field target"),
    ("a.json", b"[]", None, "no records"),
    ("a.json", b'[\n"\xff"]', 2, "offset 3 "),
    ("a.parquet", b"", None, "damaged"),
    ("a.parquet", b"PAR1 and no more PAR1", None, "damaged"),
    ("a.json", b'{"data":\n [{"source": "a", "target": "b"}]}', 1, "one object a line; or one array"),
    ("a.csv", b"a,b\n", None, "format .csv is not known"),
    ("a.arrow", b"a", None, "saved to disk, say hub:"),
    ("noending", b"a\tb\n", None, "without an ending"),
])
def test_damaged_files_are_refused_with_their_place(tmp_path: Path, name: str, content: bytes, line: int | str | None,
                                                    says: str) -> None:
    path = written(tmp_path / name, content)
    error = refused(path)
    assert says in str(error)
    ending = "" if line is None else f":{line}" if isinstance(line, int) else f", {line}"
    assert error.where.startswith(f"{path}{ending}")
    assert error.exit_code == 3


@pytest.mark.skipif(shutil.which("iconv") is None, reason="what is told is a program that is not here")
@pytest.mark.parametrize(("name", "content"), [
    ("OLD.csv", 'source,target\r\n"a, ""é""","c\nd"\r\n'.encode()),
    ("OLD", 'source\ttarget\na, "é"\tc d\n'.encode("utf-16")),
    ("OLD", 'source\ttarget\na, "é"\tc d\n'.encode("cp1252"))])
def test_what_is_told_of_a_file_of_another_kind_makes_one_that_can_be_read(tmp_path: Path, name: str,
                                                                            content: bytes) -> None:
    path = written(tmp_path / name, content)
    with pytest.raises(DataError) as told:
        pairs_of(path) if name.endswith("csv") else list(read_lines(str(path)))
    command = re.findall(r"(?:iconv|python3) .* > NEW(?:\.tsv)?", told.value.fix)[0]
    subprocess.run(command.replace("python3", sys.executable), shell=True, cwd=tmp_path, check=True,
                   env={**os.environ, "PYTHONUTF8": "1"})
    (new,) = tmp_path.glob("NEW*")
    assert list(read_lines(str(new))) == ["source\ttarget", 'a, "é"\tc d']


def test_what_is_no_readable_file_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "train.tsv", "a\tb\n")
    assert "did you mean" in refused(tmp_path / "trian.tsv").fix
    assert "does not exist" in str(refused(tmp_path / "no" / "train.tsv"))
    assert refused(Path("no.tsv")).why.endswith(str(Path.cwd()))
    (tmp_path / "link.tsv").symlink_to(tmp_path / "no.tsv")
    assert "a link to nothing" in refused(tmp_path / "link.tsv").fix
    assert "NUL" in refused(Path(f"{tmp_path}/a\0b.tsv")).what
    (tmp_path / "loop.tsv").symlink_to(tmp_path / "loop.tsv")
    assert "cannot be read" in refused(tmp_path / "loop.tsv").what
    os.mkfifo(tmp_path / "pipe.tsv")  # opening it would wait for ever
    assert "no regular file" in refused(tmp_path / "pipe.tsv").what


def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "a\tb\n")
    path.chmod(0)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        assert "permission" in refused(path).what
    finally:
        if is_root:
            os.seteuid(0)


def test_a_gzip_file_cut_anywhere_or_changed_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress(as_tsv(PAIRS * 50).encode(), mtime=0)
    path = tmp_path / "a.tsv.gz"
    for length in range(1, len(whole), 7):
        path.write_bytes(whole[:length])
        assert "gzip" in str(refused(path))
    path.write_bytes(whole + b"rest")
    assert "gzip" in str(refused(path))
    path.write_bytes(b"a\tb\n")
    assert "not valid gzip" in str(refused(path))


def test_a_parquet_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet", {"source": ["a"] * 100, "target": ["b"] * 100})
    whole = path.read_bytes()
    for length in range(0, len(whole), 41):
        path.write_bytes(whole[:length])
        assert "damaged" in str(refused(path))


@pytest.mark.parametrize("name", ["a.tsv", "a.jsonl", "a.json", "a.tsv.gz", "a.parquet"])
def test_a_file_changed_anywhere_is_read_or_refused(tmp_path: Path, name: str) -> None:
    rng = random.Random(name)
    path = tmp_path / name
    whole = as_tsv(PAIRS).encode() if "tsv" in name else as_jsonl(PAIRS).encode()
    if name == "a.parquet":
        whole = parquet(path, {"source": [a for a, _ in PAIRS], "target": [b for _, b in PAIRS]}).read_bytes()
    refusals = []
    for _ in range(150):
        changed = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        written(path, bytes(changed))
        try:
            pairs_of(path)
        except DataError as error:
            refusals.append(error.where)
    assert refusals
    assert all(where.startswith(str(path)) for where in refusals)


def test_parquet_columns_are_checked(tmp_path: Path) -> None:
    assert "did you mean sources" in refused(parquet(tmp_path / "a.parquet", {"sources": ["a"], "target": ["b"]})).fix
    for side in ("source", "target"):
        columns = {"source": ["a", "b"], "target": ["c", "d"], side: ["e", None]}
        error = refused(parquet(tmp_path / "b.parquet", columns))
        assert (error.what, error.where) == (f"the field {side} is null where text is wanted",
                                             f"{tmp_path / 'b.parquet'}, row 2")
    assert "a number" in refused(parquet(tmp_path / "c.parquet", {"source": [1], "target": ["b"]})).what
    assert "no records" in refused(parquet(tmp_path / "e.parquet", {"source": [], "target": []})).what
    assert "no column 3" in refused(tmp_path / "a.parquet", source_field=3).what


def test_what_has_no_text_in_parquet_is_told_and_what_lies_beside_text_is_not_looked_at(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    far = pyarrow.array([2**30], pyarrow.date32())  # a day that Python has not
    twice = pyarrow.StructArray.from_arrays([pyarrow.array([text]) for text in "abc"], ["x", "x", "y"])
    beside = pyarrow.StructArray.from_arrays([pyarrow.array(["a"]), far, twice], ["text", "day", "more"])
    path = parquet(tmp_path / "a.parquet", {"day": far, "more": twice, "row": beside, "target": ["b"]})
    assert pairs_of(path, source_field="row.text") == [("a", "b")]
    assert pairs_of(path, source_field="row.more.y") == [("c", "b")]
    assert refused(path, source_field="day").what == "the field day is date32[day] where text is wanted"
    assert "more is struct<" in refused(path, source_field="more").what


def test_a_text_in_no_utf8_in_parquet_is_damage(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    wrong = pyarrow.StringArray.from_buffers(1, pyarrow.array([0, 1], pyarrow.int32()).buffers()[1],
                                             pyarrow.py_buffer(b"\xff"))
    assert "damaged" in refused(parquet(tmp_path / "a.parquet", {"source": wrong, "target": ["b"]})).what


def test_a_name_of_two_columns_is_that_of_neither(tmp_path: Path) -> None:
    said = "there is more than one field source"
    error = refused(written(tmp_path / "a.tsv", "source\ttarget\tsource\na\tb\tc\n"))
    assert (error.what, error.where) == (said, f"{tmp_path / 'a.tsv'}:1")
    pyarrow = pytest.importorskip("pyarrow")
    columns = [pyarrow.array([text]) for text in "abc"]
    rows = pyarrow.StructArray.from_arrays(columns, ["source", "target", "source"])
    for table, field in ((pyarrow.table(columns, ["source", "target", "source"]), "source"),
                         (pyarrow.table([rows], ["row"]), "row.source")):
        pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "a.parquet")
        assert refused(tmp_path / "a.parquet", source_field=field, target_field=field[:-6] + "target").what == said


def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    with path.open("wb") as file:
        file.truncate(2**30)  # a gibibyte of NUL, taking no place on the disk
    assert "longer than 16 MiB" in refused(path).what


def test_no_line_is_cut_in_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_lines, "MAX_LINE_BYTES", 10)
    for mark in (b"", codecs.BOM_UTF8):
        whole = b"a" * (9 - len(mark))
        assert list(read_lines(str(written(tmp_path / "a", mark + whole + b"\nb")))) == [whole.decode(), "b"]
        with pytest.raises(DataError, match="a line is longer than") as caught:
            list(read_lines(str(written(tmp_path / "a", mark + b"a" * 10 + b"\nb\n"))))
        assert caught.value.where == f"{tmp_path / 'a'}:1"


def test_a_field_the_user_chose_must_be_there(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "titel\ttarget\na\tb\n")
    error = refused(path, source_field="title")
    assert error.where == f"{path}:1"
    assert "did you mean titel" in error.fix
    assert refused(written(tmp_path / "b.tsv", "a\tb\n"), source_field="title").what == "there is no field title"
    with pytest.raises(ConfigError, match="twice"):
        fields_for("seq2seq", DataConfig(source_field="x", target_field="x"))
    with pytest.raises(ConfigError, match="twice"):  # it would be text that stands alone
        fields_for("seq2seq", DataConfig(source_field=1, target_field=1))
    with pytest.raises(ConfigError, match="count from 1"):
        fields_for("seq2seq", DataConfig(source_field=0))
    with pytest.raises(ConfigError, match="no column numbers"):
        pairs_of(written(tmp_path / "a.jsonl", as_jsonl(PAIRS)), source_field=1)


def test_reading_streams(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", as_tsv(PAIRS) + "broken\n")
    pairs = read_pairs(Split(path=str(path)), fields_for("seq2seq", DataConfig()))
    assert list(itertools.islice(pairs, len(PAIRS))) == PAIRS
    with pytest.raises(DataError, match="1 column"):
        next(pairs)


def test_the_digest_is_of_the_bytes_on_the_disk(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv.gz", as_tsv(PAIRS))
    assert sha256_of(Split(path=str(path))) == hashlib.sha256(path.read_bytes()).hexdigest()
    a, b = written(tmp_path / "a", "x\ny\n"), written(tmp_path / "b", "z\n")
    before = sha256_of(Split(source=str(a), target=str(b)))
    written(a, "x\n")
    written(b, "y\nz\n")
    assert sha256_of(Split(source=str(a), target=str(b))) != before
    with pytest.raises(DataError, match="does not exist"):
        sha256_of(Split(path=str(tmp_path / "none.tsv")))


def test_places(tmp_path: Path) -> None:
    assert place(Split(path="d/a.tsv.gz"), 3) == "d/a.tsv.gz:3"
    assert place(Split(path="a.parquet"), 3) == "a.parquet, row 3"
    assert place(Split(path="a.json.gz"), 3) == "a.json.gz, record 3"
    assert place(Split(source="a", target="b"), 3) == "a:3 and b:3"
    both = Split(source="a.json", target="b.parquet")
    assert [place(both, 3, side) for side in (0, 1)] == ["a.json:3", "b.parquet:3"]


def test_what_nobody_asks_for_may_stand_twice(tmp_path: Path) -> None:
    line = '{"note": 1, "source": "a", "note": 2, "target": "b", "more": {"x": 1, "x": 2}}\n'
    assert pairs_of(written(tmp_path / "a.jsonl", line)) == [("a", "b")]
