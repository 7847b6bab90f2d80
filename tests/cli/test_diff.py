"""`diff`: nothing where nothing differs; otherwise what, section by section."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file
from tests.cli.test_damage import sign

from pellucid.inspection.difference import difference
from pellucid.language import columns


def found(cli: Any, a: Path, b: Path) -> dict[str, Any]:
    outcome = cli("diff", a, b, "--json")
    assert outcome.code == 0, outcome.err
    told = json.loads(outcome.out)
    assert isinstance(told, dict)
    return told


def weights_of(run: Path) -> Path:
    return run / "checkpoints" / json.loads((run / "best.json").read_text())["checkpoint"] / "model.safetensors"


def replace_weights(run: Path, weights: dict[str, torch.Tensor]) -> None:
    path = weights_of(run)
    save_file(weights, path)
    sign(path.parent)


def test_a_copy_differs_in_nothing(cli: Any, run: Path, copy: Path) -> None:
    told = found(cli, run, copy)
    assert told["same"]
    assert told["configuration"] == told["data"] == told["environment"] == told["weights"]["unlike"] == []
    assert told["weights"]["distance"] == 0
    assert all(part["distance"] == 0 for part in told["weights"]["parts"])
    assert {row["key"] for row in told["curves"]} == {
        f"{kind} loss, {which}" for kind in ("validation", "training") for which in ("best", "last")}
    shown = cli("diff", run, copy)
    assert shown.code == 0
    assert "Nothing differs: configuration, data, environment, weights and losses are the same." in shown.out


def test_each_section_says_what_differs(cli: Any, run: Path, copy: Path) -> None:
    config = yaml.safe_load((copy / "config.yaml").read_text())
    config["decode"]["beam_size"] = 7
    (copy / "config.yaml").write_text(yaml.safe_dump(config))
    data = json.loads((copy / "data.json").read_text())
    data["train"] |= {"sha256": "0" * 64, "kept": 299, "path": "elsewhere"}
    (copy / "data.json").write_text(json.dumps(data))
    environment = json.loads((copy / "environment.json").read_text())
    environment["packages"]["torch"] = "1.0"
    (copy / "environment.json").write_text(json.dumps(environment))
    with (copy / "metrics.jsonl").open("a") as file:
        file.write('{"event": "validation", "step": 25, "loss": 0.001}\n')
    told = found(cli, run, copy)
    assert not told["same"]
    assert told["configuration"] == [{"key": "decode.beam_size", "a": 2, "b": 7}]
    assert {row["key"]: row["b"] for row in told["data"]} == {"train.sha256": "0" * 64, "train.kept": 299}
    assert {row["key"]: row["b"] for row in told["environment"]} == {"packages.torch": "1.0"}
    assert {row["key"] for row in told["curves"] if not row["same"]} == {"validation loss, best",
                                                                        "validation loss, last"}
    shown = cli("diff", run, copy).out
    for part in ("configuration: 1 differs", "decode.beam_size", "data: 2 figures differ", "packages.torch",
                 "weights: the same", "0.0010 at 25"):
        assert part in shown
    assert max(map(len, shown.splitlines()[3:])) <= 100


def test_distances_of_weights_by_hand(run: Path, copy: Path) -> None:
    """One part turned round is √2 away, one without anything left 1; another has a shape of its own, another is new."""
    weights = load_file(weights_of(run))
    changed = dict(weights)
    for name in weights:
        if name.startswith("encoder.layers.0.feed_forward"):
            changed[name] = -weights[name]
        elif name.startswith("encoder.layers.0.self_attention"):
            changed[name] = torch.zeros_like(weights[name])
    shaped = "decoder.layers.0.feed_forward.inner.weight"
    changed[shaped] = torch.zeros(3, 4)
    changed["extra.weight"] = torch.zeros(2)
    replace_weights(copy, changed)
    told = difference(run, copy)["weights"]
    distances = {part["part"]: part["distance"] for part in told["parts"]}
    assert distances["encoder.layers.0.feed_forward"] == pytest.approx(2**0.5)
    assert distances["encoder.layers.0.self_attention"] == pytest.approx(1)
    assert distances["decoder.layers.0.self_attention"] == 0
    assert told["unlike"] == [{"tensor": shaped, "a": list(weights[shaped].shape), "b": [3, 4]},
                              {"tensor": "extra.weight", "a": None, "b": [2]}]
    total = sum(part["parameters"] for part in told["parts"])
    assert total == sum(tensor.numel() for name, tensor in weights.items() if name != shaped)


@pytest.mark.parametrize("what", ["values", "an extra tensor", "losses", "the environment", "a tokenizer"])
def test_one_thing_that_differs_is_enough(run: Path, copy: Path, what: str) -> None:
    if what == "losses":
        with (copy / "metrics.jsonl").open("a") as file:
            file.write('{"event": "train", "step": 25, "loss": 0.001}\n')
    elif what == "a tokenizer":
        file_of_it = next(path for path in sorted((copy / "tokenizer").rglob("*")) if path.is_file())
        file_of_it.write_bytes(file_of_it.read_bytes() + b" ")
        (row,) = difference(run, copy)["data"]
        assert row["key"] == str(file_of_it.relative_to(copy))
    elif what == "the environment":
        (copy / "environment.json").write_text("{}")
    else:
        weights = load_file(weights_of(run))
        if what == "values":
            next(iter(weights.values()))[0] += 1e-3
        replace_weights(copy, weights | ({"extra.weight": torch.zeros(2)} if what == "an extra tensor" else {}))
    assert not difference(run, copy)["same"]


def test_columns_hold_the_longest_name(cli: Any, run: Path, copy: Path) -> None:
    """A tensor that is not in both has a longer name than any part."""
    weights = load_file(weights_of(run))
    replace_weights(copy, {name: weights[name] for name in weights if ".cross_attention." not in name} |
                    {name: -weights[name] for name in weights if ".self_attention." in name})
    told = cli("diff", run, copy).out.splitlines()
    table = told[next(i for i, line in enumerate(told) if line.split() == ["part", "parameters", "distance"]):
                 next(i for i, line in enumerate(told) if line.startswith("losses"))]
    assert any(len(line.split()[0]) > 36 for line in table)
    assert {line.rindex(line.split()[-1]) for line in table if "not there" not in line} == {
        line.index("not there") for line in table if "not there" in line}


def test_long_values_are_told_from_where_they_part(cli: Any, copy: Path, tmp_path: Path) -> None:
    """And what stands behind Chinese stands where it does behind other values."""
    data = {"a": {"sha256": f"/data/{'corpus/' * 9}old.tsv", "fields": "中文语料/古文观止.tsv", "kept": 1},
            "b": {"sha256": f"/data/{'corpus/' * 9}new.tsv", "fields": "poems.tsv", "kept": 2}}
    other = shutil.copytree(copy, tmp_path / "other")
    for folder, side in ((copy, "a"), (other, "b")):
        (folder / "data.json").write_text(json.dumps({"train": data[side]}))
    lines = {line.split()[0]: line for line in cli("diff", copy, other).out.splitlines() if line.startswith("  train.")}
    assert lines["train.sha256"].split() == ["train.sha256", "…/corpus/old.tsv", "…/corpus/new.tsv"]
    assert {columns(line[: line.rindex(" ")]) for line in lines.values()} == {2 + 36 + 1 + 28}
    assert "中文语料/古文观止.tsv" in lines["train.fields"]


def test_what_a_terminal_would_obey_is_told_as_blanks(cli: Any, run: Path, copy: Path) -> None:
    """In a run that somebody else has made, and in the list of such runs."""
    environment = json.loads((copy / "environment.json").read_text())
    environment["packages"] |= {"torch": "1\x1b[2J0", "a\x1b]0;b": "1"}
    (copy / "environment.json").write_text(json.dumps(environment))
    best = json.loads((copy / "best.json").read_text())
    (copy / "best.json").write_text(json.dumps({**best, "monitor": "\x1b[31mloss"}))
    shown = cli("diff", run, copy).out + cli("runs", copy).out
    assert "1 [2J0" in shown
    assert "[31mloss" in shown
    assert "\x1b" not in shown


def test_a_run_that_has_only_begun_has_no_weights(cli: Any, run: Path, copy: Path) -> None:
    (copy / "best.json").unlink()
    told = found(cli, run, copy)
    assert not told["same"]
    assert told["weights"]["b"] is None
    assert "weights: b has none yet" in cli("diff", run, copy).out
    assert "weights: a has none yet" in cli("diff", copy, run).out
    shutil.copytree(copy, copy.parent / "other")
    (copy / "data.json").unlink()
    assert "weights: a and b have none yet" in cli("diff", copy, copy.parent / "other").out


def test_mistakes_are_one_screen(cli: Any, run: Path, copy: Path, tmp_path: Path) -> None:
    cli("diff", run, tmp_path / "nowhere").says(4, "no such run folder", "nowhere")
    (copy / "data.json").write_text("[]")
    cli("diff", run, copy).says(4, "data.json is damaged")
    (copy / "data.json").write_text("{}")
    best = (copy / "best.json").read_text()
    (copy / "best.json").write_text('{"checkpoint": "../../elsewhere"}')
    cli("diff", run, copy).says(4, "best.json is damaged")
    (copy / "best.json").write_text(best)
    content = weights_of(copy).read_bytes()
    for damaged in (content[:-1] + bytes([content[-1] ^ 1]), b"nothing"):
        weights_of(copy).write_bytes(damaged)
        cli("diff", run, copy).says(4, "model.safetensors")
