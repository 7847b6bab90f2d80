"""The shapes of one example on its way through the network, recorded by hooks."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.data.tokenizers.interface import BOS
from pellucid.inspection.examples import Ids
from pellucid.inspection.record import spoken
from pellucid.model.classifier import Classifier, FirstPooling, MaxPooling, MeanPooling
from pellucid.model.decoder import Decoder, DecoderLayer
from pellucid.model.encoder import Encoder, EncoderLayer
from pellucid.model.transformer import Transformer
from pellucid.nn.embeddings import Embedding
from pellucid.nn.feed_forward import FeedForward, GatedFeedForward
from pellucid.nn.linear_attention import LinearAttention
from pellucid.nn.multi_head_attention import MultiHeadAttention
from pellucid.nn.scaled_dot_product_attention import ScaledDotProductAttention
from pellucid.runs.run import Run

_SHOWN = (Embedding, Encoder, Decoder, EncoderLayer, DecoderLayer, MultiHeadAttention, ScaledDotProductAttention,
          LinearAttention, FeedForward, GatedFeedForward, MeanPooling, MaxPooling, FirstPooling, nn.Linear)
_NOT_ALONE = ("inner", "outer", "gate", "query", "key", "value", "output")  # inside of a part that is shown


@dataclass
class ModuleCall:
    """One call of a module.

    Attributes:
        name: as people say it.  kind: its class.  depth: how many shown modules it is inside of.
        inputs, output: shapes of the tensors that went in and came out.
        parameters: how many it holds, with all that is inside it.
    """

    name: str
    kind: str
    depth: int
    parameters: int
    inputs: list[tuple[int, ...]] = field(default_factory=list)
    output: tuple[int, ...] = ()


@torch.inference_mode()
def shapes(run: Run, source: Ids, target: Ids) -> list[ModuleCall]:
    """Every call of one forward pass, in the order in which they begin; the last one is the logits."""
    model, device = run.model, next(run.model.parameters()).device
    calls: list[ModuleCall] = []
    open_calls: list[ModuleCall] = []

    def begin(name: str, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        begun = ModuleCall(name, type(module).__name__, len(open_calls), sum(p.numel() for p in module.parameters()),
                           [tuple(x.shape) for x in inputs if isinstance(x, Tensor)])
        calls.append(begun)
        open_calls.append(begun)

    def end(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        open_calls.pop().output = tuple(output.shape)

    hooks = []
    for name, module in _shown(model).items():
        ahead: Callable[..., None] = functools.partial(begin, name)
        hooks += [module.register_forward_pre_hook(ahead), module.register_forward_hook(end)]
    try:
        read = torch.tensor([source.tolist()], device=device)
        if isinstance(model, Classifier):
            logits = model(read)
        else:
            logits = model(read, torch.tensor([[BOS, *target[:-1].tolist()]], device=device))
    finally:
        for hook in hooks:
            hook.remove()
    return [*calls, ModuleCall("logits", "", 0, 0, [], tuple(logits.shape))]


def _shown(model: nn.Module) -> dict[str, nn.Module]:
    """The modules to tell of, by the names that people give them; one that serves twice comes once."""
    found: dict[str, nn.Module] = {
        spoken(name): module for name, module in model.named_modules()
        if isinstance(module, _SHOWN) and name.split(".")[-1] not in _NOT_ALONE}
    if isinstance(model, Transformer) and model.source_embedding is model.target_embedding:
        found["embedding"] = found.pop("source embedding")
    return found
