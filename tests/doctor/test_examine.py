"""Every finding about data on a corpus that has it, and none on one that has not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pellucid.config import RunConfig, Split
from pellucid.config.mapping import from_mapping, to_mapping
from pellucid.data.division import Division
from pellucid.data.splits import open_splits
from pellucid.doctor.examine import examine
from pellucid.doctor.finding import Finding

Lines = tuple[list[str], list[str]]
MakeUp = Callable[[int, int], Lines]
COUNT = 900


class Desk:
    """Clean splits that a test may spoil, then examine."""

    def __init__(self, folder: Path, make_up: MakeUp) -> None:
        self.folder = folder
        self.lines = {"train": make_up(COUNT, 1), "validation": make_up(60, 2), "test": make_up(60, 3)}
        self.raw: dict[str, bytes] = {}

    def config(self, over: dict[str, Any] | None = None) -> RunConfig:
        mapping: dict[str, Any] = {"tokenizer": {"kind": "word"}, "model": {"max_length": 100}, "data": {}}
        for name, sides in self.lines.items():
            for side, lines in zip(("source", "target"), sides, strict=True):
                path = self.folder / f"{name}.{side}"
                path.write_bytes(self.raw.get(path.name, "".join(line + "\n" for line in lines).encode()))
                mapping["data"].setdefault(name, {})[side] = str(path)
        return from_mapping(mapping | (over or {}))

    def findings(self, config: RunConfig | None = None) -> dict[str, Finding]:
        """By kind; those that warn of nothing are left out."""
        config = config or self.config()
        report = examine(config, open_splits(config, self.folder), lambda: None, lambda line: None)
        return {f.kind: f for f in report.findings if f.kind not in ("batch_size", "vocabulary_size")}


@pytest.fixture
def desk(tmp_path: Path, made_up: MakeUp) -> Desk:
    return Desk(tmp_path, made_up)


def places(finding: Finding) -> list[str]:
    return [example.place.rsplit("/", 1)[1] for example in finding.examples]


def test_a_clean_corpus_has_no_findings(desk: Desk) -> None:
    assert desk.findings() == {}


def test_a_slip(desk: Desk) -> None:
    del desk.lines["train"][0][300]
    found = desk.findings()
    assert set(found) == {"line_counts", "shifted"}
    assert found["shifted"].severity == "broken"
    assert int(places(found["shifted"])[0].removeprefix("train.source:")) in (300, 301, 302)
    assert "belongs to line n+1" in found["shifted"].examples[0].texts[0]
    assert found["shifted"].count == pytest.approx(COUNT - 301, abs=2)
    assert "899 lines and the target 900" in found["line_counts"].what


def spoil(desk: Desk, kind: str) -> list[int]:
    """Spoils six lines of the training data; their numbers."""
    source, target = desk.lines["train"]
    chosen = sorted(Random(kind).sample(range(COUNT), 6))
    others = [target[i] for i in chosen]
    for at, i in enumerate(chosen):
        if kind == "swapped":
            source[i], target[i] = target[i], source[i]
        elif kind == "copied":
            target[i] = source[i]
        elif kind == "one_side_twice":
            target[i] = source[i] + " !"
        elif kind == "empty":
            (source if at % 2 else target)[i] = " " * at
        elif kind == "mojibake":
            target[i] += " fÃ¼r"
        elif kind == "replacement_character":
            source[i] += " f\ufffdr"
        elif kind == "control_character":
            source[i] = source[i][:5] + "\x07" + source[i][5:]
        elif kind == "foreign_script":
            source[i] = "на улице стоят люди и смотрят на море"
        elif kind == "strange_language":
            source[i] = " ".join("".join(Random(f"{i} {n}").choices("qwhxvyjcz", k=6)) for n in range(7))
        elif kind == "length_ratio":
            target[i] = " ".join([target[i]] * 5)
        elif kind == "misaligned":
            target[i] = others[at - 1]
    return [i + 1 for i in chosen]


@pytest.mark.parametrize("kind", ["swapped", "copied", "one_side_twice", "empty", "mojibake", "replacement_character",
                                  "control_character", "foreign_script", "strange_language", "length_ratio",
                                  "misaligned"])
def test_single_lines(desk: Desk, kind: str) -> None:
    numbers = spoil(desk, kind)
    found = desk.findings()
    assert set(found) == {kind}
    assert (found[kind].count, found[kind].total, found[kind].where) == (6, COUNT, "train")
    shown = [int(place.split(":")[1]) for place in places(found[kind])]
    assert set(shown) < set(numbers) if kind == "misaligned" else shown == numbers[:3]  # the worst, or the first
    assert found[kind].severity == ("note" if kind == "misaligned" else "warning")


def test_sides_swapped_in_a_whole_split(desk: Desk) -> None:
    desk.lines["validation"] = desk.lines["validation"][::-1]
    found = desk.findings()
    assert set(found) == {"swapped"}
    assert (found["swapped"].severity, found["swapped"].where, found["swapped"].count) == ("broken", "validation", 60)


@pytest.mark.parametrize("count", [1, 2, 3, 64, 65, 1025])
def test_data_of_any_size(desk: Desk, made_up: MakeUp, count: int) -> None:
    desk.lines["train"] = made_up(count, 1)
    assert not set(desk.findings()) - {"unknown_tokens"}


def test_bytes(desk: Desk) -> None:
    source, target = desk.lines["train"]
    desk.raw["train.target"] = "".join(line + "\n" for line in target).encode("cp1252", "replace")
    desk.raw["train.source"] = b"\xef\xbb\xbf" + "".join(line + "\r\n" for line in source).encode()
    found = desk.findings()
    assert {"encoding", "carriage_return", "byte_order_mark"} <= set(found)
    assert found["encoding"].severity == "broken"
    assert places(found["encoding"])[0].startswith("train.target:")
    assert found["carriage_return"].count == COUNT
    assert places(found["byte_order_mark"]) == ["train.source:1"]


def test_repeats_and_leaks(desk: Desk) -> None:
    source, target = desk.lines["train"]
    for i in range(4):
        source.append(desk.lines["test"][0][i])
        target.append(desk.lines["test"][1][i])
        source.append(desk.lines["test"][0][10 + i].upper())
        target.append(desk.lines["test"][1][10 + i] + " .")
    source += source[:60]
    target += target[:60]
    found = desk.findings()
    assert set(found) == {"duplicates", "leak", "leak_normalised"}
    assert (found["duplicates"].count, found["duplicates"].severity) == (60, "warning")
    assert places(found["duplicates"])[0] == f"train.source:{COUNT + 9}"
    for kind, first in (("leak", 1), ("leak_normalised", 11)):
        assert (found[kind].count, found[kind].total, found[kind].where) == (4, 60, "test in train")
        assert places(found[kind])[0] == f"test.source:{first}"
        assert found[kind].severity == "broken"  # one in fifteen


def test_shares_of_one_file_are_not_each_others_leaks(desk: Desk) -> None:
    config = desk.config()
    whole = replace(config, data=replace(config.data, validation=None, test=None, validation_share=0.2))
    assert desk.findings(whole) == {}


def test_a_share_that_nothing_falls_to_is_told(desk: Desk) -> None:
    source, target = desk.lines["train"]
    desk.lines["train"] = [source[0]] * 9, [target[0]] * 9
    config = desk.config()
    found = desk.findings(replace(config, data=replace(config.data, validation=None)))
    assert (found["unreadable"].severity, found["unreadable"].where) in (("broken", "train"), ("broken", "validation"))
    assert "no pair falls to" in found["unreadable"].what


def test_what_max_length_cuts_and_what_cannot_be_read(desk: Desk) -> None:
    found = desk.findings(desk.config({"model": {"max_length": 12}}))
    assert set(found) == {"too_long"}  # twelve words and eos
    assert found["too_long"].severity == "warning"
    config = desk.config()
    gone = replace(config, data=replace(config.data, test=Split(path=str(desk.folder / "gone.tsv"))))
    assert desk.findings(gone)["unreadable"].severity == "broken"


def test_text_that_stands_alone_is_counted_once_and_as_it_is_corrupted(tmp_path: Path) -> None:
    """Of 20 tokens one span of 3 is lost: left are 17, a sentinel and an eos; the target is the span between two
    sentinels, and an eos. Of a long text a word is told once, and each word is seen 99 times."""
    (tmp_path / "a.txt").write_text(f"{' '.join('abcdefghijklmnopqrst')}\n" * 99)
    (tmp_path / "long.txt").write_text(f"{' u' * 40}\n")
    config = from_mapping({
        "data": {"train": str(tmp_path / "*.txt"), "objective": "span_corruption", "validation_share": 0},
        "model": {"max_length": 24}, "train": {"batch_sentences": 9, "epochs": 2},
        "tokenizer": {"kind": "word", "shared": True, "sentinels": 3, "min_frequency": 1}})
    report = examine(config, open_splits(config, tmp_path), lambda: None, lambda line: None)
    facts = report.facts["tokens"]
    assert (facts["batches_per_epoch"], facts["target_tokens"], facts["filled"]) == (11, 99 * 6, 1.0)
    assert list(facts["lengths"]) == ["source"]
    assert facts["well_seen"] < 0.1
    assert [finding.count for finding in report.findings if finding.kind == "too_long"] == [1]


def test_an_epoch_has_of_each_source_as_much_as_its_weight_says(desk: Desk) -> None:
    config, (source, target) = desk.config(), desk.lines["train"]
    rest = {side: str(desk.folder / f"rest.{side}") for side in ("source", "target")}
    for side, lines in zip(("source", "target"), (source, target), strict=True):
        (desk.folder / f"rest.{side}").write_text("".join(f"{line} too\n" for line in lines))
    train = [{"source": config.data.train.source, "target": config.data.train.target, "weight": 2.5},
             {**rest, "weight": 0.5}]
    weighted = from_mapping({**to_mapping(config), "data": {**to_mapping(config)["data"], "train": train},
                             "train": {"batch_sentences": 10}})
    report = examine(weighted, open_splits(weighted, desk.folder), lambda: None, lambda line: None)
    assert report.facts["tokens"]["batches_per_epoch"] == pytest.approx(3 * COUNT / 10, rel=0.05)


def test_an_epoch_has_what_is_learned_from(desk: Desk) -> None:
    """What is set aside and what has an empty side is not in it."""
    source, target = desk.lines["train"]
    target[::3] = [""] * len(target[::3])
    config = desk.config({"train": {"batch_sentences": 10}})
    config = replace(config, data=replace(config.data, validation=None, validation_share=0.4))
    division = Division(0.4)
    learned = [text for text in source if division.part_of(text) == "train"]
    filled = [text for text, other in zip(source, target, strict=True) if other and text in set(learned)]
    report = examine(config, open_splits(config, desk.folder), lambda: None, lambda line: None)
    assert [report.facts[name]["records"] for name in ("train", "validation", "test")] == [
        len(learned), COUNT - len(learned), 60]
    assert report.facts["tokens"]["batches_per_epoch"] == pytest.approx(len(filled) / 10, abs=2)


def test_what_is_set_aside_teaches_no_words(desk: Desk) -> None:
    source, target = desk.lines["train"]
    division = Division(0.4)
    aside = [i for i, text in enumerate(source) if division.part_of(text) == "validation"]
    for i in aside:
        target[i] += " zebra"
    config = desk.config()
    config = replace(config, data=replace(config.data, validation=None, validation_share=0.4))
    report = examine(config, open_splits(config, desk.folder), lambda: None, lambda line: None)
    words = {word for i in set(range(COUNT)) - set(aside) for side in (source, target) for word in side[i].split()}
    assert report.facts["tokens"]["vocabulary"] == len(words) + 4
    assert [f.where for f in report.findings if f.kind == "unknown_tokens"] == ["validation"]


class TestLabels:
    """Classification: labels instead of a second side."""

    @pytest.fixture
    def config(self, tmp_path: Path, made_up: MakeUp) -> RunConfig:
        data = {}
        for name, (count, seed) in {"train": (300, 1), "test": (40, 2)}.items():
            path = tmp_path / f"{name}.tsv"
            path.write_text("".join(f"{('good', 'bad')[i % 2]}\t{text}\n"
                                    for i, text in enumerate(made_up(count, seed)[0])))
            data[name] = str(path)
        return from_mapping({"task": "classification", "tokenizer": {"kind": "word"},
                             "data": {**data, "validation_share": 0}})

    def findings(self, config: RunConfig, tmp_path: Path) -> dict[str, Finding]:
        report = examine(config, open_splits(config, tmp_path), lambda: None, lambda line: None)
        return {f.kind: f for f in report.findings if f.kind != "batch_size"}

    def test_clean(self, config: RunConfig, tmp_path: Path) -> None:
        assert self.findings(config, tmp_path) == {}

    def test_a_classifier_writes_no_unknown_words(self, config: RunConfig, tmp_path: Path) -> None:
        (tmp_path / "test.tsv").write_text("good\tzebra zebra zebra\n")
        found = self.findings(config, tmp_path)["unknown_tokens"]
        assert found.cost == "the model cannot read them"
        assert found.what.startswith("75.00 % of the tokens are unknown")

    def test_records_that_training_skips_are_in_no_conflict(self, config: RunConfig, tmp_path: Path) -> None:
        lines = (tmp_path / "train.tsv").read_text().splitlines()
        lines += ["good\t", "bad\t ", "bad\t", "\t" + lines[0].split("\t")[1]]
        (tmp_path / "train.tsv").write_text("\n".join(lines) + "\n")
        assert set(self.findings(config, tmp_path)) == {"empty", "label_empty"}

    def test_a_label_that_the_sample_misses(self, config: RunConfig, tmp_path: Path,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("pellucid.doctor.pairs._CHUNK", 50)
        monkeypatch.setattr("pellucid.doctor.pairs._MOST_CHUNKS", 3)  # of six, every second
        lines = (tmp_path / "train.tsv").read_text().splitlines()
        new = [("bad" if 60 <= i < 90 else "good") + line[line.index("\t"):] for i, line in enumerate(lines)]
        (tmp_path / "train.tsv").write_text("\n".join(new) + "\n")
        assert set(self.findings(config, tmp_path)) <= {"unknown_tokens"}  # of words, the sample misses some, too

    def test_spoilt(self, config: RunConfig, tmp_path: Path) -> None:
        train, test = tmp_path / "train.tsv", tmp_path / "test.tsv"
        lines = train.read_text().splitlines()
        lines[1] = "bad\t" + lines[0].split("\t")[1]  # and a good one before
        lines[7] = "Bad \t" + lines[7].split("\t")[1]
        lines[9] = "\t" + lines[9].split("\t")[1]
        train.write_text("\n".join(lines) + "\n")
        test.write_text(test.read_text() + "ugly\tsome text that is new\n")
        found = self.findings(config, tmp_path)
        assert {kind: places(finding) for kind, finding in found.items() if kind.startswith("label")} == {
            "label_conflict": ["train.tsv:2"], "label_misspelt": ["train.tsv:8"], "label_empty": ["train.tsv:10"],
            "label_unknown": ["test.tsv:41"]}
        assert found["label_unknown"].severity == "broken"
        assert "'Bad ' for 'bad'" in found["label_misspelt"].what
