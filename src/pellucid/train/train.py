"""`pellucid train` from end to end: the folder, the tokenizer, the ids, the model, the loop, the average, the card."""

import contextlib
import fcntl
import functools
import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from pellucid.config import RunConfig
from pellucid.config.lengths import too_short
from pellucid.config.mapping import from_mapping, to_mapping
from pellucid.data.batching import Batch, Batches
from pellucid.data.corpus import Corpus, open_corpus
from pellucid.data.examples import check_tokenizers, training_examples
from pellucid.data.splits import RECORD, Pairs, check_beginnings, check_splits, splits_to_train
from pellucid.data.tokenizers.build import Tokenizers
from pellucid.errors import CheckpointError
from pellucid.files import checked_sha256, make_folder, read_json, remove_leftovers, write_json
from pellucid.kernels.compiled import chosen, use_kernels
from pellucid.model.build import check
from pellucid.nn.initialization import seed_of
from pellucid.precision import keep_primitives, resolve
from pellucid.runs.folder import (
    ENDED,
    claim_config,
    has_begun,
    held,
    missing_places,
    prepare_tokenizers,
    refuse_foreign,
    require_own_parts,
    taken_back,
    write_environment,
)
from pellucid.runs.format import ENVIRONMENT, WEIGHTS
from pellucid.runs.passages import with_passages
from pellucid.runs.run import Run, build_model
from pellucid.runs.slim import refuse_slim
from pellucid.train.averaging import MovingAverage
from pellucid.train.checkpoint import CheckpointStore, load_checkpoint
from pellucid.train.finish import finish
from pellucid.train.initialize import initialize_from, source_of
from pellucid.train.journal import Metrics, Reporter, telling_lines
from pellucid.train.length import change_length, schedule_of, steps_of, updates_in
from pellucid.train.loop import Session, belongs, drawn_at_end, is_over, point_to_checkpoints, train_until_done
from pellucid.train.optimizer import make_optimizer
from pellucid.train.parallel import Objective, check_world, parallelize
from pellucid.train.stopping import Interrupted, stop_on_signals
from pellucid.train.trackers import make_trackers
from pellucid.train.tracking import Tracker, Tracking, with_own
from pellucid.train.unseen import check_unseen
from pellucid.train.update import Learner, at_work
from pellucid.train.validation import make_validation
from pellucid.train.workers import Workers, choose_workers
from pellucid.train.world import ALONE, World, after_first, find_world, joined, meeting_point, require_same

Data = tuple[dict[str, Pairs], Tokenizers, dict[str, Corpus]]


def train(config: RunConfig, out: str | Path, reporter: Reporter, extend: bool = False,
          trackers: Sequence[Tracker] = ()) -> dict[str, Any]:
    """Trains in the folder `out`, or goes on with what was begun there.

    Args:
        extend: whether a run that was to have another number of updates may go on even where it then comes out
            otherwise than one that was given that number at first (train/length.py).
        trackers: who is told of it, besides those of `config.train.track`.

    Returns:
        A summary: the step, why it is the last, the best checkpoint, its score and all that are known, parameters,
        tokens, seconds of updates, and which share of this process's time went into validation, saving and pictures
        (None without an update).

    Raises:
        UserError: with the exit code of its kind.
        Interrupted: after a signal, once everything is saved; in another thread than the main one no signal is heard.
    """
    config, out = from_mapping(to_mapping(config)), Path(out)  # checked, as a file would be
    check(config.model)
    world = find_world()
    check_world(world, config.train)
    keep_primitives()
    refuse_slim(out)
    refuse_foreign(out)
    tracked = with_own(make_trackers(config.train.track), trackers)
    with contextlib.ExitStack() as stack:
        store = meeting_point(world)
        with after_first(world, store):
            source = None if has_begun(out) else source_of(config)
            made = missing_places(out)
            make_folder(out)
            if world.is_first:
                stack.enter_context(only_writer(out))
                stack.enter_context(taken_back(out, made))
                before = claim_config(config, out)
            require_own_parts(out, config)
            data = open_data(config, out, reporter, world)
        stack.enter_context(joined(world, store, config.train.timeout))
        session = open_session(config, out, data, source, reporter, world)
        del source  # its weights are copied
        restore(session)
        world.meet()  # nothing is removed while another rank reads
        if world.is_first:
            session.tracking = Tracking(tracked, out, to_mapping(config), reporter.say)
            if before is not None:
                change_length(session, before, out, extend)
            settle(session)
            if not is_over(session):  # a run that has ended was made where it was made
                remember_environment(session, out)
        introduce(session, out)
        signals = stack.enter_context(stop_on_signals(world))
        with at_work(session.learner), told_of(session), drawn_at_end(session):
            session.stop_requested = lambda: bool(signals) or world.is_abandoned
            if not train_until_done(session):
                raise Interrupted(next(iter(signals), signal.SIGTERM), session.learner.progress.step)
            return finish(session, out)


@contextlib.contextmanager
def told_of(session: Session) -> Iterator[None]:
    """The trackers are there while this lasts; they begin after the workers, which must not have their threads."""
    if not is_over(session):
        session.tracking.begin(session.learner.progress.step)
    try:
        yield
    finally:
        session.tracking.end()


@contextlib.contextmanager
def only_writer(out: Path) -> Iterator[None]:
    """Holds the run folder: two runs never write to one."""
    with held(out, fcntl.LOCK_EX, "another process is training in this folder") as lock:
        os.register_at_fork(after_in_child=lock.close)  # a worker that ends later than this process holds it no longer
        for folder in (out, out / "checkpoints", out / "figures"):
            remove_leftovers(folder)
        yield


def read_corpus(pairs: Pairs, tokenizers: Tokenizers, config: RunConfig, reporter: Reporter) -> Corpus:
    """The ids of a split, with a word on what was left out."""
    corpus = open_corpus(pairs, tokenizers, config, telling_lines(pairs.split, pairs.name, reporter))
    reporter.say(f"{pairs.name}: {corpus.report}")
    return corpus


def remember_data(splits: dict[str, Pairs], corpora: dict[str, Corpus], out: Path, world: World = ALONE) -> None:
    """Writes data.json, if this is the first rank."""
    now = {name: {**pairs.describe(), "sha256": pairs.sha256(), "files": pairs.digests(),
                  **(asdict(corpora[name].report) if name in corpora else {})} for name, pairs in splits.items()}
    if world.is_first:
        write_json(out / RECORD, now)


def open_data(config: RunConfig, out: Path, reporter: Reporter, world: World = ALONE) -> Data:
    """The splits, the tokenizers, and the ids of every split but that of the test."""
    splits = splits_to_train(config, out)
    check_splits(splits, out)
    if not has_begun(out):
        check_beginnings(splits)
        check_unseen(config, splits)
    telling = functools.partial(telling_lines, splits["train"].split, "tokenizer", reporter)
    tokenizers = prepare_tokenizers(config, splits["train"], out, reporter.say, telling, world.is_first)
    check_tokenizers(config, tokenizers)
    splits = with_passages(splits, config, out, reporter.progress)
    corpora = {name: read_corpus(pairs, tokenizers, config, reporter)
               for name, pairs in splits.items() if name != "test"}
    remember_data(splits, corpora, out, world)
    return splits, tokenizers, corpora


def open_session(config: RunConfig, out: Path, data: Data, source: Run | None, reporter: Reporter,
                 world: World = ALONE) -> Session:
    """All the parts of a run, at its beginning; with the weights of `source`, if there is one."""
    train_config, (splits, tokenizers, corpora), device = config.train, data, world.device
    model = build_model(config, tokenizers, seed_of(config.seed, "weights")).to(device)
    if source is not None:
        initialize_from(source, model, tokenizers, out if world.is_first else None, reporter.say)
    examples = training_examples(corpora["train"], tokenizers, config)
    batches = Batches(examples, train_config.batch_tokens, train_config.batch_sentences, config.seed)
    first, steps = batches[0], steps_of(config, batches.per_epoch)
    precision = resolve(train_config.precision, device)
    use_kernels(device, train_config.kernels == "auto")
    require_same(world, {"configuration": json.dumps(to_mapping(config)), "precision": precision,
                         "version of pellucid": version("pellucid"), "version of torch": torch.__version__})
    objective = parallelize(Objective(model, train_config), world, train_config.shard)
    workers = workers_of(config, out, first) if world.size == 1 else Workers(1, None)
    learner = Learner(
        config=config, model=model, objective=objective, world=world, optimizer=make_optimizer(model, train_config),
        average=MovingAverage(model, train_config.ema_decay) if train_config.ema_decay else None, batches=batches,
        schedule=schedule_of(config, steps), precision=precision, device=device, workers=workers)
    every = train_config.validate_every or updates_in(config, batches.per_epoch)
    store = CheckpointStore(out, train_config.average_last, lambda step: step % every == 0 or step == steps)
    return Session(learner=learner, steps=steps, validate_every=every, store=store,
                   metrics=Metrics(out / "metrics.jsonl"), reporter=reporter,
                   validate=make_validation(learner, tokenizers, splits, corpora, reporter.say),
                   tracking=Tracking({}, out, {}, reporter.say))


def remember_environment(session: Session, out: Path) -> None:
    """Writes environment.json, by the first rank, before its first update; what changes its sums is told."""
    learner, before = session.learner, environment_before(out)
    worlds = worlds_of(out, learner.world, session.reporter.say)
    now = {"device": str(learner.device), "precision": learner.precision, "kernels": chosen(),
           "workers": learner.workers.count, "threads": learner.workers.all_threads, "worlds": worlds}
    for name in ("device", "precision", "kernels", "workers")[: 4 if learner.world.size == 1 else 3]:
        was, here = (str(each).partition(":")[0] for each in (before.get(name, now[name]), now[name]))  # without why
        if was != here:
            session.reporter.say(f"{name}: {was} before, {here} now; the same examples and rates, "
                                 + "other dropout and " * (name != "precision") + "sums that are rounded otherwise")
    write_environment(out, learner.config, now)


def environment_before(out: Path) -> dict[str, Any]:
    """What environment.json says of a run that has begun."""
    path = out / ENVIRONMENT
    before = read_json(path) if has_begun(out) and path.exists() else {}
    return before if isinstance(before, dict) else {}


def workers_of(config: RunConfig, out: Path, first: Batch) -> Workers:
    """As many as are wanted or, so that the run goes on with the same sums, as it has had."""
    wanted = config.train.workers or environment_before(out).get("workers")
    return choose_workers(wanted, first.source_tokens + first.target_tokens)


def worlds_of(out: Path, world: World, say: Callable[[str], None]) -> list[int]:
    """How many ranks the run has had, one number for each change, up to now; a change is told."""
    before = environment_before(out)
    worlds = [int(size) for size in before.get("worlds", [1] if before else [])]
    if worlds and worlds[-1] != world.size:
        also = " and, as it had workers, other dropout" if before.get("workers", 1) > 1 else ""
        say(f"another world: {worlds[-1]} rank{'s' * (worlds[-1] > 1)} before, {world.size} now; the same examples, "
            f"rates and dropout, sums that are rounded otherwise{also}")
    return worlds if worlds[-1:] == [world.size] else [*worlds, world.size]


def restore(session: Session) -> None:
    """Fills the learner from the newest checkpoint that is whole, if there is any; writes nothing.

    Raises:
        CheckpointError: there are checkpoints, and none is whole.
    """
    store, learner, failures = session.store, session.learner, []
    for step in reversed(store.steps()):
        try:
            learner.progress = load_checkpoint(store.path(step), learner.model, learner.optimizer, learner.average)
            break
        except CheckpointError as error:
            failures.append(error)
            session.reporter.say(f"checkpoint passed over: {error}")
    if failures and learner.progress.step == 0:
        raise failures[0]
    if (best := learner.progress.best_step) and best != learner.progress.step:
        try:
            checked_sha256(store.path(best), WEIGHTS, anew=True)
        except CheckpointError as error:  # or a later one, damaged since, was better
            session.reporter.say(f"the best is lost, the next validation chooses anew: {error.where}: {error.what}")
            learner.progress.best_score = None


def settle(session: Session) -> None:
    """Makes the folder say what holds at the step from which the run goes on."""
    store, progress = session.store, session.learner.progress
    (store.run_folder / ENDED).unlink(missing_ok=True)
    session.metrics.rewind(progress.step, lambda event: belongs(session, event))
    if progress.step:
        point_to_checkpoints(session)
        store.prune(progress.step)


def introduce(session: Session, out: Path) -> None:
    """The first lines: what is trained, how large it is, where it is written, how it goes on after a stop."""
    learner, step = session.learner, session.learner.progress.step
    where, world = f"from step {step:,} " if step else "", learner.world
    who = f"{world.size} ranks, {learner.workers} each" if world.size > 1 else learner.workers
    session.reporter.say(f"training {learner.config.task} {where}to step {session.steps:,}: "
                         f"{sum(p.numel() for p in learner.parameters):,} parameters, {learner.precision} products on "
                         f"{learner.device}, {learner.batches.per_epoch:,} batches an epoch, {who}")
    session.reporter.say(f"run folder {out}" + ("" if is_over(session) else ": run the same command again to resume"))
    if not is_over(session):
        per_epoch = updates_in(learner.config, learner.batches.per_epoch)
        for text in too_short(learner.config.train, session.steps, per_epoch):
            session.reporter.say(f"note: {text}")
