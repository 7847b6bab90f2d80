"""A run that was stopped, however often and wherever, ends in the bytes of one that was not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pellucid.cache import scratch_name
from pellucid.errors import CheckpointError, ConfigError, DataError
from pellucid.files import check_folder
from pellucid.kernels.levels import multiplies_bf16
from pellucid.train import loop
from pellucid.train import train as train_run
from pellucid.train.journal import read_metrics
from pellucid.train.update import update

Through = Callable[..., dict[str, Any]]
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "moving average": {"train": {"ema_decay": 0.8}},
    "bf16, adam, no warm-up, cosine": {"train": {"precision": "bf16", "optimizer": "adam", "warmup_steps": 0,
                                                 "schedule": "cosine", "weight_decay": 0.1}},
    "bleu, no average": {"train": {"monitor": "bleu", "average_last": 1, "accumulate": 1, "batch_sentences": 7}},
    "dropouts": {"model": {"attention_dropout": 0.2, "feed_forward_dropout": 0.2, "position": "transformer_xl"}},
    "r_drop": {"train": {"r_drop": 2.0}},
    "muon, r_drop late": {"train": {"optimizer": "muon", "weight_decay": 0.1, "r_drop": 2.0, "r_drop_after": 5}},
    "workers": {"train": {"workers": 3, "ema_decay": 0.8, "accumulate": 3}},
    "workers of a classifier": {"task": "classification", "train": {"workers": 2},
                                "data": {"generated": {"task": "adjacent_duplicates"}}},
    "bpe-dropout": {"tokenizer": {"kind": "sentencepiece", "vocab_size": 17, "sampling": 0.3}},
    "unigram sampling": {"tokenizer": {"kind": "sentencepiece", "algorithm": "unigram", "vocab_size": 16,
                                       "sampling": 0.3}},
    "span corruption": {"data": {"objective": "span_corruption"}, "tokenizer": {"sentinels": 2},
                        "train": {"batch_tokens": 80}},
    "classification": {"task": "classification", "train": {"monitor": "accuracy"},
                       "data": {"generated": {"task": "adjacent_duplicates"}}},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_stopped_and_resumed_is_byte_for_byte_the_same(name: str, tmp_path: Path, tiny: Any, train_through: Through,
                                                       snapshot: Any) -> None:
    if "bf16" in name and not multiplies_bf16():
        pytest.skip("this processor multiplies no bf16")
    config = tiny(**VARIANTS[name])
    whole = train_through(config, tmp_path / "whole")
    parts = train_through(config, tmp_path / "parts", (1, 4, 6, 8))
    assert snapshot(tmp_path / "parts") == snapshot(tmp_path / "whole")
    assert {**parts, "run": ""} == {**whole, "run": ""}
    metrics = snapshot(tmp_path / "whole")["metrics"]
    assert [line["step"] for line in metrics if line["event"] == "train"] == [2, 4, 6, 8, 9]
    assert [line["step"] for line in metrics if line["event"] == "validation"] == [3, 6, 9]


def test_a_run_that_validates_seldom_is_saved_by_the_clock_too(tmp_path: Path, tiny: Any, train_through: Through,
                                                               snapshot: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    config, made = tiny(train={"validate_every": 100}), []
    train_through(config, tmp_path / "whole")

    def dies(*given: Any) -> Any:
        if len(made) == 5:
            raise ConnectionError("as if it were killed")
        made.append(given)
        return update(*given)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "SAVED_EACH", 0.0)
        patch.setattr(loop, "update", dies)
        with pytest.raises(ConnectionError):
            train_through(config, tmp_path / "run")
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-00000004"]
    train_through(config, tmp_path / "run")
    assert snapshot(tmp_path / "run") == snapshot(tmp_path / "whole")


def test_the_same_run_twice_is_the_same_and_another_seed_is_not(tmp_path: Path, tiny: Any, train_through: Through,
                                                                snapshot: Any) -> None:
    for name, config in (("a", tiny()), ("b", tiny()), ("c", tiny(seed=43))):
        train_through(config, tmp_path / name)
    a, b, c = (snapshot(tmp_path / name) for name in "abc")
    assert a == b
    assert a["checkpoints/step-00000009/model.safetensors"] != c["checkpoints/step-00000009/model.safetensors"]


def test_a_finished_run_done_again_changes_nothing(tmp_path: Path, tiny: Any, train_through: Through,
                                                   snapshot: Any) -> None:
    first = train_through(tiny(), tmp_path / "run")
    before = snapshot(tmp_path / "run")
    assert train_through(tiny(), tmp_path / "run") == first
    assert snapshot(tmp_path / "run") == before


def test_a_damaged_checkpoint_is_passed_over_and_made_again(tmp_path: Path, tiny: Any, train_through: Through,
                                                            snapshot: Any, stop_at: Any) -> None:
    config = tiny()
    train_through(config, tmp_path / "whole")
    with pytest.raises(train_run.Interrupted):
        train_run.train(config, tmp_path / "run", stop_at((7,)))
    newest = tmp_path / "run/checkpoints/step-00000007/optimizer.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1])
    reporter = stop_at()
    train_run.train(config, tmp_path / "run", reporter)
    assert "checkpoint passed over" in reporter.told
    assert "from step 6" in reporter.told
    assert snapshot(tmp_path / "run") == snapshot(tmp_path / "whole")


def test_damaged_moments_of_the_best_and_the_averaged_cost_no_weights(tmp_path: Path, tiny: Any, train_through: Through,
                                                                      snapshot: Any, stop_at: Any) -> None:
    config = tiny(train={"learning_rate": 5.0})  # so high that nothing is ever better than the first validation
    train_through(config, tmp_path / "whole")
    with pytest.raises(train_run.Interrupted):
        train_run.train(config, tmp_path / "run", stop_at((7,)))
    assert json.loads((tmp_path / "run/best.json").read_text())["step"] == 3
    for step in (3, 6):
        moments = tmp_path / f"run/checkpoints/step-0000000{step}/optimizer.safetensors"
        moments.write_bytes(moments.read_bytes()[:-1])
    train_through(config, tmp_path / "run")
    whole, run = ({name: value for name, value in snapshot(tmp_path / name).items() if "optimizer" not in name}
                  for name in ("whole", "run"))
    assert run == whole


def test_a_best_whose_weights_are_damaged_is_told_and_chosen_anew(tmp_path: Path, tiny: Any, stop_at: Any) -> None:
    config = tiny(train={"learning_rate": 5.0, "average_last": 1})
    with pytest.raises(train_run.Interrupted):
        train_run.train(config, tmp_path, stop_at((5,)))
    (tmp_path / "checkpoints/step-00000003/model.safetensors").unlink()
    reporter = stop_at()
    assert train_run.train(config, tmp_path, reporter)["best"] != "step-00000003"
    assert "step-00000003/model.safetensors: the file is missing" in reporter.told


def test_no_whole_checkpoint_is_an_error_and_never_a_new_beginning(tmp_path: Path, tiny: Any, stop_at: Any) -> None:
    with pytest.raises(train_run.Interrupted):
        train_run.train(tiny(), tmp_path, stop_at((1,)))
    (tmp_path / "checkpoints/step-00000001/manifest.json").unlink()
    with pytest.raises(CheckpointError):
        train_run.train(tiny(), tmp_path, stop_at())
    assert (tmp_path / "checkpoints/step-00000001/model.safetensors").exists()


def test_a_kill_between_the_checkpoint_and_its_pointers_is_made_good(tmp_path: Path, tiny: Any, stop_at: Any,
                                                                     train_through: Through, snapshot: Any,
                                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    train_through(tiny(), tmp_path / "whole")

    def killed(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pellucid.train.loop.point_to_checkpoints", killed)
        with pytest.raises(KeyboardInterrupt):
            train_run.train(tiny(), tmp_path / "run", stop_at())
    assert not (tmp_path / "run/best.json").exists()
    train_through(tiny(), tmp_path / "run")
    assert snapshot(tmp_path / "run") == snapshot(tmp_path / "whole")


def test_what_was_told_behind_the_last_checkpoint_is_told_once(tmp_path: Path, tiny: Any, train_through: Through,
                                                               snapshot: Any, stop_at: Any,
                                                               monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after step 5: the checkpoint is of step 3, and metrics were written at 4."""
    train_through(tiny(), tmp_path / "whole")

    def killed(learner: Any, *arguments: Any) -> Any:
        if learner.progress.step == 5:
            raise KeyboardInterrupt
        return update(learner, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr("pellucid.train.loop.update", killed)
        with pytest.raises(KeyboardInterrupt):
            train_run.train(tiny(), tmp_path / "run", stop_at())
    assert json.loads((tmp_path / "run/last.json").read_text())["step"] == 3
    assert read_metrics(tmp_path / "run/metrics.jsonl")[-1]["step"] == 4
    train_through(tiny(), tmp_path / "run")
    assert snapshot(tmp_path / "run") == snapshot(tmp_path / "whole")


def test_leftovers_of_a_killed_writer_are_removed(tmp_path: Path, tiny: Any, train_through: Through,
                                                  stop_at: Any) -> None:
    with pytest.raises(train_run.Interrupted):
        train_run.train(tiny(), tmp_path, stop_at((4,)))
    for place in ("", "checkpoints", "figures"):
        left = scratch_name(tmp_path / place / "folder")
        left.mkdir(parents=True)
        (left / "half").write_bytes(b"x")
        scratch_name(tmp_path / place / "file").write_bytes(b"x")
        (tmp_path / place / ".tmp-of-mine").write_bytes(b"x")
    train_through(tiny(), tmp_path)
    assert {path.name for path in tmp_path.rglob(".tmp-*")} == {".tmp-of-mine"}


def test_another_configuration_or_other_data_is_refused(tmp_path: Path, tiny: Any, train_through: Through) -> None:
    out = tmp_path / "run"
    files = {name: tmp_path / f"{name}.tsv" for name in ("train", "validation", "test")}
    for file, lines in zip(files.values(), (40, 9, 5), strict=True):
        file.write_text("".join(f"{i} {i + 1}\t{i + 1} {i}\n" for i in range(lines)))
    data = {"generated": None, **{name: str(file) for name, file in files.items()}}
    train_through(tiny(data=data), out)
    record = (out / "data.json").read_bytes()
    with pytest.raises(ConfigError, match=r"train.weight_decay: 0.0 there, 0.1 here"):
        train_through(tiny(data=data, train={"weight_decay": 0.1}), out)
    for name, file in files.items():
        before = file.read_bytes()
        file.write_bytes(before + b"7\t7\n")
        with pytest.raises(DataError, match=f"the {name} data changed since this run began"):
            train_through(tiny(data=data), out)
        file.unlink()
        with pytest.raises(DataError, match=f"the {name} data of this run is not there any more"):
            train_through(tiny(data=data), out)
        file.write_bytes(before)
    assert (out / "data.json").read_bytes() == record


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"train": {}, "validation": {}}'])
def test_a_damaged_record_of_the_data_is_written_anew_once_removed(content: str, tmp_path: Path, tiny: Any,
                                                                   train_through: Through, snapshot: Any) -> None:
    train_through(tiny(), tmp_path)
    before = snapshot(tmp_path)
    (tmp_path / "data.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"data\.json is damaged") as error:
        train_through(tiny(), tmp_path)
    assert error.value.fix == "put it back; where no share is set aside, remove it, and it is written anew"
    (tmp_path / "data.json").unlink()
    train_through(tiny(), tmp_path)
    assert snapshot(tmp_path) == before


def test_two_processes_never_train_in_one_folder(tmp_path: Path, tiny: Any, stop_at: Any) -> None:
    with train_run.only_writer(tmp_path), pytest.raises(ConfigError, match="another process"):
        train_run.train(tiny(), tmp_path, stop_at())


def test_the_run_folder_is_what_the_contract_says(tmp_path: Path, tiny: Any, train_through: Through) -> None:
    summary = train_through(tiny(), tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names >= {"config.yaml", "environment.json", "data.json", "tokenizer", "metrics.jsonl", "checkpoints",
                     "best.json", "last.json", "figures", "README.md"}
    for folder in (tmp_path / "checkpoints").iterdir():
        check_folder(folder)
    assert {p.name for p in (tmp_path / "checkpoints/step-00000009").iterdir()} == {
        "model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"}
    assert json.loads((tmp_path / "last.json").read_text()) == {"checkpoint": "step-00000009", "step": 9}
    assert json.loads((tmp_path / "best.json").read_text())["checkpoint"] == summary["best"]
    assert set(json.loads((tmp_path / "data.json").read_text())) == {"train", "validation", "test"}
    line = json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[0])
    assert set(line) == {"event", "step", "epoch", "loss", "learning_rate", "gradient_norm", "source_tokens",
                         "target_tokens", "tokens_per_second", "seconds", "gradient_norms", "update_ratios"}
