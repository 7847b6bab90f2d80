"""Answers from an index: each is the substring of the document that it cites, whatever the documents hold."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pellucid.cli import main
from pellucid.config.mapping import from_mapping
from pellucid.model.reader import Reader
from pellucid.retrieve.index import open_index
from pellucid.runs.answers import answers, answers_in, passages_for
from pellucid.runs.reading import read
from pellucid.runs.run import load
from pellucid.runs.texts import CutWarning
from pellucid.train.journal import Reporter
from pellucid.train.train import train

DOCUMENTS = {"b.md": "Cafe\u0301 key, key, key.",
             "a.txt": "The king lost the key in the garden.\r\nThe nurse ate the ﬁne cake at the hotel 👨‍👩‍👧.",
             "中.txt": "范廷颂于1919年６月１５日出生。\n他在河内大修道院完成学业。ＡＢＣ公司。"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with documents, their index, and a reader that has learned little."""
    folder = tmp_path_factory.mktemp("answers")
    (folder / "documents").mkdir()
    for name, text in DOCUMENTS.items():
        (folder / "documents" / name).write_bytes(text.encode())
    config = from_mapping({
        "task": "reading",
        "data": {"generated": {"task": "documents", "train": 60, "validation": 10, "test": 10}},
        "tokenizer": {"kind": "character"},
        "model": {"d_model": 16, "n_heads": 2, "d_ff": 16, "encoder_layers": 1, "max_length": 48},
        "train": {"steps": 3, "batch_tokens": 2048, "validate_every": 3, "workers": 1}, "decode": {"max_length": 9}})
    train(config, folder / "run", Reporter(io.StringIO()))
    assert main(["index", str(folder / "documents"), "--out", str(folder / "idx")]) == 0
    return folder


def test_every_answer_is_the_substring_that_it_cites(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cited = 0
    for question in ("who lost the key?", "范廷颂何时出生？", "ABC", "👨‍👩‍👧", "zzz"):
        assert main(["answer", str(made / "run"), "--index", str(made / "idx"), question, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert list(told) == ["question", "answer", "score", "document", "start", "end", "passages"]
        assert told["question"] == question
        if told["document"] is None:
            assert told["answer"] == ""
        else:
            text = (made / "documents" / told["document"]).read_bytes().decode()
            assert text[told["start"] : told["end"]] == told["answer"] != ""
            cited += 1
        for passage in told["passages"]:
            text = (made / "documents" / passage["document"]).read_bytes().decode()
            assert text[passage["start"] : passage["end"]] == passage["text"]
    assert cited


def test_what_is_no_better_than_no_answer_is_none(made: Path) -> None:
    """All scores are 0: the six places of the passage and that of no answer are equally probable, as start and end."""
    run = load(made / "run")
    assert isinstance(run.model, Reader)
    for parameter in run.model.head.parameters():
        torch.nn.init.zeros_(parameter)
    (found,) = read(run, ["who?"], [["thekey"]])
    assert (found.text, found.passage) == ("", None)
    assert found.score == pytest.approx(1 / 7**2)


def test_copies_of_a_passage_change_no_score(made: Path) -> None:
    run, index = load(made / "run"), open_index(str(made / "idx"))
    question = "who lost the key?"
    passages = passages_for(index, [question], 3)[0]
    assert len(passages) > 1
    cited = set[int | None]()
    for ordered in (passages, passages[::-1]):
        (alone,) = answers_in(run, [question], [ordered])
        copied = tuple(one for one in ordered for _ in range(3))
        (among,) = answers_in(run, [question], [copied])
        assert (among.found.text, among.found.score) == (alone.found.text, pytest.approx(alone.found.score))
        assert among.place == alone.place
        assert among.passages == copied
        cited.add(among.found.passage)
    assert cited - {None, 0}, "the first is cited in one order alone"


def test_of_several_questions_that_which_cannot_be_asked_is_named(made: Path, monkeypatch: pytest.MonkeyPatch,
                                                                  capsys: pytest.CaptureFixture[str]) -> None:
    """And those before it are answered, as they are without it; an empty one with nothing."""
    told = []
    for content in ("who?\n\nABC\n", f"who?\n\nABC\n{' ' * 10_001}\n{'k' * 10_001}\nwho?\n"):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
        code = main(["answer", str(made / "run"), "--index", str(made / "idx")])
        told.append((code, *capsys.readouterr()))
    (_, before, _), (code, out, error) = told
    assert (code, out) == (2, before + "\n")
    assert before.splitlines()[1] == ""
    assert "standard input:5" in error


def test_a_question_that_is_cut_is_told_with_its_number(made: Path, monkeypatch: pytest.MonkeyPatch,
                                                        capsys: pytest.CaptureFixture[str]) -> None:
    """Of a row of 48 ids a question has 23 at most, of which a character is one."""
    long, short = "who lost the key in the garden?", "who lost the key there?"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{short}\n{long}\n".encode())))
    assert main(["answer", str(made / "run"), "--index", str(made / "idx")]) == 0
    told = capsys.readouterr().err
    assert "the 23 tokens that the model takes (half of model.max_length): question 2 loses 8 of its 31 tokens" in told
    assert "question 1" not in told
    with pytest.warns(CutWarning, match="question 6 loses 8"):
        found = answers(load(made / "run"), open_index(str(made / "idx")), [short, long], 1, first=4)
    assert [one.to_mapping().get("cut") for one in found] == [None, 8]


def test_what_a_passage_fits_less_than_the_best_is_taken_from_its_scores(made: Path) -> None:
    run, question = load(made / "run"), "who lost the key?"
    best, other = passages_for(open_index(str(made / "idx")), [question], 3)[0][:2]
    texts, scores = [[best.passage.text, other.passage.text]], set[float]()
    for less in (0.0, 0.5, 4.0):
        found = answers_in(run, [question], [(replace(best, score=7.0), replace(other, score=7.0 - less))])[0].found
        assert found == read(run, [question], texts, priors=[[0.0, -less]])[0]
        scores.add(found.score)
    assert len(scores) == 3


def test_one_question_or_passage_is_no_list_of_them(made: Path) -> None:
    run, index = load(made / "run"), open_index(str(made / "idx"))
    with pytest.raises(TypeError, match="a list of texts is wanted"):
        answers(run, index, "who?", 3)
    with pytest.raises(TypeError, match="a list of texts is wanted"):
        read(run, ["who?"], ["The nurse ate the cake."])


def test_what_cannot_be_answered_is_refused(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, index = str(made / "run"), str(made / "idx")
    assert main(["answer", run, "--index", str(made / "none"), "who?"]) != 0
    assert main(["answer", run, "--index", index, "who?", "--k", "0"]) == 2
    assert main(["answer", run, "--index", index, " "]) == 2
    assert main(["generate", run, "--input", str(made / "documents" / "a.txt")]) == 2
    assert main(["inspect", run, "--out", str(made / "page")]) == 2
    assert main(["export", run, "--to", "ctranslate2", "--out", str(made / "out")]) == 2
    assert "Traceback" not in capsys.readouterr().err
