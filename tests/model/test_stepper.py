"""The Transformer's step: with caches it says what the plain equation says, in any batch, to every search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.seeds import generator
from torch import Tensor

from pellucid.config import ModelConfig
from pellucid.model.build import build
from pellucid.model.stepper import TransformerStep, evaluating
from pellucid.model.transformer import Transformer
from pellucid.search.options import Hypothesis, SearchOptions, Specials
from pellucid.search.search import search

V, BOS, EOS = 12, 2, 3
SPECIALS = Specials(bos=BOS, eos=EOS, pad=0)
PARTS: list[dict[str, Any]] = [
    {"position": "sinusoidal"}, {"position": "learned", "residual": "post"}, {"position": "rotary", "norm": "rmsnorm"},
    {"position": "alibi", "attention": "window", "window": 3}, {"position": "t5", "feed_forward": "swiglu"},
    {"position": "transformer_xl"}, {"position": "sinusoidal", "attention": "linear"}, {"position": "none"},
]
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"beam_size": 1},
    "beam": {"beam_size": 4},
    "n-best": {"beam_size": 4, "n_best": 4, "length_penalty": 1.5},
    "sample": {"sample": True, "seed": 5},
    "samples": {"sample": True, "n_best": 3, "top_k": 5, "top_p": 0.9, "temperature": 1.3},
    "long": {"beam_size": 3, "min_length": 7},
    "no repeats": {"beam_size": 2, "no_repeat_ngram": 2, "max_length": 9},
    "short": {"beam_size": 3, "n_best": 2, "max_length": 3},
}
Source = tuple[Tensor, Tensor | None]


class UncachedStep:
    """The step by the plain equation: the whole prefix again every time."""

    def __init__(self, model: Transformer) -> None:
        self.model = model

    def start(self, source: Source) -> tuple[Tensor | None, ...]:
        return (*source, None)

    def step(self, state: Any, tokens: Tensor) -> tuple[Tensor, Any]:
        source, real, prefix = state
        prefix = tokens[:, None] if prefix is None else torch.cat([prefix, tokens[:, None]], dim=1)
        return self.model(source, prefix, real)[:, -1].float(), (source, real, prefix)

    def select(self, state: Any, rows: Tensor) -> Any:
        return tuple(None if part is None else part[rows] for part in state)


def pairs(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sources with padding behind them, which are real, and targets: the same reversed, -1 behind."""
    draw = generator(seed)
    lengths = torch.randint(2, 8, (count,), generator=draw)
    source = torch.randint(4, V, (count, 8), generator=draw)
    real = torch.arange(8) <= lengths[:, None]
    target = torch.full((count, 8), -1)
    for i, n in enumerate(lengths.tolist()):
        source[i, n] = EOS
        target[i, : n + 1] = torch.cat([source[i, :n].flip(0), torch.tensor([EOS])])
    return source.masked_fill(~real, 0), real, target


@pytest.fixture(scope="module", params=PARTS, ids=lambda parts: "-".join(str(value) for value in parts.values()))
def model(request: pytest.FixtureRequest) -> Iterator[Transformer]:
    """A model of these parts that has learned a little."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    config = ModelConfig(d_model=16, n_heads=2, d_ff=24, encoder_layers=1, decoder_layers=2, dropout=0.0, max_length=24,
                         **request.param)
    made = build(config, V, V, shared=True)
    optimizer = torch.optim.Adam(made.parameters(), lr=5e-3)
    for number in range(40):
        source, real, target = pairs(24, number)
        given = torch.cat([torch.full((24, 1), BOS), target[:, :-1].clamp(min=0)], dim=1)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(made(source, given, real).flatten(0, 1), target.flatten(),
                                          ignore_index=-1).backward()
        optimizer.step()
    yield made.eval()
    torch.set_num_threads(threads)


def same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    assert [[h.tokens for h in each] for each in found] == [[h.tokens for h in each] for each in expected]
    for a, b in zip((h for each in found for h in each), (h for each in expected for h in each), strict=True):
        assert a.finished == b.finished
        assert a.score == pytest.approx(b.score, abs=1e-4)
        assert a.log_probability == pytest.approx(b.log_probability, abs=1e-4)
        assert a.token_log_probabilities == pytest.approx(b.token_log_probabilities, abs=1e-4)


@pytest.mark.parametrize("prefixes", [None, [[4, 5, 6], [], [7], [], [11, 11]]], ids=["", "prefixes"])
@pytest.mark.parametrize("name", SEARCHES)
def test_with_caches_every_search_finds_what_it_finds_by_the_plain_equation(name: str, prefixes: Any,
                                                                           model: Transformer) -> None:
    source, real, _ = pairs(5, 999)
    options = SearchOptions(**{"max_length": 12, **SEARCHES[name]})
    found = search(TransformerStep(model), (source, real), 5, options, SPECIALS, prefixes)
    expected = search(UncachedStep(model), (source, real), 5, options, SPECIALS, prefixes)
    same(found, expected)
    lengths = [len(h.tokens) for each in found for h in each]
    assert all(options.min_length <= n <= options.max_length for n in lengths)
    for each, prefix in zip(found, prefixes or [[]] * 5, strict=True):
        assert all(h.tokens[: len(prefix)] == tuple(prefix)[: options.max_length] for h in each)


@pytest.mark.parametrize("name", ["greedy", "n-best", "samples"])
def test_neighbours_order_and_padding_change_nothing(name: str, model: Transformer) -> None:
    source, real, _ = pairs(6, 77)
    options = SearchOptions(**{"max_length": 12, **SEARCHES[name]})
    together = search(TransformerStep(model), (source, real), 6, options, SPECIALS, indices=range(6))
    order = [4, 0, 5, 2, 1, 3]
    shuffled = search(TransformerStep(model), (source[order], real[order]), 6, options, SPECIALS, indices=order)
    same([shuffled[order.index(i)] for i in range(6)], together)
    wider, wider_real = torch.nn.functional.pad(source, (0, 5)), torch.nn.functional.pad(real, (0, 5))
    same(search(TransformerStep(model), (wider, wider_real), 6, options, SPECIALS, indices=range(6)), together)
    for i in range(6):
        alone = (source[i : i + 1, : int(real[i].sum())], None)
        same(search(TransformerStep(model), alone, 1, options, SPECIALS, indices=[i]), [together[i]])


def test_the_log_probabilities_of_a_hypothesis_are_the_models(model: Transformer) -> None:
    source, real, _ = pairs(4, 5)
    for name in ("greedy", "n-best", "samples", "no repeats"):
        options = SearchOptions(**{"max_length": 12, **SEARCHES[name]})
        for i, each in enumerate(search(TransformerStep(model), (source, real), 4, options, SPECIALS)):
            for hypothesis in each:
                tokens = [*hypothesis.tokens, *([EOS] if hypothesis.finished else [])]
                with torch.no_grad():
                    logits = model(source[i : i + 1], torch.tensor([[BOS, *tokens[:-1]]]), real[i : i + 1])
                expected = logits.log_softmax(-1)[0, range(len(tokens)), tokens].tolist()
                assert hypothesis.token_log_probabilities == pytest.approx(expected, abs=1e-4)
                assert hypothesis.log_probability == pytest.approx(sum(expected), abs=1e-3)


def test_selected_rows_go_on_by_themselves(model: Transformer) -> None:
    source, real, _ = pairs(4, 8)
    rows = torch.tensor([2, 2, 0, 3])
    cached, plain = TransformerStep(model), UncachedStep(model)
    with torch.inference_mode():
        a, b = cached.start((source, real)), plain.start((source, real))
        for tokens in (torch.full((4,), BOS), torch.tensor([4, 5, 6, 7])):
            x, a = cached.step(a, tokens)
            y, b = plain.step(b, tokens)
            torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-4)
        a, b = cached.select(a, rows), plain.select(b, rows)
        for tokens in (torch.tensor([8, 9, 8, 4]), torch.tensor([5, 5, 5, 5])):
            x, a = cached.step(a, tokens)
            y, b = plain.step(b, tokens)
            assert x.dtype == torch.float32
            torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-4)


def test_after_an_evaluation_each_part_trains_as_it_did() -> None:
    model = build(ModelConfig(d_model=16, n_heads=2, d_ff=24, encoder_layers=1, decoder_layers=1), V, V)
    model.encoder.eval()  # frozen
    model.encoder.layers[0].residual_1.dropout.train()
    before = [module.training for module in model.modules()]
    with evaluating(model):
        assert not any(module.training for module in model.modules())
    assert [module.training for module in model.modules()] == before
