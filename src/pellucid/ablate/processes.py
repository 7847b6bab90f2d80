"""Runs what is planned and missing: a process a stage, several runs at once, each stage's result on the disk before the
next begins. Killed at any moment, the same call goes on from there."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import IO

from pellucid.ablate.agenda import Planned
from pellucid.ablate.outcome import (
    Outcome,
    data_of,
    divergence,
    evaluated_scores,
    last_screen,
    trained_scores,
    vocabulary_of,
    write_outcome,
)
from pellucid.ablate.sentences import keep_influences, table_of
from pellucid.config.effects import LANGUAGES, differences_in_training
from pellucid.errors import CheckpointError, DataError, NumericalError, UserError
from pellucid.files import make_folder, read_json
from pellucid.kernels.levels import cores
from pellucid.runs.folder import read_config
from pellucid.runs.format import ENVIRONMENT
from pellucid.train.journal import Reporter, duration, read_metrics
from pellucid.train.stopping import stop_on_signals

PROGRAM = (sys.executable, "-m", "pellucid")
_LOOK = 0.05  # seconds between two looks at the processes
_TELL = 2.0  # seconds between two estimates of the time left
_PR_SET_PDEATHSIG = 1  # Linux: what a process gets when its parent dies


class Stopped(Exception):
    """The study was asked to stop by a signal; the same command goes on."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


@dataclass
class Active:
    """A stage under way; in its run's log, what it says stands from `told` on."""

    planned: Planned
    stage: str
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    told: int
    began: float

    @property
    def elapsed(self) -> float:
        """Seconds since the process was started."""
        return time.monotonic() - self.began

    def share(self) -> float:
        """How much of its training is done, from 0 to 1, by the steps that it has told of; 0 in other stages."""
        events = read_metrics(self.planned.folder / "metrics.jsonl") if self.stage == "train" else []
        return events[-1]["step"] / self.planned.config.train.steps if events else 0.0


class Pool:
    """The runs of a study, `jobs` of them at once, each with its share of the cores."""

    def __init__(self, runs: Sequence[Planned], jobs: int, reporter: Reporter) -> None:
        self.runs, self.jobs, self.reporter = runs, jobs, reporter
        self.outcomes = {planned.outcome: planned.read() for planned in runs}
        self.waiting = [planned for planned in runs if self._lacks(planned)]
        self.active: list[Active] = []
        self.threads = max(1, cores() // jobs)
        self.told = -_TELL

    def work(self) -> None:
        """Until everything is done.

        Raises:
            Stopped: by a signal, once every process has saved and ended.
            UserError: a process failed in another way than by diverging; those beside it were asked to stop, too.
        """
        with stop_on_signals() as signals:
            try:
                while (self.waiting or self.active) and not signals:
                    while self.waiting and len(self.active) < self.jobs:
                        self._start(self.waiting.pop(0))
                    time.sleep(_LOOK)
                    for active in [active for active in self.active if active.process.poll() is not None]:
                        self._finish(active)
                    self._tell()
            finally:
                for active in self.active:
                    active.process.terminate()  # the trainer saves and stops
                for active in self.active:
                    active.process.wait()
        if signals:
            raise Stopped(signals[0])

    def _lacks(self, planned: Planned) -> list[str]:
        return planned.lacks(self.outcomes[planned.outcome])

    def _start(self, planned: Planned) -> None:
        stage = self._lacks(planned)[0]
        known = self.outcomes[planned.outcome].scores.keys() & planned.test_sets.keys()
        keep_influences(planned, known)  # whose outputs this stage may replace, after one that was killed
        make_folder(planned.log.parent)
        output = tempfile.TemporaryFile()  # noqa: SIM115 - read when the process has ended
        with planned.log.open("ab") as log:
            told = log.tell()
            process = subprocess.Popen(
                [*PROGRAM, *planned.commands[stage][1:]], stdin=subprocess.DEVNULL, stdout=output,
                stderr=log, start_new_session=True, preexec_fn=_die_with(os.getpid()),
                env={"OMP_NUM_THREADS": str(self.threads), **os.environ})
        self.active.append(Active(planned, stage, process, output, told, time.monotonic()))

    def _finish(self, active: Active) -> None:
        """Notes what a stage came to, and begins the run's next one."""
        self.active.remove(active)
        planned, stage, code = active.planned, active.stage, active.process.returncode
        with active.output as output:
            output.seek(0)
            told = output.read().decode()
        before = self.outcomes[planned.outcome]
        outcome = replace(before, seconds={**before.seconds, stage: round(active.elapsed, 1)})
        log = planned.log.read_bytes()[active.told:].decode("utf-8", "replace")
        if code == NumericalError.exit_code and stage == "train":
            outcome = replace(outcome, diverged=divergence(log))
        elif code != 0 or not told.strip():  # with no word of what it came to, nothing is known to be done
            raise _failure(planned, code, log)
        elif stage == "train":
            _check_config(planned)
            _check_data(planned, [(run, self.outcomes[run.outcome]) for run in self.runs
                                  if self.outcomes[run.outcome].trained])
            summary = json.loads(told)
            threads = read_json(planned.folder / ENVIRONMENT)["threads"]
            outcome = replace(outcome, trained=summary, threads=threads, at_once=self.jobs, tests={},
                              scores={"validation": trained_scores(planned.folder, summary)},
                              vocabulary=vocabulary_of(planned.folder), data=data_of(planned.folder))
        else:
            known = {stage: planned.tests[stage]} if stage in planned.tests else {}
            outcome = replace(outcome, scores={**outcome.scores, stage: evaluated_scores(told)},
                              tests=outcome.tests | known)
        if stage != "train":
            table_of(planned, stage).unlink(missing_ok=True)  # of fewer scores, or of another test set of that name
        write_outcome(planned.outcome, outcome)
        if stage != "train":
            keep_influences(planned, [stage])  # now: the next test set's outputs take the place of these
        self.outcomes[planned.outcome] = outcome
        if self._lacks(planned):
            self._start(planned)
        else:
            self.reporter.say(f"{self._done()}  {told_outcome(planned, outcome)}")

    def _done(self) -> str:
        return f"{sum(not self._lacks(planned) for planned in self.runs)} of {len(self.runs)} runs done"

    def _tell(self) -> None:
        """How far it is, and how long it may take."""
        if time.monotonic() - self.told < _TELL:
            return
        self.told = time.monotonic()
        begun = {active.planned.outcome: (active.share(), active.elapsed) for active in self.active}
        left = seconds_left(list(self.outcomes.values()), [not self._lacks(planned) for planned in self.runs],
                            [planned.cell.label for planned in self.runs],
                            [begun.get(planned.outcome, (0.0, 0.0)) for planned in self.runs])
        now = "; ".join(f"{active.planned.name}, {active.stage} {100 * active.share():.0f} %" for active in self.active)
        told = "" if left is None else f"  {duration(left / self.jobs)} left"
        self.reporter.progress(f"{self._done()}  {now}{told}")


def seconds_left(outcomes: Sequence[Outcome], done: Sequence[bool], labels: Sequence[str],
                 begun: Sequence[tuple[float, float]]) -> float | None:
    """Seconds of work left, were it done one run at a time: a run takes as long as those of its cell did, or as all
    did, or as the share of the first ones promises; None while there is nothing to go by.

    Args:
        outcomes, done, labels: of every run.
        begun: of every run, the share that is done and the seconds that this took; (0, 0) if it is not under way.
    """
    took = {i: sum(outcome.seconds.values()) for i, outcome in enumerate(outcomes) if done[i]}
    promised = list(took.values()) or [seconds / share for share, seconds in begun if share > 0]
    if not promised:
        return None
    left = 0.0
    for i, label in enumerate(labels):
        if not done[i]:
            alike = [seconds for j, seconds in took.items() if labels[j] == label]
            left += max(0.0, fmean(alike or promised) - begun[i][1])
    return left


def told_outcome(planned: Planned, outcome: Outcome) -> str:
    """What a run came to, in a line."""
    if outcome.diverged is not None:
        return f"{planned.name} diverged at step {outcome.diverged.step}: {outcome.diverged}"
    scores = [f"{data} {score} {value:.3f}" for data, found in outcome.scores.items()
              for score, value in found.items() if score in ("loss", "bleu", "exact", "accuracy")]
    return f"{planned.name}  {'  '.join(scores)}"


def _die_with(parent: int) -> Callable[[], None]:
    """What a new process does first: asks to be killed when its parent is, where the system (Linux) can do that."""
    control = getattr(ctypes.CDLL(None), "prctl", None)

    def ask() -> None:
        if control is not None:
            control(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os.kill(os.getpid(), signal.SIGKILL)

    return ask


def _check_config(planned: Planned) -> None:
    """A run trained by the study's command has the study's configuration, whatever its languages are called, or its
    folder is another's.

    Raises:
        CheckpointError: which keys differ.
    """
    changed = [row for row in differences_in_training(read_config(planned.folder), planned.config)
               if row[0] not in LANGUAGES]
    if changed:
        raise CheckpointError("a run of the study has another configuration", where=str(planned.folder),
                              why="; ".join(f"{key}: {there} there, {here} wanted" for key, there, here in changed),
                              fix="give the study another --out")


def _check_data(planned: Planned, others: Sequence[tuple[Planned, Outcome]]) -> None:
    """A run has the data that others had before it, where it is to have the same.

    Raises:
        DataError: which split changed.
    """
    now = data_of(planned.folder)
    for other, outcome in others:
        before = outcome.data or data_of(other.folder)
        if before and other.config.data == planned.config.data and other.config.task == planned.config.task:
            changed = [name for name in now if name in before and before[name] != now[name]]
            if changed:
                raise DataError(f"the {' and '.join(changed)} data changed since the study began",
                                where=str(planned.folder), why=f"{other.folder} had other files",
                                fix="bring the old data back and remove this folder, or give the study another --out")
            return


def _failure(planned: Planned, code: int, log: str) -> UserError:
    """The error of a process that failed, with its own words and exit code."""
    screen = last_screen(log) or f"exit code {code}, without a word"
    if code < 0:
        screen = f"ended by {signal.Signals(-code).name}" + (", out of memory perhaps" if code == -9 else "")
    error = UserError(f"the run {planned.name} failed: {screen}", where=str(planned.log),
                      fix="mend it and run the same command again: what is done is kept")
    error.exit_code = code if code > 0 else 128 - code
    return error
