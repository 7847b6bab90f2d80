"""Texts as the ids that an encoder reads, and their lengths: what training and translating both need, and nothing that
only one of them does."""

from collections.abc import Sequence

from pellucid.data.passages import Fused, rows_in, rows_of
from pellucid.data.tokenizers.build import Tokenizers
from pellucid.data.tokenizers.interface import BOS, EOS

NO_LIMIT = 2**31  # ids that no text has


def source_ids(texts: Sequence[str], tokenizers: Tokenizers, classify: bool,
               limit: int = NO_LIMIT) -> list[list[int]]:
    """What the encoder reads for each text: its ids, then eos (seq2seq), or after bos (classification); of a `Fused`
    one, its rows, whose passages are cut to have room in `limit` ids."""
    encode = tokenizers.source.encode_batch
    encoded = encode(list(texts))
    if classify:
        return [[BOS, *ids] for ids in encoded]
    return [rows_of(ids, encode(list(text.passages)) if isinstance(text, Fused) else (), limit)
            for text, ids in zip(texts, encoded, strict=True)]


def longest_row(ids: list[int]) -> int:
    """How many ids the longest row has."""
    return max(map(len, rows_in(ids)), default=0)


def shorten(ids: list[int], limit: int) -> list[int]:
    """At most `limit` ids of each row, an eos at its end staying there."""
    if len(ids) <= limit:
        return ids
    return [id for part in rows_in(ids)
            for id in (part if len(part) <= limit else [*part[: limit - 1], EOS] if part[-1] == EOS else part[:limit])]
