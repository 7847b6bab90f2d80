"""A made-up language and its translation, word for word, so that what belongs together is known."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

Lines = tuple[list[str], list[str]]
FIRST, SECOND = "bdfgklmnprst", "aeiou"


def word(number: int, extra: str = "") -> str:
    """A word of two syllables for each number below 3,600."""
    a, b = divmod(number, 60)
    return f"{FIRST[a % 12]}{SECOND[a // 12]}{FIRST[b % 12]}{SECOND[b // 12]}{extra}"


def translated(line: str) -> str:
    """The same words in the other language, which has other letters, last word first."""
    return " ".join(w.translate(str.maketrans("bdfgklmnprstaeiou", "wvzjxchqyöäüæøåßœ")) for w in line.split()[::-1])


@pytest.fixture(scope="session")
def made_up() -> Callable[[int, int], Lines]:
    """A function: so many pairs of lines, of 6 to 12 words out of 120, drawn with a seed."""

    def make(count: int, seed: int) -> Lines:
        draw = Random(seed)
        source = [" ".join(word(draw.randrange(120) * 29) for _ in range(draw.randint(6, 12))) for _ in range(count)]
        return source, [translated(line) for line in source]

    return make


@pytest.fixture(scope="session")
def translate() -> Callable[[str], str]:
    """`translated`: what a line of the made-up language is in the other one."""
    return translated
