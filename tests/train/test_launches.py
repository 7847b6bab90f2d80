"""Recorded updates are those launched one by one. What is recorded needs a GPU; what is launched does not, and is
launched here again each time, with what a recording would know of it: places in memory, and no numbers."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from pellucid.config import RunConfig
from pellucid.data.batching import Batch, Batches
from pellucid.errors import PellucidWarning
from pellucid.kernels import attention, calls, cross_entropy, dropout, gpu
from pellucid.model.build import build, build_classifier
from pellucid.nn import sampled_softmax
from pellucid.nn.attention_pattern import AttentionPattern
from pellucid.train import update as updates
from pellucid.train.averaging import MovingAverage
from pellucid.train.flow import watch
from pellucid.train.launches import AtOnce, OneByOne
from pellucid.train.optimizer import make_optimizer
from pellucid.train.parallel import Objective
from pellucid.train.update import Learner, against_recording, update
from pellucid.train.world import World

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
EPSILON = 0.01  # so that gradients of nothing but rounding move nothing
WAITS = {"_local_scalar_dense", "nonzero", "_unique2", "unique_dim", "masked_select", "is_nonzero", "equal"}
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {}, "accumulate": {"train": {"accumulate": 2}},
    "r_drop late": {"train": {"r_drop": 1.0, "r_drop_after": 4}},
    "sampled words": {"train": {"sampled_words": 4, "r_drop": 1.0}},
    "muon": {"train": {"optimizer": "muon", "weight_decay": 0.1}}, "adam": {"train": {"optimizer": "adam"}},
    "average": {"train": {"ema_decay": 0.8}}, "rotary": {"model": {"position": "rotary"}},
    "alibi": {"model": {"position": "alibi"}}, "t5": {"model": {"position": "t5"}},
    "relative": {"model": {"position": "transformer_xl"}},
    "window": {"model": {"attention": "window", "window": 2}},
    "dropouts": {"model": {"attention_dropout": 0.1, "feed_forward_dropout": 0.1, "feed_forward": "swiglu"}},
    "classifier": {"task": "classification"}, "first token": {"task": "classification", "model": {"pooling": "first"}},
    "largest": {"task": "classification", "model": {"pooling": "max"}, "train": {"r_drop": 1.0}},
}


class NoWaiting(TorchDispatchMode):
    """What a GPU would have to be waited for cannot be recorded."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert function.overloadpacket._qualified_op_name.split("::")[1] not in WAITS, function
        return function(*args, **(kwargs or {}))


def whole_norm(tensors: list[Tensor]) -> Tensor:
    return torch.stack([each.norm() for each in tensors]).norm()


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is looked at to choose a way."""
    if torch.cuda.is_available():
        gpu.use(True, CUDA)
    monkeypatch.setattr(AttentionPattern, "grows", True)
    monkeypatch.setattr(attention, "_is_finite", lambda *tensors: True)
    monkeypatch.setattr(cross_entropy, "_are_ids", lambda *tensors: True)
    monkeypatch.setattr(dropout, "drop", torch.nn.functional.dropout)
    monkeypatch.setattr(torch.nn.utils, "get_total_norm", whole_norm)
    calls.load({})


def again(function: gpu.Launch) -> gpu.Launch:
    """Launches it each time, and nothing that waits."""
    def launch() -> None:
        with NoWaiting():
            function()
    return launch


class Given(Batches):
    """Batches of a few sizes, in turn: some rows shorter than others, or all as long."""

    def __init__(self, labels: bool) -> None:
        self.labels = labels

    def __getitem__(self, number: int) -> Batch:
        random = torch.Generator().manual_seed(number)
        rows, source, target = [(4, 6, 5), (3, 9, 7), (4, 6, 5)][number % 3]
        sides = [torch.randint(4, 11, (rows, length), generator=random) for length in (source, target)]
        real = [torch.arange(side.shape[1]) < side.shape[1] - torch.arange(rows)[:, None] for side in sides]
        if self.labels:
            return Batch(sides[0], real[0], sides[1][:, :1] % 3, sides[1][:, :1], None)
        begun = torch.cat([torch.ones(rows, 1, dtype=torch.int64), sides[1][:, :-1]], 1)
        return Batch(sides[0], None if number % 3 == 2 else real[0], sides[1], begun, real[1] if number % 3 else None)


def learner_of(config: RunConfig, device: torch.device = CPU) -> Learner:
    is_labels = config.task == "classification"
    model: Any = (build_classifier(config.model, 11, 3, seed=1) if is_labels
                  else build(config.model, 11, 11, shared=True, seed=1))
    model.to(device)
    return Learner(config=config, model=model.train(), objective=Objective(model, config.train),
                   optimizer=make_optimizer(model, config.train), batches=Given(is_labels),
                   average=MovingAverage(model, 0.8) if config.train.ema_decay else None,
                   schedule=lambda step: 0.01 / step, precision=config.train.precision, device=device)


@pytest.mark.parametrize("over", VARIANTS.values(), ids=VARIANTS)
def test_an_update_is_the_same_and_waits_for_nothing(over: dict[str, Any], tiny: Callable[..., RunConfig],
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny(**{**over, "train": {"accumulate": 1, "epsilon": EPSILON, **over.get("train", {})}})
    one_by_one, at_once = learner_of(config), learner_of(config)
    at_once.launch = launch = AtOnce(CPU, again)
    monkeypatch.setattr(sampled_softmax, "STEP", 4)
    for _ in range(9):
        (one, rate), (other, same_rate) = update(one_by_one), update(at_once)
        assert rate == same_rate
        assert (one.loss, one.gradient_norm) == pytest.approx((other.loss, other.gradient_norm), rel=1e-5)
    assert launch.fault is None
    assert sum(made is not None for made in launch._known.values()) >= 4  # two sizes or three, clipping, the step
    for name, parameter in one_by_one.model.named_parameters():
        torch.testing.assert_close(parameter, at_once.model.get_parameter(name), msg=name)
    if config.train.ema_decay:
        assert one_by_one.average is not None
        assert at_once.average is not None
        torch.testing.assert_close(one_by_one.average.weights, at_once.average.weights)


def test_numbers_and_places_may_change_but_not_sizes() -> None:
    launch = AtOnce(CPU, again)
    made: list[Tensor] = []

    def work(scale: float | Tensor, x: Tensor) -> Tensor:
        made.append(x)
        return x * scale

    for number in range(4):
        for size in (2, 3):
            assert launch("work", work, [number, torch.full((size,), 3.0)]).tolist() == [3.0 * number] * size
    assert len({id(x) for x in made}) == 4  # of each size one that was computed, and one that is recorded


def test_what_comes_out_is_not_overwritten_by_the_next() -> None:
    launch = AtOnce(CPU, again)
    found = [launch("work", lambda x: x, [float(number)]) for number in range(5)]
    assert [float(each) for each in found] == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.train.launches.MOST", 3)
    launch = AtOnce(CPU, again)
    for number in range(20):
        launch("work", lambda x: x, [torch.zeros(number % 5)])
        assert len(launch._known) <= 3


@pytest.fixture
def refusing() -> Callable[[gpu.Launch], gpu.Launch]:
    """Records the trial, and then no more."""
    recorded = []

    def record(function: gpu.Launch) -> gpu.Launch:
        recorded.append(function)
        if len(recorded) > 1:
            raise RuntimeError("operation not permitted when stream is capturing\nsee more")
        return again(function)

    return record


def test_what_cannot_be_recorded_is_launched_one_by_one(
        refusing: Callable[[gpu.Launch], gpu.Launch], tiny: Callable[..., RunConfig]) -> None:
    one_by_one, at_once = (learner_of(tiny(train={"epsilon": EPSILON})) for _ in range(2))
    at_once.launch = launch = AtOnce(CPU, refusing)
    update(at_once)
    with pytest.warns(PellucidWarning, match="it cannot be recorded"):
        update(at_once)
    update(at_once)
    for _ in range(3):
        update(one_by_one)
    assert launch.fault == "it cannot be recorded (operation not permitted when stream is capturing)"
    for one, other in zip(one_by_one.parameters, at_once.parameters, strict=True):
        torch.testing.assert_close(one, other)


def test_what_failed_holds_no_memory_when_the_work_is_done_again() -> None:
    """It may have failed for want of memory."""
    launch, held = AtOnce(CPU, again), list[Any]()
    launch._record = lambda function: function() or function

    def work(x: Tensor) -> Tensor:
        assert all(each() is None for each in held)
        activations = x * 2
        held.append(weakref.ref(activations))
        if len(held) == 2:  # while it is recorded
            raise RuntimeError("out of memory")
        return activations.sum()

    launch("work", work, [torch.ones(3)])
    with pytest.warns(PellucidWarning, match="out of memory"):
        assert float(launch("work", work, [torch.ones(3)])) == 6
    assert len(held) == 3


def test_what_does_not_know_of_new_random_numbers_is_recorded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    launch, recorded = AtOnce(CPU, again), list[int]()
    launch._record = lambda function: recorded.append(1) or again(function)
    for number in range(9):
        if number == 5:
            monkeypatch.setattr(gpu, "_renewed", gpu._renewed + 1)
        launch("work", lambda x: x, [float(number)])
    assert len(recorded) == 2


def test_recording_is_tried_before_it_is_used() -> None:
    def once(function: gpu.Launch) -> gpu.Launch:
        function()
        return lambda: None  # and nothing when it is launched

    def never(function: gpu.Launch) -> gpu.Launch:
        raise RuntimeError("no device\nsee more")

    def nothing_said(function: gpu.Launch) -> gpu.Launch:
        raise ValueError

    with pytest.warns(PellucidWarning, match="piece by piece: what is recorded"):
        assert AtOnce(CPU, once).fault == "what is recorded differs here from what is launched one by one"
    with pytest.warns(PellucidWarning, match="piece by piece: it cannot"):
        launch = AtOnce(CPU, never)
    assert launch.fault == "it cannot be recorded (no device)"
    with pytest.warns(PellucidWarning, match="piece by piece: it cannot be recorded"):
        assert AtOnce(CPU, nothing_said).fault == "it cannot be recorded (ValueError)"
    assert launch("work", lambda x: x + 1, [torch.ones(1)]).tolist() == [2.0]


@pytest.mark.parametrize(("over", "size", "reason"), [
    ({}, 2, "there are other ranks"), ({"model": {"output_bias": True}}, 1, "an output bias waits"),
    ({}, 1, "there is no GPU")])
def test_updates_that_cannot_be_recorded_are_known(over: dict[str, Any], size: int, reason: str,
                                                   tiny: Callable[..., RunConfig]) -> None:
    learner = learner_of(tiny(**over))
    learner.world = World(size=size)
    assert (against_recording(learner) or "").startswith(reason)


def test_a_step_that_somebody_watches_is_never_recorded(tiny: Callable[..., RunConfig]) -> None:
    keys: list[object] = []

    class Seen(AtOnce):
        def __call__(self, key: Any, *rest: Any) -> Any:
            keys.append(key)
            return super().__call__(key, *rest)

    learner = learner_of(tiny())
    learner.launch = Seen(CPU, again)
    for _ in range(4):
        update(learner)
    assert "step" in keys
    keys.clear()
    with watch(learner.model, learner.optimizer) as flow:
        update(learner)
    assert "step" not in keys
    assert flow.gradient_norms.keys() == flow.update_ratios.keys()
    assert "encoder.layers.0" in flow.gradient_norms


def test_they_are_recorded_for_as_long_as_the_learner_is_at_work(
        monkeypatch: pytest.MonkeyPatch, tiny: Callable[..., RunConfig]) -> None:
    learner = learner_of(tiny())
    monkeypatch.setattr(updates, "unrecordable", lambda model: None)
    monkeypatch.setattr(updates, "AtOnce", lambda device: AtOnce(device, again))
    with updates.at_work(learner):
        assert isinstance(learner.launch, AtOnce)
        for _ in range(3):
            update(learner)
    assert type(learner.launch) is OneByOne
    assert all(parameter.grad is None for parameter in learner.parameters)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("over", VARIANTS.values(), ids=VARIANTS)
def test_on_a_gpu_recorded_updates_are_the_others_to_the_bit(
        over: dict[str, Any], precision: str, tiny: Callable[..., RunConfig]) -> None:
    sizes = {"d_model": 64, "n_heads": 2, "d_ff": 128, **over.get("model", {})}
    trained = {"accumulate": 1, "precision": precision, **over.get("train", {})}
    config = tiny(**{**over, "model": sizes, "train": trained})
    found = []
    for is_recorded in (True, False):
        learner = learner_of(config, CUDA)
        with updates.at_work(learner):
            assert isinstance(learner.launch, AtOnce)
            if not is_recorded:
                learner.launch._record = None
            made = [update(learner)[0].loss for _ in range(12)]
            assert learner.launch.fault is None
            assert any(each is not None for each in learner.launch._known.values()) == is_recorded
        found.append((made, [p.detach().clone() for p in learner.parameters]))
    assert found[0][0] == found[1][0]
    assert all(torch.equal(one, other) for one, other in zip(found[0][1], found[1][1], strict=True))
