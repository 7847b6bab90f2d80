"""Initial weights: their distributions, and that each parameter draws on its own."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from pellucid.nn.embeddings import Embedding, OutputProjection
from pellucid.nn.initialization import initialize, seed_of
from pellucid.nn.layer_norm import LayerNorm
from pellucid.nn.positional_encoding import LearnedPosition, T5Position

Parts = dict[str, nn.Module]


def model(parts: Parts | None = None, seed: int = 1, small: float = 1.0) -> nn.Module:
    if parts is None:
        parts = {"embedding": Embedding(2000, 48), "output": OutputProjection(2000, 48), "linear": nn.Linear(300, 200),
                 "small": nn.Linear(300, 200), "norm": LayerNorm(48), "learned": LearnedPosition(48, 3000),
                 "t5": T5Position(8, True)}
    made = nn.ModuleDict(parts)
    initialize(made, seed, {parts["small"]: small} if "small" in parts else {})
    return made


def test_matrices_fill_xaviers_interval() -> None:
    weight = model()["linear"].weight
    bound = math.sqrt(6 / 500)
    assert 0.999 * bound < weight.abs().max() <= bound
    assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.01)
    assert abs(weight.mean()) < 5 * bound / math.sqrt(3 * weight.numel())


def test_the_gain_scales_the_matrix_it_is_asked_for() -> None:
    plain = model()
    scaled = model(small=0.25)
    torch.testing.assert_close(scaled["small"].weight, 0.25 * plain["small"].weight)
    assert torch.equal(scaled["linear"].weight, plain["linear"].weight)


@pytest.mark.parametrize("name", ["embedding", "output"])
def test_embeddings_have_the_variance_that_the_root_of_d_undoes(name: str) -> None:
    part = model()[name]
    assert abs(part.weight.mean()) < 5 * 48**-0.5 / math.sqrt(part.weight.numel())
    assert part.weight.std().item() == pytest.approx(48**-0.5, rel=0.02)
    if isinstance(part, Embedding):
        assert part(torch.arange(2000)[None]).std().item() == pytest.approx(1, rel=0.02)


def test_biases_begin_at_0_and_gains_at_1() -> None:
    made = model()
    assert not made["linear"].bias.any()
    assert not made["norm"].bias.any()
    assert (made["norm"].gain == 1).all()


def test_learned_positions_have_the_variance_of_the_sinusoids() -> None:
    table = model()["learned"].table
    assert table.std().item() == pytest.approx(0.5**0.5, rel=0.02)
    assert abs(table.mean()) < 5 * math.sqrt(0.5 / table.numel())


def test_the_seed_decides() -> None:
    a, b, c = model(seed=1).state_dict(), model(seed=1).state_dict(), model(seed=2).state_dict()
    for name, value in a.items():
        assert torch.equal(value, b[name])
        assert torch.equal(value, c[name]) == (name.startswith("norm") or name.endswith("bias"))


def test_twins_differ() -> None:
    made = model()
    assert not torch.equal(made["linear"].weight, made["small"].weight)
    assert not torch.equal(made["embedding"].weight, made["output"].weight)


def test_a_part_more_or_less_moves_no_other() -> None:
    alone = model({"linear": nn.Linear(300, 200)})
    assert torch.equal(alone["linear"].weight, model()["linear"].weight)


def test_torchs_own_generator_is_neither_read_nor_moved() -> None:
    parts = {"linear": nn.Linear(4, 4), "embedding": Embedding(5, 4)}
    before = torch.get_rng_state()
    model(parts)
    assert torch.equal(torch.get_rng_state(), before)


def test_seeds_are_63_bits_and_differ_by_every_part() -> None:
    parts = [(1, "a"), (2, "a"), (1, "b"), (1, "a", "b"), (1, "ab"), (11, "a")]
    seeds = {seed_of(*of) for of in parts}
    assert len(seeds) == len(parts)
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert max(seed_of(number) for number in range(64)) >= 2**62  # all of the bits are used
    assert seed_of(1, "a") == seed_of(1, "a")


def test_a_parameter_of_which_nothing_is_said_is_not_left_as_it_happens_to_be() -> None:
    part = type("Forgotten", (nn.Module,), {"__module__": "pellucid.nn.forgotten"})()
    part.matrix = nn.Parameter(torch.zeros(3, 3))
    with pytest.raises(AssertionError, match=r"part\.matrix of a Forgotten"):
        model({"part": part})


def test_what_has_a_shape_alone_draws_nothing() -> None:
    """No memory would hold it."""
    with torch.device("meta"):
        made = model({"linear": nn.Linear(2**30, 2**30), "embedding": Embedding(2**40, 2**10)})
    assert all(parameter.is_meta for parameter in made.parameters())
