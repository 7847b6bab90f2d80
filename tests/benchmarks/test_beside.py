"""A training that is stopped and goes on is timed by its own lines alone, and one that has ended is no measurement."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks.beside import HEAD, measure, train, updates_of


def test_a_line_that_is_not_written_to_its_end_is_not_read(tmp_path: Path) -> None:
    assert updates_of(tmp_path) == []
    lines = [{"event": "train", "step": 5}, {"event": "validation", "step": 5}, {"event": "train", "step": 10}]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert updates_of(tmp_path) == lines[:1]


def test_a_recipe_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    row = measure("copy", ["--train.epochs", "500"], seconds=0.1, lines=20, repeat=1)
    assert row.startswith("| copy | ")
    assert row.count("|") == HEAD.splitlines()[0].count("|")


@pytest.mark.parametrize(("last", "how"), [
    ("sys.exit('no memory is left')", "ended with 1"),
    ("print('no memory is left', file=sys.stderr, flush=True); os.kill(os.getpid(), 9)", "was ended by signal 9"),
    ("best.touch(); time.sleep(60)", ""), ("sys.exit(stopped(3))", "ended with 3"), ("sys.exit(stopped(143))", "")])
def test_a_training_that_fails_is_no_measurement(last: str, how: str, tmp_path: Path,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [{"event": "train", "step": step, "source_tokens": 30 * step, "target_tokens": 10 * step,
              "seconds": step / 5} for step in (5, 10, 15)]
    monkeypatch.setattr("benchmarks.beside.PELLUCID", [sys.executable, "-c", f"""if True:
        import os, signal, sys, time
        from pathlib import Path
        def stopped(status):
            received = []
            signal.signal(signal.SIGTERM, lambda *_: received.append(print("no memory is left", file=sys.stderr)))
            best.touch()  # without it a training is not stopped
            while not received:
                time.sleep(0.01)
            return status
        run = Path({str(tmp_path / "run")!r})
        run.mkdir()
        best = run / "best.json"
        (run / "metrics.jsonl").write_text({"".join(json.dumps(line) + chr(10) for line in lines)!r})
        {last}
        """])
    if how:
        with pytest.raises(SystemExit, match=rf"(?s)^copy: its training {how}.*no memory is left$"):
            train("copy", [], tmp_path / "run", 1)
    else:
        assert train("copy", [], tmp_path / "run", 1) == 40 * 5


def test_a_training_that_has_ended_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [{"event": "train", "step": step, "source_tokens": 30 * step, "target_tokens": 10 * step,
              "seconds": step / 5} for step in (5, 10, 15)]
    monkeypatch.setattr("benchmarks.beside.PELLUCID", [sys.executable, "-c", f"""if True:
        from pathlib import Path
        run = Path({str(tmp_path / "run")!r})
        if not run.exists():
            run.mkdir()
            (run / "metrics.jsonl").write_text({"".join(json.dumps(line) + chr(10) for line in lines)!r})
        """])
    assert train("copy", [], tmp_path / "run", 1000) == 40 * 5
    with pytest.raises(SystemExit, match="copy was not trained for 5 seconds more"):
        train("copy", [], tmp_path / "run", 5)
