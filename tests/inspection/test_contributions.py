"""Contributions whose answer is known: an embedding that is taken away, a small change, a sum that must hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import torch
from tests.promises.tiny import SUBWORDS, tiny_classifier, tiny_reader, tiny_run

from pellucid.data.tokenizers.interface import BOS, EOS
from pellucid.errors import ConfigError, UserError
from pellucid.inspection.answers import Contributions
from pellucid.inspection.contributions import METHODS, contributions
from pellucid.inspection.explained import Pair, explained
from pellucid.inspection.integration import difference, integrated_gradients
from pellucid.model.build import ATTENTIONS, NORMS, POSITIONS, RESIDUALS
from pellucid.runs.run import Run

PARTS: list[dict[str, Any]] = [
    *({"position": name} for name in POSITIONS),
    *({"attention": name, "window": 2, "position": "none"} for name in ATTENTIONS if name != "full"),
    *({"residual": name} for name in RESIDUALS if name != "none"),
    *({"norm": name} for name in NORMS if name != "none"),
    {"feed_forward": "swiglu", "tie_embeddings": True}, {"feed_forward": "geglu", "decoder_layers": 1}]


@pytest.fixture(scope="module")
def run() -> Run:
    return tiny_run(1, {}, {}, SUBWORDS)


@pytest.mark.parametrize("parts", PARTS, ids=lambda parts: "-".join(map(str, parts.values())))
def test_integrated_gradients_add_up_whatever_the_model(parts: dict[str, Any], either_way: str) -> None:
    run = tiny_run(5, parts, {}, {"kind": "word"})
    told = contributions(run, "the cat sleeps .", "le chat dort .", "integrated_gradients")
    for row, before, gained, error in zip(told.source, told.prefix, told.explained, told.error, strict=True):
        assert error == pytest.approx(sum(row) + sum(before) - gained, abs=1e-5)
        assert error is not None
        assert abs(error) <= 0.01 * max(abs(gained), 0.1) + 1e-6
    scored = run.score(["the cat sleeps ."], ["le chat dort ."])[0].token_log_probabilities
    nothing = tiny_run(5, parts, {}, {"kind": "word"})
    with torch.no_grad():
        for name in ("source_embedding", "target_embedding"):
            getattr(nothing.model, name).scale = 0.0
    empty = nothing.score(["the cat sleeps ."], ["le chat dort ."])[0].token_log_probabilities
    assert np.array(scored) - np.array(empty) == pytest.approx(np.array(told.explained), abs=1e-4)


def test_leaving_one_out_is_what_the_model_says_without_it() -> None:
    run = tiny_run(1, {"norm": "rmsnorm"}, {}, SUBWORDS)  # which sees whether all of an embedding is 0, or 1
    told = contributions(run, "the cat", "le chat", "leave_one_out")
    source = torch.tensor([[*run.tokenizers.source.encode("the cat"), EOS]])
    target = torch.tensor([[BOS, *run.tokenizers.target.encode("le chat")]])
    wanted = torch.tensor([*target[0, 1:].tolist(), EOS])[:, None]

    def values() -> torch.Tensor:
        with torch.no_grad():
            return run.model(source, target).log_softmax(-1)[0].gather(1, wanted)[:, 0]

    whole = values()
    for side, tokens, embedding, found in (("source", source, run.model.source_embedding, told.source),
                                           ("target", target, run.model.target_embedding, told.prefix)):
        for place in range(tokens.shape[1]):
            def erase(module: Any, inputs: Any, output: torch.Tensor, place: int = place,
                      tokens: torch.Tensor = tokens) -> torch.Tensor:
                if inputs[0] is not tokens:
                    return output
                left = output.clone()
                left[:, place] = 0
                return left

            hook = embedding.register_forward_hook(erase)
            lost = whole - values()
            hook.remove()
            assert [row[place] for row in found] == pytest.approx(lost.tolist(), abs=1e-5), (side, place)


def test_embeddings_are_held_for_one_pass_alone(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of thousands of tokens has as many variants, each as large as all of its embeddings."""
    monkeypatch.setattr("pellucid.inspection.explained._AT_ONCE", 12)
    made, most = 0, []
    what = explained(run.model, np.array([5, 6, EOS]), np.array([7, 8, EOS]), lambda: most.append(made))
    x, y = what.embeddings()

    def variants() -> Iterator[Pair]:
        nonlocal made
        for scale in range(5):
            made += 1
            yield Pair(x * scale, y)

    values = what.values_of(variants())
    assert most == [2, 4, 5]
    torch.testing.assert_close(values[3:4], what.values_of([Pair(x * 3, y)]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_nothing_later_contributes_and_shares_are_shares(method: str, run: Run) -> None:
    told = contributions(run, "it sleeps , a cat", "le chat dort .", method)
    s, t = len(told.source_tokens), len(told.written)
    assert np.shape(told.source) == np.shape(told.random_source) == (t, s)
    assert np.shape(told.prefix) == np.shape(told.random_prefix) == (t, t)
    assert not np.triu(told.prefix, 1).any()
    assert not np.triu(told.random_prefix, 1).any()
    for row, before, share in zip(told.source, told.prefix, told.share_of_source, strict=True):
        of_source, of_prefix = np.abs(row).sum(), np.abs(before).sum()
        assert share == pytest.approx(of_source / (of_source + of_prefix), abs=1e-5)
    assert (told.error[0] is None) == (method != "integrated_gradients")
    assert not np.allclose(told.source, told.random_source, atol=1e-3)  # what was learned is in the map
    again = contributions(run, "it sleeps , a cat", "le chat dort .", method)
    assert again == told
    json.dumps(asdict(told), allow_nan=False)


def test_gradient_x_input_is_what_a_small_change_does(run: Run) -> None:
    told = contributions(run, "the cat", "le chat", "gradient_x_input")
    source = np.array([*run.tokenizers.source.encode("the cat"), EOS])
    what = explained(run.model, source, np.array([*run.tokenizers.target.encode("le chat"), EOS]))
    x, y = what.embeddings()
    for place in range(len(x)):
        rows = []
        for by in (-2e-3, 2e-3):
            moved = x.clone()
            moved[place] *= 1 + by
            rows.append(Pair(moved, y))
        low, high = what.values_of(rows)
        assert [row[place] for row in told.source] == pytest.approx(((high - low) / 4e-3).tolist(), abs=2e-2)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-4), (torch.float16, 0.05), (torch.bfloat16, 0.2)],
                         ids=["double", "half", "bf16"])
def test_a_model_of_another_type_has_contributions_in_fp32(dtype: torch.dtype, near: float, method: str,
                                                           run: Run) -> None:
    other = tiny_run(1, {}, {}, SUBWORDS)
    other.model.to(dtype)
    told, expected = (contributions(one, "the cat", "le chat", method) for one in (other, run))
    np.testing.assert_allclose(told.source, expected.source, atol=near)
    np.testing.assert_allclose(told.prefix, expected.prefix, atol=near)


def test_of_a_classifier_one_label_is_explained() -> None:
    run = tiny_classifier(3, {"encoder_layers": 1, "residual": "pre"})
    told = {method: contributions(run, "the cat", None, method) for method in METHODS}
    assert {one.label for one in told.values()} == {run.classify(["the cat"])[0].label}
    for one in told.values():
        assert (one.read, one.written, one.prefix) == ((), (), [[]])
        assert np.shape(one.source) == (1, 3)
        assert one.share_of_source == (pytest.approx(1),)
        assert one.explained == told["leave_one_out"].explained
    (error,) = told["integrated_gradients"].error
    assert error is not None
    assert abs(error) <= 0.01 * max(abs(told["integrated_gradients"].explained[0]), 0.1)


def test_a_label_can_be_asked_for() -> None:
    run = tiny_classifier(3, {})
    asked: Contributions = contributions(run, "the cat", "z", "leave_one_out")
    assert (asked.label, asked.output) == ("z", "z")
    with pytest.raises(UserError, match="no label"):
        contributions(run, "the cat", "nobody")


def test_what_cannot_be_explained_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="no method 'magic'"):
        contributions(run, "the cat", None, "magic")
    with pytest.raises(ConfigError, match="does not know readers"):
        contributions(tiny_reader(1, {"kind": "word"}), "the cat")
    with pytest.raises(UserError, match="the text is empty"):
        contributions(run, "\t")
    assert len(contributions(run, "the cat", "").source) == 1  # the end of an empty output
    monkeypatch.setitem(METHODS, "gradient_x_input", METHODS["gradient_x_input"]._replace(most=10))
    with pytest.raises(UserError, match="too many to find what each contributes"):
        contributions(run, "the cat", "le chat")


def test_gradients_are_taken_where_the_caller_takes_none_and_none_stay(run: Run) -> None:
    with torch.inference_mode():
        told = contributions(run, "the cat", "le chat")
    assert told == contributions(run, "the cat", "le chat")
    assert all(parameter.grad is None for parameter in run.model.parameters())
    assert not any(module._forward_hooks for module in run.model.modules())
    ids = np.array([5, EOS])
    what = explained(run.model, ids, ids)
    assert integrated_gradients(what).sums.tolist() == pytest.approx(difference(what).tolist(), rel=0.02, abs=2e-3)
