"""What a run of a study came to, kept in one small file a run that grows stage by stage."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pellucid.data.splits import RECORD
from pellucid.data.tokenizers.build import load_tokenizers
from pellucid.errors import CheckpointError
from pellucid.files import read_json, write_json
from pellucid.train.journal import read_metrics

Scores = dict[str, float]


@dataclass(frozen=True)
class Divergence:
    """Where a run left the finite numbers, and why, in the trainer's words."""

    step: int
    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.what}: {self.why}" if self.why else self.what


@dataclass(frozen=True)
class Outcome:
    """As far as a run has come.

    Attributes:
        trained: the summary of `pellucid train`; None until it is done.
        diverged: set instead, where training met a number that is not finite.
        scores: by data ("validation", "test", a further test set), of the weights that training chose.
        tests: by further test set, which one of its name it was (agenda.py), where that was noted.
        seconds: by stage, from the start of its process to the end.
        vocabulary: the digest of its target tokenizer; empty where an older version trained it.
        data: by split, the digest of its files, which outlives the run's folder; nothing of an older version.
        threads, at_once: of its process, and how many runs shared the machine; speed depends on them.
    """

    trained: dict[str, Any] | None = None
    diverged: Divergence | None = None
    scores: dict[str, Scores] = field(default_factory=dict)
    tests: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    vocabulary: str = ""
    data: dict[str, str] = field(default_factory=dict)
    threads: int = 0
    at_once: int = 1

    def lacks(self, test_sets: Mapping[str, Sequence[str]], tests: Mapping[str, str]) -> list[str]:
        """The stages still to do: "train", then the test sets.

        Args:
            test_sets: by name, which of the scores that can be left out each must have.
            tests: by name, which one it must be.
        """
        if self.diverged is not None:
            return []
        missing = [name for name, wanted in test_sets.items()
                   if name not in self.scores or {*wanted} - self.scores[name].keys()
                   or self.tests.get(name) not in (None, tests.get(name))]
        return ([] if self.trained else ["train"]) + missing

    def value(self, metric: str) -> float | None:
        """A metric's value; None where the run has none, as one that diverged."""
        if self.trained is None:
            return None
        if metric == "seconds":
            return float(self.trained["seconds"])
        if metric == "tokens_per_second":
            seconds = float(self.trained["seconds"])
            return self.tokens / seconds if seconds else None
        data, score = metric.split(".")
        return self.scores.get(data, {}).get(score)

    @property
    def tokens(self) -> int:
        """Source and target tokens trained on, padding not counted; 0 where it diverged."""
        return 0 if self.trained is None else self.trained["source_tokens"] + self.trained["target_tokens"]


def read_outcome(path: Path) -> Outcome:
    """The outcome in `path`; an empty one where there is none yet.

    Raises:
        CheckpointError: the file is damaged.
    """
    if not path.exists():
        return Outcome()
    value = read_json(path)
    try:
        diverged = None if value["diverged"] is None else Divergence(**value["diverged"])
        return Outcome(**{**value, "diverged": diverged})
    except (TypeError, KeyError) as error:
        raise CheckpointError("the outcome of a run is damaged", where=str(path),
                              fix="remove it: the run is summed up anew") from error


def write_outcome(path: Path, outcome: Outcome) -> None:
    """Replaces the file at once."""
    write_json(path, asdict(outcome))


def trained_scores(folder: Path, summary: dict[str, Any]) -> Scores:
    """The validation scores of the weights that training chose."""
    events = [event for event in read_metrics(folder / "metrics.jsonl") if event["event"] == "validation"]
    best = next((event for event in events if summary["best"] == f"step-{event['step']:08d}"), {})
    chosen = {**summary.get("scores", {}), summary["monitor"]: summary["score"]}  # an average's are in no event
    if "loss" in chosen:
        chosen["perplexity"] = math.exp(min(chosen["loss"], 700.0))
    return finite({**best, **chosen})


def vocabulary_of(folder: Path) -> str:
    """The digest of a run's target tokenizer; empty where that is gone."""
    place = folder / "tokenizer"
    return load_tokenizers(place).target_sha256() if place.exists() else ""


def data_of(folder: Path) -> dict[str, str]:
    """By split, the digest of the files that a run had; nothing where its record is gone."""
    path = folder / RECORD
    return {name: str(split["sha256"]) for name, split in read_json(path).items()} if path.exists() else {}


def finite(scores: dict[str, Any]) -> Scores:
    """The finite numbers among scores."""
    return {name: float(value) for name, value in scores.items()
            if isinstance(value, int | float) and math.isfinite(value)}


def evaluated_scores(output: str) -> Scores:
    """The scores that `pellucid evaluate RUN --json` printed."""
    return finite(json.loads(output)["runs"][0])


def last_screen(log: str) -> str:
    """What a command line said last before it stopped: from "pellucid: " on, or the last line of what is not ours."""
    _, ours, screen = log.strip().rpartition("pellucid: ")
    return screen if ours else screen.rpartition("\n")[2]


def divergence(log: str) -> Divergence:
    """What the trainer said of a number that is not finite."""
    screen = last_screen(log)
    step = re.search(r"step (\d+)", screen)
    why = re.search(r"^ *why: *(.+)$", screen, re.MULTILINE)
    return Divergence(int(step[1]) if step else 0, screen.partition("\n")[0], why[1] if why else "")
