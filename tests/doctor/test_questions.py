"""A reader's data: what of its held-out passages stands in training is found, at its place, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from pellucid.cli import main
from pellucid.config.mapping import from_mapping
from pellucid.data.splits import open_splits
from pellucid.doctor.finding import Finding
from pellucid.doctor.questions import RUN, examine_questions, nearest

DRAW = Random(1)
PASSAGES = ["".join(chr(DRAW.randrange(0x4E00, 0x9F00)) for _ in range(400)) + "。" for _ in range(60)]


def asked(passage: str, answer: str | None = None) -> dict[str, Any]:
    text = passage[3:9] if answer is None else answer
    return {"context": passage, "qas": [{"id": "a", "question": "何？", "answers": [{"text": text, "answer_start": 3}]},
                                        {"id": "b", "question": "誰？", "answers": []}]}


def findings(folder: Path, **splits: list[dict[str, Any]]) -> dict[str, Finding]:
    """By kind and split, of these paragraphs."""
    paths = {name: folder / f"{name}.json" for name in splits}
    for name, path in paths.items():
        path.write_text(json.dumps({"data": [{"paragraphs": splits[name]}]}))
    config = from_mapping({"task": "reading", "data": {name: str(path) for name, path in paths.items()},
                           "tokenizer": {"kind": "character"}})
    report = examine_questions(config, open_splits(config, folder), lambda: None, lambda line: None)
    return {f"{one.kind} {one.where}": one for one in report.findings}


def test_clean_questions_have_no_findings(tmp_path: Path) -> None:
    train, validation, test = (list(map(asked, PASSAGES[begin : begin + 20])) for begin in (0, 20, 40))
    assert findings(tmp_path, train=train, validation=validation, test=test) == {}


def test_a_split_without_a_question_is_told(tmp_path: Path) -> None:
    found = findings(tmp_path, train=[], test=[], validation=[asked(PASSAGES[44])])
    assert {name: one.severity for name, one in found.items()} == {"unreadable train": "broken",
                                                                   "unreadable test": "broken"}


def test_passages_that_stand_in_training(tmp_path: Path) -> None:
    train = list(map(asked, PASSAGES[:30]))
    same, near = f" {PASSAGES[4][:200]}\n{PASSAGES[4][200:]}!", PASSAGES[7][:300] + PASSAGES[50][:100]
    less = PASSAGES[9][:100] + PASSAGES[51][:300]
    test = list(map(asked, [PASSAGES[40], same, near, less]))
    found = findings(tmp_path, train=train, test=test, validation=[asked(PASSAGES[44])])
    assert found.keys() == {"leak_passage test in train", "leak_passage_near test in train"}
    whole, part = found.values()
    assert (whole.severity, whole.count, whole.total) == ("broken", 1, 4)
    assert whole.examples[0].place == f"{tmp_path}/test.json, record 3"
    assert (part.severity, part.count, part.total) == ("warning", 1, 4)
    (example,) = part.examples
    assert example.place == f"{tmp_path}/test.json, record 5"
    share, _, there = example.texts[0].partition(" % of it: ")
    assert 65 <= int(share) <= 85
    assert there == f"{tmp_path}/train.json, record 15"


def test_answers_that_stand_nowhere(tmp_path: Path) -> None:
    found = findings(tmp_path, train=[asked(PASSAGES[0]), asked(PASSAGES[1], "nowhere")], test=[asked(PASSAGES[2])],
                     validation=[asked(PASSAGES[44])])
    (one,) = found.values()
    assert (one.kind, one.where, one.count, one.total) == ("answer_nowhere", "train", 1, 4)
    assert one.examples[0].texts == ("何？ → nowhere",)


def test_the_nearest_is_the_one_that_has_most() -> None:
    text = PASSAGES[0]
    assert nearest([text], PASSAGES) == [(1.0, 0)]
    (share, number), = nearest([text], [PASSAGES[1], text[:100], text[100:] + PASSAGES[2]])
    assert number == 2
    assert abs(share - 0.75) < 0.1
    assert nearest([text, "x" * (RUN - 1)], []) == [(0.0, 0), (0.0, 0)]


def test_doctor_reads_a_recipe_of_the_task_reading(capsys: Any, tmp_path: Path) -> None:
    words = ["doctor", "answers-demo", "--out", str(tmp_path / "run"), "--json", "--data.generated.train", "60",
             "--data.generated.validation", "30", "--data.generated.test", "30"]
    assert main(words) == 0
    report = json.loads(capsys.readouterr().out)
    records = {"train": {"records": 60}, "validation": {"records": 30}, "test": {"records": 30}}
    assert report["data"] == records | {"vocabulary": report["data"]["vocabulary"]}
    assert 50 < report["data"]["vocabulary"] < 150
    assert report["environment"]["parameters"] < 500_000
