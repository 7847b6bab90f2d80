"""What docs/studies/README.md says of a study is what its runs say.

Each finding ends with a comment that a browser does not show: what it says, to be checked. Checks are divided by ";":

    METRIC: A < B          A lies below B beyond chance
    METRIC: A ~ B          the two are not told apart
    METRIC: A = 24.9       the mean over seeds, to the digits that are given
    METRIC: A - B = 13     a difference of means
    METRIC: A = 2 to 8     the least and the greatest seed
    set: 16, 8             numbers that were chosen, not measured

METRIC holds until another is named; a cell of several words needs no quotes. Against its baseline a cell's verdict is
that of the report; two other cells are compared over seeds, by the study's own model, and corrected for every pair.
"""

import csv
import re
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean

import pytest

from pellucid.ablate.cells import cells_of
from pellucid.ablate.effects import Sample, compare
from pellucid.ablate.power import LEVEL
from pellucid.ablate.study import read_study
from pellucid.evaluate.holm import holm

STUDIES = Path(__file__).resolve().parents[2] / "docs/studies"
FINDING = re.compile(r"^- (.*?)\s*<!--(.*?)-->", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")
NOT_APART = re.compile(r"not\s+told\s+apart")
EQUALITY = re.compile(r"\b(hardly|nearly|identical|equal(?:ly)?|same as|as good|no (?:worse|better|difference))\b")


@dataclass(frozen=True)
class Said:
    """A finding: its words, and what it says to be checked."""

    study: str
    words: str
    checks: str


@dataclass
class Shown:
    """What a study's folder shows."""

    values: dict[str, dict[str, dict[int, float]]]  # by metric, cell and seed
    stars: set[tuple[str, str]]  # metric and cell
    baselines: dict[str, str]

    def mean(self, metric: str, cell: str) -> float:
        return fmean(self.values[metric][cell].values())

    def is_apart(self, metric: str, a: str, b: str) -> bool:
        if self.baselines[a] == b or self.baselines[b] == a:
            return (metric, a if self.baselines[a] == b else b) in self.stars
        pairs = list(combinations(self.values[metric], 2))
        samples = {cell: Sample(values, {}) for cell, values in self.values[metric].items()}
        tests = compare(metric, [(samples[one], samples[other]) for one, other in pairs])
        corrected = holm([None if test is None else test.p for test in tests])
        p = next(p for pair, p in zip(pairs, corrected, strict=True) if set(pair) == {a, b})
        return p is not None and p <= LEVEL


def shown(name: str) -> Shown:
    with (STUDIES / name / "results.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["status"] == "done"]
    study = read_study(name, {})
    values: dict[str, dict[str, dict[int, float]]] = {metric: {} for metric in study.metrics}
    for row in rows:
        for metric in study.metrics:
            if row[metric]:
                values[metric].setdefault(row["cell"], {})[int(row["seed"])] = float(row[metric])
    stars = set()
    for section in (STUDIES / name / "report.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        heading = section.split(" ", 1)[0]
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines()
                 if line.startswith("|")]
        if cells and cells[0][-1] == "p, Holm":
            stars |= {(heading, re.sub(r" \(.*\)$", "", row[0])) for row in cells if row[-1].endswith("*")}
    return Shown(values, stars, {cell.label: cell.baseline for cell in cells_of(study)})


def faults(said: Said, study: Shown) -> list[str]:
    """What is said and not shown, in words."""
    found, metric, given = [], "", set()
    for check in filter(None, (" ".join(part.split()) for part in said.checks.split(";"))):
        if check.startswith("set: "):
            given |= set(check.removeprefix("set: ").split(", "))
            continue
        if (start := check.partition(": "))[1] and start[0] in study.values:
            metric, check = start[0], start[2]
        match = re.fullmatch(r"(.+?) (<|>|~|=|- (.+) =) (.+)", check)
        cells = [match[1], match[3] or (match[4] if match[2] in "<>~" else match[1])] if match else []
        if match is None or any(cell not in study.values.get(metric, {}) for cell in cells):
            found.append(f"not understood: {check}")
        elif match[2] in "<>~":
            is_apart = study.is_apart(metric, *cells)
            is_below = study.mean(metric, cells[0]) < study.mean(metric, cells[1])
            if is_apart != (match[2] != "~") or (is_apart and is_below != (match[2] == "<")):
                found.append(f"is not so: {metric}: {check}")
        else:
            given |= set(match[4].split(" to "))
            found += _wrong(check, match[4], metric, study, cells)
    words = re.sub(r"\]\(.*?\)|`.*?`", "", said.words)
    found += [f"{number} is not checked" for number in NUMBER.findall(words) if number.strip(",") not in given]
    if (" ~ " in said.checks) != bool(NOT_APART.search(words)):
        found.append("'not told apart' is what ~ is in words")
    if unfit := EQUALITY.search(words):
        found.append(f"'{unfit[0]}' says more than a test that found nothing")
    return found or ([] if said.checks.strip() else ["nothing is checked"])


def _wrong(check: str, told: str, metric: str, study: Shown, cells: list[str]) -> list[str]:
    if " to " in told:
        values = study.values[metric][cells[0]].values()
        made = [min(values), max(values)]
    else:
        difference = study.mean(metric, cells[1]) if cells[0] != cells[1] else 0.0
        made = [study.mean(metric, cells[0]) - difference]
    texts = told.split(" to ")
    right = [f"{value:,.{len(text.partition('.')[2])}f}" for value, text in zip(made, texts, strict=True)]
    return [] if right == texts else [f"is {' to '.join(right)}: {metric}: {check}"]


def findings() -> list[Said]:
    sections = re.split(r"^## \[([\w-]+)\]", (STUDIES / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [Said(name, words, checks) for name, text in zip(sections[1::2], sections[2::2], strict=True)
            for words, checks in FINDING.findall(text)]


def test_every_shipped_study_is_told_and_every_finding_can_be_checked() -> None:
    text = (STUDIES / "README.md").read_text(encoding="utf-8")
    assert {said.study for said in findings()} == {path.parent.name for path in STUDIES.glob("*/report.md")}
    assert len(findings()) == len(re.findall(r"^- ", text, re.MULTILINE))


@pytest.mark.parametrize("said", findings(), ids=lambda said: f"{said.study}: {said.words[:40]}")
def test_a_finding_says_what_its_study_shows(said: Said) -> None:
    assert faults(said, shown(said.study)) == []


MADE_UP = Shown({"validation.loss": {"one layer": {1: 2.35, 2: 2.37}, "six layers": {1: 2.83, 2: 2.85},
                                     "rotary": {1: 2.25, 2: 2.41}}},
                {("validation.loss", "six layers")}, dict.fromkeys(("one layer", "six layers", "rotary"), "one layer"))


@pytest.mark.parametrize(("words", "checks", "fault"), [
    ("Six layers are worse: 2.84, not 2.36.", "validation.loss: six layers > one layer; six layers = 2.84; "
     "one layer = 2.36", None),
    ("Six layers are hardly worse: 2.84.", "validation.loss: six layers > one layer; six layers = 2.84", "hardly"),
    ("Six layers are better.", "validation.loss: six layers < one layer", "is not so"),
    ("Rotary is first.", "validation.loss: rotary < one layer", "is not so"),
    ("Rotary is not told apart.", "validation.loss: rotary ~ one layer", None),
    ("Rotary is first.", "validation.loss: rotary ~ one layer", "not told apart"),
    ("Six layers are not told apart.", "validation.loss: six layers ~ one layer", "is not so"),
    ("Rotary: 2.33, from 2.25 to 2.41.", "validation.loss: rotary = 2.33; rotary = 2.25 to 2.41", None),
    ("Rotary: 2.32.", "validation.loss: rotary = 2.32", "is 2.33"),
    ("Rotary is not told apart: 2.33.", "validation.loss: rotary ~ one layer", "2.33 is not checked"),
    ("It costs 0.48.", "validation.loss: six layers - one layer = 0.48", None),
    ("It costs 0.50.", "validation.loss: six layers - one layer = 0.50", "is 0.48"),
    ("Seven layers: 3.", "validation.loss: seven layers = 3", "not understood"),
    ("Six layers are worse.", " ", "nothing is checked"),
])
def test_what_a_study_does_not_show_may_not_be_said(words: str, checks: str, fault: str | None) -> None:
    found = faults(Said("", words, checks), MADE_UP)
    assert (fault is None) == (not found)
    assert fault is None or fault in found[0]
