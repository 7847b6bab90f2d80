"""What a run tells: metrics.jsonl for machines, one live line or plain lines for people, and the loss curve."""

import functools
import json
import shutil
import sys
import time
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any, Self, TextIO

from pellucid.config import Split
from pellucid.data.shards import lines_of
from pellucid.errors import CheckpointError, right_to_read
from pellucid.files import append_line, write_bytes, write_text
from pellucid.language import columns

_WIPED = "\r\x1b[2K"  # a terminal's line, empty again


class Metrics:
    """metrics.jsonl: one JSON object a line."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, event: dict[str, Any]) -> None:
        """Appends one event."""
        append_line(self.path, json.dumps(event))

    def read(self) -> list[dict[str, Any]]:
        """All events."""
        return read_metrics(self.path)

    def rewind(self, step: int, belongs: Callable[[dict[str, Any]], bool] = lambda event: True) -> None:
        """Forgets what came after `step`, which a resumed run will do again, what does not belong to it, and a line cut
        short by a crash."""
        if self.path.exists():
            kept = [event for event in self.read() if event["step"] <= step and belongs(event)]
            write_text(self.path, "".join(json.dumps(event) + "\n" for event in kept))


@right_to_read()
def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The events of a metrics.jsonl; a last line cut short is left out.

    Raises:
        CheckpointError: a line in the middle is damaged, or this user may not read them.
    """
    events = []
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    for number, line in enumerate(lines, start=1):
        try:
            event = json.loads(line) if line else None
            if event is not None:
                if not isinstance(event["step"], int) or not isinstance(event["event"], str):
                    raise TypeError("no event")
                events.append(event)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            if number < len(lines):
                raise CheckpointError("a line of the metrics is damaged", where=f"{path}:{number}",
                                      fix="restore it, or remove the line: training goes on without it") from error
    return events


class Reporter:
    """Tells people how far a long work is: one line that renews itself on a terminal, plain lines elsewhere. Used as a
    context, it wipes that line at the end, so that an answer or an error begins on a line of its own."""

    def __init__(self, stream: TextIO | None = None, seconds_between_lines: float = 15.0) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.live = self.stream.isatty()
        self.between = 0.2 if self.live else seconds_between_lines
        self.last = time.monotonic()

    def progress(self, line: str, *, due: bool = False) -> None:
        """Shows `line` if it is time for one, or if it is `due` anyway."""
        now = time.monotonic()
        if not due and now - self.last < self.between:
            return
        self.last = now
        if self.live:
            width = shutil.get_terminal_size().columns - 1
            self.stream.write(_WIPED + line[:sum(wide <= width for wide in accumulate(map(columns, line)))])
        else:
            self.stream.write(line + "\n")
        self.stream.flush()

    def say(self, line: str) -> None:
        """A line that stays."""
        self.stream.write(_WIPED * self.live + line + "\n")
        self.stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.write(_WIPED * self.live)
        self.stream.flush()


def duration(seconds: float) -> str:
    """3725 → "1 h 02 min"; 125 → "2 min 05 s"; 5 → "5 s"."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"


def how_far(done: int, total: int | None, what: str, begun: float) -> str:
    """300, 1000, "lines read" → "300 of 1,000 lines read, about 7 s left", of what was begun at `begun`, a time of
    time.monotonic(); without a total, how many are done."""
    if total is None or done >= total:
        return f"{done:,} {what}"
    left = f", about {duration((time.monotonic() - begun) * (total - done) / done)} left" if done else ""
    return f"{done:,} of {total:,} {what}{left}"


def telling_lines(split: Split, what: str, reporter: Reporter) -> Callable[[int], None]:
    """What is called with the number of lines read of a split, now and then, and tells how far that is."""
    begun, total = time.monotonic(), functools.cache(lambda: lines_of(split))
    return lambda lines: reporter.progress(f"{what}: {how_far(lines, total(), 'lines read', begun)}")


def draw_loss_curve(events: list[dict[str, Any]], path: Path) -> None:
    """Training and validation loss over steps, as a PNG: means over tokens, labels or spans."""
    import io

    from matplotlib.figure import Figure

    train = [(e["step"], e["loss"]) for e in events if e["event"] == "train"]
    validation = [(e["step"], e["loss"]) for e in events if e["event"] == "validation"]
    figure = Figure(figsize=(7, 4))
    axes = figure.add_axes((0.14, 0.13, 0.83, 0.79))  # room for any number; to measure them takes as long as to draw
    if train:
        axes.plot(*zip(*train, strict=True), label="training, as minimised", color="#0072b2", linewidth=1.2)
    if validation:
        axes.plot(*zip(*validation, strict=True),
                  label="validation, plain cross-entropy", color="#d55e00", marker="o", markersize=4)
    axes.set(xlabel="step", ylabel="loss (nats)", title="Loss over training")
    axes.grid(alpha=0.3)
    if train or validation:
        axes.legend()
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=120)
    write_bytes(path, image.getvalue())
