"""How many updates a run makes and at which rates, and what becomes of both when one that has begun is to make more."""

import math
from collections.abc import Callable
from pathlib import Path

from pellucid.config import RunConfig
from pellucid.errors import ConfigError
from pellucid.runs.folder import write_config
from pellucid.train.learning_rate import learning_rate, paper_peak
from pellucid.train.loop import Session


def updates_in(config: RunConfig, batches_per_epoch: int, epochs: float = 1) -> int:
    """Updates that so many epochs take; the last one may have too few batches for itself, and takes the next ones."""
    return math.ceil(epochs * batches_per_epoch / config.train.accumulate)


def steps_of(config: RunConfig, batches_per_epoch: int) -> int:
    """The updates of the whole run."""
    epochs = config.train.epochs
    return config.train.steps if epochs is None else updates_in(config, batches_per_epoch, epochs)


def schedule_of(config: RunConfig, steps: int) -> Callable[[int], float]:
    """The learning rate of each update, counted from 1, in a run of so many."""
    train = config.train
    peak = train.learning_rate or paper_peak(config.model.d_model, train.warmup_steps)
    return lambda step: learning_rate(step, train.schedule, peak, train.warmup_steps, steps)


def change_length(session: Session, before: RunConfig, out: Path, extend: bool) -> None:
    """Lets a run that has begun as `before` go on for another number of updates, or with more patience. It comes out,
    bit for bit, as if they had been asked for at first; where the schedule does not allow that, only if it is to
    `extend` all the same, which is then written into metrics.jsonl.

    Raises:
        ConfigError: it cannot come out so; it has made more updates already; less patience than before.
    """
    learner, step, steps = session.learner, session.learner.progress.step, session.steps
    config, old = learner.config, steps_of(before, learner.batches.per_epoch)
    least, patience = before.train.patience, config.train.patience
    if patience is not None and (least is None or patience < least):
        raise ConfigError("a run that has begun can be given more train.patience, not less", where="train.patience",
                          why=f"it began with {'null' if least is None else least}, and might have ended before now",
                          fix="give another --out, or more")
    if steps < step:
        raise ConfigError(f"the run has made {step:,} updates, and is to make {steps:,}", where=str(out),
                          fix="give another --out, or more updates")
    made, wanted = schedule_of(before, old), schedule_of(config, steps)
    if step and made(step) != wanted(step):
        name = config.train.schedule
        if not extend:
            raise ConfigError(
                f"{steps:,} updates cannot come out as if they had been asked for at first", where=str(out),
                why=f"train.schedule {name} ends where the run does: the {step:,} updates that were made had the rates "
                    f"of a run of {old:,}. The last one was {made(step):.2e}, the next would be {wanted(step + 1):.2e}",
                fix="give another --out to train anew; or say --extend to go on all the same, which the run will tell")
        session.metrics.rewind(step)  # or it would stand behind a line cut short, or be told again after a crash
        event = {"event": "extended", "step": step, "from": old, "to": steps}
        if session.metrics.read()[-1:] != [event]:
            session.metrics.write(event)
        session.reporter.say(f"extended from {old:,} to {steps:,} updates: up to step {step:,} the rates were those of "
                             f"the shorter run, so another run of {steps:,} will come out otherwise")
    elif steps != old:
        session.reporter.say(f"{steps:,} updates in place of {old:,}, as if they had been asked for at first")
    write_config(config, out)
