"""What an epoch holds: the corpus as it is, or drawn anew, as a pure function of the seed and the epoch."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from pellucid.config import RunConfig
from pellucid.config.mapping import from_mapping
from pellucid.config.reader import merge
from pellucid.data import blocks, examples
from pellucid.data.batching import Batches
from pellucid.data.corpus import Corpus, open_corpus
from pellucid.data.examples import check_tokenizers, training_examples, validation_examples
from pellucid.data.splits import open_splits
from pellucid.data.tokenizers.build import Tokenizers, train_tokenizers
from pellucid.data.tokenizers.interface import EOS
from pellucid.errors import ConfigError

WORDS = ["lower", "lowest", "newer", "newest", "wider", "widest"]
PAIRS = [(" ".join(words), " ".join(reversed(words))) for words in itertools.product(WORDS, repeat=3)]
SAMPLED = {"tokenizer": {"sampling": 0.3}}
CORRUPTED = {"data": {"objective": "span_corruption"}, "tokenizer": {"sentinels": 4}}

Opened = tuple[Corpus, Tokenizers, RunConfig]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def opened(tmp_path: Path) -> Any:
    """The training data under a configuration."""
    (tmp_path / "a.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS))

    def open_it(*overs: dict[str, Any]) -> Opened:
        mapping: dict[str, Any] = {"data": {"train": str(tmp_path / "a.tsv"), "validation_share": 0},
                                   "tokenizer": {"vocab_size": 40}, "model": {"max_length": 64}}
        for over in overs:
            mapping = merge(mapping, over)
        config = from_mapping(mapping)
        pairs = open_splits(config, tmp_path / "run")["train"]
        tokenizers = train_tokenizers(config.tokenizer, pairs, config.task)
        return open_corpus(pairs, tokenizers, config), tokenizers, config

    return open_it


def rows(corpus: Corpus) -> list[list[list[int]]]:
    return [[side[i].tolist() for i in range(len(side))] for side in (corpus.source, corpus.target)]


def test_a_corpus_that_nothing_is_asked_of_is_itself_in_every_epoch(opened: Any) -> None:
    corpus, tokenizers, config = opened()
    assert training_examples(corpus, tokenizers, config) is corpus
    assert validation_examples(corpus, config) is corpus
    assert corpus.in_epoch(7) is corpus


@pytest.mark.parametrize("shared", [True, False])
def test_sampled_text_is_the_same_text_and_validation_is_not_sampled(opened: Any, tmp_path: Path, shared: bool) -> None:
    if not shared:  # of other pieces
        (tmp_path / "a.tsv").write_text("".join(f"{a}\t{b[::-1].upper()}\n" for a, b in PAIRS))
    corpus, tokenizers, config = opened(SAMPLED, {"tokenizer": {"shared": shared, "vocab_size": 40 if shared else 30}})
    drawn = training_examples(corpus, tokenizers, config).in_epoch(0)
    for now, before, tokenizer in zip(rows(drawn), rows(corpus), (tokenizers.source, tokenizers.target), strict=True):
        assert [tokenizer.decode(ids) for ids in now] == [tokenizer.decode(ids) for ids in before]
        assert sum(map(len, now)) > (1.1 if shared else 1) * sum(map(len, before))
        assert all(ids[-1] == EOS for ids in now)
    assert drawn.report == corpus.report
    assert validation_examples(corpus, config) is corpus


def test_a_label_has_no_pieces(opened: Any, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("".join(f"{10 + i % 40}\t{a}\n" for i, (a, _) in enumerate(PAIRS)))
    corpus, tokenizers, config = opened(SAMPLED, {"task": "classification"})
    drawn = training_examples(corpus, tokenizers, config).in_epoch(0)
    assert rows(drawn)[1] == rows(corpus)[1] == [[i % 40] for i in range(len(PAIRS))]
    assert rows(drawn)[0] != rows(corpus)[0]


def test_spans_are_of_the_source_alone_and_validation_is_corrupted_in_one_way(opened: Any) -> None:
    corpus, tokenizers, config = opened(CORRUPTED)
    sources, targets = rows(training_examples(corpus, tokenizers, config).in_epoch(0))
    pieces = tokenizers.source.pieces
    for (text, _), source, target in zip(PAIRS, sources, targets, strict=True):
        left, lost = pieces(source[:-1]), pieces(target[:-1])
        whole = "".join(left).replace("<extra_id_0>", "".join(lost).split("<extra_id_0>")[1].split("<extra_id_1>")[0])
        assert whole == "▁" + text.replace(" ", "▁")
    other = opened(CORRUPTED, {"seed": 7})
    assert rows(validation_examples(corpus, config)) == rows(validation_examples(other[0], other[2]))
    assert rows(validation_examples(corpus, config)) != [sources, targets]


@pytest.mark.parametrize("overs", [[SAMPLED], [CORRUPTED], [CORRUPTED, SAMPLED]], ids=["sampled", "corrupted", "both"])
def test_an_epoch_is_a_function_of_the_seed_and_its_number(overs: list[dict[str, Any]], opened: Any,
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    one, again, other = (training_examples(*opened(*overs, {"seed": seed})) for seed in (1, 1, 2))
    in_turn = [rows(one.in_epoch(epoch)) for epoch in range(3)]
    assert [rows(again.in_epoch(epoch)) for epoch in (2, 0)] == [in_turn[2], in_turn[0]]
    assert in_turn[0] != in_turn[1]
    assert rows(other.in_epoch(0)) != in_turn[0]
    monkeypatch.setattr(examples, "_AT_ONCE", 100)
    in_parts = one.in_epoch(0)
    assert len(in_parts) == len(PAIRS)
    assert rows(one.in_epoch(0)) == rows(in_parts) != in_turn[0]


@pytest.mark.parametrize("overs", [[SAMPLED], [CORRUPTED, SAMPLED]], ids=["sampled", "both"])
def test_batches_have_every_example_of_the_epoch_once_by_its_new_length(overs: list[dict[str, Any]],
                                                                        opened: Any) -> None:
    drawn = training_examples(*opened(*overs))
    batches = Batches(drawn, 150, None, 1)
    assert batches.per_epoch > 5
    for epoch in (0, 1):
        corpus = drawn.in_epoch(epoch)
        of_epoch = [batches[epoch * batches.per_epoch + i] for i in range(batches.per_epoch)]
        found = [row[row != 0].tolist() for batch in of_epoch for row in batch.source]
        assert sorted(found) == sorted(rows(corpus)[0])
        real = sum(batch.source_tokens for batch in of_epoch)
        assert 1 - real / sum(batch.source.numel() for batch in of_epoch) < 0.1
        tokens = [batch.target_tokens for batch in of_epoch]
        assert max(tokens) < 1.1 * 150 + 64
    third = batches[2 * batches.per_epoch].source
    assert third.equal(Batches(drawn, 150, None, 1)[2 * batches.per_epoch].source)


@pytest.mark.parametrize("overs", [[SAMPLED], [CORRUPTED], [CORRUPTED, SAMPLED]], ids=["sampled", "corrupted", "both"])
def test_only_the_window_in_use_is_drawn(overs: list[dict[str, Any]], opened: Any,
                                         monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.data.blocks.WINDOW", 2)
    for module in (blocks, examples):
        monkeypatch.setattr(module, "BLOCK", 30)
    monkeypatch.setattr(examples, "_SAMPLE", 16)
    drawn = training_examples(*opened(*overs))
    counted = list[int]()
    monkeypatch.setattr(drawn, "_drawn", lambda corpus, rows, key, draw=drawn._drawn: (
        counted.append(len(rows)), draw(corpus, rows, key))[1])
    batches = Batches(drawn, 150, None, 1)
    assert batches.per_epoch > 5
    first = batches[0]
    assert sum(counted) <= 16 + 60  # of 216
    expected = rows(drawn.in_epoch(0))
    lengths = [sum(map(len, side)) for side in expected]
    assert drawn.totals().sum(axis=0).tolist() == pytest.approx([216, *lengths], rel=0.1)  # as 16 of them say
    of_epoch = [batches[i] for i in range(batches.per_epoch)]
    found = [[side[i][side[i] != 0].tolist() for batch in of_epoch for i in range(len(batch.source))
              for side in [getattr(batch, name)]] for name in ("source", "target")]
    assert sorted(zip(*found, strict=True)) == sorted(zip(*expected, strict=True))
    assert max(batch.target_tokens for batch in of_epoch) < 1.2 * 150 + 64
    for again in (batches, Batches(drawn, 150, None, 1)):
        assert again[0].source.equal(first.source)
    assert not batches[batches.per_epoch].source.equal(first.source)


@pytest.mark.parametrize(("over", "where", "told"), [
    ({"tokenizer": {"sampling": 0.1}}, "tokenizer.sampling", "of the kind word"),
    ({"data": {"objective": "span_corruption"}, "tokenizer": {"sentinels": 2}}, "tokenizer.sentinels",
     "set tokenizer.sentinels 27"),
])
def test_tokenizers_that_cannot_do_it_are_refused(over: dict[str, Any], where: str, told: str, opened: Any) -> None:
    _, words, _ = opened({"tokenizer": {"kind": "word", "sentinels": 2}})
    with pytest.raises(ConfigError) as error:
        check_tokenizers(from_mapping(over), words)
    assert error.value.where == where
    assert told in error.value.why + error.value.fix
    _, apart, _ = opened({"tokenizer": {"shared": False, "sentinels": 5}})
    with pytest.raises(ConfigError, match="one vocabulary"):
        check_tokenizers(from_mapping(CORRUPTED), apart)


def test_text_that_stands_alone_may_lie_anywhere(tmp_path: Path, opened: Any) -> None:
    lines = ["new\tlower", " widest ", "<extra_id_0>"]
    (tmp_path / "a.txt").write_text("".join(line + "\n" for line in lines))
    (tmp_path / "b.txt").write_text("not read\n")
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    for data in ({"train": str(tmp_path / "a.txt")}, {"train": str(tmp_path / "a.jsonl"), "source_field": "text"},
                 {"train": {"source": str(tmp_path / "a.txt"), "target": str(tmp_path / "b.txt")}}):
        config = from_mapping({"data": {"objective": "span_corruption", "validation_share": 0, **data},
                               "tokenizer": {"sentinels": 100}})
        assert list(open_splits(config, tmp_path / "run")["train"]) == [(line, line) for line in lines]
