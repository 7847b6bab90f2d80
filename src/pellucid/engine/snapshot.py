"""Whether a model that somebody holds is still what it was.

Torch counts the changes of a tensor, but not those through `p.data`, NumPy or another process. So the weights are
compared with a copy, bit by bit: as fast as memory gives them, and surer than any sum of theirs that is as fast.
"""

from typing import Any

import torch
from torch import Tensor, nn

_BITS = {2: torch.int16, 4: torch.int32}  # by bytes: NaN is not equal to itself, its bits are


class Snapshot:
    """All that a model computes with as it is now: its weights, and the class and the settings of each module.

    Args:
        model: with no `obstacle`.
    """

    def __init__(self, model: nn.Module) -> None:
        self._rest = _parts(model), _places(model)
        self._weights = {name: bits.clone() for name, bits in _weights(model)}

    def shows(self, model: nn.Module) -> bool:
        """Whether nothing has changed since."""
        try:
            if (_parts(model), _places(model)) != self._rest:
                return False
        except ValueError:  # what somebody has put there need not be true or false, as an array
            return False
        return all(torch.equal(bits, self._weights[name]) for name, bits in _weights(model))


def _weights(model: nn.Module) -> list[tuple[str, Tensor]]:
    """Each once, under its first name."""
    named = [*model.named_parameters(), *model.named_buffers()]
    return [(name, weight.detach().view(_BITS[weight.element_size()])) for name, weight in named]


def _places(model: nn.Module) -> list[tuple[str, str, torch.device]]:
    """The names of each weight, the first that it has, and where it lies: which are one and the same."""
    named = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    first = dict[int, str]()
    return [(name, first.setdefault(id(weight), name), weight.device) for name, weight in named]


def _parts(model: nn.Module) -> list[tuple[str, type[nn.Module], dict[str, Any]]]:
    """The settings are what an object was made with, and what its class says of all."""
    return [(name, type(module), {key: value for key, value in vars(module).items() if key[0] != "_"} | {
        key: getattr(module, key) for key in ("alpha", "epsilon") if hasattr(module, key)} | {"training": None})
        for name, module in model.named_modules(remove_duplicate=False)]
