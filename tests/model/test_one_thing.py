"""One option changes one thing: whatever two models have in common starts from the very same bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from pellucid.config import ModelConfig
from pellucid.model.build import (
    ATTENTIONS,
    FEED_FORWARDS,
    NORMS,
    POOLINGS,
    POSITIONS,
    RESIDUALS,
    build,
    build_classifier,
    build_reader,
)

V = 11
OPTIONS: list[dict[str, Any]] = [
    *({"position": name} for name in POSITIONS), *({"norm": name} for name in NORMS),
    *({"residual": name} for name in RESIDUALS), *({"feed_forward": name} for name in FEED_FORWARDS),
    *({"attention": name} for name in ATTENTIONS), *({"pooling": name} for name in POOLINGS),
    {"tie_embeddings": False}, {"n_heads": 1}, {"n_heads": 6}, {"d_key": 2}, {"d_ff": 64}, {"encoder_layers": 1},
    {"encoder_layers": 4}, {"decoder_layers": 1}, {"decoder_layers": 4}, {"window": 1}, {"max_length": 7},
    {"d_head": 5}, {"norm_epsilon": 1e-3}, {"embedding_norm": True}, {"biases": False}, {"output_bias": True},
    {"head_activation": "relu"}, {"dropout": 0.3}, {"attention_dropout": 0.3}, {"feed_forward_dropout": 0.3}]


def parameters(model: nn.Module) -> dict[str, torch.Tensor]:
    return dict(model.named_parameters())


def common(a: nn.Module, b: nn.Module) -> list[str]:
    ours, theirs = parameters(a), parameters(b)
    return [name for name in ours if name in theirs and ours[name].shape == theirs[name].shape]


@pytest.mark.parametrize("kind", ["transformer", "classifier"])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(f"{k}_{v}" for k, v in o.items()))
def test_what_two_models_share_is_bit_identical(options: dict[str, Any], kind: str, small: ModelConfig) -> None:
    def make(config: ModelConfig) -> nn.Module:
        return build(config, 9, V) if kind == "transformer" else build_classifier(config, V, 3)

    base, changed = make(small), make(replace(small, **options))
    names = common(base, changed)
    assert len(names) >= 20
    before, after = parameters(base), parameters(changed)
    for name in names:
        if options == {"residual": "deepnorm"} and name.split(".")[-2] in ("value", "output", "inner", "outer"):
            # DeepNorm is a smaller start too: the same draws, scaled.
            scale = after[name].norm() / before[name].norm() if before[name].any() else 1
            torch.testing.assert_close(after[name], scale * before[name], rtol=0, atol=1e-6)
        else:
            assert torch.equal(before[name], after[name]), name


@pytest.mark.parametrize(("options", "only"), [
    ({"position": "none"}, []), ({"position": "alibi"}, []), ({"position": "rotary"}, []),
    ({"position": "learned"}, ["position.table"]), ({"position": "t5"}, ["position.table"]),
    ({"position": "quadratic"}, ["position.centre", "position.sharpness"]),
    ({"position": "transformer_xl"}, ["position.projection.weight", "position.position_bias"]),
    ({"norm": "stdnorm"}, []), ({"norm": "rmsnorm"}, ["norm.bias"]), ({"norm": "none"}, ["norm.bias", "norm.gain"]),
    ({"residual": "post"}, ["closing_norm.gain", "closing_norm.bias"]), ({"feed_forward": "gelu"}, []),
    ({"feed_forward": "swiglu"}, ["gate.weight", "gate.bias", "inner.weight", "inner.bias", "outer.weight"]),
    ({"attention": "window"}, []), ({"attention": "linear"}, []), ({"tie_embeddings": False}, ["output.weight"]),
    ({"n_heads": 1}, []), ({"d_key": 2}, ["query.weight", "query.bias", "key.weight", "key.bias"]),
    ({"d_head": 5}, [f"{name}.{kind}" for name in ("query", "key", "value") for kind in ("weight", "bias")]
     + ["output.weight"]), ({"norm_epsilon": 1e-3}, []), ({"embedding_norm": True}, [
         "embedding_norm.gain", "embedding_norm.bias"]), ({"output_bias": True}, ["output_bias.bias"]),
    ({"biases": False}, [f"{name}.bias" for name in ("query", "key", "value", "output", "inner", "outer")])], ids=str)
def test_an_option_adds_and_removes_its_own_parameters_alone(options: dict[str, Any], only: list[str],
                                                             small: ModelConfig) -> None:
    base, changed = parameters(build(small, 9, V)), parameters(build(replace(small, **options), 9, V))
    different = {n for n in base.keys() | changed.keys()
                 if n not in base or n not in changed or base[n].shape != changed[n].shape}
    assert {n for n in different if not n.endswith(tuple(only) or ("nothing",))} == set()
    assert all(any(n.endswith(end) for n in different) for end in only)


@pytest.mark.parametrize("variant", ["gelu", "swiglu", "geglu"])
def test_feed_forward_variants_are_as_large_as_relu(variant: str) -> None:
    config = ModelConfig(d_model=64, n_heads=4, d_ff=256, encoder_layers=1, decoder_layers=1)
    plain, other = (sum(p.numel() for p in build(replace(config, feed_forward=name), V, V).parameters())
                    for name in ("relu", variant))
    assert other == pytest.approx(plain, rel=0.01)


def test_the_seed_decides_everything_that_is_drawn(small: ModelConfig) -> None:
    config = replace(small, position="t5", tie_embeddings=False)
    a, b, c = (parameters(build(config, 9, V, seed=seed)) for seed in (1, 1, 2))
    for name, value in a.items():
        assert torch.equal(value, b[name])
        assert torch.equal(value, c[name]) == (value.dim() == 1), name


def test_no_two_parameters_start_alike(small: ModelConfig) -> None:
    config = replace(small, position="transformer_xl", tie_embeddings=False)
    drawn = [p for name, p in parameters(build(config, 9, V)).items() if p.dim() > 1 and not name.endswith("bias")]
    firsts = {p.flatten()[0].item() / p.abs().max().item() for p in drawn}
    assert len(firsts) == len(drawn)


def test_torchs_own_seed_has_no_part_in_it(small: ModelConfig) -> None:
    torch.manual_seed(1)
    a = parameters(build(small, 9, V))
    torch.manual_seed(2)
    b = parameters(build(small, 9, V))
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_building_leaves_torchs_own_numbers_as_they_come(small: ModelConfig) -> None:
    before = torch.get_rng_state()
    build(small, 9, V)
    build_classifier(small, 9, 2)
    build_reader(small, 9, separator=3, unknown=1)
    assert torch.equal(torch.get_rng_state(), before)


def test_activations_begin_near_unit_scale(small: ModelConfig) -> None:
    """√d·E has variance 1 in front of both stacks, tied or not."""
    for tied in (True, False):
        model = build(replace(small, d_model=96, tie_embeddings=tied), 500, 500)
        for embedding in (model.source_embedding, model.target_embedding):
            assert embedding(torch.arange(500)[None]).std().item() == pytest.approx(1, rel=0.05)
