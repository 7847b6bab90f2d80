"""One update: micro-batches are one batch, the loss a mean over real targets, and what is not finite stops it."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from pellucid.config import RunConfig, TrainConfig
from pellucid.data.batching import collate
from pellucid.data.corpus import Corpus, Sequences
from pellucid.data.encoding import Report
from pellucid.data.tokenizers.interface import EOS, PAD
from pellucid.errors import NumericalError
from pellucid.model.build import build, build_classifier
from pellucid.model.transformer import Transformer
from pellucid.nn.cross_entropy import label_smoothed_cross_entropy
from pellucid.nn.dropout import Dropout
from pellucid.nn.embeddings import SILENT
from pellucid.nn.r_drop import r_drop_cross_entropy
from pellucid.train.loop import Spent, show_progress
from pellucid.train.objective import batch_loss, passes, r_drop_loss, training_loss
from pellucid.train.optimizer import make_optimizer
from pellucid.train.parallel import Objective
from pellucid.train.update import Learner, add_gradients, assess, update

V = 9


def sequences(rows: list[list[int]]) -> Sequences:
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    return Sequences(np.asarray([i for row in rows for i in row], dtype=np.int32), offsets)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """Twelve pairs of very different lengths, so that any split into batches has padding of its own."""
    draw = np.random.default_rng(0)
    sides = [[[*draw.integers(4, V, size=draw.integers(1, 7)).tolist(), EOS] for _ in range(12)] for _ in range(2)]
    return Corpus(sequences(sides[0]), sequences(sides[1]), Report(12, 12, 0, 0, 0, 0))


class Given:
    """Batches of given examples."""

    def __init__(self, corpus: Corpus, split: list[list[int]]) -> None:
        self.corpus, self.split, self.per_epoch = corpus, split, len(split)

    def __getitem__(self, number: int) -> Any:
        return collate(self.corpus, np.asarray(self.split[number % len(self.split)]))


def learner(config: RunConfig, batches: Any) -> Learner:
    model = build(config.model, V, V, shared=True, seed=1)
    return Learner(config=config, model=model, objective=Objective(model, config.train),
                   optimizer=make_optimizer(model, config.train), average=None,
                   batches=batches, schedule=lambda step: 0.01 * step, precision="fp32", device=torch.device("cpu"))


SPLITS = [[list(range(12))], [list(range(5)), list(range(5, 12))], [[0, 11, 3], [1], [2, 4, 5, 6, 7, 8], [9, 10]],
          [[i] for i in range(12)]]


@pytest.mark.parametrize("clip_norm", [None, 0.05, 100.0])
def test_micro_batches_are_one_batch_at_any_split(corpus: Corpus, tiny: Callable[..., RunConfig],
                                                 clip_norm: float | None) -> None:
    results = []
    for split in SPLITS:
        config = tiny(model={"dropout": 0.0}, train={"accumulate": len(split), "clip_norm": clip_norm})
        one = learner(config, Given(corpus, split))
        seen: dict[str, torch.Tensor] = {}
        one.optimizer.register_step_pre_hook(lambda *_, one=one, seen=seen: seen.update(  # type: ignore[misc]
            {name: p.grad.clone() for name, p in one.model.named_parameters() if p.grad is not None}))
        made, rate = update(one)
        norm = made.gradient_norm
        results.append((norm, rate, seen, one.progress.loss_sum / one.progress.loss_tokens,
                        one.progress.target_tokens, one.progress.source_tokens))
    expected, plain = results[0], learner(tiny(model={"dropout": 0.0}), Given(corpus, SPLITS[0]))
    whole = plain.batches[0]
    (batch_loss(plain.model, whole, plain.config.train.label_smoothing) / whole.target_tokens).backward()
    of_the_mean = torch.linalg.vector_norm(torch.stack([p.grad.norm() for p in plain.parameters if p.grad is not None]))
    for norm, rate, gradients, loss, *tokens in results:
        assert norm == pytest.approx(of_the_mean.item(), rel=1e-4)
        assert rate == expected[1]
        assert loss == pytest.approx(expected[3], rel=1e-5)
        assert tokens == [int(corpus.target.lengths.sum()), int(corpus.source.lengths.sum())]
        for name, gradient in gradients.items():
            torch.testing.assert_close(gradient, expected[2][name], rtol=1e-3, atol=1e-6)
        total = torch.linalg.vector_norm(torch.stack([g.norm() for g in gradients.values()])).item()
        assert total == pytest.approx(min(norm, clip_norm or norm), rel=1e-3)


def test_a_loss_of_before_an_update_has_no_gradient_any_more(corpus: Corpus, tiny: Callable[..., RunConfig]) -> None:
    """It would be that of other weights: torch is told of what a fused optimizer wrote."""
    one = learner(tiny(), Given(corpus, SPLITS[0]))
    loss = batch_loss(one.model, one.batches[0], smoothing=0.0)
    update(one)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_what_a_rank_waits_is_time_without_computing(corpus: Corpus, tiny: Callable[..., RunConfig]) -> None:
    def wait_and_compute(*_: object) -> None:
        time.sleep(0.05)
        until = time.thread_time() + 0.1
        while time.thread_time() < until:
            pass

    one = learner(tiny(), Given(corpus, SPLITS[0]))
    one.model.source_embedding.register_forward_pre_hook(wait_and_compute)
    began = time.monotonic()
    waited = update(one)[0].waited
    assert 0.05 <= waited <= time.monotonic() - began - 0.1


def test_the_loss_is_the_mean_over_real_target_tokens_in_plain_words(corpus: Corpus,
                                                                    tiny: Callable[..., RunConfig]) -> None:
    config = tiny(model={"dropout": 0.0}, train={"accumulate": 2, "label_smoothing": 0.2})
    one = learner(config, Given(corpus, SPLITS[1]))
    assert isinstance(one.model, Transformer)
    terms = []
    with torch.no_grad():
        for i in range(len(corpus)):
            batch = collate(corpus, np.asarray([i]))
            logits = one.model(batch.source, batch.target_input)[0]
            terms += label_smoothed_cross_entropy(logits, batch.target[0], 0.2).tolist()
    update(one)
    assert one.progress.loss_tokens == len(terms)
    assert one.progress.loss_sum == pytest.approx(sum(terms), rel=1e-5)


def test_a_classifiers_loss_counts_examples(corpus: Corpus, tiny: Callable[..., RunConfig]) -> None:
    labels = Corpus(corpus.source, sequences([[i % 3] for i in range(12)]), corpus.report)
    model = build_classifier(tiny(model={"dropout": 0.0}).model, V, 3)
    together = collate(labels, np.arange(12))
    assert together.target_tokens == 12
    alone = sum(batch_loss(model, collate(labels, np.asarray([i])), 0.1).item() for i in range(12))
    assert batch_loss(model, together, 0.1).item() == pytest.approx(alone, rel=1e-5)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("place", ["loss", "gradient"])
def test_what_is_not_finite_stops_before_the_weights(value: float, place: str, corpus: Corpus,
                                                    tiny: Callable[..., RunConfig],
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    one = learner(tiny(train={"accumulate": 2}), Given(corpus, SPLITS[1]))
    update(one)
    before = {name: p.detach().clone() for name, p in one.model.named_parameters()}
    moments = {id(p): s["exp_avg"].clone() for p, s in one.optimizer.state.items()}
    if place == "loss":
        def broken(model: Any, batch: Any, config: Any, step: int, words: int) -> torch.Tensor:
            loss = training_loss(model, batch, config, step)
            return loss if batch.source.shape[0] == 5 else loss * value  # in the second micro-batch
        monkeypatch.setattr("pellucid.train.parallel.training_loss", broken)
    else:
        parameter = next(one.model.parameters())
        parameter.register_hook(lambda gradient: torch.full_like(gradient, value))
    progress = dict(vars(one.progress))
    with pytest.raises(NumericalError, match="not finite at step 2") as error:
        update(one)
    assert error.value.exit_code == 5
    assert vars(one.progress) == progress
    for name, p in one.model.named_parameters():
        assert torch.equal(p, before[name])
    assert all(torch.equal(s["exp_avg"], moments[id(p)]) for p, s in one.optimizer.state.items())


def test_dropout_depends_on_the_seed_and_the_number_of_the_batch_alone(corpus: Corpus,
                                                                      tiny: Callable[..., RunConfig]) -> None:
    def losses(seed: int, noise: int) -> list[float]:
        one = learner(tiny(seed=seed, model={"dropout": 0.5}), Given(corpus, [[0, 1, 2]]))
        found = []
        for _ in range(3):
            torch.rand(noise)  # what others draw in between
            before = one.progress.loss_sum
            update(one)
            found.append(one.progress.loss_sum - before)
        return found

    assert losses(1, 0) == losses(1, 7)
    assert losses(1, 0) != losses(2, 0)


def test_each_worker_draws_a_dropout_of_its_own_for_each_batch(corpus: Corpus, tiny: Callable[..., RunConfig]) -> None:
    one = learner(tiny(model={"dropout": 0.5}), Given(corpus, [[0, 1, 2]]))
    losses = [add_gradients(one, worker, {number: one.batches[number]}, tokens=1)[0].item()
              for worker in range(3) for number in range(3)]
    assert len(set(losses)) == 9


def test_updates_take_the_batches_from_the_first_one_on(corpus: Corpus, tiny: Callable[..., RunConfig]) -> None:
    taken: list[int] = []

    class Told(Given):
        def __getitem__(self, number: int) -> Any:
            taken.append(number)
            return super().__getitem__(number)

    one = learner(tiny(train={"accumulate": 2}), Told(corpus, SPLITS[3]))
    for _ in range(3):
        update(one)
    assert taken == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("kind", ["seq2seq", "classification"])
def test_r_drop_is_its_equation_over_real_targets(kind: str, corpus: Corpus, tiny: Callable[..., RunConfig],
                                                  either_way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch with padding against each example alone; at dropout 0 it is the plain loss."""
    config = tiny(model={"dropout": 0.0}).model
    labels = Corpus(corpus.source, sequences([[i % 3] for i in range(12)]), corpus.report)
    data, model = (corpus, build(config, V, V, shared=True)) if kind == "seq2seq" else (
        labels, build_classifier(config, V, 3))
    batch = collate(data, np.arange(12))
    torch.testing.assert_close(r_drop_loss(model, batch, 0.1, 5.0), batch_loss(model, batch, 0.1))

    def halve_the_second_pass(self: Dropout, x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2)
        return torch.cat([first, second / 2])

    monkeypatch.setattr(Dropout, "forward", halve_the_second_pass)
    monkeypatch.setattr(Dropout, "add", lambda self, x, y: x + halve_the_second_pass(self, y))
    alone, plain = 0.0, 0.0
    for i in range(12):
        one = collate(data, np.asarray([i])).twice()
        logits = model(one.source, one.target_input) if isinstance(model, Transformer) else model(one.source)[:, None]
        alone += r_drop_cross_entropy(logits, one.target[0], 0.1, 5.0).sum().item()
        plain += 0.5 * sum(label_smoothed_cross_entropy(half, one.target[0], 0.1).sum().item() for half in logits)
    together = r_drop_loss(model, batch, 0.1, 5.0).item()
    assert together == pytest.approx(alone, rel=1e-4)
    assert together > 1.01 * plain


@pytest.mark.parametrize(("smoothing", "alpha"), [(0.0, 2.0), (0.2, 0.5)])
def test_what_is_asked_for_reaches_r_drop(smoothing: float, alpha: float, corpus: Corpus,
                                          tiny: Callable[..., RunConfig]) -> None:
    config = tiny(model={"dropout": 0.3}, train={"r_drop": alpha, "label_smoothing": smoothing})
    model, batch = build(config.model, V, V, shared=True), collate(corpus, np.arange(12))
    losses = []
    for ask in (lambda: training_loss(model, batch, config.train, 1),
                lambda: r_drop_loss(model, batch, smoothing, alpha)):
        torch.manual_seed(5)
        losses.append(ask().item())
    assert losses[0] == losses[1]


def test_an_update_uses_r_drop_where_it_is_asked_for(corpus: Corpus, tiny: Callable[..., RunConfig],
                                                     either_way: str) -> None:
    losses = {}
    for alpha in (0.0, 1e-9, 5.0):
        config = tiny(model={"dropout": 0.3}, train={"accumulate": 1, "r_drop": alpha})
        one = learner(config, Given(corpus, SPLITS[0]))
        update(one)
        losses[alpha] = one.progress.loss_sum
        assert one.progress.target_tokens == int(corpus.target.lengths.sum())  # once, not twice
    assert len(set(losses.values())) == 3
    assert losses[5.0] > losses[1e-9]


def test_r_drop_begins_after_as_many_updates_as_it_is_told(corpus: Corpus, tiny: Callable[..., RunConfig]) -> None:
    def losses(**train: Any) -> list[float]:
        one = learner(tiny(model={"dropout": 0.3}, train={"accumulate": 2} | train), Given(corpus, SPLITS[1]))
        one.schedule = lambda step: 0.0
        return [update(one)[0].loss for _ in range(3)]

    never, always, late = losses(), losses(r_drop=2.0), losses(r_drop=2.0, r_drop_after=2)
    assert late == [*never[:2], always[2]]
    assert never[2] != always[2]


def test_the_time_left_counts_a_sentence_twice_once_r_drop_has_begun() -> None:
    told = list[str]()
    for step in (40, 70):  # after 40 seconds, 60 updates are to come, all with R-Drop; after 100, 30
        progress = SimpleNamespace(step=step, seconds=passes(TrainConfig(r_drop=1.0, r_drop_after=40), step),
                                   source_tokens=1, target_tokens=1)
        config = SimpleNamespace(train=TrainConfig(r_drop=1.0, r_drop_after=40))
        session: Any = SimpleNamespace(learner=SimpleNamespace(progress=progress, config=config), steps=100,
                                       reporter=SimpleNamespace(progress=told.append), spent=Spent())
        show_progress(session, 1.0, 0.1)
    assert [line.split("  ")[-1] for line in told] == ["2 min 00 s left", "1 min 00 s left"]


def test_the_time_left_has_room_for_validations() -> None:
    told = list[str]()
    progress = SimpleNamespace(step=50, seconds=300.0, source_tokens=1, target_tokens=1)
    session: Any = SimpleNamespace(
        learner=SimpleNamespace(progress=progress, config=SimpleNamespace(train=TrainConfig())), steps=100,
        reporter=SimpleNamespace(progress=told.append), spent=Spent(60.0, 12.0))
    show_progress(session, 1.0, 0.1)
    assert told[0].endswith("6 min 00 s left")
    assert (Spent().overhead, Spent(3.0, 1.0).overhead) == (None, 0.25)


def test_r_drop_reads_each_batch_twice_once_it_has_begun() -> None:
    assert passes(TrainConfig(), 100) == passes(TrainConfig(r_drop=1.0, r_drop_after=100), 100) == 100
    assert passes(TrainConfig(r_drop=1.0), 100) == 200
    assert passes(TrainConfig(r_drop=1.0, r_drop_after=40), 30) == 30
    assert passes(TrainConfig(r_drop=1.0, r_drop_after=40), 100) == 160


@pytest.mark.parametrize("alpha", [0.0, 2.0])
def test_an_update_may_sample_words_and_a_validation_has_them_all(alpha: float, corpus: Corpus,
                                                                 tiny: Callable[..., RunConfig],
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.nn.sampled_softmax.STEP", 2)
    shortest = int(corpus.target.lengths.argmin())
    batch, losses = collate(corpus, np.asarray([shortest])), []
    assert 2 * len(batch.target.unique()) <= V - 2
    for words in (0, 2, V):
        one = learner(tiny(model={"dropout": 0.0}, train={"accumulate": 1, "r_drop": alpha, "sampled_words": words}),
                      Given(corpus, [[shortest]]))
        losses.append((update(one)[0].loss, *assess(learner(tiny(), one.batches).model, batch, "fp32")))
    assert losses[0] == pytest.approx(losses[2])
    assert losses[1][0] != losses[0][0]
    assert losses[1][1] == losses[0][1]


@pytest.mark.parametrize("alpha", [0.0, 5.0])
def test_smoothing_is_spread_over_all_words_where_some_are_sampled(alpha: float, corpus: Corpus,
                                                                  tiny: Callable[..., RunConfig],
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.nn.sampled_softmax.STEP", 2)
    model = build(tiny(model={"dropout": 0.0}).model, V, V, shared=True, seed=1)
    batch = collate(corpus, np.asarray([int(corpus.target.lengths.argmin())]))

    def loss(smoothing: float, words: int) -> torch.Tensor:
        torch.manual_seed(3)  # the same words are drawn
        if alpha:
            return r_drop_loss(model, batch, smoothing, alpha, words)
        return batch_loss(model, batch, smoothing, words)

    found, expected = loss(0.3, 2) - loss(0.0, 2), loss(0.3, 0) - loss(0.0, 0)
    assert loss(0.0, 2) != loss(0.0, 0)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    wanted = torch.autograd.grad(expected, list(model.parameters()))
    for ours, theirs in zip(torch.autograd.grad(found, list(model.parameters())), wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 5.0])
@pytest.mark.parametrize("n_silent", [0, 3])
def test_smoothing_is_spread_over_tokens_that_are_not_silent(n_silent: int, alpha: float, corpus: Corpus,
                                                             tiny: Callable[..., RunConfig], either_way: str) -> None:
    config = tiny(model={"output_bias": True, "dropout": 0.0})
    model, batch = build(config.model, V + n_silent, V + n_silent, shared=True, seed=1), collate(corpus, np.arange(12))
    model.output_bias.bias.data.normal_()
    model.output_bias.bias.data[V:] = SILENT
    real = batch.target != PAD
    logits = model(batch.source, batch.target_input, batch.source != PAD)[real][:, :V]
    expected = label_smoothed_cross_entropy(logits, batch.target[real], 0.2).sum()
    found = r_drop_loss(model, batch, 0.2, alpha) if alpha else batch_loss(model, batch, 0.2)
    torch.testing.assert_close(found, expected)
    wanted = torch.autograd.grad(expected, list(model.parameters()))
    for ours, theirs in zip(torch.autograd.grad(found, list(model.parameters())), wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)
