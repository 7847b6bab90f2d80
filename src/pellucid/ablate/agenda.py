"""Everything that a study will run, known before anything does: each run's configuration, folder and commands."""

import hashlib
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from pellucid import own
from pellucid.ablate.calibrate import ROUNDS, Measured, measure, middle
from pellucid.ablate.cells import Cell, folder_name, key_of, overrides_of, with_seed, with_steps
from pellucid.ablate.outcome import Outcome, read_outcome
from pellucid.ablate.study import Study
from pellucid.config import Generated, RunConfig, Task
from pellucid.data.generated.tasks import generate
from pellucid.data.splits import GENERATED_SEED
from pellucid.files import read_json, write_json, write_text

SLOW = "ter"  # the score that is computed only where a study wants it: shifts of long wrong lines take minutes


@dataclass(frozen=True)
class Planned:
    """One run: a cell under a seed.

    Attributes:
        folder: the run folder.  outcome: the file that says what it came to.  log: what its processes said.
        commands: the words of each stage by name, in order: "train", then the test sets.
        tests: a digest of what each further test set is.
    """

    cell: Cell
    config: RunConfig
    folder: Path
    outcome: Path
    log: Path
    commands: dict[str, list[str]]
    tests: dict[str, str]

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.cell.label}, seed {self.config.seed}"

    @property
    def test_sets(self) -> dict[str, tuple[str, ...]]:
        """The data that it is evaluated on, each with the scores that it must have and could lack."""
        slow = () if self.config.task == "classification" else (SLOW,)
        return {stage: () if "--without" in words else slow for stage, words in self.commands.items()
                if stage != "train"}

    def lacks(self, outcome: Outcome) -> list[str]:
        """The stages that are still to do, where it has come so far: all of them, where the run that is to be evaluated
        is gone."""
        missing = outcome.lacks(self.test_sets, self.tests)
        return [*self.commands] if missing and not self.folder.exists() else missing

    def read(self) -> Outcome:
        """What it has come to so far."""
        return read_outcome(self.outcome)


def plan(study: Study, cells: list[Cell], out: Path) -> list[Planned]:
    """Every run, seed by seed, so that each cell has one as soon as can be; those done already too."""
    return [_planned(study, cell, with_seed(cell.config, seed), out) for seed in study.seeds for cell in cells]


def _planned(study: Study, cell: Cell, config: RunConfig, out: Path) -> Planned:
    key = key_of(config, study.budget)
    known = next((path.stem for path in (out / "outcomes").glob(f"[!.]*-{key}.json")), None)  # no killed writer's
    name = known or next((path.name for path in (out / "runs").glob(f"[!.]*-{key}")), None)
    name = name or folder_name(cell.label, config, study.budget)
    folder = out / "runs" / name
    commands = {"train": ["pellucid", "train", study.base, "--out", str(folder), "--json", *own.words(),
                          *overrides_of(config, study.base_config)]}
    for test in study.test_sets:
        files = [f"--{side}={path_of_test(out, test, side)}" for side in ("source", "target")] if test != "test" else []
        without = ["--without", SLOW] if config.task == "seq2seq" and not study.wants(SLOW) else []
        commands[test] = ["pellucid", "evaluate", str(folder), "--json", *own.words(), *without, *files]
    return Planned(cell, config, folder, out / "outcomes" / f"{name}.json", out / "logs" / f"{name}.txt", commands,
                   {test: hashlib.sha256(repr(asdict(made)).encode()).hexdigest()[:12]
                    for test, made in study.tests.items()})


def path_of_test(out: Path, test: str, side: str) -> Path:
    """Where a further test set lies; `side` is source or target."""
    return out / "tests" / f"{test}.{side}"


def write_tests(study: Study, task: Task, out: Path) -> None:
    """The files of the further test sets, the same whenever they are made."""
    for name, generated in study.tests.items():
        pairs = pairs_of_test(generated, task)
        for i, side in enumerate(("source", "target")):
            write_text(path_of_test(out, name, side), "".join(f"{pair[i]}\n" for pair in pairs))


def pairs_of_test(generated: Generated, task: Task) -> list[tuple[str, str]]:
    """Only what is tested on, drawn from another seed than the data that runs are trained on."""
    return generate(replace(generated, train=1, validation=1), task, GENERATED_SEED + 1)["test"]


def calibrate(cells: list[Cell], jobs: int, say: Callable[[str], None],
              seeds: Sequence[int] = ()) -> dict[str, Measured]:
    """What an update costs, by label, on the share of the cores that each of `jobs` runs at once gets.

    Args:
        seeds: as many rounds over all cells, there and back, each under its seed; one under the cells' own if left out.
    """
    before, looks = torch.get_num_threads(), {cell.label: list[Measured]() for cell in cells}
    torch.set_num_threads(max(1, before // jobs))
    try:
        with tempfile.TemporaryDirectory() as folder:
            for turn in range(max(1, len(seeds))):
                for number, cell in enumerate(cells[::-1] if turn % 2 else cells, start=1):
                    which = f", round {turn + 1} of {len(seeds)}" if seeds else ""
                    say(f"measuring cell {number} of {len(cells)}: {cell.label}{which}")
                    config = with_seed(cell.config, seeds[turn]) if seeds else cell.config
                    looks[cell.label].append(measure(config, Path(folder)))
    finally:
        torch.set_num_threads(before)
    return {label: middle(found) for label, found in looks.items()}


def in_turns(planned: Sequence[Planned], cells: int) -> list[Planned]:
    """The runs seed by seed, each seed beginning with another cell, so that the time of the day favours none."""
    seeds = [planned[i: i + cells] for i in range(0, len(planned), cells)]
    starts = [i * cells // len(seeds) for i in range(len(seeds))]
    return [run for runs, start in zip(seeds, starts, strict=True) for run in (*runs[start:], *runs[:start])]


def steps_for(study: Study, measured: Measured) -> int:
    """The updates that the budget pays for."""
    budget = study.budget
    if budget.steps is not None:
        return budget.steps
    if budget.tokens is not None:
        return max(1, round(budget.tokens / measured.tokens))
    assert budget.minutes is not None
    return max(1, round(60 * budget.minutes / measured.seconds))


def with_budget(study: Study, cells: list[Cell], jobs: int, out: Path, say: Callable[[str], None]) -> list[Cell]:
    """The cells with the steps that a budget of tokens or minutes pays for. What was measured once is kept in
    steps.json, so that a study that is run again, or extended, keeps to it."""
    if study.budget.steps is not None:
        return cells
    path = out / "steps.json"
    steps: dict[str, int] = read_json(path) if path.exists() else {}
    keys = {cell.label: key_of(with_seed(cell.config, 0), study.budget) for cell in cells}  # seeds may be added
    for cell in cells:
        before = key_of(cell.config, study.budget)  # as older versions called it
        if before in steps:
            steps.setdefault(keys[cell.label], steps[before])
    fresh = [cell for cell in cells if keys[cell.label] not in steps]
    seeds = [study.seeds[i % len(study.seeds)] for i in range(ROUNDS)] if study.budget.minutes is not None else ()
    for label, measured in calibrate(fresh, jobs, say, seeds).items():
        steps[keys[label]] = steps_for(study, measured)
    write_json(path, steps)
    return [replace(cell, config=with_steps(cell.config, steps[keys[cell.label]])) for cell in cells]
