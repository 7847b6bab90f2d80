"""A reader learns where answers stand, resumes to the bit, is scored, and cites what it answers."""

import io
import json
import shutil
from pathlib import Path
from random import Random

import pytest
import torch

from pellucid.config import RunConfig
from pellucid.config.mapping import from_mapping
from pellucid.data.reading import Question, Reference, UnitReader, example, span_of
from pellucid.errors import ConfigError
from pellucid.evaluate.evaluate import evaluate_runs
from pellucid.model.reader import Reader
from pellucid.model.stepper import evaluating
from pellucid.nn.span import span_cross_entropy
from pellucid.runs.reading import judge, read
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
    shutil.copytree(out, tmp_path / "again")
    report = evaluate_runs([out, tmp_path / "again"], "test", None, lambda text: None)
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


def test_one_reading_gives_the_answers_and_the_loss(tmp_path: Path) -> None:
    """Those of `read`, and of the rows that are learned from: of passages that fill several windows too, where nothing
    is the answer, and where what is right lies in no window."""
    out = tmp_path / "run"
    train(config(tmp_path, steps=20, validate_every=20), out, quiet())
    run, random = load(out), Random(3)
    assert isinstance(run.model, Reader)
    passages = [" ".join(random.choices(PEOPLE + THINGS, k=words)) for words in (3, 15, 40, 90) for _ in range(5)]
    asked = []
    for number, passage in enumerate(passages):
        word = random.choice(passage.split())
        answers = {0: (), 1: (Reference("x", -1),)}.get(number % 5, (Reference(word, passage.index(word)),))
        asked.append(Question(str(number), f"who lost the {word}?", answers))
    judged = judge(run.model, run.tokenizers, run.config, asked, passages, "fp32")
    assert judged.found == read(run, [one.text for one in asked], [[passage] for passage in passages])
    units, losses = UnitReader(run.tokenizers), []
    for one, passage in zip(asked, passages, strict=True):
        row, span = example(units.read(passage), units.read(one.text), one, run.config.model.max_length)
        if span is not None:
            first, last = (torch.tensor([place]) for place in span_of(span))
            with torch.no_grad(), evaluating(run.model):
                losses.append(span_cross_entropy(run.model(torch.tensor([row.ids])), first, last, 0.0).item())
    assert (judged.learned, judged.loss) == (16, pytest.approx(sum(losses), rel=1e-5))
    assert judge(run.model, run.tokenizers, run.config, [], [], "fp32") == ([], 0, 0), "a rank without a question"


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
