"""ModelConfig → model: the only file where strings become parts, and where impossible pairs are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from torch import nn

from pellucid.config import ModelConfig
from pellucid.model.classifier import Classifier, FirstPooling, MaxPooling, MeanPooling
from pellucid.model.decoder import Decoder, DecoderLayer
from pellucid.model.encoder import Encoder, EncoderLayer, Residual
from pellucid.model.transformer import Transformer
from pellucid.nn.dropout import Dropout
from pellucid.nn.embeddings import Embedding, OutputProjection
from pellucid.nn.feed_forward import ACTIVATIONS, FeedForward, GatedFeedForward
from pellucid.nn.initialization import initialize
from pellucid.nn.layer_norm import LayerNorm, NoNorm, RmsNorm, StdNorm
from pellucid.nn.linear_attention import LinearAttention
from pellucid.nn.multi_head_attention import MultiHeadAttention
from pellucid.nn.positional_encoding import (
    AlibiPosition,
    LearnedPosition,
    NoPosition,
    RotaryPosition,
    SinusoidalPosition,
    T5Position,
    TransformerXlPosition,
)
from pellucid.nn.residual_connection import NoResidual, PostNormResidual, PreNormResidual, deepnorm_scales
from pellucid.nn.scaled_dot_product_attention import ScaledDotProductAttention

Kernel = ScaledDotProductAttention | LinearAttention

# Each position: the class, for its declared door, and how one is made for self-attention in (bidirectional or causal)
# stacks.
POSITIONS: dict[str, tuple[type[NoPosition], Callable[[ModelConfig, bool], NoPosition]]] = {
    "none": (NoPosition, lambda m, both: NoPosition()),
    "sinusoidal": (SinusoidalPosition, lambda m, both: SinusoidalPosition(m.d_model)),
    "learned": (LearnedPosition, lambda m, both: LearnedPosition(m.d_model, m.max_length)),
    "rotary": (RotaryPosition, lambda m, both: RotaryPosition(_key_width(m))),
    "alibi": (AlibiPosition, lambda m, both: AlibiPosition(m.n_heads)),
    "t5": (T5Position, lambda m, both: T5Position(m.n_heads, both)),
    "transformer_xl": (TransformerXlPosition, lambda m, both: TransformerXlPosition(m.d_model, m.n_heads)),
}
NORMS: dict[str, Callable[[int], nn.Module]] = {"layernorm": LayerNorm, "rmsnorm": RmsNorm, "stdnorm": StdNorm,
                                                "none": NoNorm}
RESIDUALS: dict[str, Callable[[nn.Module, float, float], Residual]] = {
    "post": lambda norm, dropout, alpha: PostNormResidual(norm, dropout),
    "pre": lambda norm, dropout, alpha: PreNormResidual(norm, dropout),
    "deepnorm": PostNormResidual,
    "none": lambda norm, dropout, alpha: NoResidual(norm, dropout),
}
FEED_FORWARDS: dict[str, Callable[[int, int, float], nn.Module]] = {
    "relu": lambda d, f, p: FeedForward(d, f, ACTIVATIONS["relu"], p),
    "gelu": lambda d, f, p: FeedForward(d, f, ACTIVATIONS["gelu"], p),
    "swiglu": lambda d, f, p: GatedFeedForward(d, f, ACTIVATIONS["swish"], p),
    "geglu": lambda d, f, p: GatedFeedForward(d, f, ACTIVATIONS["gelu"], p),
}
# Each attention: who looks at whom (does the window hold), and the kernel that mixes.
ATTENTIONS: dict[str, tuple[bool, Callable[[float], Kernel]]] = {
    "full": (False, ScaledDotProductAttention),
    "window": (True, ScaledDotProductAttention),
    "linear": (False, lambda dropout: LinearAttention()),
}
POOLINGS: dict[str, Callable[[], nn.Module]] = {"mean": MeanPooling, "max": MaxPooling, "first": FirstPooling}


def build(config: ModelConfig, source_vocab: int, target_vocab: int, *, shared: bool = False,
          seed: int = 42) -> Transformer:
    """An encoder–decoder.

    Args:
        config: the architecture.
        source_vocab, target_vocab: rows of the embeddings.
        shared: source and target tokens are the same vocabulary, so that tying ties all three matrices.
        seed: of the initial weights.

    Raises:
        ValueError: an unknown name (the known ones are listed), or parts that do not go together.
    """
    check(config)
    if shared and source_vocab != target_vocab:
        raise ValueError(f"a shared vocabulary has one size, not {source_vocab} and {target_vocab}")
    encoder = Encoder([EncoderLayer(_self_attention(config, True), _feed_forward(config), _residual(config, "encoder"))
                       for _ in range(config.encoder_layers)], *_ends(config, True))
    decoder = Decoder([DecoderLayer(_self_attention(config, False), _attention(config, NoPosition()),
                                    _feed_forward(config), _residual(config, "decoder"))
                       for _ in range(config.decoder_layers)], *_ends(config, False))
    target = Embedding(target_vocab, config.d_model)
    source = target if shared and config.tie_embeddings else Embedding(source_vocab, config.d_model)
    output = target if config.tie_embeddings else OutputProjection(target_vocab, config.d_model)
    model = Transformer(encoder, decoder, source, target, output, _window(config))
    scales = deepnorm_scales(config.encoder_layers, config.decoder_layers)
    initialize(model, seed, lambda name: _gain(config, name, scales))
    return model


def build_classifier(config: ModelConfig, source_vocab: int, classes: int, *, seed: int = 42) -> Classifier:
    """An encoder with a pool and a head; arguments and errors as in `build`."""
    check(config)
    encoder = Encoder([EncoderLayer(_self_attention(config, True), _feed_forward(config), _residual(config, "alone"))
                       for _ in range(config.encoder_layers)], *_ends(config, True))
    model = Classifier(encoder, Embedding(source_vocab, config.d_model), POOLINGS[config.pooling](),
                       (config.d_model, classes), config.dropout, _window(config))
    scales = deepnorm_scales(config.encoder_layers, 0)
    initialize(model, seed, lambda name: _gain(config, name, scales))
    return model


def check(config: ModelConfig) -> None:
    """Refuses unknown names, and pairs of parts that cannot work together, before anything is built.

    Raises:
        ValueError: which key, what it is, what it could be.
    """
    _check_name("position", config.position, POSITIONS)
    _check_name("norm", config.norm, NORMS)
    _check_name("residual", config.residual, RESIDUALS)
    _check_name("feed_forward", config.feed_forward, FEED_FORWARDS)
    _check_name("attention", config.attention, ATTENTIONS)
    _check_name("pooling", config.pooling, POOLINGS)
    position_class, kernel = POSITIONS[config.position][0], ATTENTIONS[config.attention][1](0.0)
    if config.d_model % config.n_heads:
        raise ValueError(f"model.d_model {config.d_model} is not divisible by model.n_heads {config.n_heads}")
    if position_class.door == "bias" and not kernel.accepts_bias:
        raise ValueError(f"model.position {config.position} adds a bias to the scores, and model.attention "
                         f"{config.attention} has no scores to add it to")
    if position_class.door == "rotate" and not kernel.accepts_rotation:
        raise ValueError(f"model.position {config.position} turns queries and keys, and model.attention "
                         f"{config.attention} would lose the turn in its features")
    if config.attention_dropout and isinstance(kernel, LinearAttention):
        raise ValueError(f"model.attention {config.attention} has no weights for model.attention_dropout to drop")
    if position_class is RotaryPosition and _key_width(config) % 2:
        width = "d_model / n_heads" if config.d_key is None else "d_key"
        raise ValueError(f"model.position rotary turns pairs of features: {width} must be even, not "
                         f"{_key_width(config)}")
    if position_class is TransformerXlPosition and config.d_key is not None:
        raise ValueError("model.position transformer_xl has keys of its own, and no model.d_key")


def _key_width(config: ModelConfig) -> int:
    return config.d_model // config.n_heads if config.d_key is None else config.d_key


def _check_name(key: str, name: str, choices: Iterable[str]) -> None:
    if name not in choices:
        raise ValueError(f"model.{key} {name!r} is unknown; choose {', '.join(choices)}")


def _window(config: ModelConfig) -> int | None:
    return config.window if ATTENTIONS[config.attention][0] else None


def _attention(config: ModelConfig, position: NoPosition) -> MultiHeadAttention:
    kernel = ATTENTIONS[config.attention][1](config.attention_dropout)
    return MultiHeadAttention(config.d_model, config.n_heads, position, kernel, config.d_key)


def _self_attention(config: ModelConfig, bidirectional: bool) -> MultiHeadAttention:
    position_class, make = POSITIONS[config.position]
    inside = position_class.door in ("rotate", "bias")
    return _attention(config, make(config, bidirectional) if inside else NoPosition())


def _feed_forward(config: ModelConfig) -> nn.Module:
    return FEED_FORWARDS[config.feed_forward](config.d_model, config.d_ff, config.feed_forward_dropout)


def _residual(config: ModelConfig, stack: str) -> Callable[[], Residual]:
    if stack == "alone":
        alpha = deepnorm_scales(config.encoder_layers, 0)["encoder"][0]
    else:
        alpha = deepnorm_scales(config.encoder_layers, config.decoder_layers)[stack][0]
    return lambda: RESIDUALS[config.residual](NORMS[config.norm](config.d_model), config.dropout, alpha)


def _ends(config: ModelConfig, bidirectional: bool) -> tuple[NoPosition, nn.Module, nn.Module]:
    """What a stack begins and ends with: the embedding's position, the closing norm, the embedding's dropout."""
    position_class, make = POSITIONS[config.position]
    position = make(config, bidirectional) if position_class.door == "embed" else NoPosition()
    closes = _residual(config, "encoder")().needs_closing_norm
    return position, NORMS[config.norm](config.d_model) if closes else NoNorm(config.d_model), Dropout(config.dropout)


def _gain(config: ModelConfig, name: str, scales: dict[str, tuple[float, float]]) -> float:
    """DeepNorm's β for the matrices of values, outputs and feed-forward layers; 1 for all others."""
    stack = name.split(".", 1)[0]
    small = any(f".{part}." in name for part in ("value", "output", "feed_forward"))
    return scales[stack][1] if config.residual == "deepnorm" and stack in scales and small else 1.0
