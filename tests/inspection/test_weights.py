"""What is told of weights: cases computed by hand, and what must hold of any."""

from __future__ import annotations

import math
from dataclasses import astuple, replace
from typing import Any

import pytest
import torch

from pellucid.config import ModelConfig
from pellucid.inspection.curves import flow
from pellucid.inspection.points import as_csv
from pellucid.inspection.weight_figures import hills, sizes
from pellucid.inspection.weight_section import gradient_ranges
from pellucid.inspection.weights import (
    as_points,
    by_part,
    drawn_parts,
    histograms,
    statistics,
    together,
    weights_of,
)
from pellucid.model.build import build
from pellucid.train.flow import part_of

MODEL = ModelConfig(d_model=12, n_heads=3, d_ff=8, encoder_layers=2, decoder_layers=1, position="t5")


def model() -> torch.nn.Module:
    return build(MODEL, source_vocab=20, target_vocab=20)


def test_a_matrix_by_hand() -> None:
    found = statistics(torch.tensor([[3.0, 0.0], [0.0, -4.0]]))
    shares = (3 / 7, 4 / 7)
    expected = (4, -0.25, math.sqrt(25 / 4 - 0.25 ** 2), -4.0, 3.0, 0.5, 5.0, 4.0,
                math.exp(-sum(share * math.log(share) for share in shares)))
    assert astuple(found) == pytest.approx(expected)


def test_the_effective_rank_counts_directions() -> None:
    turned = torch.linalg.qr(torch.randn(6, 6)).Q
    assert statistics(turned).effective_rank == pytest.approx(6, abs=1e-4)
    assert statistics(turned[:, :1] @ turned[:1]).effective_rank == pytest.approx(1, abs=1e-3)
    tall = torch.randn(9, 4)
    sigma = torch.linalg.svdvals(tall.double())
    expected = (sigma[0], torch.special.entr(sigma / sigma.sum()).sum().exp())
    for matrix in (tall, tall.T):
        found = statistics(matrix)
        assert (found.spectral_norm, found.effective_rank) == pytest.approx(tuple(map(float, expected)))
    assert statistics(3 * turned).spectral_norm == pytest.approx(3, abs=1e-4)


def test_of_a_normal_distribution_few_are_near_0_and_of_nothing_all() -> None:
    assert statistics(torch.randn(100_000)).near_zero == pytest.approx(0.008, abs=0.002)
    nothing = statistics(torch.zeros(3, 2))
    assert (nothing.near_zero, nothing.norm, nothing.spectral_norm, nothing.effective_rank) == (1, 0, 0, 0)


@pytest.mark.parametrize("weight", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_told_too(weight: float) -> None:
    found = statistics(torch.tensor([[1.0, weight], [0.0, 1.0]]))
    assert not math.isfinite(found.maximum)
    assert math.isnan(found.near_zero)
    assert found.spectral_norm is None


def test_a_part_is_what_its_parameters_are_together() -> None:
    parts = [torch.randn(5, 3), torch.ones(7), torch.zeros(2)]
    found, whole = together([statistics(one) for one in parts]), statistics(torch.cat([one.flatten() for one in parts]))
    of_whole = [value for name, value in vars(whole).items() if name != "near_zero"]
    assert [value for name, value in vars(found).items() if name != "near_zero"] == pytest.approx(of_whole)


@pytest.mark.parametrize("weight", [float("nan"), float("inf")])
def test_a_part_hides_no_weight_that_is_not_finite(weight: float) -> None:
    """Whichever of its parameters it is in."""
    good, bad = statistics(torch.tensor([1.0, 2.0])), statistics(torch.tensor([1.0, weight]))
    for parts in ([good, bad], [bad, good]):
        found = together(parts)
        assert [found.mean, found.maximum, found.norm] == pytest.approx([weight] * 3, nan_ok=True)
        assert found.minimum == pytest.approx(bad.minimum, nan_ok=True)
        assert math.isnan(found.deviation)
        assert math.isnan(found.near_zero)


def test_every_weight_is_told_once() -> None:
    found, parameters = weights_of(model()), dict(model().named_parameters())
    assert [one.name for one in found] == list(parameters)
    assert [one.shape for one in found] == [tuple(tensor.shape) for tensor in parameters.values()]
    assert sum(one.count for one in by_part(found).values()) == sum(tensor.numel() for tensor in parameters.values())
    lines = as_csv(as_points(found)).splitlines()
    assert lines[0].startswith("parameter,shape,count,mean,deviation,minimum,maximum,near_zero,norm,")
    assert len(lines) == len(found) + 1
    gain = next(line for line in lines if line.startswith("encoder.closing_norm.gain"))
    assert gain == "encoder.closing_norm.gain,12,12,1.0,0.0,1.0,1.0,0.0,3.4641016151377544,,"


def test_the_histograms_hold_matrices_alone_by_the_parts_that_gradients_have() -> None:
    made = model().requires_grad_(False)
    edges, matrices = histograms(made)
    assert [one.part for one in matrices if one.kind == "attention"] == [
        "encoder.layers.0", "encoder.layers.1", "decoder.layers.0"]
    assert {one.part for one in matrices} <= {part_of(name) for name, _ in made.named_parameters()}
    assert all(0.99 < float(one.shares.sum()) <= 1.0001 for one in matrices)
    first = matrices[[(one.part, one.kind) for one in matrices].index(("encoder.layers.0", "feed-forward"))]
    whole = torch.cat([tensor.flatten() for name, tensor in made.named_parameters()
                       if name.startswith("encoder.layers.0.feed_forward") and tensor.dim() == 2])
    assert first.size == pytest.approx(float(whole.square().mean().sqrt()))
    within = (whole >= edges[60]) & (whole < edges[61])
    assert float(first.shares[60]) == pytest.approx(float(within.double().mean()), abs=1e-6)


@pytest.mark.parametrize(("shared", "tied", "expected"), [
    (True, True, ["embedding = output projection"]),
    (False, True, ["source embedding", "target embedding = output projection"]),
    (False, False, ["source embedding", "target embedding", "output projection"])])
def test_a_matrix_is_drawn_with_all_that_it_serves(shared: bool, tied: bool, expected: list[str],
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Any] = []
    for place in ("weight_figures", "curves"):
        monkeypatch.setattr(f"pellucid.inspection.{place}.as_png", figures.append)
    made = build(replace(MODEL, tie_embeddings=tied), 20, 20, shared=shared)
    names, (edges, matrices) = drawn_parts(made), histograms(made)
    hills(edges, matrices, names)
    sizes(matrices, {}, names)
    norms = {part_of(name): 1.0 for name, _ in made.named_parameters()}
    flow([{"event": "train", "step": 1, "gradient_norms": norms}], "gradient_norms", "title", "unit", names)
    for figure in figures:
        drawn = [label.get_text() for label in figure.axes[0].get_yticklabels()]
        assert [name for name in drawn if " layer " not in name and "norm" not in name] == expected
        assert {"encoder layer 1", "encoder layer 2", "decoder layer 1"} < set(drawn)


def test_gradients_lie_between_their_percentiles() -> None:
    events = [{"event": "train", "step": step, "gradient_norms": {"encoder.layers.0": float(step)}}
              for step in range(101)]
    assert gradient_ranges(events) == {"encoder.layers.0": (10.0, 50.0, 90.0)}
    assert gradient_ranges([]) == {}
