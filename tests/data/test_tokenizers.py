"""Tokenizers: text comes back, specials are never made of text, training repeats, damage is refused."""

from __future__ import annotations

import io
import json
import random
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceTrainer

from pellucid.config import Task, TokenizerConfig
from pellucid.data.tokenizers import BOS, EOS, PAD, UNK, Tokenizers, build, load_tokenizers, train_tokenizers
from pellucid.data.tokenizers.imported import ImportedTokenizer, imported_content
from pellucid.data.tokenizers.interface import Tidy
from pellucid.data.tokenizers.sentencepiece import SentencePieceTokenizer, train
from pellucid.errors import CheckpointError, ConfigError, DataError, PellucidWarning, UserError

KNOWN = "abcdeé中日😀 \t\r\n\u00a0\u2028\x85\x0b\x0c\x01\u200b\ufeff\ufffd\u0301.,!?<>/snupk1234"  # each in SOUP
RNG = random.Random(1)
SOUP = ["".join(RNG.choices(KNOWN, k=RNG.randrange(1, 30))) for _ in range(1500)]
PAIRS = [(a, b) for a, b in zip(SOUP, reversed(SOUP), strict=True)]
ENGLISH = [("the cat sleeps", "le chat dort"), ("the dog , it sleeps", "le chien , il dort"), ("a cat", "un chat"),
           ("the cats and the dogs sleep", "les chats et les chiens dorment"),
           ("a dog sees the cat", "un chien regarde le chat"),
           ("the cat sees a dog and sleeps", "le chat regarde un chien et dort")]
SPECIAL_TEXTS = ["<pad>", "<unk>", "<s>", "</s>", "a<s>b </s>"]


def trained(pairs: list[tuple[str, str]], **options: Any) -> Tokenizers:
    return train_tokenizers(TokenizerConfig(**options), pairs, "seq2seq")


def soup(algorithm: str, **options: Any) -> Tokenizers:
    return trained(PAIRS, **{"algorithm": algorithm, "vocab_size": 150, "character_coverage": 1.0, **options})


BPE, UNIGRAM = soup("bpe"), soup("unigram")
CHARACTER = trained(PAIRS, kind="character")
WORD = trained([("a b c é 中 <s> <pad>", "a\u00a0b \t \r")], kind="word")
KINDS = {
    "bpe": {"vocab_size": 24}, "unigram": {"vocab_size": 24, "algorithm": "unigram"}, "word": {"kind": "word"},
    "character": {"kind": "character"}, "spacy": {"kind": "spacy"},
    "spacy, one language": {"kind": "spacy", "target_language": "en"},
}


@pytest.mark.parametrize("tokenizers", [BPE, UNIGRAM, CHARACTER], ids=["bpe", "unigram", "character"])
@settings(max_examples=400, deadline=None)
@given(text=st.text(st.sampled_from(KNOWN), max_size=40))
def test_text_of_known_characters_comes_back(tokenizers: Tokenizers, text: str) -> None:
    ids = tokenizers.source.encode(text)
    assert UNK not in ids
    assert tokenizers.source.decode(ids) == text
    assert tokenizers.source.decode([BOS, *ids, EOS, PAD, PAD]) == text


@pytest.mark.parametrize("text", ["", " ", "  ", " a", "a ", "  a  b  ", "\t", "a\nb", *SPECIAL_TEXTS])
@pytest.mark.parametrize("tokenizers", [BPE, UNIGRAM, CHARACTER], ids=["bpe", "unigram", "character"])
def test_spaces_and_the_names_of_specials_come_back(tokenizers: Tokenizers, text: str) -> None:
    assert tokenizers.source.decode(tokenizers.source.encode(text)) == text


@settings(max_examples=200, deadline=None)
@given(words=st.lists(st.sampled_from(["a", "b", "c", "é", "中", "<s>", "<pad>", "a\u00a0b", "\t", "\r"])))
def test_known_words_one_space_apart_come_back(words: list[str]) -> None:
    text = " ".join(words)
    assert WORD.source.decode(WORD.source.encode(text)) == text


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=40))
@pytest.mark.parametrize("tokenizers", [BPE, UNIGRAM, CHARACTER, WORD], ids=["bpe", "unigram", "character", "word"])
def test_any_text_has_ids_in_range_and_no_special_among_them(tokenizers: Tokenizers, text: str) -> None:
    ids = tokenizers.source.encode(text)
    assert all(UNK <= i < tokenizers.source.size and i not in (BOS, EOS) for i in ids)
    assert len(tokenizers.source.pieces(ids)) == len(ids)
    assert tokenizers.source.encode_batch([text, "a", text]) == [ids, tokenizers.source.encode("a"), ids]
    tokenizers.source.decode(ids)


@pytest.mark.parametrize("tokenizers", [BPE, UNIGRAM], ids=["bpe", "unigram"])
def test_what_sentencepiece_keeps_for_itself(tokenizers: Tokenizers) -> None:
    """The three exceptions that its docstring names, and unknown characters."""
    for text, back in [("a▁b", "a b"), ("a\0b", "a⁇b"), ("a▅b", "a⁇b"), ("aЖb", "a⁇b"), ("aЖЖb", "a⁇b")]:
        assert tokenizers.source.decode(tokenizers.source.encode(text)) == back


@pytest.mark.parametrize("kind", KINDS)
def test_specials_have_the_first_four_ids(kind: str) -> None:
    source = trained(ENGLISH, **KINDS[kind]).source
    assert source.pieces([PAD, UNK, BOS, EOS]) == ["<pad>", "<unk>", "<s>", "</s>"]
    assert source.decode([PAD, BOS, EOS]) == ""
    assert source.decode([UNK]).strip() == "⁇"
    for text in SPECIAL_TEXTS:
        assert not {PAD, BOS, EOS} & set(source.encode(text))


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_saved_is_loaded(tmp_path: Path, kind: str, shared: bool) -> None:
    made = trained(ENGLISH, **KINDS[kind], shared=shared)
    made.save(tmp_path / "tokenizer")
    loaded = load_tokenizers(tmp_path / "tokenizer")
    assert loaded.sha256() == made.sha256()
    assert (loaded.config, loaded.shared, loaded.labels) == (made.config, shared, ())
    assert (loaded.source is loaded.target) == (made.source is made.target) == (shared and kind != "spacy")
    for source, target in ENGLISH:
        assert loaded.source.encode(source) == made.source.encode(source)
        assert loaded.target.encode(target) == made.target.encode(target)
    names = {path.name.split(".")[0] for path in (tmp_path / "tokenizer").iterdir()}
    assert names == {"tokenizer", "manifest"} | ({"shared"} if shared else {"source", "target"})
    reused = trained(ENGLISH[:1], path=str(tmp_path / "tokenizer"))
    assert reused.sha256() == made.sha256()


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_text_gives_the_same_tokenizer(kind: str) -> None:
    first, second = (trained(ENGLISH, **KINDS[kind]) for _ in range(2))
    assert first.sha256() == second.sha256()
    options = {**KINDS[kind], "lowercase": True}
    assert trained(ENGLISH, **options).sha256() != first.sha256()


def test_the_digest_of_targets_is_of_what_splits_them() -> None:
    def digest(**changes: Any) -> str:
        return replace(WORD, config=replace(WORD.config, **changes)).target_sha256()

    assert digest(kind="spacy", target_language="en") != digest(kind="spacy", target_language="fr")
    assert digest(kind="spacy", source_language="en") == digest(kind="spacy", source_language="fr")
    assert digest(target_language="en") == digest(target_language="fr") == WORD.target_sha256()
    assert len({digest(**{key: True}) for key in ("lowercase", "strip_punctuation")} | {digest()}) == 3


def test_shared_means_one_id_space() -> None:
    both = trained(ENGLISH, kind="word")
    assert both.source is both.target
    apart = trained(ENGLISH, kind="word", shared=False)
    assert apart.target.decode(apart.target.encode("the chat")) == "⁇ chat"
    reader = train_tokenizers(TokenizerConfig(kind="word", shared=False), ENGLISH, "reading")  # both sides are read
    assert reader.shared
    assert reader.source is reader.target
    languages = trained(ENGLISH, kind="spacy")  # split by two rules, numbered alike
    assert languages.source.serialized() == languages.target.serialized()


def test_words_are_numbered_by_frequency_then_text() -> None:
    pairs = [("b a c", "b a"), ("b d", "")]
    source = trained(pairs, kind="word").source
    assert source.pieces(range(4, source.size)) == ["b", "a", "c", "d"]
    assert trained(pairs, kind="word", min_frequency=2).source.size == 6
    assert trained(pairs, kind="word", vocab_size=5).source.pieces([4]) == ["b"]
    first = trained([("<extra_id_1> a b", "a")], kind="word", sentinels=2, vocab_size=7).source  # b has no room
    assert first.pieces(range(4, first.size)) == ["<extra_id_0>", "<extra_id_1>", "a"]


def test_the_word_tokenizer_splits_at_spaces_alone() -> None:
    source = trained([("l'a  b\tc\u00a0d ", "x")], kind="word").source
    assert source.pieces(source.encode(" b\tc\u00a0d   l'a")) == ["b\tc\u00a0d", "l'a"]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "spacy" not in kind])
def test_case_and_punctuation_go_where_asked(kind: str) -> None:
    options = {**KINDS[kind], "lowercase": True, "strip_punctuation": True}
    source = trained(ENGLISH, **options).source
    assert source.decode(source.encode("The CAT, «sleeps»—!")) == "the cat sleeps"


def test_spacy_splits_words_as_the_language_does() -> None:
    made = trained([("I don't know, Mr. Smith.", "Das ist z.B. ein Haus."), ("x", "y")], kind="spacy", shared=False)
    assert made.source.pieces(made.source.encode("I  don't know.")) == ["I", "do", "n't", "know", "."]
    assert made.target.decode(made.target.encode("ein Haus.")) == "ein Haus ."
    with pytest.raises(ConfigError, match="'xq'"):
        trained(ENGLISH, kind="spacy", source_language="xq")


def test_chinese_is_split_by_jieba_and_joined_without_spaces() -> None:
    pytest.importorskip("jieba")
    made = trained([("我来到北京清华大学", "x")], kind="spacy", shared=False, source_language="zh")
    ids = made.source.encode("我来到北京清华大学")
    assert made.source.pieces(ids) == ["我", "来到", "北京", "清华大学"]
    assert made.source.decode(ids) == "我来到北京清华大学"


@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
def test_a_vocabulary_that_does_not_fit_names_the_size_that_does(algorithm: str) -> None:
    with pytest.raises(ConfigError, match="at most") as caught:
        trained(ENGLISH, algorithm=algorithm, vocab_size=8000)
    largest = int(caught.value.fix.split(" to ")[1].split(" ")[0])
    assert trained(ENGLISH, algorithm=algorithm, vocab_size=largest).source.size == largest
    with pytest.raises(ConfigError, match="at least") as caught:
        trained(ENGLISH, algorithm=algorithm, vocab_size=8)
    least = int(caught.value.fix.split(" to ")[1].split(" ")[0])
    assert trained(ENGLISH, algorithm=algorithm, vocab_size=least).source.size == least


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_is_refused(kind: str) -> None:
    with pytest.raises(DataError, match="no text"):
        trained([("", ""), ("", "")], **KINDS[kind])


def test_symbols_and_digits() -> None:
    source = soup("bpe", user_defined_symbols=("<sep>", "ab"), split_digits=True).source
    assert source.pieces([4, 5]) == ["<sep>", "ab"]
    assert source.pieces(source.encode("a<sep>ab 12")).count("<sep>") == 1
    assert not any(len(set(piece) & set("1234")) > 1 or ("1" in piece and len(piece.strip("▁")) > 1)
                   for piece in source.pieces(range(source.size)))
    for symbols in [("<s>",), ("",), ("a b",), ("x", "x")]:
        with pytest.raises(ConfigError, match="cannot be a symbol"):
            soup("bpe", user_defined_symbols=symbols)
    for symbol, key in (("<NUM>", "lowercase"), ("a-b", "strip_punctuation")):
        with pytest.raises(ConfigError, match=f"no text has '{symbol}' in it"):
            soup("bpe", user_defined_symbols=(symbol,), **{key: True})


@pytest.mark.parametrize(("task", "characters"), [("seq2seq", 400), ("classification", 300)])
def test_how_much_is_learned_from_is_told_before_it_takes_long(task: Task, characters: int) -> None:
    told = list[str]()
    pairs = [("ab ab ", "y"), ("bc bc ", "n")] * 50 if task == "classification" else [("ab ab ", "xz")] * 100
    config = TokenizerConfig(vocab_size=9, sample_lines=50)
    train_tokenizers(config, pairs, task, told.append)
    assert told == [f"tokenizer: learning 9 pieces from 50 pairs, {characters:,} characters"]


def test_training_samples_the_lines_it_is_told_to() -> None:
    many = [(f"word{i:04}", f"{i:04}") for i in range(5000)]
    sample = build._sample(iter(many), 100, 10**9)
    assert sample == build._sample(iter(many), 100, 10**9)
    assert len(set(sample)) == 100
    assert sample == sorted(sample)
    assert 2000 < sum(int(b) for _, b in sample) / 100 < 3000
    assert build._sample(many, 5000, 12 * 5000) == many
    assert build._sample(many, 5000, 12 * 100 + 11) == sample
    assert len(build._sample(many, 5000, 1)) == 1
    small = trained(ENGLISH * 2, vocab_size=24, sample_lines=len(ENGLISH) * 2)
    assert small.source.serialized() == trained(ENGLISH * 2, vocab_size=24).source.serialized()


@pytest.mark.parametrize("most", [1, 60, 1000, 10**6])
def test_a_sample_is_of_those_that_draw_the_lowest_numbers(most: int) -> None:
    """However long they are: a short one behind long ones is no likelier than another."""
    pairs = [("a" * (1 + i * 7 % 50), "b") for i in range(300)]
    draw, kept, size = random.Random(0), list[int](), 0
    numbers = [draw.random() for _ in pairs]
    for i in sorted(range(300), key=numbers.__getitem__):
        size += len(pairs[i][0]) + 1
        if size > most and kept:
            break
        kept.append(i)
    assert build._sample(pairs, 300, most) == [pairs[i] for i in sorted(kept)]


def labelled(n: int = 30) -> list[tuple[str, str]]:
    return [(f"text number {i % 10}", ["good", "bad"][i % 2]) for i in range(n)]


def test_classification_has_labels_and_one_side(tmp_path: Path) -> None:
    made = train_tokenizers(TokenizerConfig(kind="word"), [*labelled(), ("empty", "")], "classification")
    assert made.labels == ("bad", "good")
    assert made.source is made.target
    assert [made.label_id("bad"), made.label_id("good")] == [0, 1]
    assert "good" not in made.source.pieces(range(made.source.size))
    made.save(tmp_path / "t")
    names = {path.name for path in (tmp_path / "t").iterdir()}
    assert names == {"tokenizer.json", "manifest.json", "source.vocab.json"}
    loaded = load_tokenizers(tmp_path / "t")
    assert (loaded.labels, loaded.shared, loaded.sha256()) == (made.labels, False, made.sha256())
    with pytest.raises(DataError, match="'ugly' was never seen") as caught:
        loaded.label_id("ugly", lambda: "test.tsv:7")
    assert caught.value.where == "test.tsv:7"
    assert "bad, good" in caught.value.why
    with pytest.raises(ConfigError, match="no target side"):
        trained(ENGLISH, path=str(tmp_path / "t"))
    other = train_tokenizers(TokenizerConfig(path=str(tmp_path / "t")), [("a", "x"), ("b", "y")], "classification")
    assert other.labels == ("x", "y")
    assert other.source.encode("text number 3") == made.source.encode("text number 3")
    trained(ENGLISH, kind="word").save(tmp_path / "both")  # of two sides, which classification does not have
    alone = train_tokenizers(TokenizerConfig(path=str(tmp_path / "both")), labelled(), "classification")
    assert not alone.shared
    assert not alone.config.shared


def test_labels_that_cannot_be_are_refused() -> None:
    with pytest.raises(DataError, match="two labels at least"):
        train_tokenizers(TokenizerConfig(kind="word"), [("a", "x"), ("b", "x"), ("c", " ")], "classification")
    with pytest.raises(DataError, match="10,000 labels"):
        train_tokenizers(TokenizerConfig(kind="word"), [("a", str(i)) for i in range(10_001)], "classification")


def test_a_header_that_was_read_as_data_is_told() -> None:
    records = [(f"a text {i}", "good" if i % 2 else "bad") for i in range(30)]
    with pytest.warns(PellucidWarning, match="'sentiment', and the text 'review': if it is a header"):
        train_tokenizers(TokenizerConfig(kind="word"), [("review", "sentiment"), *records], "classification")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train_tokenizers(TokenizerConfig(kind="word"), [("so rare a text", "rare"), *records], "classification")
        train_tokenizers(TokenizerConfig(kind="word"), [("word", "bad"), *records], "classification")


def rewritten(folder: Path, name: str, change: Callable[[bytes], bytes]) -> None:
    """Changes a file and makes the manifest fit, as an attacker would."""
    made = load_tokenizers(folder)
    contents = made.files()
    contents[name] = change(contents[name])
    build.write_folder(folder, lambda place: [(place / n).write_bytes(c) for n, c in contents.items()] and None)


@pytest.mark.parametrize("name", ["tokenizer.json", "shared.model", "manifest.json"])
def test_a_damaged_folder_is_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "t"
    made = trained(ENGLISH, vocab_size=40)
    for damage in (Path.unlink, lambda p: p.write_bytes(p.read_bytes()[:-9]), lambda p: p.write_bytes(b""),
                   lambda p: p.write_bytes(bytes([p.read_bytes()[0] ^ 1]) + p.read_bytes()[1:])):
        made.save(folder)
        damage(folder / name)
        with pytest.raises(CheckpointError, match="the tokenizer is damaged") as error:
            load_tokenizers(folder)
        assert error.value.where == str(folder / name)
        assert error.value.fix.startswith("copy its folder again")
    with pytest.raises(CheckpointError, match="there is no tokenizer here"):
        load_tokenizers(tmp_path / "none")


@pytest.mark.parametrize(("name", "content"), [
    ("tokenizer.json", b""), ("tokenizer.json", b"[]"),
    ("tokenizer.json", b'{"format": 0, "options": {"kind": "word"}, "labels": []}'),
    ("tokenizer.json", b'{"format": 1, "options": {"kind": "pickle"}, "labels": []}'),
    ("tokenizer.json", b'{"format": 1, "options": {"kind": "word"}, "labels": 3}'),
    ("tokenizer.json", b'{"format": 1, "options": {"kind": "word"}, "labels": [3]}'),
    ("tokenizer.json", b'{"format": 1, "options": [], "labels": []}'), ("tokenizer.json", b"[" * 100_000),
    ("shared.vocab.json", b""), ("shared.vocab.json", b"[" * 100_000), ("shared.vocab.json", b"{}"),
    ("shared.vocab.json", b'{"tokens": {"a": 1}}'), ("shared.vocab.json", b'{"tokens": ["a", 1]}'),
    ("shared.vocab.json", b'{"tokens": ["a", "a"]}'), ("shared.vocab.json", b'{"tokens": [""]}'),
    ("shared.vocab.json", b"\xff\xfe"),
])
def test_a_folder_that_lies_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    folder = tmp_path / "t"
    trained(ENGLISH, kind="word").save(folder)
    rewritten(folder, name, lambda _: content)
    with pytest.raises(CheckpointError):
        load_tokenizers(folder)


def test_a_model_with_other_numbers_is_refused() -> None:
    made = io.BytesIO()
    SentencePieceTrainer.train(sentence_iterator=iter(a for a, _ in ENGLISH), model_writer=made, vocab_size=25,
                               minloglevel=2)
    with pytest.raises(ValueError, match="numbers padding, unknown, beginning and end otherwise"):
        SentencePieceTokenizer(made.getvalue(), Tidy(lowercase=False, strip_punctuation=False))


def test_a_later_format_is_told_as_such(tmp_path: Path) -> None:
    trained(ENGLISH, kind="word").save(tmp_path / "t")
    rewritten(tmp_path / "t", "tokenizer.json", lambda _: b'{"format": 2}')
    with pytest.raises(CheckpointError, match="newer version"):
        load_tokenizers(tmp_path / "t")


def test_a_model_that_is_none_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    made = trained(ENGLISH, vocab_size=40)
    model = made.source.serialized()
    assert isinstance(made.source, SentencePieceTokenizer)
    for content in (b"", b"no model", model[: len(model) // 2], json.dumps({}).encode()):
        made.save(folder)
        rewritten(folder, "shared.model", lambda _, content=content: content)  # type: ignore[misc]
        with pytest.raises(CheckpointError):
            load_tokenizers(folder)


@pytest.mark.parametrize("key", ["pieces", "before", "after", "unknown", "beginning", "end", "sentencepiece"])
def test_an_imported_file_that_lies_is_refused(key: str) -> None:
    model = BPE.source.serialized()
    content = imported_content(["<pad>", "<unk>", "<s>", "</s>", "▁"], ([], ["</s>"]), ("<unk>", "<s>", "</s>"), model,
                               forced=False)
    tidy, about = Tidy(lowercase=False, strip_punctuation=False), json.loads(content)
    assert ImportedTokenizer(content, tidy).encode(" ")[-1] == EOS
    for wrong in (3, None, ["no piece"] * 5 if key in ("before", "after") else [3] * 5, {"a": []}):
        with pytest.raises(ValueError, match=r"."):
            ImportedTokenizer(json.dumps({**about, key: wrong}).encode(), tidy)
    with pytest.raises(ValueError, match="other keys"):
        ImportedTokenizer(json.dumps({k: v for k, v in about.items() if k != key}).encode(), tidy)


def test_what_was_made_elsewhere_is_not_trained() -> None:
    with pytest.raises(ConfigError, match="cannot be trained"):
        trained(ENGLISH, kind="imported")


def test_a_package_that_is_absent_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "spacy", None)
    with pytest.raises(UserError, match="needs spaCy") as caught:
        trained(ENGLISH, kind="spacy")
    assert "pellucid[words]" in caught.value.fix


@pytest.mark.parametrize("at", [1, 5, 1400])
@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
def test_an_interruption_is_no_fault_of_the_settings(algorithm: str, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Ctrl-C meets SentencePiece while it asks for texts: few, so that it refuses them, or nearly all, of which
    it would learn for minutes."""
    asked, learnt, learn = list[str](), list[bool](), SentencePieceTrainer.train

    def noted(**options: Any) -> None:
        learn(**options)
        learnt.append(True)

    monkeypatch.setattr(SentencePieceTrainer, "train", noted)

    class Tidied(Tidy):
        def __call__(self, text: str) -> str:
            asked.append(text)
            if len(asked) == at:
                raise KeyboardInterrupt
            return text

    options: dict[str, Any] = {"vocab_size": 150, "algorithm": algorithm, "character_coverage": 1.0}
    with pytest.raises(KeyboardInterrupt):
        train(TokenizerConfig(**options), SOUP, Tidied(lowercase=False, strip_punctuation=False))
    assert len(asked) == at
    assert not learnt
