"""One place decides which decoder runs, can say why, and never changes what is found."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.config.mapping import from_mapping
from pellucid.errors import PellucidWarning
from pellucid.kernels.compiled import use_kernels
from pellucid.model.build import build
from pellucid.runs.decoder import WAYS, Decoder, Request, Route
from pellucid.runs.run import load
from pellucid.runs.texts import search_options
from pellucid.train import train as train_run
from pellucid.train.journal import Reporter

RUN: dict[str, Any] = {
    "data": {"generated": {"task": "reverse", "train": 200, "validation": 10, "test": 5, "symbols": 5, "min_length": 2,
                           "max_length": 5}},
    "tokenizer": {"kind": "word"},
    "model": {"d_model": 32, "n_heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0,
              "max_length": 6},
    "train": {"steps": 20, "batch_tokens": 100, "warmup_steps": 5, "learning_rate": 0.01, "validate_every": 20},
    "decode": {"beam_size": 2, "max_length": 6},
}


def route(config: DecodeConfig, has_prefixes: bool = False, **parts: Any) -> Route:
    sizes = {"d_model": 32, "n_heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1}
    model = build(ModelConfig(**(sizes | parts)), 40, 40, shared=True).eval()
    return Decoder(Request(lambda: model, search_options(config), config, has_prefixes)).route


@pytest.mark.usefixtures("compiled_kernels")
def test_the_fastest_way_that_can_is_taken_and_the_others_are_told() -> None:
    config = DecodeConfig(precision="int8")
    assert list(WAYS) == ["kept engine", "engine", "engine by steps", "plain steps"]
    found = route(config)
    assert (found.decoder, found.precision, list(found.against)) == ("engine", "int8", ["kept engine"])
    for asked, reason in ((replace(config, sample=True), "at random"), (replace(config, no_repeat_ngram=2), "n-grams")):
        found = route(asked)
        assert (found.decoder, found.precision) == ("engine by steps", "int8")
        assert reason in found.against["engine"]
    assert "prefixes" in route(config, has_prefixes=True).against["engine"]
    found = route(DecodeConfig(), position="rotary")
    assert (found.decoder, found.precision) == ("plain steps", "fp32")
    assert found.against["engine"] == found.against["engine by steps"] == "positions are RotaryPosition"
    assert str(found).startswith("plain steps, fp32; not kept engine: the model is in memory")


@pytest.mark.usefixtures("compiled_kernels")
@pytest.mark.parametrize(("parts", "reason"), [({"position": "rotary"}, "RotaryPosition"),
                                               ({"attention": "window"}, "window")])
@pytest.mark.parametrize("precision", ["int8", "bf16"])
def test_a_precision_that_is_not_used_is_a_warning_with_its_reason(parts: dict[str, Any], reason: str,
                                                                   precision: str) -> None:
    with pytest.warns(PellucidWarning, match=f"precision {precision} is not used, but fp32: .*{reason}"):
        route(DecodeConfig(precision=precision), **parts)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        route(DecodeConfig(precision="fp32"), **parts)
        route(DecodeConfig(precision="auto"), **parts)
        route(DecodeConfig(precision=precision))  # type: ignore[arg-type]


def test_without_kernels_the_reason_is_theirs() -> None:
    use_kernels(torch.device("cpu"), False)
    with pytest.warns(PellucidWarning, match="int8 is not used, but fp32: the kernels are plain: as configured"):
        assert route(DecodeConfig(precision="int8")).decoder == "plain steps"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A run, trained for a second, and a cache of its own."""
    place = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PELLUCID_CACHE", str(place / "cache"))
        patch.setattr("pellucid.train.loop.draw_loss_curve", lambda events, path: None)
        train_run.train(from_mapping(RUN), place / "run", Reporter(io.StringIO()))
        yield place / "run"


@pytest.mark.usefixtures("compiled_kernels")
def test_a_run_tells_its_route_and_takes_it(folder: Path) -> None:
    first, second = load(folder), load(folder)
    assert first.route().decoder == "engine"
    assert first.route().against["kept engine"] == "the model is in memory, where it may have been changed"
    texts = ["1 2 3", "", "4 4"]
    expected = first.generate(texts)
    assert second.route() == Route("kept engine", second.route().precision, {})
    assert second.generate(texts) == expected
    assert second.route(options=replace(second.config.decode, sample=True)).decoder == "engine by steps"
    assert second.route(has_prefixes=True).decoder == "engine by steps"


def test_a_line_that_is_cut_is_told_with_its_number_and_what_is_lost(folder: Path) -> None:
    run = load(folder)
    long = " ".join("12345" * 4)
    with pytest.warns(PellucidWarning, match=r"than the 6 tokens .*: line 12 loses 15 of its 21 tokens, line 14 loses"):
        found = run.generate(["1 2", long, "", long, "1 2 3 4 5"], first=10)
    assert [one.cut for one in found] == [0, 15, 0, 15, 0]
    with pytest.warns(PellucidWarning, match=r"line 5 loses 15 of its 21 tokens, and 2 more$"):
        run.generate([long] * 7)
