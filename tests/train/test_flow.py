"""Gradient norms and update-to-weight ratios by part: cases computed by hand, and nothing left behind."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from pellucid.train.flow import part_of, watch


@pytest.mark.parametrize(("name", "part"), [
    ("encoder.layers.0.self_attention.query.weight", "encoder.layers.0"),
    ("decoder.layers.11.residual_3.norm.gain", "decoder.layers.11"),
    ("source_embedding.weight", "source_embedding"), ("encoder.closing_norm.gain", "encoder.closing_norm"),
    ("encoder.position.table", "encoder.position"), ("head_1.bias", "head_1")])
def test_the_part_of_a_parameter(name: str, part: str) -> None:
    assert part_of(name) == part


def two_parts() -> tuple[nn.ModuleDict, torch.optim.Optimizer]:
    """a: weights (0.3, 0.4), gradient (6, 8); b: a weight of 0, gradient 2. Plain descent at rate 0.1."""
    model = nn.ModuleDict({"a": nn.Linear(2, 1, bias=False), "b": nn.Linear(1, 1, bias=False)})
    with torch.no_grad():
        model["a"].weight.copy_(torch.tensor([[0.3, 0.4]]))
        model["b"].weight.zero_()
    model["a"].weight.grad = torch.tensor([[6.0, 8.0]])
    model["b"].weight.grad = torch.tensor([[2.0]])
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def test_norms_and_ratios_by_hand() -> None:
    model, optimizer = two_parts()
    with watch(model, optimizer) as flow:
        optimizer.step()
    assert flow.gradient_norms == pytest.approx({"a": 10.0, "b": 2.0})
    assert flow.update_ratios == pytest.approx({"a": 0.1 * 10 / 0.5})  # b had no length to compare with


def test_what_got_no_gradient_is_not_told_of() -> None:
    """A part that an update does not use stops no training, and is not said to stand still."""
    model, optimizer = two_parts()
    model["a"].weight.grad = None
    with watch(model, optimizer) as flow:
        optimizer.step()
    assert (flow.gradient_norms, flow.update_ratios) == ({"b": 2.0}, {})


def test_clipping_is_undone() -> None:
    model, optimizer = two_parts()
    whole = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
    assert whole == pytest.approx(math.sqrt(104))
    with watch(model, optimizer) as flow:
        optimizer.step()
    assert flow.gradient_norms["a"] < 1
    assert flow.before_clipping(whole, 1.0) == pytest.approx({"a": 10.0, "b": 2.0}, rel=1e-5)
    assert flow.before_clipping(whole, None) == flow.gradient_norms
    assert flow.before_clipping(0.5, 1.0) == flow.gradient_norms


def test_no_hook_stays_and_the_update_is_the_same() -> None:
    weights = []
    for watched in (True, False):
        model, optimizer = two_parts()
        if watched:
            with pytest.raises(KeyError), watch(model, optimizer):
                raise KeyError
            with watch(model, optimizer):
                optimizer.step()
        else:
            optimizer.step()
        assert not optimizer._optimizer_step_pre_hooks
        assert not optimizer._optimizer_step_post_hooks
        weights.append([p.detach().clone() for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*weights, strict=True))
