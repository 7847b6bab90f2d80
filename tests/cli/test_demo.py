"""`pellucid demo answers`: the whole chain at toy scale, run again, and as JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pellucid.cli import demo_answers
from pellucid.data.squad import read_squad

TOY = ["--train.steps", 2, "--train.validate_every", 2, "--data.generated.train", 80, "--data.generated.validation", 20,
       "--data.generated.test", 90, "--model.d_model", 16, "--model.n_heads", 2, "--model.d_ff", 16,
       "--model.encoder_layers", 1]


def test_documents_answers_scores_and_what_comes_next(cli: Any, tmp_path: Path) -> None:
    done = cli("demo", "answers", "--out", tmp_path / "run", *TOY)
    assert done.code == 0, done.err
    documents = sorted((tmp_path / "run/documents").iterdir())
    unseen = {text for _, text, _ in read_squad(str(tmp_path / "run/data/test.json"))}
    assert len(documents) == 20
    assert all(path.read_text().rstrip("\n") in unseen for path in documents)
    for answer, name, start, end in re.findall(r"→ (.+)  (\d\d\.txt)\[(\d+):(\d+)\]", done.out):
        assert (tmp_path / "run/documents" / name).read_text()[int(start) : int(end)] == answer
    assert f"pellucid answer {tmp_path}/run --index {tmp_path}/run/index" in done.out
    question = done.out.splitlines()[-5].rpartition(" --index ")[2].split('"')[1]
    assert cli("answer", tmp_path / "run", "--index", tmp_path / "run/index", question).code == 0
    again = cli("demo", "answers", "--out", tmp_path / "run", "--json", *TOY)
    assert "all 2 updates were made" in again.err
    told = json.loads(again.out.splitlines()[-1])
    assert told["test"]["n"] == 90
    assert told["search"]["documents"] == 20
    assert 0 <= told["search"]["right"] <= told["search"]["asked"] >= told["search"]["found"] > 0


def test_a_demo_of_any_test_set_ends(cli: Any, tmp_path: Path) -> None:
    """Of one question, which may have no answer; of sentences that are all shorter or longer than those shown."""
    for words in (["demo", "answers"], ["demo"]):
        out, more = tmp_path / str(len(words)), [] if len(words) > 1 else ["--model.decoder_layers", 1]
        done = cli(*words, "--out", out, *TOY, *more, "--data.generated.test", 1)
        assert done.code == 0, done.err
        assert "all of it" in done.out


def test_documents_whose_questions_have_no_answer_end_it_too(cli: Any, tmp_path: Path,
                                                             monkeypatch: pytest.MonkeyPatch) -> None:
    real = demo_answers._documents
    monkeypatch.setattr(demo_answers, "_documents", lambda run: (real(run)[0], []))
    assert "all of it" in cli("demo", "answers", "--out", tmp_path / "run", *TOY).out
