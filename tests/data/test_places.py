"""Where a run's files lie: what its record says of them, and nothing where it says nothing that can be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pellucid.config import Source, Split
from pellucid.data.places import inside, known_of, locate
from pellucid.data.shards import sha256_of


@pytest.mark.parametrize("about", [
    None, [], {}, "train", {"sha256": None}, {"sha256": 3}, {"sha256": "ab"}, {"sha256": ["a"] * 64}])
def test_a_record_without_a_digest_is_none(tmp_path: Path, about: Any) -> None:
    record = tmp_path / "data.json"
    assert known_of(record, "train", Split(path="a.tsv")) is None
    for content in (about, {"train": about}):
        record.write_text(json.dumps(content))
        assert known_of(record, "train", Split(path="a.tsv")) is None


@pytest.mark.parametrize("directory", [None, 3, ["/"], "", "data"])
def test_a_folder_that_is_no_place_is_not_looked_into(tmp_path: Path, directory: Any) -> None:
    (tmp_path / "data.json").write_text(json.dumps({"train": {"sha256": "a" * 64, "directory": directory}}))
    known = known_of(tmp_path / "data.json", "train", Split(path="a.tsv"))
    assert known is not None
    assert known.directory == ""
    assert locate(known.given, known) == (known.given, str(Path.cwd()))


def test_only_relative_paths_are_looked_for_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    for folder in (there, here):
        folder.mkdir()
        (folder / "a.tsv").write_text(f"{folder.name}\tx\n")
    monkeypatch.chdir(here)
    record = tmp_path / "data.json"
    digest = sha256_of(Split(path=f"{there}/a.tsv"))
    record.write_text(json.dumps({"train": {"sha256": digest, "directory": str(there)}}))
    relative, absolute, hub = Split(path="a.tsv"), Split(path=f"{here}/a.tsv"), Split(path="hub:a/b")
    for given, found in ((relative, (Split(path=f"{there}/a.tsv"), str(there))), (absolute, (absolute, "")),
                         (hub, (hub, ""))):
        assert locate(given, known_of(record, "train", given)) == found
        assert locate(given, None) == (given, str(here) if given is relative else "")
    mixed = Split(mixture=(Source(path="a.tsv"), Source(path="hub:a/b"), Source(path="/a")))
    assert inside(mixed, "/d").paths == ["/d/a.tsv", "hub:a/b", "/a"]
    assert inside(mixed, "") == mixed
    (there / "a.tsv").unlink()  # it is not there any more: what is here is told of
    assert locate(relative, known_of(record, "train", relative)) == (relative, str(here))
