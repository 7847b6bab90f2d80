"""Which models the engine knows: those that `model/build.py` assembles, as long as nobody has put anything else in.

Whatever is not listed here is an obstacle: a module of another class in the place of a part, a hook, a method or a
weight put on one object, sizes that do not fit each other. The plain steps then decode, and say what is wrong where
something is.
"""

import functools
from collections.abc import Iterator
from itertools import chain

from torch import Tensor, nn
from torch.nn.modules import module as modules

from pellucid.engine.layout import LANES
from pellucid.engine.program import ACTIVATIONS, NORMS
from pellucid.kernels import calls
from pellucid.kernels.compiled import chosen
from pellucid.model.decoder import Decoder, DecoderLayer
from pellucid.model.encoder import Encoder, EncoderLayer
from pellucid.model.transformer import Transformer
from pellucid.nn.dropout import Dropout
from pellucid.nn.embeddings import Embedding, NoOutputBias, OutputBias, OutputProjection
from pellucid.nn.feed_forward import FeedForward, GatedFeedForward
from pellucid.nn.multi_head_attention import MultiHeadAttention
from pellucid.nn.positional_encoding import (
    AlibiPosition,
    LearnedPosition,
    NoPosition,
    Position,
    QuadraticPosition,
    RotaryPosition,
    SinusoidalPosition,
    T5Position,
    TransformerXlPosition,
)
from pellucid.nn.residual_connection import NoResidual, PostNormResidual, PreNormResidual
from pellucid.nn.scaled_dot_product_attention import ScaledDotProductAttention

_Kinds = tuple[type[nn.Module], ...]
_NORM: _Kinds = tuple(NORMS)
_RESIDUAL: _Kinds = (PreNormResidual, PostNormResidual, NoResidual)
_STACK: dict[str, _Kinds] = {"position": (NoPosition, SinusoidalPosition, LearnedPosition), "dropout": (Dropout,),
                             "closing_norm": _NORM, "embedding_norm": _NORM}
_LAYER: dict[str, _Kinds] = {"self_attention": (MultiHeadAttention,), "feed_forward": (FeedForward, GatedFeedForward),
                             "residual_1": _RESIDUAL, "residual_2": _RESIDUAL}
_CONNECTION: dict[str, _Kinds] = {"norm": _NORM, "dropout": (Dropout,)}
_PROJECTIONS: dict[str, _Kinds] = {"inner": (nn.Linear,), "outer": (nn.Linear,), "dropout": (Dropout,)}
_PARTS: dict[type[nn.Module], dict[str, _Kinds]] = {
    Transformer: {"encoder": (Encoder,), "decoder": (Decoder,), "source_embedding": (Embedding,),
                  "target_embedding": (Embedding,), "output": (Embedding, OutputProjection),
                  "output_bias": (NoOutputBias, OutputBias)},
    Encoder: _STACK | {"layers": (EncoderLayer,)},
    Decoder: _STACK | {"layers": (DecoderLayer,)},
    EncoderLayer: _LAYER,
    DecoderLayer: _LAYER | {"cross_attention": (MultiHeadAttention,), "residual_3": _RESIDUAL},
    MultiHeadAttention: dict.fromkeys(("query", "key", "value", "output"), (nn.Linear,)) | {
        "position": (NoPosition, RotaryPosition, AlibiPosition, T5Position, QuadraticPosition,
                     TransformerXlPosition),
        "function": (ScaledDotProductAttention,)},
    TransformerXlPosition: {"sinusoids": (SinusoidalPosition,), "projection": (nn.Linear,)},
    ScaledDotProductAttention: {"dropout": (Dropout,)},
    FeedForward: _PROJECTIONS,
    GatedFeedForward: _PROJECTIONS | {"gate": (nn.Linear,)},
    **dict.fromkeys(_RESIDUAL, _CONNECTION)}


def obstacle(model: Transformer) -> str | None:
    """Why the engine cannot decode with this model, or None if it can."""
    if type(model) is not Transformer:
        return f"the model is a {type(model).__name__}"
    return next(chain(_of_weights(model), _of_now(model), _of_parts(model, "the model"), _of_sizes(model)), None)


def obstacle_now(model: Transformer) -> str | None:
    """The same of a model that had none, and has not changed since."""
    return next(_of_now(model), None)


def _of_weights(model: Transformer) -> Iterator[str]:
    """Where they are, and how they are typed."""
    weights = [*model.parameters(), *model.buffers()]
    for device in {weight.device.type for weight in weights} - {"cpu"}:
        yield f"the device is {device}"
    types = {weight.dtype for weight in weights}
    if len(types) > 1:
        yield f"the weights are of several types: {', '.join(sorted(map(str, types)))}"
    for dtype in types - calls.SUFFIX.keys():
        yield f"the weights are {dtype}"


def _of_now(model: Transformer) -> Iterator[str]:
    """What the process has for any model of these weights, or does with all."""
    if not calls.serve(model.output.weight):
        yield f"the kernels are {chosen() or 'not loaded'}"
    if modules._global_forward_hooks or modules._global_forward_pre_hooks:
        yield "all modules have a hook"


def _of_parts(module: nn.Module, name: str) -> Iterator[str]:
    """What is in the place of a part, or on one, that is not in `_PARTS`."""
    if module._forward_hooks or module._forward_pre_hooks:
        yield f"{name} has a hook"
    if changed := vars(module).keys() & _methods(type(module)):  # type: ignore[arg-type]  # a class can be hashed
        yield f"{name} has a {min(changed)} of its own"
    if any(isinstance(value, Tensor) for value in vars(module).values()):
        yield f"{name} has a weight that is no parameter"
    for role, part in _parts(module):
        if type(part) not in _PARTS.get(type(module), {}).get(role, ()):
            kind = type(part).__name__
            yield (f"positions are {kind}" if role == "position" else f"attention is {kind}" if role == "function" else
                   f"its {role} is {kind}")
        yield from _of_parts(part, role)


def _parts(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The modules right below, those of a list one by one."""
    for role, part in module._modules.items():
        for each in part if type(part) is nn.ModuleList else [part]:
            yield role, each  # type: ignore[misc]  # None, which is no part


@functools.cache
def _methods(kind: type[nn.Module]) -> frozenset[str]:
    return frozenset(name for name in dir(kind) if callable(getattr(kind, name)))


def _of_sizes(model: Transformer) -> Iterator[str]:
    """What the kernels do not check, and those that they do not have."""
    width = model.output.weight.shape[-1]
    if width % LANES:
        yield f"the width of the model is no multiple of {LANES}"
    if model.window_size is not None and model.window_size < 0:
        yield "the window of attention is closed"
    if len(model.output.weight) > len(model.target_embedding.weight):
        yield "the output has more words than the target embedding"
    if isinstance(model.output_bias, OutputBias) and model.output_bias.bias.shape != model.output.weight.shape[:1]:
        yield "the bias of the output is not as long as its vocabulary"
    if not len(model.decoder.layers):
        yield "the decoder has no layers"
    for module in model.modules():
        if isinstance(module, DecoderLayer) and type(module.cross_attention.position) is not NoPosition:
            yield "cross-attention has positions"
        if isinstance(module, MultiHeadAttention):
            yield from _of_heads(module, width)
        elif isinstance(module, FeedForward | GatedFeedForward):
            yield from _of_feed_forward(module, width)
        elif isinstance(module, _NORM):
            if any(value is None or value.shape != (width,) for value in module._parameters.values()):
                yield f"the norm is not {width} wide"
        elif isinstance(module, Embedding | OutputProjection) and module.weight.shape[1:] != (width,):
            yield f"the embedding is not {width} wide"


def _of_heads(attention: MultiHeadAttention, width: int) -> Iterator[str]:
    keys, values = len(attention.query.weight), len(attention.value.weight)
    together = {attention.query: keys, attention.key: keys, attention.value: values}
    for projection, outer in together.items():
        yield from _of_projection(projection, (outer, width))
    if len({projection.bias is None for projection in together}) > 1:
        yield "only some of the projections to heads have a bias"
    yield from _of_projection(attention.output, (width, values))
    if keys % attention.n_heads or values % attention.n_heads:
        yield "heads do not share the width"
    elif not _fits(attention.position, attention.n_heads, keys // attention.n_heads):
        yield "positions are not made for these heads"


def _fits(position: Position, heads: int, width: int) -> bool:
    """Whether a position serves heads so wide."""
    if isinstance(position, RotaryPosition):
        return position.d_key == width and width % 2 == 0
    if isinstance(position, AlibiPosition):
        return len(position.slopes) == heads
    if isinstance(position, T5Position):
        return position.table.shape == (position.buckets, heads)
    if isinstance(position, QuadraticPosition):
        return position.centre.shape == position.sharpness.shape == (heads,)
    if isinstance(position, TransformerXlPosition):
        shape = (heads * width, position.sinusoids.d_model)
        return position.n_heads == heads and position.position_bias.shape == (heads, width) and (
            position.projection.weight.shape == shape)
    return True


def _of_feed_forward(layer: FeedForward | GatedFeedForward, width: int) -> Iterator[str]:
    inner = layer.outer.weight.shape[-1]
    if not any(layer.activation is known for known in ACTIVATIONS):
        yield f"the activation is {layer.activation}"
    yield from _of_projection(layer.outer, (width, inner))
    for projection in (layer.inner, layer.gate) if isinstance(layer, GatedFeedForward) else (layer.inner,):
        yield from _of_projection(projection, (inner, width))


def _of_projection(projection: nn.Linear, shape: tuple[int, int]) -> Iterator[str]:
    bias: Tensor | None = projection.bias
    if projection.weight.shape != shape or (bias is not None and bias.shape != shape[:1]):
        yield f"a projection is {tuple(projection.weight.shape)}, where {shape} is known"
