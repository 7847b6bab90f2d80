"""Attention that is told is what is recorded, and a head that is switched off is off while it lasts."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

import pytest
import torch
from tests.promises.tiny import SUBWORDS, tiny_classifier, tiny_reader, tiny_run

from pellucid.data.tokenizers.interface import EOS
from pellucid.errors import ConfigError, UserError
from pellucid.inspection.answers import Attention
from pellucid.inspection.live import attention
from pellucid.inspection.record import attentions, record_attention
from pellucid.model.build import ATTENTIONS, POSITIONS
from pellucid.runs.run import Run

CROSS = "decoder.layers.0.cross_attention"
PARTS: list[dict[str, Any]] = [{"position": name} for name in POSITIONS] + [
    {"attention": name, "window": 2, "position": "none"} for name in ATTENTIONS if name != "full"]


@pytest.fixture(scope="module")
def run() -> Run:
    return tiny_run(1, {}, {}, SUBWORDS)


@pytest.mark.parametrize("parts", PARTS, ids=lambda parts: "-".join(map(str, parts.values())))
def test_what_is_told_is_what_is_recorded(parts: dict[str, Any]) -> None:
    run = tiny_run(2, parts, {}, {"kind": "word"})
    told = attention(run, "the cat sleeps .", "le chat dort .")
    tokenizer = run.tokenizers.source
    source = torch.tensor([[*tokenizer.encode("the cat sleeps ."), EOS]])
    target = torch.tensor([[2, *run.tokenizers.target.encode("le chat dort .")]])
    with record_attention(run.model) as weights, torch.no_grad():
        logits = run.model(source, target)
    assert [each.name for each in told.attentions] == list(attentions(run.model))
    for each in told.attentions:
        assert each.weights == weights[each.name][0].double().numpy().round(6).tolist()
        sides = {"source": told.source_tokens, "written": told.written, "read": told.read}
        assert len(each.weights[0]) == len(sides[each.rows])
        assert len(each.weights[0][0]) == len(sides[each.columns])
    terms = logits.log_softmax(-1)[0].gather(1, torch.tensor([*target[0, 1:].tolist(), EOS])[:, None])
    assert told.log_probability == pytest.approx(float(terms.sum()), abs=1e-4)
    assert told.log_probability == pytest.approx(run.score(["the cat sleeps ."], ["le chat dort ."])[0].log_probability)
    assert (told.written, told.read) == (("le", "chat", "dort", ".", "‹end›"), ("‹start›", "le", "chat", "dort", "."))


def test_a_model_in_training_mode_attends_without_dropout() -> None:
    run = tiny_run(1, {"dropout": 0.5}, {}, SUBWORDS)
    expected = attention(run, "the cat sleeps .", "le chat dort .")
    run.model.train()
    assert attention(run, "the cat sleeps .", "le chat dort .") == expected
    assert run.model.training


def test_the_model_writes_by_itself_where_nothing_is_given(run: Run) -> None:
    told, found = attention(run, "the cat"), run.generate(["the cat"])[0]
    assert told.output == found.text
    assert told.log_probability == pytest.approx(found.hypotheses[0].log_probability, abs=1e-4)
    assert (told.without, told.output_without, told.log_probability_without) == ((), None, None)
    json.dumps(asdict(told), allow_nan=False)


def test_a_head_that_is_off_changes_what_it_changes_and_is_on_again(run: Run) -> None:
    before = attention(run, "the cat sleeps .")
    heads = [(CROSS, 0), (CROSS, 1), ("encoder.layers.1.self_attention", 1)]
    told = attention(run, "the cat sleeps .", None, heads)
    assert told.attentions == before.attentions
    assert (told.output, told.log_probability) == (before.output, before.log_probability)
    assert [(one.attention, one.head) for one in told.without] == heads
    assert told.log_probability_without is not None
    assert told.log_probability_without != before.log_probability
    assert attention(run, "the cat sleeps .") == before  # all hooks are gone
    # The same by hand: a head is its columns of the output projection.
    by_hand = tiny_run(1, {}, {}, SUBWORDS)
    with torch.no_grad():
        for name, head in heads:
            attentions(by_hand.model)[name].output.weight[:, 8 * head : 8 * head + 8] = 0
    changed: Attention = attention(by_hand, "the cat sleeps .", told.output)
    assert told.log_probability_without == pytest.approx(changed.log_probability, abs=1e-5)
    assert told.output_without == attention(by_hand, "the cat sleeps .").output


def test_a_classifier_tells_its_probabilities() -> None:
    run = tiny_classifier(4, {})
    told = attention(run, "the cat", None, [("encoder.layers.0.self_attention", 1)])
    found = run.classify(["the cat"])[0]
    assert (told.label, told.output) == (found.label, found.label)
    assert told.probabilities == pytest.approx(found.probabilities, abs=1e-6)
    assert (told.read, told.written, told.source_tokens) == ((), (), ("‹start›", "the", "cat"))
    assert told.log_probability == pytest.approx(math.log(found.probabilities[found.label]), abs=1e-5)
    assert told.probabilities_without is not None
    assert sum(told.probabilities_without.values()) == pytest.approx(1)
    assert told.probabilities_without != told.probabilities
    assert told.output_without == max(told.probabilities_without, key=told.probabilities_without.__getitem__)
    other = attention(run, "the cat", "y")
    assert (other.output, other.label) == ("y", found.label)
    assert other.log_probability == pytest.approx(math.log(found.probabilities["y"]), abs=1e-5)
    with pytest.raises(UserError, match="no label 'w'"):
        attention(run, "the cat", "w")


@pytest.mark.parametrize(("without", "words"), [([("decoder", 0)], "no attention 'decoder'"), ([(CROSS, 2)], "head 2"),
                                                ([(CROSS, -1)], "head -1")])
def test_a_head_that_there_is_not_is_named(without: list[tuple[str, int]], words: str, run: Run) -> None:
    with pytest.raises(UserError, match=words):
        attention(run, "the cat", None, without)


def test_texts_that_cannot_be_looked_at(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="the text is empty"):
        attention(run, "")
    with pytest.raises(ConfigError, match="does not know readers"):
        attention(tiny_reader(1, {"kind": "word"}), "the cat")
    assert attention(run, "the cat", "").written == ("‹end›",)
    with pytest.raises(UserError, match="there is no token 75"):
        attention(run, "the cat", [4, 75])
    with pytest.raises(UserError, match="the output has no tokens"):
        attention(run, "the cat", ())
    assert "‹unknown: ☃›" in attention(run, "a ☃", "b ☃").source_tokens
    learned = tiny_run(1, {"position": "learned"}, {}, {"kind": "word"})
    with pytest.raises(UserError, match="the output has 51 tokens"):
        attention(learned, "the cat", "cat " * 50)
    monkeypatch.setattr("pellucid.inspection.live.MOST_WEIGHTS", 100)
    with pytest.raises(UserError, match="too many to look at every head"):
        attention(run, "the cat sleeps .")
