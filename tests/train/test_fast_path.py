"""The fast path trains what the plain equations train: bf16 products and compiled kernels against fp32 and torch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.config import RunConfig
from pellucid.errors import PellucidWarning
from pellucid.kernels.compiled import use_kernels
from pellucid.train.train import train

pytestmark = pytest.mark.usefixtures("compiled_kernels")
MODEL = {"d_model": 32, "n_heads": 2, "d_ff": 64, "dropout": 0.0}
VARIANTS = [{}, {"residual": "post"}, {"residual": "deepnorm"}, {"norm": "rmsnorm"}, {"position": "rotary"},
            {"position": "t5"}, {"position": "quadratic"}, {"position": "transformer_xl"},
            {"attention": "window", "window": 3}, {"attention": "linear"}, {"feed_forward": "swiglu"},
            {"tie_embeddings": False}, {"n_heads": 8}]


def losses(config: RunConfig, out: Path, stop_at: Any) -> list[float]:
    train(config, out, stop_at())
    events = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [event["loss"] for event in events if event["event"] == "train"]


def both(tiny: Callable[..., RunConfig], tmp_path: Path, stop_at: Any, steps: int,
         **model: Any) -> tuple[list[float], list[float]]:
    """The loss of every update, on the fast path and on the plain one."""
    common = {"steps": steps, "log_every": 1, "validate_every": steps, "accumulate": 1, "learning_rate": 0.003,
              "warmup_steps": 20, "average_last": 1}
    ways = {"fast": {"precision": "bf16", "kernels": "auto"}, "plain": {"precision": "fp32", "kernels": "plain"}}
    fast, plain = [losses(tiny(model={**MODEL, **model}, train={**common, **way}), tmp_path / name, stop_at)
                   for name, way in ways.items()]
    return fast, plain


def test_the_losses_of_200_updates_agree_within_the_rounding_of_bf16(tiny: Callable[..., RunConfig], tmp_path: Path,
                                                                     stop_at: Any) -> None:
    fast, plain = both(tiny, tmp_path, stop_at, 200)
    assert len(fast) == len(plain) == 200
    assert plain[-1] < 0.8 * plain[0]  # it learns
    differences = [abs(a - b) / b for a, b in zip(fast, plain, strict=True)]
    assert differences[0] < 2**-8
    assert sum(differences) / len(differences) < 2**-7
    assert max(differences) < 2**-4


@pytest.mark.parametrize("model", VARIANTS, ids=[",".join(f"{k}={v}" for k, v in m.items()) or "default"
                                                 for m in VARIANTS])
def test_every_option_trains_on_the_fast_path(model: dict[str, Any], tiny: Callable[..., RunConfig], tmp_path: Path,
                                              stop_at: Any) -> None:
    fast, plain = both(tiny, tmp_path, stop_at, 30, **model)
    assert max(abs(a - b) / b for a, b in zip(fast, plain, strict=True)) < 2**-4


def test_the_run_says_which_way_it_went(tiny: Callable[..., RunConfig], tmp_path: Path, stop_at: Any) -> None:
    for way, noted in (("auto", "compiled"), ("plain", "plain: as configured")):
        train(tiny(train={"steps": 2, "kernels": way}), tmp_path / way, stop_at())
        assert json.loads((tmp_path / way / "environment.json").read_text())["kernels"] == noted


def test_without_a_compiler_it_is_plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "empty"))
    monkeypatch.setenv("CXX", "false")
    with pytest.warns(PellucidWarning, match="could not be compiled"):
        assert use_kernels(torch.device("cpu")).startswith("plain: ")
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "")
    assert use_kernels(torch.device("cpu")) == "plain: no C++ compiler"
