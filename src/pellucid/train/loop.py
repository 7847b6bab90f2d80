"""The training loop, on one screen: update, log, validate, save, stop.

A run of more updates goes through the same states. So what is done because a run ends, and not because it is due, as
its last line and its last validation, leaves no trace in the progress that is saved.
"""

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from pellucid.errors import OutputError
from pellucid.train.averaging import MovingAverage
from pellucid.train.checkpoint import CheckpointStore, Progress, buffers_of, check_buffers, save_checkpoint
from pellucid.train.flow import Flow, watch
from pellucid.train.journal import Metrics, Reporter, draw_loss_curve, duration
from pellucid.train.objective import passes
from pellucid.train.tracking import Tracking
from pellucid.train.update import Learner, check_finite, update

Ended = Literal["steps", "patience"]
SAVED_EACH = 15 * 60.0  # seconds: of training without a validation in which it is saved all the same
DRAWING = 0.01  # the share of the time that may go into the loss curve, but for its first and its last picture


@dataclass
class Spent:
    """Seconds of this process: in updates, and in all else, which is validation, saving and pictures."""

    updates: float = 0.0
    others: float = 0.0

    @property
    def overhead(self) -> float | None:
        """The share of the others; None before the first update."""
        return self.others / (self.updates + self.others) if self.updates else None


@dataclass
class Session:
    """Everything that a run of the loop works with."""

    learner: Learner
    steps: int
    validate_every: int  # updates
    store: CheckpointStore
    metrics: Metrics
    reporter: Reporter
    validate: Callable[[MovingAverage | None], dict[str, float]]  # scores of its weights or, with None, the model's
    tracking: Tracking
    stop_requested: Callable[[], bool] = lambda: False
    draw_from: float = -math.inf  # when the loss curve may be drawn anew, by time.monotonic()
    is_behind: bool = False  # the loss curve
    saved: float = field(default_factory=time.monotonic)  # when the last checkpoint was, or the beginning
    spent: Spent = field(default_factory=Spent)


def train_until_done(session: Session) -> bool:
    """Updates until the last step, early stopping, or a request to stop; false, with all saved, if it was a request."""
    learner, progress, log_every = session.learner, session.learner.progress, session.learner.config.train.log_every
    waiting, buffers = Waiting(learner.world.size), buffers_of(learner.model)
    while not is_over(session):
        started = time.monotonic()
        is_last, is_line = progress.step + 1 == session.steps, (progress.step + 1) % log_every == 0
        with watch(learner.model, learner.optimizer) if is_line or is_last else contextlib.nullcontext() as flow:
            made, rate = update(learner, session.stop_requested)
        if buffers:
            check_buffers(learner.model, buffers)
        seconds = time.monotonic() - started
        progress.seconds += seconds
        session.spent.updates += seconds
        waiting.add(made.waited, seconds)
        loss = progress.loss_sum / progress.loss_tokens  # the mean since the line before in metrics.jsonl
        show_progress(session, loss, rate, waiting.share)
        if flow is not None:
            log(session, loss, made.gradient_norm, rate, flow, waiting.share)
        if is_line:
            progress.loss_sum, progress.loss_tokens, waiting = 0.0, 0, Waiting(learner.world.size)
        is_due = progress.step % session.validate_every == 0
        is_saved = is_due or is_last or (is_line and is_late(session))
        if is_due:
            validate_and_save(session)
        elif is_saved:
            save(session)
        if session.stop_requested() if learner.world.size == 1 else made.stops:  # asked once: a signal comes any time
            if not is_saved:
                save(session)
            return False
        session.spent.others += time.monotonic() - started - seconds
    return True


def is_late(session: Session) -> bool:
    """Whether any rank has trained for long since the last checkpoint: a kill now would cost too much. All must ask."""
    return session.learner.world.sum(time.monotonic() - session.saved >= SAVED_EACH)[0] > 0


@dataclass
class Waiting:
    """How much of their time the ranks of a world of this size have waited for each other, since it was made."""

    size: int
    _waited: float = 0.0
    _seconds: float = 0.0

    def add(self, waited: float, seconds: float) -> None:
        """An update that took so long, and in which all of them together waited so long."""
        self._waited += waited
        self._seconds += self.size * seconds

    @property
    def share(self) -> float | None:
        """From 0 to 1; None for one that is alone."""
        return max(0.0, self._waited / self._seconds) if self.size > 1 and self._seconds else None


def belongs(session: Session, event: dict[str, Any]) -> bool:
    """Whether this run writes such a line in metrics.jsonl: one that ended earlier wrote some where it ended."""
    every = {"train": session.learner.config.train.log_every, "validation": session.validate_every}
    step = event["step"]
    return event["event"] not in every or step % every[event["event"]] == 0 or bool(step == session.steps)


def tokens_per_second(progress: Progress) -> float:
    """Source and target tokens an update second, padding not counted."""
    return (progress.source_tokens + progress.target_tokens) / max(progress.seconds, 1e-9)


def log(session: Session, loss: float, gradient_norm: float, rate: float, flow: Flow,
        waiting: float | None = None) -> None:
    """A line in metrics.jsonl; its gradient norms are those before clipping."""
    learner, progress, train = session.learner, session.learner.progress, session.learner.config.train
    norms = flow.before_clipping(gradient_norm, train.clip_norm)
    epoch = (progress.step * train.accumulate - 1) // learner.batches.per_epoch + 1  # of the last micro-batch
    record(session, {  # of the parts four significant digits, so that a line stays short
        "event": "train", "step": progress.step, "epoch": epoch,
        "loss": loss, "learning_rate": rate, "gradient_norm": gradient_norm,
        "source_tokens": progress.source_tokens, "target_tokens": progress.target_tokens,
        "tokens_per_second": round(tokens_per_second(progress), 1), "seconds": round(progress.seconds, 3),
        **({} if waiting is None else {"waiting": round(waiting, 4)}),
        "gradient_norms": {part: float(f"{norm:.4g}") for part, norm in norms.items()},
        "update_ratios": {part: float(f"{ratio:.4g}") for part, ratio in flow.update_ratios.items()}})


def record(session: Session, event: dict[str, Any]) -> None:
    """A line in metrics.jsonl, of which the trackers hear."""
    if session.learner.world.is_first:
        session.metrics.write(event)
        session.tracking.tell(event)
        session.is_behind = True


def show_progress(session: Session, loss: float, rate: float, waiting: float | None = None) -> None:
    """Step, loss, rate, speed, the share of waiting and time left, for people."""
    progress, train = session.learner.progress, session.learner.config.train
    left = progress.seconds * (passes(train, session.steps) / passes(train, progress.step) - 1)
    left /= 1 - (session.spent.overhead or 0.0)
    session.reporter.progress(f"step {progress.step:,}/{session.steps:,}  loss {loss:.3f}  rate {rate:.2e}  "
                              f"{tokens_per_second(progress):,.0f} tokens/s  "
                              + (f"waiting {waiting:.0%}  " if waiting is not None else "") + f"{duration(left)} left")


def score(session: Session) -> dict[str, float]:
    """The scores of the weights as they are, which are written and told; the loss must be finite."""
    learner, step = session.learner, session.learner.progress.step
    scores = session.validate(learner.average)
    check_finite("the validation loss", step, {"loss": scores["loss"]})
    record(session, {"event": "validation", "step": step, **scores})
    best, monitor = learner.progress.best_score, learner.config.train.monitor
    told = "  ".join(f"{name} {value:.3f}" for name, value in scores.items())
    is_best = best is None or is_better(monitor, scores[monitor], best)
    session.reporter.say(f"step {step:,}  validation  {told}{'  (best)' if is_best else ''}")
    return scores


def scores_at_end(session: Session) -> dict[str, float]:
    """The scores of the last step, found now unless they were before."""
    step = session.learner.progress.step
    found = [event for event in session.metrics.read() if event["event"] == "validation" and event["step"] == step]
    if found:
        return found[-1]
    session.learner.world.meet()  # the first rank writes no line before all have looked
    scores = score(session)
    draw(session)
    return scores


def draw(session: Session) -> None:
    """The loss curve so far."""
    if session.learner.world.is_first:
        began = time.monotonic()
        draw_loss_curve(session.metrics.read(), session.store.run_folder / "figures" / "loss.png")
        ended = time.monotonic()
        session.draw_from, session.is_behind = ended + (ended - began) / DRAWING, False


@contextlib.contextmanager
def drawn_at_end(session: Session) -> Iterator[None]:
    """However this ends, the loss curve shows all of it then. That it cannot be drawn hides no other end."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(OutputError):
            _catch_up(session)
        raise
    _catch_up(session)


def _catch_up(session: Session) -> None:
    if session.is_behind:
        draw(session)


def validate_and_save(session: Session) -> None:
    """Scores the weights, notes whether they are the best so far, and saves everything."""
    progress, train = session.learner.progress, session.learner.config.train
    value = score(session)[train.monitor]
    if progress.best_score is None or is_better(train.monitor, value, progress.best_score):
        progress.best_score, progress.best_step, progress.validations_without_gain = value, progress.step, 0
    elif progress.step > train.warmup_steps:
        progress.validations_without_gain += 1
    save(session)
    if time.monotonic() >= session.draw_from:
        draw(session)


def save(session: Session) -> None:
    """The checkpoint of this step, then the files that point to it; what nobody needs any more is removed last. All
    ranks give their part, and the first one writes."""
    learner, store, step = session.learner, session.store, session.learner.progress.step
    save_checkpoint(store.path(step), learner.model, learner.optimizer, learner.average, learner.progress,
                    learner.world)
    if learner.world.is_first:
        point_to_checkpoints(session)
        store.prune(step)
    learner.world.meet()
    session.saved = time.monotonic()


def point_to_checkpoints(session: Session) -> None:
    """Makes best.json and last.json say what the progress says."""
    progress, store = session.learner.progress, session.store
    if progress.best_score is not None and store.path(progress.best_step).exists():
        store.point_best(store.path(progress.best_step).name, progress.best_step,
                         session.learner.config.train.monitor, progress.best_score)
    store.point_last(progress.step)


def is_better(monitor: str, score: float, than: float) -> bool:
    """Lower for a loss, higher for every other score."""
    return score < than if monitor == "loss" else score > than


def is_out_of_patience(session: Session) -> bool:
    """Whether early stopping is on and due; validations within the warm-up do not count."""
    patience = session.learner.config.train.patience
    return patience is not None and session.learner.progress.validations_without_gain >= patience


def is_over(session: Session) -> bool:
    """Whether there are no more updates to be made."""
    return session.learner.progress.step >= session.steps or is_out_of_patience(session)


def how_ended(session: Session) -> tuple[Ended, str]:
    """Why there are no more updates, as a word and as a sentence."""
    progress, train = session.learner.progress, session.learner.config.train
    if progress.step >= session.steps:
        return "steps", f"all {session.steps:,} updates were made"
    moved, count = "fallen" if train.monitor == "loss" else "risen", progress.validations_without_gain
    return "patience", (f"stopped early at step {progress.step:,}: validation {train.monitor} has not {moved} for "
                        f"{count} validation{'s' if count > 1 else ''} (best at step {progress.best_step:,})")
