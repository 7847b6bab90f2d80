"""Adam and AdamW (section 5.3; Kingma and Ba 2015; Loshchilov and Hutter 2019) over fp32 weights, by torch's fused
kernel; and their state as named tensors, for checkpoints."""

import torch
from torch import Tensor, nn

from pellucid.config import TrainConfig

OPTIMIZERS: dict[str, type[torch.optim.Adam]] = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """The optimizer over all parameters; weight decay spares biases and norms. The rate is set at each step."""
    parameters = list(model.parameters())
    groups = [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": config.weight_decay},
              {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0}]
    kind = OPTIMIZERS[config.optimizer]
    return kind(groups, lr=0.0, betas=config.betas, eps=config.epsilon, fused=True)


def optimizer_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The moments and step counts, each under its name and its parameter's: ``exp_avg.encoder.layers.0…``."""
    return {f"{key}.{name}": value.detach() for name, parameter in model.named_parameters()
            for key, value in optimizer.state[parameter].items()}


def load_optimizer_state(model: nn.Module, optimizer: torch.optim.Optimizer, state: dict[str, Tensor]) -> None:
    """Puts back what `optimizer_state` gave, all of it or nothing.

    Raises:
        KeyError: a moment is missing, or of another shape than its parameter.
    """
    found: dict[Tensor, dict[str, Tensor]] = {}
    for name, parameter in model.named_parameters():
        for key, shape in (("step", ()), ("exp_avg", parameter.shape), ("exp_avg_sq", parameter.shape)):
            if state[f"{key}.{name}"].shape != shape:
                raise KeyError(f"{key}.{name}")
            found.setdefault(parameter, {})[key] = state[f"{key}.{name}"].to(parameter.device, copy=True)
    optimizer.state.update(found)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """The rate of the next update."""
    for group in optimizer.param_groups:
        group["lr"] = rate
