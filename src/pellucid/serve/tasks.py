"""What waits to be decoded, how it is done, and how those who wait are told."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pellucid.config import DecodeConfig
from pellucid.runs.candidates import Generated
from pellucid.runs.run import Run

PER_TEXT = 16  # characters that a text costs besides its own
_PER_TOKEN = 4  # characters that a token counts for, which is asked for whatever the text is


class Way(NamedTuple):
    """How texts are searched, as far as it decides how long that takes.

    Attributes:
        by_steps: beyond what one call of the fast decoder does.
        width: hypotheses that are kept.
    """

    by_steps: bool
    precision: str
    width: int


Kind = tuple[Run, Way]


@dataclass(frozen=True)
class Ask:
    """What texts are to be decoded with; those of requests that want the same join one batch.

    Attributes:
        run: by identity.
        scores: whether anybody will look at them, as of `Run.generate`.
        has_prefixes: given text begins the outputs.
    """

    run: Run
    options: DecodeConfig
    scores: bool = True
    has_prefixes: bool = False

    @functools.cached_property
    def kind(self) -> Kind:
        """What takes the same time, a character."""
        options = self.options
        by_steps = self.has_prefixes or options.sample or options.no_repeat_ngram > 0
        return self.run, Way(by_steps, options.precision, options.width)


@dataclass(eq=False)
class Task:
    """A request, and what has come of it: texts to decode, or work that is done by itself.

    Attributes:
        taken: how many of its texts are in a batch, or done.
        turn: what one of its texts costs, in the mean.
    """

    done: asyncio.Future[Any]
    ask: Ask | None
    texts: Sequence[str] = ()
    prefixes: Sequence[str] = ()
    work: Callable[[], Any] | None = None
    taken: int = 0
    found: dict[int, Generated] = field(default_factory=dict)
    turn: int = field(init=False)

    def __post_init__(self) -> None:
        self.turn = sum(map(self.cost, range(len(self.texts)))) // max(1, len(self.texts))

    def cost(self, place: int) -> int:
        """Of one text, in characters: its own, or those of the least length that its output is to have."""
        least = 0 if self.ask is None else _PER_TOKEN * self.ask.options.min_length
        return PER_TEXT + max(len(self.texts[place]), least) + (len(self.prefixes[place]) if self.prefixes else 0)


Part = tuple[Task, int]  # a text, by its place in a task
Outcome = tuple[Task, Any, Exception | None]


def outcomes(ask: Ask | None, parts: Sequence[Part]) -> list[Outcome]:
    """What comes of the tasks that these texts complete, or of one that is done by itself. Where a batch fails, each of
    its texts is tried alone."""
    if ask is None:
        task = parts[0][0]
        assert task.work is not None
        work = task.work
        return [(task, *_tried(lambda: _on_one_thread(work)))]
    found, error = _tried(lambda: _generate(ask, parts))
    if error is not None and len(parts) > 1:
        return [outcome for part in parts for outcome in outcomes(ask, [part])]
    if error is not None:
        return [(parts[0][0], None, error)]
    over: list[Outcome] = []
    for (task, place), one in zip(parts, found, strict=True):
        task.found[place] = one
        if len(task.found) == len(task.texts):
            over.append((task, [task.found[number] for number in range(len(task.texts))], None))
    return over


def _generate(ask: Ask, parts: Sequence[Part]) -> list[Generated]:
    texts = [task.texts[place] for task, place in parts]
    prefixes = [task.prefixes[place] for task, place in parts] if ask.has_prefixes else None
    first = parts[0][1] if ask.options.sample else 0
    return ask.run.generate(texts, prefixes=prefixes, options=ask.options, first=first, scores=ask.scores)


def _on_one_thread(work: Callable[[], Any]) -> Any:
    """As the texts of others are decoded beside it: torch's threads would wait for them, and for each other."""
    from pellucid.kernels.calls import use_threads

    use_threads(1)
    return work()


def _tried(work: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """What it gives, or how it fails."""
    try:
        return work(), None
    except Exception as error:
        return None, error


def tell(over: Sequence[Outcome]) -> None:
    """Wakes those who wait, once for all that wait on one loop."""
    for loop in {task.done.get_loop() for task, _, _ in over}:
        with contextlib.suppress(RuntimeError):  # it is closed, and nobody waits any more
            loop.call_soon_threadsafe(settle, [one for one in over if one[0].done.get_loop() is loop])


def settle(over: Sequence[Outcome]) -> None:
    """Wakes them, on their loop; what has come of a task already stays."""
    for task, found, error in over:
        if task.done.done():
            continue
        if error is not None:
            task.done.set_exception(error)
        else:
            task.done.set_result(found)
