"""`plan`: numbers that add up, with data and without, and what it says of a memory."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from pellucid.cli.sizes import in_words, on_disk, read_bytes, read_rate
from pellucid.doctor.busy import Others
from pellucid.plan.plan import Plan, plan

KEYS = {"parameters", "flops", "updates", "memory", "precision", "kernels", "disk", "time", "fit", "assumptions",
        "notes", "world"}


def planned(cli: Any, *words: object) -> dict[str, Any]:
    outcome = cli("plan", *words, "--no-calibration", "--json")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert found.keys() == KEYS
    return dict(found)


def test_a_plan_with_data_adds_up(cli: Any, tiny: Path, run: Path) -> None:
    found = planned(cli, tiny)
    parts = found["parameters"]["parts"]
    assert sum(part["parameters"] for part in parts) == found["parameters"]["total"]
    assert sum(part["share"] for part in parts) == pytest.approx(1)
    summary = json.loads((run.parent / "summary.json").read_text())
    assert found["parameters"]["total"] == summary["parameters"]
    for work in ("training", "decoding"):
        assert sum(found["memory"][work]["held_by"].values()) == found["memory"][work]["bytes"]
    assert found["memory"]["training"]["held_by"]["weights"] == 4 * found["parameters"]["total"]
    assert found["updates"]["total"] == 24
    tokens = (summary["source_tokens"] + summary["target_tokens"]) / 24
    assert found["updates"]["tokens"] == pytest.approx(tokens, rel=0.1)
    assert found["assumptions"] == []
    kept = [path.read_bytes() for path in sorted((run / "checkpoints").glob("step-*"))[-1].glob("*.safetensors")]
    numbers = sum(len(file) - 8 - int.from_bytes(file[:8], "little") for file in kept)  # without their headers
    assert found["disk"]["a checkpoint"] == pytest.approx(numbers, rel=0.01)


def test_the_training_of_the_tokenizer_is_planned_where_it_holds_text(cli: Any, tiny: Path) -> None:
    assert planned(cli, tiny)["memory"]["tokenizer"] is None
    pieces = ("--tokenizer.kind", "sentencepiece", "--tokenizer.vocab_size", 20)
    memory = planned(cli, tiny, *pieces)["memory"]
    assert sum(memory["tokenizer"]["held_by"].values()) == memory["tokenizer"]["bytes"]
    assert memory["peak"] == max(("tokenizer", "training"), key=lambda step: memory[step]["bytes"])
    text = cli("plan", tiny, *pieces, "--no-calibration", "--memory", "1MB").out
    assert "Peak memory of the tokenizer's training" in text
    assert "lower tokenizer.sample_characters" in text


def test_a_plan_without_data_says_what_it_assumes(cli: Any, tiny: Path) -> None:
    found = planned(cli, tiny, "--data.train", "nowhere.tsv", "--tokenizer.vocab_size", 500)
    assert found["updates"]["per_epoch"] is None
    assert any("nowhere.tsv" in line or "read" in line for line in found["assumptions"])
    assert any("500 tokens" in line for line in found["assumptions"])
    assert found["memory"]["training"]["bytes"] > 0


def test_a_classifier_is_planned(cli: Any, tiny_classifier: Path) -> None:
    found = planned(cli, tiny_classifier)
    assert found["memory"]["decoding"]["batch"]["target"] == 1
    assert "cache" not in found["memory"]["decoding"]["held_by"]


@pytest.fixture
def one_plan(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """Quickly calibrated, the first plan is that of every command after it, until the list is emptied."""
    for module in ("calibration", "pace"):
        monkeypatch.setattr(f"pellucid.plan.{module}.SECONDS", 0.1)
    made = list[Plan]()

    def once(*arguments: Any) -> Plan:
        if not made:
            made.append(plan(*arguments))
        return made[0]

    monkeypatch.setattr("pellucid.plan.plan.plan", once)
    return made


def test_people_read_it(cli: Any, tiny: Path, one_plan: list[Plan], monkeypatch: pytest.MonkeyPatch) -> None:
    for width in (40, 60, 80):
        monkeypatch.setenv("COLUMNS", str(width))
        text = cli("plan", tiny, "--memory", "64GiB").out
        assert "Peak memory of training" in text
        assert "tokens a second, here" in text
        assert "In 64.00 GiB\n  train.batch_sentences 16 fits\n" in text
        assert "the largest tried that fits: --train.batch_sentences 256" in " ".join(text.split())
        assert max(map(len, text.splitlines())) <= width
        assert ("█" in text) == (width == 80)
        assert width > 40 or "…" not in text
    assert one_plan


def test_a_busy_machine_is_told(cli: Any, tiny: Path, one_plan: list[Plan], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for others, told in ((0.337, "34 %"), (0.02, None), (None, None)):
        one_plan.clear()
        monkeypatch.setattr("pellucid.plan.calibration.watched", lambda others=others: nullcontext(Others(others)))
        text = " ".join(cli("plan", tiny).out.split())
        busy = "the machine is busy: other processes take about 34 % of it; the time is that of a machine as busy"
        assert (busy in text) == (told is not None)
        assert "by 1 worker of one thread" in text
        time = json.loads(cli("plan", tiny, "--json").out)["time"]
        assert time["others"] == others
        assert time["workers"] == "1 worker of one thread"


def test_a_memory_that_is_too_small(cli: Any, tiny: Path) -> None:
    found = planned(cli, tiny, "--memory", "1MB")
    assert found["fit"] == {"memory": 10**6, "key": "batch_sentences", "configured": 16, "fits": False,
                            "largest": None, "least": found["memory"]["training"]["bytes"]}


def test_mistakes(cli: Any, tiny: Path) -> None:
    cli("plan", tiny, "--memory", "plenty").says(2, "--memory", "8GiB")
    cli("plan", tiny, "--model.position", "nonsense").says(2, "model.position", "sinusoidal")
    cli("plan", "no-such-recipe").says(2, "no-such-recipe")
    cli("plan", tiny, "--retrieval.k", "2").says(2, "passages", "--retrieval.from none")


def test_a_run_of_many_ranks_is_planned_for_one_process_too(cli: Any, tiny: Path) -> None:
    divided, whole = planned(cli, tiny, "--train.shard", 2), planned(cli, tiny)
    assert (divided["flops"], divided["updates"]) == (whole["flops"], whole["updates"])
    assert divided["memory"]["training"]["held_by"]["weights"] == whole["memory"]["training"]["held_by"]["weights"]


def test_a_world_adds_up(cli: Any, tiny: Path) -> None:
    world = planned(cli, tiny, "--world", 8, "--train.accumulate", 6)["world"]
    assert (world["size"], world["accumulate"], world["measured"], world["predicted"]) == (8, 8, None, None)
    assert any("8, the next multiple of 8 ranks, in place of 6: an update has 1.33 times" in line
               for line in world["assumed"])
    assert sum(world["memory"]["held_by"].values()) == world["memory"]["bytes"]
    assert 0 < world["dealt"]["idle"] < 0.5
    many = planned(cli, tiny, "--world", 1024, "--gpu", "h-200", "--network", "100Gb/s", "--per-host", 4)["world"]
    predicted = many["predicted"]
    assert sum(predicted[key] for key in ("computing", "waiting", "exchanging", "optimizer")) == pytest.approx(1)
    assert predicted["tokens_per_second"] * predicted["seconds_per_update"] == pytest.approx(many["tokens_per_update"])
    assert 0 < predicted["strong_efficiency"] <= 1
    assert 0 < predicted["weak_efficiency"] <= 1
    assert (many["gpu"], many["network"], many["per_host"], many["measured"]) == ("H200", 12.5e9, 4, None)
    assert "256 hosts of 4 ranks, each of which sends 12.5 GB/s to others" in many["assumed"]


def test_people_read_of_a_world(cli: Any, tiny: Path, one_plan: list[Plan], monkeypatch: pytest.MonkeyPatch) -> None:
    for width in (40, 60):
        monkeypatch.setenv("COLUMNS", str(width))
        text = cli("plan", tiny, "--world", "3", "--train.accumulate", "3", "--per-host", "2").out
        measured, assumed = text.index("Measured here, 2 ranks of one thread"), text.index("Assumed of the world")
        assert text.index("A world of 3 ranks (DDP, 2 a host)") < text.index("strong efficiency") < measured < assumed
        assert "2 hosts of 2 ranks" in text
        assert max(map(len, text.splitlines())) <= width
    assert one_plan


def test_mistakes_about_a_world_are_told_before_data_is_read(cli: Any, tiny: Path,
                                                             monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.plan.plan.look_at_machine", None)
    cli("plan", tiny, "--world", "0").says(2, "--world", "1 to 1,024")
    cli("plan", tiny, "--world", "2000").says(2, "--world", "1 to 1,024")
    cli("plan", tiny, "--world", "3", "--train.shard", "2").says(2, "train.shard", "--train.shard 1 or 3")
    cli("plan", tiny, "--world", "8", "--gpu", "H9").says(2, "--gpu", "H100")
    cli("plan", tiny, "--world", "8", "--per-host", "0").says(2, "--per-host", "1 to ")
    cli("plan", tiny, "--world", "8", "--per-host", "5000").says(2, "--per-host", "timed here")
    cli("plan", tiny, "--gpu", "H100").says(2, "--gpu", "--world")
    for rate in ("fast", "40", "40GB", "0GB/s", "-1GB/s"):
        cli("plan", tiny, "--world", "8", f"--network={rate}").says(2, "--network", "40GB/s")


def test_rates() -> None:
    assert [read_rate(text) for text in ("40GB/s", "100Gbit/s", "100 Gb/s", "100Gbps", "1.5 MiB/s")] == [
        40e9, 12.5e9, 12.5e9, 12.5e9, 1.5 * 2**20]


def test_sizes() -> None:
    assert [read_bytes(text) for text in ("8GiB", "600MB", "1.5k", "2 gib", "512")] == [
        8 * 2**30, 600 * 10**6, 1500, 2 * 2**30, 512]
    assert [in_words(size) for size in (512, 1536, 5 * 2**20, 1.5 * 2**30)] == ["512 bytes", "1.5 KiB", "5 MiB",
                                                                               "1.50 GiB"]
    assert [in_words(size) for size in (999.4 * 2**10, 999.6 * 2**10, 999.9 * 2**20)] == ["999 KiB", "0.976 MiB",
                                                                                         "0.98 GiB"]  # not 1e+03 KiB
    assert [on_disk(size) for size in (999, 1_536_000, 123_400, 999_400, 999_600, 999_700_000)] == [
        "999 bytes", "1.5 MB", "123 KB", "999 KB", "1.0 MB", "1.0 GB"]
