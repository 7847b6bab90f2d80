"""What build makes of a configuration: shapes, counts, ties, scales, refusals."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
import torch

from pellucid.config import ModelConfig
from pellucid.errors import ConfigError
from pellucid.model.build import POSITIONS, build, build_classifier, check
from pellucid.nn.attention_pattern import full
from pellucid.nn.cross_entropy import linear_cross_entropy
from pellucid.nn.layer_norm import NoNorm
from pellucid.nn.residual_connection import PostNormResidual

V = 11


def count(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def test_parameters_counted_by_hand() -> None:
    config = ModelConfig(d_model=16, n_heads=2, d_ff=32, encoder_layers=1, decoder_layers=1, residual="post")
    attention = 4 * (16 * 16 + 16)  # 1088
    feed_forward = 16 * 32 + 32 + 32 * 16 + 16  # 1072
    norm = 2 * 16
    encoder = attention + feed_forward + 2 * norm  # 2224
    decoder = 2 * attention + feed_forward + 3 * norm  # 3344
    assert count(build(config, V, V, shared=True)) == encoder + decoder + V * 16 == 5744
    assert count(build(replace(config, residual="pre"), V, V, shared=True)) == 5744 + 2 * norm  # the closing norms
    assert count(build(config, 7, V)) == 5744 + 7 * 16
    assert count(build(replace(config, tie_embeddings=False), 7, V)) == 5744 + 7 * 16 + V * 16
    assert count(build(replace(config, norm="rmsnorm"), V, V, shared=True)) == 5744 - 5 * 16  # no bias
    assert count(build(replace(config, norm="none"), V, V, shared=True)) == 5744 - 5 * 32
    assert count(build(replace(config, position="learned", max_length=50), V, V, shared=True)) == 5744 + 2 * 50 * 16
    assert count(build(replace(config, position="t5"), V, V, shared=True)) == 5744 + 2 * 32 * 2
    assert count(build(replace(config, position="quadratic"), V, V, shared=True)) == 5744 + 2 * 2 * 2
    relative = 16 * 16 + 16  # W_R and what is left of v
    assert count(build(replace(config, position="transformer_xl"), V, V, shared=True)) == 5744 + 2 * relative
    head = 16 * 16 + 16 + 16 * 3 + 3
    assert count(build_classifier(config, V, 3)) == encoder + V * 16 + head


def test_the_papers_base_model_has_63_million_parameters() -> None:
    """Table 3: 65·10⁶ with a shared vocabulary of about 37,000; counted on no device at all."""
    config = ModelConfig(d_model=512, n_heads=8, d_ff=2048, encoder_layers=6, decoder_layers=6, residual="post")
    layers = 6 * (4 * (512 * 512 + 512)) * 3 + 12 * (2 * 512 * 2048 + 2048 + 512) + (6 * 2 + 6 * 3) * 1024
    assert count(build(config, 500, 500, shared=True)) == layers + 500 * 512
    assert layers + 37_000 * 512 == pytest.approx(63e6, rel=0.01)


@pytest.mark.parametrize("position", POSITIONS)
def test_a_model_is_of_torchs_default_type_throughout(position: str, default_type: torch.dtype) -> None:
    """As the modules of torch.nn are; a run is fp32, whatever the default."""
    model = build(ModelConfig(d_model=8, n_heads=2, d_ff=8, encoder_layers=1, decoder_layers=1, position=position),
                  V, V).eval()
    assert {tensor.dtype for tensor in (*model.parameters(), *model.buffers())} == {default_type}
    assert model(torch.tensor([[4, 5, 3]]), torch.tensor([[2, 6]])).dtype == default_type


def test_shared_and_tied_is_one_matrix() -> None:
    model = build(ModelConfig(d_model=8, n_heads=2, d_ff=8), V, V, shared=True)
    assert model.source_embedding is model.target_embedding is model.output
    names = [name for name, p in model.named_parameters() if p.shape == (V, 8)]
    assert names == ["source_embedding.weight"]


def test_tied_without_a_shared_vocabulary_is_two_matrices() -> None:
    model = build(ModelConfig(d_model=8, n_heads=2, d_ff=8), 7, V)
    assert model.target_embedding is model.output
    assert model.source_embedding.weight.shape == (7, 8)
    assert model.target_embedding.weight.shape == (V, 8)


@pytest.mark.parametrize("shared", [True, False])
def test_untied_is_three_matrices(shared: bool) -> None:
    model = build(ModelConfig(d_model=8, n_heads=2, d_ff=8, tie_embeddings=False), V, V, shared=shared)
    weights = [part.weight for part in (model.source_embedding, model.target_embedding, model.output)]
    assert len({weight.data_ptr() for weight in weights}) == 3
    assert all(not torch.equal(a, b) for a, b in combinations(weights, 2))


def test_a_tied_matrix_gets_the_gradient_of_all_its_uses() -> None:
    model = build(ModelConfig(d_model=8, n_heads=2, d_ff=8, dropout=0.0), V, V, shared=True)
    source, target = torch.tensor([[1, 2]]), torch.tensor([[3, 4]])
    model(source, target).square().sum().backward()
    gradient = model.output.weight.grad
    assert gradient is not None
    assert gradient.abs().sum(-1).gt(0).all()  # every row is a logit, and four of them are inputs too


@pytest.mark.parametrize("tied", [True, False])
def test_another_output_is_called(tied: bool) -> None:
    model = build(ModelConfig(d_model=8, n_heads=2, d_ff=8, tie_embeddings=tied), V, V).eval()
    hidden = torch.randn(2, 3, 8)
    torch.testing.assert_close(model.logits(hidden), hidden @ model.output.weight.T)
    other = torch.nn.Linear(8, V)
    model.register_module("output", other)
    assert torch.equal(model.logits(hidden), other(hidden))


def test_the_loss_is_the_cross_entropy_of_the_logits(dtype: torch.dtype, small: ModelConfig) -> None:
    model = build(small, V, V).to(dtype)
    source, target = torch.randint(V, (3, 4)), torch.randint(V, (3, 6))
    memory, positions = model.encode(source)
    hidden = model.decode(target[:, :-1], memory, positions)
    ours = linear_cross_entropy(hidden.flatten(0, 1), model.output.weight, target[:, 1:].flatten(), 0.1)
    logits = model(source, target[:, :-1]).flatten(0, 1)
    theirs = torch.nn.functional.cross_entropy(logits, target[:, 1:].flatten(), label_smoothing=0.1, reduction="sum")
    torch.testing.assert_close(ours, theirs, rtol=1e-5 if dtype == torch.float32 else 1e-11, atol=0)


@pytest.mark.parametrize(("layers", "stack", "alpha", "beta"), [
    ((6, 6), "encoder", 1.417938, 0.496989), ((6, 6), "decoder", 2.059767, 0.343295),  # figure 2, worked out by hand
    ((18, 6), "encoder", 0.81 * (18**4 * 6) ** (1 / 16), 0.87 * (18**4 * 6) ** (-1 / 16))])
def test_deepnorm_scales_the_stream_and_the_initial_weights(layers: tuple[int, int], stack: str, alpha: float,
                                                            beta: float) -> None:
    config = ModelConfig(d_model=8, n_heads=2, d_ff=16, encoder_layers=layers[0], decoder_layers=layers[1])
    plain, deep = (build(replace(config, residual=residual), V, V) for residual in ("post", "deepnorm"))
    alphas = [m.alpha for m in getattr(deep, stack).modules() if isinstance(m, PostNormResidual)]
    assert alphas == pytest.approx([alpha] * len(alphas), abs=1e-6)
    shrunk = ("value.weight", "output.weight", "inner.weight", "outer.weight")
    before = dict(getattr(plain, stack).named_parameters())
    for name, after in getattr(deep, stack).named_parameters():
        scale = beta if name.endswith(shrunk) else 1.0
        torch.testing.assert_close(after, scale * before[name], rtol=1e-5, atol=1e-8)


def test_a_deepnorm_classifier_has_the_scales_of_an_encoder_alone() -> None:
    config = ModelConfig(d_model=8, n_heads=2, d_ff=16, encoder_layers=2, decoder_layers=6)
    plain, deep = (build_classifier(replace(config, residual=r), V, 3) for r in ("post", "deepnorm"))
    assert deep.encoder.layers[0].residual_1.alpha == pytest.approx(math.sqrt(2))
    pairs = [(layer.encoder.layers[1].feed_forward.inner.weight) for layer in (plain, deep)]
    torch.testing.assert_close(pairs[1], 0.5 * pairs[0])
    assert torch.equal(plain.head_1.weight, deep.head_1.weight)


def test_no_norm_leaves_no_norm() -> None:
    model = build(ModelConfig(d_model=8, n_heads=2, d_ff=8, norm="none"), V, V)
    assert isinstance(model.encoder.closing_norm, NoNorm)
    assert not [name for name, _ in model.named_parameters() if "norm" in name]


@pytest.mark.parametrize("position", ["rotary", "alibi", "t5", "quadratic", "transformer_xl"])
def test_linear_attention_refuses_what_it_cannot_carry(position: str) -> None:
    for make in (build, build_classifier):
        with pytest.raises(ValueError, match=rf"model\.position {position}.*model\.attention linear"):
            make(ModelConfig(position=position, attention="linear"), V, V)


@pytest.mark.parametrize(("options", "match"), [
    ({"attention": "linear", "attention_dropout": 0.1}, r"model\.attention linear.*model\.attention_dropout"),
    ({"d_model": 10, "n_heads": 3}, r"model\.d_model 10.*model\.n_heads 3"),
    ({"position": "rotary", "d_model": 12, "n_heads": 4}, r"model\.position rotary.*n_heads must be even, not 3"),
    ({"position": "rotary", "d_key": 5}, r"model\.position rotary.*d_key must be even, not 5"),
    ({"position": "transformer_xl", "d_key": 4}, r"model\.position transformer_xl .* no model\.d_key")])
def test_impossible_pairs_name_both_keys(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        build(ModelConfig(**options), V, V)


@pytest.mark.parametrize("options", [
    {"n_heads": 0}, {"n_heads": -2}, {"encoder_layers": 0}, {"decoder_layers": -1}, {"window": -1},
    {"norm_epsilon": -1.0}, {"dropout": 1.0}, {"encoder_layers": 0, "residual": "deepnorm"},
    {"decoder_layers": 0, "residual": "deepnorm"}])
def test_a_number_out_of_range_is_named(options: dict[str, Any]) -> None:
    for make in (build, build_classifier):
        with pytest.raises(ConfigError, match=f"model.{next(iter(options))} is .*, out of range"):
            make(ModelConfig(**options), V, V)
    with pytest.raises(ConfigError, match="classes is 0, out of range"):
        build_classifier(ModelConfig(), V, 0)


@pytest.mark.parametrize(("key", "known"), [
    ("position", "none, sinusoidal, learned, rotary, alibi, t5, quadratic, transformer_xl"),
    ("norm", "layernorm, rmsnorm, stdnorm, none"), ("residual", "post, pre, deepnorm, none"),
    ("feed_forward", "relu, gelu, gelu_tanh, swish, swiglu, geglu, geglu_tanh"), ("attention", "full, window, linear"),
    ("pooling", "mean, max, first")])
def test_an_unknown_name_lists_the_known_ones(key: str, known: str) -> None:
    with pytest.raises(ValueError, match=f"model.{key} 'sideways' is unknown; choose {known}"):
        check(ModelConfig(**{key: "sideways"}))


def test_a_shared_vocabulary_has_one_size() -> None:
    with pytest.raises(ValueError, match="7 and 11"):
        build(ModelConfig(), 7, V, shared=True)


def test_t5_looks_both_ways_in_an_encoder_and_back_only_in_a_decoder() -> None:
    """All 32 buckets of a decoder are for what came before: 20 back is the 17th there, the 10th of 16 in an encoder."""
    config = ModelConfig(d_model=8, n_heads=2, d_ff=8, position="t5", encoder_layers=2, decoder_layers=2)
    model, classifier = build(config, V, V), build_classifier(config, V, 3)
    distances = torch.tensor([-20, 20])
    for layer in (*model.encoder.layers, *classifier.encoder.layers):
        assert layer.self_attention.position.bucket(distances).tolist() == [10, 26]
    for layer in model.decoder.layers:
        assert layer.self_attention.position.bucket(distances).tolist() == [17, 0]


@pytest.mark.parametrize("position", POSITIONS)
def test_cross_attention_does_not_know_where_anything_stands(position: str) -> None:
    model = build(ModelConfig(d_model=8, n_heads=2, d_ff=8, position=position), V, V)
    x, memory, pattern = torch.randn(2, 3, 8), torch.randn(2, 5, 8), full(torch.arange(3), torch.arange(5))
    for layer in model.decoder.layers:
        seen, reversed_ = (layer.cross_attention(x, each, pattern) for each in (memory, memory.flip(1)))
        torch.testing.assert_close(seen, reversed_)


@pytest.mark.parametrize("residual", ["pre", "post", "none"])
def test_an_encoder_decoder_may_have_no_decoder_layer(residual: str) -> None:
    config = ModelConfig(d_model=8, n_heads=2, d_ff=8, encoder_layers=1, decoder_layers=0, residual=residual)
    model = build(config, 9, 9)
    assert model(torch.tensor([[4, 5, 3]]), torch.tensor([[2, 4]])).isfinite().all()
