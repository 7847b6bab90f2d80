"""Every pair of options builds, learns and decodes: a covering array, made greedily."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product
from typing import Any

import pytest
import torch
from torch import Tensor

from pellucid.config import ModelConfig
from pellucid.model.build import ATTENTIONS, FEED_FORWARDS, NORMS, POSITIONS, RESIDUALS, build, check
from pellucid.model.transformer import Transformer
from pellucid.nn.cross_entropy import linear_cross_entropy

FACTORS: dict[str, tuple[Any, ...]] = {
    "position": tuple(POSITIONS), "norm": tuple(NORMS), "residual": tuple(RESIDUALS),
    "feed_forward": tuple(FEED_FORWARDS), "attention": tuple(ATTENTIONS), "tie_embeddings": (True, False),
    "shared": (True, False), "depth": ((1, 1), (2, 1), (1, 2))}
Row = dict[str, Any]
Pair = tuple[tuple[str, Any], tuple[str, Any]]
V, BOS = 8, 0


def configuration(row: Row) -> ModelConfig:
    options = {key: value for key, value in row.items() if key not in ("shared", "depth")}
    encoder_layers, decoder_layers = row.get("depth", (1, 1))
    return ModelConfig(d_model=16, n_heads=2, d_ff=24, dropout=0.0, window=2, max_length=16,
                       encoder_layers=encoder_layers, decoder_layers=decoder_layers, **options)


def possible(row: Row) -> bool:
    try:
        check(configuration(row))
    except ValueError:
        return False
    return True


def pairs_of(row: Row) -> set[Pair]:
    return set(combinations(((factor, row[factor]) for factor in FACTORS if factor in row), 2))


def every_pair() -> set[Pair]:
    return {((a, x), (b, y)) for a, b in combinations(FACTORS, 2) for x, y in product(FACTORS[a], FACTORS[b])
            if possible({a: x, b: y})}


def covering_array() -> list[Row]:
    """Rows of options in which every possible pair occurs: each row starts from a pair that is still missing, and
    takes, factor by factor, the option that covers most of what is missing."""
    missing, rows = every_pair(), []
    while missing:
        row = dict(min(missing, key=str))
        for factor, values in FACTORS.items():
            if factor not in row:
                fitting = [v for v in values if possible(row | {factor: v})]
                row[factor] = max(fitting, key=lambda v: len(pairs_of(row | {factor: v}) & missing))
        covered = pairs_of(row)
        assert covered & missing
        missing -= covered
        rows.append({factor: row[factor] for factor in FACTORS})
    return rows


ROWS = covering_array()


def test_the_array_covers_every_possible_pair() -> None:
    assert set().union(*map(pairs_of, ROWS)) == every_pair()
    assert all(possible(row) for row in ROWS)
    assert len(ROWS) < 60


def test_only_linear_attention_refuses_positions() -> None:
    everything = {((a, x), (b, y)) for a, b in combinations(FACTORS, 2) for x, y in product(FACTORS[a], FACTORS[b])}
    assert everything - every_pair() == {(("position", name), ("attention", "linear"))
                                         for name in ("rotary", "alibi", "t5", "quadratic", "transformer_xl")}


def copy_batch() -> tuple[Tensor, Tensor, Tensor]:
    """Sources to be copied, the targets that begin with bos, and which source tokens are real."""
    tokens = torch.randint(1, V, (16, 6))
    real = torch.ones(16, 6, dtype=torch.bool)
    real[8:, 4:] = False
    return tokens, torch.cat([torch.full((16, 1), BOS), tokens], 1), real


def loss_of(model: Transformer, batch: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    source, target, real = batch
    memory, positions = model.encode(source, real)
    hidden = model.decode(target[:, :-1], memory, positions, real)[real]
    return linear_cross_entropy(hidden, model.output.weight, target[:, 1:][real], 0.0) / real.sum()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(str(v).replace(" ", "") for v in row.values()))
def test_a_row_learns_and_decodes(row: Row) -> None:
    model, batch = build(configuration(row), V, V, shared=row["shared"]), copy_batch()
    optimizer = torch.optim.Adam(model.parameters(), 0.003, betas=(0.9, 0.98))
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
        optimizer.step()
        losses.append(loss.item())
    losses.append(loss_of(model, batch).item())
    assert losses[-1] < losses[0]
    source, _, real = batch
    with torch.no_grad():
        state, tokens = model.eval().start(source, real), torch.full((16, 1), BOS)
        for _ in range(5):
            logits, state = model.step(state, tokens[:, -1])
            torch.testing.assert_close(logits, model(source, tokens, real)[:, -1], rtol=1e-4, atol=1e-4)
            tokens = torch.cat([tokens, logits.argmax(-1, keepdim=True)], 1)
    assert tokens.shape == (16, 6)
    assert tokens.min() >= 0
    assert tokens.max() < V


def test_copying_is_learned() -> None:
    """More than a falling loss: 150 steps take it from ln 7 nats a token to nearly none."""
    model = build(replace(configuration({"position": "sinusoidal"}), d_model=32, d_ff=64), V, V, shared=True)
    optimizer = torch.optim.Adam(model.parameters(), 0.005)
    for _ in range(150):
        optimizer.zero_grad()
        loss_of(model, copy_batch()).backward()
        optimizer.step()
    assert loss_of(model, copy_batch()).item() < 0.4
