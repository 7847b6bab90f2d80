"""Damaged run folders: never loaded, never a traceback; training goes on from the last checkpoint that is whole."""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

LAST, BEFORE = "step-00000024", "step-00000016"


def sign(folder: Path) -> None:
    """Makes the manifest agree with whatever lies in the folder now."""
    files = {path.name: {"bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
             for path in folder.iterdir() if path.name != "manifest.json"}
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "files": files}))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-64])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


def remove(path: Path) -> None:
    path.unlink()


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


class _Trap:
    """Unpickled, it leaves a file behind."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.mark,))


DAMAGES = [truncate, empty, flip, remove, link]


def damaged(*names: str) -> list[tuple[Callable[[Path], None], str]]:
    """Every damage to every file, but that a manifest may be a link."""
    return [(damage, name) for name in names for damage in DAMAGES if (damage, name) != (link, "manifest.json")]


def weights_to_use(copy: Path) -> Path:
    """The checkpoint that best.json names."""
    return copy / "checkpoints" / json.loads((copy / "best.json").read_text())["checkpoint"]


@pytest.fixture
def readers(cli: Any) -> Callable[[Path], list[Any]]:
    """What the verbs that only read say of a run."""
    return lambda folder: [cli("generate", folder, stdin="1 2\n"), cli("evaluate", folder)]


@pytest.mark.parametrize(("damage", "name"), damaged("model.safetensors", "manifest.json"))
def test_readers_refuse_damaged_weights(readers: Callable[[Path], list[Any]], copy: Path,
                                        damage: Callable[[Path], None], name: str) -> None:
    damage(weights_to_use(copy) / name)
    for outcome in readers(copy):
        outcome.says(4, str(weights_to_use(copy)), "where:")


def test_a_manifest_that_says_nothing(readers: Callable[[Path], list[Any]], copy: Path) -> None:
    for content in ("[]", "{}", '{"files": 5}', '{"format": 1, "files": {"model.safetensors": {}}}', "null", "\xff"):
        (weights_to_use(copy) / "manifest.json").write_text(content, encoding="latin-1")
        for outcome in readers(copy):
            outcome.says(4, "manifest.json")


@pytest.mark.parametrize("signed", [False, True])
def test_a_pickle_is_never_opened(cli: Any, readers: Callable[[Path], list[Any]], copy: Path, tiny: Path,
                                  tmp_path: Path, signed: bool) -> None:
    mark = tmp_path / "opened"
    for folder in (copy / "checkpoints").iterdir():
        for name in ("model.safetensors", "optimizer.safetensors"):
            if (folder / name).exists():
                torch.save({"weights": _Trap(mark)}, folder / name)
                if name == "model.safetensors" and folder.name == LAST:
                    (folder / name).write_bytes(pickle.dumps(_Trap(mark)))
        if signed:
            sign(folder)
    for outcome in [*readers(copy), cli("train", tiny, "--out", copy)]:
        outcome.says(4, "safetensors")
    assert not mark.exists()


def test_weights_of_another_architecture(cli: Any, readers: Callable[[Path], list[Any]], copy: Path,
                                         tiny: Path) -> None:
    for folder in (copy / "checkpoints").iterdir():
        weights = load_file(folder / "model.safetensors")
        name = sorted(weights)[0]
        save_file({**weights, name: torch.zeros(3, 5)}, folder / "model.safetensors")
        sign(folder)
    for outcome in [*readers(copy), cli("train", tiny, "--out", copy)]:
        outcome.says(4, "another architecture", name)


@pytest.mark.parametrize(("damage", "name"),
                         damaged("model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"))
def test_training_falls_back_to_the_checkpoint_before(cli: Any, run: Path, copy: Path, tiny: Path,
                                                      damage: Callable[[Path], None], name: str) -> None:
    damage(copy / "checkpoints" / LAST / name)
    again = cli("train", tiny, "--out", copy)
    assert again.code == 0, again.err
    assert again.err.count("checkpoint passed over") == 1
    assert "from step 16 to step 24" in again.err
    for part in ("model.safetensors", "optimizer.safetensors"):
        assert (copy / "checkpoints" / LAST / part).read_bytes() == (run / "checkpoints" / LAST / part).read_bytes()
    assert cli("translate", copy, stdin="1 2\n").code == 0


@pytest.mark.parametrize("content", ["[]", "5", '{"step": "many"}', '{"step": 8, "more": 1}', '{"loss_sum": []}'])
def test_a_state_that_makes_no_sense_is_passed_over(cli: Any, copy: Path, tiny: Path, content: str) -> None:
    (copy / "checkpoints" / LAST / "state.json").write_text(content)
    sign(copy / "checkpoints" / LAST)
    again = cli("train", tiny, "--out", copy)
    assert again.code == 0, again.err
    assert again.err.count("checkpoint passed over") == 1


def test_moments_of_another_shape_are_passed_over(cli: Any, copy: Path, tiny: Path) -> None:
    path = copy / "checkpoints" / LAST / "optimizer.safetensors"
    moments = load_file(path)
    name = next(name for name in moments if name.startswith("exp_avg."))
    save_file({**moments, name: torch.zeros(3)}, path)
    sign(path.parent)
    again = cli("train", tiny, "--out", copy)
    assert again.code == 0, again.err
    assert again.err.count("checkpoint passed over") == 1


def test_no_checkpoint_is_whole(cli: Any, copy: Path, tiny: Path) -> None:
    for folder in (copy / "checkpoints").glob("step-*"):
        flip(folder / "model.safetensors")
    cli("train", tiny, "--out", copy).says(4, "where:", "model.safetensors", "damaged")


def test_checkpoints_without_a_configuration(cli: Any, copy: Path, tiny: Path) -> None:
    (copy / "config.yaml").unlink()
    cli("train", tiny, "--out", copy).says(4, "config.yaml", str(copy))


@pytest.mark.parametrize("content", [b"", b"seed: [1", b"\xff\xfe", b"model: {d_modell: 3}\n", b"- 1\n", b"seed: x\n"])
def test_a_damaged_configuration(cli: Any, readers: Callable[[Path], list[Any]], copy: Path, tiny: Path,
                                 content: bytes) -> None:
    (copy / "config.yaml").write_bytes(content)
    for outcome in [*readers(copy), cli("train", tiny, "--out", copy)]:
        outcome.says(4, "configuration is damaged", str(copy / "config.yaml"))


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["tokenizer.json", "shared.vocab.json"])
def test_a_damaged_tokenizer(cli: Any, readers: Callable[[Path], list[Any]], copy: Path, tiny: Path,
                             damage: Callable[[Path], None], name: str) -> None:
    damage(copy / "tokenizer" / name)
    for outcome in [*readers(copy), cli("train", tiny, "--out", copy), cli("tokenizer", "show", copy, "--text", "1")]:
        outcome.says(4, str(copy / "tokenizer" / name), "where:")


@pytest.mark.parametrize("content", ["{}", "[]", '{"format": 9, "labels": [], "options": {}}', "5",
                                     '{"format": 1, "labels": 5, "options": {}}',
                                     '{"format": 1, "labels": [], "options": {"kind": "bpe"}}'])
def test_a_signed_tokenizer_that_makes_no_sense(readers: Callable[[Path], list[Any]], copy: Path, content: str) -> None:
    (copy / "tokenizer" / "tokenizer.json").write_text(content)
    sign(copy / "tokenizer")
    for outcome in readers(copy):
        outcome.says(4, "tokenizer.json")


def test_a_missing_tokenizer(readers: Callable[[Path], list[Any]], copy: Path) -> None:
    shutil.rmtree(copy / "tokenizer")
    for outcome in readers(copy):
        outcome.says(4, "tokenizer")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"checkpoint": 5}', '{"checkpoint": "../../x"}', "null",
                                     '{"checkpoint": ".."}', '{"checkpoint": "step-00000099"}'])
def test_a_damaged_best_json(cli: Any, readers: Callable[[Path], list[Any]], copy: Path, tiny: Path,
                             content: str) -> None:
    (copy / "best.json").write_text(content)
    for outcome in readers(copy):
        outcome.says(4, "where:")
    again = cli("train", tiny, "--out", copy)  # the checkpoints know which is best
    assert again.code == 0, again.err
    assert cli("translate", copy, stdin="1\n").code == 0


@pytest.mark.parametrize("content", ["", "[]", '{"train": 5}', "null"])
def test_a_damaged_data_json(cli: Any, copy: Path, tiny: Path, content: str) -> None:
    (copy / "data.json").write_text(content)
    cli("train", tiny, "--out", copy).says(4, str(copy / "data.json"))


@pytest.mark.parametrize("line", ["{", "5", '{"event": "train"}', "\xff", '{"event": "train", "step": "x"}'])
def test_damaged_metrics(cli: Any, copy: Path, tiny: Path, line: str) -> None:
    path = copy / "metrics.jsonl"
    whole = path.read_bytes()
    path.write_bytes(line.encode("latin-1") + b"\n" + whole)
    cli("train", tiny, "--out", copy).says(4, f"{path}:1")
    path.write_bytes(whole + b'{"event": "tra')  # cut short by a crash: forgotten
    assert cli("train", tiny, "--out", copy).code == 0
    assert path.read_bytes() == whole
