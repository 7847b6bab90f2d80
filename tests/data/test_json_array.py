"""A JSON array read as a stream gives what reading it whole gives, and places its mistakes as exactly."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from pellucid.data import json_array
from pellucid.data.json_array import about_how_many, read_array
from pellucid.errors import DataError

VALUES: list[Any] = [{"title": "天地", "marks": "\ufeff" * 7, "text": "玄，\u2028 \"黄\" \\\n😀",
                      "tags": ["a", {"b": None}]},
                     {}, 1234.5e6, {"n": [1.5e3, True]}, {"long": "x" * 3000}, "é", [], 12]


def written(path: Path, data: str | bytes) -> str:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return str(path)


@pytest.mark.parametrize("window", [1, 2, 3, 7, 1000, 2**20])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_window_of_any_size_gives_the_same_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int,
                                                    indent: int | None) -> None:
    monkeypatch.setattr(json_array, "_BYTES_AT_ONCE", window)
    values = VALUES if window >= 7 else VALUES[:3]
    for ascii_only in (True, False):
        text = json.dumps(values, indent=indent, ensure_ascii=ascii_only)
        assert list(read_array(written(tmp_path / "a.json", f"\ufeff \n{text}\n "))) == values
    assert list(read_array(written(tmp_path / "a.json", "[ ]"))) == []


@pytest.mark.parametrize("window", [1, 5, 2**20])
@pytest.mark.parametrize(("text", "why"), [
    ('[{"a": 1},\n  {"b": 2}', "a comma or ] is wanted at line 2, column 11"),
    ('[{"a": 1}\n {"b": 2}]', "a comma or ] is wanted at line 2, column 2"),
    ('[{"a": 1},\n {"b: 2}]', "at line 2, column 3"),
    ('[{"a": 1},\n\n x]', "at line 3, column 2"),
    ("[1, 2]\n []", "something follows the end of the array at line 2, column 2"),
    ("[1, 2,]", "at line 1, column 7"),
])
def test_a_mistake_is_placed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int, text: str,
                             why: str) -> None:
    monkeypatch.setattr(json_array, "_BYTES_AT_ONCE", window)
    with pytest.raises(DataError) as caught:
        list(read_array(written(tmp_path / "a.json", text)))
    assert caught.value.why.endswith(why), caught.value.why


@pytest.mark.parametrize("window", [1, 4, 2**20])
def test_a_byte_that_is_no_text_is_placed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    monkeypatch.setattr(json_array, "_BYTES_AT_ONCE", window)
    for data, offset, line in ((b'["\xe5\xa4\xa9",\n"\xff"]', 9, 2), (b'\xef\xbb\xbf["\xe5\xa4"]', 5, 1),
                               (b'[{"a": 1,\n"b": 2,\n"c": "\xff"}]', 24, 3), (b"[1]\n\xc3", 4, 2)):
        path = written(tmp_path / "a.json", data)
        with pytest.raises(DataError, match=f"at offset {offset} ") as caught:
            list(read_array(path))
        assert caught.value.where == f"{path}:{line}"


@pytest.mark.parametrize(("text", "why"), [
    ('[{"a": "' + "x" * 100_000, "Unterminated string"), ("[1" + "." * 100_000, "a comma or ] is wanted"),
    ('["a"' + "-" * 100_000 + "]", "a comma or ] is wanted at line 1, column 5")])
def test_a_value_without_end_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str,
                                                      why: str) -> None:
    monkeypatch.setattr(json_array, "_BYTES_AT_ONCE", 100)
    monkeypatch.setattr(json_array, "MAX_LINE_BYTES", 1000)
    path = written(tmp_path / "a.json", text)
    seen: list[int] = []
    more = json_array._Window._more
    monkeypatch.setattr(json_array._Window, "_more", lambda self: seen.append(len(self.text)) or more(self))
    with pytest.raises(DataError, match=why):
        list(read_array(path))
    assert max(seen) <= 1200


def test_what_is_read_is_let_go_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_array, "_BYTES_AT_ONCE", 100)
    seen: list[int] = []
    more = json_array._Window._more
    monkeypatch.setattr(json_array._Window, "_more", lambda self: seen.append(len(self.text)) or more(self))
    assert sum(1 for _ in read_array(written(tmp_path / "a.json", json.dumps(["x" * 30] * 1000)))) == 1000
    assert max(seen) <= 200


def test_how_many_there_are_about_is_told_by_the_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_array, "_LOOKED_AT", 5000)
    alike = [{"text": f"一{i:06}"} for i in range(10_000)]
    path = written(tmp_path / "a.json", "\ufeff" + json.dumps(alike, ensure_ascii=False))
    assert about_how_many(path) == pytest.approx(10_000, rel=0.01)
    assert about_how_many(written(tmp_path / "b.json", json.dumps(alike[:9]))) == 9
    for text in (json.dumps(["x" * 9000] * 3), '{"text": "a"}\n', "", "[", "[]"):
        assert about_how_many(written(tmp_path / "c.json", text)) is None
    monkeypatch.setattr(json_array, "_LOOKED_AT", 300_000)
    packed = gzip.compress(json.dumps([random.Random(i).getrandbits(256) for i in range(10_000)]).encode())
    assert about_how_many(written(tmp_path / "d.json.gz", packed)) == pytest.approx(10_000, rel=0.1)
    assert about_how_many(written(tmp_path / "e.json.gz", gzip.compress(json.dumps(alike[:9]).encode()))) == 9
    with pytest.raises(DataError, match="not valid gzip"):
        about_how_many(written(tmp_path / "f.json.gz", b"plain"))
