"""What became of lines on their way into the model, told on standard error: of the first few what, of the others how
many. JSON says it of each."""

import contextlib
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from pellucid.data.tokenizers.interface import UNKNOWN
from pellucid.language import shortened, so_many
from pellucid.runs.texts import CutWarning

WHAT = {"cut": "too long for the model", "unknown": "with what the model does not know"}
_LINES, _WORDS, _CHARACTERS = 5, 5, 40  # that are told


class Result(Protocol):
    """What was made of a line; `runs.candidates.Generated` says what these are."""

    @property
    def cut(self) -> int: ...
    @property
    def unknown(self) -> tuple[str, ...]: ...


class Remarks:
    """Counts what is to be said of lines, and says it.

    Args:
        limit: tokens that the model takes.
        beside: what is given beside each line, such as its prefix.
        fix: what to do about lines that are too long.
    """

    def __init__(self, limit: int, beside: str, fix: str) -> None:
        self._limit, self._beside, self._fix = limit, beside, fix
        self._counts = dict.fromkeys(WHAT, 0)

    def note(self, first: int, results: Sequence[Result]) -> None:
        """Says what is to be said of the results of a block whose first line has this number, counted from 0."""
        for number, result in enumerate(results, start=first + 1):
            if result.cut:
                self._say("cut", f"line {number:,} loses {so_many(result.cut, 'token')}: it is longer than the "
                                 f"{self._limit:,} tokens that the model takes (model.max_length){self._fix}")
            unknown_beside: tuple[str, ...] = vars(result).get("unknown_target", ())
            for place, parts in ((f"line {number:,}", result.unknown),
                                 (f"the {self._beside} of line {number:,}", unknown_beside)):
                if parts:
                    self._say("unknown", _unknown(place, parts))

    def end(self) -> None:
        """Says of how many lines nothing has been said."""
        for kind, count in self._counts.items():
            if count > _LINES:
                _tell(f"and {count - _LINES:,} more {WHAT[kind]} (--json marks them)")

    def _say(self, kind: str, message: str) -> None:
        self._counts[kind] += 1
        if self._counts[kind] <= _LINES:
            _tell(message)


@contextlib.contextmanager
def remarks(limit: int, beside: str = "", fix: str = "") -> Iterator[Remarks]:
    """`Remarks` that end with the block, and stand in for the warnings of the lines' own."""
    made = Remarks(limit, beside, fix)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CutWarning)
        yield made
    made.end()


def marks(result: Result) -> dict[str, Any]:
    """The same for JSON: `cut`, `unknown` and `unknown_target`, as far as there is something to mark."""
    return {key: vars(result)[key] for key in ("cut", "unknown", "unknown_target") if vars(result).get(key)}


def tell_unknown(place: str, parts: Sequence[str]) -> None:
    """Says which parts of a text the model does not know, if there are some."""
    if parts:
        _tell(_unknown(place, parts))


def _unknown(place: str, parts: Sequence[str]) -> str:
    return f"in {place} the model does not know {_listed(parts)}, and reads {UNKNOWN} instead"


def _tell(message: str) -> None:
    sys.stdout.flush()
    print(f"pellucid: {message}", file=sys.stderr, flush=True)


def _listed(words: Sequence[str]) -> str:
    different = list(dict.fromkeys(words))
    shown = [word if word.isprintable() and len(word) <= _CHARACTERS else repr(shortened(word, _CHARACTERS))
             for word in different[:_WORDS]]
    return ", ".join(shown) + (f" and {len(different) - _WORDS:,} more" if len(different) > _WORDS else "")
