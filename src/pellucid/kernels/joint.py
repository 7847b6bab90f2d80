"""Several projections of the same in one product, with their matrices side by side."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules import module as modules

from pellucid.kernels import calls


def serves(x: Tensor, projections: Sequence[nn.Linear]) -> bool:
    """Whether `project` is there for these: several, each a plain nn.Linear, and all or none with a bias."""
    return calls.is_fast(x) and len(projections) > 1 and all(map(_is_plain, projections)) and (
        len({p.bias is None for p in projections}) == 1)


def project(x: Tensor, projections: Sequence[nn.Linear]) -> tuple[Tensor, ...]:
    """What each makes of x [..., D]: [..., its width]."""
    bias = None if projections[0].bias is None else torch.cat([p.bias for p in projections])
    joint = F.linear(x, torch.cat([p.weight for p in projections]), bias)
    return torch.split_with_sizes(joint, [len(p.weight) for p in projections], dim=-1)


def _is_plain(projection: nn.Linear) -> bool:
    """Whether a call of it is a product and nothing else: no subclass, no hook, no `forward` of its own."""
    hooks = (projection._forward_hooks, projection._forward_pre_hooks, projection._backward_hooks,
             projection._backward_pre_hooks, modules._global_forward_hooks, modules._global_forward_pre_hooks)
    return type(projection) is nn.Linear and "forward" not in vars(projection) and not any(hooks)
