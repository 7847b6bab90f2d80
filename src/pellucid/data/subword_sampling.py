"""Subword sampling: the same texts in other pieces each time, drawn by BPE-dropout (Provilkov et al. 2020) or from the
unigram model (Kudo 2018).

The text comes from the ids, which hold it whole (what is unknown stays unknown), so the corpus need keep nothing else.
"""

import itertools
import re
from collections.abc import Sequence
from random import Random

from pellucid.config import TokenizerConfig
from pellucid.data.segmentations import MergeDropout, Segmentations, UnigramSampling
from pellucid.data.tokenizers.interface import sentinels
from pellucid.data.tokenizers.sentencepiece import SentencePieceTokenizer
from pellucid.data.tokenizers.symbols import symbols_of

_KINDS: dict[str, type[Segmentations]] = {"bpe": MergeDropout, "unigram": UnigramSampling}
_WORD = re.compile("▁?[^▁]+|▁")  # pieces do not go beyond one


class SubwordSampling:
    """Draws rows of ids anew.

    Args:
        tokenizer: whose ids they are.
        options: how it was trained; its symbols are never divided.
        strength: the probability that a merge is left out, or the α that sharpens the probabilities of segmentations.
    """

    def __init__(self, tokenizer: SentencePieceTokenizer, options: TokenizerConfig, strength: float) -> None:
        whole = {*options.user_defined_symbols, *symbols_of(options.symbols), *sentinels(options.sentinels)}
        words = {piece: found for piece, found in tokenizer.scores().items() if piece not in whole}
        self._spelled = {token: piece for piece, (token, _) in words.items()}
        self._segmentations = _KINDS[options.algorithm](words, strength)

    def resegmented(self, rows: list[list[int]], limit: int, random: Random) -> list[list[int]]:
        """Each row in other pieces, with its bos or eos; as it was where it would be longer than `limit`."""
        return [new if len(new := self._row(row, random)) <= limit else row for row in rows]

    def _row(self, row: Sequence[int], random: Random) -> list[int]:
        """What belongs to no word stays as it is."""
        drawn: list[int] = []
        for is_text, ids in itertools.groupby(row, self._spelled.__contains__):
            kept = list(ids)
            words = _WORD.findall("".join(map(self._spelled.__getitem__, kept))) if is_text else []
            found = [self._segmentations.draw(word, random) for word in words]
            drawn += kept if not is_text or None in found else [token for ids in found for token in ids or ()]
        return drawn
