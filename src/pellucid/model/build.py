"""ModelConfig → model: the only file where strings become parts, and where impossible pairs are refused."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from pellucid import own
from pellucid.config import ModelConfig
from pellucid.config.checks import check_range, check_ranges
from pellucid.errors import ConfigError
from pellucid.model.classifier import Classifier, FirstPooling, MaxPooling, MeanPooling
from pellucid.model.decoder import Decoder, DecoderLayer
from pellucid.model.encoder import Encoder, EncoderLayer
from pellucid.model.reader import MARKS, Reader
from pellucid.model.transformer import Transformer
from pellucid.nn.dropout import Dropout
from pellucid.nn.embeddings import Embedding, NoOutputBias, OutputBias, OutputProjection
from pellucid.nn.feed_forward import ACTIVATIONS, FeedForward, GatedFeedForward
from pellucid.nn.initialization import initialize
from pellucid.nn.layer_norm import LayerNorm, NoNorm, RmsNorm, StdNorm
from pellucid.nn.linear_attention import LinearAttention
from pellucid.nn.multi_head_attention import AttentionFunction, MultiHeadAttention
from pellucid.nn.positional_encoding import (
    AlibiPosition,
    Door,
    LearnedPosition,
    NoPosition,
    Position,
    QuadraticPosition,
    RotaryPosition,
    SinusoidalPosition,
    T5Position,
    TransformerXlPosition,
    doors_of,
)
from pellucid.nn.residual_connection import (
    UNSCALED,
    NoResidual,
    PostNormResidual,
    PreNormResidual,
    Residual,
    deepnorm_decoder,
    deepnorm_encoder,
)
from pellucid.nn.scaled_dot_product_attention import ScaledDotProductAttention

Kind = TypeVar("Kind")
Make = TypeVar("Make")


class Choice(NamedTuple, Generic[Kind, Make]):
    """A part that has a name: its class, for what that declares, and how one is made."""

    kind: Kind
    make: Make


# Positions are made for self-attention in (bidirectional or causal) stacks.
POSITIONS: dict[str, Choice[type[Position], Callable[[ModelConfig, bool], Position]]] = {
    "none": Choice(NoPosition, lambda m, both: NoPosition()),
    "sinusoidal": Choice(SinusoidalPosition, lambda m, both: SinusoidalPosition(m.d_model)),
    "learned": Choice(LearnedPosition, lambda m, both: LearnedPosition(m.d_model, m.max_length)),
    "rotary": Choice(RotaryPosition, lambda m, both: RotaryPosition(m.key_width)),
    "alibi": Choice(AlibiPosition, lambda m, both: AlibiPosition(m.n_heads)),
    "t5": Choice(T5Position, lambda m, both: T5Position(m.n_heads, both)),
    "quadratic": Choice(QuadraticPosition, lambda m, both: QuadraticPosition(m.n_heads, both)),
    "transformer_xl": Choice(TransformerXlPosition, lambda m, both: TransformerXlPosition(m.d_model, m.n_heads))}
NORMS: dict[str, Callable[[int], nn.Module]] = {"layernorm": LayerNorm, "rmsnorm": RmsNorm, "stdnorm": StdNorm,
                                                "none": NoNorm}
RESIDUALS: dict[str, Choice[type[Residual], Callable[[nn.Module, float, float], Residual]]] = {
    "post": Choice(PostNormResidual, PostNormResidual),
    "pre": Choice(PreNormResidual, lambda norm, dropout, alpha: PreNormResidual(norm, dropout)),
    "deepnorm": Choice(PostNormResidual, PostNormResidual),
    "none": Choice(NoResidual, lambda norm, dropout, alpha: NoResidual(norm, dropout))}
FEED_FORWARDS: dict[str, Callable[[int, int, float], nn.Module]] = {
    "relu": lambda d, f, p: FeedForward(d, f, ACTIVATIONS["relu"], p),
    "gelu": lambda d, f, p: FeedForward(d, f, ACTIVATIONS["gelu"], p),
    "gelu_tanh": lambda d, f, p: FeedForward(d, f, ACTIVATIONS["gelu_tanh"], p),
    "swish": lambda d, f, p: FeedForward(d, f, ACTIVATIONS["swish"], p),
    "swiglu": lambda d, f, p: GatedFeedForward(d, f, ACTIVATIONS["swish"], p),
    "geglu": lambda d, f, p: GatedFeedForward(d, f, ACTIVATIONS["gelu"], p),
    "geglu_tanh": lambda d, f, p: GatedFeedForward(d, f, ACTIVATIONS["gelu_tanh"], p)}
ATTENTIONS: dict[str, Choice[type[AttentionFunction], Callable[[float], AttentionFunction]]] = {
    "full": Choice(ScaledDotProductAttention, ScaledDotProductAttention),
    "window": Choice(ScaledDotProductAttention, ScaledDotProductAttention),
    "linear": Choice(LinearAttention, lambda dropout: LinearAttention())}
_DECLARED = {"attention": ("accepts_bias", "accepts_rotation", "weights"), "residual": ("needs_closing_norm",)}
WINDOWED = {"window"}  # those that do not look everywhere
HEAD_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, **ACTIVATIONS}
POOLINGS: dict[str, Callable[[], nn.Module]] = {"mean": MeanPooling, "max": MaxPooling, "first": FirstPooling}
PARTS: dict[str, dict[str, Any]] = {"position": POSITIONS, "norm": NORMS, "residual": RESIDUALS, "pooling": POOLINGS,
                                    "attention": ATTENTIONS, "feed_forward": FEED_FORWARDS}
SHIPPED = frozenset((part, name) for part, known in PARTS.items() for name in known)


def register(part: str, name: str, kind: type[nn.Module]) -> None:
    """Makes a class of one's own a part that a configuration can name: ``model.position: triangle``.

    Args:
        part: position, norm, residual, attention, feed_forward or pooling.
        name: under which it is known from now on; a second class of one's own takes the place of the first.
        kind: made as ``kind(config, bidirectional)`` for a position, ``kind(d_model)`` for a norm, ``kind(norm,
            dropout, alpha)`` for a residual, ``kind(dropout)`` for an attention, ``kind(d_model, d_ff, dropout)`` for a
            feed-forward layer, and ``kind()`` for a pooling. docs/own-parts.md says what each is asked for.

    Raises:
        ConfigError (a ValueError): no such part, the name of one that ships, a class that lacks what is asked for.
    """
    if part not in PARTS:
        raise ConfigError(f"there is no part {part!r}", where="register", fix=f"choose {', '.join(PARTS)}")
    if (part, name) in SHIPPED:
        raise ConfigError(f"model.{part} {name!r} ships with pellucid", where="register", fix="give another name")
    base = Position if part == "position" else nn.Module
    lacks = [each for each in _DECLARED.get(part, ()) if not hasattr(kind, each)]
    if not (isinstance(kind, type) and issubclass(kind, base)) or lacks:
        raise ConfigError(f"this cannot be a {part}: {getattr(kind, '__name__', kind)}", where="register",
                          why=f"it does not declare {', '.join(lacks)}" if lacks else f"it is no {base.__name__}")
    if part == "position" and len(opened := doors_of(kind)) != 1:
        raise ConfigError(f"this cannot be a position: {kind.__name__}", where="register",
                          why=f"it has {' and '.join(opened) or 'none'} of embed, rotate and bias, where one is wanted")
    PARTS[part][name] = Choice(kind, kind) if part in ("position", "residual", "attention") else kind
    own.note(part, name, kind)


@torch.random.fork_rng(devices=())
def build(config: ModelConfig, source_vocab: int, target_vocab: int, *, shared: bool = False,
          seed: int = 42) -> Transformer:
    """An encoder–decoder, its weights of torch's default type, as those of torch.nn.

    Args:
        config: the architecture.
        source_vocab, target_vocab: rows of the embeddings.
        shared: source and target tokens are the same vocabulary, so that tying ties all three matrices.
        seed: of the initial weights.

    Raises:
        ConfigError (a ValueError): an unknown name, a number out of range, or parts that do not go together.
    """
    check(config)
    if shared and source_vocab != target_vocab:
        raise ValueError(f"a shared vocabulary has one size, not {source_vocab} and {target_vocab}")
    n, m, is_deep = config.encoder_layers, config.decoder_layers, config.residual == "deepnorm"
    of_encoder, of_decoder = (deepnorm_encoder(n, m), deepnorm_decoder(m)) if is_deep else (UNSCALED, UNSCALED)
    encoder, decoder = _encoder(config, of_encoder.alpha), _decoder(config, of_decoder.alpha)
    target = Embedding(target_vocab, config.d_model)
    source = target if shared and config.tie_embeddings else Embedding(source_vocab, config.d_model)
    output = target if config.tie_embeddings else OutputProjection(target_vocab, config.d_model)
    bias = OutputBias(target_vocab) if config.output_bias else NoOutputBias()
    model = Transformer(encoder, decoder, source, target, output, bias, _window(config))
    initialize(model, seed, _gains(encoder, of_encoder.beta) | _gains(decoder, of_decoder.beta))
    return model


@torch.random.fork_rng(devices=())
def build_classifier(config: ModelConfig, source_vocab: int, classes: int, *, seed: int = 42) -> Classifier:
    """An encoder with a pool and a head; arguments and errors as in `build`."""
    check_range("classes", classes, (1, float("inf")))
    encoder, gains = _lone_encoder(config)
    model = Classifier(encoder, Embedding(source_vocab, config.d_model), POOLINGS[config.pooling](), classes,
                       HEAD_ACTIVATIONS[config.head_activation], config.dropout, _window(config))
    initialize(model, seed, gains)
    return model


@torch.random.fork_rng(devices=())
def build_reader(config: ModelConfig, source_vocab: int, *, separator: int, unknown: int, seed: int = 42) -> Reader:
    """An encoder that scores where answers start and end; arguments and errors as in `build` and `Reader`."""
    encoder, gains = _lone_encoder(config)
    embedding, marks = Embedding(source_vocab, config.d_model), Embedding(MARKS, config.d_model)
    model = Reader(encoder, embedding, marks, separator, unknown, _window(config))
    initialize(model, seed, gains)
    return model


def check(config: ModelConfig) -> None:
    """Refuses unknown names, numbers out of range, but no layer and no window, and parts that cannot work together.

    Raises:
        ConfigError: which key, what it is, what it could be.
    """
    for part, known in (PARTS | {"head_activation": HEAD_ACTIVATIONS}).items():
        _check_name(part, getattr(config, part), known)
    check_ranges({f"model.{key}": value for key, value in asdict(config).items()
                  if value or (key != "window" and (key != "decoder_layers" or config.residual == "deepnorm"))})
    position, attention = POSITIONS[config.position].kind, ATTENTIONS[config.attention].kind
    if config.d_model % config.n_heads and config.d_head is None:
        raise _refusal(f"model.d_model {config.d_model} is not divisible by model.n_heads {config.n_heads}")
    if position.door == "bias" and not attention.accepts_bias:
        raise _refusal(f"model.position {config.position} adds a bias to the scores, and model.attention "
                       f"{config.attention} has no scores to add it to")
    if position.door == "rotate" and not attention.accepts_rotation:
        raise _refusal(f"model.position {config.position} turns queries and keys, and model.attention "
                       f"{config.attention} would lose the turn in its features")
    if config.attention_dropout and attention is LinearAttention:
        raise _refusal(f"model.attention {config.attention} has no weights for model.attention_dropout to drop")
    if position is RotaryPosition and config.key_width % 2:
        width = "d_key" if config.d_key is not None else "d_model / n_heads" if config.d_head is None else "d_head"
        raise _refusal(f"model.position rotary turns pairs of features: {width} must be even, not {config.key_width}")
    if position is TransformerXlPosition and (config.d_key, config.d_head) != (None, None):
        raise _refusal("model.position transformer_xl has keys of its own, and no model.d_key or model.d_head")
    if position is TransformerXlPosition and not config.biases:
        raise _refusal("model.position transformer_xl takes the biases of queries for its u, and model.biases is false")
    if config.embedding_norm and config.norm == "none":
        raise _refusal("model.norm none leaves nothing for model.embedding_norm to normalise with")
    if config.norm_epsilon is not None and not hasattr(NORMS[config.norm], "epsilon"):
        raise _refusal(f"model.norm {config.norm} has no ε for model.norm_epsilon to be")


def _refusal(what: str) -> ConfigError:
    return ConfigError(what, where="model")


def _check_name(key: str, name: str, choices: Iterable[str]) -> None:
    if name not in choices:
        raise ConfigError(f"model.{key} {name!r} is unknown; choose {', '.join(choices)}", where="model",
                          fix="correct it; or is it a part of your own? Then --import the file that registers it")


def _window(config: ModelConfig) -> int | None:
    return config.window if config.attention in WINDOWED else None


def _encoder(config: ModelConfig, alpha: float) -> Encoder:
    layers = [EncoderLayer(_self_attention(config, bidirectional=True), _feed_forward(config), _residual(config, alpha))
              for _ in range(config.encoder_layers)]
    return Encoder(_with_biases(layers, config), _position(config, bidirectional=True, doors=("embed",)),
                   _closing_norm(config), Dropout(config.dropout), _embedding_norm(config))


def _lone_encoder(config: ModelConfig) -> tuple[Encoder, dict[nn.Module, float]]:
    """An encoder without a decoder, and the β of its parts."""
    check(config)
    scales = deepnorm_encoder(config.encoder_layers, 0) if config.residual == "deepnorm" else UNSCALED
    encoder = _encoder(config, scales.alpha)
    return encoder, _gains(encoder, scales.beta)


def _decoder(config: ModelConfig, alpha: float) -> Decoder:
    layers = [DecoderLayer(_self_attention(config, bidirectional=False), _attention(config, NoPosition()),
                           _feed_forward(config), _residual(config, alpha)) for _ in range(config.decoder_layers)]
    return Decoder(_with_biases(layers, config), _position(config, bidirectional=False, doors=("embed",)),
                   _closing_norm(config), Dropout(config.dropout), _embedding_norm(config))


def _with_biases(layers: Sequence[nn.Module], config: ModelConfig) -> Sequence[nn.Module]:
    """The layers, and the biases of their projections where there should be some."""
    for layer in layers if not config.biases else ():
        for module in layer.modules():
            if isinstance(module, nn.Linear):
                module.register_parameter("bias", None)
    return layers


def _position(config: ModelConfig, bidirectional: bool, doors: tuple[Door, ...]) -> Position:
    """The configured one where it opens one of these doors, else none."""
    choice = POSITIONS[config.position]
    return choice.make(config, bidirectional) if choice.kind.door in doors else NoPosition()


def _self_attention(config: ModelConfig, bidirectional: bool) -> MultiHeadAttention:
    return _attention(config, _position(config, bidirectional, ("rotate", "bias")))


def _attention(config: ModelConfig, position: Position) -> MultiHeadAttention:
    attention = ATTENTIONS[config.attention].make(config.attention_dropout)
    return MultiHeadAttention(config.d_model, config.n_heads, position, attention, config.d_key, config.d_head)


def _feed_forward(config: ModelConfig) -> nn.Module:
    return FEED_FORWARDS[config.feed_forward](config.d_model, config.d_ff, config.feed_forward_dropout)


def _residual(config: ModelConfig, alpha: float) -> Callable[[], Residual]:
    make = RESIDUALS[config.residual].make
    return lambda: make(_norm(config), config.dropout, alpha)


def _norm(config: ModelConfig) -> nn.Module:
    norm = NORMS[config.norm](config.d_model)
    if config.norm_epsilon is not None:
        setattr(norm, "epsilon", config.norm_epsilon)  # noqa: B010  # `check` has seen that it has one
    return norm


def _closing_norm(config: ModelConfig) -> nn.Module:
    return _norm(config) if RESIDUALS[config.residual].kind.needs_closing_norm else NoNorm(config.d_model)


def _embedding_norm(config: ModelConfig) -> nn.Module:
    return _norm(config) if config.embedding_norm else NoNorm(config.d_model)


def _gains(stack: Encoder | Decoder, beta: float) -> dict[nn.Module, float]:
    """β for the values, outputs and feed-forward layers of a stack."""
    small: list[nn.Module] = [m for layer in stack.stack() for m in layer.feed_forward.modules()]
    small += [part for m in stack.modules() if isinstance(m, MultiHeadAttention) for part in (m.value, m.output)]
    return dict.fromkeys(small, beta)
