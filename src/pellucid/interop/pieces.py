"""A model of SentencePiece that does by itself what a run does to a text before it: lower case, no punctuation.

In its format, what is appended to a message is merged into it, so that a table of replacements is added to the model
and nothing else of it changes. The table is compiled by SentencePiece: it is that of a small model trained with it.
"""

import functools
import io
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pellucid.data.tokenizers.build import Tokenizers
from pellucid.data.tokenizers.interface import Tidy

_NORMALIZER, _TABLE = 3, 2  # fields of its ModelProto and NormalizerSpec
_SURROGATES = range(0xD800, 0xE000)


def models(tokenizers: Tokenizers) -> tuple[bytes, bytes]:
    """Of the source and the target, which must be of SentencePiece. A capital sigma is always σ."""
    config = tokenizers.config
    added = _tidying(Tidy(config.lowercase, config.strip_punctuation))
    return tokenizers.source.serialized() + added, tokenizers.target.serialized() + added


@functools.cache
def _tidying(tidy: Tidy) -> bytes:
    """What is to be appended; nothing where a text stays as it is."""
    if tidy == Tidy(lowercase=False, strip_punctuation=False):
        return b""
    import sentencepiece

    characters = (chr(code) for code in range(1, sys.maxunicode + 1) if code not in _SURROGATES)
    changed = {old: new for old in characters if (new := tidy(old)) != old}
    rules = "".join(f"{ord(old):X}\t{' '.join(f'{ord(c):X}' for c in new)}\n" for old, new in changed.items())
    model = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rules.tsv"
        path.write_text(rules, encoding="utf-8")
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a b c"]), model_writer=model, model_type="char", vocab_size=8,
            hard_vocab_limit=False, normalization_rule_tsv=str(path), num_threads=1, minloglevel=2)
    spec = next(content for number, content in _fields(model.getvalue()) if number == _NORMALIZER)
    table = next(content for number, content in _fields(spec) if number == _TABLE)
    return _field(_NORMALIZER, _field(_TABLE, table))


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message that have a length."""
    at = 0
    while at < len(message):
        key, at = _number(message, at)
        length, at = _number(message, at) if key & 7 in (0, 2) else ({1: 8, 5: 4}[key & 7], at)
        if key & 7 == 2:
            yield key >> 3, message[at:at + length]
        at += 0 if key & 7 == 0 else length


def _number(message: bytes, at: int) -> tuple[int, int]:
    """Seven bits a byte, the last without the eighth; and what comes after it."""
    value, shift = 0, 0
    while True:
        value, shift, at = value | (message[at] & 127) << shift, shift + 7, at + 1
        if message[at - 1] < 128:
            return value, at


def _field(number: int, content: bytes) -> bytes:
    length, digits = len(content), b""
    while length > 127:
        length, digits = length >> 7, digits + bytes([length & 127 | 128])
    return bytes([number << 3 | 2]) + digits + bytes([length]) + content
