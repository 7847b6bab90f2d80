"""A checkpoint comes back bit for bit, or is refused: damage of any kind, at any place, in any of its files."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import nn

from pellucid.config import ModelConfig, TrainConfig
from pellucid.errors import CheckpointError, OutputError
from pellucid.files import MANIFEST, read_json, sha256, write_folder, write_json
from pellucid.model.build import build
from pellucid.runs.checkpoint import load_weights, weights_of
from pellucid.train.averaging import MovingAverage
from pellucid.train.checkpoint import CheckpointStore, Progress, load_checkpoint, save_checkpoint
from pellucid.train.optimizer import make_optimizer, optimizer_state, set_learning_rate

SMALL = ModelConfig(d_model=4, n_heads=1, d_ff=4, encoder_layers=1, decoder_layers=1)
NAME = "decoder.closing_norm.bias"  # of the last parameter: whatever is filled on the way comes before it
FILES = ["model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"]


def parts(config: ModelConfig = SMALL, seed: int = 1, train: TrainConfig | None = None) -> tuple[Any, Any]:
    model = build(config, 7, 7, shared=True, seed=seed)
    return model, make_optimizer(model, train or TrainConfig())


def one_step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    torch.manual_seed(3)
    for p in model.parameters():
        p.grad = torch.randn_like(p)
    set_learning_rate(optimizer, 0.1)
    optimizer.step()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint") / "step-00000001"
    model, optimizer = parts()
    one_step(model, optimizer)
    save_checkpoint(folder, model, optimizer, None, Progress(step=1, loss_sum=0.1 + 0.2, best_score=1 / 3))
    return folder


@pytest.mark.parametrize("with_average", [False, True])
def test_it_comes_back_bit_for_bit(with_average: bool, tmp_path: Path) -> None:
    model, optimizer = parts()
    average = MovingAverage(model, 0.5) if with_average else None
    one_step(model, optimizer)
    assert average is None or not torch.equal(average.weights[NAME], weights_of(model)[NAME])
    progress = Progress(7, 100, 90, 1.25, 0.1 + 0.2, 3, 1 / 3, 6, 1)
    save_checkpoint(tmp_path / "c", model, optimizer, average, progress)
    other, other_optimizer = parts(seed=2)
    other_average = MovingAverage(other, 0.5) if with_average else None
    assert load_checkpoint(tmp_path / "c", other, other_optimizer, other_average) == progress
    for name, tensor in weights_of(model).items():
        assert torch.equal(weights_of(other)[name], tensor)
    for name, tensor in optimizer_state(model, optimizer).items():
        assert torch.equal(optimizer_state(other, other_optimizer)[name], tensor)
    third, _ = parts(seed=3)
    load_weights(third, tmp_path / "c")
    used = weights_of(model) if average is None else average.weights
    for name, tensor in used.items():
        assert torch.equal(weights_of(third)[name], tensor)
        if other_average is not None:
            assert torch.equal(other_average.weights[name], tensor)


def refused(folder: Path) -> None:
    model, optimizer = parts(seed=2)
    with pytest.raises(CheckpointError) as error:
        load_checkpoint(folder, model, optimizer, None)
    assert error.value.exit_code == 4


@settings(max_examples=150, deadline=None)
@given(name=st.sampled_from(FILES), place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7),
       kind=st.sampled_from(["flip", "truncate", "insert"]))
def test_any_flipped_bit_and_any_other_length_is_refused(whole: Path, name: str, place: float, bit: int,
                                                         kind: str) -> None:
    content = (whole / name).read_bytes()
    offset = int(place * len(content))
    damaged = {"flip": content[:offset] + bytes([content[offset] ^ 1 << bit]) + content[offset + 1 :],
               "truncate": content[:offset],
               "insert": content[:offset] + bytes([bit]) + content[offset:]}[kind]
    if damaged == content.rstrip():  # a JSON file that lost nothing but the end of its last line
        return
    try:
        (whole / name).write_bytes(damaged)
        refused(whole)
    finally:
        (whole / name).write_bytes(content)


class Bomb:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("a pickle was opened",))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["deleted", "pickle", "torch.save", "symlink", "dangling symlink", "folder"])
def test_anything_else_in_the_place_of_a_file_is_refused(name: str, kind: str, whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(whole, folder)
    file = folder / name
    file.rename(tmp_path / "kept")
    if kind == "pickle":
        file.write_bytes(pickle.dumps(Bomb()))
    elif kind == "torch.save":
        torch.save({"weight": Bomb()}, file)
    elif kind == "symlink":  # to the very bytes
        file.symlink_to(tmp_path / "kept")
    elif kind == "dangling symlink":
        file.symlink_to(tmp_path / "nowhere")
    elif kind == "folder":
        file.mkdir()
    refused(folder)


def test_a_pickle_with_a_fitting_manifest_is_refused_too(whole: Path, tmp_path: Path) -> None:
    for name in ("model.safetensors", "optimizer.safetensors"):
        def fill(place: Path, name: str = name) -> None:
            for file in FILES[:3]:
                shutil.copy(whole / file, place)
            (place / name).write_bytes(pickle.dumps(Bomb()))

        write_folder(tmp_path / name, fill)
        refused(tmp_path / name)


@pytest.mark.parametrize("text", ['{"files": {}}', '{"format": 1, "files": {}}', "[]", "null", '{"format": 1}',
                                  "[" * 9**6,
                                  '{"format": 1, "files": {"../x": {"bytes": 1, "sha256": ""}}}',
                                  '{"format": 1, "files": {"state.json": {"bytes": Infinity, "sha256": ""}}}'])
def test_a_manifest_that_is_none_is_refused(text: str, whole: Path, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(text)
    refused(tmp_path)


@pytest.mark.parametrize("other", [{"d_model": 6}, {"encoder_layers": 2}, {"position": "learned"}, {"norm": "rmsnorm"},
                                   {"tie_embeddings": False}])
def test_the_weights_of_another_architecture_are_refused_and_named(other: dict[str, Any], whole: Path) -> None:
    model, optimizer = parts(ModelConfig(**{**vars(SMALL), **other}))
    before = {name: tensor.clone() for name, tensor in weights_of(model).items()}
    with pytest.raises(CheckpointError, match="another architecture"):
        load_checkpoint(whole, model, optimizer, None)
    assert all(torch.equal(tensor, before[name]) for name, tensor in weights_of(model).items())


def test_a_state_of_another_kind_is_refused(whole: Path, tmp_path: Path) -> None:
    for number, state in enumerate(({"step": 1, "surprise": 2}, [], "text", None)):
        def fill(place: Path, state: Any = state) -> None:
            for file in FILES[:2]:
                shutil.copy(whole / file, place)
            write_json(place / "state.json", state)

        write_folder(tmp_path / str(number), fill)
        refused(tmp_path / str(number))


def changed(folder: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Writes one file of a checkpoint anew, with `change` made to what it holds, and a manifest that fits."""
    def fill(place: Path) -> None:
        for file in folder.iterdir():
            if file.name not in (MANIFEST, name):
                shutil.copy(file, place)
        if name == "state.json":
            write_json(place / name, change(read_json(folder / name)))
        else:
            save_file(change(load_file(folder / name)), place / name)

    write_folder(folder, fill)


def without(key: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda mapping: {k: v for k, v in mapping.items() if k != key}


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "as written before it was recorded"])
@pytest.mark.parametrize("asked", [True, False], ids=["asked for", "not asked for"])
@pytest.mark.parametrize("saved", [True, False], ids=["saved", "not saved"])
def test_what_was_trained_is_trained_on_whatever_moving_average_there_was(saved: bool, asked: bool, recorded: bool,
                                                                          tmp_path: Path) -> None:
    model, optimizer = parts()
    average = MovingAverage(model, 0.5) if saved else None
    one_step(model, optimizer)  # which the average does not follow
    save_checkpoint(tmp_path / "c", model, optimizer, average, Progress(step=1))
    assert read_json(tmp_path / "c/state.json")["moving_average"] is saved
    if not recorded:
        changed(tmp_path / "c", "state.json", without("moving_average"))
    other, other_optimizer = parts(seed=2)
    other_average = MovingAverage(other, 0.5) if asked else None
    assert load_checkpoint(tmp_path / "c", other, other_optimizer, other_average) == Progress(step=1)
    for name, tensor in weights_of(model).items():
        assert torch.equal(weights_of(other)[name], tensor)
        if other_average is not None:
            begun = tensor if average is None else average.weights[name]
            assert torch.equal(other_average.weights[name], begun)
            assert other_average.weights[name].data_ptr() != weights_of(other)[name].data_ptr()


@pytest.mark.parametrize(("name", "change"), [
    ("model.safetensors", without(NAME)),
    ("model.safetensors", lambda tensors: {**tensors, "surplus": torch.zeros(1)}),
    ("model.safetensors", lambda tensors: {**tensors, NAME: torch.zeros(2)}),
    ("optimizer.safetensors", without(f"trained.{NAME}")),
    ("optimizer.safetensors", lambda tensors: {**tensors, f"trained.{NAME}": torch.zeros(2)}),
    *[("optimizer.safetensors", without(f"{key}.{NAME}")) for key in ("step", "exp_avg", "exp_avg_sq")],
    *[("optimizer.safetensors", lambda tensors, key=key: {**tensors, f"{key}.{NAME}": torch.zeros(2)})
      for key in ("step", "exp_avg", "exp_avg_sq")],
    ("state.json", lambda state: {**state, "step": "one"}), ("state.json", lambda state: {**state, "surprise": 1}),
    ("state.json", lambda state: [state])])
def test_a_checkpoint_that_does_not_fit_leaves_everything_as_it_was(name: str, change: Callable[[Any], Any],
                                                                    tmp_path: Path) -> None:
    model, optimizer = parts()
    average = MovingAverage(model, 0.5)
    one_step(model, optimizer)
    save_checkpoint(tmp_path / "c", model, optimizer, average, Progress(step=1))
    changed(tmp_path / "c", name, change)
    model, optimizer = parts(seed=2)
    average = MovingAverage(model, 0.5)
    one_step(model, optimizer)

    def everything() -> dict[str, torch.Tensor]:
        weights = {f"average.{name}": tensor for name, tensor in average.weights.items()} | weights_of(model)
        return {name: tensor.clone() for name, tensor in (weights | optimizer_state(model, optimizer)).items()}

    before = everything()
    with pytest.raises(CheckpointError):
        load_checkpoint(tmp_path / "c", model, optimizer, average)
    after = everything()
    assert before.keys() == after.keys()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())


def test_weights_that_are_used_or_averaged_are_looked_at_whatever_is_remembered_of_them(
        whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk may lose a bit of a file that nobody has touched."""
    copy = tmp_path / "checkpoints" / whole.name
    shutil.copytree(whole, copy)
    weights = copy / "model.safetensors"
    known = {weights: sha256(weights)}
    monkeypatch.setattr("pellucid.files.remembered_sha256", known.__getitem__)
    assert CheckpointStore(tmp_path, 1, lambda step: True).whole_milestones(print) == [copy]
    weights.write_bytes(weights.read_bytes()[:-1] + b"\xff")
    told: list[str] = []
    assert CheckpointStore(tmp_path, 1, lambda step: True).whole_milestones(told.append) == []
    assert "is damaged" in told[0]
    with pytest.raises(CheckpointError, match="is damaged"):
        load_weights(parts()[0], copy)


def test_a_refusal_of_the_system_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_bytes(b"a file stands here")
    model, optimizer = parts()
    one_step(model, optimizer)
    with pytest.raises(OutputError) as error:
        save_checkpoint(tmp_path / "checkpoints" / "step-1", model, optimizer, None, Progress())
    assert error.value.exit_code == 74
