"""Subword sampling: the same texts in other pieces each time, drawn by SentencePiece's BPE-dropout (Provilkov et al.
2020) or from its unigram model (Kudo 2018).

The text comes from the ids, which hold it whole (what is unknown stays unknown), so the corpus need keep nothing else.
"""

from random import Random

from pellucid.data.tokenizers.interface import BOS, EOS
from pellucid.data.tokenizers.sentencepiece import SentencePieceTokenizer

_SEEDS = 2**32 - 1


def resegment_rows(rows: list[list[int]], tokenizer: SentencePieceTokenizer, strength: float, limit: int,
                   random: Random) -> list[list[int]]:
    """Each row in other pieces, with its bos or eos; as it was where it would be longer than `limit`."""
    heads = [row[:1] if row[0] == BOS else [] for row in rows]
    tails = [row[-1:] if row[-1] == EOS else [] for row in rows]
    bare = [row[len(head) : len(row) - len(tail)] for head, row, tail in zip(heads, rows, tails, strict=True)]
    drawn = tokenizer.resegment(bare, strength, random.randrange(_SEEDS))
    found = ([*head, *ids, *tail] for head, ids, tail in zip(heads, drawn, tails, strict=True))
    return [new if len(new) <= limit else row for row, new in zip(rows, found, strict=True)]
