"""A world of ranks, reckoned by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pellucid.config import ModelConfig, RunConfig, TrainConfig
from pellucid.data.sample import corpus_of
from pellucid.errors import ConfigError
from pellucid.plan.budget import Machine
from pellucid.plan.gpus import GPUS, find_gpu
from pellucid.plan.memory import rehearse_operations
from pellucid.plan.pace import Pace, gpu_pace, line
from pellucid.plan.ranks import (
    Asked,
    Ranks,
    completed,
    exchange_seconds,
    memory_of_rank,
    plan_ranks,
    replay,
    update_of,
)
from pellucid.plan.traffic import Sizes, Traffic
from pellucid.plan.workload import Workload

NOTHING, NO_SIZES = Traffic(0.0, 0.0, 0), Sizes(0, 0, 0, 0, 0)


def planned(size: int, accumulate: int = 1, gpu: str | None = "H100", **train: object) -> Ranks:
    lengths = np.random.default_rng(0).integers(4, 40, (600, 2))
    source, target = ([np.full(n, 5) for n in lengths[:, side]] for side in (0, 1))
    workload = Workload(corpus_of(source, target), 600, 300, 300, True, 0, ())
    config = RunConfig(model=ModelConfig(d_model=32, n_heads=4, d_ff=64, encoder_layers=1, decoder_layers=1),
                       train=replace(TrainConfig(), batch_tokens=400, accumulate=accumulate, average_last=1, **train))
    asked = completed(Asked(size, gpu, 40e9, 8 if gpu else 2), config)
    return plan_ranks(config, workload, Machine("fp32", False, 0, 0, 0), asked, False, lambda text: None)


def test_the_real_dealing_is_replayed() -> None:
    costs = np.array([5.0, 1, 4, 2, 3, 3, 3, 3, 9.0])
    assert replay(costs, 4, 2).tolist() == [[6, 6], [6, 6]]  # 5 and 1, 4 and 2; what fills no update is left out
    assert replay(costs, 2, 2).max(1).tolist() == [5, 4, 3, 3]


def test_an_update_waits_for_the_dearest_hand() -> None:
    hands = np.array([[100.0, 60], [80, 80]])
    update = update_of(hands, 2, Pace(0.5, 0.01, 0.25, 0.0, None), Asked(2, per_host=2), NOTHING, 1)
    assert update.mean == pytest.approx(2 * 0.5 + 0.8)
    assert update.slowest == pytest.approx(2 * 0.5 + 0.9)
    assert update.seconds == pytest.approx(1.9 + 0.25)
    late = update_of(hands, 2, Pace(0.5, 0.01, 0.25, 0.0, None, late=0.1), Asked(2, per_host=2), NOTHING, 1)
    assert late.seconds == pytest.approx(update.seconds + 0.18)


def test_a_gpu_sends_while_it_computes_and_launches_what_is_small() -> None:
    pace, sent = Pace(0.0, 0.01, 0.0, 0.0, 1e-9, least=3.0), Traffic(0.0, 5e9, 2)
    asked = Asked(2, "H100", 1e9, 2)
    assert update_of(np.array([[100.0, 100]]), 1, pace, asked, sent, 1).seconds == pytest.approx(3 + 5 - 2)
    assert update_of(np.array([[900.0, 900]]), 1, pace, asked, sent, 1).seconds == pytest.approx(9)
    assert update_of(np.array([[900.0, 900]]), 3, pace, asked, sent, 1).seconds == pytest.approx(9 + 5 - 2)


def test_sending_takes_the_slower_of_host_and_network() -> None:
    pace = Pace(0.0, 0.0, 0.0, 0.1, 1 / 50)  # 50 bytes a second within a host
    assert exchange_seconds(Traffic(0, 100, 3), pace, Asked(2, None, 10, 2), 1) == pytest.approx(0.3 + 2)
    assert exchange_seconds(Traffic(0, 100, 3), pace, Asked(4, None, 10, 2), 1) == pytest.approx(0.3 + 10)
    assert exchange_seconds(Traffic(0, 100, 3), pace, Asked(4, None, 1000, 2), 1) == pytest.approx(0.3 + 2)
    # weights divided within a host; its two ranks share the network, each for a part of its own
    assert exchange_seconds(Traffic(100, 100, 3), pace, Asked(4, None, 10, 2), 2) == pytest.approx(0.3 + 2 + 20)
    assert exchange_seconds(Traffic(100, 0, 3), pace, Asked(4, None, 10, 2), 4) == pytest.approx(0.3 + 10)


def test_seconds_of_a_batch_and_of_a_place() -> None:
    costs = np.array([100.0, 200, 400])
    assert line(costs, 1 + 0.01 * costs) == pytest.approx((1, 0.01))
    assert line(costs, 0.01 * costs) == pytest.approx((0, 0.01))
    batch, place = line(costs, np.array([3.0, 2, 1]))  # noise: a larger batch is not faster
    assert (batch, place) == pytest.approx((2, 0))
    assert line(np.array([100.0, 101]), np.array([1.0, 3])) == pytest.approx((0, 2 / 100.5))  # about alike


def test_a_gpu_by_its_data_sheet() -> None:
    assert find_gpu("h 100") == find_gpu("H100") == GPUS["H100"]
    with pytest.raises(ConfigError, match="H9"):
        find_gpu("H9")
    lengths = [np.full(10, 5)] * 50
    workload = Workload(corpus_of(lengths, lengths), 50, 300, 300, True, 0, ())
    models = (ModelConfig(d_model=d, n_heads=8, encoder_layers=1, decoder_layers=1) for d in (512, 1024))
    narrow, wide = (gpu_pace(GPUS["A100"], RunConfig(model=model), workload, 10**9) for model in models)
    assert narrow.step == pytest.approx(28 / 2.04e3)
    assert narrow.least == wide.least > 1e-4
    assert wide.place < 4 * narrow.place  # a larger share of the peak
    muon = RunConfig(model=ModelConfig(d_model=512, n_heads=8, encoder_layers=1, decoder_layers=1),
                     train=TrainConfig(optimizer="muon"))
    found = gpu_pace(GPUS["A100"], muon, workload, 10**9)
    assert found.place == narrow.place  # whose products are its own
    products = rehearse_operations(muon, workload).step / (GPUS["A100"].flops * 0.2)
    assert found.step == pytest.approx(narrow.step + products)


def test_one_rank_is_as_fast_as_itself_and_more_are_no_faster_each() -> None:
    one = planned(1, 8)
    assert (one.strong, one.weak, one.traffic.bytes, one.idle) == (1, 1, 0, 0)
    for size in (2, 8, 64, 1024):
        found = planned(size, 8)
        assert found.accumulate == max(8, size)
        assert found.strong is not None
        assert 0 < found.strong <= 1
        assert found.weak is not None
        assert 0 < found.weak <= 1
        assert found.idle >= 0
        assert found.tokens == pytest.approx(one.tokens * found.accumulate / 8)


def test_without_a_measurement_there_is_no_time_and_all_else() -> None:
    found = planned(4, 8, gpu=None)
    assert (found.pace, found.update, found.strong, found.tokens_per_second) == (None, None, None, None)
    assert found.traffic.bytes > 0
    assert found.memory > found.holdings["weights"]


def test_checkpoints_are_averaged_beside_a_gpu_and_not_in_it() -> None:
    """Or a GPU that is large enough would be said to be too small."""
    rows = [np.full(2, 5)]
    workload = Workload(corpus_of(rows, rows), 1, 9000, 9000, True, 0, ())
    config = RunConfig(model=ModelConfig(d_model=32, n_heads=4, d_ff=64, encoder_layers=1, decoder_layers=1),
                       train=TrainConfig(average_last=5))
    held = memory_of_rank(config, workload, Machine("fp32", False, 0, 0, 0), Asked(1, "H100", per_host=1), NO_SIZES)
    assert held.keys() == {"weights", "optimizer", "activations", "logits", "CUDA"}


def test_divided_weights_take_less_of_each_rank() -> None:
    whole, divided = (planned(8, 8, shard=shard) for shard in (1, 8))
    for holder in ("weights", "optimizer"):
        assert divided.holdings[holder] == pytest.approx(whole.holdings[holder] / 8, abs=1)
    assert divided.traffic.divided > divided.traffic.replicated
