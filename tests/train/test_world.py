"""Ranks share out an update and agree on its sums; together they learn what one process learns."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.promises.ranks import children, in_world, on_ranks, torchrun, variables

from pellucid.cli import main
from pellucid.config import TrainConfig
from pellucid.config.mapping import to_mapping
from pellucid.errors import ConfigError
from pellucid.train import loop
from pellucid.train.journal import Reporter, read_metrics
from pellucid.train.parallel import check_world
from pellucid.train.stopping import stop_on_signals
from pellucid.train.train import open_data, open_session
from pellucid.train.workers import can_fork
from pellucid.train.world import (
    ALONE,
    RankGone,
    World,
    after_first,
    deal,
    find_world,
    meeting_point,
    require_same,
)

forks = pytest.mark.skipif(not can_fork(), reason="processes cannot be forked here")
SCRIPT = Path(__file__).parents[1] / "promises/11_same_update.py"


@given(st.lists(st.integers(0, 1000), max_size=40), st.integers(1, 6))
def test_work_is_dealt_once_and_evenly(costs: list[int], size: int) -> None:
    hands = deal(costs, size)
    assert sorted(item for hand in hands for item in hand) == list(range(len(costs)))
    assert max(map(len, hands)) - min(map(len, hands)) <= 1
    sums = [sum(costs[i] for i in hand) for hand in hands]
    assert max(sums) - min(sums) <= max(costs, default=0)
    assert all(hand == sorted(hand) for hand in hands)


def test_the_dearest_come_first_in_rounds_to_and_fro() -> None:
    assert deal([1, 6, 2, 5, 3, 4], 3) == [[0, 1], [2, 3], [4, 5]]
    assert deal([3, 1, 2], 1) == [[0, 1, 2]]


def test_without_torchrun_a_process_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    assert find_world() is ALONE
    assert ALONE.sum(1.5, 2) == [1.5, 2]
    assert ALONE.gather(["a"]) == [["a"]]
    assert ALONE.share([5, 1, 3]) == [0, 1, 2]
    assert not ALONE.is_abandoned


@pytest.mark.parametrize(("rank", "size"), [("2", "2"), ("-1", "2"), ("one", "2")])
def test_a_world_that_makes_no_sense_is_refused(rank: str, size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (variables(0, 2, 1) | {"RANK": rank, "WORLD_SIZE": size}).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=f"RANK={rank}, WORLD_SIZE={size}"):
        find_world()


@pytest.mark.parametrize(("size", "train", "fix"), [
    (3, TrainConfig(accumulate=4), "train.accumulate 3 or 6"), (3, TrainConfig(accumulate=1), "train.accumulate 3,"),
    (4, TrainConfig(accumulate=4, shard=3), "--train.shard 1 or 2 or 4"),
    (1, TrainConfig(shard=2), "--train.shard 1, or start it with torchrun"),
    (2, TrainConfig(accumulate=2, workers=2), "a rank for each core")])
def test_what_ranks_cannot_share_out_is_refused_with_what_would_do(size: int, train: TrainConfig, fix: str) -> None:
    with pytest.raises(ConfigError) as error:
        check_world(World(0, size), train)
    assert fix in error.value.fix


@forks
def test_ranks_agree_on_sums_and_gather_in_their_order() -> None:
    def task(world: World) -> Any:
        return (world.sum(0.1 * (world.rank + 1), 1.0), world.gather([f"é{world.rank}"] * world.rank),
                world.share([1, 2, 3, 4]))

    found = in_world(3, task)
    assert all(answer[0] == found[0][0] for answer in found)
    assert found[0][0] == pytest.approx([0.6, 3.0])
    assert [answer[1] for answer in found] == [[[], ["é1"], ["é2", "é2"]]] * 3
    assert sorted(item for answer in found for item in answer[2]) == [0, 1, 2, 3]


@forks
def test_a_rank_that_is_gone_is_noticed_by_the_others() -> None:
    def task(world: World) -> None:
        if world.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        world.meet()

    with pytest.raises(RuntimeError, match="rank 0: RankGone"):
        in_world(2, task, seconds=30)


@forks
def test_a_first_rank_that_is_gone_while_others_wait_for_what_it_prepares_is_noticed(tmp_path: Path) -> None:
    def task() -> None:
        world = find_world()
        try:
            with after_first(world, meeting_point(world)):
                os.kill(os.getpid(), signal.SIGKILL)
        except RankGone as error:
            (tmp_path / "told").write_text(f"{error.where}: {error.fix}")

    with pytest.raises(RuntimeError, match="the rank is gone"):
        on_ranks(2, task)
    told = (tmp_path / "told").read_text()
    assert told.startswith("rank 1 of 2: read what the others told")  # a mistake stays one in the next start


@forks
@pytest.mark.parametrize("wanted", ["3 ranks, DDP, t5", "2 ranks, FSDP2 over 2, rotary",
                                    "4 ranks, FSDP2 over 2, sinusoidal, classifier"])
def test_an_update_is_that_of_one_process(wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    spec = importlib.util.spec_from_file_location("same_update", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    promise = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(__import__("sys").modules, "same_update", promise)
    spec.loader.exec_module(promise)
    case = next(case for case in promise.cases() if wanted in str(case))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        weights, gradients, seen = promise.difference(case)
    finally:
        torch.set_num_threads(threads)
    assert weights <= 1e-6
    assert gradients <= 1e-6
    assert seen


@pytest.mark.parametrize(("world", "left"), [(ALONE, signal.SIG_DFL), (World(0, 2), None)])
def test_a_second_signal_ends_one_that_is_alone_and_not_a_rank(world: World, left: Any) -> None:
    with stop_on_signals(world) as signals:
        signal.raise_signal(signal.SIGTERM)
        assert signals == [signal.SIGTERM]
        assert (signal.getsignal(signal.SIGTERM) is left) == (left is not None)
        if left is None:
            signal.raise_signal(signal.SIGTERM)
            assert signals == [signal.SIGTERM] * 2


@pytest.fixture
def start(tmp_path: Path, tiny: Any) -> Callable[..., subprocess.Popen[str]]:
    """Starts a training of two ranks under torchrun in a folder."""
    config = tiny(train={"steps": 60, "accumulate": 2, "validate_every": 5, "timeout": 60.0})
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(to_mapping(config)))

    def begin(name: str, *more: str) -> subprocess.Popen[str]:
        words = ["train", str(tmp_path / "config.yaml"), "--out", str(tmp_path / name), *more]
        return subprocess.Popen(torchrun(2, words, restarts=1), stderr=subprocess.PIPE, text=True)

    return begin


def weights(run: Path) -> str:
    last = json.loads((run / "last.json").read_text())
    assert last["step"] == 60
    return hashlib.sha256((run / "checkpoints" / last["checkpoint"] / "model.safetensors").read_bytes()).hexdigest()


def wait_for_a_checkpoint(run: Path, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 120
    while not (run / "last.json").exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)


@forks
def test_a_rank_that_is_killed_and_a_stop_change_no_bit(start: Any, tmp_path: Path) -> None:
    words = ["train", str(tmp_path / "config.yaml"), "--out", str(tmp_path / "whole")]
    assert on_ranks(2, lambda: main(words)) == [0, 0]
    assert '"waiting"' in (tmp_path / "whole/metrics.jsonl").read_text()
    assert json.loads((tmp_path / "whole/environment.json").read_text())["worlds"] == [2]

    process = start("other")
    wait_for_a_checkpoint(tmp_path / "other", process)
    for rank in (ranks := children(process.pid)):
        os.kill(rank, signal.SIGTERM)
    process.terminate()  # of which torchrun tells the ranks once more
    told = process.communicate(timeout=240)[1]
    assert told.count("training seq2seq to step 60") == 1, told  # one rank tells
    assert told.count("stopped by SIGTERM, saved at step") == 1, told
    assert not any(Path(f"/proc/{rank}").exists() for rank in ranks)
    stopped_at = json.loads((tmp_path / "other/last.json").read_text())["step"]

    process = start("other")
    until = time.monotonic() + 120
    while json.loads((tmp_path / "other/last.json").read_text())["step"] == stopped_at and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(children(process.pid)[1], signal.SIGKILL)
    told = process.communicate(timeout=240)[1]
    assert weights(tmp_path / "other") == weights(tmp_path / "whole"), told


@forks
def test_ranks_save_by_the_clock_together() -> None:
    def task(world: World) -> str:
        saved = time.monotonic() - (loop.SAVED_EACH if world.rank == 1 else 0)
        session: Any = SimpleNamespace(learner=SimpleNamespace(world=world), saved=saved)
        return str(loop.is_late(session))

    assert in_world(2, task) == ["True", "True"]


@forks
def test_ranks_that_were_started_differently_are_told_what_differs() -> None:
    def task(world: World) -> str:
        try:
            require_same(world, {"precision": "fp32", "configuration": f"steps: {8000 + (world.rank == 2)}"})
        except ConfigError as error:
            return f"{error.what}: {error.why}"
        return "same"

    told = "ranks 0 and 2 have another configuration: 'steps: 8000' here, 'steps: 8001' there"
    assert in_world(3, task) == [told] * 3


@forks
@pytest.mark.parametrize("task", ["seq2seq", "classification"])
def test_validation_is_shared_out_and_gives_the_scores_of_one_process(task: str, tiny: Any, tmp_path: Path) -> None:
    monitor = "bleu" if task == "seq2seq" else "macro_f1"
    generated = {"task": "adjacent_duplicates"} if task == "classification" else {}
    config = tiny(task=task, data={"generated": generated}, train={"monitor": monitor, "workers": 1})
    reporter = Reporter(io.StringIO())
    data = open_data(config, tmp_path, reporter)

    def scores(world: World) -> dict[str, float]:
        session = open_session(config, tmp_path, data, None, reporter)
        session.learner.world = world
        return session.validate(None)

    alone = scores(ALONE)
    assert alone[monitor] > 0
    for found in in_world(3, scores):
        assert found == pytest.approx(alone, rel=1e-6)


@forks
def test_ranks_that_divide_weights_may_have_no_validation_batch(tiny: Any, tmp_path: Path) -> None:
    config = tiny(train={"batch_tokens": 400, "workers": 1, "timeout": 30.0})
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(to_mapping(config)))

    def losses(ranks: int) -> Any:
        out = tmp_path / str(ranks)
        words = ["train", str(tmp_path / "config.yaml"), "--train.shard", str(ranks), "--out", str(out)]
        assert on_ranks(ranks, lambda: main(words)) == [0] * ranks
        return [event["loss"] for event in read_metrics(out / "metrics.jsonl")]

    assert losses(2) == pytest.approx(losses(1), rel=1e-6)
