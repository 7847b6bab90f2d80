"""Packed weights without torch say what the model says, and are used only where they are that model's."""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pellucid import cache
from pellucid.config import DecodeConfig, ModelConfig
from pellucid.config.mapping import from_mapping
from pellucid.engine import kept
from pellucid.engine.engine import Engine
from pellucid.engine.frozen import Frozen, Refusal, check, read, save
from pellucid.engine.kept import KeptWeights
from pellucid.engine.layout import Operation
from pellucid.errors import CheckpointError, PellucidWarning
from pellucid.files import sha256, write_folder
from pellucid.kernels import calls
from pellucid.model.build import build
from pellucid.runs.run import WEIGHTS, Run, Weights, load
from pellucid.search.options import Hypothesis, SearchOptions, Specials
from pellucid.search.search import search
from pellucid.train import train as train_run
from pellucid.train.journal import Reporter

pytestmark = pytest.mark.usefixtures("compiled_kernels")

V = 40
SPECIALS = Specials(bos=2, eos=3, pad=0)
PARTS: list[dict[str, Any]] = [
    {}, {"position": "learned", "residual": "post"}, {"norm": "rmsnorm", "feed_forward": "swiglu"},
    {"position": "none", "norm": "stdnorm", "residual": "none", "tie_embeddings": False},
    {"position": "rotary", "d_key": 18}, {"position": "t5", "attention": "window", "window": 1},
    {"position": "transformer_xl"}, {"embedding_norm": True, "output_bias": True, "biases": False}]
SEARCHES = [SearchOptions(beam_size=1, max_length=9), SearchOptions(beam_size=3, n_best=2, max_length=9, min_length=2)]
SOURCES = [[5, 6, 7, 8, 3], [9, 3], [11, 4, 39, 3]]
RUN: dict[str, Any] = {
    "data": {"generated": {"task": "reverse", "train": 200, "validation": 10, "test": 5, "symbols": 5, "min_length": 2,
                           "max_length": 5}},
    "tokenizer": {"kind": "word"},
    "model": {"d_model": 32, "n_heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0,
              "max_length": 8},
    "train": {"steps": 40, "batch_tokens": 100, "warmup_steps": 5, "learning_rate": 0.01, "validate_every": 20},
    "decode": {"beam_size": 2, "max_length": 8},
}
TEXTS = ["1 2 3", "", "5 5", "4 1 2 3 5"]


def engine_of(precision: str, parts: dict[str, Any]) -> Engine:
    torch.manual_seed(1)
    config = ModelConfig(d_model=64, n_heads=2, d_ff=96, encoder_layers=1, decoder_layers=2, max_length=24, **parts)
    model = build(config, V, V, shared=True).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    return Engine(model, precision)


def found_by(frozen: Frozen, options: SearchOptions) -> list[list[Hypothesis]]:
    lengths = np.array([len(ids) for ids in SOURCES])
    return frozen.search(np.concatenate(SOURCES).astype(np.int64), lengths, options, SPECIALS)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
@pytest.mark.parametrize("parts", PARTS, ids=lambda parts: "-".join(map(str, parts.values())) or "default")
def test_what_is_read_back_finds_what_the_engine_finds(precision: str, parts: dict[str, Any], tmp_path: Path) -> None:
    engine = engine_of(precision, parts)
    save(engine.frozen(24, 24), tmp_path / "kept")
    frozen = read(tmp_path / "kept", calls.call)
    assert frozen is not None
    longest = max(map(len, SOURCES))
    ids = torch.tensor([[*ids, *[0] * (longest - len(ids))] for ids in SOURCES])
    for options in SEARCHES:
        assert found_by(frozen, options) == search(engine, (ids, ids != 0), 3, options, SPECIALS)


@pytest.mark.parametrize("damage", ["weights", "decoder", "encoder", "about.json", "manifest.json"])
def test_what_is_damaged_is_not_read_and_what_is_not_there_is_not_damaged(damage: str, tmp_path: Path) -> None:
    assert read(tmp_path / "kept", calls.call) is None
    save(engine_of("bf16", {}).frozen(24, 24), tmp_path / "kept")
    file = tmp_path / "kept" / damage
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.warns(PellucidWarning, match="damaged or forged, and made anew"):
        assert read(tmp_path / "kept", calls.call) is None
    file.unlink()
    with pytest.warns(PellucidWarning, match="damaged or forged, and made anew"):
        assert read(tmp_path / "kept", calls.call) is None


def test_what_was_read_can_be_saved_again(tmp_path: Path) -> None:
    save(engine_of("int8", {}).frozen(24, 24), tmp_path / "a")
    frozen = read(tmp_path / "a", calls.call)
    assert frozen is not None
    save(frozen, tmp_path / "b")
    assert (tmp_path / "a" / "manifest.json").read_text() == (tmp_path / "b" / "manifest.json").read_text()


def forged(folder: Path, forge: Callable[[dict[str, Any]], Any]) -> Frozen | None:
    """What is read of a folder whose about.json has been changed, its digest too."""
    about = json.loads((folder / "about.json").read_text())
    forge(about)
    (folder / "about.json").write_text(json.dumps(about))
    sign(folder)
    return read(folder, calls.call)


def sign(folder: Path) -> None:
    """Writes the manifest that fits the files."""
    for manifest in folder.glob("manifest.json"):
        manifest.unlink()
    contents = {path.name: path.read_bytes() for path in folder.iterdir()}
    write_folder(folder, lambda place: [(place / name).write_bytes(data) for name, data in contents.items()] and None)


FORGERIES: dict[str, list[Callable[[dict[str, Any]], Any]]] = {
    "other keys": [lambda a: a.update(more=1), lambda a: a.pop("typed"), dict.clear],
    "no numbers": [lambda a: a.update(layers=0), lambda a: a.update(layers=2.0), lambda a: a.update(width=True),
                   lambda a: a.update(width="64"), lambda a: a.update(blocks={}),
                   lambda a: a["blocks"].__setitem__(3, -64), lambda a: a["blocks"].append(None)],
    "the type": [lambda a: a.update(typed="float64"), lambda a: a.update(typed=["float32"])],
    "not as long": [lambda a: a.update(blocks=[]), lambda a: a["blocks"].pop(), lambda a: a["blocks"].append(64),
                    lambda a: a["blocks"].__setitem__(-1, 2**62)],
    "each layer is remembered": [lambda a: a.update(layers=3)],
    "shape|reshape": [lambda a: a.update(width=2**40), lambda a: a.update(width=7)],
    "as wide as the model": [lambda a: a.update(width=32)],
    "as are read": [lambda a: a["blocks"].__setitem__(slice(3, 5), [a["blocks"][3] - 64, a["blocks"][4] + 64])],
}


@pytest.mark.parametrize("reason", FORGERIES)
def test_what_is_said_of_an_engine_is_not_believed(reason: str, tmp_path: Path) -> None:
    save(engine_of("fp32", {}).frozen(24, 24), tmp_path / "kept")
    for number, forge in enumerate(FORGERIES[reason]):
        shutil.copytree(tmp_path / "kept", tmp_path / str(number))
        with pytest.warns(PellucidWarning, match=reason):
            assert forged(tmp_path / str(number), forge) is None
    assert forged(tmp_path / "kept", lambda about: None) is not None
    (tmp_path / "kept" / "about.json").write_text("[]")
    sign(tmp_path / "kept")
    with pytest.warns(PellucidWarning, match="other keys"):
        assert read(tmp_path / "kept", calls.call) is None


@pytest.mark.parametrize("places", ["source_places", "target_places"])
def test_each_stack_has_tables_for_its_own_positions(places: str, tmp_path: Path) -> None:
    frozen = engine_of("fp32", {"position": "rotary"}).frozen(24, 24)
    longer = np.zeros((1000, frozen.source_places.shape[1]), np.float32)
    save(replace(frozen, **{places: longer}), tmp_path / "kept")
    with pytest.warns(PellucidWarning, match="each position has its turn"):
        assert read(tmp_path / "kept", calls.call) is None


@pytest.mark.parametrize("name", ["encoder", "decoder"])
def test_operations_are_whole_and_point_to_what_there_is(name: str, tmp_path: Path) -> None:
    save(engine_of("fp32", {}).frozen(24, 24), tmp_path / "kept")
    content = (tmp_path / "kept" / name).read_bytes()
    operations = (Operation * (len(content) // ctypes.sizeof(Operation))).from_buffer_copy(content)
    number, operations[0].weight = operations[0].weight, 2**62
    for wrong, reason in ((content[:-1], "bytes, of operations"), (content[:-8], "bytes, of operations"),
                          (b"", "a table"), (bytes(operations), f"points to a block {2**62} of")):
        (tmp_path / "kept" / name).write_bytes(wrong)
        sign(tmp_path / "kept")
        with pytest.warns(PellucidWarning, match=reason):
            assert read(tmp_path / "kept", calls.call) is None
    operations[0].weight = number
    (tmp_path / "kept" / name).write_bytes(operations)
    sign(tmp_path / "kept")
    assert read(tmp_path / "kept", calls.call) is not None


@pytest.mark.parametrize("token", [-1, V, 2**40])
def test_a_token_without_an_embedding_does_not_reach_the_kernel(token: int) -> None:
    frozen = replace(engine_of("fp32", {}).frozen(24, 24), call=lambda *arguments: pytest.fail("called"))
    with pytest.raises(IndexError, match="index out of range"):
        frozen.search(np.array([5, token, 3]), np.array([3]), SEARCHES[0], SPECIALS)


def test_no_damage_and_no_forgery_ends_the_process() -> None:
    """The promise's script with fewer cases, or with as many as PELLUCID_DAMAGED says."""
    count = os.environ.get("PELLUCID_DAMAGED", "200")
    script = Path(__file__).parents[1] / "promises" / "08_kept_engine.py"
    done = subprocess.run([sys.executable, str(script), "--count", count], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == [f"promise 08: {count} of {count}"], done.stdout + done.stderr


def test_no_scores_are_summed_where_none_are_asked_for() -> None:
    frozen = engine_of("fp32", {}).frozen(24, 24)
    for options in SEARCHES:
        with_scores, without = found_by(frozen, options), found_by(frozen, replace(options, scores=False))
        assert [[h.tokens for h in one] for one in without] == [[h.tokens for h in one] for one in with_scores]
        assert all(math.isnan(h.score) == (options.beam_size == 1) for one in without for h in one)


@pytest.mark.parametrize("scores", [True, False])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_no_numbers_are_left_to_the_search_by_steps(bad: float, scores: bool) -> None:
    engine = engine_of("fp32", {"position": "learned"})
    engine.target_places.first(24)[3] = bad
    with pytest.raises(Refusal, match="finite"):
        found_by(engine.frozen(24, 24), SearchOptions(beam_size=1, max_length=9, scores=scores))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, new_cache: Callable[[Path], str]) -> Iterator[Path]:
    """A run, trained for a second, and a cache of its own."""
    place = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PELLUCID_CACHE", new_cache(place / "cache"))
        train_run.train(from_mapping(RUN), place / "run", Reporter(io.StringIO()))
        yield place / "run"


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Nothing is kept yet, and nothing has been told."""
    cache._tell.cache_clear()
    engines = folder.parent / "cache" / "engines"
    shutil.rmtree(engines, ignore_errors=True)
    return engines


def asks_for_the_model(run: Run) -> bool:
    return not isinstance(run._model, Weights)


@pytest.mark.parametrize("options", [
    DecodeConfig(beam_size=1, max_length=8), DecodeConfig(beam_size=3, n_best=3, max_length=8, precision="int8")],
    ids=["greedy", "beam"])
def test_the_second_time_nobody_asks_for_the_model(options: DecodeConfig, folder: Path, empty: Path) -> None:
    first, second = load(folder), load(folder)
    expected = first.generate(TEXTS, options=options)
    assert asks_for_the_model(first)
    assert second.generate(TEXTS, options=options) == expected
    assert not asks_for_the_model(second)
    assert second.generate(TEXTS, options=replace(options, sample=True)) == first.generate(
        TEXTS, options=replace(options, sample=True))
    assert asks_for_the_model(second)  # the kernel draws no samples


def test_a_run_goes_on_with_its_place_when_the_process_goes_elsewhere(folder: Path, empty: Path, tmp_path: Path,
                                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    load(folder.name).generate(TEXTS)
    run = load(folder.name)
    monkeypatch.chdir(tmp_path)
    run.generate(TEXTS)
    assert not asks_for_the_model(run)
    assert len(list(empty.iterdir())) == 1


def test_with_kept_weights_no_torch_is_imported(folder: Path, empty: Path) -> None:
    program = ("import json, sys, pellucid; "
               f"found = pellucid.load({str(folder)!r}).generate({TEXTS!r}); "
               "print(json.dumps([[one.text, one.score] for one in found])); "
               "print('torch' in sys.modules)")
    texts, imported = zip(*(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                                           timeout=100).stdout.splitlines() for _ in range(2)), strict=True)
    assert imported == ("True", "False")
    assert texts[0] == texts[1]


def test_a_model_that_may_have_changed_is_asked_itself(folder: Path, empty: Path) -> None:
    load(folder).generate(TEXTS)
    run = load(folder)
    with torch.no_grad():
        for parameter in run.model.parameters():
            parameter.zero_()
    changed = run.generate(TEXTS)
    assert changed != load(folder).generate(TEXTS)
    assert load(folder).generate(TEXTS) == load(folder).generate(TEXTS)


def place_of(run: Run, **other: Any) -> KeptWeights:
    """Where its weights are kept, or would be, were one thing of it another one."""
    weights = run._model
    assert isinstance(weights, Weights)
    changed = Run(run.folder, other.get("config", run.config), other.get("tokenizers", run.tokenizers),
                  replace(weights, sha256=other.get("sha256", weights.sha256)))
    return changed._kept("auto")


def test_whatever_the_weights_depend_on_has_a_place_of_its_own(folder: Path, empty: Path,
                                                               monkeypatch: pytest.MonkeyPatch) -> None:
    load(folder).generate(TEXTS)
    run = load(folder)

    def is_there(**other: Any) -> bool:
        with contextlib.suppress(Refusal):
            return place_of(run, **other).read() is not None
        return False

    assert is_there()
    assert not is_there(sha256="0" * 64)
    assert not is_there(tokenizers=replace(run.tokenizers, shared=not run.tokenizers.shared))
    assert not is_there(config=replace(run.config, model=replace(run.config.model, norm="rmsnorm")))
    for name, value in (("_CODE", [*kept._CODE, "more"]), ("_DEVICES", [str(folder)])):
        with monkeypatch.context() as patch:
            patch.setattr(kept, name, value)
            assert not is_there()
    for name, value in (("PELLUCID_KERNELS", "plain"), ("ONEDNN_MAX_CPU_ISA", "AVX2")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert not is_there()
    monkeypatch.setenv("PELLUCID_OF_NO_IMPORTANCE", "1")
    assert is_there()


def test_what_is_damaged_is_made_again(folder: Path, empty: Path) -> None:
    expected = load(folder).generate(TEXTS)
    (weights,) = empty.rglob("weights")
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.warns(PellucidWarning, match="damaged or forged, and made anew"):
        assert load(folder).generate(TEXTS) == expected
    assert weights.read_bytes() == whole
    run = load(folder)
    assert run.generate(TEXTS) == expected
    assert not asks_for_the_model(run)


def test_an_engine_of_other_vocabularies_is_made_again(folder: Path, empty: Path) -> None:
    """Its tokens would be none of the tokenizer's."""
    expected = load(folder).generate(TEXTS)
    (weights,) = empty.rglob("weights")
    shutil.rmtree(weights.parent)
    save(engine_of("bf16", {}).frozen(24, 24), weights.parent)
    with pytest.warns(PellucidWarning, match="its vocabularies are not the tokenizers'"):
        assert load(folder).generate(TEXTS) == expected


def test_a_cache_that_others_may_write_to_is_not_read(folder: Path, empty: Path) -> None:
    expected = load(folder).generate(TEXTS)
    (weights,) = empty.rglob("weights")
    weights.parents[1].chmod(0o777)
    run = load(folder)
    with pytest.warns(PellucidWarning, match="others may write to"):
        assert run.generate(TEXTS) == expected
    assert asks_for_the_model(run)
    assert not list(run._kept("auto")._all.iterdir())  # nothing is packed for a folder that goes with this process
    weights.parents[1].chmod(0o700)


def test_only_the_last_few_are_kept(folder: Path, empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were used last."""
    places, used = dict[int, Path](), list[int]()
    for number in (0, 1, 2, 0, 3, 4, 0, 5, 3, 6):
        monkeypatch.setattr(kept, "_CODE", [str(number)])
        load(folder).generate(TEXTS)
        found = {weights.parent for weights in empty.rglob("weights")}
        used = [*(other for other in used if other != number), number][-3:]
        places |= dict.fromkeys({number} - places.keys(), *(found - set(places.values())))
        assert found == {places[each] for each in used}
        for place in found:  # an hour later
            os.utime(place, (place.stat().st_mtime - 3600,) * 2)


def test_what_is_kept_is_packed_once(folder: Path, empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = list[Path]()

    def noted(frozen: Frozen, place: Path) -> None:
        saved.append(place)
        save(frozen, place)

    monkeypatch.setattr(kept, "save", noted)
    samples, first = DecodeConfig(sample=True, max_length=4), load(folder)  # which take no kept weights
    for run in (first, first, load(folder)):
        run.generate(TEXTS, options=samples)
    assert len(saved) == 1


def test_what_another_process_packs_stays_and_what_it_left_goes(folder: Path, empty: Path,
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    load(folder).generate(TEXTS)
    (place,) = empty.iterdir()
    packed, left = (place / f".tmp-{letter * 32}-{'0' * 32}" for letter in "ab")
    for scratch, seconds in ((packed, 3500.0), (left, 3700.0)):
        scratch.mkdir()
        (scratch / "weights").write_bytes(b"half")
        os.utime(scratch, (time.time() - seconds,) * 2)
    for number in range(4):
        with monkeypatch.context() as patch:
            patch.setattr(kept, "_CODE", [str(number)])
            load(folder).generate(TEXTS)
        assert (packed / "weights").read_bytes() == b"half"
        assert not left.exists()
    assert len([path for path in place.iterdir() if path != packed]) == 3  # whole ones


def test_weights_that_are_replaced_in_between_are_neither_read_nor_kept(folder: Path, empty: Path,
                                                                        tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "run")
    run = load(tmp_path / "run")
    place = place_of(run)
    weights = run._model
    assert isinstance(weights, Weights)
    file = weights.folder / WEIGHTS
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    manifest = file.parent / "manifest.json"
    manifest.write_text(manifest.read_text().replace(weights.sha256, sha256(file)))
    with pytest.raises(CheckpointError, match="replaced"):
        run.generate(TEXTS)
    place.keep(lambda source, target: pytest.fail("kept"))
    assert not list(empty.rglob("weights"))


def test_a_long_source_or_a_prefix_goes_to_the_model(folder: Path, empty: Path,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    expected = load(folder).generate(TEXTS)
    shutil.rmtree(empty)
    monkeypatch.setattr(kept, "LONGEST_SOURCE", 3)
    assert load(folder).generate(TEXTS) == expected
    run = load(folder)
    assert run.generate([TEXTS[2]]) == [expected[2]]  # two symbols and an end
    assert not asks_for_the_model(run)
    assert run.generate([TEXTS[3]]) == [expected[3]]
    assert asks_for_the_model(run)
    run = load(folder)
    assert run.generate(["1 2"], prefixes=["4 4"])[0].text.startswith("4 4")
    assert asks_for_the_model(run)


def test_where_the_cache_cannot_be_written_the_texts_are_the_same(folder: Path, empty: Path) -> None:
    expected = load(folder).generate(TEXTS)
    shutil.rmtree(empty)
    empty.write_text("in the way")
    run = load(folder)
    with pytest.warns(PellucidWarning, match="exists"):
        assert run.generate(TEXTS) == expected
    empty.unlink()


def test_where_a_logit_is_no_number_the_model_takes_over(folder: Path, empty: Path) -> None:
    """Its search by steps knows what to say of it."""
    expected = load(folder).generate(TEXTS)
    run = load(folder)
    place = run._kept("auto")
    frozen = place.read()[0]
    places = frozen.target_places.copy()
    places[1] = math.nan
    place._frozen = replace(frozen, target_places=places)
    assert run.route().decoder == "kept engine"
    assert run.generate(TEXTS) == expected
    assert asks_for_the_model(run)


def test_what_the_kernel_does_not_search_is_named() -> None:
    frozen = engine_of("fp32", {}).frozen(24, 24)
    assert frozen.vocabulary == V
    check(SearchOptions(max_length=24), False, SPECIALS, V, 24)
    for reason, options in {"longer than 24": SearchOptions(max_length=25), "random": SearchOptions(sample=True),
                            "n-grams": SearchOptions(no_repeat_ngram=2),
                            "vocabulary": SearchOptions(beam_size=20, max_length=9)}.items():
        with pytest.raises(Refusal, match=reason):
            check(options, False, SPECIALS, V, 24)
    with pytest.raises(Refusal, match="prefixes"):
        check(SearchOptions(max_length=24), True, SPECIALS, V, 24)
    for specials in (Specials(bos=V), Specials(eos=V), Specials(pad=V)):
        with pytest.raises(Refusal, match="vocabulary"):
            check(SearchOptions(max_length=24), False, specials, V, 24)
