"""A reader's data: passages of held-out questions that stand in training, whole or for the most part, and answers that
stand nowhere.

Two passages are alike as far as they share runs of RUN characters of their canonical form (data/canonical.py). Of the
runs those are compared whose hash is 0 modulo _ONE_OF, the same ones in every passage (Broder 1997, "On the resemblance
and containment of documents").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pellucid.config import RunConfig
from pellucid.data.canonical import canonical
from pellucid.data.reading import question_of, texts_of
from pellucid.data.shards import place
from pellucid.data.splits import Pairs
from pellucid.data.tokenizers.build import Tokenizers, train_tokenizers
from pellucid.doctor.draft import Draft, finish
from pellucid.doctor.examine import DataReport
from pellucid.doctor.finding import MOST_EXAMPLES, Finding
from pellucid.doctor.reading import Part, Progress, Reading, parts_of
from pellucid.errors import UserError

RUN = 12  # characters
NEAR = 0.5  # of a passage's runs that one other passage has
_ONE_OF = 4
_HELD_OUT = (("validation", "train"), ("test", "train"), ("test", "validation"))

Hashes = NDArray[np.uint64]


@dataclass
class Asked:
    """A split: its passages, each once, with the number of its first question; and the numbers of the questions of
    which no answer stands in the passage, with what is asked and answered."""

    part: Part
    passages: dict[str, int] = field(default_factory=dict)
    nowhere: dict[int, str] = field(default_factory=dict)
    questions: int = 0


def examine_questions(config: RunConfig, splits: dict[str, Pairs], load: Callable[[], Tokenizers | None],
                      progress: Progress) -> DataReport:
    """Reads the splits and says what is wrong with them.

    Args:
        load: gives the tokenizers there are already; None to train some, as training does.
        progress: told now and then how far it is.
    """
    asked, findings, facts = dict[str, Asked](), list[Finding](), dict[str, Any]()
    for part in parts_of(splits):
        reading = _read(part, asked, progress)
        facts |= {share.name: {"records": asked[share.name].questions} for share in part.shares}
        if reading.stop is not None:
            findings.append(Finding.of_error("unreadable", "broken", part.name, reading.stop, "training stops there"))
        else:
            findings += [Finding.of_nothing(share) for share in part.shares if not asked[share.name].questions]
    drafts = [Draft("answer_nowhere", one.part, len(one.nowhere), one.questions, tuple(one.nowhere)[:MOST_EXAMPLES],
                    where=name, texts=tuple(one.nowhere.values())[:MOST_EXAMPLES]) for name, one in asked.items()]
    for held_out, training in _HELD_OUT:
        if held_out in asked and training in asked:
            progress(f"comparing the passages of {held_out} and {training}")
            drafts += _repeated(asked[held_out], asked[training], f"{held_out} in {training}")
    findings += finish(draft for draft in drafts if draft.count)
    if asked["train"].questions:
        progress("training the tokenizer")
        try:
            texts = texts_of(splits["train"], config)
            facts["vocabulary"] = (load() or train_tokenizers(config.tokenizer, texts, config.task)).source.size
        except UserError as error:
            findings.append(Finding.of_error("tokenizer", "broken", "tokenizer", error, "training stops"))
    return DataReport(findings, facts)


def _read(part: Part, asked: dict[str, Asked], progress: Progress) -> Reading:
    """Reads a part and sorts its questions by the splits that they belong to."""
    reading = Reading(part.whole)
    for share in part.shares:
        asked[share.name] = Asked(part)
    for window in reading.windows():
        for number, passage, line in zip(window.numbers, window.sources, window.targets, strict=True):
            question = question_of(line)
            for share in part.shares:
                if share.has(passage):
                    one = asked[share.name]
                    one.questions += 1
                    one.passages.setdefault(passage, number)
                    if question.answers and all(answer.start < 0 for answer in question.answers):
                        one.nowhere[number] = f"{question.text} → {question.answers[0].text}"
        progress(f"{part.name}: {reading.records:,} questions read")
    return reading


def _repeated(held_out: Asked, training: Asked, where: str) -> list[Draft]:
    """The passages of `held_out` that stand in `training` but for case, spaces and punctuation, and those of which a
    large part does."""
    known = {canonical(text) for text in training.passages}
    whole = {text: number for text, number in held_out.passages.items() if canonical(text) in known}
    rest = [text for text in held_out.passages if text not in whole]
    texts = list(training.passages)
    near = [(text, *found) for text, found in zip(rest, nearest(rest, texts), strict=True) if found[0] >= NEAR]
    shown = [f"{100 * share:.0f} % of it: {place(training.part.whole.split, training.passages[texts[i]])}"
             for _, share, i in near[:MOST_EXAMPLES]]
    total, numbers = len(held_out.passages), tuple(held_out.passages[text] for text, _, _ in near[:MOST_EXAMPLES])
    return [Draft("leak_passage", held_out.part, len(whole), total, tuple(whole.values())[:MOST_EXAMPLES], 0,
                  where=where),
            Draft("leak_passage_near", held_out.part, len(near), total, numbers, 0, where=where, texts=tuple(shown))]


def nearest(texts: Sequence[str], others: Sequence[str]) -> list[tuple[float, int]]:
    """Of each text the share of its runs that the one of `others` has which has most of them, and the number of that;
    0 and 0 of a text without runs."""
    runs = [runs_of(text) for text in others]
    owners = np.repeat(np.arange(len(runs)), [len(one) for one in runs])
    hashes = np.concatenate(runs) if runs else np.zeros(0, np.uint64)
    order = np.argsort(hashes, kind="stable")
    hashes, owners = hashes[order], owners[order]
    found = []
    for text in texts:
        own = runs_of(text)
        begin, end = np.searchsorted(hashes, own, "left"), np.searchsorted(hashes, own, "right")
        shared = np.bincount(np.concatenate([owners[a:b] for a, b in zip(begin, end, strict=True)] or [owners[:0]]),
                             minlength=1)
        found.append((float(shared.max()) / max(len(own), 1), int(shared.argmax())))
    return found


def runs_of(text: str) -> Hashes:
    """The hashes of the runs of a text that are compared, each once, in ascending order."""
    letters = np.frombuffer(canonical(text).encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    if len(letters) < RUN:
        return np.zeros(0, np.uint64)
    powers = np.array([pow(0x9E3779B97F4A7C15, i, 2**64) for i in range(RUN)], np.uint64)
    mixed = (np.lib.stride_tricks.sliding_window_view(letters, RUN) * powers).sum(1, dtype=np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(29)
    return np.unique(mixed[mixed % np.uint64(_ONE_OF) == 0])
