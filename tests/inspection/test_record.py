"""What is recorded is what was computed, and nothing stays behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.config import ModelConfig
from pellucid.config.mapping import from_mapping
from pellucid.data.tokenizers.build import train_tokenizers
from pellucid.errors import ConfigError
from pellucid.inspection.figures import draw_cross_attention
from pellucid.inspection.record import record_attention
from pellucid.model.build import build, build_classifier
from pellucid.runs.run import Run

SMALL: dict[str, Any] = {"d_model": 12, "n_heads": 3, "d_ff": 8, "encoder_layers": 2, "decoder_layers": 2,
                         "dropout": 0.0, "max_length": 20}
PARTS: list[dict[str, Any]] = [{"position": "sinusoidal"}, {"position": "rotary", "attention": "window", "window": 2},
                               {"position": "alibi"}, {"position": "t5"},
                               {"position": "quadratic"}, {"position": "transformer_xl"},
                               {"position": "sinusoidal", "attention": "linear"}]


@pytest.mark.parametrize("parts", PARTS, ids=lambda parts: "-".join(map(str, parts.values())))
@pytest.mark.parametrize("padded", [False, True])
def test_recorded_weights_times_values_are_what_the_fast_path_gave(parts: dict[str, Any], padded: bool) -> None:
    torch.manual_seed(0)
    model = build(ModelConfig(**{**SMALL, **parts}), 9, 9).eval()
    calls: dict[str, Any] = {}
    for name, module in model.named_modules():
        if name.endswith(".function"):
            module.register_forward_hook(lambda kernel, inputs, output, name=name: calls.update(  # type: ignore[misc]
                {name.removesuffix(".function"): (kernel, inputs, output)}))
    source, target = torch.randint(4, 9, (3, 7)), torch.randint(4, 9, (3, 5))
    real = torch.arange(7) < torch.tensor([[7], [4], [1]]) if padded else None
    with torch.no_grad():
        plain = model(source, target, real)
        with record_attention(model) as weights:
            assert torch.equal(model(source, target, real), plain)
    names = [f"encoder.layers.{i}.self_attention" for i in (0, 1)]
    names += [f"decoder.layers.{i}.{kind}_attention" for i in (0, 1) for kind in ("self", "cross")]
    assert sorted(weights) == sorted(names) == sorted(calls)
    for name, recorded in weights.items():
        kernel, (q, k, v, mask, bias), output = calls[name]
        queries, keys = (7, 7) if name.startswith("encoder") else (5, 7 if "cross" in name else 5)
        assert recorded.shape == (3, 3, queries, keys)
        assert torch.equal(recorded, kernel.weights(q, k, mask, bias))
        torch.testing.assert_close(recorded @ v, output, rtol=1e-4, atol=1e-5)
        sums = recorded.sum(-1)
        assert bool(((sums - 1).abs() < 1e-4).logical_or(sums == 0).all())
        if "decoder" in name and "self" in name:
            assert not recorded.triu(1).any()
        if real is not None and keys == 7:
            assert not recorded.masked_select(~real[:, None, None, :]).any()


def test_hooks_go_whatever_happens() -> None:
    model = build(ModelConfig(**SMALL), 9, 9)
    tokens = torch.tensor([[4, 5]])
    with record_attention(model) as weights:
        model(tokens, tokens)
    kept = dict(weights)
    model(torch.tensor([[4, 5, 6]]), tokens)
    assert all(weights[name] is tensor for name, tensor in kept.items())
    with pytest.raises(KeyError), record_attention(model):
        raise KeyError
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in model.modules())


def test_recording_carries_no_gradient_and_disturbs_none() -> None:
    model = build(ModelConfig(**SMALL), 9, 9)
    tokens = torch.tensor([[4, 5, 6]])
    gradients = []
    for recording in (False, True):
        model.zero_grad()
        with record_attention(torch.nn.Linear(1, 1) if not recording else model) as weights:
            model(tokens, tokens).sum().backward()
        assert not any(tensor.requires_grad for tensor in weights.values())
        gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def test_a_classifier_is_recorded_too() -> None:
    model = build_classifier(ModelConfig(**SMALL), 9, 2)
    with record_attention(model) as weights:
        model(torch.tensor([[4, 5, 6]]))
    assert list(weights) == ["encoder.layers.0.self_attention", "encoder.layers.1.self_attention"]


def is_picture(path: Path) -> bool:
    content = path.read_bytes()
    return content.startswith(b"\x89PNG\r\n\x1a\n") and b"IEND" in content[-12:] and len(content) > 5000


def test_cross_attention_is_drawn(tmp_path: Path) -> None:
    config = from_mapping({"tokenizer": {"kind": "word"}, "model": SMALL})
    tokenizers = train_tokenizers(config.tokenizer, [("the cat sleeps", "le chat dort")], "seq2seq")
    size = tokenizers.source.size
    run = Run(tmp_path, config, tokenizers, build(config.model, size, size, shared=True).eval())
    draw_cross_attention(run, "the cat sleeps", "le chat", tmp_path / "new" / "cross.png")
    assert is_picture(tmp_path / "new" / "cross.png")
    draw_cross_attention(run, "a $dollar_ line^ $^$ 猫", "<b>& $\\frac$", tmp_path / "odd.png")  # no letter is markup
    assert is_picture(tmp_path / "odd.png")


def test_a_classifier_has_no_cross_attention_to_draw(tmp_path: Path) -> None:
    config = from_mapping({"task": "classification", "tokenizer": {"kind": "word"}, "model": SMALL})
    tokenizers = train_tokenizers(config.tokenizer, [("a", "x"), ("b", "y")], "classification")
    run = Run(tmp_path, config, tokenizers, build_classifier(config.model, tokenizers.source.size, 2))
    with pytest.raises(ConfigError, match="cross-attention"):
        draw_cross_attention(run, "a", "b", tmp_path / "x.png")
