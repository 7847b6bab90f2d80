"""Which passages give away a pair of source and target, compared by their runs of three characters.

A passage does if more than half of its runs are the pair's: it is the text that the target comes from, a part of that,
or nearly the same. It does too if more than half of the target's runs are its own; but a short target may stand in a
passage, as the answer to a question does.
"""

from __future__ import annotations

from pellucid.retrieve.terms import folded

LENGTH = 3  # characters of a run
SHARE = 0.5
ANSWER = 32  # runs; a target of fewer may stand in a passage


class Pair:
    """A source and its target, which passages are compared with."""

    def __init__(self, source: str, target: str) -> None:
        self._target = _runs(target)
        self._both = self._target | _runs(source)

    def is_given_away(self, passage: str) -> bool:
        """Whether the passage says what the target says."""
        runs = _runs(passage)
        if len(runs & self._both) > SHARE * len(runs):
            return True
        return len(self._target) >= ANSWER and len(runs & self._target) > SHARE * len(self._target)


def _runs(text: str) -> set[str]:
    """Of a text as it is compared, its white space told as one space each; a shorter text is a run of its own."""
    plain = " ".join(folded(text).split())
    return {plain[i : i + LENGTH] for i in range(max(1, len(plain) - LENGTH + 1))}
