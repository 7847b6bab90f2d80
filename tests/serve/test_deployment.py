"""What a container and systemd are told about the server is true of it."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from pellucid.cli import VERBS
from pellucid.cli.serve import Serve
from pellucid.errors import CheckpointError, ConfigError, DataError
from pellucid.serve.limits import Limits

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
UNIT = (ROOT / "deploy" / "pellucid.service").read_text(encoding="utf-8")
FLAGS = {f"--{field.name.replace('_', '-')}" for field in dataclasses.fields(Serve)} | {"--help"}


def docker(word: str) -> list[str]:
    """What follows an instruction, each time that it comes."""
    return re.findall(rf"^{word} +(.*)$", DOCKERFILE, re.MULTILINE)


def unit(key: str) -> list[str]:
    """The values of a key."""
    return re.findall(rf"^{key}=(.*)$", UNIT, re.MULTILINE)


def test_both_start_a_verb_with_flags_that_exist() -> None:
    (entry,), (start,) = docker("ENTRYPOINT"), unit("ExecStart")
    for program, verb, *words in (json.loads(entry), shlex.split(start)):
        assert Path(program).name == "pellucid"
        assert verb == "serve"
        assert verb in VERBS
        assert {word for word in words if word.startswith("--")} <= FLAGS
    assert {word[1:] for word in shlex.split(start) if word.startswith("$")} == {"RUNS", "FLAGS"}
    for page in ("docs/deployment.md", "docs/zh-CN/deployment.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        ours = re.findall(r"(?:^FLAGS=|/runs/a )(.*?)[`\n]", text, re.MULTILINE)
        assert len(ours) >= 2
        assert {word for line in ours for word in line.split() if word.startswith("--")} <= FLAGS


def test_no_shell_stands_between_a_signal_and_the_server() -> None:
    for instruction in ("ENTRYPOINT", "CMD"):
        (words,) = docker(instruction)
        assert all(isinstance(word, str) for word in json.loads(words))
    assert docker("STOPSIGNAL") == [signal.SIGTERM.name]
    (reload,) = unit("ExecReload")
    assert reload.endswith("kill -HUP $MAINPID")
    (seconds,) = unit("TimeoutStopSec")
    assert int(seconds) > Limits().timeout


def test_the_container_is_asked_where_it_listens_and_has_no_rights() -> None:
    port = json.loads(docker("ENTRYPOINT")[0])[-1]
    (health,) = docker("HEALTHCHECK")
    assert f"http://127.0.0.1:{port}/health" in health
    code = json.loads(health.partition("CMD ")[2])[-1]
    compile(code, "HEALTHCHECK", "exec")
    assert docker("EXPOSE") == [port]
    assert docker("USER") == ["pellucid"]
    assert docker("VOLUME")[0] in docker("ENV")[-1]


def test_what_is_copied_is_there_and_not_ignored() -> None:
    wanted = [line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"]
    copied = [path for line in docker("COPY") if not line.startswith("--from") for path in line.split()[:-1]]
    assert sorted(copied) == sorted(wanted)
    assert all((ROOT / path).exists() for path in copied)


def test_the_steps_at_the_top_of_the_unit_bring_the_run_where_it_is_served_from(tmp_path: Path) -> None:
    (copies,) = re.findall("^#   (.*cp -r.*)$", UNIT, re.MULTILINE)
    (tmp_path / "srv").mkdir()
    (tmp_path / "runs/demo").mkdir(parents=True)
    subprocess.run(["sh", "-c", copies.replace(" /srv/", f" {tmp_path}/srv/")], cwd=tmp_path, check=True)
    (run,) = (value.removeprefix("RUNS=") for value in unit("Environment") if value.startswith("RUNS="))
    assert Path(f"{tmp_path}{run}").is_dir()


def test_what_another_start_would_not_mend_is_not_tried_again() -> None:
    assert unit("RestartPreventExitStatus") == [
        " ".join(str(error.exit_code) for error in (ConfigError, DataError, CheckpointError))]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    (program, *_), path = shlex.split(unit("ExecStart")[0]), tmp_path / "pellucid.service"
    path.write_text(UNIT.replace(program, shutil.which("true") or "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", str(path)], capture_output=True, text=True, check=False)
    assert "pellucid.service" not in done.stderr
