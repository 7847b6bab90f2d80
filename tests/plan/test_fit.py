"""The largest batch that fits: found on a plan whose memory is known, and never one that does not fit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.config.mapping import from_mapping
from pellucid.plan import fit
from pellucid.plan.budget import Budget, Machine
from pellucid.plan.workload import Shape

NOTHING: Any = None
BARE = Machine("fp32", False, 0, 0, 0)


def with_memory(monkeypatch: pytest.MonkeyPatch, base: int, each: int, step: int) -> list[int]:
    """Lets a batch of n take base + each·⌈n / step⌉·step bytes; the sizes that were tried."""
    tried: list[int] = []

    def training(config: Any, workload: Any, machine: Any) -> Budget:
        size = config.train.batch_sentences or config.train.batch_tokens
        tried.append(size)
        return Budget({"all": base + each * -(-size // step) * step}, Shape(1, 1, 1))

    monkeypatch.setattr(fit, "training", training)
    return tried


@given(st.integers(0, 10**6), st.integers(1, 10**4), st.integers(1, 300), st.integers(10**5, 10**8),
       st.integers(64, 20_000))
@settings(max_examples=200, deadline=None)
def test_what_is_proposed_fits_and_hardly_more_would(base: int, each: int, step: int, memory: int,
                                                     batch: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        tried = with_memory(patch, base, each, step)
        config: Any = from_mapping({"train": {"batch_tokens": batch}})
        found = fit.largest_batch(config, NOTHING, BARE, memory, lambda line: None)
    room = memory * (1 - fit.MARGIN)

    def total(size: int) -> int:
        return base + each * -(-size // step) * step

    assert found.fits == (total(batch) <= room)
    assert len(tried) <= 16
    if found.largest is None:
        assert total(64 + step) > room / 1.05 - each * step
    else:
        assert total(found.largest) <= room
        assert found.largest in tried
        grown = int(1.15 * found.largest) + 2 * max(64, step)
        assert total(grown) > room or found.largest >= 14 * batch


def test_sentences_are_counted_where_they_size_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    with_memory(monkeypatch, 0, 100, 1)
    config: Any = from_mapping({"train": {"batch_sentences": 32}})
    found = fit.largest_batch(config, NOTHING, BARE, 10_000, lambda line: None)
    assert (found.key, found.configured, found.fits) == ("batch_sentences", 32, True)
    assert found.largest is not None
    assert 80 <= found.largest <= 85
