"""A window of a passage that holds the answer and one that does not, drawn anew in each epoch.

A reader learns from a question and two pieces of its passage: in one stands the answer, at any place of the piece, in
the other nothing of it. One softmax is over the places of both (shared normalisation: Clark and Gardner 2018): without
the second the scores of a window would say where in it an answer is most likely, but not whether another window has a
better one. Of long passages this is a part of the tokens that all windows have: as much sooner an epoch is over, and no
answer stands at one place in all of them. Passages that fit into a window are left as they are.
"""

from random import Random

from pellucid.data.reading import pack_span, span_of, step_of
from pellucid.data.tokenizers.interface import EOS

Rows = list[list[int]]


def cropped_rows(sources: Rows, targets: Rows, random: Random) -> tuple[Rows, Rows]:
    """Rows as data/reading.py has them, each with its span → the same questions, each with at most two windows."""
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
    begins = range(len(passage) - room + 1)  # where a full window may begin
    own, others = random.choice(begins), list(begins)
    first, last = span_of(span)
    if last > 0:  # else it is "no answer", and every window is without it
        window = max(number for number, place in enumerate(separators) if place < first)
        moved = window * step - separators[window] - 1
        first, last = first + moved, last + moved
        own = random.choice([at for at in begins if at <= first and last < at + room])
        others = [at for at in begins if last < at or at + room <= first]
        span = pack_span(begin + first - own, begin + last - own)
    beside = [EOS, *passage[(at := random.choice(others)) : at + room]] if others else []
    return ids[:begin] + passage[own : own + room] + beside, span
