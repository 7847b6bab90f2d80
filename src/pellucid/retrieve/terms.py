"""The terms of a text: Han characters and pairs of neighbours, and words elsewhere.

Texts are compared as NFKC in lower case has them, so that "ＡＢＣ", "ABC" and "abc" are one word. Chinese and Japanese
write no spaces: each of their characters is a term, and each two that stand side by side. A term is a number of 48
bits: the code points themselves, which no two terms share, or the hash of a word, which two words share once in 10^14.
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

BITS = 48  # of a term
_CODE_POINT = 21  # bits
_WORD = 1 << 47  # set in those of words
_HAN = ((0x3005, 0x3007), (0x3040, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF))
_NOT = {0x3006, 0x3040, 0x3097, 0x3098, 0x3099, 0x309A, 0x309B, 0x309C, 0x30A0, 0x30FB}  # signs among them
_CLASS = "".join(f"{chr(first)}-{chr(last)}" for first, last in _HAN)
_WORDS = re.compile(rf"[^\W_{_CLASS}]+")


def folded(text: str) -> str:
    """The text as it is compared."""
    return unicodedata.normalize("NFKC", text).lower()


def terms_of(texts: Sequence[str]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Every term of every text as often as it stands there, and the number of the text that it stands in."""
    plain = [folded(text) for text in texts]
    ends = np.cumsum([len(text) + 1 for text in plain])
    code = np.frombuffer("\n".join([*plain, ""]).encode("utf-32-le", "replace"), np.uint32).astype(np.uint64)
    is_han = _han()[code]
    first = np.flatnonzero(is_han)
    pair = np.flatnonzero(is_han[:-1] & is_han[1:])
    words = [(_hashed(word), number) for number, text in enumerate(plain) for word in _WORDS.findall(text)]
    found = np.array(words, np.uint64).reshape(-1, 2)
    terms = np.concatenate([code[first], code[pair] << np.uint64(_CODE_POINT) | code[pair + 1], found[:, 0]])
    places = np.searchsorted(ends, np.concatenate([first, pair]), side="right")
    return terms, np.concatenate([places, found[:, 1].astype(np.int64)])


def distinct_terms(text: str) -> NDArray[np.uint64]:
    """The terms of one text, each once, in ascending order."""
    return np.unique(terms_of([text])[0])


def marks(question: str, text: str) -> list[tuple[int, int]]:
    """Where in `text` words or characters of the question stand: start and end in characters, in order, apart.

    Characters of Chinese or Japanese count where a pair of them is in the question, or where one stands alone in it.
    """
    asked = folded(question)
    wanted = set(_WORDS.findall(asked)) | set(re.findall(rf"(?=([{_CLASS}]{{2}}))", asked))
    wanted |= set(re.findall(rf"(?<![{_CLASS}])[{_CLASS}](?![{_CLASS}])", asked))
    plain, origin = _aligned(text)
    is_marked = bytearray(len(text))
    for word in _WORDS.finditer(plain):
        if word[0] in wanted:
            _mark(is_marked, origin[word.start()][0], origin[word.end() - 1][1])
    for i in np.flatnonzero(_han()[[ord(letter) for letter in plain]]).tolist() if plain else ():
        for j in (i + 1, i + 2):
            if plain[i:j] in wanted and _is_han(plain[j - 1 : j]):
                _mark(is_marked, origin[i][0], origin[j - 1][1])
    return [found.span() for found in re.finditer(rb"\x01+", bytes(is_marked))]


def _mark(is_marked: bytearray, start: int, end: int) -> None:
    is_marked[start:end] = b"\x01" * (end - start)


def _is_han(letter: str) -> bool:
    return bool(letter) and bool(_han()[ord(letter)])


def _aligned(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text as it is compared, and for each character of that where what it came from starts and ends."""
    starts = [i for i, letter in enumerate(text) if i == 0 or not unicodedata.combining(letter)]
    letters, origin = list[str](), list[tuple[int, int]]()
    for start, end in itertools.pairwise([*starts, len(text)]):
        made = folded(text[start:end])
        letters.append(made)
        origin += [(start, end)] * len(made)
    return "".join(letters), origin


@functools.cache
def _han() -> NDArray[np.bool_]:
    """For each code point whether it is written without spaces."""
    table = np.zeros(0x110000, np.bool_)
    for first, last in _HAN:
        table[first : last + 1] = True
    table[list(_NOT)] = False
    return table


@functools.lru_cache(maxsize=2**18)
def _hashed(word: str) -> int:
    digest = hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little") & (_WORD - 1) | _WORD
