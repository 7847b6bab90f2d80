"""How an output must begin: the tokens that may come next, where there is more than one way to say it.

A text that is given can be made of different tokens, the last of which may go on where the text ends: "dorm" is "dor"
and "m", or the beginning of "dormira". So a beginning is an automaton over tokens, and a search walks through it. One
that goes on to the end, whose ways out are `eos`, holds the whole output (substrings.py). Imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Choice:
    """What may come next.

    Args:
        ways: the tokens after which more is asked for, and the number of the choice then.
        ends: those after which all is free; `eos` says that the output may end here.
    """

    ways: Mapping[int, int]
    ends: Ids = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def tokens(self) -> Ids:
        """All of them."""
        return np.concatenate([np.fromiter(self.ways, dtype=np.int64, count=len(self.ways)), self.ends])


@dataclass(frozen=True)
class Beginning:
    """What the hypotheses of a sentence begin with.

    Args:
        choices: the first comes first; their ways lead to later ones.
    """

    choices: tuple[Choice, ...] = ()

    def walk(self, tokens: Sequence[int]) -> tuple[int, Choice | None]:
        """How many of the tokens belong to the beginning, and the choice after them; None behind its end."""
        number: int | None = 0
        for length, token in enumerate(tokens):
            if number is None or number == len(self.choices):
                return length, None
            number = self.choices[number].ways.get(token)
        return len(tokens), None if number is None or number == len(self.choices) else self.choices[number]

    def tokens(self) -> Iterator[Ids]:
        """The tokens of every choice."""
        return (choice.tokens for choice in self.choices)


def of_tokens(tokens: Sequence[int]) -> Beginning:
    """These tokens and no others."""
    return Beginning(tuple(Choice({token: number}) for number, token in enumerate(tokens, start=1)))
