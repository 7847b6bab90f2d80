r"""Adam and AdamW (section 5.3; Kingma and Ba 2015; Loshchilov and Hutter 2019) over fp32 weights, Muon (muon.py) for
the matrices of the layers, and the clipping of gradients before them (Pascanu et al. 2013); their state as named
tensors, for checkpoints."""

from collections.abc import Iterable, Sequence
from inspect import unwrap
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.config import TrainConfig
from pellucid.kernels import adam as fast
from pellucid.model.decoder import DecoderLayer
from pellucid.model.encoder import EncoderLayer
from pellucid.precision import resolve
from pellucid.runs.sharded import is_sharded, like, local, whole
from pellucid.train.muon import muon

# Whether the decay is decoupled, and the rule of the layers' matrices; all else moves by Adam's.
OPTIMIZERS = {"adamw": (True, "adam"), "adam": (False, "adam"), "muon": (True, "muon")}
STATES = {"adam": ("step", "exp_avg", "exp_avg_sq"), "muon": ("momentum_buffer",)}  # by rule; only step is one number
MOMENTUM = 0.95  # of Muon


class Optimizer(torch.optim.Optimizer):
    r"""Adam and AdamW, which scale each number's step by its gradient's two moments: with gradients g, in update t,

    .. math::
        m \leftarrow \beta_1 m + (1 - \beta_1)\,g \qquad v \leftarrow \beta_2 v + (1 - \beta_2)\,g^2 \qquad
        \theta \leftarrow \theta - \eta\,\frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}

    with decay :math:`\lambda\theta` in g or, where it is decoupled, :math:`\theta \leftarrow (1 - \eta\lambda)\theta`
    first; or Muon, by the "rule" of each group. η is 0 until it is set.

    Args:
        groups: parameters under "params", their λ under "weight_decay", and their "rule", a key of STATES.
        precision: of Muon's products, "bf16" or "fp32".
    """

    # Wrapped, as torch has them, they import torch._dynamo, a second of each training's start that nothing here needs.
    add_param_group = unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = unwrap(torch.optim.Optimizer.zero_grad)

    def __init__(self, groups: Iterable[dict[str, Any]], betas: tuple[float, float], epsilon: float,
                 decoupled: bool, precision: str) -> None:
        super().__init__(groups, {"lr": 0.0, "betas": betas, "eps": epsilon, "decoupled": decoupled,
                                  "momentum": MOMENTUM, "precision": precision})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """An update of all parameters that have a gradient; from the first one on each has a state, those without one
        too, which are saved and found again like all others."""
        for group in self.param_groups:
            trained = [p for p in group["params"] if p.grad is not None]
            for parameter in group["params"]:
                if not (state := self.state[parameter]):
                    for key in STATES[group["rule"]]:
                        state[key] = (torch.zeros((), dtype=torch.float32, device=parameter.device) if key == "step"
                                      else torch.zeros_like(parameter))
            states = [[self.state[p][key] for p in trained] for key in STATES[group["rule"]]]
            if group["rule"] == "adam":
                steps, means, squares = states
                fast.adam(local(trained), _gradients(trained), steps, local(means), local(squares), group)
            elif trained:
                _muon(trained, states[0], group)


def _muon(trained: list[nn.Parameter], momenta: list[Tensor], group: dict[str, Any]) -> None:
    """Muon's step. It takes whole matrices: processes that divide them put them together, and each keeps its part."""
    gradients = [p.grad for p in trained if p.grad is not None]
    how = group["lr"], group["weight_decay"], group["momentum"], group["precision"]
    if not is_sharded(trained[0]):
        muon(trained, gradients, momenta, *how)
        return
    weights, known = [whole(p).clone() for p in trained], [whole(m).clone() for m in momenta]
    muon(weights, [whole(g) for g in gradients], known, *how)
    for parts, wholes in ((trained, weights), (momenta, known)):
        for part, tensor in zip(parts, wholes, strict=True):
            part.copy_(like(tensor, part))


def make_optimizer(model: nn.Module, config: TrainConfig) -> Optimizer:
    """The optimizer over all parameters; weight decay spares what has one dimension, such as biases and norms. The rate
    is set at each step."""
    decoupled, rule = OPTIMIZERS[config.optimizer]
    parameters = list(model.parameters())
    inner = {id(p) for p in _matrices_of_layers(model)} if rule != "adam" else set()
    groups = [{"params": [p for p in parameters if p.dim() > 1 and id(p) not in inner],
               "weight_decay": config.weight_decay, "rule": "adam"},
              {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0, "rule": "adam"},
              {"params": [p for p in parameters if id(p) in inner],
               "weight_decay": config.weight_decay, "rule": rule}]
    return Optimizer([group for group in groups if group["params"]], config.betas, config.epsilon, decoupled,
                     resolve(config.precision, parameters[0].device))


def _matrices_of_layers(model: nn.Module) -> list[Tensor]:
    """The projections in the layers of encoder and decoder: neither embeddings, nor the output, nor a head."""
    layers = [module for module in model.modules() if isinstance(module, EncoderLayer | DecoderLayer)]
    return [module.weight for layer in layers for module in layer.modules() if isinstance(module, nn.Linear)]


def clip_gradients(parameters: Sequence[Tensor], most: float) -> Tensor:
    r""":math:`g \leftarrow g \cdot \min(1, c / (\lVert g \rVert_2 + 10^{-6}))`, the norm over all parameters together,
    which is given back; c is `most`. Of gradients that are divided among processes, over the parts that are here."""
    return fast.clip(_gradients(parameters), most)


def scale_gradients(parameters: Sequence[Tensor], norm: float, most: float) -> None:
    """What `clip_gradients` does with gradients of this norm."""
    torch._foreach_mul_(_gradients(parameters), min(1.0, most / (norm + 1e-6)))


def _gradients(parameters: Sequence[Tensor]) -> list[Tensor]:
    """Those that there are, as far as this process has them."""
    return local(p.grad for p in parameters if p.grad is not None)


def optimizer_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The moments and step counts, each under its name and its parameter's: ``exp_avg.encoder.layers.0…``."""
    return {f"{key}.{name}": whole(value.detach()) for name, parameter in model.named_parameters()
            for key, value in optimizer.state[parameter].items()}


def load_optimizer_state(model: nn.Module, optimizer: torch.optim.Optimizer, state: dict[str, Tensor]) -> None:
    """Puts back what `optimizer_state` gave, all of it or nothing.

    Raises:
        KeyError: a moment is missing, or of another shape than its parameter.
    """
    rules = {parameter: group["rule"] for group in optimizer.param_groups for parameter in group["params"]}
    found: dict[Tensor, dict[str, Tensor]] = {}
    for name, parameter in model.named_parameters():
        for key in STATES[rules[parameter]]:
            if state[f"{key}.{name}"].shape != (() if key == "step" else parameter.shape):
                raise KeyError(f"{key}.{name}")
            moment = state[f"{key}.{name}"].to(torch.float32, copy=True)
            placed = moment.to(parameter.device) if key == "step" else like(moment, parameter)
            found.setdefault(parameter, {})[key] = placed
    optimizer.state.update(found)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float | Tensor) -> None:
    """The rate of the next update; a number, or where it is on the device."""
    for group in optimizer.param_groups:
        group["lr"] = rate
