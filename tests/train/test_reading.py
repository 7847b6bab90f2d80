"""A reader learns where answers stand, resumes to the bit, is scored, and cites what it answers."""

import io
import json
from pathlib import Path
from random import Random

import pytest
import torch

from pellucid.config import RunConfig
from pellucid.config.mapping import from_mapping
from pellucid.errors import ConfigError
from pellucid.evaluate.evaluate import evaluate_runs
from pellucid.runs.reading import read
from pellucid.runs.run import Run, load
from pellucid.train.journal import Reporter
from pellucid.train.train import train

PEOPLE, THINGS, PLACES = (words.split() for words in (
    "king queen doctor teacher baker", "hat key book apple coat", "kitchen garden school market station"))


def write(path: Path, count: int) -> str:
    random, paragraphs = Random(path.name), []
    for _ in range(count):
        context, asked = "", []
        for thing in random.sample(THINGS, 3):
            person, place = random.choice(PEOPLE), random.choice(PLACES)
            asked.append({"id": thing, "question": f"Who lost the {thing}?",
                          "answers": [{"text": person, "answer_start": len(context) + 4}]})
            context += f"The {person} lost the {thing} in the {place}.\n"
        paragraphs.append({"context": context, "qas": asked})
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    return str(path)


def config(folder: Path, **train_keys: object) -> RunConfig:
    data = {"train": write(folder / "train.json", 150), "test": write(folder / "test.json", 10)}
    return from_mapping({
        "task": "reading", "data": data,
        "tokenizer": {"kind": "word"},
        "model": {"d_model": 32, "n_heads": 2, "d_ff": 64, "encoder_layers": 2, "position": "rotary", "max_length": 24},
        "train": {"steps": 80, "batch_tokens": 1024, "learning_rate": 0.004, "warmup_steps": 20, "monitor": "f1",
                  "label_smoothing": 0.0, "validate_every": 40, "workers": 1, **train_keys},
        "decode": {"max_length": 10}})


def quiet() -> Reporter:
    return Reporter(io.StringIO())


def test_a_reader_learns_is_scored_and_cites(tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(config(tmp_path), out, quiet())
    report = evaluate_runs([out, out], "test", None, lambda text: None)
    found = report["runs"][0]
    assert (found["n"], found["sources"], found["signature"]) == (30, 10, "definition:squad")
    assert found["interval"]["f1"][0] <= found["f1"] <= found["interval"]["f1"][1]
    assert found["f1"] > 60
    assert {row["score"] for row in report["comparison"]} == {"em", "f1"}
    passages = ["", "x", "The king lost\nthe ﬁne key 👨‍👩‍👧 in the garden.", "范廷颂 " * 100, " \n\u3000"]
    answers = read(load(out), ["Who lost the key?", "", "谁", "?" * 1000], [passages] * 4)
    for one in answers:
        assert 0 <= one.score <= 1
        assert one.text == ("" if one.passage is None else passages[one.passage][one.start : one.end])
    assert read(load(out), ["who?"], [[]])[0].text == ""
    _priors_decide_between_passages(load(out))


def _priors_decide_between_passages(run: Run) -> None:
    """Of equal passages the one with the higher prior wins, and is the surer the less the other has."""
    question, passages = "who lost the key?", ["the king lost the key .", "the king lost the key ."]
    (alone,) = read(run, [question], [passages])
    assert alone.text
    for priors in ([0.0, -2.0], [-2.0, 0.0]):
        (one,) = read(run, [question], [passages], priors=[priors])
        assert (one.passage, one.text) == (priors.index(0.0), alone.text)
        assert one.score > alone.score
    assert read(run, [question], [passages], priors=[[0.0, 0.0]])[0] == alone
    (far,), (single,) = (read(run, [question], [texts], priors=[[0.0, -1000.0]]) for texts in (passages, passages[:1]))
    assert (far.text, far.passage, far.start, far.end) == (single.text, 0, single.start, single.end)


def test_going_on_gives_the_same_weights(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(config(tmp_path, steps=12, validate_every=6, schedule="constant"), whole, quiet())
    train(config(tmp_path, steps=6, validate_every=6, schedule="constant"), parts, quiet())
    train(config(tmp_path, steps=12, validate_every=6, schedule="constant"), parts, quiet(), extend=True)
    ours, theirs = (dict(load(folder).model.named_parameters()) for folder in (whole, parts))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("keys", [{"data.train": {"source": "a", "target": "b"}}, {"train.r_drop": 1.0},
                                  {"model.max_length": 8}, {"train.monitor": "bleu"}])
def test_what_makes_no_reader_is_refused(keys: dict[str, object]) -> None:
    (key, value), = keys.items()
    section, name = key.split(".")
    with pytest.raises(ConfigError):
        from_mapping({"task": "reading", section: {name: value}})
