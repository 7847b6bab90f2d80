"""What is wrong with labels: unknown outside of training, empty, rare, misspelt, or two for one text."""

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pellucid.data.canonical import canonical
from pellucid.doctor.advice import ADVICE
from pellucid.doctor.draft import Draft
from pellucid.doctor.duplicates import hashes
from pellucid.doctor.finding import MOST_EXAMPLES, Tally
from pellucid.doctor.reading import Part

_MOST = 10_000  # labels that are counted: more are texts
_SHORTEST = 4  # characters of a label that can be misspelt
_RARER = 0.05  # a misspelt label has at most so many of what the right one has
_RARE = 0.02  # of what the most frequent label has


@dataclass
class Labels:
    """The labels of one split, counted, with the first records that have each."""

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, list[int]] = field(default_factory=dict)
    _texts: list[NDArray[np.uint64]] = field(default_factory=list)
    _labels: list[NDArray[np.uint64]] = field(default_factory=list)
    _numbers: list[Sequence[int]] = field(default_factory=list)

    def count(self, numbers: Sequence[int], labels: Sequence[str]) -> None:
        """Takes in the labels of records."""
        for number, label in zip(numbers, labels, strict=True):
            if label in self.counts or len(self.counts) <= _MOST:
                self.counts[label] += 1
                if len(places := self.first.setdefault(label, [])) < MOST_EXAMPLES:
                    places.append(number)

    def compare(self, numbers: Sequence[int], texts: Sequence[str], labels: Sequence[str]) -> None:
        """Takes in records that have a text and a label."""
        self._texts.append(hashes([canonical(text) for text in texts]))
        self._labels.append(hashes(labels))
        self._numbers.append(numbers)

    @property
    def are_texts(self) -> bool:
        """Whether there are too many of them to be labels."""
        return len(self.counts) > _MOST

    @property
    def compared(self) -> int:
        """Records that have a text and a label."""
        return sum(map(len, self._numbers))

    def draft(self, kind: str, part: Part, split: str, chosen: Sequence[str], more: str = "") -> Draft:
        """A finding about these labels of a split."""
        places = sorted(number for label in chosen for number in self.first[label])[:MOST_EXAMPLES]
        return Draft(kind, part, sum(self.counts[label] for label in chosen), self.counts.total(), tuple(places),
                     say=f"{ADVICE[kind].what} ({more})" if more else "", where=split)

    def conflicts(self) -> list[int]:
        """Records whose text stands earlier with another label."""
        if not self._texts:
            return []
        texts, labels = np.concatenate(self._texts), np.concatenate(self._labels)
        numbers = np.concatenate([np.asarray(part) for part in self._numbers])
        order = np.lexsort((numbers, texts))
        same = np.zeros(len(order), dtype=np.bool_)
        same[1:] = texts[order][1:] == texts[order][:-1]
        starts = np.maximum.accumulate(np.where(same, 0, np.arange(len(order))))
        differs = labels[order] != labels[order][starts]  # from the label of the text's first record
        return sorted(numbers[order][same & differs].tolist())


def misspelt(counts: Counter[str]) -> dict[str, str]:
    """Label → the one that it probably means: the same but for spaces, and more frequent; or far more frequent, and the
    same but for case, spaces or a letter."""
    tidy, most = {label: " ".join(label.split()) for label in counts}, dict[str, str]()
    for label in sorted(counts, key=lambda label: (counts[label], -len(label))):
        most[tidy[label]] = label
    found = {label: most[own] for label, own in tidy.items() if own and most[own] != label}
    folded = {label: own.casefold() for label, own in tidy.items()}
    for label in [label for label in counts if label not in found]:
        others = [other for other, many in counts.items() if other != label and counts[label] <= _RARER * many]
        own = folded[label]
        alike = [other for other in others if folded[other] == own and own]
        if not alike and len(own) >= _SHORTEST:
            alike = [other for other in others if _are_alike(own, folded[other])]
        if alike:
            found[label] = max(alike, key=lambda other: counts[other])
    return found


def _are_alike(one: str, other: str) -> bool:
    """Whether four fifths of both are the same, all digits among them; of most that is told by their lengths or
    letters alone."""
    if [*filter(str.isdigit, one)] != [*filter(str.isdigit, other)]:
        return False
    matcher = difflib.SequenceMatcher(None, one, other)
    return all(ratio() > 0.8 for ratio in (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio))


def drafts(parts: Sequence[tuple[Part, dict[str, Labels]]]) -> list[Draft]:
    """What is wrong with the labels of all splits, training first."""
    part, training = parts[0][0], parts[0][1]["train"]
    if training.are_texts:
        return [Draft("labels_are_texts", part, len(training.counts), training.counts.total())]
    wrong, most = misspelt(training.counts), max(training.counts.values(), default=0)
    rare = [label for label, count in training.counts.items()
            if count < _RARE * most and label.strip() and label not in wrong]
    found = [training.draft("label_misspelt", part, "train", list(wrong),
                            ", ".join(f"{a!r} for {b!r}" for a, b in list(wrong.items())[:4])),
             training.draft("label_imbalance", part, "train", rare,
                            ", ".join(f"{label!r} {training.counts[label]:,}" for label in rare[:4])
                            + f"; the most frequent has {most:,}")]
    for part, splits in parts:
        for name, labels in splits.items():
            empty = [label for label in labels.counts if not label.strip()]
            unknown = [label for label in labels.counts if label not in training.counts and label.strip()]
            found += [labels.draft("label_empty", part, name, empty),
                      labels.draft("label_unknown", part, name, unknown),
                      Draft.of("label_conflict", part, Tally.of(labels.conflicts()), labels.compared, where=name)]
    return [draft for draft in found if draft.count]
