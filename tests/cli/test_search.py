"""`pellucid index` and `pellucid search`: what people see, what programs read, what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pellucid.cli.passages import marked_lines
from pellucid.language import columns
from pellucid.train.journal import Reporter

TEXTS = {"猫.txt": "猫在睡觉。\n狗在叫！", "who.md": "# Who\n\nThe ＣＡＴ of Dr. Who\x1b[2J sleeps."}


@pytest.fixture
def idx(cli: Any, tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    for name, text in TEXTS.items():
        (tmp_path / "docs" / name).write_text(text, encoding="utf-8", newline="")
    done = cli("index", tmp_path / "docs", "--out", tmp_path / "idx")
    assert done.code == 0
    assert done.out.startswith(f"{tmp_path / 'idx'}: 2 documents, 2 passages, ")
    return tmp_path / "idx"


def test_people_see_the_place_and_what_matched(cli: Any, idx: Path) -> None:
    done = cli("search", idx, "which cat?")
    assert done.code == 0
    head, text = done.out.splitlines()
    assert head.startswith("1. who.md[0:37]  who  score ")
    assert text == "   # Who The [ＣＡＴ] of Dr. Who [2J sleeps."  # what would clear the screen is a space


def test_programs_read_offsets_in_the_document(cli: Any, idx: Path) -> None:
    found = json.loads(cli("search", idx, "狗叫了吗", "--json").out)
    assert found["question"] == "狗叫了吗"
    (passage,) = found["passages"]
    text = TEXTS[passage["document"]]
    assert text[passage["start"] : passage["end"]] == passage["text"]
    found = json.loads(cli("search", idx, "the cat", "--json").out)["passages"][0]
    assert [TEXTS["who.md"][start:end] for start, end in found["matched"]] == ["The", "ＣＡＴ"]


def test_a_question_a_line(cli: Any, idx: Path) -> None:
    rows = [json.loads(line) for line in cli("search", idx, "--json", stdin="cat\n猫\nzzz\n").out.splitlines()]
    assert [[one["document"] for one in row["passages"]] for row in rows] == [["who.md"], ["猫.txt"], []]
    shown = cli("search", idx, "--k", 1, stdin="cat\nzzz\n").out.splitlines()
    assert shown[0] == "cat"
    assert shown[-2:] == ["zzz", "no passage has a word or character of the question"]


def test_questions_that_are_refused(cli: Any, idx: Path) -> None:
    cli("search", idx, "").says(2, "the question is empty")
    cli("search", idx, "cat", "--k", 0).says(2, "--k")
    cli("search", idx, "caf\udce9", "--json").says(2, "the question", "byte 0xe9 at character 4")
    for words in ([], ["--json"]):
        done = cli("search", idx, *words, stdin="cat\n\ncat\n")
        done.says(2, "standard input:2", "the question is empty")
        assert done.out == cli("search", idx, *words, stdin="cat\n").out  # what was asked before it is answered
    cli("search", idx, stdin="x" * 10**7).says(2, "10,000,000 characters")
    cli("search", idx, stdin=b"cat\n\xff").says(3, "standard input:2", "UTF-8")


def test_places_that_are_refused(cli: Any, idx: Path, tmp_path: Path) -> None:
    cli("search", tmp_path / "none", "cat").says(2, "there is no such index")
    cli("search", tmp_path / "docs", "cat").says(2, "this is no index")
    cli("index", tmp_path / "docs", "--out", tmp_path / "docs").says(2, "something else")
    cli("index", tmp_path / "none", "--out", idx).says(3, "none")
    cli("index", "--out", idx).says(2, "")
    cli("index", tmp_path / "docs", "--out", idx, "--add", "--characters", 99).says(2, "--characters")
    (idx / "scores.npy").write_bytes(b"")
    cli("search", idx, "cat").says(3, "the index is damaged", "scores.npy", "build it again")


def test_a_long_work_tells_how_far_it_is(cli: Any, idx: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reporter.progress, "__kwdefaults__", {"due": True})
    done = cli("index", tmp_path / "docs", "--out", idx)
    assert "2 documents read, 2 passages\n" in done.err
    assert done.out.startswith(f"{idx}: 2 documents, ")


def test_what_is_added(cli: Any, idx: Path, tmp_path: Path) -> None:
    (tmp_path / "more.jsonl").write_text('{"id": "m", "text": "a whale"}')
    done = json.loads(cli("index", tmp_path / "more.jsonl", "--out", idx, "--add", "--json").out)
    assert (done["documents"], done["passages"]) == (3, 3)
    assert "whale" in cli("search", idx, "whale").out


@pytest.mark.parametrize("is_terminal", [False, True])
@pytest.mark.parametrize(("text", "word"), [
    ("The quick brown fox jumps over the lazy dog, and runs into the forest.", "jumps over the lazy dog"),
    ("春眠不觉晓处处闻啼鸟夜来风雨声花落知多少", "啼鸟夜来风雨声花落"),
    ("مرحبا بالعالم وشكرا لكم على كل شيء", "بالعالم وشكرا لكم"), ("one " * 4 + "word", "word"), ("word", "word")])
def test_marked_text_keeps_to_the_terminal_and_marks_no_indent(monkeypatch: pytest.MonkeyPatch, text: str, word: str,
                                                               is_terminal: bool) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    begin = text.index(word)
    lines = list(marked_lines(text, [(begin, begin + len(word))]))
    bare = [line.replace("\x1b[1;4m", "").replace("\x1b[0m", "") for line in lines]
    assert all(line.startswith("   ") and columns(line) <= 20 for line in bare)
    assert max(map(columns, bare)) > 14 or len(bare) == 1
    if is_terminal:
        assert "".join("".join(bare).split()) == "".join(text.split())
        pieces = [re.fullmatch(r"   ([^\x1b]*)(?:\x1b\[1;4m([^\x1b]*)\x1b\[0m([^\x1b]*))?", line) for line in lines]
        marked = "".join(piece[2] or "" for piece in pieces if piece)
        assert "".join(marked.split()) == "".join(word.split())
    else:
        assert "".join("".join(bare).split()) == "".join(f"{text[:begin]}[{word}]{text[begin + len(word):]}".split())
