"""Shards: a folder, a glob and a list say which files, in which order; two sides are matched by their names."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.config import DataConfig, Source, Split
from pellucid.config.mapping import from_mapping
from pellucid.data.shards import are_there, lines_of, numbered, place, sha256_of, shard_and_line, shards_of
from pellucid.data.sources import fields_for, read_records
from pellucid.data.splits import Pairs, open_splits
from pellucid.errors import ConfigError, DataError

FIELDS = fields_for("seq2seq", DataConfig())


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder with tables/ and the same lines in en/ and de/, three shards of different lengths each."""
    for side in ("tables", "en", "de"):
        (tmp_path / side).mkdir()
    for shard, count in enumerate((3, 1, 2)):
        rows = [(f"source {shard} {i}", f"target {shard} {i}") for i in range(count)]
        (tmp_path / "tables" / f"{shard:02}.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in rows))
        (tmp_path / "en" / f"{shard:02}.en").write_text("".join(f"{a}\n" for a, _ in rows))
        (tmp_path / "de" / f"{shard:02}.de").write_text("".join(f"{b}\n" for _, b in rows))
    return tmp_path


def test_lines_are_counted_where_they_can_be(corpus: Path) -> None:
    (corpus / "open.tsv").write_text("a\tb\nc\td")
    (corpus / "one.json").write_text('{"source": "a",\n "target": "b"}\n')
    assert lines_of(Split(path=f"{corpus}/tables")) == 6
    assert lines_of(Split(source=f"{corpus}/en", target=f"{corpus}/de")) == 6
    assert lines_of(Split(path=f"{corpus}/open.tsv")) == 1  # that ends
    assert lines_of(Split(path=f"{corpus}/one.json")) is None
    assert lines_of(Split(mixture=(Source(path=f"{corpus}/tables"), Source(path=f"{corpus}/one.json")))) is None


def texts(split: Split) -> list[tuple[str, str]]:
    return [(a, b) for _, a, b in read_records(split, FIELDS)]


def refused(split: Split) -> DataError:
    with pytest.raises(DataError) as caught:
        list(read_records(split, FIELDS))
    return caught.value


def test_a_folder_a_glob_and_a_list_are_their_files_one_after_another(corpus: Path) -> None:
    files = sorted((corpus / "tables").iterdir())
    one = corpus / "all.tsv"
    one.write_text("".join(file.read_text() for file in files))
    expected = texts(Split(path=str(one)))
    assert len(expected) == 6
    for split in (Split(path=f"{corpus}/tables"), Split(path=f"{corpus}/tables/*.tsv"),
                  Split(path=f"{corpus}/**/0*.tsv"), Split(mixture=tuple(Source(path=str(file)) for file in files)),
                  Split(mixture=(Source(path=str(files[0])), Source(path=f"{corpus}/tables/0[12].tsv"))),
                  Split(source=f"{corpus}/en", target=f"{corpus}/de"),
                  Split(source=f"{corpus}/*/*.en", target=f"{corpus}/*/*.de"),
                  Split(source=f"{corpus}/en/*", target=f"{corpus}/de")):
        assert texts(split) == expected, split


def test_a_record_is_placed_in_its_shard(corpus: Path) -> None:
    split = Split(path=f"{corpus}/tables")
    places = [place(split, number) for number, _, _ in read_records(split, FIELDS)]
    assert places == [f"{corpus}/tables/{shard:02}.tsv:{line}" for shard, count in enumerate((3, 1, 2))
                      for line in range(1, count + 1)]
    both = Split(source=f"{corpus}/en", target=f"{corpus}/de")
    assert place(both, numbered(2, 1)) == f"{corpus}/en/02.en:1 and {corpus}/de/02.de:1"
    assert place(both, numbered(2, 1), side=1) == f"{corpus}/de/02.de:1"
    assert Pairs("train", split, FIELDS).locate(4) == f"{corpus}/tables/02.tsv:1"
    (corpus / "tables" / "01.tsv").write_text("a\tb\nonly\n")
    assert refused(split).where == f"{corpus}/tables/01.tsv:2"


@given(shard=st.integers(0, 2**20), line=st.integers(1, 2**40 - 1))
def test_a_number_tells_shard_and_line(shard: int, line: int) -> None:
    assert shard_and_line(numbered(shard, line)) == (shard, line)
    assert numbered(0, line) == line


def test_what_is_no_data_is_left_out_or_told(corpus: Path) -> None:
    split = Split(path=f"{corpus}/tables")
    expected = texts(split)
    (corpus / "tables" / "_SUCCESS").touch()
    (corpus / "tables" / ".hidden.tsv").write_text("no\tno\n")
    (corpus / "a" / "folder.tsv").mkdir(parents=True)  # which a glob may match
    for path in ("tables", "tables/*", "**/*.tsv"):
        assert texts(Split(path=f"{corpus}/{path}")) == expected
    (corpus / "tables" / "README.md").write_text("words")
    assert refused(split).where == f"{corpus}/tables/README.md"
    (corpus / "tables" / "more").mkdir()
    assert refused(split).where == f"{corpus}/tables/more"
    (corpus / "empty").mkdir()
    for path in ("empty", "tables/*.jsonl", "none/*"):
        assert "no file of data" in refused(Split(path=f"{corpus}/{path}")).what
    assert "glob" in refused(Split(path=f"{corpus}/a**b")).what
    assert "does not exist" in refused(Split(path=f"{corpus}/none.tsv")).what
    assert "folder" in refused(Split(path="")).what
    assert "NUL" in refused(Split(path=f"{corpus}/*\0")).what


def test_a_folder_that_may_be_listed_and_not_entered_is_told(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stat = Path.stat

    def refusing(self: Path, **how: Any) -> Any:
        if self.parent.name == "tables":
            raise PermissionError(errno.EACCES, "Permission denied", str(self))
        return stat(self, **how)

    monkeypatch.setattr(Path, "stat", refusing)
    for path in ("tables", "tables/*.tsv", "**/*.tsv"):
        error = refused(Split(path=f"{corpus}/{path}"))
        assert (error.what, error.where) == ("the folder cannot be read", f"{corpus}/{path}")
        assert are_there(f"{corpus}/{path}") == (path == "tables")
    assert not are_there(f"{corpus}/tables/00.tsv")
    assert not are_there("a" * 300)  # longer than a name may be


def test_a_file_whose_name_looks_like_a_glob_is_that_file(corpus: Path) -> None:
    (corpus / "a[1].tsv").write_text("x\ty\n")
    assert texts(Split(path=f"{corpus}/a[1].tsv")) == [("x", "y")]


@pytest.mark.parametrize("path", ["[" * 5000, "data/" + "*" * 10_000])
def test_a_glob_longer_than_any_path_is_refused_and_not_read(path: str) -> None:
    error = refused(Split(path=path))
    assert "this glob cannot be read" in str(error)
    assert "a path at most 4,096" in str(error.why)


@pytest.mark.parametrize("missing", range(3))
@pytest.mark.parametrize("side", ["en", "de"])
def test_a_file_without_a_partner_is_named(corpus: Path, side: str, missing: int) -> None:
    (corpus / side / f"{missing:02}.{side}").unlink()
    other = "de" if side == "en" else "en"
    error = refused(Split(source=f"{corpus}/en", target=f"{corpus}/de"))
    assert "different numbers of files" in error.what
    if missing:  # which of them all the others are, the first pair says
        assert error.where == f"{corpus}/{other}/{missing:02}.{other}"
    shutil.move(corpus / other / f"{(missing + 1) % 3:02}.{other}", corpus / "gone")
    assert "belong together" in refused(Split(source=f"{corpus}/en", target=f"{corpus}/de")).what


def test_signs_between_words_may_differ_in_one_way_in_all_pairs_alone(tmp_path: Path) -> None:
    for name in ("a-1.en", "b-2.en", "a_1.de", "b_2.de"):
        (tmp_path / name).write_text("x\n")
    split = Split(source=f"{tmp_path}/*.en", target=f"{tmp_path}/*.de")
    assert [[Path(file).name for file in shard.files] for shard in shards_of(split)] == [
        ["a-1.en", "a_1.de"], ["b-2.en", "b_2.de"]]
    (tmp_path / "--.en").write_text("x\n")
    (tmp_path / "-.de").write_text("x\n")
    assert "do not belong together" in refused(split).what


@settings(max_examples=60, deadline=None)
@given(names=st.sets(st.text("ab01-", min_size=1, max_size=4), min_size=2, max_size=6), data=st.data())
def test_sides_are_matched_by_their_names_or_refused(tmp_path_factory: pytest.TempPathFactory, names: set[str],
                                                     data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("sides")
    kept = [data.draw(st.sets(st.sampled_from(sorted(names)), min_size=1)) for _ in range(2)]
    for side, chosen in zip(("en", "de"), kept, strict=True):
        (folder / side).mkdir()
        for name in chosen:
            (folder / side / f"{name}.{side}").write_text("x\n")
    split = Split(source=f"{folder}/en", target=f"{folder}/de")
    try:
        shards = [[Path(file).stem for file in shard.files] for shard in shards_of(split)]
    except DataError:
        assert kept[0] != kept[1]
    else:
        assert all(a == b for a, b in shards) or len(shards) == 1


def test_the_digest_is_of_all_shards_in_their_order(corpus: Path) -> None:
    split = Split(path=f"{corpus}/tables")
    before = sha256_of(split)
    assert sha256_of(Split(path=f"{corpus}/tables/*.tsv")) == before
    a, b = (str(corpus / "tables" / name) for name in ("00.tsv", "01.tsv"))
    found = [Split(mixture=(Source(path=a), Source(path=b))), Split(mixture=(Source(path=b), Source(path=a))),
             Split(source=a, target=b), Split(path=a)]
    assert len({before, *map(sha256_of, found)}) == 5
    assert sha256_of(Split(mixture=(Source(path=a),))) == sha256_of(Split(path=a))
    (corpus / "tables" / "03.tsv").write_text("a\tb\n")
    assert sha256_of(split) != before


def test_shares_are_set_aside_of_all_shards(corpus: Path) -> None:
    lines = [f"sentence {i}\tphrase {i}\n" for i in range(600)]
    for i in range(3):
        (corpus / "tables" / f"{i:02}.tsv").write_text("".join(lines[200 * i : 200 * (i + 1)]))
    (corpus / "all.tsv").write_text("".join(lines))
    parts = [{name: list(pairs) for name, pairs in open_splits(from_mapping({"data": {"train": path}}), corpus).items()}
             for path in (f"{corpus}/tables", f"{corpus}/all.tsv")]
    assert parts[0] == parts[1]


def test_a_file_alone_is_no_matter_of_names(corpus: Path) -> None:
    split = Split(source=f"{corpus}/en/00.en", target=f"{corpus}/de/the-other.of 00.de")
    (corpus / "de" / "00.de").rename(corpus / "de" / "the-other.of 00.de")
    assert len(texts(split)) == 3
    (corpus / "de" / "01.de").rename(corpus / "de" / "the-other.of 01.de")
    (corpus / "de" / "02.de").rename(corpus / "de" / "the-other.of 02.de")
    assert "do not belong together" in refused(Split(source=f"{corpus}/en", target=f"{corpus}/de")).what


def test_a_record_of_a_list_says_what_was_given(corpus: Path) -> None:
    given = [{"path": f"{corpus}/tables", "weight": 2}, f"{corpus}/tables/00.tsv",
             {"source": f"{corpus}/en", "target": f"{corpus}/de"}]
    config = from_mapping({"data": {"train": given, "validation_share": 0}})
    pairs = open_splits(config, corpus / "run")["train"]
    assert pairs.describe()["mixture"] == [
        {"path": f"{corpus}/tables", "weight": 2.0}, {"path": f"{corpus}/tables/00.tsv", "weight": 1.0},
        {"source": f"{corpus}/en", "target": f"{corpus}/de", "weight": 1.0}]
    assert [shard.weight for shard in shards_of(pairs.split)] == [2, 2, 2, 1, 1, 1, 1]


def test_a_run_finds_its_folder_from_another_place(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = from_mapping({"data": {"train": "tables", "validation_share": 0}})
    monkeypatch.chdir(corpus)
    pairs = open_splits(config, corpus / "run")["train"]
    (corpus / "run").mkdir()
    (corpus / "run" / "data.json").write_text(json.dumps({"train": {**pairs.describe(), "sha256": pairs.sha256()}}))
    (corpus / "elsewhere").mkdir()
    monkeypatch.chdir(corpus / "elsewhere")
    found = open_splits(config, corpus / "run")["train"]
    assert found.split == Split(path=f"{corpus}/tables")
    assert list(found) == texts(found.split)
    for name in ("tables", "tables/more"):  # another folder of this name, without data, then with one that is refused
        (corpus / "elsewhere" / name).mkdir()
        assert open_splits(config, corpus / "run")["train"].split == found.split
    shutil.copytree(corpus / "tables", corpus / "elsewhere" / "copied" / "tables")
    monkeypatch.chdir(corpus / "elsewhere" / "copied")
    here = open_splits(config, corpus / "run")["train"]
    assert (here.split, here.directory) == (Split(path="tables"), str(Path.cwd()))  # the same data
    (Path("tables") / "03.tsv").write_text("a\tb\n")
    assert open_splits(config, corpus / "run")["train"].split == found.split


@pytest.mark.parametrize(("value", "match"), [
    ([{"path": "a", "weight": 0}], "out of range"), ([{"path": "a", "weight": 1001}], "out of range"),
    ([{"path": "a", "weight": "much"}], "a number"), ([{"weight": 1}], "either one path"), ([3], "a mapping"),
    ([{"source": "a"}], "needs both"), ([], "must be a mapping"), ({"path": "a", "weight": 2}, "unknown key"),
    ([{"path": "a", "wieght": 2}], "unknown key"), ({"path": "a", "mixture": ["b"]}, "or a list of these"),
    ([["a"]], "a mapping"), ([None], "a mapping"),
])
def test_a_list_of_something_else_is_refused(value: object, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        from_mapping({"data": {"train": value}})


def test_weights_are_for_training() -> None:
    for name in ("validation", "test"):
        with pytest.raises(ConfigError, match="has weights"):
            from_mapping({"data": {name: [{"path": "a", "weight": 2}, "b"]}})
