"""The terms of a text: characters and pairs of neighbours where no spaces are written, and words elsewhere.

Texts are compared as NFKC in lower case has them, so that "ＡＢＣ", "ABC" and "abc" are one word. Chinese, Japanese,
Thai, Lao, Burmese and Khmer write no spaces: each of their characters is a term, and each two that stand side by side.
A word is of letters and digits, and of the marks upon them, such as the vowels of Hindi. A term is a number of 48 bits:
the code points themselves, which no two terms share, or the hash of a word, which two words share once in 10^14.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
import unicodedata
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_CODE_POINT = 21  # bits
_WORD = 1 << 47  # set in those of words
_LONGEST = 64  # characters of a word whose hash is kept: longer ones, which whoever asks makes up, take much memory
_UNSPACED = (
    (0x3005, 0x3007), (0x3040, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF),
    (0xE01, 0xE3A), (0xE40, 0xE4E), (0xE81, 0xEBD), (0xEC0, 0xECE), (0xEDC, 0xEDF), (0x1000, 0x103F), (0x1050, 0x108F),
    (0x1780, 0x17D3))
_NOT = {0x3006, 0x3040, 0x3097, 0x3098, 0x3099, 0x309A, 0x309B, 0x309C, 0x30A0, 0x30FB}  # signs among them
_CLASS = "".join(f"{chr(first)}-{chr(last)}" for first, last in _UNSPACED)
_MARKED = (  # where marks stand among the letters of other scripts, behind the last one
    (0x300, 0xE00), (0xF00, 0x1000), (0x1700, 0x1780), (0x1800, 0x1E00), (0xA66F, 0xAC00), (0x10A00, 0x12000))


def folded(text: str) -> str:
    """The text as it is compared."""
    return unicodedata.normalize("NFKC", text).lower()


def terms_of(texts: Sequence[str]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Every term of every text as often as it stands there, and the number of the text that it stands in."""
    plain = [folded(text) for text in texts]
    ends = np.cumsum([len(text) + 1 for text in plain])
    code = np.frombuffer("\n".join([*plain, ""]).encode("utf-32-le", "replace"), np.uint32).astype(np.uint64)
    is_unspaced = _unspaced()[code]
    first = np.flatnonzero(is_unspaced)
    pair = np.flatnonzero(is_unspaced[:-1] & is_unspaced[1:])
    words = [(_kept(word) if len(word) <= _LONGEST else _hash(word), number)
             for number, text in enumerate(plain) for word in _words().findall(text)]
    found = np.array(words, np.uint64).reshape(-1, 2)
    terms = np.concatenate([code[first], code[pair] << np.uint64(_CODE_POINT) | code[pair + 1], found[:, 0]])
    places = np.searchsorted(ends, np.concatenate([first, pair]), side="right")
    return terms, np.concatenate([places, found[:, 1].astype(np.int64)])


def distinct_terms(text: str) -> NDArray[np.uint64]:
    """The terms of one text, each once, in ascending order."""
    return np.unique(terms_of([text])[0])


def marks(question: str, text: str) -> list[tuple[int, int]]:
    """Where in `text` words or characters of the question stand: start and end in characters, in order, apart.

    Where no spaces are written, characters count where a pair of them is in the question, or one stands alone in it.
    """
    asked = folded(question).replace("ς", "σ")  # which letter ends a word, pieces do not know
    asked = asked.translate(dict.fromkeys(_NOT, " "))
    wanted = set(_words().findall(asked)) | set(re.findall(rf"(?=([{_CLASS}]{{2}}))", asked))
    wanted |= set(re.findall(rf"(?<![{_CLASS}])[{_CLASS}](?![{_CLASS}])", asked))
    plain, origin = _aligned(text)
    is_marked = bytearray(len(text))
    for word in _words().finditer(plain):
        if word[0] in wanted:
            _mark(is_marked, origin[word.start()][0], origin[word.end() - 1][1])
    for i in np.flatnonzero(_unspaced()[[ord(letter) for letter in plain]]).tolist() if plain else ():
        for piece in (plain[i], plain[i : i + 2]):
            if piece in wanted:
                _mark(is_marked, origin[i][0], origin[i + len(piece) - 1][1])
    return [found.span() for found in re.finditer(rb"\x01+", bytes(is_marked))]


def uncut(text: str, start: int, end: int) -> tuple[int, int]:
    """The least stretch around [start, end) that cuts no word of a script with spaces, and nothing that is read as one
    character: marks and tones of skin with what they are on, and what is joined by U+200D."""
    for word in _words().finditer(text):
        start = word.start() if word.start() < start < word.end() else start
        end = word.end() if word.start() < end < word.end() else end
    while 0 < start < len(text) and _is_one(text[start - 1], text[start]):
        start -= 1
    while 0 < end < len(text) and _is_one(text[end - 1], text[end]):
        end += 1
    return start, end


def _is_one(letter: str, behind: str) -> bool:
    return (unicodedata.category(behind)[0] == "M" or "\u200d" in (letter, behind)
            or "\U0001f3fb" <= behind <= "\U0001f3ff")


def _mark(is_marked: bytearray, start: int, end: int) -> None:
    is_marked[start:end] = b"\x01" * (end - start)


def _aligned(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text as it is compared, and for each character of that where what it came from starts and ends."""
    starts = [i for i, letter in enumerate(text) if i == 0 or not _joins(letter)]
    letters, origin = list[str](), list[tuple[int, int]]()
    for start, end in itertools.pairwise([*starts, len(text)]):
        made = folded(text[start:end]).replace("ς", "σ")
        letters.append(made)
        origin += [(start, end)] * len(made)
    return "".join(letters), origin


def _joins(letter: str) -> bool:
    """Whether NFKC may make one character of it and of what stands before it: marks, vowels and final consonants of
    Hangul, the voicing of half-width kana."""
    return bool(unicodedata.combining(unicodedata.normalize("NFKC", letter)[0])) or "\u1160" <= letter <= "\u11ff"


@functools.cache
def _words() -> re.Pattern[str]:
    """A word of a script that is written with spaces."""
    marks = "".join(letter for first, behind in _MARKED for letter in map(chr, range(first, behind))
                    if unicodedata.category(letter).startswith("M"))
    return re.compile(rf"[^\W_{_CLASS}]+(?:[{marks}]+[^\W_{_CLASS}]*)*")


@functools.cache
def _unspaced() -> NDArray[np.bool_]:
    """For each code point whether it is written without spaces."""
    table = np.zeros(0x110000, np.bool_)
    for first, last in _UNSPACED:
        table[first : last + 1] = True
    table[list(_NOT)] = False
    return table


def _hash(word: str) -> int:
    digest = hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little") & (_WORD - 1) | _WORD


_kept = functools.lru_cache(maxsize=2**18)(_hash)
