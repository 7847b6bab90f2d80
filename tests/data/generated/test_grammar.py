"""What the bundled grammar promises of its sentences and its splits."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from itertools import combinations
from random import Random

import pytest

from pellucid.data.generated.grammar import Pair, sentence, splits
from pellucid.data.generated.grammar.lexicon import ADJECTIVES, NOUNS, VERBS
from pellucid.data.generated.grammar.sampling import Splits, held_out
from pellucid.data.generated.grammar.sentences import MAX_TOKENS


@cache
def standard() -> Splits:
    return splits()


@cache
def sample() -> tuple[Pair, ...]:
    """50,000 sentences as they are drawn, repeats and held-out pairs included."""
    random = Random(20)
    return tuple(sentence(random) for _ in range(50_000))


def test_english_has_one_french() -> None:
    translations: dict[str, str] = {}
    for pair in sample():
        assert translations.setdefault(pair.english, pair.french) == pair.french
    both = standard()
    for one, other in both.train + both.validation + both.test:
        assert translations.setdefault(one, other) == other
    assert len(translations) > 90_000


def test_vocabulary_is_large_and_every_word_is_common() -> None:
    for side in (0, 1):
        train = Counter(word for pair in standard().train for word in pair[side].split())
        assert 300 <= len(train) <= 600
        assert min(train.values()) >= 30
        for pairs in (standard().validation, standard().test):
            assert {word for pair in pairs for word in pair[side].split()} <= set(train)


def test_lengths() -> None:
    for side in (0, 1):
        lengths = [len(pair[side].split()) for pair in standard().train]
        assert 6 <= sum(lengths) / len(lengths) <= 10
        assert max(lengths) <= MAX_TOKENS


def test_splits_are_disjoint_on_both_sides() -> None:
    parts = standard()
    everything = parts.train + parts.validation + parts.test
    assert (len(parts.train), len(parts.validation), len(parts.test)) == (60_000, 1_000, 1_500)
    assert len({one for one, _ in everything}) == len({other for _, other in everything}) == len(everything)


def test_novel_sentences_join_words_that_training_never_holds_together() -> None:
    forms: dict[str, str] = {}  # every content word form of the English side, from the lexicon alone
    for noun in NOUNS.values():
        forms |= {noun.english: noun.english, noun.english_plural: noun.english}
    for verb in VERBS.values():
        forms |= dict.fromkeys((verb.english, verb.third, verb.past), verb.english)
    for adjective in ADJECTIVES.values():
        forms |= dict.fromkeys((adjective.english, adjective.comparative), adjective.english)
    random = Random(1)
    derived: dict[str, Pair] = {}
    parts = standard()
    novel = {pair[0] for pair, is_novel in zip(parts.test, parts.test_novel, strict=True) if is_novel}
    assert len(novel) == 500
    train = {one for one, _ in parts.train}
    met: set[tuple[str, str]] = set()
    while len(derived) < len(train) + len(novel):  # the same draws as splits(): each comes with its derivation
        pair = sentence(random)
        if pair.english in train or pair.english in novel:
            derived[pair.english] = pair
            if pair.english in train:
                met.update(both_orders(pair.words))
    apart = held_out()
    assert not met & apart
    for text in novel:
        assert any(relation in apart and relation not in met for relation in derived[text].relations)
    words = Counter(forms[word] for one, _ in parts.train for word in one.split() if word in forms)
    assert all(words[word] >= 100 for text in novel for word in derived[text].words if word in NOUNS)


def both_orders(words: tuple[str, ...]) -> set[tuple[str, str]]:
    """Every pair of the words, in both orders."""
    return {order for pair in combinations(words, 2) for order in (pair, pair[::-1])}


def test_same_seed_same_sentences() -> None:
    assert splits(3_000, 100, 150, seed=4) == splits(3_000, 100, 150, seed=4)
    assert splits(3_000, 100, 150, seed=4) != splits(3_000, 100, 150, seed=5)


def test_too_large_a_request_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    only = Pair("i sing .", "je chante .", ("sing",), ())
    monkeypatch.setattr("pellucid.data.generated.grammar.sampling.sentence", lambda random: only)
    with pytest.raises(ValueError, match="ask for fewer"):
        splits(10, 1, 3)


def test_sentences_do_not_depend_on_the_hash_seed() -> None:
    code = "from pellucid.data.generated.grammar import splits; print(splits(200, 20, 30).test)"
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUTF8": "1"},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1


def test_form_of_the_text() -> None:
    vowel = "[aàâeéèêiîoôuyhœ](?!uit )"
    unelided = re.compile(rf"(?<![^ ])(?:le|la|je|de|ne|que|me|te|ma|ta|sa|ce) {vowel}")
    singular = "un|le|du|au|ce|mon|ton|son|notre|leur|chaque"
    unadapted = re.compile(rf"(?<![^ ])(?:{singular}) (?:beau|vieux|nouveau) {vowel}")
    uncontracted = re.compile(r"(?<![^ ])(?:de|à) les? ")
    elided_before_consonant = re.compile(rf"(?<![^ ])(?:[ljdnmt]|qu)' (?!{vowel})")
    for pair in sample():
        for text in (pair.english, pair.french):
            assert re.fullmatch(r"[^ ]+(?: [^ ]+)*", text)
            assert text == text.lower()
            assert text.endswith((" .", " ?"))
        for mistake in (unelided, unadapted, uncontracted, elided_before_consonant):
            assert not mistake.search(pair.french), pair
