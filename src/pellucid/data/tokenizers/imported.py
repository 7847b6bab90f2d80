"""Tokenizers that were made elsewhere: a tokenizer.json, or Marian's two models of SentencePiece with one vocabulary.

Their pieces stay, and get other numbers: the four special ids are ours. The file says which piece has which id.
"""

import base64
import contextlib
import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, final

from pellucid.data.tokenizers.interface import BOS, EOS, PAD, SPECIALS, UNK, UNKNOWN, Tidy
from pellucid.data.tokenizers.sentencepiece import SPACE, processor_of
from pellucid.errors import ConfigError

_LANGUAGE = re.compile(r">>[^<>\s]{1,20}<<")  # what Marian's multilingual models read before a text
_SAID = re.compile(r"__[a-z]{2,3}__")  # what M2M100 begins an output with
_GROWTH = 100  # times: a text that becomes longer than that is nothing to tokenize


@contextlib.contextmanager
def failures() -> Iterator[None]:
    """Whatever the package `tokenizers` raises is a ValueError; where it panics, that is no Exception there."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise ValueError(f"this is no tokenizer.json: {error}") from error


def _growth(step: Any) -> float:
    """How many times as long a text may be behind a step of a tokenizer.json, by all that is replaced."""
    if not isinstance(step, dict):
        return 1.0
    for steps in (step.get("normalizers"), step.get("decoders")):
        if isinstance(steps, list):
            return math.prod(map(_growth, steps))
    if step.get("type") != "Replace":
        return 1.0
    replaced = step["pattern"].get("String")
    return max(1.0, len(step["content"]) / len(replaced)) if replaced else 1.0 + len(step["content"])


class Backend(Protocol):
    """Text to pieces and back."""

    def split(self, text: str) -> list[str]:
        """The pieces of a text."""

    def parts(self, text: str) -> list[tuple[str, str]]:
        """The pieces of a text, and what stands in it for each that is unknown."""

    def join(self, pieces: Sequence[str]) -> str:
        """The text of pieces."""


@final
class SentencePieces:
    """One of Marian's models; a code of a language before the text is a piece of its own."""

    def __init__(self, model: bytes, pieces: Sequence[str]) -> None:
        self._processor = processor_of(model)
        self._languages = {piece for piece in pieces if _LANGUAGE.fullmatch(piece)}

    def split(self, text: str) -> list[str]:
        found = _LANGUAGE.match(text)
        code = [found[0]] if found and found[0] in self._languages else []
        pieces: list[str] = self._processor.encode(text[len(code[0]):].lstrip() if code else text, out_type=str)
        return code + pieces

    def parts(self, text: str) -> list[tuple[str, str]]:
        return [(piece, piece) for piece in self.split(text)]  # an unknown one as it stands in the text

    def join(self, pieces: Sequence[str]) -> str:
        return "".join(piece for piece in pieces if not _SAID.fullmatch(piece)).replace(SPACE, " ").strip()


@final
class TokenizersPieces:
    """A tokenizer.json, by the package `tokenizers`; a text that spells a special token is plain text.

    Attributes:
        tokenizer: of that package; it neither cuts nor pads.
    """

    def __init__(self, content: dict[str, Any]) -> None:
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise ConfigError("this tokenizer needs the package tokenizers", where="tokenizer",
                              fix="pip install 'pellucid[interop]'") from error
        with failures():
            if max(_growth(content.get(part)) for part in ("normalizer", "decoder")) > _GROWTH:
                raise ValueError(f"it may make a text more than {_GROWTH} times as long")
            self.tokenizer: Any = Tokenizer.from_str(json.dumps(content, ensure_ascii=False))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.tokenizer.encode_special_tokens = True

    def split(self, text: str) -> list[str]:
        pieces: list[str] = self.tokenizer.encode(text, add_special_tokens=False).tokens
        return pieces

    def parts(self, text: str) -> list[tuple[str, str]]:
        found = self.tokenizer.encode(text, add_special_tokens=False)
        return [(piece, text[start:end] or piece)
                for piece, (start, end) in zip(found.tokens, found.offsets, strict=True)]

    def join(self, pieces: Sequence[str]) -> str:
        ids = [self.tokenizer.token_to_id(piece) for piece in pieces]
        return str(self.tokenizer.decode([i for i in ids if i is not None], skip_special_tokens=True))


@final
class ImportedTokenizer:
    """Pieces of a backend under our ids.

    Args:
        content: of the file that `imported_content` made.
        tidy: goes before the backend.

    Raises:
        ValueError: it is damaged.
    """

    def __init__(self, content: bytes, tidy: Tidy) -> None:
        about = _about(content)
        self._pieces = about["pieces"]
        self._backend: Backend = (TokenizersPieces(about["tokenizers"]) if "tokenizers" in about else
                                  SentencePieces(base64.b64decode(about["sentencepiece"]), self._pieces))
        self._content, self._tidy = content, tidy
        self._ids = {piece: i for i, piece in enumerate(self._pieces) if i not in (PAD, BOS, EOS)}
        self._unknown = about["unknown"] if "tokenizers" in about else UNKNOWN  # whose file says how it is told
        special = {about["unknown"]: UNK, about["beginning"]: BOS, about["end"]: EOS} | self._ids
        if not special.keys() >= {*about["before"], *about["after"]}:
            raise ValueError("what stands before or behind a text is no piece")
        self._before, self._after = ([special[piece] for piece in about[side]] for side in ("before", "after"))
        self._forced = tuple(self._before) if about.get("forced") is True else ()
        self._silent = {PAD, BOS, EOS, *self._forced}

    @property
    def size(self) -> int:
        return len(self._pieces)

    @property
    def forced(self) -> tuple[int, ...]:
        return self._forced

    def encode(self, text: str) -> list[int]:
        return [*self._before, *(self._ids.get(piece, UNK) for piece in self._backend.split(self._tidy(text))),
                *self._after]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        said = [i for i in ids if i not in self._silent]
        return self._backend.join([self._unknown if i == UNK else self._pieces[i] for i in said])

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self._pieces[i] for i in ids]

    def unknown(self, text: str) -> list[str]:
        return [part for piece, part in self._backend.parts(self._tidy(text)) if self._ids.get(piece, UNK) == UNK]

    def spellings(self) -> list[str]:
        return [piece.replace(SPACE, " ") if i >= len(SPECIALS) and i not in self._silent else ""
                for i, piece in enumerate(self._pieces)]

    def spelled(self, text: str) -> str:
        return " " + self._tidy(text)

    def serialized(self) -> bytes:
        return self._content


def _about(content: bytes) -> dict[str, Any]:
    """What `imported_content` said, each thing of its kind."""
    try:
        about = json.loads(content)
        lists = [about[key] for key in ("pieces", "before", "after")]
        names = [about[key] for key in ("unknown", "beginning", "end")]
        model = about["sentencepiece"] if "tokenizers" not in about else ""
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError("it has other keys") from error
    if not all(isinstance(some, list) for some in lists) or len(lists[0]) < len(SPECIALS):
        raise ValueError("there is no list of pieces")
    if not all(isinstance(name, str) for some in (*lists, names, [model]) for name in some):
        raise ValueError("the pieces are no list of strings")
    return dict(about)


def imported_content(pieces: Sequence[str], edges: tuple[Sequence[str], Sequence[str]],
                     specials: tuple[str, str, str], backend: dict[str, Any] | bytes, forced: bool) -> bytes:
    """What an `ImportedTokenizer` is made of.

    Args:
        pieces: in the order of our ids, the four special ones first, by our names.
        edges: the pieces before and behind each text.
        specials: their names of unknown, beginning and end.
        backend: a tokenizer.json, or a model of SentencePiece.
        forced: whether every output begins with the pieces before a text.
    """
    name = {"sentencepiece": base64.b64encode(backend).decode()} if isinstance(backend, bytes) else {
        "tokenizers": backend}
    about = {"pieces": list(pieces), "before": list(edges[0]), "after": list(edges[1]),
             **({"forced": True} if forced else {}),
             **dict(zip(("unknown", "beginning", "end"), specials, strict=True)), **name}
    return json.dumps(about, ensure_ascii=False).encode("utf-8")
