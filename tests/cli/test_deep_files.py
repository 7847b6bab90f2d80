"""Files in which brackets open without end stop a command with one clear screen: the stack is not what ends them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

YAML = {"brackets": "[" * 100_000, "closed": "[" * 400 + "]" * 400, "mapping": "{a: " * 100_000,
        "value": "seed: " + "[" * 450 + "]" * 450}
JSON = {"brackets": "[" * 100_000, "closed": "[" * 900 + "]" * 900, "mapping": '{"a": ' * 100_000}


@pytest.mark.parametrize("verb", ["train", "plan", "doctor", "ablate"])
@pytest.mark.parametrize("text", YAML.values(), ids=YAML)
def test_a_configuration(cli: Any, tmp_path: Path, verb: str, text: str) -> None:
    (tmp_path / "my.yaml").write_text(text)
    cli(verb, tmp_path / "my.yaml").says(2, f"{tmp_path / 'my.yaml'}:1", "no YAML")


@pytest.mark.parametrize("text", YAML.values(), ids=YAML)
def test_an_override(cli: Any, tiny: Path, train_on: Callable[..., Any], tmp_path: Path, text: str) -> None:
    for key in ("train.betas", "seed"):
        cli("plan", tiny, f"--{key}", text).says(2, f"--{key} is no YAML", "levels lie inside each other")
    (table := tmp_path / "table.tsv").write_text("one\ttwo\n1\t2\n")
    told = train_on("--data.train", table, "--data.source_field", text)  # a column may have any name
    told.says(3, "there is no field")
    assert len(told.err) < 5000


@pytest.mark.parametrize("text", YAML.values(), ids=YAML)
def test_a_path(train_on: Callable[..., Any], text: str) -> None:
    outcome = train_on("--data.train", text)
    is_list = text[0] == "[" and text[-1] == "]"
    outcome.says(2 if is_list else 3, "where:")  # no list of sources, or a file that is not there
    assert len(outcome.err) < 5000


@pytest.mark.parametrize("text", YAML.values(), ids=YAML)
def test_the_configuration_of_a_run(cli: Any, copy: Path, text: str) -> None:
    (copy / "config.yaml").write_text(text)
    for verb in ("generate", "evaluate", "doctor"):
        cli(verb, copy).says(4, str(copy / "config.yaml"), "damaged")


def test_what_a_run_holds(cli: Any, run: Path, tmp_path: Path) -> None:
    for number, path in enumerate(sorted(run.rglob("*.json*"))):
        copy = Path(shutil.copytree(run, tmp_path / str(number)))
        (copy / path.relative_to(run)).write_text(JSON["brackets"] + "\n" + path.read_text())
        for verb in ("generate", "doctor"):
            outcome = cli(verb, copy, stdin="1 2\n")
            assert outcome.code in (0, 3, 4), f"{path}: {outcome.err[-2000:]}"


@pytest.mark.parametrize("text", JSON.values(), ids=JSON)
def test_data(train_on: Callable[..., Any], cli: Any, tiny: Path, tmp_path: Path, text: str) -> None:
    for name, content in {"a.jsonl": text + "\n", "b.jsonl": f'{{"source": {text}, "target": "1"}}\n',
                          "c.json": f"[{text}]"}.items():
        (tmp_path / name).write_text(content)
        train_on("--data.train", tmp_path / name).says(3, str(tmp_path / name))
        assert cli("doctor", tiny, "--data.train", tmp_path / name).code == 3
