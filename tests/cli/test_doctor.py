"""`pellucid doctor`: exit codes, the shape of the report, its width, run folders that are whole or not."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def report(cli: Any, *words: object) -> tuple[int, dict[str, Any]]:
    done = cli("doctor", *words, "--json")
    assert "Traceback" not in done.err
    return done.code, json.loads(done.out)


def kinds(found: dict[str, Any], severity: str) -> set[str]:
    return {finding["kind"] for finding in found["findings"] if finding["severity"] == severity}


def test_the_shape_of_the_report(cli: Any, tiny: Path) -> None:
    code, found = report(cli, tiny)
    assert code == 0
    assert set(found) == {"counts", "findings", "data", "environment"}
    assert found["counts"]["broken"] == 0
    for finding in found["findings"]:
        assert set(finding) == {"kind", "severity", "where", "what", "count", "total", "share", "examples", "cost",
                                "do"}
        assert all(set(example) == {"place", "texts"} for example in finding["examples"])
    assert found["data"]["train"]["records"] == 300
    assert {"vocabulary", "unknown", "lengths", "batches_per_epoch", "epochs", "filled"} <= set(found["data"]["tokens"])
    assert {"threads", "cores", "precision", "kernels", "features", "free_disk_bytes"} <= set(
        found["environment"])


def test_broken_data_ends_with_3_and_says_where(cli: Any, tiny: Path, data: Path) -> None:
    lines = (data / "t.txt").read_bytes().splitlines(keepends=True)
    (data / "t.txt").write_bytes(b"".join([*lines[:5], b"caf\xe9\n", *lines[6:]]))
    files = ("--data.train.source", data / "s.txt", "--data.train.target", data / "t.txt")
    done = cli("doctor", tiny, *files)
    assert done.code == 3
    assert f"{data / 't.txt'}:6" in done.out
    assert "iconv" in done.out
    own = [line for line in done.out.splitlines() if str(data) not in line and str(tiny) not in line]
    assert max(map(len, own)) <= 80
    code, found = report(cli, tiny, *files)
    assert code == 3
    assert "encoding" in kinds(found, "broken")


def test_what_is_no_configuration(cli: Any) -> None:
    cli("doctor", "no-such-thing").says(2, "no such recipe or file")


def test_a_recipe_goes_before_a_folder_of_its_name(cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "copy").mkdir()
    monkeypatch.chdir(tmp_path)
    code, found = report(cli, "copy", "--data.generated.train", 60, "--data.generated.test", 9)
    assert (code, found["data"]["train"]["records"]) == (0, 60)


@pytest.mark.parametrize("verb", ["doctor", "train", "plan"])
def test_a_folder_that_is_no_runs(cli: Any, tmp_path: Path, verb: str) -> None:
    cli(verb, tmp_path).says(2, "this is a folder", str(tmp_path), "config.yaml")


class TestRunFolder:
    """A run is examined as it lies there; nothing in it is changed."""

    def test_whole(self, cli: Any, run: Path) -> None:
        before = sorted(run.rglob("*"))
        code, found = report(cli, run)
        assert code == 0
        assert found["run"]["resumes_from"] == "step-00000024"
        assert found["run"]["whole"] == found["run"]["checkpoints"] > 1
        assert sorted(run.rglob("*")) == before

    @pytest.mark.parametrize(("pointer", "file", "severity"), [
        ("last", "model", "broken"), ("last", "optimizer", "warning"), (None, "model", "warning")])
    def test_a_damaged_checkpoint(self, cli: Any, copy: Path, pointer: str | None, file: str, severity: str) -> None:
        """One in use that cannot be loaded breaks the run; without whole moments it is only not gone on from."""
        used = {json.loads((copy / f"{name}.json").read_text())["checkpoint"] for name in ("best", "last")}
        name = json.loads((copy / f"{pointer}.json").read_text())["checkpoint"] if pointer else sorted(
            path.name for path in (copy / "checkpoints").iterdir() if path.name not in used)[0]
        path = copy / "checkpoints" / name / f"{file}.safetensors"
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        code, found = report(cli, copy)
        assert "checkpoint" in kinds(found, severity)
        assert code == (3 if severity == "broken" else 0)
        (finding,) = [f for f in found["findings"] if f["kind"] == "checkpoint"]
        assert finding["examples"][0]["place"] == str(path)

    def test_a_pointer_to_nothing_and_a_damaged_tokenizer(self, cli: Any, copy: Path) -> None:
        (copy / "best.json").write_text('{"checkpoint": "step-00000099"}')
        (copy / "tokenizer" / "tokenizer.json").write_text("{}")
        code, found = report(cli, copy)
        assert code == 3
        assert {"pointer", "tokenizer"} <= kinds(found, "broken")

    @pytest.mark.parametrize(("name", "kind"), [
        ("tokenizer", "tokenizer"), ("data", "data_record"), ("checkpoints", "checkpoint"),
        ("checkpoints/step-00000024", "checkpoint"), ("metrics.jsonl", "metrics")])
    def test_what_this_user_may_not_read_is_found(self, cli: Any, copy: Path, monkeypatch: pytest.MonkeyPatch,
                                                  name: str, kind: str) -> None:
        """And all else is looked at as well. Root may read everything, so the system's calls are told to refuse."""
        closed = copy / name

        def refusing(call: Callable[..., Any], opens: bool) -> Callable[..., Any]:
            def ask(path: Any, *rest: Any, **more: Any) -> Any:
                if isinstance(path, str | Path) and closed in (*[Path(path)] * opens, *Path(path).parents):
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
                return call(path, *rest, **more)

            return ask

        for module, what in ((os, "stat"), (os, "lstat"), (os, "listdir"), (io, "open")):
            monkeypatch.setattr(module, what, refusing(getattr(module, what), what in ("listdir", "open")))
        code, found = report(cli, copy)
        (finding,) = [each for each in found["findings"] if each["kind"] == kind]
        assert "no permission" in finding["what"]
        assert "chmod" in finding["do"]
        assert code == 3
        assert found["run"]["best"] == "step-00000024"

    @pytest.mark.parametrize("name", ["train", "test"])
    def test_data_that_changed(self, cli: Any, copy: Path, name: str) -> None:
        (copy / "data" / f"{name}.tsv").write_text("1 2\t1 2\n2 3\t2 3\n3 1\t3 1\n" * 30)
        _, found = report(cli, copy)
        assert "data_changed" in kinds(found, "warning")


def test_a_tokenizer_that_is_gone_is_found(cli: Any, copy: Path) -> None:
    shutil.rmtree(copy / "tokenizer")
    found = cli("doctor", copy)
    assert "[tokenizer]" in found.out
    assert found.code == 3
