"""Our weights as a class of transformers has them: other names, another basis, and what it wants besides."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from pellucid.config import ModelConfig
from pellucid.interop import basis, names
from pellucid.model.classifier import Classifier
from pellucid.model.encoder import Stack
from pellucid.model.transformer import Transformer
from pellucid.nn.embeddings import OutputBias
from pellucid.nn.positional_encoding import SinusoidalPosition
from pellucid.runs.checkpoint import weights_of
from pellucid.runs.tensors import Lazily


def of_blenderbot(model: Transformer, config: ModelConfig, positions: int) -> Lazily:
    """Every sum and product where ours has it; sinusoids go into the tables."""
    theirs = names.to_theirs(weights_of(model), names.bart(config))
    return theirs | _tables(model, positions) | _bias(model)


def of_marian(model: Transformer, config: ModelConfig, positions: int) -> Lazily:
    """Features in halves, so that the sinusoids that Marian makes by itself are ours; α folded."""
    weights: Mapping[str, Tensor] = weights_of(model)
    if config.residual == "deepnorm":
        weights = basis.fold(weights, config)
    tables = _tables(model, positions)
    if config.position == "sinusoidal":
        order = basis.halves(config.d_model)
        weights = basis.permuted(weights, order)
        tables = {name: table[:, order].contiguous() for name, table in tables.items()}
    return names.to_theirs(weights, names.bart(config)) | tables | _bias(model)


def of_umt5(model: Transformer, config: ModelConfig, positions: int) -> Lazily:
    """Without biases, which must be 0."""
    weights = {name: tensor for name, tensor in weights_of(model).items()
               if not name.endswith(".bias")}
    return names.to_theirs(basis.t5_scaled(weights, config), names.t5(config))


def of_bert(model: Classifier, config: ModelConfig, positions: int) -> Lazily:
    """Embeddings with their √D in them, and one kind of segment, which adds nothing."""
    weights = weights_of(model)
    embedding = weights["source_embedding.weight"] * model.source_embedding.scale
    position = model.encoder.position
    table = position.table(torch.arange(positions)).to(embedding.dtype) if isinstance(
        position, SinusoidalPosition) else weights["encoder.position.table"]
    changed = {"source_embedding.weight": embedding, "encoder.position.table": table}
    segments = {"bert.embeddings.token_type_embeddings.weight": torch.zeros_like(embedding[:1])}
    return names.to_theirs(weights | changed, names.bert(config)) | segments


CLASSES: Mapping[str, Callable[[Any, ModelConfig, int], Lazily]] = {
    "blenderbot": of_blenderbot, "marian": of_marian, "umt5": of_umt5, "bert": of_bert}


def nonzero_bias(model: torch.nn.Module) -> str | None:
    """The name of a bias that adds something, if there is one."""
    return next((name for name, tensor in model.named_parameters()
                 if name.endswith(".bias") and bool(tensor.any())), None)


def _bias(model: Transformer) -> dict[str, Tensor]:
    weight, bias = model.output.weight, model.output_bias
    theirs = bias.bias.detach() if isinstance(bias, OutputBias) else torch.zeros(len(weight), dtype=weight.dtype)
    return {"final_logits_bias": theirs[None]}


def _tables(model: Transformer, positions: int) -> dict[str, Tensor]:
    """What each stack adds at so many positions."""
    stacks: dict[str, Stack] = {"encoder": model.encoder, "decoder": model.decoder}
    dtype = model.output.weight.dtype
    return {f"model.{name}.embed_positions.weight": stack.position.table(torch.arange(positions)).to(dtype)
            for name, stack in stacks.items() if isinstance(stack.position, SinusoidalPosition)}
