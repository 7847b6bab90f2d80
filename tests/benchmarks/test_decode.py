"""The peers hold our weights and search as we do, and the gate lets no wrong output through."""

from __future__ import annotations

import copy
import functools
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import decoders, vocabulary_map, workloads
from benchmarks.convert import holds, to_ctranslate2
from benchmarks.decode import SEARCHES, SYSTEMS, WORKERS, has_row, is_exact
from benchmarks.decode_cases import Case, random_case
from benchmarks.decode_job import BOS, EOS, Job, Search, groups, read, until_eos
from benchmarks.decode_limit import source_products, step_products
from benchmarks.limit import flops
from benchmarks.reference import Gate, new_model
from pellucid.data.corpus import Corpus, Sequences
from pellucid.data.encoding import Report
from pellucid.nn.cross_entropy import linear_cross_entropy

TINY = replace(workloads.MODELS["tiny"], d_model=32, n_heads=2, d_ff=48, encoder_layers=2, decoder_layers=2,
               vocabulary=60)
GREEDY, BEAM, _ = SEARCHES
SENTENCES = 12
NEEDS = {"ctranslate2": ["ctranslate2"], "transformers": ["transformers"], "pellucid": [], "joeynmt": ["joeynmt"]}
FP32 = {"ctranslate2": "float32 1x1", "transformers": "fp32", "pellucid": "plain fp32", "joeynmt": "fp32"}


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the systems that take as many as the benchmark has."""
    monkeypatch.setattr(decoders, "THREADS", 1)


@functools.cache
def trained(residual: str, position: str) -> Case:
    """A model too small for any measurement, after a little schooling in copying: it ends its outputs."""
    sizes = {**asdict(TINY), "residual": residual, "position": position}
    torch.manual_seed(0)
    model, random = new_model(sizes), np.random.default_rng(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(200):
        target = torch.from_numpy(random.integers(4, TINY.vocabulary, (16, random.integers(4, 12))))
        target[:, -1] = EOS
        hidden = model.decode(torch.cat([torch.full((16, 1), BOS), target[:, :-1]], 1), *model.encode(target))
        loss = linear_cross_entropy(hidden.flatten(0, 1), model.output.weight, target.flatten(), 0.1) / target.numel()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    sources = [[*random.integers(4, TINY.vocabulary, 3 + i % 7).tolist(), EOS] for i in range(SENTENCES)]
    return Case("tiny", sizes, model.eval(), sources, None, None)


@pytest.fixture
def case() -> Case:
    """The post-norm one."""
    return trained("post", "sinusoidal")


def prepared(case: Case, job: Job, folder: Path, system: str) -> decoders.Decode:
    """The system with the weights and the job of a case."""
    for module in NEEDS[system]:
        pytest.importorskip(module, reason=f"{module} is a peer of the benchmark, and not installed")
    np.savez(folder / "weights.npz", **case.weights())
    job.write(folder)
    if system == "ctranslate2":
        to_ctranslate2(case.sizes, case.weights(), folder / "ctranslate2", None)
    return decoders.make(system, FP32[system], read(folder), folder)


@pytest.mark.parametrize("lengths", [None, [8] * 5 + [5] * 7], ids=["own lengths", "given lengths"])
@pytest.mark.parametrize("search", [GREEDY, BEAM], ids=lambda search: search.name)
@pytest.mark.parametrize("parts", [("post", "sinusoidal"), ("pre", "sinusoidal"), ("pre", "rotary"), ("post", "t5")],
                         ids=" ".join)
@pytest.mark.parametrize("system", list(FP32))
def test_every_system_finds_what_the_reference_finds(system: str, parts: tuple[str, str], search: Search,
                                                     lengths: list[int] | None, tmp_path: Path) -> None:
    case = replace(trained(*parts), lengths=lengths)
    if not holds(system, case.sizes):
        pytest.skip(f"{system} has no such positions")
    if lengths and system == "ctranslate2" and search == BEAM:
        pytest.skip("CTranslate2 shares out the probability of an end that it forbids")
    job = case.job(search, one_by_one=False)
    decode = prepared(case, job, tmp_path, system)
    if not is_exact(system, FP32[system], job):
        pytest.skip(f"{system} does not search the same space")
    found = decode(job.calls, 40)
    gate = Gate(case.model, job, None)
    assert len(set(map(len, gate.reference))) > 1
    assert gate.judge([found[i] for i in range(SENTENCES)], exact=True).failures == []


@pytest.mark.parametrize("kind", ["float32", "int8"])
@pytest.mark.parametrize("library", ["", " mkl"])
@pytest.mark.parametrize(("one_by_one", "workers"), [(False, {"1x2", "2x1"}), (True, {"1x1", "1x2"})])
def test_ctranslate2_is_tried_with_every_share_of_two_threads(kind: str, library: str, one_by_one: bool,
                                                              workers: set[str]) -> None:
    tried = {setting for system, setting in SYSTEMS if system == "ctranslate2" and has_row(setting, False, one_by_one)}
    assert {one for one in WORKERS if f"{kind} {one}{library}" in tried} == workers


def test_the_gate_catches_a_wrong_output(case: Case) -> None:
    job = case.job(BEAM, one_by_one=False)
    gate = Gate(case.model, job, None)
    outputs = [list(ids) for ids in gate.reference]
    assert gate.judge(outputs, exact=True).passed
    outputs[3][1] = 4 + outputs[3][1] % 50
    outputs[5] = []
    for exact in (True, False):
        assert not gate.judge(outputs, exact).passed
    verdict = gate.judge(outputs, exact=True)
    assert verdict.unexplained == [3, 5]
    assert verdict.identical == 10 / 12


def test_the_gate_asks_for_bleu_where_there_are_references(case: Case) -> None:
    job = case.job(GREEDY, one_by_one=False)
    scores = iter([30.0, 29.9, 29.7])
    gate = Gate(case.model, job, lambda outputs: next(scores))
    assert gate.judge(gate.reference, exact=False).passed
    assert "BLEU 29.70" in gate.judge(gate.reference, exact=False).failures[0]


def test_outputs_that_differ_by_rounding_are_ties(case: Case) -> None:
    model = copy.deepcopy(case.model)
    first = Gate(model, case.job(GREEDY, one_by_one=False), None).reference[0][0]
    other = 4 if first != 4 else 5
    with torch.no_grad():  # two tokens that are always equally good
        model.target_embedding.weight[other] = model.target_embedding.weight[first]
    case = replace(case, model=model)
    for search in (GREEDY, BEAM):
        gate = Gate(model, case.job(search, one_by_one=False), None)
        outputs = [list(ids) for ids in gate.reference]
        outputs[0] = [{first: other, other: first}.get(token, token) for token in outputs[0]]
        verdict = gate.judge(outputs, exact=True)
        assert (verdict.failures, verdict.ties) == ([], 1)


@pytest.mark.parametrize(("position", "attention"), [("sinusoidal", "full"), ("t5", "window")])
def test_a_random_case_has_lengths_and_no_forbidden_token(position: str, attention: str) -> None:
    case = random_case("tiny", "captions", 12, position, attention)
    assert case.model.window_size == (64 if attention == "window" else None)
    assert all(p.any() for name, p in case.model.named_parameters() if ".position." in name)
    assert case.lengths is not None
    assert all(length % 4 == 2 for length in case.lengths)
    assert not case.model.target_embedding.weight[:EOS].any()


def test_the_calls_cover_every_sentence_once(case: Case) -> None:
    for one_by_one in (False, True):
        for lengths in ([5, 7] * 6, None):
            calls = replace(case, lengths=lengths).calls(one_by_one)
            assert sorted(i for call in calls for i in call.sentences) == list(range(SENTENCES))
            if lengths:
                assert all(lengths[i] == call.high for call in calls for i in call.sentences)
            assert (len(calls) == SENTENCES) == one_by_one


def test_groups_are_sorted_and_within_the_budget() -> None:
    found = groups([3, 9, 5, 5, 40], 20)
    assert found == [[4], [1, 2], [3, 0]]


def test_what_stands_behind_the_end_is_not_counted() -> None:
    assert until_eos([5, EOS, 7], 9) == [5, EOS]
    assert until_eos([5, 6, 7], 2) == [5, 6]


def test_the_products_are_those_that_torch_counts(case: Case) -> None:
    source, target = torch.randint(4, 60, (6, 7)), torch.randint(4, 60, (6, 1))
    with FlopCounterMode(display=False) as counter, torch.no_grad(), torch.nn.attention.sdpa_kernel(
            torch.nn.attention.SDPBackend.MATH):
        state = case.model.start(source)
        before = counter.get_total_flops()
        for _ in range(3):
            _, state = case.model.step(state, target[:, 0])
        after = counter.get_total_flops() - before
    assert before == flops(source_products(case.sizes, 6, 7))
    assert after == sum(flops(step_products(case.sizes, 6, 1, 7, t)) for t in (1, 2, 3))


def test_a_vocabulary_map_has_the_partners_and_the_frequent() -> None:
    def side(rows: list[list[int]]) -> Sequences:
        return Sequences(np.concatenate(rows).astype(np.int32), np.cumsum([0, *map(len, rows)]))

    corpus = Corpus(side([[4, 5], [4, 6], [5, 6]]), side([[14, 15, 9], [14, 16, 9], [15, 16, 9]]),
                    Report(3, 3, 0, 0, 0, 0))
    rules = vocabulary_map.rules(corpus, 20)
    assert [rules[token][0] for token in (4, 5, 6)] == [14, 15, 16]
    assert rules[None][0] == 9
