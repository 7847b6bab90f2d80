"""What test sentences do to a score, from the outputs of a run; and that each seed begins with another cell."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pellucid.ablate.agenda import in_turns, pairs_of_test, path_of_test, plan, write_tests
from pellucid.ablate.cells import cells_of
from pellucid.ablate.confounds import count_operations, operations_of
from pellucid.ablate.outcome import Outcome, write_outcome
from pellucid.ablate.report import write_report
from pellucid.ablate.sentences import sentence_influences
from pellucid.ablate.study import Study
from pellucid.data.splits import open_splits
from pellucid.errors import CheckpointError
from pellucid.evaluate.influence import influences
from pellucid.evaluate.significance import SentenceStatistics, mean_percentage
from pellucid.model.build import build

Make = Callable[..., Study]


def test_influences_of_a_mean_are_its_deviations() -> None:
    right = np.array([1.0, 0.0, 0.0, 1.0])
    metric = SentenceStatistics("exact", np.stack([right, np.ones(4)], axis=1), mean_percentage)
    assert influences(metric, ["a", "b", "c", "d"]) == pytest.approx(100 * (right - 0.5))
    assert influences(metric, ["a", "a", "b", "b"]) == pytest.approx([0, 0])  # a source's sentences stand together
    assert influences(metric, ["a"] * 4) == pytest.approx([0])
    with pytest.raises(ValueError, match="sources"):
        influences(metric, ["a"])


def test_a_table_is_made_once_from_what_a_run_wrote(study: Make, tmp_path: Path) -> None:
    made = study()
    runs = plan(made, cells_of(made), tmp_path)
    planned = runs[0]
    place = planned.folder / "evaluation"
    place.mkdir(parents=True)
    pairs = list(open_splits(planned.config, planned.folder)["test"])
    wrong = "n\ro"  # which is one line
    (place / "test.hyp").write_text("".join(f"{target if i % 2 else wrong}\n" for i, (_, target) in enumerate(pairs)))
    (place / "test.json").write_text(json.dumps({"n": len(pairs), "exact": 50.0}))
    write_outcome(planned.outcome, Outcome(trained={}, scores={"test": {"n": 10.0, "exact": 40.0}}))
    assert sentence_influences(planned, "test") == {}  # outputs of another evaluation
    of_both = json.loads((place / "test.json").read_text()) | {"bleu": 1.0}
    (place / "test.json").write_text(json.dumps(of_both))
    trained = {"parameters": 1, "source_tokens": 1, "target_tokens": 1, "seconds": 1.0, "step": 1}
    write_outcome(planned.outcome, Outcome(trained=trained, scores={"test": of_both}, threads=1))
    found = sentence_influences(planned, "test")
    assert found["exact"] == pytest.approx([-50, 50] * 5)
    assert found.keys() == {"bleu", "exact"}  # the scores that were computed
    assert not (tmp_path / "sentences").exists()  # who reads keeps nothing
    write_report(made, cells_of(made), runs, "pellucid ablate", tmp_path, {})  # as behind a kill before it was kept
    (place / "test.hyp").unlink()
    (kept,) = (tmp_path / "sentences").iterdir()
    assert sentence_influences(planned, "test")["exact"] == pytest.approx([-50, 50] * 5)  # kept beside the outcome
    for damage in ('{"exact": ["a"]}', "[1]", '{"exact": [1, [2]]}', "{"):
        kept.write_text(damage)
        with pytest.raises(CheckpointError):
            sentence_influences(planned, "test")


def test_lines_without_a_label_keep_no_interval_from_the_test_sentences(study: Make, tmp_path: Path) -> None:
    """They are not scored; a study whose test data had one said that its outputs were gone, and told of seeds alone."""
    for name, lines in {"train": "a\tone\nb\ttwo\n", "test": "a\tone\n\ttwo\nb\tthree\na\tfour\n"}.items():
        (tmp_path / f"{name}.tsv").write_text(lines)
    files = {f"data.{name}.path": str(tmp_path / f"{name}.tsv") for name in ("train", "test")}
    made = study({"base": "adjacent-duplicates", "factors": {"model.d_ff": [24, 48]}, "metrics": ["test.accuracy"],
                  "common": files | {"data.generated": None}})
    planned = plan(made, cells_of(made), tmp_path)[0]
    place = planned.folder / "evaluation"
    place.mkdir(parents=True)
    (place / "test.hyp").write_text("a\na\na\n")
    (place / "test.json").write_text(json.dumps({"n": 3, "accuracy": 200 / 3}))
    write_outcome(planned.outcome, Outcome(trained={}, scores={"test": {"n": 3.0, "accuracy": 200 / 3}}))
    assert sentence_influences(planned, "test")["accuracy"] == pytest.approx([100 / 3, -200 / 3, 100 / 3], abs=1e-4)
    with (tmp_path / "test.tsv").open("a") as file:
        file.write("b\tfive\n")
    assert sentence_influences(planned, "test") == {}  # of other data than the outputs are of, nothing is known
    for gone in (tmp_path / "test.tsv", place / "test.hyp"):
        gone.unlink()
        assert sentence_influences(planned, "test") == {}


def test_a_further_test_set_has_its_own_sentences(study: Make, tmp_path: Path) -> None:
    made = study({"tests": {"long": {"min_length": 7, "max_length": 8}}, "metrics": ["long.exact"]})
    planned = plan(made, cells_of(made), tmp_path)[0]
    write_tests(made, planned.config.task, tmp_path)
    place = planned.folder / "evaluation"
    place.mkdir(parents=True)
    outputs = path_of_test(tmp_path, "long", "target").read_text().replace("1", "2").splitlines()
    (place / "files.hyp").write_text("".join(f"{line}\n" for line in outputs))
    targets = [target for _, target in pairs_of_test(made.tests["long"], planned.config.task)]
    right = np.array([output == target for output, target in zip(outputs, targets, strict=True)])
    assert 0 < right.sum() < len(right)
    scores = {"exact": 100 * float(right.mean())}
    (place / "files.json").write_text(json.dumps(scores))
    write_outcome(planned.outcome, Outcome(trained={}, scores={"long": scores}))
    assert sentence_influences(planned, "long")["exact"] == pytest.approx(100 * (right - right.mean()), abs=1e-4)


def test_no_cell_always_runs_first(study: Make, tmp_path: Path) -> None:
    made = study({"seeds": [1, 2, 3, 4]})
    cells = cells_of(made)
    turns = in_turns(plan(made, cells, tmp_path), len(cells))
    assert [one.config.seed for one in turns] == [1] * 4 + [2] * 4 + [3] * 4 + [4] * 4
    firsts = Counter(turns[i].cell.label for i in range(0, len(turns), len(cells)))
    assert set(firsts.values()) == {1}


def test_operations_have_the_second_pass_of_r_drop(study: Make, tmp_path: Path) -> None:
    made = study({"factors": {"train.r_drop": [0.0, 5.0]}})
    cells = cells_of(made)
    count_operations(made, cells, tmp_path, lambda said: None)
    found = operations_of(made, cells, tmp_path)
    once, twice = (found[cell.label] for cell in cells)
    assert 1.8 < twice / once < 2.2
    weights = sum(weight.numel() for weight in build(cells[0].config.model, 10, 10, shared=True, seed=0).parameters())
    assert 2 * weights < once < 9 * weights  # each token passes half of them, three times, and attends
    counts = dict.fromkeys(json.loads((tmp_path / "operations.json").read_text()), 7.0)
    (tmp_path / "operations.json").write_text(json.dumps(dict(list(counts.items())[:1])))
    assert operations_of(made, cells, tmp_path) == {cells[0].label: 7.0}  # as behind a stop
    (tmp_path / "operations.json").write_text(json.dumps(counts))
    count_operations(made, cells, tmp_path, lambda said: None)
    assert set(operations_of(made, cells, tmp_path).values()) == {7.0}
    (tmp_path / "operations.json").write_text('{"a": "b"}')
    with pytest.raises(CheckpointError, match="counted again"):
        operations_of(made, cells, tmp_path)
