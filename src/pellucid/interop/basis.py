"""The same function by other weights: what may be changed about a model so that another one's conventions hold.

All of these are exact but for rounding, and `fold` but for the ε of the norms.
"""

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from pellucid.config import ModelConfig
from pellucid.nn.residual_connection import deepnorm_decoder, deepnorm_encoder
from pellucid.runs.tensors import Lazily

Weights = Mapping[str, Tensor]
_READERS = ("query.weight", "key.weight", "value.weight", "inner.weight", "gate.weight", "head_1.weight")
_WRITERS = ("output.weight", "output.bias", "outer.weight", "outer.bias")


def halves(width: int) -> Tensor:
    """The features of our sinusoids, sines and cosines by turns, in the order of Marian's: all sines come first."""
    return torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])


def permuted(weights: Weights, order: Tensor) -> Lazily:
    """The features of the stream in another order: new feature i is the old one order[i]. Nothing else knows them by
    number, for norms, sums and products treat all alike."""
    def along(name: str, tensor: Tensor) -> Tensor:
        if name.endswith(_READERS) or name.endswith(("embedding.weight", "position.table")) or name == "output.weight":
            return tensor[:, order]
        is_of_stream = name.endswith(_WRITERS) or "norm." in name
        return tensor[order] if is_of_stream else tensor

    return Lazily(weights, lambda name: along(name, weights[name]))


def fold(weights: Weights, config: ModelConfig) -> Lazily:
    """DeepNorm's α in what sub-layers write: Norm(α x + f(x)) = Norm(x + f(x)/α), but that ε weighs α² times as much.
    """
    alpha = alphas(config)
    return _each(weights, lambda name: 1 / alpha[name.split(".")[0]] if _is_written(name) else 1.0)


def alphas(config: ModelConfig) -> dict[str, float]:
    """DeepNorm's α of each stack; 1 where there is none."""
    n, m = config.encoder_layers, config.decoder_layers
    if config.residual != "deepnorm":
        return {"encoder": 1.0, "decoder": 1.0}
    return {"encoder": deepnorm_encoder(n, m).alpha, "decoder": deepnorm_decoder(m).alpha}


def streamed(weights: Weights, stack: str, alpha: float) -> Weights:
    """A stack whose stream is α x where ours is x, so that Norm(α x + f(x)) needs no α: norms give α times as much, and
    what reads the stream takes it back. The last norm, which no sub-layer of the stack reads, gives x. Whoever embeds
    must give α times as much, too."""
    mine = {name: tensor for name, tensor in weights.items() if name.startswith(f"{stack}.")}
    if alpha == 1:
        return mine
    norms = [name.rpartition(".")[0] for name in mine if ".norm." in name]
    last = max(norms, key=lambda name: (int(name.split(".")[2]), name))

    def factor(name: str) -> float:
        if ".norm." in name or ".embedding_norm." in name:
            return 1.0 if name.startswith(f"{last}.") else alpha
        is_of_memory = "cross_attention.key" in name or "cross_attention.value" in name
        return 1 / alpha if name.endswith(_READERS) and not is_of_memory else 1.0

    return _each(mine, factor)


def wide_keys(weights: Weights, config: ModelConfig) -> dict[str, Tensor]:
    """Queries and keys as wide as values, zeros behind them, scaled for scores that are divided by √(D/H)."""
    heads, width = config.n_heads, config.value_width
    if config.d_key is None:
        return dict(weights)
    scale = math.sqrt(width / config.d_key)

    def widened(name: str, tensor: Tensor) -> Tensor:
        if ".query." not in name and ".key." not in name:
            return tensor
        parts = tensor.view(heads, config.d_key or width, -1) * (scale if ".query." in name else 1.0)
        return torch.nn.functional.pad(parts, (0, 0, 0, width - parts.shape[1])).reshape(-1, *tensor.shape[1:])

    return {name: widened(name, tensor) for name, tensor in weights.items()}


def t5_scaled(weights: Weights, config: ModelConfig) -> Lazily:
    """T5's scale: embeddings are not multiplied by √D, nor scores divided by √d_k."""
    return _each(weights, lambda name: _of_t5(name, config))


def t5_unscaled(weights: Weights, config: ModelConfig) -> Lazily:
    """Back from T5's scale."""
    return _each(weights, lambda name: 1 / _of_t5(name, config))


def _of_t5(name: str, config: ModelConfig) -> float:
    if "embedding." in name or name == "output.weight":
        return math.sqrt(config.d_model)
    return 1 / math.sqrt(config.key_width) if ".query." in name else 1.0


def _is_written(name: str) -> bool:
    """Whether a sub-layer's last product makes it a part of the stream."""
    return name != "output.weight" and name.endswith(_WRITERS)


def _each(weights: Weights, factor: Callable[[str], float]) -> Lazily:
    return Lazily(weights, lambda name: weights[name] if factor(name) == 1 else weights[name] * factor(name))
