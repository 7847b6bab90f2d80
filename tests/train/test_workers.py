"""Workers: their gradients are those of one, they see the weights there are, and what they raise is raised here."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pellucid.config import RunConfig
from pellucid.data.batching import Batch, collate
from pellucid.data.corpus import Corpus, Sequences
from pellucid.data.encoding import Report
from pellucid.errors import ConfigError, NumericalError, UserError
from pellucid.model.build import build, build_classifier
from pellucid.train import parallel
from pellucid.train import train as train_run
from pellucid.train import update as train_update
from pellucid.train.averaging import MovingAverage
from pellucid.train.optimizer import make_optimizer
from pellucid.train.parallel import Objective
from pellucid.train.parts import as_batches, as_tensors, divide
from pellucid.train.update import Learner, at_work, update
from pellucid.train.validation import mean_loss, using
from pellucid.train.workers import Workers, can_fork, choose_workers

V, ROWS = 9, 14
forks = pytest.mark.skipif(not can_fork(), reason="processes are not forked here")


def sequences(rows: list[list[int]]) -> Sequences:
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    return Sequences(np.asarray([i for row in rows for i in row], dtype=np.int32), offsets)


def corpus_of(lengths: list[tuple[int, int]]) -> Corpus:
    draw = np.random.default_rng(0)
    sides = [[draw.integers(3, V, size=pair[side]).tolist() for pair in lengths] for side in range(2)]
    return Corpus(sequences(sides[0]), sequences(sides[1]), Report(0, 0, 0, 0, 0, 0))


class Given:
    """Batches of given examples."""

    def __init__(self, corpus: Corpus, split: list[range]) -> None:
        self.corpus, self.split, self.per_epoch = corpus, split, len(split)

    def __getitem__(self, number: int) -> Batch:
        return collate(self.corpus, np.asarray(self.split[number % len(self.split)]))


def learner_of(config: RunConfig, count: int) -> Learner:
    """On batches of 9, 4 and 1 rows of very different lengths, in turn."""
    corpus = corpus_of([(1 + i * 5 % 7, 1 + i * 3 % 8) for i in range(ROWS)])
    if config.task == "classification":
        corpus = Corpus(corpus.source, sequences([[i % 3] for i in range(ROWS)]), corpus.report)
        model: Any = build_classifier(config.model, V, 3)
    else:
        model = build(config.model, V, V, shared=True, seed=1)
    batches: Any = Given(corpus, [range(9), range(9, 13), range(13, 14)])
    return Learner(config=config, model=model, objective=Objective(model, config.train),
                   optimizer=make_optimizer(model, config.train),
                   average=MovingAverage(model, 0.5), batches=batches, schedule=lambda step: 0.01 * step,
                   precision="fp32", device=torch.device("cpu"), workers=Workers(count, 1))


def gradients_of(learner: Learner, updates: int = 3) -> list[dict[str, torch.Tensor]]:
    """What the optimizer got at each update; the norm and the summed loss beside it."""
    found: list[dict[str, torch.Tensor]] = []
    learner.optimizer.register_step_pre_hook(lambda *_: found.append(
        {name: p.grad.clone() for name, p in learner.model.named_parameters() if p.grad is not None}))
    with at_work(learner):
        for seen in range(updates):
            before = learner.progress.loss_sum
            norm = update(learner)[0].gradient_norm
            found[seen] |= {"norm": torch.tensor(norm), "loss": torch.tensor(learner.progress.loss_sum - before)}
    return found


@forks
@pytest.mark.parametrize("task", ["seq2seq", "classification"])
@pytest.mark.parametrize("r_drop", [0.0, 2.0])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_gradients_by_any_number_of_workers_are_those_of_one(task: str, r_drop: float, accumulate: int,
                                                             tiny: Any) -> None:
    """The third batch has fewer rows than there are workers."""
    config = tiny(task=task, model={"dropout": 0.0}, train={"r_drop": r_drop, "accumulate": accumulate})
    expected = gradients_of(learner_of(config, 1))
    for count in (2, 3):
        for found, alone in zip(gradients_of(learner_of(config, count)), expected, strict=True):
            assert found.keys() == alone.keys()
            for name, gradient in alone.items():
                torch.testing.assert_close(found[name], gradient, rtol=1e-5, atol=1e-6)


class Seldom(nn.Module):
    """A feed-forward layer of one's own for some rows, which may all be another worker's, with a weight that is not
    trained."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.scale = inner, nn.Parameter(torch.tensor(0.5), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x[:, 0, 0] > 0
        return self.scale * self.inner(x) * rows[:, None, None] if rows.any() else torch.zeros_like(x)


@forks
def test_not_every_worker_has_a_gradient_of_every_parameter(tiny: Any) -> None:
    found = []
    for count in (1, 2, 3):
        learner = learner_of(tiny(model={"dropout": 0.0}, train={"accumulate": 1}), count)
        for layer in (learner.model.encoder.layers[0], learner.model.decoder.layers[0]):
            layer.feed_forward = Seldom(layer.feed_forward)
        learner.__post_init__()
        learner.optimizer, learner.average = make_optimizer(learner.model, learner.config.train), None
        found.append(gradients_of(learner, updates=6))
    alone = found[0]
    assert len({len(gradients) for gradients in alone}) > 1  # in some updates no row asks for the layer
    for several in found[1:]:
        for gradients, expected in zip(several, alone, strict=True):
            assert gradients.keys() == expected.keys()
            for name, gradient in expected.items():
                torch.testing.assert_close(gradients[name], gradient, rtol=1e-5, atol=1e-6)


@forks
@pytest.mark.parametrize("accumulate", [1, 4])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_as_many_workers_give_the_same_bits(count: int, accumulate: int, tiny: Any) -> None:
    """Also where each adds up three batches, which they get as bytes."""
    config = tiny(model={"dropout": 0.3, "attention_dropout": 0.2}, train={"accumulate": accumulate})
    first, again = (gradients_of(learner_of(config, count)) for _ in range(2))
    assert all(torch.equal(one[name], other[name]) for one, other in zip(first, again, strict=True) for name in one)


@forks
def test_every_row_has_a_dropout_of_its_own(tiny: Any) -> None:
    """Two workers on two equal rows: without dropout their losses are equal, with it they are not."""
    losses = {}
    for dropout in (0.0, 0.5):
        learner = learner_of(tiny(model={"dropout": dropout}, train={"accumulate": 1}), 2)
        row = collate(corpus_of([(5, 6)]), np.asarray([0, 0]))
        with at_work(learner), learner.workers.asked("gradients", [as_tensors({7: divide(row, 2)[1]}) | {
                "tokens": torch.tensor(12)}]) as answers:  # type: ignore[dict-item]
            ours = next(iter(train_update.add_gradients(learner, 0, {7: divide(row, 2)[0]}, 12))).item()
        losses[dropout] = [ours, answers[0][0]]
    assert losses[0.0][0] == losses[0.0][1]
    assert losses[0.5][0] != losses[0.5][1]


@forks
def test_workers_see_weights_that_are_filled_and_averaged(tiny: Any) -> None:
    """The loss by three workers is to the bit that of one, whichever weights the model was given."""
    config = tiny(train={"batch_tokens": 12})
    learner = learner_of(config, 3)
    corpus = learner.batches.corpus
    alone = lambda: mean_loss(learner.model, corpus, config, "fp32", Workers(1, 1))  # noqa: E731
    losses = []
    with at_work(learner):
        for average in (None, learner.average):
            update(learner)
            with using(average, learner.model):
                losses.append(mean_loss(learner.model, corpus, config, "fp32", learner.workers))
                assert losses[-1] == alone()
        losses.append(mean_loss(learner.model, corpus, config, "fp32", learner.workers))
        assert losses[-1] == alone()
    assert len(set(losses)) == 3


@forks
def test_what_a_worker_raises_is_raised_here_and_the_next_task_finds_no_old_answer(
        tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    learner, real = learner_of(tiny(), 2), parallel.training_loss
    main = os.getpid()

    def broken(model: Any, batch: Batch, config: Any, step: int, words: int) -> torch.Tensor:
        if os.getpid() != main and len(batch.source) == 1:
            raise NumericalError("too large", where="here", why="because", fix="wait")
        if os.getpid() != main and learner.progress.step == 0 and len(batch.source) == 2:
            raise MemoryError("none left")
        return real(model, batch, config, step)

    monkeypatch.setattr(parallel, "training_loss", broken)
    tokens = {"tokens": torch.tensor(9)}
    one, two = (as_tensors({0: collate(learner.batches.corpus, np.arange(rows))}) for rows in (1, 2))
    with at_work(learner):
        with pytest.raises(NumericalError) as numerical, learner.workers.asked("gradients", [one | tokens]):
            pass
        assert (numerical.value.what, numerical.value.where, numerical.value.why, numerical.value.fix) == (
            "too large", "here", "because", "wait")
        with pytest.raises(UserError, match="of 2") as failed, learner.workers.asked("gradients", [two | tokens]):
            pass
        assert "MemoryError: none left" in failed.value.why
        with pytest.raises(ZeroDivisionError), learner.workers.asked("assess", [one]):
            raise ZeroDivisionError
        with learner.workers.asked("assess", [two]) as answers:
            expected = train_update.assess(learner.model, as_batches(two)[0], "fp32")
        assert answers == [expected]


@forks
def test_a_run_goes_on_with_as_many_workers_as_it_began_with(tmp_path: Path, tiny: Any, stop_at: Any,
                                                             snapshot: Any, train_through: Any) -> None:
    def count(folder: Path) -> tuple[int, int]:
        environment = json.loads((folder / "environment.json").read_text())
        return environment["workers"], environment["threads"]

    two, one = tiny(train={"workers": 2}), tiny()
    train_through(two, tmp_path / "whole")
    with pytest.raises(train_run.Interrupted):
        train_run.train(two, tmp_path / "run", stop_at((4,)))
    noted = json.loads((tmp_path / "run/environment.json").read_text())
    elsewhere = noted | {"device": "cuda:0", "precision": "bf16", "kernels": f"{noted['kernels'].split(':')[0]}: why"}
    (tmp_path / "run/environment.json").write_text(json.dumps(elsewhere))  # as if it had been begun there
    reporter = stop_at()
    train_run.train(one, tmp_path / "run", reporter)
    assert count(tmp_path / "run") == (2, 2)
    assert "2 workers of one thread" in reporter.told
    assert "device: cuda before, cpu now; the same examples and rates, other dropout and sums" in reporter.told
    assert "precision: bf16 before, fp32 now; the same examples and rates, sums that are rounded" in reporter.told
    assert "kernels: " not in reporter.told
    assert "workers: " not in reporter.told
    there, here = snapshot(tmp_path / "run"), snapshot(tmp_path / "whole")
    assert "workers: null" in there.pop("config.yaml")
    assert "workers: 2" in here.pop("config.yaml")
    assert there == here
    train_run.train(tiny(train={"workers": 3}), tmp_path / "run", stop_at())
    assert count(tmp_path / "run") == (2, 2)  # it has ended, and was made by two
    more = {"workers": 3, "steps": one.train.steps + 1}
    train_run.train(tiny(train=more), tmp_path / "run", reporter)
    assert count(tmp_path / "run") == (3, 3)
    assert "workers: 2 before, 3 now" in reporter.told
    with pytest.raises(ConfigError, match=r"train.learning_rate"):
        train_run.train(tiny(train={**more, "learning_rate": 0.5}), tmp_path / "run", stop_at())


@forks
def test_the_number_follows_threads_and_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    assert [choose_workers(None, tokens).count for tokens in (1, 1023, 1024, 2047, 10**6)] == [1, 1, 2, 3, 4]
    assert choose_workers(7, 1) == Workers(7, 1)
    monkeypatch.setattr("pellucid.train.workers.can_fork", lambda: False)
    assert choose_workers(7, 10**6) == Workers(1, None)
    assert str(Workers(1, None)) == "1 worker of 4 threads"
    assert Workers(1, None).all_threads == 4


def test_threads_are_as_before_when_the_workers_are_gone(tiny: Any) -> None:
    torch.set_num_threads(2)
    try:
        learner = learner_of(tiny(), 2 if can_fork() else 1)
        with at_work(learner):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
        assert not learner.workers.processes
    finally:
        torch.set_num_threads(1)
