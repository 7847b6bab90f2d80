"""Every option of ours goes to a target, or is refused there by its name."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from pellucid.config import ModelConfig
from pellucid.errors import ConfigError
from pellucid.interop import ctranslate2, holding, huggingface, onnx
from pellucid.model.build import ATTENTIONS, FEED_FORWARDS, HEAD_ACTIVATIONS, NORMS, POOLINGS, POSITIONS, RESIDUALS

pytest.importorskip("ctranslate2")
pytest.importorskip("onnx")
TARGETS: dict[str, Any] = {"huggingface": huggingface, "ctranslate2": ctranslate2, "onnx": onnx}
OPTIONS: list[tuple[str, Any]] = [(key, name) for key, names in {
    "position": POSITIONS, "norm": NORMS, "residual": RESIDUALS, "feed_forward": FEED_FORWARDS,
    "attention": ATTENTIONS, "tie_embeddings": (True, False), "biases": (True, False), "embedding_norm": (True, False),
    "output_bias": (True, False), "norm_epsilon": (None, 1e-3), "d_key": (None, 4), "d_head": (None, 5)}.items()
    for name in names]
BESIDE: dict[Any, dict[str, Any]] = {"linear": {"position": "none"}}  # what an option does not go without
OF_CLASSIFIERS = [("pooling", name) for name in POOLINGS] + [("head_activation", name) for name in HEAD_ACTIVATIONS]


def refusal(target: Any, run: Path, out: Path) -> str | None:
    """What is said against an export; None where it was written."""
    try:
        target.export(run, out)
    except ConfigError as error:
        return str(error)
    return None


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("key", "value"), OPTIONS)
def test_an_option_is_exported_or_refused_by_name(key: str, value: Any, target: str, random_run: Any) -> None:
    run = random_run(**BESIDE.get(value, {}) | {key: value})
    said = refusal(TARGETS[target], run, run.parent / target)
    assert said is None or target != "onnx"  # which holds them all
    assert (run.parent / target / "README.md").exists() == (said is None)
    if said is not None:
        assert f"model.{key} {holding._spelled(value)}" in said or "model.position none" in said
        assert "another target: --to" in said


def test_parts_of_ones_own_are_sent_where_they_can_go(random_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other target is said to hold every option where it holds none of one's own."""
    monkeypatch.setitem(NORMS, "mine", NORMS["layernorm"])
    run = random_run(norm="mine")
    for name, target in TARGETS.items():
        said = refusal(target, run, run.parent / name)
        assert said is not None
        assert "model.norm mine" in said
        assert "--to run holds all" in said or "--to run parts of your own" in said


@pytest.mark.parametrize("target", TARGETS)
def test_that_texts_are_divided_is_told(target: str, random_run: Any) -> None:
    for name, is_told in (("whole", False), ("divided", True)):
        run = random_run(decode={"split_sentences": is_told})
        done = TARGETS[target].export(run, run.parent / name)
        assert any("decode.split_sentences" in note for note in done.notes) == is_told
        assert ("decode.split_sentences" in (run.parent / name / "README.md").read_text()) == is_told


@pytest.mark.parametrize(("key", "value"), OF_CLASSIFIERS)
def test_an_option_of_classifiers_too(key: str, value: Any, random_run: Any) -> None:
    run = random_run("classification", **{"residual": "post", "embedding_norm": True, "pooling": "first",
                                          "position": "learned"} | {key: value})
    said = refusal(huggingface, run, run.parent / "out")
    assert said is None or f"model.{key} {value}" in said
    assert refusal(onnx, run, run.parent / "onnx") is None


def test_no_key_of_the_model_is_forgotten() -> None:
    """Each is known to be held by all, or has a row of its own; what is new is refused until it has one."""
    known = holding._ANY | {key for key, _ in OPTIONS}
    assert {field.name for field in dataclasses.fields(ModelConfig)} == known
    for holds in (*holding.SEQ2SEQ.values(), *holding.CLASSIFIERS.values(), holding.CTRANSLATE2, holding.ONNX):
        assert set(holds) <= known


def test_what_a_classifier_cannot_be_is_said(random_run: Any) -> None:
    run = random_run("classification")
    with pytest.raises(ConfigError, match=r"model\.embedding_norm false"):
        huggingface.export(run, run.parent / "out")
    with pytest.raises(ConfigError, match="classification"):
        ctranslate2.export(run, run.parent / "out")
