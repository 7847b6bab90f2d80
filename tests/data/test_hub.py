"""Hub data sets: written out once, read like any local file. A folder stands for the Hub: no test needs a network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pellucid.config import DataConfig, Split
from pellucid.data import hub
from pellucid.data.hub import with_split
from pellucid.data.sources import Fields, fields_for, read_records
from pellucid.errors import ConfigError, DataError


def read_pairs(split: Split, fields: Fields) -> Iterator[tuple[str, str]]:
    return ((first, second) for _, first, second in read_records(split, fields))

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
    with monkeypatch.context() as patch:
        patch.setattr(hub, "_download", lambda *given: pytest.fail("written out again"))
        assert list(read_pairs(Split(path=f"hub:{folder}#test"), fields)) == PAIRS[:1]
    assert list(read_pairs(Split(path=f"hub:{folder}#train"), fields)) == PAIRS
    assert {path: path.stat().st_mtime_ns for path in kept} == times
    write(folder / "train.jsonl", PAIRS[1:])
    assert list(read_pairs(Split(path=f"hub:{folder}"), fields)) == PAIRS[1:]
    with pytest.raises(DataError, match="Hub data set cannot be read"):
        list(read_pairs(Split(path=f"hub:{folder}#none"), fields))
    (tmp_path / "lines").mkdir()
    write(tmp_path / "lines" / "train.json", PAIRS)  # is no array, whatever it is called
    assert list(read_pairs(Split(path=f"hub:{tmp_path / 'lines'}"), fields)) == PAIRS
    with pytest.raises(ConfigError, match="no Hub address"):
        list(read_pairs(Split(path="hub:"), fields))


def test_bytes_are_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a Parquet file that is read without the Hub; beside the text, as pictures are, they harm nothing."""
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("datasets")
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    table = pyarrow.table({"source": ["a cat"], "target": ["un chat"], "raw": [b"un chat"]})
    (tmp_path / "set").mkdir()
    pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "set" / "train.parquet")
    split = Split(path=f"hub:{tmp_path / 'set'}")
    assert list(read_pairs(split, fields_for("seq2seq", DataConfig()))) == PAIRS[:1]
    with pytest.raises(DataError, match="the field raw is an object where text is wanted"):
        list(read_pairs(split, fields_for("seq2seq", DataConfig(target_field="raw"))))


def test_sound_beside_the_text_is_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes a library that may not be there, and time."""
    datasets, pyarrow = pytest.importorskip("datasets"), pytest.importorskip("pyarrow")
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    text = datasets.Value("string")
    schema = datasets.Features({"source": text, "target": text, "voice": datasets.Audio()}).arrow_schema
    rows = [{"source": "a cat", "target": "un chat", "voice": {"bytes": b"no sound", "path": None}}]
    (tmp_path / "set").mkdir()
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(rows, schema=schema),
                                                       tmp_path / "set" / "train.parquet")
    split = Split(path=f"hub:{tmp_path / 'set'}")
    assert list(read_pairs(split, fields_for("seq2seq", DataConfig()))) == PAIRS[:1]


TALKS = [("Thank you .", "Danke ."), ("", "leer"), ("So what ?", "Na und ?")]


def exported(folder: Path) -> Path:
    """What the Hub makes of a data set with a script: a folder a configuration, a folder a split, Parquet files."""
    pyarrow = pytest.importorskip("pyarrow")
    for number, split in enumerate(("train", "validation", "test")):
        place = folder / "iwslt2017-en-de" / split
        place.mkdir(parents=True)
        column = [{"de": b, "en": a} for a, b in TALKS[: 3 - number]]
        other = folder / "iwslt2017-de-en" / split
        other.mkdir(parents=True)
        for where in (place, other):  # of which another configuration is not asked for
            pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table({"translation": column}),
                                                               where / "0000.parquet")
    return folder


def test_of_a_data_set_with_a_script_the_files_that_the_hub_made_are_read(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library refuses to run the script; the fields are those of IWSLT/iwslt2017."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "cache"))
    files, real, asked = exported(tmp_path / "made"), datasets.load_dataset_builder, []

    def load(name: str, *arguments: Any, revision: str | None = None, **keywords: Any) -> Any:
        asked.append(revision)
        if revision is None:
            raise RuntimeError("Dataset scripts are no longer supported, but found iwslt2017.py")
        return real(str(files), *arguments, **keywords)

    monkeypatch.setattr(datasets, "load_dataset_builder", load)
    data = DataConfig(source_field="translation.en", target_field="translation.de")
    for number, split in enumerate(("train", "validation", "test")):
        path = with_split("hub:IWSLT/iwslt2017:iwslt2017-en-de", split)
        assert list(read_pairs(Split(path=path), fields_for("seq2seq", data))) == TALKS[: 3 - number]
    assert asked == [None, "refs/convert/parquet"] * 3


def test_another_failure_of_the_library_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "cache"))

    def load(*arguments: Any, **keywords: Any) -> Any:
        raise RuntimeError("out of luck")

    monkeypatch.setattr(datasets, "load_dataset_builder", load)
    with pytest.raises(DataError, match="cannot be read"):
        list(read_pairs(Split(path="hub:owner/name"), fields_for("seq2seq", DataConfig())))


@pytest.mark.parametrize("name", ["a" * 300, "\udcff/a"])
def test_a_name_that_no_folder_can_have_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets, "load_dataset_builder", lambda name, *given: name.encode() + Path(name).read_bytes())
    with pytest.raises(DataError, match="cannot be read"):
        list(read_pairs(Split(path=f"hub:{name}"), fields_for("seq2seq", DataConfig())))


def test_one_array_of_records_is_not_held_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As fjcanyue/wikipedia-zh-cn is: a file of records with id, title, tags and text."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets.IterableDataset, "__iter__", lambda self: pytest.fail("read by the library"))
    folder = tmp_path / "set"
    folder.mkdir()
    records = [{"id": str(i), "title": a, "tags": "x,y", "text": b} for i, (a, b) in enumerate(PAIRS)]
    fields = fields_for("seq2seq", DataConfig(source_field="title", target_field="text"))
    for indent in (None, 1):
        text = json.dumps(records, ensure_ascii=False, indent=indent)
        (folder / "wikipedia.json").write_text(text, encoding="utf-8")
        assert list(read_pairs(Split(path=f"hub:{folder}"), fields)) == PAIRS
    (folder / "wikipedia.json").write_text(text[:-3], encoding="utf-8")
    with pytest.raises(DataError, match="no whole JSON array"):
        list(read_pairs(Split(path=f"hub:{folder}"), fields))
