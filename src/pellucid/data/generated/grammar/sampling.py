"""Training, validation and test sentences, with word pairs that training never sees together."""

import hashlib
from dataclasses import dataclass
from itertools import combinations
from random import Random
from typing import final

from pellucid.data.generated.grammar.lexicon import ADJECTIVES, NAMES, NOUNS, VERBS
from pellucid.data.generated.grammar.sentences import sentence

Sentences = list[tuple[str, str]]
_HELD_OUT = 24  # one pair of content words in so many is kept for the test


@final
@dataclass(frozen=True, slots=True)
class Splits:
    """Pairs of (English, French), all different on both sides across the three lists.

    `test_novel[i]` says that test sentence i joins two content words which no training sentence holds together.
    """

    train: Sentences
    validation: Sentences
    test: Sentences
    test_novel: list[bool]


def held_out() -> frozenset[tuple[str, str]]:
    """The pairs of content words that training never holds together, in both orders: one in 24, chosen by hash."""
    words = sorted({*NOUNS, *ADJECTIVES, *VERBS, *(name.english for name in NAMES)})
    chosen = set()
    for pair in combinations(words, 2):
        if hashlib.md5(" ".join(pair).encode(), usedforsecurity=False).digest()[0] % _HELD_OUT == 0:
            chosen |= {pair, pair[::-1]}
    return frozenset(chosen)


def splits(train: int = 60_000, validation: int = 1_000, test: int = 1_500, seed: int = 1) -> Splits:
    """Sample the grammar: the same numbers and seed always give the same sentences.

    A third of the test is novel. Validation, the rest of the test and training know no held-out pair.
    ValueError when the grammar has too few sentences for the sizes asked for.
    """
    random, apart = Random(seed), held_out()
    novel: Sentences = []
    known: Sentences = []
    n_novel, n_known = test // 3, train + validation + test - test // 3
    english_seen: set[str] = set()
    french_seen: set[str] = set()
    for _ in range(10_000 + 20 * (n_novel + n_known)):
        if len(known) == n_known and len(novel) == n_novel:
            break
        pair = sentence(random)
        if pair.english in english_seen or pair.french in french_seen:
            continue
        if any(words in apart for words in pair.relations):
            chosen, enough = novel, n_novel
        elif any(words in apart for words in combinations(pair.words, 2)):
            continue  # the two words stand in one sentence without being joined: neither new nor known
        else:
            chosen, enough = known, n_known
        if len(chosen) < enough:
            chosen.append((pair.english, pair.french))
            english_seen.add(pair.english)
            french_seen.add(pair.french)
    else:
        raise ValueError(f"the grammar has no {train + validation + test:,} different sentences: ask for fewer")
    tested = [(pair, True) for pair in novel] + [(pair, False) for pair in known[: test - test // 3]]
    random.shuffle(tested)
    rest = known[test - test // 3 :]
    return Splits(train=rest[validation:], validation=rest[:validation], test=[pair for pair, _ in tested],
                  test_novel=[is_novel for _, is_novel in tested])
