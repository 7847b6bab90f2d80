"""Early stopping, the best checkpoint, and which checkpoints stay."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pellucid.train import loop
from pellucid.train.checkpoint import CheckpointStore
from pellucid.train.journal import Metrics, Reporter
from pellucid.train.loop import Session, is_better, train_until_done


class OneWeight(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))


@pytest.fixture
def start(tmp_path: Path, tiny: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A session whose updates count, and whose validations give the scores they are told."""

    def quick_update(session: Session) -> tuple[float, float]:
        session.progress.step += 1
        session.progress.loss_tokens += 1
        with torch.no_grad():
            next(session.model.parameters()).fill_(session.progress.step)
        return 1.0, 0.1

    monkeypatch.setattr(loop, "update", quick_update)
    monkeypatch.setattr(loop, "epoch_of", lambda session: 1)

    def make(scores: list[float], monitor: str = "loss", keep: int = 1, patience: int | None = None,
             stop_after: int | None = None) -> Session:
        task = "classification" if monitor in ("accuracy", "macro_f1") else "seq2seq"
        config = tiny(task=task, train={"monitor": monitor, "patience": patience, "validate_every": 2})
        model: Any = OneWeight()
        steps = 2 * len(scores)
        coming = iter(scores)
        session = Session(
            config=config, model=model, optimizer=torch.optim.SGD(model.parameters()), average=None,
            batches=None, steps=steps,  # type: ignore[arg-type]
            peak=0.1, precision="fp32", device=torch.device("cpu"),
            store=CheckpointStore(tmp_path, keep, lambda step: step % 2 == 0 or step == steps),
            metrics=Metrics(tmp_path / "metrics.jsonl"), reporter=Reporter(io.StringIO()),
            validate=lambda average: {"loss": 1.0, monitor: next(coming)})
        session.stop_requested = lambda: session.progress.step == stop_after
        return session

    return make


def steps_in(folder: Path) -> list[int]:
    return sorted(int(path.name[5:]) for path in (folder / "checkpoints").iterdir())


def best_of(folder: Path) -> tuple[str, int, str, float]:
    best = json.loads((folder / "best.json").read_text())
    return best["checkpoint"], best["step"], best["monitor"], best["score"]


@pytest.mark.parametrize(("monitor", "scores", "best", "last"), [
    ("loss", [5.0, 4.0, 4.0, 4.5, 1.0, 0.0], 4, 8),
    ("loss", [1.0, 2.0, 0.5, 2.0, 2.0, 0.0], 6, 10),
    ("bleu", [5.0, 6.0, 6.0, 4.5, 9.0, 9.0], 4, 8),
    ("accuracy", [5.0, 4.0, 6.0, 4.5, 6.0, 9.0], 6, 10),
])
def test_it_stops_after_so_many_validations_without_gain(monitor: str, scores: list[float], best: int, last: int,
                                                        start: Any, tmp_path: Path) -> None:
    session = start(scores, monitor, patience=2)
    assert train_until_done(session)
    assert session.progress.step == last
    assert best_of(tmp_path) == (f"step-{best:08d}", best, monitor, scores[best // 2 - 1])
    assert steps_in(tmp_path) == sorted({best, last})
    assert train_until_done(session)  # once it is out of patience it stays so
    assert session.progress.step == last


def test_without_patience_it_goes_to_the_end(start: Any, tmp_path: Path) -> None:
    session = start([1.0, *[2.0] * 9])
    assert train_until_done(session)
    assert session.progress.step == 20
    assert best_of(tmp_path)[1] == 2


@pytest.mark.parametrize("keep", [1, 2, 4])
def test_the_newest_the_best_and_the_last_milestones_stay(keep: int, start: Any, tmp_path: Path) -> None:
    assert train_until_done(start([4.0, 1.0, 3.0, 3.0, 3.0, 3.0, 3.0], keep=keep))
    assert steps_in(tmp_path) == sorted({4, *[2, 4, 6, 8, 10, 12, 14][-keep:]})


def test_a_request_to_stop_saves_at_any_step(start: Any, tmp_path: Path) -> None:
    session = start([4.0, 1.0, 3.0], stop_after=5)
    assert not train_until_done(session)
    assert session.progress.step == 5
    assert steps_in(tmp_path) == [4, 5]
    assert json.loads((tmp_path / "last.json").read_text()) == {"checkpoint": "step-00000005", "step": 5}
    assert best_of(tmp_path)[1] == 4


def test_a_request_at_a_validation_saves_once(start: Any, tmp_path: Path) -> None:
    assert not train_until_done(start([4.0, 1.0, 3.0], stop_after=4))
    assert steps_in(tmp_path) == [4]


def test_better_is_lower_for_a_loss_and_higher_for_all_else() -> None:
    assert is_better("loss", 1.0, 2.0)
    assert not is_better("loss", 2.0, 2.0)
    for monitor in ("bleu", "exact", "accuracy", "macro_f1"):
        assert is_better(monitor, 2.0, 1.0)
        assert not is_better(monitor, 2.0, 2.0)
