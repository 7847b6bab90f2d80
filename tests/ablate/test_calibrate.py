"""What is timed before a study."""

from pathlib import Path
from typing import Any

import pytest

from pellucid.ablate.calibrate import measure
from pellucid.config.mapping import from_mapping
from pellucid.train import objective


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_r_drop_that_begins_late_is_timed(alpha: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list[int]()
    twice = objective.r_drop_loss

    def counted(*given: Any) -> Any:
        calls.append(1)
        return twice(*given)

    monkeypatch.setattr(objective, "r_drop_loss", counted)
    monkeypatch.setattr("pellucid.ablate.calibrate.SECONDS", 0.0)
    measured = measure(from_mapping({
        "task": "seq2seq", "data": {"generated": {"task": "copy", "train": 40, "validation": 4, "test": 4}},
        "tokenizer": {"kind": "word"}, "model": {"d_model": 16, "n_heads": 2, "d_ff": 16, "encoder_layers": 1,
                                               "decoder_layers": 1, "max_length": 32},
        "train": {"steps": 1000, "batch_tokens": 64, "r_drop": alpha, "r_drop_after": 500, "workers": 1}}), tmp_path)
    assert measured.seconds > 0
    assert bool(calls) == bool(alpha)
