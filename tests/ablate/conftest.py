"""What the tests of studies share: a small study as text, and a trainer that only pretends."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from pellucid.ablate import ablate, processes, report
from pellucid.ablate.study import Study, read_study
from pellucid.config.reader import merge

STUDY: dict[str, Any] = {
    "base": "copy",
    "common": {"data.generated": {"train": 80, "validation": 10, "test": 10, "symbols": 6, "min_length": 3,
                                  "max_length": 6},
               "model": {"d_model": 16, "n_heads": 2, "d_ff": 24, "encoder_layers": 1, "decoder_layers": 1,
                         "max_length": 32},
               "train": {"warmup_steps": 2, "validate_every": 10, "log_every": 5, "kernels": "plain"},
               "decode.max_length": 8},
    "factors": {"model.position": ["sinusoidal", "none"], "width": {"narrow": {}, "wide": {"model.d_ff": 48}}},
    "seeds": [1, 2, 3],
    "budget": {"steps": 20},
    "metrics": ["validation.loss", "test.exact"],
}
FAKE = Path(__file__).parent / "fake_pellucid.py"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch,
               new_cache: Callable[[Path], str]) -> None:
    monkeypatch.setenv("PELLUCID_CACHE", new_cache(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture
def study(tmp_path: Path) -> Callable[..., Study]:
    """A function: the small study with keys of its file replaced, and with a command line's overrides."""

    def make(over: dict[str, Any] | None = None, without: tuple[str, ...] = (), flags: dict[str, Any] | None = None,
             ) -> Study:
        mapping = {key: value for key, value in {**STUDY, **(over or {})}.items() if key not in without}
        path = tmp_path / "toy.yaml"
        path.write_text(yaml.safe_dump(mapping, sort_keys=False), encoding="utf-8")
        return read_study(str(path), merge({}, flags or {}))

    return make


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are those of fake_pellucid.py, which learns nothing in no time; no figure is drawn, nothing counted."""
    monkeypatch.setattr(ablate, "count_operations", lambda study, cells, out, say: None)
    monkeypatch.setattr(report, "_figures", lambda study, results, runs: {})
    monkeypatch.setattr(processes, "PROGRAM", (sys.executable, str(FAKE)))
