"""The engine says what the plain step says: the same tokens in fp32, nearly the same probabilities in bf16."""

from __future__ import annotations

import functools
import os
import threading
import time
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.seeds import reseed

from pellucid.config import ModelConfig
from pellucid.engine.engine import Engine
from pellucid.engine.frozen import Refusal, check
from pellucid.engine.obstacle import obstacle
from pellucid.engine.workers import each
from pellucid.errors import NumericalError
from pellucid.kernels import calls
from pellucid.kernels.compiled import use_kernels
from pellucid.model.build import build
from pellucid.model.stepper import TransformerStep
from pellucid.model.transformer import Transformer
from pellucid.runs.generate import score_targets
from pellucid.search import ranking
from pellucid.search.beginnings import Beginning, of_tokens
from pellucid.search.constraints import Rules
from pellucid.search.options import Hypothesis, SearchOptions, Specials
from pellucid.search.ranking import best_tokens
from pellucid.search.rows import Rows
from pellucid.search.search import search

pytestmark = pytest.mark.usefixtures("compiled_kernels")

V = 40
SPECIALS = Specials(bos=2, eos=3, pad=0)
PARTS: list[dict[str, Any]] = [
    {"position": "sinusoidal"}, {"position": "learned", "residual": "post"}, {"position": "none", "norm": "rmsnorm"},
    {"position": "sinusoidal", "residual": "deepnorm", "feed_forward": "swiglu", "d_ff": 100},
    {"position": "sinusoidal", "norm": "stdnorm", "residual": "none", "tie_embeddings": False},
    {"position": "sinusoidal", "feed_forward": "gelu", "n_heads": 8}, {"position": "rotary", "d_key": 18},
    {"position": "alibi", "attention": "window", "window": 2}, {"position": "t5", "norm": "rmsnorm", "d_ff": 100},
    {"position": "transformer_xl", "residual": "post", "n_heads": 8}, {"position": "quadratic"},
    {"embedding_norm": True, "norm_epsilon": 0.1, "output_bias": True, "feed_forward": "gelu_tanh", "d_head": 10},
    {"biases": False, "position": "t5", "norm": "rmsnorm", "d_head": 48, "feed_forward": "geglu_tanh"},
]
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"beam_size": 1}, "beam": {"beam_size": 4}, "n-best": {"beam_size": 4, "n_best": 4},
    "sample": {"sample": True, "seed": 5, "n_best": 2}, "long": {"beam_size": 3, "min_length": 7},
    "no repeats": {"beam_size": 2, "no_repeat_ngram": 2}, "short": {"beam_size": 3, "max_length": 3},
}


def made(vocabulary: int = V, **parts: Any) -> Transformer:
    reseed(1)
    sizes = {"d_model": 64, "n_heads": 2, "d_ff": 96, "encoder_layers": 1, "decoder_layers": 2, "max_length": 24}
    model = build(ModelConfig(**{**sizes, **parts}), vocabulary, vocabulary, shared=True).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.mul_(1.5)  # less even probabilities
            if ".self_attention.position." in name or "output_bias" in name:  # they begin as zeros
                parameter.add_(torch.randn_like(parameter))
    return model


MANY = 1100  # tokens: more than are ranked together
PRECISIONS = ("fp32", "bf16", "int8")
LONGEST = 6 if "PELLUCID_WAY" in os.environ else 12  # steps: half for emulators and sanitizers, see kernels/ways.py


@functools.cache
def engine_of(precision: str, vocabulary: int) -> Engine:
    return Engine(made(vocabulary), precision)


def sources(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(3)
    lengths = torch.randint(1, 9, (count,), generator=draw)
    real = torch.arange(8) < lengths[:, None]
    return torch.randint(4, V, (count, 8), generator=draw).masked_fill(~real, 0), real


@pytest.mark.parametrize("parts", PARTS, ids=lambda parts: "-".join(map(str, parts.values())))
@pytest.mark.parametrize("options", SEARCHES.values(), ids=SEARCHES)
def test_in_fp32_the_engine_finds_what_the_plain_step_finds(parts: dict[str, Any], options: dict[str, Any]) -> None:
    model, source = made(**parts), sources(7)
    assert obstacle(model) is None
    asked = SearchOptions(**{"max_length": 12, **options})
    prefixes = [[]] * 5 + [[7, 8], [9]]
    plain = search(TransformerStep(model), source, 7, asked, SPECIALS, prefixes)
    fast = search(Engine(model, "fp32"), source, 7, asked, SPECIALS, prefixes)
    for ours, theirs, ids, real in zip(fast, plain, *source, strict=True):
        scores = [h.score for h in theirs]
        assert [h.score for h in ours] == pytest.approx(scores, abs=1e-4)
        taught = score_targets(model, [(ids[real].numpy(), np.array([*h.tokens, SPECIALS.eos])) for h in ours], 1000)
        for mine, other, expected in zip(ours, theirs, taught, strict=True):
            told = mine.token_log_probabilities  # without eos, where the longest length stopped it
            assert told == pytest.approx(expected[: len(told)], abs=1e-4)
            tied = sum(abs(other.score - score) < 1e-4 for score in scores) > 1
            assert mine.tokens == other.tokens or tied  # among equals, as without residuals, rounding decides
        assert len({h.tokens for h in ours}) == len({h.tokens for h in theirs})


def in_one_call(engine: Engine, source: tuple[torch.Tensor, torch.Tensor],
                options: SearchOptions, begun: int | None = None) -> list[list[Hypothesis]]:
    """The same search, all steps in one call of the engine."""
    (ids, real), lengths = source, source[1].sum(1)
    return engine.frozen(int(lengths.max()), options.max_length).search(
        ids[real].numpy(), lengths.numpy(), options, SPECIALS, [] if begun is None else [of_tokens([begun])] * len(ids))


@settings(deadline=None)
@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, LONGEST), st.integers(0, 9), st.floats(-2, 2), st.data())
def test_in_one_call_the_search_finds_what_it_finds_step_by_step(count: int, beam: int, longest: int, shortest: int,
                                                                 alpha: float, data: st.DataObject) -> None:
    options = SearchOptions(beam_size=beam, max_length=longest, min_length=min(shortest, longest - 1),
                            length_penalty=alpha, n_best=data.draw(st.integers(1, beam)))
    engine = engine_of(data.draw(st.sampled_from(PRECISIONS)), data.draw(st.sampled_from([V, MANY])))
    source = sources(count)
    assert in_one_call(engine, source, options) == search(engine, source, count, options, SPECIALS)
    if longest > 1:  # and where a token begins every output, whose probability alone is reckoned in another order
        begun = data.draw(st.integers(4, V - 1))
        found = in_one_call(engine, source, options, begun)
        wanted = search(engine, source, count, options, SPECIALS, [[begun]] * count)
        assert [[h.tokens for h in each] for each in found] == [[h.tokens for h in each] for each in wanted]
        assert [h.token_log_probabilities for each in found for h in each] == [
            pytest.approx(h.token_log_probabilities, abs=1e-5) for each in wanted for h in each]


def test_other_beginnings_are_left_to_the_search_by_steps() -> None:
    engine, (ids, real) = engine_of("fp32", V), sources(2)
    frozen = engine.frozen(8, 4)
    for beginnings in ([of_tokens([7, 8])] * 2, [of_tokens([7]), of_tokens([8])], [of_tokens([7]), of_tokens([])],
                       [of_tokens([SPECIALS.eos])] * 2, [of_tokens([V])] * 2):
        with pytest.raises(Refusal, match="prefixes"):
            frozen.search(ids[real].numpy(), real.sum(1).numpy(), SearchOptions(max_length=4), SPECIALS, beginnings)
    with pytest.raises(Refusal, match="prefixes"):  # what is all of an output would never be chosen
        in_one_call(engine, (ids, real), SearchOptions(max_length=1), begun=7)


def test_equal_totals_are_ranked_alike_in_one_call_and_step_by_step() -> None:
    """All logits are equal: every choice is one among equals."""
    model = made()
    with torch.no_grad():
        model.output.weight.zero_()
    options = SearchOptions(beam_size=3, max_length=4, n_best=3)
    engine = Engine(model, "fp32")
    assert in_one_call(engine, sources(3), options) == search(engine, sources(3), 3, options, SPECIALS)


def test_nothing_is_said_twice_where_that_is_asked_for() -> None:
    engine, options = engine_of("fp32", V), SearchOptions(beam_size=2, max_length=12, min_length=11)

    def repeated(options: SearchOptions) -> int:
        pairs = [[*pairwise(best[0].tokens)] for best in search(engine, sources(5), 5, options, SPECIALS)]
        return sum(len(each) - len(set(each)) for each in pairs)

    assert repeated(options) > 0
    assert repeated(replace(options, no_repeat_ngram=2)) == 0


def test_learned_positions_end_a_search_where_the_table_ends() -> None:
    engine = Engine(made(position="learned"), "fp32")
    check(SearchOptions(max_length=24), False, SPECIALS, engine.vocabulary, engine.target_places.limit)
    with pytest.raises(Refusal, match="longer than 24"):
        check(SearchOptions(max_length=25), False, SPECIALS, engine.vocabulary, engine.target_places.limit)


@pytest.mark.parametrize(("position", "width"), [("sinusoidal", 64), ("sinusoidal", 30), ("learned", 64)])
def test_what_a_place_adds_does_not_depend_on_what_was_asked_for_before(position: str, width: int) -> None:
    model = made(position=position, d_model=width, max_length=150)
    once, often = (Engine(model, "fp32").source_places for _ in range(2))
    whole = once.first(150)
    for count in (1, 64, 65, 40, 150):
        assert torch.equal(often.first(count), whole[:count])
    added = model.encoder.position.embed(torch.zeros(1, 150, width), torch.arange(150))[0]
    assert torch.allclose(whole, added, rtol=0, atol=1e-6)


def test_a_source_that_learned_positions_do_not_reach_is_refused_in_one_call_too() -> None:
    ids = torch.randint(4, V, (2, 30))
    with pytest.raises(ValueError, match="learned positions end"):
        in_one_call(Engine(made(position="learned"), "fp32"), (ids, ids > 0), SearchOptions(max_length=9))


@pytest.mark.parametrize("place", [7, MANY - 3])
def test_logits_that_are_no_numbers_are_told_without_scores_too(place: int) -> None:
    model = made(MANY)
    with torch.no_grad():
        model.output.weight[place] = torch.nan
    for scores in (True, False):
        options = SearchOptions(beam_size=1, scores=scores)
        with pytest.raises(Refusal, match="finite"):
            in_one_call(Engine(model, "fp32"), sources(9), options)
        with pytest.raises(NumericalError):
            search(Engine(model, "fp32"), sources(9), 9, options, SPECIALS)


@pytest.mark.parametrize("place", [7, MANY - 3])
@pytest.mark.parametrize("scores", [True, False])
def test_a_word_that_is_impossible_is_a_number_and_never_chosen(place: int, scores: bool) -> None:
    model, options = made(MANY, output_bias=True), SearchOptions(beam_size=1, max_length=12, scores=scores)
    with torch.no_grad():
        model.output_bias.bias[place] = -torch.inf
    expected = search(TransformerStep(model), sources(9), 9, replace(options, scores=True), SPECIALS)
    found = in_one_call(Engine(model, "fp32"), sources(9), options)
    assert [one[0].tokens for one in found] == [one[0].tokens for one in expected]


@pytest.mark.parametrize("empty", [[1], [0, 3], [0, 1, 2, 3]])
@pytest.mark.parametrize("parts", PARTS, ids=lambda parts: "-".join(map(str, parts.values())))
def test_a_sentence_without_a_token_is_nothing_to_look_at(parts: dict[str, Any], empty: list[int]) -> None:
    """Its attention is 0, as the masks of the plain step have it, and its neighbours are what they are."""
    model, (ids, real) = made(**parts), sources(4)
    real[empty] = False
    plain, fast = TransformerStep(model), Engine(model, "fp32")
    with torch.inference_mode():
        expected, state = plain.start((ids, real)), fast.start((ids, real))
        for latest in torch.randint(4, V, (6, 4)):
            wanted, expected = plain.step(expected, latest)
            got, state = fast.step(state, latest)
            torch.testing.assert_close(got, wanted, atol=1e-4, rtol=1e-4)
    options = SearchOptions(beam_size=2, max_length=9, n_best=2)
    found = search(fast, (ids, real), 4, options, SPECIALS)
    assert found == in_one_call(fast, (ids, real), options)
    for ours, theirs in zip(found, search(plain, (ids, real), 4, options, SPECIALS), strict=True):
        assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], abs=1e-4)


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-5), ("bf16", 0.03), ("int8", 0.1)])
@pytest.mark.parametrize("parts", PARTS, ids=lambda parts: "-".join(map(str, parts.values())))
def test_probabilities_are_those_of_the_plain_step_within_rounding(parts: dict[str, Any], precision: str,
                                                                    tolerance: float) -> None:
    model, source = made(**parts), sources(5)
    plain, fast = TransformerStep(model), Engine(model, precision)
    tokens = torch.randint(4, V, (6, 5))
    with torch.inference_mode():
        expected, state = plain.start(source), fast.start(source)
        for latest in tokens:
            wanted, expected = plain.step(expected, latest)
            got, state = fast.step(state, latest)
            torch.testing.assert_close(got.softmax(-1), wanted.softmax(-1), atol=tolerance, rtol=0.0)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("parts", PARTS, ids=lambda parts: "-".join(map(str, parts.values())))
def test_the_neighbours_of_a_sentence_change_no_bit(parts: dict[str, Any], precision: str) -> None:
    (ids, real), options = sources(115), SearchOptions(beam_size=2, max_length=9, n_best=2)  # more than a block of rows
    engine = Engine(made(**parts), precision)
    together = in_one_call(engine, (ids, real), options)
    for some in ([0], [114, 3, 7], list(range(100, 20, -1))):
        longest = int(real[some].sum(1).max())
        apart = in_one_call(engine, (ids[some, :longest], real[some, :longest]), options)
        assert apart == [together[i] for i in some]  # tokens and every log-probability


def test_ids_may_be_a_part_of_a_table() -> None:
    engine, options = engine_of("fp32", V), SearchOptions(beam_size=1, max_length=5)
    table = torch.randint(4, V, (3, 8), generator=torch.Generator().manual_seed(5))
    for part in (table[:, :1], table[:, ::3]):
        assert search(engine, (part, None), 3, options, SPECIALS) == search(
            engine, (part.contiguous(), None), 3, options, SPECIALS)


def test_no_source_padding_and_wide_heads() -> None:
    for heads in (1, 2, 4):
        reseed(2)
        config = ModelConfig(d_model=64, n_heads=heads, d_ff=48, encoder_layers=1, decoder_layers=1)
        model = build(config, V, V, shared=True).eval()
        ids = torch.randint(4, V, (3, 70))
        options = SearchOptions(beam_size=2, max_length=30)
        plain = search(TransformerStep(model), (ids, None), 3, options, SPECIALS)
        fast = search(Engine(model, "fp32"), (ids, None), 3, options, SPECIALS)
        assert [one[0].tokens for one in fast] == [one[0].tokens for one in plain]


@pytest.mark.parametrize(("parts", "reason"), [
    ({"attention": "linear"}, "LinearAttention"), ({"d_model": 40}, "width of the model is no multiple of 16")])
def test_what_the_engine_does_not_know_is_named(parts: dict[str, Any], reason: str) -> None:
    config = {"d_model": 64, "n_heads": 2, "d_ff": 48, "encoder_layers": 1, "decoder_layers": 1, **parts}
    assert reason in str(obstacle(build(ModelConfig(**config), V, V, shared=True)))


def test_batches_side_by_side_come_out_in_order() -> None:
    engine, (ids, real) = Engine(made(), "fp32"), sources(40)
    batches = [list(range(start, start + 5)) for start in range(0, 40, 5)]

    def decode(rows: list[int]) -> list[Any]:
        return in_one_call(engine, (ids[rows], real[rows]), SearchOptions(beam_size=2, max_length=9))

    before, threads = torch.get_num_threads(), 3
    torch.set_num_threads(threads)
    try:
        together = list(each(decode, batches, threads, calls.use_threads))
        assert torch.get_num_threads() == threads  # those who decode count their own
    finally:
        torch.set_num_threads(before)
    assert together == [decode(rows) for rows in batches]


def test_batches_side_by_side_take_one_thread_each_and_a_single_batch_all_of_them() -> None:
    """And what fails ends the others: none begins that nobody will hear of."""
    told, done, caller = list[int](), list[int](), threading.get_ident()

    def failing(batch: int) -> int:
        done.append(batch)
        if batch == 1:
            raise ValueError("no")
        time.sleep(0.01)
        return threading.get_ident()

    assert list(each(lambda batch: threading.get_ident(), [1], 3, told.append)) == [caller]
    assert not told
    with pytest.raises(ValueError, match="no"):
        list(each(failing, range(100), 2, told.append))
    assert told == [1, 1]
    assert len(done) < 50


def test_the_engine_keeps_the_weights_it_was_made_with() -> None:
    model, source = made(), sources(2)
    engine = Engine(model, "fp32")
    with torch.inference_mode():
        before = engine.step(engine.start(source), torch.tensor([2, 2]))[0]
        for parameter in model.parameters():
            parameter.zero_()
        after = engine.step(engine.start(source), torch.tensor([2, 2]))[0]
    assert torch.equal(before, after)


def ranked(logits: torch.Tensor, count: int, min_length: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    rows = len(logits)
    rules = Rules(SearchOptions(min_length=min_length), SPECIALS, (Beginning(),) * rows, tuple(range(rows)))
    return best_tokens(logits, Rows(torch.arange(rows), torch.full((rows, 1), 9), torch.zeros(rows, 1)), rules, count)


@settings(deadline=None)  # the first example compiles
@given(st.integers(1, 5), st.integers(20, 70) | st.integers(500, 1600), st.integers(1, 9), st.integers(0, 2),
       st.integers(0, 10_000), st.sampled_from([torch.float32, torch.bfloat16]))
def test_the_best_tokens_in_one_pass_are_those_of_the_plain_way(rows: int, vocabulary: int, count: int, min_length: int,
                                                                 seed: int, dtype: torch.dtype) -> None:
    draw = torch.Generator().manual_seed(seed)
    logits = torch.randint(-6, 6, (rows, vocabulary), generator=draw).to(dtype)  # many ties
    values, ids = ranked(logits.T.contiguous().T, count, min_length)  # however they lie
    use_kernels(torch.device("cpu"), False)
    try:
        expected, expected_ids = ranked(logits, count, min_length)
    finally:
        use_kernels(torch.device("cpu"))
    assert torch.equal(ids, expected_ids)
    torch.testing.assert_close(values, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("options", [{"beam_size": 1}, {"beam_size": 4, "n_best": 4},
                                     {"beam_size": 2, "min_length": 3}], ids=str)
def test_a_sentence_has_the_same_bits_beside_others_that_begin_otherwise(options: dict[str, Any],
                                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that must begin with a prefix are ranked the plain way, which rounds otherwise: they alone."""
    engine, (ids, real), asked = engine_of("fp32", MANY), sources(7), SearchOptions(**options, max_length=10)
    starts = [[5] * (2 * (i % 4)) for i in range(7)]
    looks: list[int] = []
    monkeypatch.setattr(ranking, "check_vocabulary", lambda vocabulary, rules: looks.append(vocabulary))
    together = search(engine, (ids, real), 7, asked, SPECIALS, starts)
    assert looks == [MANY]  # at the first token alone
    assert together == [search(engine, (ids[i, real[i]][None], None), 1, asked, SPECIALS, [starts[i]])[0]
                        for i in range(7)]


def test_a_sentence_has_the_same_bits_beside_one_with_infinite_logits() -> None:
    logits = torch.randn(20, MANY, generator=torch.Generator().manual_seed(4))
    values, ids = ranked(logits, 5)
    logits[0, 9] = torch.inf
    beside, ids_beside = ranked(logits, 5)
    assert torch.equal(beside[1:], values[1:])
    assert torch.equal(ids_beside[1:], ids[1:])


@pytest.mark.parametrize("place", [7, MANY - 3])
def test_infinite_logits_are_taken_at_their_limit_and_nan_is_told(place: int) -> None:
    logits = torch.zeros(2, MANY)
    logits[1, place] = torch.inf
    values, ids = ranked(logits, 1)
    assert ids.tolist() == [[1], [place]]
    assert values[1, 0] == 0
    logits[0, place - 1] = torch.nan
    with pytest.raises(NumericalError, match="sentence 0"):
        ranked(logits, 1)
