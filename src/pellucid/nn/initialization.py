r"""Initial weights: Xavier-uniform matrices (Glorot and Bengio 2010), :math:`U(\pm g\sqrt{6/(n_{in}+n_{out})})`;
embeddings :math:`N(0, 1/D)`, so that √D·E[x] has variance 1; learned positions with the variance ½ that sinusoids have;
biases 0, gains 1.

Each parameter draws from a generator of its own, seeded by the run's seed and the parameter's name: adding or removing
a part never changes how another one starts.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from pellucid.nn.embeddings import Embedding, OutputProjection
from pellucid.nn.positional_encoding import LearnedPosition


def initialize(model: nn.Module, seed: int, gain: Callable[[str], float]) -> None:
    """Draws every parameter of `model` anew; `gain` gives the Xavier gain of a matrix by its name (DeepNorm asks for
    less than 1 in places)."""
    for prefix, module in model.named_modules():
        for name, parameter in module.named_parameters(prefix, recurse=False):
            generator = torch.Generator().manual_seed(seed_of(seed, name))
            fresh = torch.empty(parameter.shape)
            if isinstance(module, Embedding | OutputProjection):
                _set(parameter, fresh.normal_(0, parameter.shape[1] ** -0.5, generator=generator))
            elif isinstance(module, LearnedPosition):
                _set(parameter, fresh.normal_(0, math.sqrt(0.5), generator=generator))
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() > 1:
                bound = gain(name) * math.sqrt(6 / (parameter.shape[0] + parameter.shape[1]))
                _set(parameter, fresh.uniform_(-bound, bound, generator=generator))


@torch.no_grad()
def _set(parameter: Tensor, values: Tensor) -> None:
    parameter.copy_(values)


def seed_of(*parts: int | str) -> int:
    """A 63-bit seed from numbers and names, the same on every machine."""
    digest = hashlib.blake2b("\x1f".join(map(str, parts)).encode("utf-8"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
