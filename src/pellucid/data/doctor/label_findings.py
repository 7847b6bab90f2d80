"""Findings about labels."""

from __future__ import annotations

from collections.abc import Sequence

from pellucid.data.doctor.draft import Draft
from pellucid.data.doctor.finding import Tally
from pellucid.data.doctor.labels import Labels, misspelt
from pellucid.data.doctor.passes import FirstPass, Part

_RARE = 0.02  # of what the most frequent label has


def drafts(firsts: Sequence[FirstPass]) -> list[Draft]:
    """What is wrong with the labels of all splits."""
    found: list[Draft] = []
    training = firsts[0].labels["train"]
    if training.are_texts:
        return [Draft("labels_are_texts", firsts[0].part, len(training.counts), training.counts.total())]
    for first in firsts:
        for name, labels in first.labels.items():
            found += _of_split(name, first.part, labels, training)
    return [draft for draft in found if draft.count]


def _of_split(name: str, part: Part, labels: Labels, training: Labels) -> list[Draft]:
    total = labels.counts.total()
    empty = [label for label in labels.counts if not label.strip()]
    found = [_draft("label_empty", part, labels, empty, total, name)]
    conflicts = Tally()
    conflicts.add(labels.conflicts())
    found.append(Draft.of("label_conflict", part, conflicts, total, where=name))
    if name != "train":
        unknown = [label for label in labels.counts if label not in training.counts and label.strip()]
        found.append(_draft("label_unknown", part, labels, unknown, total, name))
        return found
    wrong = misspelt(labels.counts)
    say = ", ".join(f"{a!r} for {b!r}" for a, b in list(wrong.items())[:4])
    found.append(_draft("label_misspelt", part, labels, list(wrong), total, name, say))
    most = max(labels.counts.values(), default=0)
    rare = [label for label, count in labels.counts.items()
            if count < _RARE * most and label.strip() and label not in wrong]
    say = ", ".join(f"{label!r} {labels.counts[label]:,}" for label in rare[:4])
    found.append(_draft("label_imbalance", part, labels, rare, total, name, f"{say}; the most frequent has {most:,}"))
    return found


def _draft(kind: str, part: Part, labels: Labels, chosen: list[str], total: int, name: str, more: str = "") -> Draft:
    from pellucid.data.doctor.advice import ADVICE

    say = f"{ADVICE[kind].what} ({more})" if more else ""
    return Draft(kind, part, sum(labels.counts[label] for label in chosen), total, tuple(labels.places(chosen)),
                 say=say, where=name)
