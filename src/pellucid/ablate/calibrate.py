"""What an update of a cell costs: for the dry run and a budget of tokens by a short look, for one of minutes by several
rounds over all cells, so that no cell is measured only while the machine did something else."""

import contextlib
import hashlib
import io
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from pellucid.config import RunConfig
from pellucid.config.mapping import to_mapping
from pellucid.errors import NumericalError
from pellucid.files import make_folder
from pellucid.precision import keep_primitives
from pellucid.train.initialize import source_of
from pellucid.train.journal import Reporter
from pellucid.train.train import open_data, open_session
from pellucid.train.update import Learner, at_work, update

SECONDS = 1.0  # of updates that are timed in a look
UPDATES = 4  # the fewest of a look
ROUNDS = 5  # of looks at every cell, under another seed each, where minutes are paid for
MEASUREMENT = (f"in {ROUNDS} rounds over the cells, each a look of {SECONDS:g} second and {UPDATES} updates at least; "
               "the median counts")  # in words
_WARM = 2  # updates before the clock runs


@dataclass(frozen=True)
class Measured:
    """Of one configuration: parameters, source and target tokens an update (mean over an epoch), seconds an update, and
    seconds before the first one."""

    parameters: int
    tokens: float
    seconds: float
    preparation: float


def measure(config: RunConfig, folder: Path) -> Measured:
    """Sets the run up in `folder`, where cells of the same data share it, and times some updates.

    Raises:
        UserError: what training would stop at before its first step.
    """
    began = time.monotonic()
    learner = _open(config, folder)
    preparation = time.monotonic() - began
    corpus = learner.batches.corpus.in_epoch(0)
    per_epoch = int(corpus.source.lengths.sum()) + int(corpus.target.lengths.sum())
    tokens = per_epoch / learner.batches.per_epoch * config.train.accumulate
    a_token = _timed(learner, tokens)
    parameters = sum(p.numel() for p in learner.parameters)
    return Measured(parameters, tokens, a_token * tokens, preparation)


def _timed(learner: Learner, tokens: float) -> float:
    """Seconds a token; what diverges meanwhile, as its run will, was timed until then.

    Args:
        tokens: of an update, in the mean.
    """
    progress = learner.progress
    count, before, began, ended = 0, 0, time.monotonic(), 0.0
    with at_work(learner), contextlib.suppress(NumericalError):
        while count < _WARM + UPDATES or ended - began < SECONDS:
            if count == _WARM:
                before, began = progress.source_tokens + progress.target_tokens, time.monotonic()
            update(learner)
            count, ended = count + 1, time.monotonic()
    done = progress.source_tokens + progress.target_tokens - before
    return (ended - began) / done if done and ended > began else (time.monotonic() - began) / tokens


def middle(looks: Sequence[Measured]) -> Measured:
    """The look of the median speed; the tokens of an update are their mean, as each seed has its own batches."""
    chosen = sorted(looks, key=lambda look: look.seconds / look.tokens)[(len(looks) - 1) // 2]
    tokens = fmean(look.tokens for look in looks)
    return replace(chosen, tokens=tokens, seconds=chosen.seconds / chosen.tokens * tokens)


def _open(config: RunConfig, folder: Path) -> Learner:
    """A learner at its beginning, told to no one; R-Drop that begins late does so at once, as its updates cost more."""
    keep_primitives()
    config = replace(config, train=replace(config.train, r_drop_after=0))
    mapping = to_mapping(config)
    same_data = [mapping["task"], mapping["data"], mapping["tokenizer"], config.train.initialize_from]
    place = folder / hashlib.sha256(repr(same_data).encode()).hexdigest()[:12]
    make_folder(place)
    reporter = Reporter(io.StringIO())
    return open_session(config, place, open_data(config, place, reporter), source_of(config), reporter).learner
