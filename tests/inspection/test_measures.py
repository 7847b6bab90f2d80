"""Measures of heads and parts: cases computed by hand, and what must hold of any model."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from tests.promises.tiny import SUBWORDS, TEXT, tiny_run

from pellucid.config.mapping import from_mapping
from pellucid.data.span_corruption import corrupt_rows
from pellucid.data.tokenizers.build import train_tokenizers
from pellucid.data.tokenizers.interface import FIRST_SENTINEL
from pellucid.inspection import sections
from pellucid.inspection.examples import Sample, as_validated, attend, encode, look_at, visible
from pellucid.inspection.inspect import _examples
from pellucid.inspection.measures import (
    HeadMeasures,
    distance,
    entropy,
    entropy_and_distance,
    importance,
    losses,
    parameters_by_part,
)
from pellucid.inspection.position_figures import near
from pellucid.inspection.positions import (
    Trained,
    bias_matrix,
    by_distance,
    encoding_matrix,
    rotation_cosines,
    seen,
    trained_lengths,
)
from pellucid.inspection.record import attentions, spoken, without_head
from pellucid.inspection.shapes import shapes
from pellucid.model.build import build, build_classifier
from pellucid.nn.positional_encoding import alibi_slopes
from pellucid.runs.run import Run

SMALL: dict[str, Any] = {"d_model": 12, "n_heads": 3, "d_ff": 8, "encoder_layers": 2, "decoder_layers": 2,
                         "dropout": 0.1, "max_length": 20}
PAIRS = [("the cat sleeps", "le chat dort"), ("a cat", "un chat"), ("the dog eats a cat", "le chien mange un chat")]


def make_run(folder: Path, classify: bool = False, **parts: Any) -> Run:
    config = from_mapping({"task": "classification" if classify else "seq2seq", "tokenizer": {"kind": "word"},
                           "model": {**SMALL, **parts}, "decode": {"max_length": 6, "beam_size": 2}})
    pairs = [("a b", "x"), ("c d", "y")] if classify else PAIRS
    tokenizers = train_tokenizers(config.tokenizer, pairs, config.task)
    size = tokenizers.source.size
    model = build_classifier(config.model, size, 2) if classify else build(config.model, size, size, shared=True)
    return Run(folder, config, tokenizers, model.eval())


def test_entropy_and_distance_by_hand() -> None:
    weights = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25], [0.5, 0.0, 0.0, 0.5]])
    torch.testing.assert_close(entropy(weights), torch.tensor([0.0, 2.0, 1.0]))
    torch.testing.assert_close(distance(weights), torch.tensor([0.0, (1 + 0 + 1 + 2) / 4, (2 + 1) / 2]))
    assert entropy(torch.zeros(1, 3)).item() == 0


@pytest.mark.parametrize("position", ["sinusoidal", "rotary", "t5", "quadratic", "transformer_xl"])
def test_what_is_shown_is_what_the_fast_path_computes(tmp_path: Path, either_way: str, position: str) -> None:
    run = make_run(tmp_path, position=position)
    (source, target), *_ = encode(run, [PAIRS[2]])
    calls: dict[str, Any] = {}
    hooks = [one.function.register_forward_hook(lambda kernel, inputs, output, name=name: calls.update(  # type: ignore
        {name: (inputs[2], output)})) for name, one in attentions(run.model).items()]
    weights = attend(run, source, target)
    for hook in hooks:
        hook.remove()
    assert len(weights) == 6
    for name, recorded in weights.items():
        values, output = calls[name]
        torch.testing.assert_close(recorded @ values[0], output[0], rtol=1e-4, atol=1e-5)


def test_a_head_left_out_is_one_whose_output_matrix_is_zero(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    pairs = encode(run, PAIRS)
    whole, tokens = losses(run, pairs)
    assert tokens.tolist() == [4, 3, 6]  # eos included
    scored = run.score([source for source, _ in PAIRS], [target for _, target in PAIRS])
    assert whole.tolist() == pytest.approx([-one.log_probability for one in scored], rel=1e-5)
    for name, one in attentions(run.model).items():
        with without_head(run.model, name, 1):
            without = losses(run, pairs)[0]
        kept = one.output.weight.detach().clone()
        with torch.no_grad():
            one.output.weight[:, 4:8] = 0  # the head's part of Concat(head_1 … head_H)
        torch.testing.assert_close(losses(run, pairs)[0], without)
        assert not torch.equal(without, whole)
        with torch.no_grad():
            one.output.weight.copy_(kept)
        assert torch.equal(losses(run, pairs)[0], whole)


def test_importance_is_the_change_in_mean_loss(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    pairs = encode(run, PAIRS)
    said: list[str] = []
    table, base = importance(run, pairs, said.append)
    whole, tokens = losses(run, pairs)
    assert base == pytest.approx(float(whole.sum() / tokens.sum()))
    assert len(said) == table.values.numel() == 18
    with without_head(run.model, table.rows[4], 2):
        change = (losses(run, pairs)[0] - whole).sum() / tokens.sum()
    assert float(table.values[4, 2]) == pytest.approx(float(change), abs=1e-6)
    assert table.errors is not None
    each = losses(run, pairs)[0]
    with without_head(run.model, table.rows[4], 2):
        change_of_each = losses(run, pairs)[0] - each
    spread = (change_of_each - change * tokens).square().sum() * len(pairs) / (len(pairs) - 1)
    assert float(table.errors[4, 2]) == pytest.approx(float(spread.sqrt() / tokens.sum()), rel=1e-3)
    assert importance(run, pairs[:1], said.append)[0].errors is None  # of one sentence nobody knows


def test_a_classifier_is_measured_too(tmp_path: Path) -> None:
    run = make_run(tmp_path, classify=True)
    pairs = encode(run, [("a b", "x"), ("c d", "y"), ("a", "y")])
    nats, counts = losses(run, pairs)
    probabilities = run.classify(["a b", "c d", "a"])
    expected = [-math.log(one.probabilities[label]) for one, label in zip(probabilities, "xyy", strict=True)]
    torch.testing.assert_close(nats, torch.tensor(expected, dtype=torch.float64), rtol=1e-4, atol=1e-5)
    assert counts.tolist() == [1, 1, 1]
    bits, _ = entropy_and_distance(run, pairs)
    assert bits.values.shape == (2, 3)
    assert look_at(run, "a b", None).source_tokens == ("‹start›", "a", "b")
    assert shapes(run, *pairs[0])[-1].output == (1, 2)


def test_rows_of_any_sum_are_measured_by_their_shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An attention of one's own may weigh each key for itself, and a row nothing at all."""
    run = make_run(tmp_path)
    rows = torch.tensor([[0.9, 0.9, 0.9, 0.9], [0.9, 0.9, 0.0, 0.0], [0.0, 0.0, 0.5, 0.0], [0.0, 0.0, 0.0, 0.0]])
    monkeypatch.setattr("pellucid.inspection.measures.attend",
                        lambda *asked: {one: rows.expand(3, 4, 4) for one in attentions(run.model)})
    bits, tokens = entropy_and_distance(run, encode(run, PAIRS[:1]))
    torch.testing.assert_close(bits.values, torch.full_like(bits.values, (2 + 1 + 0 + 0) / 4))
    torch.testing.assert_close(tokens.values, torch.full_like(tokens.values, ((0 + 1 + 2 + 3) / 4 + 1 / 2 + 0) / 4))


@pytest.mark.parametrize("longest", [1, 4])  # so that some are cut
def test_an_output_is_looked_at_as_it_was_written(longest: int) -> None:
    made = tiny_run(3, {}, {"precision": "fp32", "max_length": 30}, SUBWORDS)
    decode = dataclasses.replace(made.config.decode, max_length=longest)
    run = Run(made.folder, dataclasses.replace(made.config, decode=decode), made.tokenizers, made.model)
    otherwise = 0  # of how many the text alone would be written in other tokens
    for text in TEXT:
        best = run.generate([text])[0].hypotheses[0]
        seen = look_at(run, text, None)
        assert seen.written == (*best.tokens, *["‹end›"] * best.finished)
        assert {len(weights[0]) for name, weights in seen.attention.items()
                if name.startswith("decoder")} == {len(seen.written)}
        otherwise += len(encode(run, [(text, best.text)])[0][1]) != len(seen.written)
    assert otherwise


def test_heads_are_measured_on_what_a_validation_reads(tmp_path: Path) -> None:
    run, pairs = make_run(tmp_path), [("the dog eats a cat", ""), ("a cat", ""), ("the cat sleeps", "")]
    assert [target.tolist() for _, target in as_validated(run, PAIRS)] == [b.tolist() for _, b in encode(run, PAIRS)]
    data = dataclasses.replace(run.config.data, objective="span_corruption")
    restores = Run(tmp_path, dataclasses.replace(run.config, data=data), run.tokenizers, run.model)
    whole = [source.tolist() for source, _ in encode(run, pairs)]
    rows = as_validated(restores, pairs)
    assert ([left.tolist() for left, _ in rows], [lost.tolist() for _, lost in rows]) == tuple(
        corrupt_rows(whole, [], Random("0 0 0")))  # the same spans in all runs
    assert all(lost[0] == FIRST_SENTINEL in left for left, lost in rows)


@pytest.mark.parametrize(("objective", "expected"), [
    ("supervised", [("a cat", "un chat")]),
    ("span_corruption", [("a <extra_id_0>", None), ("<extra_id_0> cat", None)])])
def test_a_text_to_restore_has_lost_its_spans_and_has_no_reference(
        objective: str, expected: list[tuple[str, str | None]], tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_run(tmp_path)
    config = dataclasses.replace(made.config, data=dataclasses.replace(made.config.data, objective=objective),
                                 tokenizer=dataclasses.replace(made.config.tokenizer, sentinels=2))
    run = Run(tmp_path, config, train_tokenizers(config.tokenizer, PAIRS, config.task), made.model)
    sample = Sample("test", (("a cat", "un chat"),))
    monkeypatch.setattr("pellucid.inspection.inspect.first_pairs", lambda *asked: sample)
    monkeypatch.setattr("pellucid.inspection.inspect.look_at", lambda run, *sentence: sentence[:2])
    (example,), _ = _examples(run, [], lambda said: None)
    assert example in expected


def test_a_decoder_counts_distance_from_the_token_read_last_and_says_so(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path)
    name = "decoder.layers.0.self_attention"
    rows, columns = look_at(run, "a cat", None).sides(name)
    assert columns == ("‹start›", *rows[:-1])  # so that a row's own column is the token before it
    own = {one: torch.eye(3).expand(3, 3, 3) for one in attentions(run.model)}
    monkeypatch.setattr("pellucid.inspection.measures.attend", lambda *asked: own)
    bits, tokens = entropy_and_distance(run, encode(run, PAIRS[:1]))
    assert tokens.values[tokens.rows.index(name)].tolist() == [0, 0, 0]
    measured = HeadMeasures(bits, tokens, bits, 0.0)
    told = sections.heads(measured, "", sections.unit_of(run), lambda name, png, points: png)
    assert "the decoder&#x27;s self-attention counts from the token that was read last" in told.body


def test_every_parameter_is_counted_once(tmp_path: Path) -> None:
    run = make_run(tmp_path, position="t5", feed_forward="swiglu")
    parts = parameters_by_part(run.model)
    assert sum(part.parameters for part in parts) == sum(p.numel() for p in run.model.parameters())
    assert all(part.bytes == 4 * part.parameters for part in parts)
    by_name = {part.name: part.parameters for part in parts}
    size = run.tokenizers.source.size
    assert by_name["source embedding = target embedding = output projection"] == size * 12
    assert by_name["encoder layer 1, position"] == 32 * 3
    assert by_name["decoder layer 2, cross-attention"] == 4 * (12 * 12 + 12)
    assert by_name["decoder layer 2, norms"] == 3 * 2 * 12


def test_shapes_are_told_in_order_and_nested(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    source, target = encode(run, [PAIRS[0]])[0]
    steps = shapes(run, source, target)
    told = {step.name: step for step in steps}
    assert told["encoder"].output == (1, 4, 12)
    assert told["decoder layer 1, cross-attention"].inputs[:2] == [(1, 4, 12), (1, 4, 12)]
    assert told["encoder layer 1, self-attention function"].output == (1, 3, 4, 4)
    assert told["encoder layer 2"].depth == told["encoder"].depth + 1
    assert steps[-1].output == (1, 4, run.tokenizers.target.size)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in run.model.modules())
    for parts, widths in (({}, "4 and values 4."), ({"d_head": 6}, "6 and values 6."),
                          ({"d_head": 6, "d_key": 8}, "8 and values 6.")):
        made = make_run(tmp_path, **parts)
        assert f"3 heads; of a head, queries and keys have width {widths}" in sections.shapes(steps, made).lead


def test_positions_as_the_schemes_define_them(tmp_path: Path) -> None:
    model = make_run(tmp_path).model
    table = encoding_matrix(model.encoder.position, 5, 12)
    torch.testing.assert_close(table[:, 0], torch.arange(5.0).sin())
    first = next(iter(attentions(make_run(tmp_path, position="rotary").model).values()))
    torch.testing.assert_close(rotation_cosines(first, 5)[:, 0], torch.arange(5.0).cos())
    first = next(iter(attentions(make_run(tmp_path, position="alibi").model).values()))
    distances, lines = by_distance(bias_matrix(first, 4))
    assert distances.tolist() == [-3, -2, -1, 0, 1, 2, 3]
    torch.testing.assert_close(lines, -torch.tensor(alibi_slopes(3))[:, None] * distances.abs())
    for position in ("t5", "quadratic", "transformer_xl"):
        first = next(iter(attentions(make_run(tmp_path, position=position).model).values()))
        bias = bias_matrix(first, 6)
        distances, lines = by_distance(bias)
        for query in range(6):
            torch.testing.assert_close(bias[:, query], lines[:, 5 - query : 11 - query])


@pytest.mark.parametrize("position", ["alibi", "t5"])
def test_positions_are_told_of_projections_without_biases_too(position: str, tmp_path: Path) -> None:
    with_biases, without = (next(iter(attentions(make_run(tmp_path, position=position, biases=biases).model).values()))
                            for biases in (True, False))
    assert without.query.bias is None
    without.position.load_state_dict(with_biases.position.state_dict())
    torch.testing.assert_close(bias_matrix(without, 5), bias_matrix(with_biases, 5))


def test_a_bias_is_drawn_where_attention_looks() -> None:
    bias = torch.arange(16.0).view(1, 4, 4)
    assert torch.equal(seen(bias, False, None), bias)
    found = seen(bias, True, 1)[0]
    assert found.isnan().tolist() == [[column > row or column < row - 1 for column in range(4)] for row in range(4)]
    distances, values = near(found[None])
    assert distances.tolist() == [-1, 0]
    assert values.tolist() == [[14.0, 15.0]]


@pytest.mark.parametrize(("classify", "parts", "expected"), [
    (False, {}, (6, 6)),  # "the dog eats a cat", "le chien mange un chat", an end
    (False, {"max_length": 5}, (4, 4)),  # that pair is dropped
    (True, {}, (4, 0))])  # a beginning
def test_positions_are_learned_as_far_as_training_texts_go(
        tmp_path: Path, classify: bool, parts: dict[str, int], expected: tuple[int, int],
        monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path, classify, **parts)
    pairs = tuple([("a b c", "x"), ("d", "y")] if classify else PAIRS)
    monkeypatch.setattr("pellucid.inspection.positions.first_pairs", lambda *asked: Sample("train", pairs))
    trained = trained_lengths(run)
    assert (trained.source, trained.target, trained.reason) == (*expected, "")
    monkeypatch.setattr("pellucid.inspection.positions.first_pairs", lambda *asked: Sample("", (), "it is gone"))
    assert trained_lengths(run) == Trained(0, 0, 0, "it is gone")


def test_names_as_people_say_them() -> None:
    assert spoken("decoder.layers.0.cross_attention") == "decoder layer 1, cross-attention"
    assert spoken("encoder.layers.11") == "encoder layer 12"
    assert spoken("encoder.closing_norm") == "encoder closing norm"
    assert visible("a\n\x00") == "a⏎�"
    assert visible("") == "∅"
    assert visible("\u3000春\xa0\u2028") == "␣春␣⏎"
    assert [visible(text) for text in ("\u200b", "\u202e", "می\u200cروم")] == ["�", "�", "می\u200cروم"]
