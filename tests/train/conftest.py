"""What the tests of training share: a run that takes a second, and what of it must be the same every time."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pellucid.config import RunConfig
from pellucid.config.mapping import from_mapping
from pellucid.config.reader import merge
from pellucid.train import train as train_run
from pellucid.train.journal import Reporter

TINY: dict[str, Any] = {
    "data": {"generated": {"task": "reverse", "train": 60, "validation": 12, "test": 4, "symbols": 6,
                           "min_length": 2, "max_length": 6}},
    "tokenizer": {"kind": "word"},
    "model": {"d_model": 8, "n_heads": 2, "d_ff": 12, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.1,
              "max_length": 12},
    "train": {"steps": 9, "batch_tokens": 40, "accumulate": 2, "warmup_steps": 3, "learning_rate": 0.01,
              "precision": "fp32", "validate_every": 3, "log_every": 2, "average_last": 2},
    "decode": {"beam_size": 1, "max_length": 12},
}


class StopAt(Reporter):
    """Sends this process SIGINT when the loop shows one of the `steps`."""

    def __init__(self, steps: tuple[int, ...] = ()) -> None:
        super().__init__(io.StringIO())
        self.steps = steps

    def progress(self, line: str, *, due: bool = False) -> None:
        super().progress(line, due=due)
        if any(line.startswith(f"step {step}/") for step in self.steps):
            signal.raise_signal(signal.SIGINT)

    @property
    def told(self) -> str:
        assert isinstance(self.stream, io.StringIO)
        return self.stream.getvalue()


def what_must_be_the_same(out: Path) -> dict[str, Any]:
    """The bytes of every checkpoint and pointer, and the metrics without their clock."""
    files: dict[str, Any] = {str(path.relative_to(out)): path.read_bytes()
                             for path in sorted(out.glob("checkpoints/*/*.safetensors"))}
    for path in sorted(out.glob("checkpoints/*/state.json")):
        files[str(path.relative_to(out))] = json.loads(path.read_text()) | {"seconds": 0}
    for name in ("best.json", "last.json", "config.yaml", "data.json"):
        files[name] = (out / name).read_text().replace(str(out), "")
    files["metrics"] = [json.loads(line) | {"seconds": 0, "tokens_per_second": 0}
                        for line in (out / "metrics.jsonl").read_text().splitlines()]
    return files


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory,
          new_cache: Callable[[Path], str]) -> None:
    """A cache of our own."""
    monkeypatch.setenv("PELLUCID_CACHE", new_cache(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(scope="session")
def tiny() -> Callable[..., RunConfig]:
    """The tiny run, with some keys changed."""
    return lambda **over: from_mapping(merge(TINY, over))


@pytest.fixture(scope="session")
def stop_at() -> type[StopAt]:
    return StopAt


@pytest.fixture(scope="session")
def snapshot() -> Callable[[Path], dict[str, Any]]:
    return what_must_be_the_same


@pytest.fixture(scope="session")
def train_through(stop_at: type[StopAt]) -> Callable[..., dict[str, Any]]:
    """Trains, stopped at each of some steps in turn and started again, to the end; what comes of it, with no clock."""

    def train(config: RunConfig, out: Path, stops: tuple[int, ...] = ()) -> dict[str, Any]:
        for step in stops:
            with pytest.raises(train_run.Interrupted) as stop:
                train_run.train(config, out, stop_at((step,)))
            assert (stop.value.number, stop.value.step) == (signal.SIGINT, step)
        return train_run.train(config, out, stop_at()) | {"seconds": 0, "overhead": 0}

    return train
