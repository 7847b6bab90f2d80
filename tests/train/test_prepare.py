"""Preparing: any number of processes make what one makes, to the byte, and whatever becomes of some of them."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pellucid.config import RunConfig
from pellucid.config.mapping import from_mapping
from pellucid.data import encoding
from pellucid.data.claims import claimed
from pellucid.data.corpus import key_of, open_corpus, prepared_folder
from pellucid.data.splits import PREPARED, open_splits
from pellucid.data.tokenizers.build import load_tokenizers
from pellucid.data.tokenizers.interface import UNK
from pellucid.errors import ConfigError, DataError
from pellucid.train.journal import Reporter
from pellucid.train.prepare import Preparation, prepare
from pellucid.train.train import only_writer, train

FILES = ["report.json", "shards.json", "blocks.json", "source.ids", "source.offsets", "target.ids", "target.offsets"]
VICTIM = """
import sys, time
from pathlib import Path
from pellucid.cli import main
from pellucid.train import prepare

def write_half(pairs, shard, tokenizers, config, folder, progress):
    (folder / "source.ids").write_bytes(b"half")
    Path(sys.argv[1]).touch()
    time.sleep(600)

prepare.write_part = write_half
main(sys.argv[2:])
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_cache: Callable[[Path], str]) -> Path:
    monkeypatch.setenv("PELLUCID_CACHE", new_cache(tmp_path / "cache"))
    return tmp_path / "cache" / "ids"


@pytest.fixture
def mapping(tmp_path: Path) -> dict[str, Any]:
    """A configuration with four shards of text."""
    (tmp_path / "text").mkdir()
    for shard in range(4):
        lines = [f"{i % 7} {i % 5} {i * shard}\t{i} {i % 5}\n" for i in range(40 + 10 * shard)]
        (tmp_path / "text" / f"{shard}.tsv").write_text("".join(lines) + "\tempty\n")
    return {"data": {"train": str(tmp_path / "text")}, "tokenizer": {"kind": "word"},
            "model": {"d_model": 8, "n_heads": 2, "d_ff": 8, "encoder_layers": 1, "decoder_layers": 1,
                      "max_length": 16},
            "train": {"steps": 4, "batch_sentences": 8, "warmup_steps": 2, "precision": "fp32", "validate_every": 4,
                      "workers": 1}, "decode": {"max_length": 8}}


def ids_of(config: RunConfig, out: Path) -> dict[str, bytes]:
    """Every file that was prepared in a run folder, by split and name."""
    found = {}
    tokenizers = load_tokenizers(out / "tokenizer")
    for name, pairs in open_splits(config, out).items():
        folder = prepared_folder(pairs, key_of(pairs, tokenizers, config))
        assert folder is not None
        found |= {f"{name} {file}": (folder / file).read_bytes() for file in FILES}
    return found


def alone(config: RunConfig, out: Path, cache: Path) -> dict[str, bytes]:
    """What training writes into the cache where nothing is prepared."""
    tokenizers = load_tokenizers(out / "tokenizer")
    found = {}
    for name, pairs in open_splits(config, out / "elsewhere").items():
        open_corpus(pairs, tokenizers, config)
        folder = cache / key_of(pairs, tokenizers, config)
        found |= {f"{name} {file}": (folder / file).read_bytes() for file in FILES}
    return found


def summary_of(config: RunConfig, out: Path) -> list[Any]:
    summary = train(config, out, Reporter())
    return [summary["score"], (out / "checkpoints" / summary["best"] / "model.safetensors").read_bytes()]


@pytest.mark.parametrize("ending", [".tsv", ".tsv.gz", ".json", ".parquet"])
def test_time_left_is_told_while_a_single_shard_is_read(tmp_path: Path, mapping: dict[str, Any], ending: str,
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_LINES_AT_ONCE", 25)
    texts = [str(i) for i in range(100)]
    if ending == ".json":
        (tmp_path / "one.json").write_text(json.dumps([{"source": text, "target": text} for text in texts]))
    elif ending == ".parquet":
        table = pytest.importorskip("pyarrow").table({"source": texts, "target": texts})
        pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "one.parquet")
    else:
        with (gzip.open if ending == ".tsv.gz" else open)(tmp_path / f"one{ending}", "wt") as file:
            file.write("".join(f"{text}\t{text}\n" for text in texts))
    config = from_mapping({**mapping, "data": {"train": str(tmp_path / f"one{ending}"), "validation_share": 0.3}})
    told = io.StringIO()
    prepare(config, tmp_path / "run", Reporter(told, seconds_between_lines=0))
    lines = [line for line in told.getvalue().splitlines() if "shard 1: " in line]
    assert len(lines) >= 4
    for line in lines:
        assert re.fullmatch(r"(train|validation): 0 of 1 shards encoded(, about \d+ s left)?; "
                            r"shard 1: (\d\d|100) of 100 lines", line)
    assert all("left" in line for line in lines if "100 of 100" not in line)


def test_each_process_counts_what_the_others_have_read(tmp_path: Path, mapping: dict[str, Any],
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_LINES_AT_ONCE", 25)
    config, out = from_mapping(mapping), tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr("pellucid.train.prepare.write_part", stopping_after(0))
        with pytest.raises(KeyboardInterrupt):
            prepare(config, out, Reporter())
    pairs, tokenizers = open_splits(config, out)["train"], load_tokenizers(out / "tokenizer")
    told = io.StringIO()
    other = Preparation(pairs, tokenizers, config, Reporter(told, seconds_between_lines=0))
    half_way: list[str] = []

    def half(pairs: Any, shard: Any, *given: Any) -> None:
        given[-1](20)
        half_way.append(other._how_far())
        raise KeyboardInterrupt

    monkeypatch.setattr("pellucid.train.prepare.write_part", half)
    with pytest.raises(KeyboardInterrupt):
        Preparation(pairs, tokenizers, config, Reporter()).run()
    assert re.fullmatch(r"train: 0 of 4 shards encoded, about \d+ s left", half_way[0])


def test_how_far_it_is_takes_one_look_into_the_folder(tmp_path: Path, mapping: dict[str, Any],
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    config, out = from_mapping(mapping), tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr("pellucid.train.prepare.write_part", stopping_after(2))
        with pytest.raises(KeyboardInterrupt):
            prepare(config, out, Reporter())
    work = Preparation(open_splits(config, out)["train"], load_tokenizers(out / "tokenizer"), config, Reporter())

    def asked(path: Path) -> bool:
        raise AssertionError(f"{path} was asked for")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "exists", asked)
        assert work._how_far() == "train: 2 of 4 shards encoded"


def test_training_finds_it_done_and_comes_out_the_same(tmp_path: Path, mapping: dict[str, Any], cache: Path) -> None:
    config = from_mapping(mapping)
    report = prepare(config, tmp_path / "run", Reporter())
    assert report["train"]["encoded_here"] == report["train"]["shards"] == 4
    assert report["train"]["kept"] + report["validation"]["kept"] == 40 + 50 + 60 + 70
    assert not list((tmp_path / "run" / PREPARED).glob("*/parts"))
    assert not cache.exists()
    prepared = summary_of(config, tmp_path / "run")
    assert not cache.exists()
    assert prepared == summary_of(config, tmp_path / "other")
    assert cache.exists()
    assert ids_of(config, tmp_path / "run") == alone(config, tmp_path / "run", cache)


def test_three_processes_of_which_one_is_killed(tmp_path: Path, mapping: dict[str, Any], cache: Path) -> None:
    path, out, flag = tmp_path / "run.yaml", tmp_path / "run", tmp_path / "flag"
    path.write_text(yaml.safe_dump(mapping))
    words = ["prepare", str(path), "--out", str(out), "--json"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    victim = subprocess.Popen([sys.executable, "-c", VICTIM, str(flag), *words], env=env)
    others = []
    try:
        while not flag.exists():
            assert victim.poll() is None
            time.sleep(0.05)
        others += [subprocess.Popen([sys.executable, "-m", "pellucid", *words], env=env, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE) for _ in range(2)]
        while len(list(out.glob(f"{PREPARED}/train-*/parts/0*"))) < 3:  # the victim has the fourth
            assert [one.poll() for one in others] == [None, None]
            time.sleep(0.05)
        victim.send_signal(signal.SIGKILL)
        for one in others:
            assert one.wait(timeout=120) == 0, one.communicate()
    finally:
        for one in (victim, *others):
            one.kill()
            one.wait()
    config = from_mapping(mapping)
    assert not list(out.glob(f"{PREPARED}/*/parts"))
    assert not list(out.glob("**/.tmp-*"))
    assert ids_of(config, out) == alone(config, out, cache)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stops=st.lists(st.integers(0, 4), min_size=1, max_size=3))
def test_it_goes_on_where_it_was_stopped(tmp_path_factory: pytest.TempPathFactory, mapping: dict[str, Any],
                                         cache: Path, stops: list[int]) -> None:
    config, out = from_mapping(mapping), tmp_path_factory.mktemp("runs") / "run"
    for shards in stops:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("pellucid.train.prepare.write_part", stopping_after(shards))
            with contextlib.suppress(KeyboardInterrupt):
                prepare(config, out, Reporter())
    assert prepare(config, out, Reporter())["train"]["shards"] == 4
    assert ids_of(config, out) == alone(config, out, cache)
    assert prepare(config, out, Reporter())["train"]["encoded_here"] == 0


def stopping_after(shards: int) -> Any:
    from pellucid.data.encoding import write_part

    did = []

    def write(*given: Any) -> None:
        if len(did) == shards:
            raise KeyboardInterrupt
        did.append(given)
        write_part(*given)

    return write


def test_what_is_damaged_is_made_again(tmp_path: Path, mapping: dict[str, Any], cache: Path) -> None:
    config, out = from_mapping(mapping), tmp_path / "run"
    prepare(config, out, Reporter())
    expected = ids_of(config, out)
    (file,) = out.glob(f"{PREPARED}/train-*/ids/source.ids")
    for content in (file.read_bytes()[:-2], bytes(len(file.read_bytes()))):
        file.write_bytes(content)
        report = prepare(config, out, Reporter())
        assert (report["train"]["encoded_here"], report["validation"]["encoded_here"]) == (4, 0)
        assert ids_of(config, out) == expected


def test_a_start_that_fails_leaves_nothing_and_other_data_are_refused(tmp_path: Path, mapping: dict[str, Any]) -> None:
    config, out = from_mapping(mapping), tmp_path / "runs" / "run"
    wrong = from_mapping({**mapping, "data": {"train": str(tmp_path / "none")}})
    with pytest.raises(DataError, match="does not exist"):
        prepare(wrong, out, Reporter())
    assert not out.parent.exists()
    prepare(config, out, Reporter())
    with pytest.raises(ConfigError, match="other data") as error:
        prepare(wrong, out, Reporter())
    assert "data.train.path" in error.value.why
    longer = from_mapping({**mapping, "train": {**mapping["train"], "steps": 5}})
    assert prepare(longer, out, Reporter())["train"]["encoded_here"] == 0


def test_training_with_other_data_does_not_remove_what_was_prepared(tmp_path: Path, mapping: dict[str, Any]) -> None:
    config, out = from_mapping(mapping), tmp_path / "run"
    prepare(config, out, Reporter())
    there = sorted(out.rglob("*"))
    for key, value in (("validation_share", 0.3), ("train", str(tmp_path / "none"))):
        with pytest.raises(ConfigError, match="other data"):
            train(from_mapping({**mapping, "data": {**mapping["data"], key: value}}), out, Reporter())
    assert sorted(out.rglob("*")) == there
    assert prepare(config, out, Reporter())["train"]["encoded_here"] == 0


def test_a_tokenizer_is_of_the_data_as_it_is_now(tmp_path: Path, mapping: dict[str, Any]) -> None:
    config, out = from_mapping({**mapping, "tokenizer": {"kind": "word", "min_frequency": 1}}), tmp_path / "run"
    prepare(config, out, Reporter())
    for path in Path(config.data.train.paths[0]).rglob("*.tsv"):
        path.write_text("".join(f"new words {i}\tmots nouveaux {i}\n" for i in range(400)))
    prepare(config, out, Reporter())
    assert UNK not in load_tokenizers(out / "tokenizer").source.encode_batch(["new words"])[0]


def test_ids_of_earlier_data_go_once_the_new_ones_are_whole_and_nothing_else_does(
        tmp_path: Path, mapping: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    config, out = from_mapping(mapping), tmp_path / "run"
    prepare(config, out, Reporter())
    before = {path.name for path in (out / PREPARED).iterdir()}
    foreign = [out / PREPARED / name for name in ("notes.txt", "train-mine", f"train-{'0' * 16}", f"test-{'0' * 16}")]
    foreign[0].write_text("mine")
    for folder in foreign[1:]:
        folder.mkdir()
        (folder / "mine.txt").write_text("mine")
    Path(config.data.train.paths[0], "4.tsv").write_text("".join(f"new {i}\tneuf {i}\n" for i in range(60)))
    with monkeypatch.context() as patch:
        patch.setattr("pellucid.train.prepare.write_part", stopping_after(2))
        with pytest.raises(KeyboardInterrupt):
            prepare(config, out, Reporter())
    assert before <= {path.name for path in (out / PREPARED).iterdir()}
    prepare(config, out, Reporter())
    left = {path.name for path in (out / PREPARED).iterdir()} - {path.name for path in foreign}
    assert not left & before
    assert len(left) == 2
    assert all(path.exists() for path in foreign)


def test_what_a_process_is_at_work_on_stays(tmp_path: Path, mapping: dict[str, Any]) -> None:
    config, out = from_mapping(mapping), tmp_path / "run"
    prepare(config, out, Reporter())
    (busy,) = (out / PREPARED).glob("train-*")
    Path(config.data.train.paths[0], "4.tsv").write_text("".join(f"new {i}\tneuf {i}\n" for i in range(60)))
    with claimed(busy / "claims" / "000001"):
        prepare(config, out, Reporter())
    assert busy.exists()
    prepare(config, out, Reporter())
    assert not busy.exists()


def test_nobody_trains_and_prepares_in_one_folder(tmp_path: Path, mapping: dict[str, Any]) -> None:
    (tmp_path / "run").mkdir()
    with only_writer(tmp_path / "run"), pytest.raises(ConfigError, match="training in this folder"):
        prepare(from_mapping(mapping), tmp_path / "run", Reporter())


@pytest.mark.parametrize("content", ["", "source\ttarget\n"])
@pytest.mark.parametrize("start", [prepare, train])
def test_a_shard_without_records_is_told_before_anything_is_made_of_the_others(
        tmp_path: Path, mapping: dict[str, Any], start: Callable[..., Any], content: str) -> None:
    (tmp_path / "text" / "3.tsv").write_text(content)
    told = io.StringIO()
    with pytest.raises(DataError) as error:
        start(from_mapping(mapping), tmp_path / "run", Reporter(told))
    assert error.value.where == f"{tmp_path}/text/3.tsv"
    assert "leave it out" in error.value.fix
    assert "tokenizer" not in told.getvalue()


def test_a_shard_is_named_where_it_cannot_be_read(tmp_path: Path, mapping: dict[str, Any]) -> None:
    config, out = from_mapping({**mapping, "tokenizer": {"kind": "word"}}), tmp_path / "run"
    prepare(config, out, Reporter())
    (tmp_path / "text" / "2.tsv").write_text("a\tb\nonly\n")
    with pytest.raises(DataError) as error:
        prepare(config, out, Reporter())
    assert error.value.where == f"{tmp_path}/text/2.tsv:2"
