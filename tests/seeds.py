"""What random numbers are drawn from."""

import torch

from pellucid.train.update import seed_dropout


def generator(seed: int) -> torch.Generator:
    """One of its own, where tensors lie."""
    return torch.Generator(torch.get_default_device()).manual_seed(seed)


def reseed(value: int) -> None:
    """torch.manual_seed where tensors lie: that itself asks for other devices too, a hundred times as long."""
    seed_dropout(value, torch.get_default_device())
