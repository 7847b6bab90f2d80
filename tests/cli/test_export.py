"""`pellucid export --to run`: a slim copy says the same to the last bit, is whole, and cannot be trained further."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import pellucid
from pellucid.files import check_folder
from pellucid.runs.slim import export

LINES = "1 2 3\n4 4\n\n7 6 5 4 3\n"


@pytest.fixture(scope="module")
def slim(cli: Any, run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A slim copy of the copy run, with scores in it; for looking only."""
    folder = tmp_path_factory.mktemp("exported")
    assert cli("evaluate", run).code == 0
    done = cli("export", run, "--to", "run", "--out", folder / "slim", "--json")
    assert done.code == 0, done.err
    (folder / "told.json").write_text(done.out)
    return folder / "slim"


def test_the_same_to_the_last_bit(cli: Any, run: Path, slim: Path) -> None:
    words = ("--json", "--n-best", "2")
    assert cli("translate", slim, *words, stdin=LINES).out == cli("translate", run, *words, stdin=LINES).out
    one, other = pellucid.load(run), pellucid.load(slim)
    assert one.generate(LINES.splitlines()) == other.generate(LINES.splitlines())
    assert one.score(["1 2"], ["1 2"]) == other.score(["1 2"], ["1 2"])
    theirs = dict(other.model.named_parameters())
    assert all(tensor.equal(theirs[name]) for name, tensor in one.model.named_parameters())


def test_scores_and_pages_come_from_it(cli: Any, run: Path, slim: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(slim, tmp_path / "slim")
    for name in ("test.json", "test.hyp"):
        assert (copy / "evaluation" / name).read_bytes() == (run / "evaluation" / name).read_bytes()
    reports = [json.loads(cli("evaluate", folder, "--json").out)["runs"][0] for folder in (run, copy)]
    assert [report["state"] for report in reports] == ["finished", "slim copy"]
    one, other = ({**report, "run": "", "route": "", "state": ""} for report in reports)
    assert one == other
    assert cli("inspect", copy, "--pairs", "0", "--text", "1 2").code == 0


def test_what_is_in_it_and_what_is_told(run: Path, slim: Path) -> None:
    names = {str(path.relative_to(slim)) for path in slim.rglob("*") if path.is_file()}
    best = json.loads((slim / "best.json").read_text())["checkpoint"]
    inside = {f"checkpoints/{best}/{name}" for name in ("model.safetensors", "state.json", "manifest.json")}
    assert {name for name in names if name.startswith("checkpoints/")} == inside
    assert {"config.yaml", "environment.json", "data.json", "metrics.jsonl", "best.json", "README.md",
            "tokenizer/tokenizer.json", "figures/loss.png", "export.json"} <= names
    check_folder(slim / "checkpoints" / best)
    told = json.loads((slim.parent / "told.json").read_text())
    sizes = [sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) for folder in (run, slim)]
    assert told["checkpoint"] == best
    assert [told["bytes_before"], told["bytes_after"]] == sizes
    assert sizes[1] < sizes[0]
    assert {"other checkpoints", "generated data, made again when it is needed"} <= told["left_out"].keys()


def test_scores_of_other_weights_stay_behind(copy: Path, tmp_path: Path) -> None:
    """And what a page says of them, beside another run's; it was copied."""
    place = copy / "evaluation"
    shutil.rmtree(place, ignore_errors=True)  # the run may have been scored by now
    place.mkdir()
    for split, weights in {"test": "other", "files": None}.items():
        (place / f"{split}.json").write_text(json.dumps({"weights": weights}))
        for name in (f"{split}.hyp", f"{split}-comparison.md"):
            (place / name).touch()
    export(copy, tmp_path / "slim")
    names = {path.name for path in (tmp_path / "slim" / "evaluation").iterdir()}
    assert names == {"files.json", "files.hyp", "files-comparison.md"}


def test_people_are_told_too(cli: Any, run: Path, tmp_path: Path) -> None:
    done = cli("export", run, "--to", "run", "--out", tmp_path / "a" / "slim")
    assert done.code == 0, done.err
    for text in (str(run), str(tmp_path / "a" / "slim"), "left out", "other checkpoints", "training cannot go on"):
        assert text in done.out


def test_training_cannot_go_on(cli: Any, slim: Path, tiny: Path, tmp_path: Path) -> None:
    before = sorted(slim.rglob("*"))
    cli("train", tiny, "--out", slim).says(4, "slim copy", "training cannot go on", "--train.initialize_from")
    assert sorted(slim.rglob("*")) == before
    assert cli("train", tiny, "--out", tmp_path / "new", "--train.steps", 2, "--train.initialize_from", slim).code == 0
    doctor = cli("doctor", slim)
    assert "slim copy" in doctor.out
    assert "last.json" not in doctor.out


def test_nothing_is_replaced(cli: Any, run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("file", "folder", "link"):
        cli("export", run, "--to", "run", "--out", tmp_path / name).says(2, "something already", str(tmp_path / name))
    cli("export", run, "--to", "run", "--out", run).says(2, "something already")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_damaged_run_is_not_copied(cli: Any, copy: Path, tmp_path: Path) -> None:
    out = tmp_path / "slim"
    best = json.loads((copy / "best.json").read_text())["checkpoint"]
    weights = copy / "checkpoints" / best / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"!")
    cli("export", copy, "--to", "run", "--out", out).says(4, "damaged", str(weights))
    (copy / "best.json").unlink()
    cli("export", copy, "--to", "run", "--out", out).says(4, "weights are in use yet")
    cli("export", tmp_path / "none", "--to", "run", "--out", out).says(4, "no such run folder")
    assert not out.exists()
    assert not list(tmp_path.glob(".tmp-*"))


def test_another_target(cli: Any, run: Path, tmp_path: Path) -> None:
    cli("export", run, "--to", "rum", "--out", tmp_path / "x").says(2, "'rum'", "did you mean run?", "--to")
    cli("export", run, "--to", "tapestry", "--out", tmp_path / "x").says(2, "choose run")


def test_a_finished_copy_is_not_told_to_go_on(cli: Any, slim: Path) -> None:
    told = cli("train", slim)
    assert (told.code, "is finished" in told.out, "to go on" in told.out) == (0, True, False)
    assert f"--train.initialize_from {slim} --out NEW" in told.out
