"""POST /answer is what `pellucid answer --json` says of the same, by a server of this process and by one of its own."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.promises.load import Client, post
from tests.promises.serving import serving as serving_folder
from tests.promises.tiny import SUBWORDS, tiny_run
from tests.serve.asgi import Server, serving
from tests.serve.test_openapi import DOCUMENT, wrong

from pellucid.cli import main
from pellucid.config.mapping import from_mapping
from pellucid.errors import CheckpointError, ConfigError
from pellucid.retrieve.index import open_index
from pellucid.runs.run import load
from pellucid.serve.catalogue import open_catalogue
from pellucid.serve.limits import Limits
from pellucid.train.journal import Reporter
from pellucid.train.train import train

QUESTIONS = ["who lost the key?", "范廷颂何时出生？", "zzz", "k" * 200]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reader that has learned little, and an index of two documents."""
    folder = tmp_path_factory.mktemp("answers")
    (folder / "texts").mkdir()
    (folder / "texts" / "a.txt").write_text("The king lost the key in the garden. The nurse ate the cake.")
    (folder / "texts" / "中.txt").write_text("范廷颂于1919年６月１５日出生。")
    config = from_mapping({
        "task": "reading", "data": {"generated": {"task": "documents", "train": 40, "validation": 6, "test": 6}},
        "tokenizer": {"kind": "character"},
        "model": {"d_model": 16, "n_heads": 2, "d_ff": 16, "encoder_layers": 1, "max_length": 48},
        "train": {"steps": 2, "batch_tokens": 2048, "validate_every": 2, "workers": 1}, "decode": {"max_length": 9}})
    train(config, folder / "run", Reporter(io.StringIO()))
    assert main(["index", str(folder / "texts"), "--out", str(folder / "idx")]) == 0
    return folder


@pytest.fixture(scope="module")
def server(made: Path) -> Iterator[Server]:
    runs = {"reader": load(made / "run"), "translator": tiny_run(1, {}, {}, SUBWORDS)}
    limits = Limits(requests_per_minute=0, characters=200, texts=8)
    with serving(runs, [("", ""), ("en", "fr")], limits, index=open_index(str(made / "idx"))) as server:
        yield server


def told(made: Path, question: str, k: int, capsys: pytest.CaptureFixture[str]) -> Any:
    capsys.readouterr()
    assert main(["answer", str(made / "run"), "--index", str(made / "idx"), question, "--k", str(k), "--json"]) == 0
    return {"cut": 0} | json.loads(capsys.readouterr().out)


def same(one: Any, other: Any) -> bool:
    """But for the last digits of a score, which depend on the number of threads."""
    return bool(one | {"score": 0} == other | {"score": 0} and one["score"] == pytest.approx(other["score"], rel=1e-3))


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_is_that_of_the_command_line(question: str, made: Path, server: Server,
                                               capsys: pytest.CaptureFixture[str]) -> None:
    answer = server.post("/answer", {"question": question, "k": 2})
    assert answer.status == 200, answer.body
    assert same(answer.json, told(made, question, 2, capsys))
    assert answer.json["cut"] == max(0, len(question) - 23)  # of single characters, beside a passage in 48
    content = DOCUMENT["paths"]["/answer"]["post"]["responses"]["200"]["content"]["application/json"]
    assert wrong(answer.json, content["schema"]) == []


@pytest.mark.parametrize("asked", [
    {}, {"question": " "}, {"question": "k" * 201}, {"question": "who?", "k": 0}, {"question": "who?", "k": 9},
    {"question": "who?", "k": "2"}, {"question": ["who?"]}, {"question": "who?", "run": "translator"},
    {"question": "who?", "run": "other"}, {"questions": "who?"}])
def test_what_is_not_asked_rightly_is_refused(asked: dict[str, Any], server: Server) -> None:
    answer = server.post("/answer", asked)
    assert answer.status == 400
    assert answer.json["error"]


@pytest.mark.parametrize(("path", "key"), [
    ("/v1/translate", "text"), ("/v1/classify", "text"), ("/v1/trace", "text"), ("/v1/attention", "text"),
    ("/v1/contributions", "text")])
def test_a_reader_is_asked_nothing_else(path: str, key: str, server: Server) -> None:
    answer = server.post(path, {"run": "reader", key: "the cat"})
    assert (answer.status, "/answer" in answer.json["error"]) == (400, True)
    assert server.post("/translate", {"q": "the cat", "source": "en", "target": "fr"}).status == 200  # by the other run


def test_without_an_index_there_is_no_answer(server: Server) -> None:
    with serving({"run": server.service.named("translator").run}) as other:
        assert other.post("/answer", {"question": "who?"}).status == 400


def test_a_server_of_its_own_answers_the_same(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving_folder(made / "run", "--index", str(made / "idx")) as process:
        answer = asyncio.run(Client(process.port).ask(post("/answer", {"question": QUESTIONS[0], "k": 3})))
    assert answer.status == 200
    assert same(answer.json(), told(made, QUESTIONS[0], 3, capsys))


def test_a_reader_needs_an_index_and_an_index_a_reader(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, kept = str(made / "run"), str(Path(__file__).parents[1] / "runs" / "kept" / "0.1.0" / "run")
    assert main(["serve", run]) == 2
    assert "--index" in capsys.readouterr().err
    assert main(["serve", run, "--index", str(made / "none")]) == 2
    assert main(["serve", kept, "--index", str(made / "idx")]) == 2


def test_an_index_that_does_not_answer_is_no_mistake_of_who_asks(made: Path) -> None:
    index = open_index(str(made / "idx"))

    class Gone:
        def search(self, question: str, k: int = 5) -> Any:
            raise ConfigError("the server does not answer")

    with serving({"reader": load(made / "run")}, [("", "")], Limits(requests_per_minute=0), index=Gone()) as server:
        answer = server.post("/answer", {"question": "who?"})
        assert (answer.status, "does not answer" in answer.json["error"]) == (503, True)
        assert server.post("/answer", {"question": " "}).status == 400
    with serving({"reader": load(made / "run")}, [("", "")], Limits(requests_per_minute=0), index=index) as server:
        assert server.post("/answer", {"question": "who?"}).status == 200


def test_what_is_served_answers_though_its_checkpoint_is_gone(made: Path, tmp_path: Path) -> None:
    """As training removes it once there is a better one."""
    shutil.copytree(made / "run", tmp_path / "run")
    served = open_catalogue([tmp_path / "run"], index=str(made / "idx")).served[0]
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    with serving({"reader": served.run}, [("", "")], index=open_index(str(made / "idx"))) as server:
        assert server.post("/answer", {"question": "who?"}).status == 200
    with pytest.raises(CheckpointError):
        load(tmp_path / "run")
