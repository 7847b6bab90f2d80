"""The assembled stacks against torch's, with copied weights: each layer, and the whole of nn.Transformer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.model.build import build
from pellucid.model.decoder import DecoderLayer
from pellucid.model.encoder import EncoderLayer
from pellucid.model.transformer import Transformer
from pellucid.nn.attention_pattern import causal, full, padding
from pellucid.nn.layer_norm import LayerNorm
from pellucid.nn.multi_head_attention import MultiHeadAttention

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")
Close = Callable[..., None]
Randomize = Callable[[nn.Module], nn.Module]
D, H, F_WIDTH, V = 12, 3, 20, 9
S, T = torch.arange(5), torch.arange(4)
REAL = torch.tensor([[True, True, True, True, True], [True, True, True, False, False]])
FUTURE = torch.ones(4, 4, dtype=torch.bool).triu(1)
STYLES = pytest.mark.parametrize(("residual", "activation"), [("post", "relu"), ("post", "gelu"), ("pre", "relu"),
                                                              ("pre", "gelu")])


def copy(ours: nn.Module, weight: Tensor, bias: Tensor) -> None:
    name = "gain" if isinstance(ours, LayerNorm) else "weight"
    with torch.no_grad():
        getattr(ours, name).copy_(weight)
        ours.bias.copy_(bias)


def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    joint = zip(theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3), strict=True)
    for linear, (weight, bias) in zip((ours.query, ours.key, ours.value), joint, strict=True):
        copy(linear, weight, bias)
    copy(ours.output, theirs.out_proj.weight, theirs.out_proj.bias)


def copy_layer(ours: nn.Module, theirs: nn.Module) -> None:
    copy_attention(ours.self_attention, theirs.self_attn)
    if isinstance(ours, DecoderLayer):
        copy_attention(ours.cross_attention, theirs.multihead_attn)
        copy(ours.residual_3.norm, theirs.norm3.weight, theirs.norm3.bias)
    copy(ours.feed_forward.inner, theirs.linear1.weight, theirs.linear1.bias)
    copy(ours.feed_forward.outer, theirs.linear2.weight, theirs.linear2.bias)
    copy(ours.residual_1.norm, theirs.norm1.weight, theirs.norm1.bias)
    copy(ours.residual_2.norm, theirs.norm2.weight, theirs.norm2.bias)


def copy_stacks(ours: Transformer, theirs: nn.Transformer) -> None:
    """All of nn.Transformer, which closes both stacks with a norm even in post-norm, where Figure 1 has none: ours gets
    that norm too, so that what is compared is all that torch computes."""
    for our_stack, their_stack in ((ours.encoder, theirs.encoder), (ours.decoder, theirs.decoder)):
        for our_layer, their_layer in zip(our_stack.layers, their_stack.layers, strict=True):
            copy_layer(our_layer, their_layer)
        if their_stack.norm is not None:
            our_stack.closing_norm = LayerNorm(D).to(their_stack.norm.weight.dtype)
            copy(our_stack.closing_norm, their_stack.norm.weight, their_stack.norm.bias)


def model(small: ModelConfig, residual: str, activation: str, dtype: torch.dtype) -> Transformer:
    config = replace(small, residual=residual, feed_forward=activation, position="none")
    return build(config, V, V, shared=True).to(dtype)


def arguments(residual: str, activation: str, dtype: torch.dtype) -> dict[str, object]:
    return {"d_model": D, "nhead": H, "dim_feedforward": F_WIDTH, "dropout": 0.0, "activation": activation,
            "batch_first": True, "norm_first": residual == "pre", "dtype": dtype}


def same_gradients(actual: Tensor, expected: Tensor, inputs: Iterable[Tensor], close: Close) -> None:
    inputs, upstream = tuple(inputs), torch.randn_like(actual)
    for a, e in zip(torch.autograd.grad(actual, inputs, upstream), torch.autograd.grad(expected, inputs, upstream),
                    strict=True):
        close(a, e, 2e-4 if a.dtype == torch.float32 else 0)


@STYLES
def test_the_encoder_layer(residual: str, activation: str, small: ModelConfig, dtype: torch.dtype, close: Close,
                           randomize: Randomize) -> None:
    ours = model(small, residual, activation, dtype).encoder.layers[0]
    assert isinstance(ours, EncoderLayer)
    theirs = randomize(nn.TransformerEncoderLayer(**arguments(residual, activation, dtype)))
    copy_layer(ours, theirs)
    x = torch.randn(2, 5, D, dtype=dtype, requires_grad=True)
    actual = ours(x, padding(S, S, REAL))
    expected = theirs(x, src_key_padding_mask=~REAL)
    close(actual, expected)
    same_gradients(actual, expected, [x], close)


@STYLES
def test_the_decoder_layer(residual: str, activation: str, small: ModelConfig, dtype: torch.dtype, close: Close,
                           randomize: Randomize) -> None:
    ours = model(small, residual, activation, dtype).decoder.layers[0]
    theirs = randomize(nn.TransformerDecoderLayer(**arguments(residual, activation, dtype)))
    copy_layer(ours, theirs)
    y = torch.randn(2, 4, D, dtype=dtype, requires_grad=True)
    memory = torch.randn(2, 5, D, dtype=dtype, requires_grad=True)
    actual = ours(y, memory, causal(T, T), padding(T, S, REAL))
    expected = theirs(y, memory, tgt_mask=FUTURE, memory_key_padding_mask=~REAL)
    close(actual, expected)
    same_gradients(actual, expected, [y, memory], close)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize(("residual", "final_norms"), [("post", True), ("post", False), ("pre", True)])
def test_the_whole_of_torchs_transformer(final_norms: bool, residual: str, activation: str, small: ModelConfig,
                                         dtype: torch.dtype, close: Close, randomize: Randomize) -> None:
    """With its final norms, and (post-norm as in Figure 1) without them."""
    ours = model(small, residual, activation, dtype)
    theirs = randomize(nn.Transformer(num_encoder_layers=2, num_decoder_layers=2,
                                      **arguments(residual, activation, dtype)))
    if not final_norms:
        theirs.encoder.norm = theirs.decoder.norm = None
    copy_stacks(ours, theirs)
    x = torch.randn(2, 5, D, dtype=dtype, requires_grad=True)
    y = torch.randn(2, 4, D, dtype=dtype, requires_grad=True)
    actual = ours.decoder(y, ours.encoder(x, padding(S, S, REAL)), causal(T, T), padding(T, S, REAL))
    expected = theirs(x, y, tgt_mask=FUTURE, src_key_padding_mask=~REAL, memory_key_padding_mask=~REAL)
    close(actual, expected)
    same_gradients(actual, expected, [x, y], close)


def test_pre_norm_stacks_end_with_a_norm_and_the_others_do_not(small: ModelConfig) -> None:
    for residual, closed in (("pre", True), ("post", False), ("deepnorm", False), ("none", False)):
        made = build(replace(small, residual=residual), V, V)
        for stack in (made.encoder, made.decoder):
            assert isinstance(stack.closing_norm, LayerNorm) == closed


@pytest.mark.parametrize("residual", ["post", "pre"])
def test_token_ids_to_logits(residual: str, small: ModelConfig, dtype: torch.dtype, close: Close,
                             randomize: Randomize) -> None:
    """Figure 1 from bottom to top: √D·E + PE, torch's stacks, and the product with Eᵀ."""
    ours = build(replace(small, residual=residual), V, V, shared=True).to(dtype)
    theirs = randomize(nn.Transformer(num_encoder_layers=2, num_decoder_layers=2, **arguments(residual, "relu", dtype)))
    copy_stacks(ours, theirs)
    source, target = torch.randint(V, (2, 5)), torch.randint(V, (2, 4))
    embeddings = ours.target_embedding.weight
    i = torch.arange(0, D, 2)
    angles = S[:, None] / 10_000 ** (i / D)
    sinusoids = torch.stack([angles.sin(), angles.cos()], -1).flatten(1).to(dtype)
    hidden = theirs(D**0.5 * embeddings[source] + sinusoids, D**0.5 * embeddings[target] + sinusoids[:4],
                    tgt_mask=FUTURE)
    close(ours(source, target), F.linear(hidden, embeddings), 1e-4 if dtype == torch.float32 else 1e-6)


def test_full_masks_say_the_same_as_none(small: ModelConfig, dtype: torch.dtype, close: Close) -> None:
    made = model(small, "pre", "relu", dtype)
    x = torch.randn(2, 5, D, dtype=dtype)
    close(made.encoder(x, full(S, S)), made.encoder(x, padding(S, S, torch.ones(2, 5, dtype=torch.bool))))
