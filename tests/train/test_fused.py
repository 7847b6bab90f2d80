"""What torch.compile is given to compile is the layers' equations, whole: nothing in them has to be left to Python."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from pellucid.config import ModelConfig
from pellucid.kernels import attention, dropout, gpu
from pellucid.model.build import build
from pellucid.nn.attention_pattern import AttentionPattern
from pellucid.train.fused import fused


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """As on a GPU, but that nothing is made of what is found: one entry for each graph, and an error where a layer is
    not one graph."""
    found: list[int] = []

    def note(graph: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        found.append(len(graph.graph.nodes))
        return graph.forward

    def compile_all(function: Callable[..., Any]) -> Callable[..., Any]:
        return torch.compile(function, dynamic=True, fullgraph=True, backend=note)

    torch.compiler.reset()
    monkeypatch.setattr(gpu, "_is_used", True)
    monkeypatch.setattr(gpu, "fused", compile_all)
    monkeypatch.setattr(dropout, "drop", torch.nn.functional.dropout)  # as a GPU does it
    monkeypatch.setattr(AttentionPattern, "grows", True)  # and does not look
    monkeypatch.setattr(attention, "_is_finite", lambda *tensors: True)
    return found


@pytest.mark.parametrize("options", [{}, {"position": "rotary", "norm": "rmsnorm", "feed_forward": "swiglu"},
                                     {"residual": "deepnorm", "feed_forward_dropout": 0.1},
                                     {"position": "t5", "attention_dropout": 0.1}], ids=str)
def test_all_layers_of_a_kind_are_one_graph_for_batches_of_any_size(options: dict[str, Any], graphs: list[int]) -> None:
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 24, "encoder_layers": 3, "decoder_layers": 2, "dropout": 0.1}
    model = build(replace(ModelConfig(), **{**sizes, **options}), 30, 30).train()
    plain = copy.deepcopy(model)
    for rows, source, target in ((3, 7, 9), (5, 12, 4), (4, 8, 8), (2, 30, 17)):
        ids = torch.randint(4, 30, (rows, source)), torch.randint(4, 30, (rows, target))
        real = torch.arange(source) < torch.arange(1, rows + 1)[:, None]
        logits = []
        for each in (model, plain):
            torch.manual_seed(3)
            with fused(each, 10**11 if each is model else 0):
                logits.append(each(*ids, real))
                logits[-1].square().sum().backward()
        torch.testing.assert_close(*logits)
    assert len(graphs) == 2
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)
    assert not any("forward" in module.__dict__ for module in model.modules())


def test_a_copy_made_meanwhile_has_its_own_weights(graphs: list[int]) -> None:
    model = build(replace(ModelConfig(), d_model=16, n_heads=2, d_ff=24, encoder_layers=1, decoder_layers=1), 30, 30)
    with fused(model, 10**11):
        made = copy.deepcopy(model).eval()
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    ids = torch.randint(4, 30, (2, 5))
    assert made(ids, ids).std() > 0
    assert not graphs
