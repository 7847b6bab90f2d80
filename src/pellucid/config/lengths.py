"""What a run is too short for: its own warm-up, validations, early stopping, averages."""

from pellucid.config import TrainConfig


def too_short(train: TrainConfig, steps: int, per_epoch: int | None = None) -> list[str]:
    """What of the configuration does not come to bear in a run of so many updates, a sentence each.

    Args:
        steps: updates of the whole run, whatever `train.steps` and `train.epochs` say.
        per_epoch: updates that an epoch takes, where that is known.
    """
    every, warmup, told = train.validate_every or per_epoch, train.warmup_steps, []
    updates = f"{steps:,} update{'s' if steps > 1 else ''}"
    if steps <= warmup:
        told.append(f"the run ends within its warm-up: {updates}, and train.warmup_steps is {warmup:,}; the learning "
                    f"rate rises to {100 * steps / warmup:.0f} % of its peak and never falls")
    if every is not None:
        which = "train.validate_every" if train.validate_every else "an epoch, after which is validated,"
        due, after = -(-steps // every), (steps - 1) // every - max(min(steps - 1, warmup) // every, 1)
        if steps < every:
            told.append(f"the only validation is the one at the end: {updates}, and {which} is {every:,}; the learning "
                        "curve has one dot, and the last weights are the best")
        if train.patience is not None and train.patience > after:  # the first one always gains, the last ends nothing
            told.append(f"train.patience {train.patience} cannot end the run early: {max(after, 0)} validations come "
                        "after the warm-up, between the first and the end")
        if train.average_last > due > 1:
            told.append(f"train.average_last {train.average_last} finds {due} validations to average")
    if 2 * train.log_every > steps:
        told.append(f"training losses make no curve: {updates}, and train.log_every is {train.log_every:,}")
    return told
