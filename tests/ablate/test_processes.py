"""Runs are done once, whatever happens: extended studies, kills, failures, divergence. The trainer is a stand-in."""

from __future__ import annotations

import csv
import io
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from pellucid.ablate import processes
from pellucid.ablate.ablate import ablate
from pellucid.ablate.agenda import Planned
from pellucid.ablate.outcome import Outcome, write_outcome
from pellucid.ablate.processes import Stopped, seconds_left
from pellucid.ablate.study import Study
from pellucid.errors import DataError, UserError
from pellucid.train.journal import Reporter

FAKE = Path(__file__).parent / "fake_pellucid.py"
Make = Callable[..., Study]
pytestmark = pytest.mark.usefixtures("pretend")
TWO = {"factors": {"model.position": ["sinusoidal", "none"]}, "seeds": [1, 2]}


def run(study: Study, out: Path, jobs: int = 1) -> str:
    """Runs the study; gives what it told people."""
    told = io.StringIO()
    ablate(study, out, jobs, "pellucid ablate toy.yaml", Reporter(told))
    return told.getvalue()


def calls(out: Path) -> list[str]:
    return (out / "calls.txt").read_text().splitlines()


def table(out: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((out / "results.csv").open()))


def test_every_run_is_trained_and_evaluated_once(study: Make, tmp_path: Path) -> None:
    out = tmp_path / "out"
    told = run(study(TWO), out, jobs=2)
    assert "4 of 4 runs to do, 2 at once" in told
    assert "4 of 4 runs done" in told
    assert sorted(call.split()[0] for call in calls(out)) == ["evaluate"] * 4 + ["train"] * 4
    assert len(set(calls(out))) == 8
    assert "0 of 4 runs to do" in run(study(TWO), out)
    assert len(calls(out)) == 8


def test_a_kill_between_two_test_sets_loses_no_table_of_sentences(study: Make, tmp_path: Path,
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """The outputs of the second take the place of those that the table of the first is made from."""
    made = study({"tests": {name: {"min_length": 12, "max_length": 12} for name in ("first", "second")},
                  "metrics": ["first.exact", "second.exact"]})
    asked, dies = list[tuple[str, str]](), [True]

    def noted(planned: Planned, tests: Iterable[str]) -> None:
        asked.extend((planned.name, test) for test in tests)
        if asked and dies:
            dies.pop()
            raise KeyboardInterrupt

    monkeypatch.setattr(processes, "keep_influences", noted)
    with pytest.raises(KeyboardInterrupt):
        run(made, tmp_path / "out")
    first = asked[-1]
    assert first[1] == "first"
    run(made, tmp_path / "out")
    assert asked[1] == first
    assert (first[0], "second") in asked[2:]


def test_a_kill_behind_a_new_score_leaves_no_table_of_an_older_test_set(study: Make, tmp_path: Path,
                                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sentences would be taken for those of the new one."""
    def of_length(length: int) -> Study:
        return study({"tests": {"far": {"min_length": length, "max_length": length}}, "metrics": ["far.exact"]})

    out = tmp_path / "out"
    run(of_length(12), out)
    (out / "sentences").mkdir(exist_ok=True)
    tables = [out / "sentences" / f"{path.stem}.far.json" for path in (out / "outcomes").glob("*.json")]
    for each in tables:
        each.write_text('{"exact": [1, 2, 3]}')

    def dies(path: Path, outcome: Outcome) -> None:
        write_outcome(path, outcome)
        raise KeyboardInterrupt

    monkeypatch.setattr(processes, "write_outcome", dies)
    with pytest.raises(KeyboardInterrupt):
        run(of_length(14), out)
    assert sum(each.exists() for each in tables) == len(tables) - 1


def test_data_that_changed_since_are_refused(study: Make, tmp_path: Path) -> None:
    """Runs on both would be averaged as one cell."""
    out = tmp_path / "out"
    (tmp_path / "data.txt").write_text("old")
    run(study(TWO | {"seeds": [1]}), out)
    (tmp_path / "data.txt").write_text("new")
    for _ in range(2):
        with pytest.raises(DataError, match="the train data changed since the study began"):
            run(study(TWO), out)
        assert [row["status"] for row in table(out)] == ["done", "done", "missing", "missing"]
    (tmp_path / "data.txt").write_text("old")
    run(study(TWO), out)
    assert [row["status"] for row in table(out)] == ["done"] * 4


@pytest.mark.parametrize("gone", [slice(0, 1), slice(None)])
def test_data_that_changed_are_refused_though_runs_are_gone(study: Make, tmp_path: Path, gone: slice) -> None:
    """What the runs had is known without their folders, and a run that is trained again is no witness of itself."""
    out = tmp_path / "out"
    (tmp_path / "data.txt").write_text("old")
    run(study(TWO), out)
    for row in table(out)[gone]:
        shutil.rmtree(row["run"])
    (tmp_path / "data.txt").write_text("new")
    with pytest.raises(DataError, match="the train data changed since the study began"):
        run(study(TWO | {"tests": {"long": {"min_length": 12, "max_length": 12}}, "metrics": ["long.exact"]}), out)


def test_a_run_that_is_gone_is_trained_again_where_a_test_set_is_wanted(study: Make, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(study(TWO), out)
    shutil.rmtree(out / "runs")
    run(study(TWO), out)
    assert len(calls(out)) == 8
    more = {"tests": {"long": {"min_length": 12, "max_length": 12}}, "metrics": ["test.exact", "long.exact"]}
    run(study(TWO | more), out)
    assert sorted(call.split()[0] for call in calls(out)[8:]) == ["evaluate"] * 8 + ["train"] * 4


def test_an_extended_study_repeats_nothing(study: Make, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(study(TWO), out)
    before = {row["run"]: row["validation.loss"] for row in table(out)}
    more = {"factors": {"model.position": ["sinusoidal", "rotary", "none"]}, "seeds": [3, 1]}
    run(study(more), out)
    assert len(calls(out)) == len(set(calls(out))) == 2 * (4 + 4)
    after = {row["run"]: row["validation.loss"] for row in table(out)}
    assert {run: loss for run, loss in before.items() if run in after}.items() <= after.items()
    assert len(after) == 6
    run(study({**more, "metrics": ["test.exact", "test.bleu", "validation.perplexity"]}), out)
    assert len(calls(out)) == 16  # the runs had them already


def test_a_new_test_set_evaluates_and_trains_nothing(study: Make, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(study(TWO), out)
    run(study({**TWO, "metrics": ["test.exact", "twice.exact"],
               "tests": {"twice": {"min_length": 12, "max_length": 12}}}), out)
    assert [call.split()[0] for call in calls(out)[8:]] == ["evaluate"] * 4


def test_divergence_is_a_result(study: Make, tmp_path: Path) -> None:
    out = tmp_path / "out"
    wild = {"factors": {"train.learning_rate": [0.001, 9]}, "seeds": [1, 2]}
    told = run(study(wild), out)
    assert "learning_rate 9, seed 1 diverged at step 7: the loss" in told
    rows = [row for row in table(out) if row["train.learning_rate"] == "9"]
    assert [(row["status"], row["diverged_at"]) for row in rows] == [("diverged", "7")] * 2
    assert all("not finite" in row["why"] and row["why"].endswith("loss nan, gradient norm nan") for row in rows)
    count = len(calls(out))
    run(study(wild), out)
    assert len(calls(out)) == count


def test_another_failure_stops_the_study_and_what_is_done_is_kept(study: Make, tmp_path: Path) -> None:
    out = tmp_path / "out"
    factors = {"train.learning_rate": [0.001, 8]}
    with pytest.raises(UserError, match="learning_rate 8, seed 1 failed: the disk is full") as caught:
        run(study({"factors": factors, "seeds": [1, 2]}), out)
    assert caught.value.exit_code == 74
    assert [row["status"] for row in table(out)] == ["done", "missing", "missing", "missing"]
    assert "Not finished" in (out / "report.md").read_text()


def test_a_failure_is_told_in_its_own_words_not_in_those_of_the_one_before(study: Make, tmp_path: Path) -> None:
    made = study({"factors": {"train.learning_rate": [0.001, 7]}, "seeds": [1]})
    for words in ("failed: the disk is full", "failed: ImportError: no module is left"):
        with pytest.raises(UserError, match=words):
            run(made, tmp_path / "out")


def test_a_run_that_says_nothing_of_its_end_is_named(study: Make, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="learning_rate 6, seed 1 failed: exit code 0, without a word"):
        run(study({"factors": {"train.learning_rate": [0.001, 6]}, "seeds": [1]}), tmp_path / "out")


def test_a_signal_stops_and_the_same_call_goes_on(study: Make, tmp_path: Path) -> None:
    out = tmp_path / "out"
    long = study({**TWO, "budget": {"steps": 200}})
    program = f"import os, signal, time; time.sleep(0.7); os.kill({os.getpid()}, signal.SIGTERM)"
    with subprocess.Popen([sys.executable, "-c", program]), pytest.raises(Stopped) as caught:
        run(long, out)
    assert caught.value.number == signal.SIGTERM
    run(long, out)
    assert [row["status"] for row in table(out)] == ["done"] * 4


# A process that forks a child for each attempt: what is slow to import is imported once, a child is killed.
KILLER = """
import io, os, signal, sys, time
from pathlib import Path
from pellucid.ablate import processes, report
from pellucid.ablate.ablate import ablate
from pellucid.ablate.study import read_study
from pellucid.train.journal import Reporter

study, out = read_study(sys.argv[1], {}), Path(sys.argv[2])
processes.PROGRAM = (sys.executable, sys.argv[3])
sys.modules[ablate.__module__].count_operations = lambda study, cells, out, say: None
report._figures = lambda study, results, runs: {}
killed = 0
for moment in [*map(float, sys.argv[4:]), None]:
    child = os.fork()
    if child == 0:
        try:
            ablate(study, out, 1, "pellucid ablate toy.yaml", Reporter(io.StringIO()))
            os._exit(0)
        except BaseException as error:
            print(type(error), error, flush=True)
            os._exit(9)
    if moment is not None:
        time.sleep(moment)
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), code
    killed += code != 0
print("killed", killed)
"""


def test_killed_at_random_moments_the_study_ends_with_the_same_table(study: Make, tmp_path: Path) -> None:
    made = study({**TWO, "budget": {"steps": 60}})
    began = time.monotonic()
    run(made, tmp_path / "whole")
    whole = min(time.monotonic() - began, 6.0)
    draw = random.Random(time.time_ns())
    moments = [f"{draw.uniform(0.02, 0.5) * whole:.3f}" for _ in range(5)]
    done = subprocess.run([sys.executable, "-c", KILLER, str(tmp_path / "toy.yaml"), str(tmp_path / "killed"),
                           str(FAKE), *moments], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "killed 0" not in done.stdout

    def comparable(out: Path) -> list[dict[str, str]]:
        return [{**row, "run": Path(row["run"]).name} for row in table(out)]

    assert comparable(tmp_path / "killed") == comparable(tmp_path / "whole")
    tables = [(tmp_path / name / "report.md").read_text().split("## In words")[1].split("## The exact commands")[0]
              for name in ("killed", "whole")]
    assert tables[0] == tables[1]


def test_what_a_killed_writer_left_is_no_run(study: Make, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(study(TWO), out)
    before = (out / "results.csv").read_text()
    for path in [*(out / "outcomes").iterdir(), *(out / "runs").iterdir()]:
        path.rename(path.with_name(f".tmp-{'0' * 32}-{path.name}"))
    (out / "calls.txt").unlink()
    run(study(TWO), out)
    assert len(calls(out)) == 8
    assert not [call for call in calls(out) if ".tmp-" in call]
    assert (out / "results.csv").read_text() == before


def test_the_time_left_is_what_like_runs_took() -> None:
    took = Outcome(seconds={"train": 8.0, "test": 2.0})
    other = Outcome(seconds={"train": 20.0})
    none = Outcome()
    assert seconds_left([took, other, none, none], [True, True, False, False], ["a", "b", "a", "c"],
                        [(0, 0), (0, 0), (0.5, 4.0), (0, 0)]) == pytest.approx(10 - 4 + 15)
    assert seconds_left([none, none], [False, False], ["a", "b"], [(0.25, 5.0), (0, 0)]) == pytest.approx(15 + 20)
    assert seconds_left([none], [False], ["a"], [(0, 0)]) is None
