"""One window of a passage, drawn anew in each epoch.

A reader learns from a question and a piece of its passage that holds the answer, at any place of the piece. Of a
passage twice as long as what the encoder takes this is two fifths of the tokens that all its windows have: as much
sooner an epoch is over, and no answer stands at one place in all of them. Passages that fit are left as they are.
"""

from random import Random

from pellucid.data.reading import pack_span, span_of, step_of
from pellucid.data.tokenizers.interface import EOS

Rows = list[list[int]]


def cropped_rows(sources: Rows, targets: Rows, random: Random) -> tuple[Rows, Rows]:
    """Rows as data/reading.py has them, each with its span → the same questions, each with one window."""
    pairs = [_cropped(ids, span, random) for ids, (span,) in zip(sources, targets, strict=True)]
    return [ids for ids, _ in pairs], [[span] for _, span in pairs]


def _cropped(ids: list[int], span: int, random: Random) -> tuple[list[int], int]:
    separators = [place for place, token in enumerate(ids) if token == EOS]
    if len(separators) == 1:
        return ids, span
    begin, room = separators[0] + 1, separators[1] - separators[0] - 1  # the first of several windows is full
    step = step_of(room)
    passage = [token for place in separators[:-1] for token in ids[place + 1 : place + 1 + step]]
    passage += ids[separators[-1] + 1 :]
    first, last = span_of(span)
    if last == 0:  # "no answer": of no piece, since it is none of the whole
        at = random.randint(0, len(passage) - room)
        return ids[:begin] + passage[at : at + room], span
    window = max(number for number, place in enumerate(separators) if place < first)
    moved = window * step - separators[window] - 1
    first, last = first + moved, last + moved
    at = random.randint(max(0, last + 1 - room), min(first, len(passage) - room))
    return ids[:begin] + passage[at : at + room], pack_span(begin + first - at, begin + last - at)
