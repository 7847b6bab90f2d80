"""METEOR and the Porter stemmer equal nltk's; cases by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.stem.porter import PorterStemmer
from nltk.translate.meteor_score import align_words, meteor_score

from pellucid.evaluate.meteor import align, is_english, meteor_statistics, sentence_meteor, signature
from pellucid.evaluate.porter import porter_stem
from pellucid.evaluate.significance import corpus_score

STEMMER = PorterStemmer(PorterStemmer.ORIGINAL_ALGORITHM)
ENDINGS = """s es ies ss sses ed eed ing y ational tional enci anci izer abli alli entli eli ousli ization ation ator
    alism iveness fulness ousness aliti iviti biliti icate ative alize iciti ical ful ness al ance ence er ic able ible
    ant ement ment ent ion sion tion ou ism ate iti ous ive ize e ll""".split()
PAIRS = [
    (
        "It is a guide to action which ensures that the military always obeys the commands of the party",
        "It is a guide to action that ensures that the military will forever heed Party commands",
    ),
    ("Two men are playing guitars on the street .", "Two man plays a guitar in the streets ."),
    ("A woman walked her dogs through a snowy park", "The woman is walking the dog in a park of snow"),
    ("the the the cat sat the", "the cat the sat"),
    ("ponies caresses hopping", "pony caress hop hope"),
    ("Eine Frau geht mit ihrem Hund spazieren", "Eine Frau ging mit dem Hund im Park spazieren"),
]
# Few words with many shared stems, so that repeats, stem matches and crossings abound.
WORDS = "run runs running Run the The connect connected connection cat cats . a as i is hope hop hopping".split()
SENTENCES = st.lists(st.sampled_from(WORDS), max_size=14)


class NoSynonyms:
    """Stands in for WordNet, which nltk would want downloaded."""

    def synsets(self, word: str) -> list[object]:
        del word
        return []


def meteor(hypothesis: list[str], reference: list[str]) -> float:
    """Ours, of words in lower case, which nltk makes itself."""
    return sentence_meteor(lower(hypothesis), lower(reference), stems=True)


def lower(words: list[str]) -> list[str]:
    return [word.lower() for word in words]


def nltk_meteor(hypothesis: list[str], reference: list[str]) -> float:
    return float(meteor_score([reference], hypothesis, stemmer=STEMMER, wordnet=NoSynonyms()))


@pytest.mark.parametrize(("hypothesis", "reference"), PAIRS)
def test_real_sentences_score_as_in_nltk(hypothesis: str, reference: str) -> None:
    words, others = hypothesis.split(), reference.split()
    assert meteor(words, others) == pytest.approx(nltk_meteor(words, others), abs=1e-12)
    assert meteor(others, words) == pytest.approx(nltk_meteor(others, words), abs=1e-12)


@given(SENTENCES, SENTENCES)
@settings(max_examples=400, deadline=None)
def test_random_sentences_are_aligned_and_scored_as_in_nltk(hypothesis: list[str], reference: list[str]) -> None:
    words, others = lower(hypothesis), lower(reference)
    assert align(words, others, stems=True) == align_words(words, others, STEMMER, NoSynonyms())[0]
    assert meteor(hypothesis, reference) == pytest.approx(nltk_meteor(hypothesis, reference), abs=1e-12)


def test_by_hand() -> None:
    # 3 matches of 4 and 3 words in 2 chunks: P = 3/4, R = 1, F = 0.75 / (0.675 + 0.1), penalty 0.5·(2/3)³.
    expected = 0.75 / 0.775 * (1 - 0.5 * (2 / 3) ** 3)
    assert meteor("the cat big sat".split(), "the cats sat".split()) == pytest.approx(expected)


def test_without_stems_words_match_exactly_alone() -> None:
    assert align(["cats", "sat"], ["cat", "sat"], stems=True) == [(0, 0), (1, 1)]
    assert align(["cats", "sat"], ["cat", "sat"], stems=False) == [(1, 1)]


def test_letter_case_counts_in_stems_as_in_words() -> None:
    assert align(["Cats"], ["cat"], stems=True) == align(["cat"], ["Cat"], stems=True) == []
    assert align(["Cats"], ["Cat"], stems=True) == align(["CATS"], ["CAT"], stems=True) == [(0, 0)]
    assert align(["HAPPY"], ["Happy"], stems=True) == []


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("A man with a hat sits on the bench and reads .", True),
        ("He was in his garden", True),
        ("Ein Mann mit Hut sitzt auf der Bank und liest in der Zeitung", False),
        ("Een man is in de tuin of op straat en leest", False),
        ("Un homme est assis sur un banc , on a un chapeau", False),
        ("Uma mulher a caminho de casa", False),
        ("1 2 3", False),
        ("", False),
    ],
)
def test_english_is_told_by_its_function_words(sentence: str, expected: bool) -> None:
    assert is_english([sentence.split()]) is expected


def test_the_signature_says_stems_and_case() -> None:
    assert signature(stems=True, lowercase=True).startswith("METEOR(exact+stem)|nrefs:1|case:lc|")
    assert signature(stems=False, lowercase=False).startswith("METEOR(exact)|nrefs:1|case:mixed|")
    assert signature(stems=False, lowercase=False).endswith("|stem:no")


@pytest.mark.parametrize("n", [1, 2, 10])
def test_equal_sentences_keep_the_penalty_of_one_chunk(n: int) -> None:
    words = [f"w{i}x" for i in range(n)]
    assert sentence_meteor(words, words, stems=True) == pytest.approx(1 - 0.5 / n**3)


@pytest.mark.parametrize(("hypothesis", "reference"), [([], []), ([], ["a"]), (["a"], []), (["x"], ["q"])])
def test_no_match_scores_zero(hypothesis: list[str], reference: list[str]) -> None:
    assert sentence_meteor(hypothesis, reference, stems=True) == 0.0


@given(SENTENCES, SENTENCES)
@settings(max_examples=100, deadline=None)
def test_words_are_aligned_at_most_once_and_the_score_is_a_share(hypothesis: list[str], reference: list[str]) -> None:
    matches = align(hypothesis, reference, stems=True)
    assert len({i for i, _ in matches}) == len({j for _, j in matches}) == len(matches)
    assert 0 <= sentence_meteor(hypothesis, reference, stems=True) < 1


def test_the_corpus_score_is_the_mean_in_percent() -> None:
    hypotheses, references = [a.split() for a, _ in PAIRS], [b.split() for _, b in PAIRS]
    mean = sum(sentence_meteor(a, b, True) for a, b in zip(hypotheses, references, strict=True)) / len(PAIRS)
    assert corpus_score(meteor_statistics("meteor", hypotheses, references, stems=True)) == pytest.approx(100 * mean)


def test_counts_must_agree_and_not_be_zero() -> None:
    with pytest.raises(ValueError, match="1 hypotheses but 0 references"):
        meteor_statistics("meteor", [["a"]], [], stems=True)
    with pytest.raises(ValueError, match="at least one sentence"):
        meteor_statistics("meteor", [], [], stems=True)


@pytest.mark.parametrize(
    ("word", "stem"),
    [
        ("caresses", "caress"), ("ponies", "poni"), ("cats", "cat"), ("feed", "feed"), ("agreed", "agre"),
        ("plastered", "plaster"), ("bled", "bled"), ("sing", "sing"), ("conflated", "conflat"), ("hopping", "hop"),
        ("falling", "fall"), ("filing", "file"), ("happy", "happi"), ("sky", "sky"), ("relational", "relat"),
        ("rational", "ration"), ("vietnamization", "vietnam"), ("electrical", "electr"), ("hopefulness", "hope"),
        ("replacement", "replac"), ("adoption", "adopt"), ("onion", "onion"), ("rate", "rate"), ("cease", "ceas"),
        ("controll", "control"), ("roll", "roll"), ("Generalizations", "gener"), ("", ""), ("s", ""), ("is", "i"),
    ],
)
def test_stems_of_porters_examples(word: str, stem: str) -> None:
    assert porter_stem(word) == stem == STEMMER.stem(word)


@given(st.text("aeiouylstbzdgnmrwx", max_size=7), st.lists(st.sampled_from(ENDINGS), max_size=3))
@settings(max_examples=1500, deadline=None)
def test_random_words_stem_as_in_nltk(start: str, endings: list[str]) -> None:
    word = start + "".join(endings)
    assert porter_stem(word) == STEMMER.stem(word)


@given(st.text(max_size=8), st.sampled_from(ENDINGS))
@settings(max_examples=300, deadline=None)
def test_any_text_stems_as_in_nltk(start: str, ending: str) -> None:
    word = start.replace("*", "") + ending  # nltk spells its rule for double consonants "*d": that text would match it
    assert porter_stem(word) == STEMMER.stem(word)


def test_a_very_long_word_takes_no_time() -> None:
    assert porter_stem("y" * 100_000 + "ing")
    assert porter_stem("ab" * 50_000 + "ational")
