"""A corpus holds what tokenizing gives, in files that are made once for each way of making them."""

from __future__ import annotations

import dataclasses
import itertools
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pellucid.config import RunConfig
from pellucid.config.mapping import from_mapping
from pellucid.config.reader import merge
from pellucid.data import corpus as corpus_module
from pellucid.data import shards
from pellucid.data.corpus import Corpus, open_corpus
from pellucid.data.encoding import _chunks, dtype_of
from pellucid.data.sample import sample_corpus
from pellucid.data.source_ids import shorten, source_ids
from pellucid.data.splits import open_splits
from pellucid.data.tokenizers.build import Tokenizers, train_tokenizers
from pellucid.data.tokenizers.interface import BOS, EOS
from pellucid.errors import DataError

LINES = ["a b c\tx y", "\tx", "b\t", "c c c c c c\tx", "a\tx x x x x x x", "b a\ty x", "   \ty"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "ids"


@pytest.fixture
def opened(tmp_path: Path) -> Any:
    """Opens a split of a table with a configuration; gives (corpus, tokenizers, config)."""
    (tmp_path / "a.tsv").write_text("".join(line + "\n" for line in LINES))

    def open_it(over: dict[str, Any] | None = None, name: str = "train") -> tuple[Corpus, Tokenizers, RunConfig]:
        base = {"data": {"train": str(tmp_path / "a.tsv"), "validation": str(tmp_path / "a.tsv")},
                "tokenizer": {"kind": "word"}, "model": {"max_length": 5}}
        config = from_mapping(merge(base, over or {}))
        splits = open_splits(config, tmp_path / "run")
        tokenizers = train_tokenizers(config.tokenizer, splits["train"], config.task)
        return open_corpus(splits[name], tokenizers, config), tokenizers, config

    return open_it


def rows(side: Any) -> list[list[int]]:
    return [side[i].tolist() for i in range(len(side))]


@pytest.mark.parametrize(("sizes", "expected"), [((2**16, 9), np.uint16), ((2**16 + 1, 9), np.int32),
                                                ((9, 2**16 + 1), np.int32)])
def test_two_bytes_hold_ids_where_all_of_them_fit(sizes: tuple[int, int], expected: Any) -> None:
    source, target = (SimpleNamespace(size=size) for size in sizes)
    tokenizers: Any = SimpleNamespace(source=source, target=target, labels=())
    assert dtype_of(tokenizers, "seq2seq") == expected
    assert dtype_of(tokenizers, "reading") == np.int32


def test_ids_are_those_of_tokenizing_and_what_does_not_fit_is_counted(opened: Any) -> None:
    corpus, tokenizers, _ = opened()
    kept = [line.split("\t") for line in ("a b c\tx y", "b a\ty x")]
    assert rows(corpus.source) == [[*tokenizers.source.encode(a), EOS] for a, _ in kept]
    assert rows(corpus.target) == [[*tokenizers.target.encode(b), EOS] for _, b in kept]
    report = corpus.report
    assert (report.records, report.kept, report.empty, report.too_long) == (7, 2, 3, 2)
    assert (report.source_tokens, report.target_tokens) == (4 + 3, 3 + 3)
    assert "2 of 7 kept, 3 with an empty side skipped, 2 longer than max_length" in str(report)


def test_data_that_change_while_they_are_read_leave_nothing_behind(tmp_path: Path, opened: Any, cache: Path,
                                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the ids of other data would be taken for theirs ever after."""
    before, real = (tmp_path / "a.tsv").read_text(), corpus_module.write_ids

    def changed(*given: Any) -> None:
        (tmp_path / "a.tsv").write_text("a\tx\n" * 9)
        real(*given)

    with monkeypatch.context() as patch:
        patch.setattr(corpus_module, "write_ids", changed)
        with pytest.raises(DataError, match="was changed while it was read"):
            opened()
    assert not cache.exists() or list(cache.iterdir()) == []
    (tmp_path / "a.tsv").write_text(before)
    assert opened()[0].report.kept == 2


def test_what_is_too_long_can_be_cut_and_keeps_its_end(opened: Any) -> None:
    corpus, tokenizers, _ = opened({"data": {"too_long": "cut"}})
    c, x = tokenizers.source.encode("c")[0], tokenizers.target.encode("x")[0]
    assert rows(corpus.source)[1] == [c, c, c, c, EOS]
    assert rows(corpus.target)[2] == [x, x, x, x, EOS]
    assert (corpus.report.kept, corpus.report.too_long) == (4, 2)
    assert shorten([7, 7, 7], 3) == [7, 7, 7]
    assert shorten([BOS, 7, 7], 2) == [BOS, 7]
    assert shorten([7, EOS, 8, 8, 8, EOS], 3) == [7, EOS, 8, 8, EOS]  # each row by itself


def test_texts_to_classify_begin_with_bos_and_targets_are_labels(tmp_path: Path, opened: Any) -> None:
    table = tmp_path / "labels.tsv"
    table.write_text("good\ta b\nbad\tc\ngood\ta a a a a a a\nbad\t\n")
    corpus, tokenizers, _ = opened({"task": "classification", "data": {"train": str(table), "validation": str(table)}})
    assert tokenizers.labels == ("bad", "good")
    assert rows(corpus.source) == [[BOS, *tokenizers.source.encode("a b")], [BOS, *tokenizers.source.encode("c")]]
    assert rows(corpus.target) == [[1], [0]]
    assert source_ids(["a", ""], tokenizers, True)[1] == [BOS]


@pytest.mark.parametrize("over", [
    {}, {"model": {"max_length": 4}}, {"data": {"too_long": "cut"}},
    {"task": "classification", "data": {"source_field": 1, "label_field": 2}},
    {"data": {"objective": "span_corruption"}, "tokenizer": {"sentinels": 2}}])
def test_a_sample_in_memory_is_what_the_files_have(opened: Any, over: dict[str, Any]) -> None:
    corpus, tokenizers, config = opened(over)
    alone = config.data.objective == "span_corruption"
    pairs = [(a, a if alone else b) for a, b in (line.split("\t") for line in LINES)]
    sample = sample_corpus([(a, b) for a, b in pairs if a.strip() and b.strip()], tokenizers, config)
    assert rows(sample.source) == rows(corpus.source)
    assert list(map(len, rows(sample.target))) == list(map(len, rows(corpus.target)))
    assert rows(sample.target) == rows(corpus.target) or config.task == "classification"  # of which it has any


def test_a_label_that_training_never_saw_is_placed(tmp_path: Path, opened: Any) -> None:
    train, validation = tmp_path / "labels.tsv", tmp_path / "new.tsv"
    train.write_text("good\ta b\nbad\tc\n")
    validation.write_text("good\ta b\nbad\t\nawful\tc\n")
    over = {"task": "classification", "data": {"train": str(train), "validation": str(validation)}}
    with pytest.raises(DataError, match="'awful' was never seen") as error:
        opened(over, "validation")
    assert error.value.where == f"{validation}:3"
    header = tmp_path / "header.tsv"
    header.write_text("label\ttext\ngood\ta b\nawful\tc\n")
    over["data"] = {"train": str(train), "validation": str(header)}
    with pytest.raises(DataError) as error:
        opened(over, "validation")
    assert error.value.where == f"{header}:3"


def test_it_is_read_from_files_that_stay_on_the_disk(opened: Any, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _, _ = opened()
    assert isinstance(first.source.tokens.base, np.memmap)
    (folder,) = cache.iterdir()
    monkeypatch.setattr("pellucid.data.encoding._encode", lambda *arguments: pytest.fail("encoded again"))
    again, _, _ = opened()
    assert rows(again.source) == rows(first.source)
    assert again.report == first.report
    assert list(cache.iterdir()) == [folder]


KEYS: list[dict[str, Any]] = [
    {}, {"tokenizer": {"lowercase": True}}, {"tokenizer": {"min_frequency": 2}}, {"tokenizer": {"shared": False}},
    {"model": {"max_length": 6}}, {"data": {"too_long": "cut"}},
    {"data": {"validation": None, "validation_share": 0.3}}, {"data": {"validation": None, "validation_share": 0.4}},
    {"data": {"source_field": 2, "target_field": 1}},
]


def test_every_way_of_making_it_has_a_folder_of_its_own(opened: Any, cache: Path) -> None:
    for number, over in enumerate(KEYS, start=1):
        opened(over)
        assert len(list(cache.iterdir())) == number, over
    for over in KEYS:
        opened(over)
    assert len(list(cache.iterdir())) == len(KEYS)


def test_a_share_set_aside_is_never_mistaken_for_the_whole(opened: Any, tmp_path: Path) -> None:
    """The same file, name, tokenizer and validation_share; once validation is given, once it is a share of the file."""
    whole, tokenizers, config = opened({"data": {"validation_share": 0.45}, "model": {"max_length": 20}})
    shares = dataclasses.replace(config, data=dataclasses.replace(config.data, validation=None))
    rest = open_corpus(open_splits(shares, tmp_path / "run")["train"], tokenizers, shares)
    assert len(rest) < len(whole)


@pytest.mark.parametrize("part", ["source.ids", "target.offsets", "report.json", "blocks.json", "manifest.json"])
def test_a_damaged_cache_is_made_again(part: str, opened: Any, cache: Path) -> None:
    before = rows(opened()[0].source)
    (folder,) = cache.iterdir()
    for content in (b"", (folder / part).read_bytes()[:-2] + b"xx"):
        (folder / part).write_bytes(content)
        assert rows(opened()[0].source) == before


def test_memory_holds_no_offsets(opened: Any) -> None:
    corpus = opened()[0]
    assert isinstance(corpus.source.offsets.base, np.memmap)
    assert isinstance(corpus.target.offsets.base, np.memmap)


@pytest.fixture
def large(opened: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A corpus of six pairs in three windows."""
    monkeypatch.setattr("pellucid.data.blocks.BLOCK", 1)
    monkeypatch.setattr("pellucid.data.blocks.WINDOW", 2)
    (tmp_path / "a.tsv").write_text("".join(f"{'a ' * (i % 3 + 1)}b\tx y\n" for i in range(6)))
    return opened


def test_a_corpus_of_several_windows_is_the_same_and_lets_go_of_what_was_read(large: Any) -> None:
    corpus, tokenizers, _ = large()
    expected = [[*tokenizers.source.encode("a " * (i % 3 + 1) + "b"), EOS] for i in range(6)]
    assert corpus.totals().tolist() == [[1, len(ids), 3] for ids in expected]
    for blocks in (range(0, 6, 3), range(1, 6, 3), range(6)):
        part, places = corpus.window(0, blocks)
        assert places.tolist() == list(blocks)
        assert [part.source[i].tolist() for i in places] == [expected[i] for i in blocks]
    assert rows(corpus.source) == expected


def test_ids_in_blocks_of_another_size_are_made_anew(large: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rows(large()[0].source)
    monkeypatch.setattr("pellucid.data.blocks.BLOCK", 4)
    again = large()[0]
    assert rows(again.source) == before
    assert again.totals()[:, 0].tolist() == [4, 2]


@pytest.mark.parametrize("part", ["source.ids", "target.offsets"])
def test_damage_in_a_window_is_told_when_it_is_made_and_mended_by_the_next_start(part: str, large: Any,
                                                                                cache: Path) -> None:
    before = large()[0]
    expected, (folder,) = rows(before.source), cache.iterdir()
    content = bytearray((folder / part).read_bytes())
    content[-1] ^= 1
    (folder / part).write_bytes(content)
    damaged = large()[0]  # six pairs were not read for it
    damaged.window(0, range(0, 6, 3))
    for _ in range(2):
        with pytest.raises(DataError, match="damaged") as error:
            damaged.window(0, range(2, 6, 3))
        assert "pairs 6 to 6" in error.value.why
        assert str(folder) in error.value.where
    mended = large()[0]
    assert rows(mended.window(0, range(6))[0].source) == expected
    (folder / part).write_bytes(content[:-8])  # cut short: seen at once
    assert rows(large()[0].window(0, range(6))[0].source) == expected


def test_chunks_join(opened: Any, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    expected = opened({"data": {"too_long": "cut"}})[0]
    for size in (1, 2, 3):
        for file in itertools.chain.from_iterable(folder.iterdir() for folder in cache.iterdir()):
            file.unlink()
        monkeypatch.setattr("pellucid.data.encoding._LINES_AT_ONCE", size)
        found = opened({"data": {"too_long": "cut"}})[0]
        assert (rows(found.source), rows(found.target), found.report) == (
            rows(expected.source), rows(expected.target), expected.report)


def test_the_folder_is_looked_into_as_often_for_many_shards_as_for_few(opened: Any, tmp_path: Path,
                                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be thousands, and to look takes as long as there are many."""
    looks, real = list[int](), shards._named_by
    monkeypatch.setattr(shards, "_named_by", lambda path: looks.append(1) or real(path))
    counts = []
    for count in (2, 9):
        (tmp_path / str(count)).mkdir()
        for number in range(count):
            (tmp_path / str(count) / f"{number}.tsv").write_text("a b c\tx y\n")
        assert len(opened({"data": {"train": str(tmp_path / str(count))}})[0]) == count
        counts.append(len(looks))
        looks.clear()
    assert counts[0] == counts[1]


def test_long_lines_pass_through_in_smaller_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.data.encoding._CHARACTERS_AT_ONCE", 10)
    records = [(1, "aaa", "bbb")] * 5 + [(2, "a" * 50, "b")] + [(3, "a", "b")] * 7
    chunks = list(_chunks(records))
    assert list(itertools.chain.from_iterable(chunks)) == records
    assert [len(chunk) for chunk in chunks] == [2, 2, 2, 5, 2]


def test_ids_take_two_bytes_where_they_fit(opened: Any, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    small = opened()[0]
    assert small.source.tokens.dtype == np.uint16
    monkeypatch.setattr("pellucid.data.encoding._SMALL", np.dtype(np.int32))
    shutil.rmtree(cache)
    assert rows(opened()[0].source) == rows(small.source)


def test_nothing_usable_is_an_error_each_time(tmp_path: Path, opened: Any) -> None:
    (tmp_path / "long.tsv").write_text("a a a a a a a\tb\n\tc\n")
    for _ in range(2):
        with pytest.raises(DataError, match="no usable line") as error:
            opened({"data": {"train": str(tmp_path / "long.tsv")}})
        assert "0 of 2 kept" in error.value.why


def test_progress_is_told(opened: Any, tmp_path: Path) -> None:
    _, tokenizers, config = opened()
    told: list[int] = []
    (tmp_path / "a.tsv").write_text("a\tb\n" * 3)
    open_corpus(open_splits(config, tmp_path)["train"], tokenizers, config, told.append)
    assert told == [3]


def test_the_same_bytes_read_otherwise_are_other_ids(opened: Any, tmp_path: Path) -> None:
    """Alone, the first column of a table is a text, and the whole line of a .txt file is one."""
    alone = {"data": {"objective": "span_corruption"}, "tokenizer": {"sentinels": 2}, "model": {"max_length": 20}}
    table, _, _ = opened(alone)
    shutil.copy(tmp_path / "a.tsv", tmp_path / "a.txt")
    lines, _, _ = opened(merge(alone, {"data": {"train": str(tmp_path / "a.txt")},
                                       "tokenizer": {"path": str(saved(tmp_path, opened(alone)[1]))}}))
    assert [len(row) for row in rows(table.source)] != [len(row) for row in rows(lines.source)]


def saved(folder: Path, tokenizers: Tokenizers) -> Path:
    tokenizers.save(folder / "tokenizer")
    return folder / "tokenizer"
