"""Recorded steps with caches of a fixed size are the plain steps. What is recorded needs a GPU; what is launched does
not, and is launched here one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.engine import graphed_step
from pellucid.engine.engines import Engines
from pellucid.engine.graphed_step import GraphedStep, in_bf16
from pellucid.errors import NumericalError
from pellucid.kernels import gpu
from pellucid.model.build import build
from pellucid.model.stepper import TransformerStep
from pellucid.runs.decoder import Decoder, Request
from pellucid.search.options import SearchOptions, Specials
from pellucid.search.search import search

SMALL = ModelConfig(d_model=24, n_heads=3, d_ff=20, encoder_layers=2, decoder_layers=2, dropout=0.0, max_length=40)
SEARCHES = {"greedy": {"beam_size": 1}, "beam": {"beam_size": 3}, "n-best": {"beam_size": 4, "n_best": 2},
            "samples": {"beam_size": 1, "sample": True, "n_best": 3}, "one token": {"beam_size": 2, "max_length": 1}}


@pytest.fixture(autouse=True)
def launched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU nothing can be recorded: what would be is done each time."""
    monkeypatch.setattr(graphed_step, "_TARGET", 4)  # caches grow within these outputs
    monkeypatch.setattr(graphed_step, "_SOURCE", 8)
    if not torch.cuda.is_available():
        monkeypatch.setattr(graphed_step, "recorder", lambda: lambda function: function)


@pytest.mark.parametrize("options", SEARCHES.values(), ids=SEARCHES)
@pytest.mark.parametrize("position", ["sinusoidal", "rotary", "alibi", "t5"])
def test_every_search_finds_what_it_finds_by_plain_steps(
        options: dict[str, Any], position: str) -> None:
    model = build(replace(SMALL, position=position, output_bias=True), 30, 30).eval()
    for parameter in model.parameters():  # so that gains and biases show where they are missing
        parameter.data.add_(0.2 * torch.randn_like(parameter) + 0.05)
    model.output_bias.bias.data[Specials().eos] += 1.5  # they end here and there
    lengths, chosen = torch.tensor([7, 3, 11, 5, 1, 9]), SearchOptions(**{"max_length": 14, **options})
    source = torch.randint(4, 30, (6, 11))
    real = torch.arange(11) < lengths[:, None]
    found = [search(step, (source, real), 6, chosen, Specials()) for step in (
        TransformerStep(model), GraphedStep(model, "fp32", 1 if chosen.sample else chosen.beam_size))]
    for plain, graphed in zip(*found, strict=True):
        assert [each.tokens for each in plain] == [each.tokens for each in graphed]
        assert [each.score for each in plain] == pytest.approx([each.score for each in graphed], rel=1e-4)


def test_recorded_steps_are_kept_for_the_next_batch() -> None:
    step = GraphedStep(build(SMALL, 30, 30).eval(), "fp32", 1)
    options = SearchOptions(beam_size=1, max_length=14)
    for rows in (5, 8, 6):
        search(step, (torch.randint(4, 30, (rows, 7)), None), rows, options, Specials())
    assert {sizes[:2] for sizes in step._known} == {(8, 8)}


@pytest.mark.parametrize(("sentences", "left"), [(2, [1]), (4, [2]), (4, [0, 3]), (6, [1, 2, 5])])
def test_where_few_sentences_are_left_their_beams_see_their_sources(sentences: int, left: list[int]) -> None:
    """Their rows may be as many as the sentences were: then they move within the same memory."""
    model = build(SMALL, 30, 30).eval()
    source = torch.randint(4, 30, (sentences, 7))
    rows = torch.tensor(left, device="cpu").repeat_interleave(2)
    first, second = torch.randint(4, 30, (sentences,)), torch.randint(4, 30, (len(rows),))
    found = []
    with torch.no_grad():
        for step in (TransformerStep(model), GraphedStep(model, "fp32", 2)):
            state: Any = step.step(step.start((source, None)), first)[1]
            found.append(step.step(step.select(state, rows), second)[0].clone())
    torch.testing.assert_close(*found, atol=1e-5, rtol=1e-5)


def test_what_is_no_number_stays_in_its_own_batch() -> None:
    model = build(replace(SMALL, tie_embeddings=False), 30, 30).eval()
    model.source_embedding.weight.data[29] = model.target_embedding.weight.data[29] = torch.nan
    step, options = GraphedStep(model, "fp32", 2), SearchOptions(beam_size=2, max_length=9, min_length=8)

    def searched(*ids: int, begun: Sequence[int] = ()) -> Any:
        return search(step, (torch.tensor([ids]), None), 1, options, Specials(), [begun])[0][0].tokens

    expected = searched(5, 6, 7)
    with pytest.raises(NumericalError):
        searched(5, 29, 7, 8, 9, 10)
    assert searched(5, 6, 7) == expected
    with pytest.raises(NumericalError):
        searched(5, 6, 7, begun=[5, 6, 7, 8, 29])  # where the caches have grown
    assert searched(5, 6, 7) == expected


def test_a_copy_in_bf16_leaves_the_model_as_it_is() -> None:
    model = build(SMALL, 30, 30, shared=True)
    made = in_bf16(model)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert made.output.weight.dtype == torch.bfloat16
    assert made.target_embedding.weight.dtype == torch.float32
    assert torch.equal(made.output.weight.float(), model.output.weight.bfloat16().float())
    other = torch.nn.Linear(SMALL.d_model, 30)
    model.register_module("output", other)
    assert torch.equal(in_bf16(model).get_parameter("output.bias"), other.bias.bfloat16())


def test_steps_are_tried_before_they_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(SMALL, 30, 30).eval()
    assert GraphedStep(model, "fp32", 1).fault is None
    assert (in_half := GraphedStep(model, "bf16", 1)).fault is None
    assert in_half.model.output.weight.dtype == torch.bfloat16

    def once() -> Callable[[gpu.Launch], gpu.Launch]:
        def record(function: gpu.Launch) -> gpu.Launch:
            function()
            return lambda: None  # and nothing when it is launched
        return record

    def never() -> Callable[[gpu.Launch], gpu.Launch]:
        def record(function: gpu.Launch) -> gpu.Launch:
            raise RuntimeError("operation not permitted when stream is capturing\nsee more")
        return record

    def nothing() -> Callable[[gpu.Launch], gpu.Launch]:
        raise RuntimeError("no device")

    monkeypatch.setattr(graphed_step, "recorder", nothing)
    assert GraphedStep(model, "fp32", 1).fault == "nothing can be recorded here (no device)"
    monkeypatch.setattr(graphed_step, "recorder", once)
    assert GraphedStep(model, "fp32", 1).fault == "recorded steps give other logits"
    monkeypatch.setattr(graphed_step, "recorder", never)
    faulty = GraphedStep(model, "bf16", 1)
    assert faulty.fault == "a step cannot be recorded (operation not permitted when stream is capturing)"
    assert faulty.model is model  # whose copy nobody needs


def test_what_cannot_be_recorded_later_is_refused_and_plain_steps_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    model, engines = build(SMALL, 30, 30).eval(), Engines(is_held=True)
    request = Request(lambda: model, SearchOptions(beam_size=2, max_length=6), DecodeConfig(), engines=engines)
    sources = [np.array([5, 6, 7], np.int32)] * 3
    plain = Decoder(request).search(sources, [()] * 3, [0, 1, 2])
    monkeypatch.setattr(graphed_step, "against_recording", lambda model: None)
    decoder = Decoder(request)
    assert decoder.route.decoder == "graphed steps"

    def full(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(graphed_step, "Recorded", full)
    found = decoder.search(sources, [()] * 3, [0, 1, 2])
    assert [one[0].tokens for one in found] == [one[0].tokens for one in plain]


def test_what_is_kept_makes_room_for_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    step, options = GraphedStep(build(SMALL, 30, 30).eval(), "fp32", 1), SearchOptions(beam_size=1, max_length=3)

    def recorded(*arguments: Any, make: Any = graphed_step.Recorded) -> Any:
        if len(step._known) == 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return make(*arguments)

    monkeypatch.setattr(graphed_step, "Recorded", recorded)
    for rows in (1, 2, 4, 4):
        search(step, (torch.randint(4, 30, (rows, 7)), None), rows, options, Specials())
    assert [sizes[0] for sizes in step._known] == [4]


def test_who_decodes_takes_them_where_there_is_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    model, engines = build(SMALL, 30, 30).eval(), Engines(is_held=True)
    sources = [np.array([5, 6, 7], np.int32), np.array([8], np.int32)]

    def searched() -> tuple[str, list[list[int]]]:
        request = Request(lambda: model, SearchOptions(beam_size=2, max_length=6), DecodeConfig(), engines=engines)
        decoder = Decoder(request)
        found = decoder.search(sources, [(), ()], [0, 1])
        return decoder.route.decoder, [list(best[0].tokens) for best in found]

    (way, plain), seen = searched(), []
    assert way == "plain steps"
    monkeypatch.setattr(graphed_step, "against_recording", lambda model: None)
    monkeypatch.setattr(graphed_step.GraphedStep, "step", lambda self, *args, step=GraphedStep.step: (
        seen.append(self), step(self, *args))[1])
    assert searched() == searched() == ("graphed steps", plain)
    assert len({id(step) for step in seen}) == 1  # kept from call to call,
    torch.nn.init.normal_(model.target_embedding.weight)
    searched()
    assert len({id(step) for step in seen}) == 2  # as long as the model is what it was


@pytest.mark.parametrize(("change", "reason"), [
    (lambda model: None, None),
    (lambda model: model.double(), "not all weights are torch.float32"),
    (lambda model: model.encoder.register_forward_hook(print), "a module has a hook"),
    (lambda model: setattr(model.decoder, "position", Own()), "Own is not pellucid's")])
def test_models_that_cannot_be_recorded_are_known(change: Callable[[nn.Module], None], reason: str | None,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(SMALL, 30, 30)
    if not torch.cuda.is_available():
        assert graphed_step.against_recording(model) == "there is no GPU"
        monkeypatch.setattr(nn.Parameter, "is_cuda", True)
    monkeypatch.setattr(gpu, "_is_used", False)
    assert graphed_step.against_recording(model) == "the kernels are not loaded"
    monkeypatch.setattr(gpu, "_is_used", True)
    change(model)
    assert graphed_step.against_recording(model) == reason


class Own(nn.Module):
    """A part of somebody's own."""
