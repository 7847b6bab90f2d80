"""A folder of shards: which there are, what is done, from what and with what; nothing else is ever written over."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import pytest

from pellucid.cache import scratch_name
from pellucid.config import DecodeConfig
from pellucid.data import claims
from pellucid.errors import CheckpointError, ConfigError, DataError, UserError
from pellucid.files import read_json, write_json
from pellucid.runs.shard_folder import ShardFolder

TEXTS = {"a.txt": b"1 2\n3\n", "b.txt.gz": gzip.compress(b"4\n"), "deep/er/c": b"5 6\r\n\n7", "empty": b"",
         "deep/empty.gz": gzip.compress(b"")}
OPTIONS = DecodeConfig(beam_size=2)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for name, data in TEXTS.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(data)
    return tmp_path / "in"


def upper(lines: Iterator[str], count: int, file: TextIO) -> dict[str, Any]:
    """An output: a line for each line."""
    read = list(lines)
    assert len(read) == count
    file.writelines(f"<{line}>\n" for line in read)
    return {"more": count}


def begun(source: Path, weights: str = "w", options: DecodeConfig = OPTIONS, ending: str = "") -> ShardFolder:
    folder = ShardFolder(source, source.parent / "out", ending)
    folder.begin(Path("runs/x"), weights, options, pytest.fail)
    return folder


def finished(source: Path) -> ShardFolder:
    folder = begun(source)
    for name in folder.names:
        folder.make(name, upper)
    return folder


def text_of(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def test_shards_are_files_at_any_depth_and_outputs_have_their_names(source: Path) -> None:
    for name in (".hidden", "_SUCCESS", ".d/x", "_d/x"):
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_bytes(b"1\n")
    (source / "link.txt").symlink_to(source / "a.txt")
    folder = finished(source)
    assert folder.names == sorted([*TEXTS, "link.txt"])
    wanted = {"a.txt": b"<1 2>\n<3>\n", "b.txt.gz": b"<4>\n", "deep/er/c": b"<5 6>\n<>\n<7>\n", "empty": b"",
              "deep/empty.gz": b"", "link.txt": b"<1 2>\n<3>\n"}
    out = source.parent / "out"
    found = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert {name for name in found if not name.startswith(".pellucid/")} == set(wanted)
    assert {name: text_of(out / name) for name in wanted} == wanted
    assert all(map(folder.is_done, folder.names))
    assert folder.done() == set(folder.names)


def test_an_ending_goes_before_gz(source: Path) -> None:
    folder = ShardFolder(source, source.parent / "out", ".jsonl")
    names = [folder.output_of(name).relative_to(source.parent / "out").as_posix() for name in folder.names]
    assert names == ["a.txt.jsonl", "b.txt.jsonl.gz", "deep/empty.jsonl.gz", "deep/er/c.jsonl", "empty.jsonl"]


def test_the_same_lines_give_the_same_bytes(source: Path) -> None:
    folder = finished(source)
    before = {name: folder.output_of(name).read_bytes() for name in folder.names}
    assert before["b.txt.gz"][4:8] == bytes(4)  # no time is kept in it
    for name in folder.names:
        folder.make(name, upper)
    assert {name: folder.output_of(name).read_bytes() for name in folder.names} == before


def test_a_record_says_what_an_output_is_made_of(source: Path) -> None:
    folder = begun(source)
    assert not folder.is_done("a.txt")
    record = folder.make("a.txt", upper)
    assert read_json(source.parent / "out/.pellucid/records/a.txt.json") == record
    assert (record["lines"], record["more"], record["input"]["bytes"], record["output"]["bytes"]) == (2, 2, 6, 10)
    assert folder.done() == {"a.txt"}


def test_what_is_untouched_is_not_read_again_and_what_has_gone_is_told(source: Path,
                                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    """To go on with a thousand shards takes no longer than to list them."""
    folder = finished(source)
    with monkeypatch.context() as patch:
        patch.setattr("pellucid.runs.shard_folder.sha256", pytest.fail)
        assert all(map(folder.is_done, folder.names))
    (source / "a.txt").unlink()
    with pytest.raises(DataError, match="does not exist"):
        folder.is_done("a.txt")


def test_what_is_touched_is_read_and_what_is_changed_is_made_anew(source: Path) -> None:
    folder, path = finished(source), source / "a.txt"
    os.utime(path, (1, 1))
    assert folder.is_done("a.txt")
    record = source.parent / "out/.pellucid/records/a.txt.json"
    assert read_json(record)["input"]["modified"] == 10**9  # and not again
    path.write_bytes(b"9 2\n3\n")
    assert not folder.is_done("a.txt")
    folder.make("a.txt", upper)
    assert folder.is_done("a.txt")
    assert folder.output_of("a.txt").read_bytes() == b"<9 2>\n<3>\n"


def test_an_output_that_was_replaced_and_not_recorded_is_made_again(source: Path,
                                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a process that is killed between the two."""
    folder = finished(source)
    (source / "a.txt").write_bytes(b"9 2\n3\n4\n")

    def killed(path: Path, value: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pellucid.runs.shard_folder.write_json", killed)
        with pytest.raises(KeyboardInterrupt):
            folder.make("a.txt", upper)
    assert not folder.is_done("a.txt")
    folder.make("a.txt", upper)
    assert folder.is_done("a.txt")


def test_an_output_or_record_that_was_removed_is_made_again(source: Path) -> None:
    folder = finished(source)
    folder.output_of("a.txt").unlink()
    assert not folder.is_done("a.txt")
    for damage in ("", "{", "[]", "{}", '{"output": {"bytes": 10}}', '{"output": 1, "input": 2}'):
        (source.parent / "out/.pellucid/records/b.txt.gz.json").write_text(damage)
        assert not folder.is_done("b.txt.gz"), damage
    place = source.parent / "out/.pellucid/records/deep/er/c.json"
    record = read_json(place)
    for told in (None, 5, "a", [], {}, {"bytes": 1, "modified": 1}):
        write_json(place, record | {"input": told})
        assert not folder.is_done("deep/er/c"), told


def test_an_output_that_somebody_has_edited_stays(source: Path) -> None:
    folder = finished(source)
    folder.output_of("a.txt").write_bytes(b"edited\n")
    with pytest.raises(DataError, match="changed after it was made"):
        folder.is_done("a.txt")


@pytest.mark.parametrize(("name", "data"), [("a.txt", b"1\n\xff\n"), ("b.txt.gz", b"\x1f\x8b"), ("b.txt.gz", b"1\n")])
def test_what_cannot_be_read_is_told_before_anything_is_decoded(source: Path, name: str, data: bytes) -> None:
    (source / name).write_bytes(data)
    with pytest.raises(DataError):
        begun(source).make(name, lambda *given: pytest.fail("it was decoded"))
    assert not (source.parent / "out" / name).exists()


def test_a_shard_that_changes_while_it_is_read_is_refused(source: Path) -> None:
    folder = begun(source)

    def fill(lines: Iterator[str], count: int, file: TextIO) -> dict[str, Any]:
        told = upper(lines, count, file)
        (source / "a.txt").write_bytes(b"1 2\n4\n")
        return told

    with pytest.raises(DataError, match="changed while it was read"):
        folder.make("a.txt", fill)
    assert not folder.is_done("a.txt")
    assert not [path for path in (source.parent / "out").iterdir() if path.name != ".pellucid"]


def test_shards_that_have_gone_or_are_no_files(source: Path) -> None:
    (source / "gone").symlink_to(source / "nothing")
    os.mkfifo(source / "pipe")
    folder = begun(source)
    for name in ("gone", "pipe"):
        with pytest.raises(DataError):
            folder.make(name, upper)
    (source / "gone").unlink()
    (source / "folder").symlink_to(source / "deep")
    with pytest.raises(DataError, match="link to a folder"):
        ShardFolder(source, source.parent / "out")


def test_a_folder_without_shards_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in" / "_d").mkdir(parents=True)
    (tmp_path / "in" / "_d" / "x").touch()
    for place, what in (("in", "no shard in this folder"), ("none", "the folder cannot be read")):
        with pytest.raises(DataError, match=what):
            ShardFolder(tmp_path / place, tmp_path / "out")


@pytest.mark.parametrize("output", ["in", "in/out", "in/deep", ".", "in/../in/x", "file"])
def test_outputs_never_lie_among_shards(source: Path, output: str) -> None:
    (source.parent / "file").touch()
    with pytest.raises(ConfigError):
        ShardFolder(source, source.parent / output)


def test_other_weights_or_options_are_refused_by_name(source: Path) -> None:
    begun(source)
    for changed, word in (({"weights": "v"}, "weights: w there, v here"), ({"ending": ".jsonl"}, "--json: False there"),
                          ({"options": replace(OPTIONS, beam_size=3)}, "decode.beam_size: 2 there, 3 here"),
                          ({"options": replace(OPTIONS, precision="fp32")}, "decode.precision: auto there")):
        with pytest.raises(ConfigError, match=word):
            begun(source, **changed)
    begun(source, options=replace(OPTIONS, batch_tokens=7))  # which changes only the speed


def test_an_option_that_an_older_version_did_not_know_has_its_default(source: Path) -> None:
    begun(source)
    path = source.parent / "out/.pellucid/manifest.json"
    manifest = read_json(path)
    del manifest["decode"]["exact"]
    write_json(path, manifest)
    begun(source)
    with pytest.raises(ConfigError, match=r"decode\.exact"):
        begun(source, options=replace(OPTIONS, exact=True))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', '{"format": 9}',
                                  '{"format": 1, "weights": 1, "decode": 2, "ending": 3}'])
def test_a_damaged_manifest_is_refused(source: Path, text: str) -> None:
    begun(source)
    (source.parent / "out/.pellucid/manifest.json").write_text(text)
    with pytest.raises(CheckpointError) as error:
        begun(source)
    assert "manifest.json" in error.value.where


def test_a_manifest_of_a_newer_version_is_refused_though_it_can_be_read(source: Path) -> None:
    begun(source)
    path = source.parent / "out/.pellucid/manifest.json"
    write_json(path, read_json(path) | {"format": 2})
    with pytest.raises(CheckpointError, match="newer"):
        begun(source)


def test_a_folder_with_other_files_is_left_alone(source: Path) -> None:
    (source.parent / "out").mkdir()
    (source.parent / "out" / "a.txt").write_bytes(b"mine\n")
    with pytest.raises(UserError, match="other files"):
        begun(source)
    assert (source.parent / "out" / "a.txt").read_bytes() == b"mine\n"


def test_whoever_begins_the_folder_is_waited_for(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "_PATIENCE", 0.01)
    folder, told, ways = ShardFolder(source, source.parent / "out"), [], iter([True])
    real = claims.lock
    monkeypatch.setattr(claims, "lock", lambda *given: not next(ways, False) and real(*given))
    folder.begin(Path("x"), "w", OPTIONS, told.append)
    assert len(told) == 1
    assert "waiting for" in told[0]


def test_leftovers_of_the_killed_go_after_a_day(source: Path) -> None:
    folder = finished(source)
    old, new = (scratch_name(source.parent / "out" / name) for name in ("deep/er/c", "a.txt"))
    for path, age in ((old, 2 * 86400), (new, 60)):
        path.touch()
        os.utime(path, (path.stat().st_mtime - age,) * 2)
    begun(source)
    assert [path.name for path in folder.output.rglob(".tmp-*")] == [new.name]
