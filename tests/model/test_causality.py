"""Section 3.1: a prediction depends on earlier target tokens only, with every position and attention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.model.build import build
from pellucid.model.transformer import Transformer

Close = Callable[..., None]
V, S, T = 9, 5, 6


@pytest.fixture
def model(combination: dict[str, str], small: ModelConfig, dtype: torch.dtype,
          randomize: Callable[[nn.Module], nn.Module]) -> Transformer:
    made = randomize(build(replace(small, **combination), V, V).to(dtype))
    assert isinstance(made, Transformer)
    return made


def batch() -> tuple[Tensor, Tensor]:
    return torch.randint(V, (2, S)), torch.randint(V, (2, T))


def test_later_tokens_change_nothing_earlier(model: Transformer, close: Close) -> None:
    source, target = batch()
    before = model(source, target)
    for t in range(T - 1):
        changed = target.clone()
        changed[:, t + 1 :] = (changed[:, t + 1 :] + 1 + torch.randint(V - 1, (2, T - t - 1))) % V
        after = model(source, changed)
        close(after[:, : t + 1], before[:, : t + 1], 1e-5 if before.dtype == torch.float32 else 0)
        assert not torch.allclose(after[:, t + 1], before[:, t + 1])


def test_a_prefix_gives_the_same_predictions(model: Transformer, close: Close) -> None:
    source, target = batch()
    whole = model(source, target)
    for t in range(1, T):
        close(model(source, target[:, :t]), whole[:, :t])


def test_no_gradient_comes_from_the_future(model: Transformer) -> None:
    source, target = batch()
    embedded: list[Tensor] = []

    def keep(module: nn.Module, inputs: object, out: Tensor) -> None:
        out.retain_grad()
        embedded.append(out)

    model.target_embedding.register_forward_hook(keep)
    out = model(source, target)
    for t in range(T):
        (gradient,) = torch.autograd.grad(out[:, t].square().sum(), embedded[0], retain_graph=True)
        assert not gradient[:, t + 1 :].any()
        assert gradient[:, t].abs().max() > 0


def test_the_window_bounds_what_is_seen(small: ModelConfig, dtype: torch.dtype) -> None:
    """Two decoder layers of a window of 2 see four tokens back and no further; the encoder four to either side."""
    model = build(replace(small, attention="window", window=2), V, V).to(dtype)
    embedded: list[Tensor] = []
    for embedding in (model.source_embedding, model.target_embedding):
        embedding.register_forward_hook(lambda module, inputs, out: embedded.append(out))
    memory, positions = model.encode(torch.randint(V, (1, 11)))
    (gradient,) = torch.autograd.grad(memory[0, 5, 0], embedded[0])
    assert gradient[0].abs().amax(-1).gt(0).nonzero()[:, 0].tolist() == list(range(1, 10))
    out = model.decode(torch.randint(V, (1, 11)), memory.detach(), positions)
    (gradient,) = torch.autograd.grad(out[0, 8, 0], embedded[1])
    assert gradient[0].abs().amax(-1).gt(0).nonzero()[:, 0].tolist() == list(range(4, 9))
