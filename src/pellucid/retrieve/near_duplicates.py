"""Which passages say what a text says: they share most of their runs of three characters with it.

.. math:: |A \\cap B| / \\min(|A|, |B|)

A and B are the sets of these runs, so that a part of the text counts as much as a longer text that holds it.
"""

from __future__ import annotations

from pellucid.retrieve.terms import folded

LENGTH = 3  # characters
SHARE = 0.5  # above which two texts are near-duplicates


class Known:
    """A text that others are compared with."""

    def __init__(self, text: str) -> None:
        self._runs = _runs(text)

    def is_near(self, text: str) -> bool:
        """Whether the two share more than half of the runs of the one that has fewer."""
        runs = _runs(text)
        return len(self._runs & runs) > SHARE * min(len(self._runs), len(runs))


def _runs(text: str) -> set[str]:
    """Of a text as it is compared, its white space told as one space each; a shorter text is a run of its own."""
    plain = " ".join(folded(text).split())
    return {plain[i : i + LENGTH] for i in range(max(1, len(plain) - LENGTH + 1))}
