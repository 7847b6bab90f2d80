r"""Initial weights: Xavier-uniform matrices (Glorot and Bengio 2010), :math:`U(\pm g\sqrt{6/(n_{in}+n_{out})})`;
embeddings :math:`N(0, 1/D)`, so that √D·E[x] has variance 1; learned positions with the variance ½ that sinusoids have;
T5's tables as matrices; biases of projections 0. The rest stays as its class makes it: gains 1, the biases of norms, of
Transformer-XL's positions and of the output 0, quadratic positions about a place for each head. Modules that are not
pellucid's draw by their own ``reset_parameters``, where they have it.

Each parameter draws from a generator of its own, seeded by the run's seed and the parameter's name: adding or removing
a part never changes how another one starts.
"""

import hashlib
import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from pellucid.nn.embeddings import Embedding, OutputBias, OutputProjection
from pellucid.nn.layer_norm import LayerNorm, RmsNorm, StdNorm
from pellucid.nn.positional_encoding import LearnedPosition, QuadraticPosition, T5Position, TransformerXlPosition

AS_MADE = (LayerNorm, RmsNorm, StdNorm, QuadraticPosition, TransformerXlPosition, OutputBias)


def initialize(model: nn.Module, seed: int, gains: Mapping[nn.Module, float]) -> None:
    """Draws the weights of `model` anew, but for those that have a shape alone.

    Args:
        gains: g of some of its projections (DeepNorm asks for less than 1); 1 for all others.
    """
    for prefix, module in model.named_modules():
        if not (isinstance(module, nn.Linear) or type(module).__module__.startswith("pellucid.")):
            _reset(module, seed_of(seed, prefix))
            continue
        for name, parameter in module.named_parameters(prefix, recurse=False):
            if parameter.is_meta:
                continue
            generator = torch.Generator().manual_seed(seed_of(seed, name))
            fresh = torch.empty(parameter.shape, device="cpu")  # where the generator is, wherever the model will be
            if isinstance(module, Embedding | OutputProjection):
                _set(parameter, fresh.normal_(0, parameter.shape[1] ** -0.5, generator=generator))
            elif isinstance(module, LearnedPosition):
                _set(parameter, fresh.normal_(0, math.sqrt(0.5), generator=generator))
            elif isinstance(module, T5Position) or (isinstance(module, nn.Linear) and parameter is module.weight):
                bound = gains.get(module, 1.0) * math.sqrt(6 / sum(parameter.shape))
                _set(parameter, fresh.uniform_(-bound, bound, generator=generator))
            elif isinstance(module, nn.Linear):
                nn.init.zeros_(parameter)
            else:
                assert isinstance(module, AS_MADE), f"how {name} of a {type(module).__name__} begins is not said here"


def _reset(module: nn.Module, seed: int) -> None:
    """A module of somebody else's draws its weights, as it knows how to."""
    if callable(draw := getattr(module, "reset_parameters", None)):
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(seed)
            draw()


@torch.no_grad()
def _set(parameter: Tensor, values: Tensor) -> None:
    parameter.copy_(values)


def seed_of(*parts: int | str) -> int:
    """A 63-bit seed from numbers and names, the same on every machine."""
    digest = hashlib.blake2b("\x1f".join(map(str, parts)).encode("utf-8"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
