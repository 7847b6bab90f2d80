"""Readers with an index: what closed and open scores have in common, floors by hand, and what recall is."""

import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pellucid.cli import main
from pellucid.config.mapping import from_mapping
from pellucid.data.reading import Question, Reference, question_of
from pellucid.evaluate.answering import GRADED, Asked, Given, Opened, best_sentence, right_sentence, score_reader
from pellucid.evaluate.evaluate import pairs_of
from pellucid.evaluate.significance import corpus_score, interval_of, resampled_scores
from pellucid.retrieve.documents import read_documents
from pellucid.retrieve.passages import Passage
from pellucid.retrieve.retriever import Found
from pellucid.runs.answers import answers, passages_for
from pellucid.runs.reading import read
from pellucid.runs.run import load
from pellucid.train.journal import Reporter
from pellucid.train.train import train

TEXT = "The king lost a key. The nurse sold a hat!\nHe ate the cake"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reader that has learned little, and an index of its test's passages."""
    folder = tmp_path_factory.mktemp("open")
    config = from_mapping({
        "task": "reading",
        "data": {"generated": {"task": "documents", "train": 60, "validation": 10, "test": 24}},
        "tokenizer": {"kind": "word", "lowercase": True},
        "model": {"d_model": 16, "n_heads": 2, "d_ff": 16, "encoder_layers": 1, "max_length": 64},
        "train": {"steps": 3, "batch_tokens": 2048, "validate_every": 3, "workers": 1}, "decode": {"max_length": 9}})
    train(config, folder / "run", Reporter(io.StringIO()))
    assert main(["index", str(folder / "run" / "data" / "test.json"), "--out", str(folder / "idx")]) == 0
    return folder


class Own:
    """An index that finds for each question, in the order in which they are asked, its own passage first."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = iter(texts)

    def search(self, question: str, k: int = 5) -> list[Found]:
        text = next(self.texts)
        return [Found(Passage("own", "", 0, len(text), text), 1.0), Found(Passage("other", "", 0, 4, "Ha. "), 0.5)]


def evaluated(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    assert main(["evaluate", *map(str, words), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_an_index_that_finds_each_passage_first_gives_the_closed_scores(made: Path) -> None:
    run = load(made / "run")
    pairs = pairs_of(run, "test", None)
    _, report, _ = score_reader(run, pairs, Opened("own", Own([text for text, _ in pairs]), 1), lambda text: None)
    for name in (*GRADED, *(f"floor_{name}" for name in GRADED)):
        assert report[f"open_{name}"] == report[name]
        assert report["interval"][f"open_{name}"] == report["interval"][name]
    assert [report[f"recall_at_{k}"] for k in (1, 5, 20)] == [100, 100, 100]
    assert report["answered"] == report["open_answered"]
    assert all(row["difference"] == 0 and row["p"] == 1 for row in report["beside"] if row["b"] == "closed")


def test_open_scores_are_of_what_answer_answers(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, opened = load(made / "run"), Opened.at(str(made / "idx"), 3)
    pairs = pairs_of(run, "test", None)
    asked = [question_of(line) for _, line in pairs]
    given = answers(run, opened.index, [one.text for one in asked], 3)
    (found,) = evaluated(capsys, made / "run", "--index", made / "idx", "--k", 3)["runs"]
    graded = Asked(asked, [a for a, _ in pairs], "squad").grade([Given(one.found.text, None) for one in given], "")
    assert (found["open_em"], found["open_f1"]) == (corpus_score(graded["em"]), corpus_score(graded["f1"]))
    assert found["open_answered"] == sum(one.place is not None for one in given)
    names = {one.text: one.id for one in read_documents([str(made / "run" / "data" / "test.json")])}
    lie = [(text, one) for (text, _), one in zip(pairs, asked, strict=True) if one.answers]
    for k in (1, 5, 20):
        hits = [names[text] in [each.passage.document for each in opened.index.search(one.text, 20)[:k]]
                for text, one in lie]
        assert found[f"recall_at_{k}"] == pytest.approx(100 * sum(hits) / len(hits))
    assert found["interval"].keys() <= found.keys()
    assert main(["evaluate", str(made / "run"), "--index", str(made / "idx")]) == 0
    told = capsys.readouterr().out
    assert all(f"{found[name]:.2f}" in told for name in ("em", "f1", "recall_at_1", "floor_f1"))
    assert max(len(line) for line in told.splitlines()[1:] if str(made) not in line) < 81


def test_what_bm25_says_counts_as_much_as_the_reader(made: Path) -> None:
    run, index = load(made / "run"), Opened.at(str(made / "idx"), 3).index
    asked = [question_of(line).text for _, line in pairs_of(run, "test", None)]
    found = passages_for(index, asked, 3)
    given = read(run, asked, [[one.passage.text for one in of_one] for of_one in found],
                 priors=[[one.score - max(each.score for each in of_one) for one in of_one] for of_one in found])
    assert [one.found for one in answers(run, index, asked, 3)] == given


def test_runs_are_compared_with_an_index_and_without(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, index, again = made / "run", made / "idx", made / "again"
    shutil.copytree(run, again)
    assert {row["score"] for row in evaluated(capsys, run, again)["comparison"]} == {"em", "f1"}
    rows = evaluated(capsys, run, again, "--index", index, "--score", "open_f1")["comparison"]
    assert [row["score"] for row in rows] == ["open_f1", "em", "f1", "open_em"]
    assert all(row["difference"] == 0 for row in rows)
    assert main(["evaluate", str(run), str(again), "--score", "open_f1"]) == 2  # without an index there is none


def test_recall_is_unknown_where_the_documents_are_others(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = made / "other.txt"
    other.write_text("The king and the queen and the doctor lost the key in the kitchen. What did the nurse do?")
    assert main(["index", str(other), "--out", str(made / "others")]) == 0
    capsys.readouterr()
    (found,) = evaluated(capsys, made / "run", "--index", made / "others")["runs"]
    assert found["recall_at_5"] is found["open_sentence_right"] is None
    assert "pellucid index" in found["note"]
    assert found["interval"].keys() >= {"open_f1", "floor_sentence_right"}
    assert "recall_at_5" not in found["interval"]
    assert main(["evaluate", str(made / "run"), "--index", str(made / "others")]) == 0
    assert "unknown" in capsys.readouterr().out


def test_what_cannot_be_opened_is_refused(made: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run, index = str(made / "run"), made / "idx"
    assert main(["evaluate", run, "--index", str(made / "none")]) == 2
    assert main(["evaluate", run, "--index", str(index), "--k", "0"]) == 2
    assert main(["index", str(made / "run" / "data" / "test.json"), "--out", str(tmp_path / "cut")]) == 0
    (tmp_path / "cut" / "texts.bin").write_bytes(b"x")
    assert main(["evaluate", run, "--index", str(tmp_path / "cut")]) == 3
    assert "damaged" in capsys.readouterr().err


def test_a_right_sentence_is_the_one_of_an_answer_that_is_right() -> None:
    asked = Question("1", "?", (Reference("hat", TEXT.index("hat")), Reference("nowhere", -1)))
    places = [right_sentence(Given(word, TEXT.index(word)), asked, TEXT) for word in ("key", "nurse", "hat", "He")]
    assert places == [False, True, True, False]
    assert not right_sentence(Given("hat", None), asked, TEXT)


def test_the_floor_is_the_sentence_that_shares_most_terms() -> None:
    assert best_sentence("who sold the hat?", TEXT) == Given("The nurse sold a hat!", 21)
    assert best_sentence("cake cake, the", TEXT) == Given("He ate the cake", 43)
    assert best_sentence("the cake", "The the the the. He ate the cake.") == Given("He ate the cake.", 17)
    assert best_sentence("zebra", TEXT) == Given("The king lost a key.", 0)  # the first of equals
    assert best_sentence("谁建桥？", "河水很清。桥是他建的。") == Given("桥是他建的。", 5)
    assert best_sentence("who?", " ") == Given("", 0)
    assert best_sentence("who?", "") == Given("", None)


def drawn(seed: int) -> Iterator[tuple[Given, Question, str]]:
    """Four questions on each of 300 passages, which the reader finds easy or hard."""
    random = np.random.default_rng(seed)
    for passage in range(300):
        chance = random.beta(1, 1)
        for _ in range(4):
            right = random.random() < chance
            yield Given("key" if right else "none", 0), Question("", "", (Reference("key", 0),)), str(passage)


def test_intervals_are_those_of_a_bootstrap_over_passages() -> None:
    given, questions, passages = map(list, zip(*drawn(1), strict=True))
    together = Asked(questions, passages, "squad").grade(given, "")
    apart = Asked(questions, [str(i) for i in range(len(passages))], "squad").grade(given, "")
    for name in ("em", "f1"):
        low, high = interval_of(together[name])
        bounds = np.percentile(resampled_scores(together[name], 2000), [2.5, 97.5])
        assert np.abs(bounds - (low, high)).max() < 0.5
        assert high - low > 1.2 * np.subtract(*interval_of(apart[name])[::-1])  # questions of a passage are alike
