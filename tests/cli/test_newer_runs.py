"""A run that a newer version made is said to be that, with both versions: not damaged, and not misspelt."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

import pellucid

READERS = [["translate"], ["evaluate"], ["doctor"], ["inspect"]]


def rewrite(path: Path, **over: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **over}))


def add_keys(copy: Path) -> None:
    config = copy / "config.yaml"
    config.write_text("sorcery: true\n" + config.read_text().replace("model:\n", "model:\n  magic: 3\n"))


def test_the_format_is_recorded(run: Path) -> None:
    environment = json.loads((run / "environment.json").read_text())
    assert environment["format"] == 1
    assert environment["pellucid"] == pellucid.__version__


@pytest.mark.parametrize("verb", READERS, ids=lambda words: words[0])
def test_a_later_format(cli: Any, copy: Path, verb: list[str]) -> None:
    rewrite(copy / "environment.json", format=7, pellucid="3.1.4")
    add_keys(copy)
    cli(*verb, copy, stdin="1\n").says(4, "made by a newer version", "pellucid 3.1.4", "format 7", "up to 1",
                                       f"pellucid {pellucid.__version__}", "sorcery", "model.magic", str(copy))


def test_a_later_format_whose_keys_are_all_known(cli: Any, copy: Path, tiny: Path) -> None:
    rewrite(copy / "environment.json", format=7, pellucid="3.1.4")
    cli("translate", copy, stdin="1\n").says(4, "made by a newer version", "pellucid 3.1.4")
    cli("train", tiny, "--out", copy).says(4, "made by a newer version", "pellucid 3.1.4")
    assert json.loads((copy / "environment.json").read_text())["format"] == 7


def test_keys_of_a_later_version(cli: Any, copy: Path, tiny: Path) -> None:
    rewrite(copy / "environment.json", pellucid="0.10.0")
    assert cli("translate", copy, stdin="1\n").code == 0  # nothing in it is unknown
    add_keys(copy)
    for words in (["translate", copy], ["train", tiny, "--out", copy]):
        cli(*words, stdin="1\n").says(4, "made by a newer version", "pellucid 0.10.0", "sorcery, model.magic")


def test_a_choice_of_a_later_version(cli: Any, copy: Path) -> None:
    rewrite(copy / "environment.json", pellucid="0.10.0")
    config = copy / "config.yaml"
    config.write_text(config.read_text().replace("kind: word", "kind: bytes"))
    cli("translate", copy, stdin="1\n").says(4, "made by a newer version", "tokenizer.kind is 'bytes'")


@pytest.mark.parametrize("version", ["0.0.9", pellucid.__version__, "", "no version", None, 5, "9" * 5000 + "x"])
def test_keys_that_no_later_version_explains(cli: Any, copy: Path, version: Any) -> None:
    rewrite(copy / "environment.json", pellucid=version)
    add_keys(copy)
    done = cli("translate", copy, stdin="1\n")
    done.says(4, "made by a newer version" if version == "9" * 5000 + "x" else "damaged", "sorcery")


@pytest.mark.parametrize("content", ["{", "null", '{"format": "x"}', '{"format": null}'])
def test_an_environment_that_says_nothing(cli: Any, copy: Path, content: str) -> None:
    (copy / "environment.json").write_text(content)
    done = cli("translate", copy, stdin="1\n")
    assert done.code == 0 or "Traceback" not in done.err


@pytest.mark.parametrize("name", ["checkpoints/*/manifest.json", "tokenizer/manifest.json", "tokenizer/tokenizer.json"])
def test_later_formats_inside(cli: Any, copy: Path, name: str) -> None:
    for path in copy.glob(name):
        rewrite(path, format=2)
        manifest = path.with_name("manifest.json")
        entries = json.loads(manifest.read_text())
        if path.name in entries["files"]:
            content = path.read_bytes()
            entries["files"][path.name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            manifest.write_text(json.dumps(entries))
    cli("translate", copy, stdin="1\n").says(4, "made by a newer version", "format is 2", "up to 1")

