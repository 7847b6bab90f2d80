"""One place decides which decoder runs and can say why; every way finds the same."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
import torch

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.config.mapping import from_mapping
from pellucid.data.tokenizers.interface import EOS
from pellucid.engine.engine import Engine
from pellucid.engine.engines import Engines
from pellucid.engine.frozen import Refusal
from pellucid.errors import PellucidWarning
from pellucid.kernels.compiled import use_kernels
from pellucid.model.build import build
from pellucid.runs.decoder import WAYS, Decoder, PlainSteps, Request, Route
from pellucid.runs.run import Weights, load
from pellucid.runs.texts import search_options
from pellucid.search.beginnings import Beginning
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


SIZES: dict[str, Any] = {"d_model": 32, "n_heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1}


def route(config: DecodeConfig, has_prefixes: bool = False, **parts: Any) -> Route:
    model = build(ModelConfig(**(SIZES | parts)), 40, 40, shared=True).eval()
    return Decoder(Request(lambda: model, search_options(config), config, has_prefixes)).route


@pytest.mark.usefixtures("compiled_kernels")
def test_the_fastest_way_that_can_is_taken_and_the_others_are_told() -> None:
    config = DecodeConfig(precision="int8")
    assert list(WAYS) == ["kept engine", "engine", "engine by steps", "graphed steps", "plain steps"]
    found = route(config)
    assert (found.decoder, found.precision, list(found.against)) == ("engine", "int8", ["kept engine"])
    for asked, reason in ((replace(config, sample=True), "at random"), (replace(config, no_repeat_ngram=2), "n-grams")):
        found = route(asked)
        assert (found.decoder, found.precision) == ("engine by steps", "int8")
        assert reason in found.against["engine"]
    assert "prefixes" in route(config, has_prefixes=True).against["engine"]
    assert route(config, position="rotary", attention="window").decoder == "engine"
    found = route(DecodeConfig(), attention="linear")
    assert (found.decoder, found.precision) == ("plain steps", "fp32")
    assert found.against["engine"] == found.against["engine by steps"] == "attention is LinearAttention"
    assert found.against["graphed steps"] == "there is no GPU"
    assert str(found).startswith("plain steps, fp32; not kept engine: somebody holds the model")


@pytest.mark.usefixtures("compiled_kernels")
@pytest.mark.parametrize(("parts", "reason"), [({"attention": "linear"}, "LinearAttention"),
                                               ({"d_model": 40}, "no multiple of 16")])
@pytest.mark.parametrize("precision", ["int8", "bf16"])
def test_a_precision_that_is_not_used_is_a_warning_with_its_reason(parts: dict[str, Any], reason: str,
                                                                   precision: str) -> None:
    with pytest.warns(PellucidWarning, match=f"precision {precision} is not used, but fp32: .*{reason}"):
        route(DecodeConfig(precision=precision), **parts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        route(DecodeConfig(precision="fp32"), **parts)
        route(DecodeConfig(precision="auto"), **parts)
        route(DecodeConfig(precision=precision))


@pytest.mark.usefixtures("compiled_kernels")
def test_sentences_that_are_to_come_out_exactly_are_alone_where_they_would_see_each_other() -> None:
    def batch_tokens(config: DecodeConfig, **parts: Any) -> int:
        model = build(ModelConfig(**(SIZES | parts)), 40, 40, shared=True).eval()
        return Decoder(Request(lambda: model, search_options(config), config)).batch_tokens

    exact = DecodeConfig(exact=True, batch_tokens=3000)
    assert batch_tokens(exact, attention="linear") == 1
    assert batch_tokens(replace(exact, exact=False), attention="linear") == 3000
    assert (batch_tokens(exact), batch_tokens(replace(exact, batch_tokens=100))) == (1024, 100)  # an engine's rows


def test_a_way_is_made_once_for_all_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    made, config = list[Request](), DecodeConfig(max_length=4)

    def make(request: Request) -> PlainSteps:
        made.append(request)
        return PlainSteps(request)

    monkeypatch.setitem(WAYS, "plain steps", make)
    model = build(ModelConfig(**SIZES, attention="linear"), 40, 40, shared=True).eval()
    decoder = Decoder(Request(lambda: model, search_options(config), config))
    for _ in range(2):
        decoder.search([np.array([5, 6, EOS], dtype=np.int32)], [Beginning()], [0])
    assert len(made) == 1


def test_without_kernels_the_reason_is_theirs() -> None:
    use_kernels(torch.device("cpu"), False)
    with pytest.warns(PellucidWarning, match="int8 is not used, but fp32: the kernels are plain: as configured"):
        assert route(DecodeConfig(precision="int8")).decoder == "plain steps"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, new_cache: Callable[[Path], str]) -> Iterator[Path]:
    """A run, trained for a second, and a cache of its own."""
    place = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PELLUCID_CACHE", new_cache(place / "cache"))
        train_run.train(from_mapping(RUN), place / "run", Reporter(io.StringIO()))
        yield place / "run"


@pytest.mark.usefixtures("compiled_kernels")
def test_a_run_tells_its_route_and_takes_it(folder: Path) -> None:
    first, second = load(folder), load(folder)
    texts = ["1 2 3", "", "4 4"]
    for _ in range(2):  # to ask changes nothing
        assert first.route().decoder == "engine"
        assert first.route().against == {"kept engine": "nothing is kept of these weights yet"}
    expected = first.generate(texts)
    assert second.route() == Route("kept engine", second.route().precision, {})
    assert second.generate(texts) == expected
    assert isinstance(second._model, Weights)  # nobody has read them
    assert second.route(options=replace(second.config.decode, sample=True)).decoder == "engine by steps"
    assert second.route(has_prefixes=True).decoder == "engine by steps"
    assert second.route().decoder == "kept engine"
    with torch.no_grad():
        second.model.output.weight.add_(0)
    assert second.route().decoder == "engine"
    assert second.route().against == {"kept engine": "somebody holds the model, and may have changed it"}


@pytest.mark.usefixtures("compiled_kernels")
@pytest.mark.parametrize("beam_size", [1, 3])
def test_every_way_finds_the_same(folder: Path, beam_size: int) -> None:
    run = load(folder)
    config = replace(run.config.decode, precision="fp32", beam_size=beam_size, n_best=beam_size)
    run.generate(["1"], options=config)  # so that there is something kept
    request = Request(lambda: run._loaded(), search_options(config), config, kept=lambda: load(folder)._kept("fp32"))
    sources = [np.array(ids, dtype=np.int32) for ids in ([5, 6, 7, 3], [8, 3], [4, 4, 6, 5, 3])]
    found = {name: make(request).search(sources, [Beginning()] * 3, range(3)) for name, make in WAYS.items()
             if name != "graphed steps"}  # which needs a GPU, see tests/engine/test_graphed_step.py
    assert len(found) == 4
    for name, hypotheses in found.items():
        for ours, plain in zip(hypotheses, found["plain steps"], strict=True):
            assert [h.tokens for h in ours] == [h.tokens for h in plain], name
            assert [h.score for h in ours] == pytest.approx([h.score for h in plain], abs=1e-4)


@pytest.mark.usefixtures("compiled_kernels")
def test_a_batch_that_is_refused_goes_the_next_way_and_the_others_do_not(folder: Path,
                                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    run, asked = load(folder), []
    decoder = run._decoder(run.config.decode, True, False)
    expected = decoder.search([np.array([5, 3])], [Beginning()], [0])

    def search(self: Any, sources: Any, prefixes: Any, numbers: Any) -> Any:
        asked.append(len(sources))
        if len(sources) > 1:
            raise Refusal("too many")
        return expected

    monkeypatch.setattr(type(decoder._made[decoder.route.decoder]), "search", search)
    both = decoder.search([np.array([5, 3]), np.array([5, 3])], [Beginning()] * 2, [0, 1])
    assert decoder.search([np.array([5, 3])], [Beginning()], [0]) == expected
    assert both == [*expected, *expected]
    assert asked == [2, 1]


@pytest.mark.usefixtures("compiled_kernels")
def test_an_engine_is_made_once_and_again_when_weights_have_changed() -> None:
    model, engines = build(ModelConfig(**SIZES), 40, 40, shared=True).eval(), Engines(is_held=True)
    first = engines.of(model, "fp32")
    assert engines.of(model, "fp32") is first
    assert engines.of(model, "bf16") is not first
    assert engines.of(model, "fp32") is first
    with torch.no_grad():
        model.output.weight.mul_(2)
    assert engines.of(model, "fp32") is not first


@pytest.mark.usefixtures("compiled_kernels")
def test_a_model_that_nobody_holds_is_not_compared() -> None:
    model, engines = build(ModelConfig(**SIZES), 40, 40, shared=True).eval(), Engines()
    first = engines.of(model, "fp32")
    assert engines.of(model, "fp32") is first
    engines.is_held = True  # handed out: what it was until now is not known
    second = engines.of(model, "fp32")
    assert second is not first
    assert engines.of(model, "fp32") is second


@pytest.mark.usefixtures("compiled_kernels")
def test_a_model_that_nobody_holds_is_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model, engines, looked = build(ModelConfig(**SIZES), 40, 40, shared=True).eval(), Engines(), list[object]()
    monkeypatch.setattr("pellucid.engine.obstacle.obstacle", looked.append)
    assert engines.of(model, "fp32") is engines.of(model, "fp32")
    assert looked == [model]
    use_kernels(torch.device("cpu"), False)  # what may change meanwhile is asked each time
    with pytest.raises(Refusal, match="the kernels are"):
        engines.of(model, "fp32")
    engines.is_held = True
    engines.of(model, "fp32")
    assert looked == [model, model]


@pytest.mark.usefixtures("compiled_kernels")
def test_a_model_changed_by_hand_is_decoded_as_it_is_now(folder: Path) -> None:
    run, texts = load(folder), ["1 2 3", "4 4"]
    first = run.generate(texts)
    run.model.output.weight.data.mul_(-1)  # torch counts no change of the parameter
    changed = run.generate(texts)
    assert changed != first
    request = Request(lambda: run._loaded(), search_options(run.config.decode), run.config.decode)
    ids = [np.array([*run.tokenizers.source.encode_batch([text])[0], EOS], dtype=np.int32) for text in texts]
    assert [one[0].tokens for one in PlainSteps(request).search(ids, [Beginning()] * 2, range(2))] == [
        one[0].tokens for one in Decoder(request).search(ids, [Beginning()] * 2, range(2))]
    run.model.output.weight.data.mul_(-1)
    assert run.generate(texts) == first


@pytest.mark.usefixtures("compiled_kernels")
def test_the_first_generate_may_be_inside_inference_mode(folder: Path) -> None:
    expected, run = load(folder).generate(["1 2 3"]), load(folder)
    assert run.model is not None  # so that weights are packed here
    with torch.inference_mode():
        assert run.generate(["1 2 3"]) == expected
    assert run.generate(["1 2 3"]) == expected
    run = load(folder)
    with torch.inference_mode():
        assert not any(parameter.is_inference() for parameter in run.model.parameters())  # it can be trained afterwards
        assert run.generate(["1 2 3"]) == expected
    assert run.generate(["1 2 3"]) == expected


@pytest.mark.usefixtures("compiled_kernels")
def test_threads_that_ask_at_once_share_an_engine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, made = load(folder), []
    assert run.model is not None
    before = Engine.__init__

    def noted(self: Engine, model: Any, precision: str) -> None:
        made.append(precision)
        before(self, model, precision)

    monkeypatch.setattr(Engine, "__init__", noted)
    start = Barrier(6)
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda _: (start.wait(), run.generate(["1 2 3"]))[1], range(6)))
    assert len(made) == 1
    assert all(one == found[0] for one in found)


@pytest.mark.usefixtures("compiled_kernels")
def test_a_copy_of_the_model_carries_no_engine(folder: Path) -> None:
    run = load(folder)
    before = len(pickle.dumps(run.model))
    expected = run.generate(["1 2 3"])
    copied = copy.deepcopy(run.model)
    for model in (run.model, copied):  # with each storage its address is written, which has more digits or fewer
        assert len(pickle.dumps(model)) == pytest.approx(before, rel=0.005)
    with torch.no_grad():
        copied.output.weight.zero_()
    assert run.generate(["1 2 3"]) == expected


@pytest.mark.usefixtures("compiled_kernels")
def test_in_bf16_the_model_decodes_as_its_own_steps_do(folder: Path) -> None:
    run = load(folder)
    run.model.bfloat16()
    assert run.route().decoder == "engine"
    assert np.isfinite(run.generate(["1 2 3"])[0].score)


@pytest.mark.usefixtures("compiled_kernels")
def test_the_reason_is_the_models_own() -> None:
    with pytest.raises(Refusal, match=r"weights are torch\.float64"):
        Engines().of(build(ModelConfig(**SIZES), 40, 40, shared=True).double(), "auto")
    with pytest.raises(Refusal, match="device is meta"):
        Engines().of(build(ModelConfig(**SIZES), 40, 40, shared=True).to("meta"), "auto")


def test_a_line_that_is_cut_is_told_with_its_number_and_what_is_lost(folder: Path) -> None:
    run = load(folder)
    long = " ".join("12345" * 4)
    with pytest.warns(PellucidWarning, match=r"than the 6 tokens .*: line 12 loses 15 of its 21 tokens, line 14 loses"):
        found = run.generate(["1 2", long, "", long, "1 2 3 4 5"], first=10)
    assert [one.cut for one in found] == [0, 15, 0, 15, 0]
    with pytest.warns(PellucidWarning, match=r"line 5 loses 15 of its 21 tokens, and 2 more$"):
        run.generate([long] * 7)
