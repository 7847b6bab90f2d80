"""What a run tells: its metrics survive a cut line, and people see how far it is."""

from __future__ import annotations

import contextlib
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from pellucid.errors import CheckpointError, NumericalError, OutputError
from pellucid.language import columns
from pellucid.train import loop
from pellucid.train.journal import Metrics, Reporter, draw_loss_curve, duration, how_far, read_metrics
from pellucid.train.update import Learner


def test_what_came_after_the_checkpoint_is_forgotten_and_so_is_a_cut_line(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path / "metrics.jsonl")
    assert metrics.read() == []
    metrics.rewind(3)
    events = [{"event": "train", "step": step, "loss": 1 / step} for step in range(1, 7)]
    for event in events:
        metrics.write(event)
    whole = metrics.path.read_bytes()
    for cut in range(len(whole) - len(whole.splitlines()[-1]), len(whole) - 1):
        metrics.path.write_bytes(whole[:cut])
        assert metrics.read() == events[:5]
        metrics.rewind(4)
        assert [json.loads(line) for line in metrics.path.read_text().splitlines()] == events[:4]
    metrics.rewind(0)
    assert metrics.path.read_bytes() == b""


@pytest.mark.parametrize("line", ["{", "[]", "7", "null x", '{"event": "train"}', "\x00"])
def test_damage_in_the_middle_is_placed(line: str, tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(f'{{"event": "train", "step": 1}}\n{line}\n{{"event": "train", "step": 2}}\n')
    with pytest.raises(CheckpointError) as error:
        read_metrics(path)
    assert error.value.where == f"{path}:2"
    assert "remove the line" in error.value.fix


def test_durations_read_well() -> None:
    assert [duration(s) for s in (0.4, 5, 59.6, 125, 3725, 86400)] == [
        "0 s", "5 s", "1 min 00 s", "2 min 05 s", "1 h 02 min", "24 h 00 min"]


def test_how_far_a_work_is_and_how_long_the_rest_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 1009.0)
    assert how_far(3000, 12_000, "lines read", 1000.0) == "3,000 of 12,000 lines read, about 27 s left"
    assert how_far(3000, None, "lines read", 1000.0) == how_far(3000, 3000, "lines read", 0.0) == "3,000 lines read"
    assert how_far(0, 9, "lines read", 1000.0) == "0 of 9 lines read"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_file_gets_plain_lines_now_and_then_and_a_terminal_one_live_line() -> None:
    page, terminal = io.StringIO(), Terminal()
    plain = Reporter(page, seconds_between_lines=1000)
    plain.progress("one")
    plain.progress("two", due=True)
    plain.say("three")
    assert page.getvalue() == "two\nthree\n"
    live = Reporter(terminal)
    live.progress("x" * 1000, due=True)
    live.say("done")
    told = terminal.getvalue()
    assert "\n" not in told.split("done")[0]
    assert len(told) < 1000
    assert told.endswith("done\n")


@pytest.mark.parametrize("error", [None, CheckpointError("damaged")])
def test_what_is_told_behind_a_live_line_has_a_line_of_its_own(error: Exception | None) -> None:
    terminal, page = Terminal(), io.StringIO()
    for stream in (terminal, page):
        with contextlib.suppress(CheckpointError), Reporter(stream) as live:
            live.progress("far", due=True)
            if error is not None:
                raise error
        stream.write("the answer\n")
    assert terminal.getvalue() == "\r\x1b[2Kfar\r\x1b[2Kthe answer\n"
    assert page.getvalue() == "far\nthe answer\n"


def test_a_live_line_of_chinese_fits_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would be two lines, and only the second would be wiped."""
    monkeypatch.setenv("COLUMNS", "20")
    terminal = Terminal()
    live = Reporter(terminal)
    live.progress("第 1 层" * 9, due=True)
    told = terminal.getvalue().rpartition("\x1b[2K")[2]
    assert told.startswith("第 1 层第")
    assert columns(told) in (18, 19)


def test_the_loss_curve_is_a_picture_with_and_without_points(tmp_path: Path) -> None:
    events = [{"event": "train", "step": 1, "loss": 3.0}, {"event": "train", "step": 2, "loss": 2.0},
              {"event": "validation", "step": 2, "loss": 2.5}]
    for number, some in enumerate(([], events[:1], events)):
        path = tmp_path / str(number) / "loss.png"
        draw_loss_curve(some, path)
        assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        assert path.stat().st_size > 5000


def test_the_loss_curve_of_any_task_has_its_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: figures.append(figure))
    draw_loss_curve([{"event": "train", "step": 1, "loss": 3.0}], tmp_path / "loss.png")
    assert figures[0].axes[0].get_ylabel() == "loss (nats)"  # a classifier has no tokens to write


@pytest.mark.parametrize("losses", [(8.0, 2.5), (3e-7, 1e-7), (2.300051, 2.300052), (12345.67, 12345.68), (3e5, 9e5),
                                    (1e12, 3e14), (0.0, 0.0), (math.nan, 2.0)])
def test_no_number_of_the_loss_curve_is_cut_off(losses: tuple[float, ...], tmp_path: Path) -> None:
    draw_loss_curve([{"event": "train", "step": (i + 1) * 10**6, "loss": loss} for i, loss in enumerate(losses)],
                    tmp_path / "loss.png")
    picture = imread(tmp_path / "loss.png")[..., :3]
    for edge in (picture[:4], picture[-4:], picture[:, :4], picture[:, -4:]):
        assert edge.min() == 1  # white


@pytest.mark.parametrize("average_last", [1, 2])
def test_the_loss_curve_of_a_run_shows_every_line_there_is(average_last: int, tiny: Any, train_through: Any,
                                                           tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[list[dict[str, Any]]] = []
    monkeypatch.setattr(loop, "draw_loss_curve", lambda events, path: drawn.append(events))
    train_through(tiny(train={"average_last": average_last}), tmp_path)
    assert drawn[-1] == read_metrics(tmp_path / "metrics.jsonl")


@pytest.mark.parametrize(("share", "stops", "expected"), [
    (1e-9, (), [2, 8]), (1e-9, (5,), [2, 4, 6, 8]), (1e9, (), [2, 4, 6, 8])])
def test_the_loss_curve_takes_a_share_of_the_time(share: float, stops: tuple[int, ...], expected: list[int], tiny: Any,
                                                  train_through: Any, tmp_path: Path,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """The first picture comes at once, the last one when training stops; between them as many as there is time for."""
    drawn: list[int] = []
    monkeypatch.setattr(loop, "draw_loss_curve", lambda events, path: drawn.append(events[-1]["step"]))
    monkeypatch.setattr(loop, "DRAWING", share)
    train_through(tiny(train={"steps": 8, "validate_every": 2}), tmp_path, stops)
    assert drawn == expected


@pytest.mark.parametrize("is_full", [False, True])
def test_the_loss_curve_is_drawn_when_training_fails(is_full: bool, tiny: Any, train_through: Any, tmp_path: Path,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, update = list[int](), loop.update

    def fail_at_5(learner: Learner, *rest: Any) -> Any:
        if learner.progress.step == 5:
            raise NumericalError("the loss is no number")
        return update(learner, *rest)

    def draw(events: list[dict[str, Any]], path: Path) -> None:
        drawn.append(events[-1]["step"])
        if len(drawn) > 1 and is_full:
            raise OutputError("cannot write", why="the disk is full")

    monkeypatch.setattr(loop, "draw_loss_curve", draw)
    monkeypatch.setattr(loop, "DRAWING", 1e-9)
    monkeypatch.setattr(loop, "update", fail_at_5)
    with pytest.raises(NumericalError):
        train_through(tiny(train={"steps": 8, "validate_every": 2, "log_every": 1}), tmp_path)
    assert drawn == [2, 5]
