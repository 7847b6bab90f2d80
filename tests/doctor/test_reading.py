"""Reading stumbles over nothing, counts what training would stop at, and is the strict one where nothing is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.config import DataConfig, Split
from pellucid.data import text_lines
from pellucid.data.shards import numbered, place, shards_of
from pellucid.data.sources import fields_for
from pellucid.data.splits import Pairs
from pellucid.data.text_lines import read_lines
from pellucid.doctor import reading
from pellucid.doctor.draft import Draft, finish
from pellucid.doctor.finding import Crowd, Tally
from pellucid.doctor.reading import Reading, TolerantLines, parts_of
from pellucid.errors import DataError

FIELDS = fields_for("seq2seq", DataConfig())


def records(split: Split) -> tuple[list[tuple[int, str, str]], Reading]:
    found = Reading(Pairs("train", split, FIELDS))
    rows = [row for w in found.windows() for row in zip(w.numbers, w.sources, w.targets, strict=True)]
    return rows, found


def test_faults_are_counted_by_line(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntw\xf6\nthree\r\n\nfive")
    lines = TolerantLines()
    assert list(lines.read(str(path))) == ["one", "twö", "three", "", "five"]
    assert {kind: tally.numbers for kind, tally in lines.faults.items()} == {
        "byte_order_mark": [1], "carriage_return": [1, 3], "encoding": [2]}
    assert lines.count == 5


@settings(max_examples=60, deadline=None)
@given(lines=st.lists(st.text(st.characters(exclude_characters="\n\r", exclude_categories=("Cs",))), min_size=1),
       size=st.integers(1, 12))
def test_valid_text_is_read_as_training_reads_it(tmp_path_factory: pytest.TempPathFactory, lines: list[str],
                                                 size: int) -> None:
    path = tmp_path_factory.mktemp("text") / "lines.txt"
    path.write_bytes("".join(line + "\n" for line in lines).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "_AT_ONCE", size)
        try:
            strict = list(read_lines(str(path)))
        except DataError:  # nothing but a byte order mark
            return
        assert list(TolerantLines().read(str(path))) == strict


def test_two_files_of_different_lengths(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n2\n3\n")
    (tmp_path / "b").write_text("x\n")
    rows, found = records(Split(source=str(tmp_path / "a"), target=str(tmp_path / "b")))
    assert rows == [(1, "1", "x")]
    assert found.lengths == (3, 1, shards_of(found.pairs.split)[0])


def test_a_table_with_a_header_and_lines_of_another_shape(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("id\tsource\ttarget\n1\ta\tb\n2\tc\n3\td\te\tf\n4\tg\th\n")
    rows, found = records(Split(path=str(tmp_path / "t.tsv")))
    assert rows == [(2, "a", "b"), (5, "g", "h")]
    assert found.columns.numbers == [3, 4]


def test_a_table_of_a_header_alone_has_no_records_as_training_has_none(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("source\ttarget\n")
    assert "no records" in str(records(Split(path=str(tmp_path / "t.tsv")))[1].stop)


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\nmore"])
def test_lines_are_too_long_where_training_finds_them_so(tmp_path: Path, end: str,
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_lines, "MAX_LINE_BYTES", 40)
    monkeypatch.setattr(reading, "MAX_LINE_BYTES", 40)
    monkeypatch.setattr(reading, "_AT_ONCE", 7)
    for length in range(30, 50):
        (tmp_path / "t").write_bytes(b"first\n" + b"a" * length + end.encode())
        said = []
        for read in (read_lines, TolerantLines().read):
            try:
                said.append([line.removesuffix("\r") for line in read(str(tmp_path / "t"))])
            except DataError as error:
                said.append([error.what])
        assert said[0] == said[1]


def test_what_cannot_be_read_on_from_is_kept(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"source": "a", "target": "b"}\n{"source": 5}\n')
    rows, found = records(Split(path=str(tmp_path / "t.jsonl")))
    assert rows == [(1, "a", "b")]
    assert isinstance(found.stop, DataError)
    assert found.stop.where.endswith("t.jsonl:2")
    assert isinstance(records(Split(path=str(tmp_path / "none.tsv")))[1].stop, DataError)
    (tmp_path / "wide.txt").write_bytes("a\tb\n".encode("utf-16"))
    assert "UTF-16" in str(records(Split(path=str(tmp_path / "wide.txt")))[1].stop)


def test_windows_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.tsv").write_text("ab\tcd\n" * 10)
    monkeypatch.setattr(reading, "WINDOW", 4)
    found = Reading(Pairs("train", Split(path=str(tmp_path / "t.tsv")), FIELDS))
    assert [len(window) for window in found.windows()] == [4, 4, 2]
    monkeypatch.setattr(reading, "_WINDOW_CHARACTERS", 9)
    assert [len(window) for window in found.windows()] == [3, 3, 3, 1]


def test_a_tally_knows_where_its_lines_crowd() -> None:
    tally = Tally()
    tally.add([5, 90, *range(200, 240, 2), 700])
    assert (tally.count, tally.numbers, tally.block) == (23, [5, 90, 200], Crowd((200, 202, 204), 238, 20))
    scattered = Tally()
    scattered.add(range(0, 1000, 10))
    assert scattered.block is None


def test_each_shard_is_read_with_its_own_lines(tmp_path: Path) -> None:
    for side, shards in {"en": [b"one\ntwo\n", b"\xef\xbb\xbfthr\xe9e\r\nfour\nfive\n", b"six\n"],
                         "de": [b"eins\nzwei\n", b"drei\nvier\n", b"sechs\n"]}.items():
        (tmp_path / side).mkdir()
        for i, content in enumerate(shards):
            (tmp_path / side / f"{i}.{side}").write_bytes(content)
    split = Split(source=str(tmp_path / "en"), target=str(tmp_path / "de"))
    rows, found = records(split)
    assert [(a, b) for _, a, b in rows] == [("one", "eins"), ("two", "zwei"), ("thrée", "drei"), ("four", "vier"),
                                            ("six", "sechs")]
    assert [place(split, number, 0) for number, _, _ in rows] == [
        f"{tmp_path}/en/{file}.en:{line}" for file, line in ((0, 1), (0, 2), (1, 1), (1, 2), (2, 1))]
    assert {kind: tally.numbers for kind, tally in found.texts[0].faults.items()} == {
        kind: [numbered(1, 1)] for kind in ("byte_order_mark", "encoding", "carriage_return")}
    assert found.lengths == (3, 2, shards_of(split)[1])
    assert [len(window) for window in found.windows()] == [2, 2, 1]


def test_a_crowd_is_told_with_the_shard_that_it_stands_in(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    for i in range(2):
        (tmp_path / "tables" / f"{i}.tsv").write_text("a\tb\n" * 90 + "\t\n" * 10 * i)
    part, = parts_of({"train": Pairs("train", Split(path=str(tmp_path / "tables")), FIELDS)})
    tally = Tally()
    tally.add(numbered(1, line) for line in range(91, 101))
    (finding,) = finish([Draft.of("empty", part, tally, 190)])
    assert finding.what.endswith(f"most of them in lines 91 to 100 of {tmp_path}/tables/1.tsv")
    assert finding.examples[0].place == f"{tmp_path}/tables/1.tsv:91"
