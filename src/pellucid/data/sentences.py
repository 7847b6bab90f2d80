"""Where text can be divided: at the ends of sentences, in many scripts, and inside of one that is too long.

The parts of a text, one behind the other, are the text. Rules, not a model: a full stop ends a sentence before a space
and a capital, unless an initial or one of a few abbreviations stands before it; a mark that has no other use, such as
"。" or "।", ends one wherever it stands.
"""

import itertools
import re
from collections.abc import Callable

_CLOSING = r"""["'”’»›)\]}」』）】》〉〕］｝＂＇]*"""
_ALWAYS = "。！？｡।॥؟۔።፧။៕"  # full-width, Devanagari, Arabic and Urdu, Ethiopic, Burmese, Khmer
_END = re.compile(rf"(?:[{_ALWAYS}]|．(?!\d))+{_CLOSING}\s*|(?<![.!?…])(?P<mark>[.!?…]++){_CLOSING}\s+")
_ABBREVIATIONS = frozenset(
    "mr mrs ms dr prof st jr sr vs etc e.g i.e cf no fig vol pp al approx dept gen col capt lt inc ltd co jan feb mar "
    "apr jun jul aug sep sept oct nov dec z.b d.h u.a bzw ca nr str usw vgl m mm mme mlle p.ex av env ss sra srta ud "
    "uds pág art dott sig".split())
_LONGEST = 32  # characters of a word that is looked up there
_CLAUSE = re.compile(r"[,;:，；：、،؛–—]+\s*")
_SPACE = re.compile(r"\s+")


def sentences(text: str) -> list[str]:
    """The sentences of a text, each with the space behind it; at least one, which may be empty."""
    is_lower = text == text.lower()
    ends = [found.end() for found in _END.finditer(text) if found["mark"] is None or _is_end(text, found, is_lower)]
    bounds = [0, *(end for end in ends if end < len(text)), len(text)]
    return [text[begin:end] for begin, end in itertools.pairwise(bounds)]


def _is_end(text: str, found: re.Match[str], is_lower: bool) -> bool:
    """Whether "." and the like end a sentence here; `is_lower`: no capital is to be expected after it."""
    before, after = text[max(0, found.start() - _LONGEST) : found.start()], text[found.end() : found.end() + 1]
    word = before.split()[-1].lstrip("\"'“‘«(¿¡") if before and not before[-1].isspace() else ""
    if found["mark"] == ".":
        is_initial = len(word) == 1 and word.isalpha() and word.isupper()
        if is_initial or word.lower() in _ABBREVIATIONS:
            return False
    elif "!" in found["mark"] or "?" in found["mark"]:
        return True
    return is_lower or not word or not after.islower()


def divide(text: str, fits: Callable[[str], bool]) -> list[str]:
    """The text in parts that fit: sentences, and where one does not fit, halves of it, cut between clauses if it has
    some, else between words, else anywhere."""
    return [part for sentence in sentences(text) for part in _halves(sentence, fits)]


def _halves(text: str, fits: Callable[[str], bool]) -> list[str]:
    if len(text) < 2 or fits(text):
        return [text]
    for pattern in (_CLAUSE, _SPACE):
        cuts = [found.end() for found in pattern.finditer(text) if found.end() < len(text)]
        if cuts:
            break
    else:
        cuts = [len(text) // 2]
    cut = min(cuts, key=lambda place: abs(2 * place - len(text)))
    return [*_halves(text[:cut], fits), *_halves(text[cut:], fits)]
