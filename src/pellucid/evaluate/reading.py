"""Exact match and F1 of answers: SQuAD's for texts with spaces, CMRC 2018's for Chinese; the best of all references.

SQuAD (Rajpurkar et al. 2016): lower case, without ASCII punctuation, articles and surplus spaces; F1 of bags of words.
CMRC 2018 (Cui et al. 2019): lower case, without marks of a list of its own; F1 over the longest run of units that both
have in common, a unit being a Han character, a mark, or a word of what stands between.
"""

import re
import string
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Literal

import numpy as np

from pellucid.data.reading import Question
from pellucid.evaluate.significance import SentenceStatistics, mean_percentage, share_interval, with_sources

Definition = Literal["squad", "cmrc2018"]
OF_READERS = ("em", "f1")
OPEN = ("open_em", "open_f1")  # with passages of an index
_MARKS = frozenset("-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_HAN = re.compile(r"[\u4e00-\u9fa5]")
_WORD = re.compile(r"\w+|[^\w\s]")
_CHINESE = ("zh", "zho", "chi", "cmn", "lzh", "yue")


def definition_of(language: str | None, answers: Sequence[str]) -> Definition:
    """CMRC's for Chinese, by the tag of the language or, without one, where most words of the answers are Han
    characters."""
    if language is not None:
        return "cmrc2018" if language.split("-")[0].lower() in _CHINESE else "squad"
    words = [word for answer in answers for word in units(answer) if word.isalpha()]
    return "cmrc2018" if 2 * sum(map(bool, map(_HAN.match, words))) > len(words) else "squad"


def reading_statistics(answers: Sequence[str], references: Sequence[Sequence[str]], definition: Definition,
                       passages: Sequence[Hashable]) -> dict[str, SentenceStatistics]:
    """Statistics of `em` and `f1`, in percent; questions of one passage are drawn together.

    Args:
        answers: n of them, "" where none was given.
        references: of each what is right; nothing where the passage does not tell, and "" is right.

    Raises:
        ValueError: not as many of one as of the other, or none.
    """
    if not len(answers) == len(references) == len(passages):
        raise ValueError(f"{len(answers)} answers, {len(references)} references and {len(passages)} passages")
    em, f1 = (np.array([[max(score(answer, one, definition) for one in right or ("",)), 1.0]
                        for answer, right in zip(answers, references, strict=True)]).reshape(-1, 2)
              for score in (exact_match, f1_score))
    both = {"em": SentenceStatistics("em", em, mean_percentage, share_interval),
            "f1": SentenceStatistics("f1", f1, mean_percentage)}
    return {name: with_sources(metric, passages) for name, metric in both.items()}


def answer_statistics(answers: Sequence[str], asked: Sequence[Question], passages: Sequence[Hashable],
                      language: str | None) -> tuple[dict[str, SentenceStatistics], Definition]:
    """`reading_statistics` of the answers to questions, and the definition, which follows from the language."""
    references = [[answer.text for answer in question.answers] for question in asked]
    definition = definition_of(language, [text for texts in references for text in texts])
    return reading_statistics(answers, references, definition, passages), definition


def exact_match(answer: str, reference: str, definition: Definition) -> float:
    """1 where both are the same once tidied, else 0."""
    tidy = _tidy_squad if definition == "squad" else _tidy_cmrc
    return float(tidy(answer) == tidy(reference))


def f1_score(answer: str, reference: str, definition: Definition) -> float:
    """2·precision·recall / (precision + recall), from 0 to 1; of empty texts 1 if both are."""
    if definition == "squad":
        ours, theirs = _tidy_squad(answer).split(), _tidy_squad(reference).split()
        common = sum((Counter(ours) & Counter(theirs)).values())
    else:
        ours, theirs = units(answer), units(reference)
        common = longest_run(ours, theirs)
    if not ours or not theirs:
        return float(ours == theirs)
    return 2.0 * common / (len(ours) + len(theirs))


def units(text: str) -> list[str]:
    """What CMRC counts: Han characters, and the words and marks of what stands between, without its list of marks."""
    found, between = list[str](), ""
    for character in text.lower().strip():
        if character in _MARKS:
            continue
        if _HAN.match(character):
            found += [*_WORD.findall(between), character]
            between = ""
        else:
            between += character
    return found + _WORD.findall(between)


def longest_run(a: Sequence[str], b: Sequence[str]) -> int:
    """The length of the longest run of neighbours that both have."""
    longest, before = 0, [0] * (len(b) + 1)
    for one in a:
        now = [0, *(before[j] + 1 if one == other else 0 for j, other in enumerate(b))]
        longest, before = max(longest, *now), now
    return longest


def _tidy_squad(text: str) -> str:
    text = text.lower().translate({ord(mark): None for mark in string.punctuation})
    return " ".join(_ARTICLES.sub(" ", text).split())


def _tidy_cmrc(text: str) -> str:
    return "".join(character for character in text.lower().strip() if character not in _MARKS)
