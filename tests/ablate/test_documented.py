"""Every study that ships or stands in the documents, and one with every metric there is, comes to its report."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.ablate.conftest import STUDY

from pellucid.ablate.agenda import Planned, plan
from pellucid.ablate.cells import cells_of
from pellucid.ablate.outcome import Outcome, write_outcome
from pellucid.ablate.report import write_report
from pellucid.ablate.scales import unit_of
from pellucid.ablate.study import MEASURED, TEST_SCORES, Study, read_study
from pellucid.cli import main
from pellucid.config.reader import merge
from pellucid.studies import study_names

Make = Callable[..., Study]
PAGE = Path(__file__).resolve().parents[2] / "docs/studies.md"
EVERY = [*(f"validation.{score}" for score in ("loss", "perplexity", "bleu", "exact")),
         *(f"test.{score}" for score in TEST_SCORES["seq2seq"]), *MEASURED]


def documented() -> str:
    """The example of the page, as a file."""
    (text,) = re.findall(r"```yaml\n# heads\.yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return str(text)


def pretend_that_it_ran(study: Study, out: Path) -> list[Planned]:
    """Leaves outcomes with every metric of the study, and curves, as if each run had been trained."""
    planned = plan(study, cells_of(study), out)
    for run in planned:
        noise = int(hashlib.sha256(run.name.encode()).hexdigest()[:4], 16) / 16**4
        scores: dict[str, dict[str, float]] = {"validation": {}, "test": {"n": 200}}
        for metric in study.metrics:
            if metric not in MEASURED:
                data, score = metric.split(".")
                scores.setdefault(data, {"n": 200})[score] = 50 + noise if unit_of(metric) == "points" else 2 + noise
        write_outcome(run.outcome, Outcome({"parameters": 1000, "source_tokens": 500, "target_tokens": 500, "step": 20,
                                            "seconds": 1 + noise}, scores=scores, threads=1))
        run.folder.mkdir(parents=True)
        (run.folder / "environment.json").write_text(json.dumps({
            "pellucid": "0", "packages": {"torch": "0"}, "processor": "none", "precision": "fp32"}))
        (run.folder / "metrics.jsonl").write_text("".join(
            json.dumps({"event": "validation", "step": step, "loss": 2 / step + noise}) + "\n" for step in (10, 20)))
    return planned


def check_report(study: Study, out: Path) -> None:
    planned = pretend_that_it_ran(study, out)
    write_report(study, cells_of(study), planned, "pellucid ablate", out, {})
    text = (out / "report.md").read_text(encoding="utf-8")
    for metric in study.metrics:
        assert f"\n## {metric} (" in text
        assert f"\n- {metric}, " in text  # in words
        assert f"{metric}, {unit_of(metric)} " in text or not unit_of(metric)
        assert (out / f"figures/effects-{metric.replace('.', '-')}.png").exists()
    for name in ("report.html", "report.tex", "results.csv", "figures/curves.png"):
        assert (out / name).stat().st_size > 0


def test_a_report_can_be_made_when_the_runs_are_gone(study: Make, tmp_path: Path) -> None:
    """And says of each machine that there was."""
    made, out = study({"seeds": [1, 2], "factors": {"model.n_heads": [2, 1]}, "metrics": ["validation.loss"]}), tmp_path
    planned = pretend_that_it_ran(made, out)
    for one, machine in ((planned[0], "a laptop"), (planned[1], "a server")):
        path = one.folder / "environment.json"
        path.write_text(path.read_text().replace("none", machine))
    write_report(made, cells_of(made), planned, "pellucid ablate", out, {})
    told = (out / "report.md").read_text(encoding="utf-8")
    assert "a laptop, 1 thread a run, fp32 products; also with pellucid 0, torch 0, a server" in told
    shutil.rmtree(out / "runs")
    write_report(made, cells_of(made), planned, "pellucid ablate", out, {})
    assert "in a folder that is gone" in (out / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [*study_names(), "heads.yaml"])
def test_a_study_comes_to_its_report(name: str, tmp_path: Path) -> None:
    path = tmp_path / "heads.yaml"
    path.write_text(documented(), encoding="utf-8")
    study = read_study(str(path) if name == "heads.yaml" else name, {})
    check_report(dataclasses.replace(study, seeds=study.seeds[:2]), tmp_path / "out")


def test_every_documented_metric_comes_to_the_report(study: Make, tmp_path: Path) -> None:
    decoded = merge(STUDY["common"], {"train": {"monitor": "exact"}})
    check_report(study({"common": decoded, "metrics": EVERY, "seeds": [1, 2], "factors": {"model.n_heads": [2, 1]}}),
                 tmp_path / "out")
    (told,) = re.findall(r"^\| `metrics` \|.*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    named = set(re.findall(r"`(\w+\.\w+|tokens_per_second|seconds)`", told))
    assert set(MEASURED) <= named <= {*EVERY, "test.accuracy", "test.macro_f1"}


def test_the_documented_study_really_runs(study: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                          capsys: pytest.CaptureFixture[str]) -> None:
    """The page's own factors and metrics, speed among them, on a model that trains in no time; one of the two stacks:
    with both, as all others, it comes to its report above."""
    monkeypatch.chdir(tmp_path)
    page: dict[str, Any] = yaml.safe_load(documented())
    factors = {**page["factors"], "stack": dict([*page["factors"]["stack"].items()][-1:])}
    deep = merge(STUDY["common"], {"model": {"encoder_layers": 2, "decoder_layers": 2, "n_heads": 4}})
    study({"common": deep, "factors": factors, "metrics": page["metrics"], "seeds": [1],
           "budget": {"steps": 4}})
    assert main(["ablate", "toy.yaml"]) == 0
    shown = capsys.readouterr().out
    assert "tokens_per_second, tokens/s ↑" in shown
    assert (tmp_path / "studies/toy/report.html").exists()
