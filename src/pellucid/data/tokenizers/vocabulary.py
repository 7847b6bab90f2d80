"""A tokenizer of whole tokens: a rule that splits a text, and the list of tokens that have an id."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from pellucid.data.tokenizers.interface import BOS, EOS, PAD, SPECIALS, UNK, UNKNOWN, Tidy


@dataclass(frozen=True)
class Rule:
    """How a text becomes tokens, and what joins them again."""

    split: Callable[[str], list[str]]
    joiner: str


@final
class VocabularyTokenizer:
    """Tokens of `rule`, numbered from 4 in the order of `tokens`; those not among them are UNK.

    Args:
        tokens: different strings, none empty.
        rule: splits a text.
        tidy: goes before the rule.
    """

    def __init__(self, tokens: Sequence[str], rule: Rule, tidy: Tidy) -> None:
        self.tokens = tuple(tokens)
        self._rule, self._tidy = rule, tidy
        self._ids = {token: i for i, token in enumerate(self.tokens, start=len(SPECIALS))}
        self._texts = [*SPECIALS, *self.tokens]

    @property
    def size(self) -> int:
        return len(self._texts)

    @property
    def forced(self) -> tuple[int, ...]:
        return ()

    def encode(self, text: str) -> list[int]:
        return [self._ids.get(token, UNK) for token in self._rule.split(self._tidy(text))]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        return self._rule.joiner.join(UNKNOWN if i == UNK else self._texts[i] for i in ids if i not in (PAD, BOS, EOS))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self._texts[i] for i in ids]

    def unknown(self, text: str) -> list[str]:
        return [token for token in self._rule.split(self._tidy(text)) if token not in self._ids]

    def spellings(self) -> list[str]:
        return [""] * len(SPECIALS) + [self._rule.joiner + token for token in self.tokens]

    def spelled(self, text: str) -> str:
        return self._rule.joiner + self._tidy(text)

    def serialized(self) -> bytes:
        return json.dumps({"tokens": self.tokens}, ensure_ascii=False, indent=0).encode("utf-8")


def frequent(counts: Counter[str], min_frequency: int, vocab_size: int) -> list[str]:
    """The tokens that get an id: most frequent first, equals in the order of their text, `vocab_size` with specials."""
    kept = [token for token, count in counts.items() if count >= min_frequency]
    kept.sort(key=lambda token: (-counts[token], token))
    return kept[:vocab_size - len(SPECIALS)]


def tokens_from(data: bytes) -> list[str]:
    """The tokens of a `serialized` vocabulary.

    Raises:
        ValueError: `data` is something else.
    """
    try:
        tokens = json.loads(data)["tokens"]
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError("there is no list of tokens") from error
    if not isinstance(tokens, list) or not all(isinstance(token, str) and token for token in tokens):
        raise ValueError("the tokens are no list of strings")
    if len(set(tokens)) != len(tokens):
        raise ValueError("a token occurs twice")
    return tokens
