"""What a run leaves behind is what the contract says; a folder belongs to one configuration and to one process."""

from __future__ import annotations

import fcntl
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from safetensors.torch import load_file

from pellucid.config.mapping import from_mapping

TRAIN_EVENT = {"event", "step", "epoch", "loss", "learning_rate", "gradient_norm", "source_tokens", "target_tokens",
               "tokens_per_second", "seconds", "gradient_norms", "update_ratios"}


def test_the_files(run: Path) -> None:
    for name in ("config.yaml", "environment.json", "data.json", "tokenizer", "metrics.jsonl", "checkpoints",
                 "best.json", "last.json", "figures/loss.png", "README.md"):
        assert (run / name).exists(), name
    assert (run / "figures" / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert not list(run.rglob(".tmp-*"))
    assert not [path for path in run.rglob("*") if path.suffix in (".pt", ".pth", ".pkl", ".bin")]


def test_a_checkpoint(run: Path) -> None:
    folder = run / "checkpoints" / "step-00000024"
    manifest = json.loads((folder / "manifest.json").read_text())["files"]
    assert set(manifest) == {"model.safetensors", "optimizer.safetensors", "state.json"}
    assert {path.name for path in folder.iterdir()} == {*manifest, "manifest.json"}
    for name, entry in manifest.items():
        content = (folder / name).read_bytes()
        assert entry == {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    assert json.loads((folder / "state.json").read_text())["step"] == 24
    weights, moments = load_file(folder / "model.safetensors"), load_file(folder / "optimizer.safetensors")
    assert {f"exp_avg.{name}" for name in weights} <= moments.keys()


def test_best_and_last_point_to_checkpoints(run: Path) -> None:
    best, last = (json.loads((run / name).read_text()) for name in ("best.json", "last.json"))
    assert last == {"checkpoint": "step-00000024", "step": 24}
    assert (run / "checkpoints" / best["checkpoint"] / "manifest.json").exists()
    assert best["monitor"] == "loss"


def test_metrics(run: Path) -> None:
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    train = [event for event in events if event["event"] == "train"]
    validation = [event for event in events if event["event"] == "validation"]
    assert [event["step"] for event in train] == list(range(4, 25, 4))
    assert [event["step"] for event in validation] == [8, 16, 24]
    assert all(event.keys() == TRAIN_EVENT for event in train)
    assert all({"event", "step", "loss", "perplexity"} <= event.keys() for event in validation)
    for name in ("source_tokens", "target_tokens", "seconds", "epoch"):
        values = [event[name] for event in train]
        assert values == sorted(values), name
    lines = (run / "data" / "train.tsv").read_text().splitlines()
    tokens = sum(len(line.split("\t")[1].split()) + 1 for line in lines)  # with an end each; an epoch is 19 batches
    assert train[3]["target_tokens"] < tokens < train[4]["target_tokens"]


def test_validation_scores_of_a_classifier(classifier: Path) -> None:
    events = [json.loads(line) for line in (classifier / "metrics.jsonl").read_text().splitlines()]
    scores = [event for event in events if event["event"] == "validation"][-1]
    assert {"event", "step", "loss", "perplexity", "accuracy", "macro_f1"} == scores.keys()
    assert 0 <= scores["accuracy"] <= 100


def test_the_configuration_is_whole_and_gives_itself_back(run: Path) -> None:
    mapping = yaml.safe_load((run / "config.yaml").read_text())
    assert {"task", "seed", "data", "tokenizer", "model", "train", "decode", "retrieval"} == mapping.keys()
    assert from_mapping(mapping).train.steps == 24


def test_data_json(run: Path) -> None:
    data = json.loads((run / "data.json").read_text())
    assert {"train", "validation", "test"} == data.keys()
    assert data["train"]["records"] == 300
    assert all(len(split["sha256"]) == 64 for split in data.values())


def test_environment_json(run: Path) -> None:
    assert {"pellucid", "python", "packages", "processor", "threads", "device", "precision"} <= json.loads(
        (run / "environment.json").read_text()).keys()


def test_the_model_card(run: Path, classifier: Path) -> None:
    for folder, verb in ((run, "generate"), (classifier, "classify")):
        card = (folder / "README.md").read_text()
        assert f"pellucid {verb} {folder}" in card
        assert json.loads((folder / "best.json").read_text())["checkpoint"] in card


def test_the_summary(run: Path) -> None:
    summary = json.loads((run.parent / "summary.json").read_text())
    assert {"run", "step", "ended", "why", "best", "monitor", "score", "scores", "parameters", "source_tokens",
            "target_tokens", "seconds", "overhead"} == summary.keys()
    assert summary["scores"][summary["monitor"]] == summary["score"]
    assert 0 < summary["overhead"] < 1
    assert (summary["run"], summary["step"]) == (str(run), 24)


def test_training_again_changes_nothing(cli: Any, copy: Path, tiny: Path) -> None:
    def state() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in sorted(copy.rglob("*"))
                if path.is_file() and path.name not in ("README.md", "environment.json", "data.json", "loss.png")}

    before = state()
    assert cli("train", tiny, "--out", copy).code == 0
    assert state() == before


def test_another_configuration_is_refused_with_the_difference(cli: Any, run: Path, tiny: Path) -> None:
    cli("train", tiny, "--out", run, "--model.d_ff", 48, "--seed", 7).says(
        2, str(run), "model.d_ff: 32 there, 48 here", "seed: 42 there, 7 here", "--out")


def test_data_that_changed_is_refused(cli: Any, tiny: Path, data: Path) -> None:
    words = ("train", tiny, "--out", data / "out", "--data.train", data / "pairs.tsv", "--data.validation_share", "0.2")
    assert cli(*words, "--train.steps", 2).code == 0
    with (data / "pairs.tsv").open("a") as file:
        file.write("1\t1\n")
    cli(*words, "--train.steps", 2).says(3, "train data changed", "data.json")


def test_two_trainings_in_one_folder(cli: Any, copy: Path, tiny: Path) -> None:
    with (copy / ".lock").open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        cli("train", tiny, "--out", copy).says(2, "another process", str(copy))
    assert cli("train", tiny, "--out", copy).code == 0


@pytest.mark.parametrize("verb", ["translate", "classify", "evaluate"])
def test_folders_that_are_no_runs(cli: Any, verb: str, tmp_path: Path) -> None:
    cli(verb, tmp_path / "none", stdin="").says(4, "no such run folder", str(tmp_path / "none"))
    cli(verb, tmp_path, stdin="").says(4, "not a run folder", str(tmp_path))


@pytest.mark.parametrize("content", ["{", "[]", None])
def test_what_names_the_best_weights_is_written_anew(cli: Any, copy: Path, tiny: Path, content: str | None) -> None:
    before = (copy / "best.json").read_bytes()
    (copy / "best.json").unlink()
    if content is not None:
        (copy / "best.json").write_text(content)
    assert cli("train", tiny, "--out", copy).code == 0
    assert (copy / "best.json").read_bytes() == before


def test_where_the_best_weights_are_damaged_those_that_are_left_serve(cli: Any, tiny: Path, tmp_path: Path) -> None:
    words = ("train", tiny, "--out", tmp_path / "run", "--train.learning_rate", "1e-30", "--train.average_last", 1)
    assert cli(*words).code == 0
    best = json.loads((tmp_path / "run" / "best.json").read_text())["checkpoint"]
    last = json.loads((tmp_path / "run" / "last.json").read_text())["checkpoint"]
    assert best != last  # nothing is better than the first ones
    weights = tmp_path / "run" / "checkpoints" / best / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    again = cli(*words)
    assert (again.code, "the best is lost, the next validation chooses anew" in again.err) == (0, True), again.err
    assert json.loads((tmp_path / "run" / "best.json").read_text())["checkpoint"] == last
    assert cli("translate", tmp_path / "run", stdin="1 2 3\n").code == 0


def test_a_run_without_a_checkpoint(cli: Any, copy: Path) -> None:
    (copy / "best.json").unlink()
    cli("translate", copy, stdin="1\n").says(4, "weights are in use yet", "pellucid train")
