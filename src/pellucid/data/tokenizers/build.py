"""Tokenizers of a run: trained from its pairs, saved into its folder, loaded from it.

A folder holds tokenizer.json (kind, options, labels), one file a trained tokenizer (shared, or source and target), and
manifest.json with their SHA-256.
"""

import dataclasses
import functools
import hashlib
import heapq
import itertools
import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from pellucid.config import Task, TokenizerConfig
from pellucid.config.reader import read_dataclass
from pellucid.data.tokenizers import character, sentencepiece, spacy_words, word
from pellucid.data.tokenizers.imported import ImportedTokenizer
from pellucid.data.tokenizers.interface import Tidy, Tokenizer, sentinels
from pellucid.data.tokenizers.sentencepiece import SentencePieceTokenizer
from pellucid.data.tokenizers.vocabulary import Rule, VocabularyTokenizer, frequent, tokens_from
from pellucid.errors import CheckpointError, ConfigError, DataError, PellucidWarning, check_format
from pellucid.files import MANIFEST, check_folder, read_json, write_folder

MAX_LABELS = 10_000  # more are texts: the columns have been swapped
_FEW = 20  # records, of which any may be the only one of its label
_FORMAT = 1
_ABOUT = "tokenizer.json"


@dataclass(frozen=True)
class Tokenizers:
    """What a run reads and writes with.

    Args:
        config: how they were made.
        source: for what is read.
        target: for what is written; for classification, which writes labels, the same object as `source`.
        shared: whether an id means the same on both sides (then embeddings can be shared).
        labels: for classification, in the order of their ids; else empty.
    """

    config: TokenizerConfig
    source: Tokenizer
    target: Tokenizer
    shared: bool
    labels: tuple[str, ...]

    def label_id(self, label: str, locate: Callable[[], str] = lambda: "") -> int:
        """The id of a label; `locate` says where it stands, and is called only if it is not known.

        Raises:
            DataError: the label was never seen in training.
        """
        if (number := self._label_ids.get(label)) is None:
            known = ", ".join(self.labels[:20]) + (", …" if len(self.labels) > 20 else "")
            raise DataError(f"the label {label[:80]!r} was never seen in training", where=locate(),
                            why=f"the labels are {known}", fix="correct it, or train with more examples of it: a "
                            "share that is set aside may hold the only ones")
        return number

    @functools.cached_property
    def _label_ids(self) -> dict[str, int]:
        return {label: i for i, label in enumerate(self.labels)}

    def files(self) -> dict[str, bytes]:
        """The content of the folder, by file name."""
        about = {"format": _FORMAT, "labels": self.labels,
                 "options": dataclasses.asdict(self.config)}
        names = _file_names(self.config, self.shared, self.labels)
        sides = zip(names, (self.source, self.target), strict=False)  # one file where one serves both
        trained = {name: tokenizer.serialized() for name, tokenizer in sides}
        return {_ABOUT: json.dumps(about, ensure_ascii=False, indent=2).encode("utf-8")} | trained

    def sha256(self) -> str:
        """A digest of `files`: equal digests mean equal ids for every text."""
        digest = hashlib.sha256()
        for name, content in sorted(self.files().items()):
            digest.update(f"{name} {len(content)}\n".encode() + content)
        return digest.hexdigest()

    def target_sha256(self) -> str:
        """A digest of the target side: equal digests mean equal ids for every target, so that losses and perplexities
        of the two are about the same tokens."""
        config, content = self.config, self.target.serialized()
        splits = [config.kind, config.target_language if config.kind == "spacy" else "", config.lowercase,
                  config.strip_punctuation]
        return hashlib.sha256(json.dumps(splits).encode() + content).hexdigest()

    def save(self, folder: Path) -> None:
        """Writes `files` and their manifest, all or nothing.

        Raises:
            OutputError: disk full, no permission.
        """
        def fill(place: Path) -> None:
            for name, content in self.files().items():
                (place / name).write_bytes(content)

        write_folder(folder, fill)


def _file_names(config: TokenizerConfig, shared: bool, labels: tuple[str, ...]) -> list[str]:
    """The file of the source side, and of the target side where it has one of its own."""
    ending = {"sentencepiece": "model", "imported": "pieces.json"}.get(config.kind, "vocab.json")
    sides = ["shared"] if shared and config.kind != "imported" else ["source"] if labels else ["source", "target"]
    return [f"{side}.{ending}" for side in sides]


def train_tokenizers(config: TokenizerConfig, pairs: Iterable[tuple[str, str]], task: Task,
                     say: Callable[[str], None] = lambda line: None) -> Tokenizers:
    """Trains on `pairs`, which are read more than once, or loads what `config.path` names.

    SentencePiece learns from a sample of `config.sample_lines` pairs and `config.sample_characters` characters; the
    other kinds count every token.

    Args:
        say: told how much SentencePiece learns from, before minutes in which nothing more can be said.

    Raises:
        ConfigError: settings that do not fit the text or each other, or a package that is not installed.
        DataError: no text; for classification, fewer than two labels or more than MAX_LABELS.
        CheckpointError: `config.path` holds no whole tokenizer.
    """
    labels = _labels(pairs) if task == "classification" else ()
    if task == "reading":
        config = dataclasses.replace(config, shared=True)
    if config.path is not None:
        return _reused(config.path, labels)
    if config.kind == "imported":
        raise ConfigError("a tokenizer of kind imported cannot be trained", where="tokenizer.kind",
                          fix="`pellucid import` makes one; start from its run with train.initialize_from")
    config = dataclasses.replace(config, shared=config.shared and not labels)
    sides = 1 if labels else 2
    trained = (_train_sentencepiece(config, pairs, sides, say) if config.kind == "sentencepiece" else
               _train_vocabularies(config, pairs, sides))
    return Tokenizers(config, trained[0], trained[-1], config.shared, labels)


def _labels(pairs: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    counts, first = Counter[str](), ("", "")
    for pair in pairs:
        first = first if counts else pair
        counts[label := pair[1]] += 1
        if len(counts) > MAX_LABELS:
            raise DataError(f"there are more than {MAX_LABELS:,} labels", where="data.train",
                            why=f"one is {label[:80]!r}",
                            fix="is the text in the label's column? set data.source_field and data.label_field")
    labels = {label for label in counts if label.strip()}
    if len(labels) < 2:
        raise DataError(f"there must be two labels at least, and the training data has {len(labels)}",
                        where="data.train", why=f"the labels found: {', '.join(labels) or 'none'}",
                        fix="add examples of another one, or name the column of the labels: data.label_field")
    if counts[first[1]] == 1 and counts.total() > _FEW and len(first[0].split()) == 1:
        warnings.warn(f"the first record alone has the label {first[1][:80]!r}, and the text {first[0][:80]!r}: if it "
                      "is a header, say so: data.label_field, data.source_field", PellucidWarning, stacklevel=2)
    return tuple(sorted(labels))


def _reused(path: str, labels: tuple[str, ...]) -> Tokenizers:
    loaded = load_tokenizers(Path(path))
    if loaded.labels and not labels:
        raise ConfigError("this tokenizer was trained for classification and has no target side", where=path,
                          fix="leave tokenizer.path out to train one")
    if labels:  # the labels are the data's; of the tokenizer, the source side is used
        config = dataclasses.replace(loaded.config, shared=False)
        return Tokenizers(config, loaded.source, loaded.source, shared=False, labels=labels)
    return loaded


def _train_sentencepiece(config: TokenizerConfig, pairs: Iterable[tuple[str, str]], sides: int,
                         say: Callable[[str], None]) -> list[Tokenizer]:
    sample = _sample(pairs, config.sample_lines, config.sample_characters)
    characters = sum(len(text) for pair in sample for text in pair[:sides])
    say(f"tokenizer: learning {config.vocab_size:,} pieces from {len(sample):,} pairs, {characters:,} characters")
    tidy = Tidy(config.lowercase, config.strip_punctuation)
    if config.shared:
        return [sentencepiece.train(config, [text for pair in sample for text in pair], tidy)]
    return [sentencepiece.train(config, [pair[side] for pair in sample], tidy) for side in range(sides)]


def _sample(pairs: Iterable[tuple[str, str]], lines: int, characters: int) -> list[tuple[str, str]]:
    """At most `lines` of the pairs, and at most `characters` in them, in their order; the same ones for the same pairs.

    Each pair draws a number, and those with the lowest stay: so every pair is as likely as another, and no more is ever
    held than what is returned.
    """
    random = Random(0)
    kept: list[tuple[float, int, tuple[str, str]]] = []  # a heap, the highest number first
    size, limit = 0, 1.0
    for i, pair in enumerate(pairs):
        number = random.random()
        if number > limit:
            continue
        heapq.heappush(kept, (-number, i, pair))
        size += len(pair[0]) + len(pair[1])
        while len(kept) > lines or (size > characters and len(kept) > 1):
            number, _, (a, b) = heapq.heappop(kept)
            size -= len(a) + len(b)
            limit = -number
    return [pair for _, _, pair in sorted(kept, key=lambda entry: entry[1])]


def _train_vocabularies(config: TokenizerConfig, pairs: Iterable[tuple[str, str]], sides: int) -> list[Tokenizer]:
    rules = _rules(config)[:sides]
    tidy = Tidy(config.lowercase, config.strip_punctuation)
    counts: list[Counter[str]] = [Counter() for _ in rules]
    if config.shared:
        counts = [counts[0]] * sides
    for pair in pairs:
        for rule, count, text in zip(rules, counts, pair, strict=False):  # of a labelled pair, the text alone
            count.update(rule.split(tidy(text)))
    if not all(counts):
        raise DataError("there is no text to train the tokenizer on", where="data.train", why="every line is empty")
    names = sentinels(config.sentinels)
    for count, name in itertools.product(counts, names):
        del count[name]
    tokens = [[*names, *frequent(count, config.min_frequency, config.vocab_size - len(names))] for count in counts]
    return _from_tokens(tokens, rules, config)


def _from_tokens(tokens: list[list[str]], rules: list[Rule], config: TokenizerConfig) -> list[Tokenizer]:
    """One tokenizer a side; one for both where they are shared and split alike (spaCy may split two languages)."""
    tidy = Tidy(config.lowercase, config.strip_punctuation)
    if config.shared and rules[0] is rules[-1]:
        rules, tokens = rules[:1], tokens[:1]
    return [VocabularyTokenizer(listed, rule, tidy) for listed, rule in zip(tokens, rules, strict=True)]


def _rules(config: TokenizerConfig) -> list[Rule]:
    """The splitting rules of source and target; the same object where they are the same."""
    if config.kind != "spacy":
        return [{"word": word.RULE, "character": character.RULE}[config.kind]] * 2
    source = spacy_words.rule(config.source_language, "source")
    same = config.source_language == config.target_language
    return [source, source if same else spacy_words.rule(config.target_language, "target")]


def load_tokenizers(folder: Path) -> Tokenizers:
    """The tokenizers that `Tokenizers.save` wrote.

    Raises:
        CheckpointError: no such folder; a file missing, damaged or of another format.
        ConfigError: a package that the tokenizer needs is not installed.
    """
    if not any((folder / name).exists() for name in (MANIFEST, _ABOUT)):
        raise CheckpointError("there is no tokenizer here", where=str(folder),
                              fix="give a folder that `pellucid tokenizer train` wrote, or a run's tokenizer; where "
                                  "that is gone, copy it again")
    try:
        return _read_tokenizers(folder)
    except CheckpointError as error:
        if "newer version" in error.what:
            raise
        raise CheckpointError("the tokenizer is damaged", where=error.where, why=error.why or error.what,
                              fix="copy its folder again; where nothing has been trained yet, remove the folder: it "
                                  "is made anew") from error


def _read_tokenizers(folder: Path) -> Tokenizers:
    check_folder(folder)
    about = read_json(folder / _ABOUT)
    check_format(about.get("format") if isinstance(about, dict) else None, _FORMAT, str(folder / _ABOUT))
    try:
        if about["format"] != _FORMAT:
            raise ValueError(f"its format is {about['format']!r}, this version reads {_FORMAT}")
        config: TokenizerConfig = read_dataclass(TokenizerConfig, about["options"], "options")
        shared, labels = config.shared, tuple(about["labels"])
        if not all(isinstance(label, str) for label in labels):
            raise ValueError("the labels are no list of strings")
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError("the tokenizer is damaged", where=str(folder / _ABOUT), why=str(error)) from error
    names = _file_names(config, shared, labels)
    contents = [_content(folder / name) for name in names]
    tidy = Tidy(config.lowercase, config.strip_punctuation)
    rules = [] if config.kind in ("sentencepiece", "imported") else _rules(config)[:1 if labels else 2]
    try:
        if config.kind == "sentencepiece":
            trained: list[Tokenizer] = [SentencePieceTokenizer(content, tidy) for content in contents]
        elif config.kind == "imported":
            trained = [ImportedTokenizer(content, tidy) for content in contents]
        else:
            tokens = [tokens_from(content) for content in contents]
            trained = _from_tokens([tokens[0], tokens[-1]][: len(rules)], rules, config)
    except ValueError as error:
        raise CheckpointError("a tokenizer file is damaged", where=str(folder / names[0]), why=str(error)) from error
    return Tokenizers(config, trained[0], trained[-1], shared, labels)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CheckpointError("a file of the tokenizer cannot be read", where=str(path),
                              why=error.strerror or str(error)) from error
