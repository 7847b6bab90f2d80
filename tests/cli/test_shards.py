"""A folder of shards: each output is what its file alone gives, whoever makes it and whatever kills it."""

from __future__ import annotations

import errno
import gzip
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pellucid.data.claims import claimed

SECONDS = 300.0


def lines(number: int, count: int = 30) -> str:
    chance = random.Random(number)
    return "".join(" ".join(str(chance.randrange(1, 9)) for _ in range(chance.randrange(6))) + "\n"
                   for _ in range(count))


def written(folder: Path, count: int, size: int = 30) -> Path:
    """Shards in a folder, one of them packed, one in a folder of its own, one empty."""
    for number in range(count):
        path = folder / ("deep" if number == 1 else "") / f"{number:02}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(lines(number, size if number != 2 else 0))
    (folder / "packed.gz").write_bytes(gzip.compress(lines(count, size).encode()))
    return folder


def outputs(folder: Path) -> dict[str, bytes]:
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in sorted(found.items()) if not name.startswith(".pellucid")}


Start = Callable[[Path, Path], "subprocess.Popen[str]"]


@pytest.fixture
def start(run: Path) -> Iterator[Start]:
    """Starts a translator of one thread in a process of its own; none outlives the test."""
    started: list[subprocess.Popen[str]] = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # processes inherit that Ctrl+C is ignored

    def start(source: Path, output: Path) -> subprocess.Popen[str]:
        words = ["translate", str(run), "--input", str(source), "--output", str(output)]
        started.append(subprocess.Popen([sys.executable, "-m", "pellucid", *words], stderr=subprocess.PIPE, text=True,
                                        env=os.environ | {"OMP_NUM_THREADS": "1"}))
        return started[-1]

    yield start
    signal.signal(signal.SIGINT, before)
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.parametrize("flags", [[], ["--json"], ["--n-best", 2], ["--sample"], ["--beam-size", 3]])
def test_each_output_is_what_its_file_alone_gives(cli: Any, run: Path, tmp_path: Path, flags: list[Any]) -> None:
    source = written(tmp_path / "in", 4)
    done = cli("translate", run, "--input", source, "--output", tmp_path / "out", *flags)
    done.says(0, "5 of 5 shards are done, 5 of them by this process")
    ending = ".jsonl" if "--json" in flags else ""
    found = outputs(tmp_path / "out")
    assert set(found) == {f"00.txt{ending}", f"deep/01.txt{ending}", f"02.txt{ending}", f"03.txt{ending}",
                          f"packed{ending}.gz"}
    for name in ("00.txt", "deep/01.txt", "03.txt"):
        assert cli("translate", run, "--input", source / name, *flags).out.encode() == found[name + ending]
    assert cli("translate", run, "--input", source / "packed.gz", *flags).out.encode() == \
        gzip.decompress(found[f"packed{ending}.gz"])
    assert found[f"02.txt{ending}"] == b""


def test_a_second_time_nothing_is_done_and_new_shards_are(cli: Any, run: Path, tmp_path: Path) -> None:
    words = ["translate", run, "--input", written(tmp_path / "in", 3), "--output", tmp_path / "out"]
    cli(*words).says(0, "4 of 4 shards are done, 4 of them")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*") if path.is_file()}
    cli(*words).says(0, "4 of 4 shards are done, 0 of them")
    assert {path: path.stat().st_mtime_ns for path in before} == before
    (tmp_path / "in" / "new.txt").write_text("1 2\n")
    cli(*words).says(0, "new.txt: 1 lines", "5 of 5 shards are done, 1 of them")


def test_a_shard_that_cannot_be_read_holds_up_no_other(cli: Any, run: Path, tmp_path: Path) -> None:
    source = written(tmp_path / "in", 3)
    (source / "bad.txt").write_bytes(b"1\n2 \xff\n")
    (source / "cut.gz").write_bytes((source / "packed.gz").read_bytes()[:-9])
    words = ["translate", run, "--input", source, "--output", tmp_path / "out"]
    cli(*words).says(3, "bad.txt is left out", "4 of 6 shards are done", "left out: 2 of 6", f"{source}/bad.txt:2",
                     "cut short", "run the same command again")
    (source / "bad.txt").write_text("1\n2\n")
    cli(*words).says(3, "5 of 6 shards are done, 1 of them", "left out: 1 of 6")
    (source / "cut.gz").unlink()
    cli(*words).says(0, "5 of 5 shards are done, 0 of them")


def test_shards_of_living_others_are_left_to_them_and_named(cli: Any, run: Path, tmp_path: Path) -> None:
    source = written(tmp_path / "in", 3)
    words = ["translate", run, "--input", source, "--output", tmp_path / "out"]
    with claimed(tmp_path / "out/.pellucid/claims/deep/01.txt") as is_ours:
        assert is_ours
        cli(*words).says(0, "3 of 4 shards are done, 3 of them", "others are at work on deep/01.txt",
                         f"process {os.getpid()}")
    cli(*words).says(0, "4 of 4 shards are done, 1 of them")


def test_what_does_not_belong_together_is_refused(cli: Any, run: Path, copy: Path, tmp_path: Path) -> None:
    source = written(tmp_path / "in", 2)
    words = ["--input", source, "--output", tmp_path / "out"]
    cli("translate", run, *words).says(0)
    cli("translate", run, *words, "--beam-size", 3).says(2, "decode.beam_size: 2 there, 3 here", "another --output")
    cli("translate", run, *words, "--json").says(2, "--json: False there, True here")
    best = json.loads((copy / "best.json").read_text())
    others = sorted(path.name for path in (copy / "checkpoints").iterdir() if path.name != best["checkpoint"])
    (copy / "best.json").write_text(json.dumps(best | {"checkpoint": others[0]}))
    cli("translate", copy, *words).says(2, "weights: ")
    cli("translate", run, *words, "--decode.batch_tokens", 100).says(0)
    cli("translate", run, "--input", source).says(2, "--output")
    cli("translate", run, *words, "--prefix", source / "00.txt").says(2, "--prefix")
    cli("translate", run, "--input", source, "--output", source / "out").says(2, "--output lies in --input")
    cli("translate", run, "--input", tmp_path / "none", "--output", tmp_path / "x").says(3, "does not exist")


def test_cut_and_unknown_parts_are_counted(cli: Any, run: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("1 2\n" + "1 " * 60 + "\n1 x\ny\n")
    cli("translate", run, "--input", tmp_path / "in", "--output", tmp_path / "out").says(
        0, "1 line was too long for the model", "2 lines were with what the model does not know")
    record = json.loads((tmp_path / "out/.pellucid/records/a.json").read_text())
    assert (record["lines"], record["cut"], record["unknown"]) == (4, 1, 2)


@pytest.mark.parametrize("passed", [0, 2, 4, 7, 11, 16, 21])
def test_a_disk_that_fills_up_at_any_flush(cli: Any, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                           passed: int) -> None:
    words = ["translate", run, "--input", written(tmp_path / "in", 3), "--output", tmp_path / "out"]
    real, count = os.fsync, itertools.count()

    def fsync(handle: int) -> None:
        if next(count) >= passed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        cli(*words).says(74, "the disk is full", "nothing that was saved is lost")
    assert not list((tmp_path / "out").rglob(".tmp-*"))
    cli(*words).says(0, "4 of 4 shards are done")
    cli(*words[:-1], tmp_path / "other").says(0)
    assert outputs(tmp_path / "out") == outputs(tmp_path / "other")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_nothing_torn(cli: Any, run: Path, start: Start, tmp_path: Path, number: int) -> None:
    source = written(tmp_path / "in", 6, 4000)
    process = start(source, tmp_path / "out")
    assert process.stderr
    assert "lines in" in process.stderr.readline()
    process.send_signal(number)
    said = process.communicate(timeout=SECONDS)[1]
    assert process.returncode == 128 + number, said
    assert "stopped" in said
    assert "Traceback" not in said
    assert not list((tmp_path / "out").rglob(".tmp-*"))
    there = outputs(tmp_path / "out")
    assert 0 < len(there) < 7
    cli("translate", run, "--input", source, "--output", tmp_path / "out").says(0, "7 of 7 shards are done")
    cli("translate", run, "--input", source, "--output", tmp_path / "other").says(0, "7 of 7 shards are done")
    assert there.items() <= outputs(tmp_path / "out").items()
    assert outputs(tmp_path / "out") == outputs(tmp_path / "other")


def test_three_translators_that_are_killed_write_what_one_writes(cli: Any, run: Path, start: Start,
                                                                 tmp_path: Path) -> None:
    """`kill -9` while they are at work; tests/promises/09_shards.py does it at length."""
    source, chance = written(tmp_path / "in", 12, 400), random.Random(7)
    cli("translate", run, "--input", source, "--output", tmp_path / "one").says(0)
    crew = [start(source, tmp_path / "out") for _ in range(3)]
    for _ in range(3):
        dead = crew.pop(0)
        assert dead.stderr
        dead.stderr.readline()  # it has done a shard, if others left it one
        time.sleep(chance.random() / 5)
        dead.kill()
        dead.communicate()
        crew.append(start(source, tmp_path / "out"))
    for process in crew:
        said = process.communicate(timeout=SECONDS)[1]
        assert process.returncode == 0, said
    cli("translate", run, "--input", source, "--output", tmp_path / "out").says(0, "13 of 13 shards are done, 0 of")
    whole = {name: data for name, data in outputs(tmp_path / "out").items() if ".tmp-" not in name}
    assert whole == outputs(tmp_path / "one")
