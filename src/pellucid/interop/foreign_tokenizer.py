"""The tokenizer of a folder of transformers: its pieces by their ids, and how it splits a text."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.config import TokenizerConfig
from pellucid.data.tokenizers.build import Tokenizers
from pellucid.data.tokenizers.imported import ImportedTokenizer, TokenizersPieces, failures, imported_content
from pellucid.data.tokenizers.interface import Tidy
from pellucid.data.tokenizers.sentencepiece import processor_of
from pellucid.errors import CheckpointError, UserError
from pellucid.interop.reading import read_mapping
from pellucid.interop.vocabulary import Rows, in_our_order

# The languages of M2M100 and of its successors for WMT21, in the order of their ids.
_OF_M2M100 = (
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr "
    "ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa "
    "pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu")
_OF_WMT21 = "en ha is ja cs ru zh de"
_UNHEARD = "\U0010fffd"  # a letter that no piece has: where a tokenizer has nothing for such, it fails on it
_MARIAN = ("vocab.json", "source.spm", "target.spm")
_BERTS = ("berttokenizer", "distilberttokenizer")
_SPACED = {"robertatokenizer": False, "barttokenizer": False, "blenderbottokenizer": True}  # unless they are told
_GAPS = 2**16  # ids that no piece has, where there are few pieces


@dataclass(frozen=True)
class Foreign:
    """A tokenizer as it was found.

    Attributes:
        pieces: by their ids.
        unknown: the id of what it does not know; None where it knows everything.
        before, after: ids that it puts around a text.
        first: what every output begins with; None where they are free.
        backends: of the source and the target: a tokenizer.json, or models of SentencePiece.
    """

    pieces: list[str]
    unknown: int | None
    before: list[int]
    after: list[int]
    backends: tuple[dict[str, Any] | bytes, dict[str, Any] | bytes]
    first: list[int] | None = None

    def marks(self, rows: Rows) -> list[str]:
        """Its special tokens but for those of `rows`: in transformers a text that spells one has it, and none here."""
        content = self.backends[0]
        added = [] if isinstance(content, bytes) else content.get("added_tokens") or []
        ours = {self.pieces[i] for i in rows.order[:4] if i is not None and i < len(self.pieces)}
        return [each["content"] for each in added if each.get("special") and each["content"] not in ours]

    def tokenizers(self, rows: Rows, labels: tuple[str, ...]) -> Tokenizers:
        """Ours, with the ids of `rows`; the special tokens at the edges that we set ourselves are left out."""
        specials = rows.order[:4]
        pieces = in_our_order(self.pieces, rows)
        # A text gets an eos behind it here, or to be classified a bos before it.
        before = self.before[1:] if labels else self.before
        after = self.after if labels or not self.after else self.after[:-1]
        names = tuple(self.pieces[i] if i is not None else "" for i in specials[1:])
        edges = [(before, after), (before, after) if self.first is None else (self.first, [])]
        sides = [ImportedTokenizer(imported_content(
            pieces, ([self.pieces[i] for i in left], [self.pieces[i] for i in right]), (names[0], names[1], names[2]),
            backend, forced), Tidy(False, False)) for backend, (left, right), forced in zip(
                self.backends[:1 if labels else 2], edges, (False, bool(self.first)), strict=False)]
        config = TokenizerConfig(kind="imported", vocab_size=max(len(pieces), 5), shared=not labels)
        return Tokenizers(config, sides[0], sides[-1], shared=not labels, labels=labels)


def read_tokenizer(folder: Path, kind: str) -> Foreign:
    """The tokenizer of a folder.

    Raises:
        CheckpointError: its files are missing or damaged.
        ConfigError: the package tokenizers is not installed.
    """
    if kind == "m2m_100" and not (folder / "tokenizer.json").is_file():
        return _m2m100(folder)
    if kind == "marian" and all((folder / name).is_file() for name in _MARIAN):
        return _marian(folder)
    return _tokenizer_json(folder / "tokenizer.json", kind)


def _marian(folder: Path) -> Foreign:
    vocabulary = read_mapping(folder / "vocab.json")
    pieces = _by_id(vocabulary, folder / "vocab.json")
    models = [_sentencepiece(folder / name) for name in _MARIAN[1:]]
    end = vocabulary.get("</s>")
    if end is None:
        raise CheckpointError("the vocabulary has no </s>", where=str(folder / "vocab.json"))
    return Foreign(pieces, vocabulary.get("<unk>"), [], [end], (models[0], models[1]))


def _m2m100(folder: Path) -> Foreign:
    """Behind the pieces of its file come the languages, which it does not name."""
    vocabulary, about = read_mapping(folder / "vocab.json"), folder / "tokenizer_config.json"
    pieces = _by_id(vocabulary, folder / "vocab.json")
    of_2021 = about.is_file() and read_mapping(about).get("language_codes") == "wmt21"
    pieces += [f"__{code}__" for code in (_OF_WMT21 if of_2021 else _OF_M2M100).split()]
    end, model = vocabulary.get("</s>"), _sentencepiece(folder / "sentencepiece.bpe.model")
    if end is None:
        raise CheckpointError("the vocabulary has no </s>", where=str(folder / "vocab.json"))
    return Foreign(pieces, vocabulary.get("<unk>"), [], [end], (model, model))


def _sentencepiece(path: Path) -> bytes:
    if not path.is_file():
        raise CheckpointError("a file is missing", where=str(path))
    with _told(path):
        model = path.read_bytes()
        processor_of(model)
    return model


def _tokenizer_json(path: Path, kind: str) -> Foreign:
    if not path.is_file():
        raise CheckpointError("a file is missing", where=str(path),
                              fix="AutoTokenizer.from_pretrained(…).save_pretrained(…) writes it")
    content = _as_its_class(read_mapping(path), path.with_name("tokenizer_config.json"), kind)
    with _told(path):
        theirs = TokenizersPieces(content).tokenizer
    vocabulary = theirs.get_vocab(with_added_tokens=True)
    pieces = _by_id(vocabulary, path)
    with _told(path):
        alone, whole = _probed(theirs, pieces)
    if not alone or max(whole, default=0) >= len(pieces):
        why = "it puts ids around a text that are those of no piece" if alone else "it makes nothing of its own pieces"
        raise CheckpointError("the tokenizer knows no text", where=str(path), why=why)
    at = next((i for i in range(len(whole)) if whole[i:i + len(alone)] == alone), len(whole))
    model = content.get("model") if isinstance(content.get("model"), dict) else {}
    unknown, number = ((model or {}).get(key) for key in ("unk_token", "unk_id"))  # a kind reads one, and checks that
    number = vocabulary.get(unknown) if isinstance(unknown, str) else number
    is_piece = type(number) is int and 0 <= number < len(pieces)
    return Foreign(pieces, number if is_piece else vocabulary.get("<unk>"), whole[:at],
                   whole[at + len(alone):], (content, content))


def _as_its_class(content: dict[str, Any], path: Path, kind: str) -> dict[str, Any]:
    """Some classes of tokenizers ask the file at `path` how a text is normalised, or whether a space comes before it,
    whatever tokenizer.json says."""
    told = read_mapping(path) if path.is_file() else {}
    named = str(told.get("tokenizer_class") or f"{kind}Tokenizer").removesuffix("Fast").lower()
    if named in _BERTS and (part := _part(content, "normalizer", "BertNormalizer")):
        return content | {"normalizer": part | {
            "lowercase": told.get("do_lower_case", True), "strip_accents": told.get("strip_accents"),
            "handle_chinese_chars": told.get("tokenize_chinese_chars", True)}}
    if named in _SPACED and (part := _part(content, "pre_tokenizer", "ByteLevel")):
        return content | {"pre_tokenizer": part | {"add_prefix_space": told.get("add_prefix_space", _SPACED[named])}}
    return content


def _part(content: dict[str, Any], name: str, kind: str) -> dict[str, Any] | None:
    """A part of a tokenizer.json, if it is of this kind."""
    part = content.get(name)
    return part if isinstance(part, dict) and part.get("type") == kind else None


def _probed(theirs: Any, pieces: list[str]) -> tuple[list[int], list[int]]:
    """The ids of a text that has some, without and with those that are put around it; none where no text has any."""
    with failures():
        theirs.encode(_UNHEARD)
        for text in ("a", *pieces):
            if alone := theirs.encode(text, add_special_tokens=False).ids:
                return alone, theirs.encode(text).ids
    return [], []


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """What is wrong with a tokenizer is told with the file that it is in."""
    try:
        yield
    except UserError:  # a package is missing
        raise
    except (OSError, ValueError) as error:
        raise CheckpointError("the tokenizer cannot be read", where=str(path), why=str(error)[:200]) from error


def _by_id(vocabulary: dict[str, Any], path: Path) -> list[str]:
    """The pieces in the order of their ids, which must be all different. Gaps get a name, and have an end: else two
    pieces could ask for any amount of memory."""
    ids = list(vocabulary.values())
    most = 2 * len(ids) + _GAPS
    if not ids or not all(type(i) is int and 0 <= i < most for i in ids) or len(set(ids)) != len(ids):
        raise CheckpointError("the vocabulary is damaged", where=str(path),
                              why=f"its {len(ids):,} ids are not numbers below {most:,}, all different")
    pieces = [f"<unused {i}>" for i in range(1 + max(ids))]
    for piece, i in vocabulary.items():
        pieces[i] = piece
    return pieces
