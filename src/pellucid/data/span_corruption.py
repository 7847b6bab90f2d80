r"""Span corruption (T5, Raffel et al. 2020, section 3.1.4 and figure 2): a text that has lost some of its spans, and
what was lost.

    text    Thank you for inviting me to your party last week .
    source  Thank you <extra_id_0> me to your party <extra_id_1> week .
    target  <extra_id_0> for inviting <extra_id_1> last <extra_id_2>

15 % of the tokens are lost, in spans of three on average. T5's code packs texts to 512 tokens and always ends them with
a lost span; here every way to place the spans is as likely as another, since a short text may lose only one.
"""

from collections.abc import Sequence
from itertools import pairwise
from random import Random

from pellucid.data.tokenizers.interface import EOS, FIRST_SENTINEL

DENSITY = 0.15  # share of the tokens that is lost
MEAN_LENGTH = 3  # of a span

Span = tuple[int, int]  # from the first lost token to the one after the last


def corrupt_rows(sources: list[list[int]], targets: list[list[int]],
                 random: Random) -> tuple[list[list[int]], list[list[int]]]:
    """Sources with an eos at the end → what is left of them and what was lost, each with an eos; `targets` go."""
    pairs = [corrupt(ids[:-1], draw_spans(len(ids) - 1, random)) for ids in sources]
    return [[*left, EOS] for left, _ in pairs], [[*lost, EOS] for _, lost in pairs]


def corrupt(ids: Sequence[int], spans: Sequence[Span]) -> tuple[list[int], list[int]]:
    """What is left of `ids` without its `spans`, a sentinel at the place of each; and the spans, each behind its
    sentinel, with one more at the end."""
    left: list[int] = []
    lost: list[int] = []
    end = 0
    for sentinel, (start, stop) in enumerate(spans, start=FIRST_SENTINEL):
        left += [*ids[end:start], sentinel]
        lost += [sentinel, *ids[start:stop]]
        end = stop
    return [*left, *ids[end:]], [*lost, FIRST_SENTINEL + len(spans)]


def draw_spans(length: int, random: Random) -> list[Span]:
    """Spans of a text of `length` tokens, in order, with at least one token between two."""
    lost, count = sizes(length)
    if count == 0:
        return []
    between = _parts(length - lost + 2, count + 1, random)  # two more, so that a span may be the first or the last
    end, spans = -1, []
    for gap, size in zip(between, _parts(lost, count, random), strict=False):
        spans.append((end + gap, end + gap + size))
        end = spans[-1][1]
    return spans


def sizes(length: int) -> tuple[int, int]:
    """How many of `length` tokens are lost, and in how many spans."""
    lost = min(length, max(1, round(DENSITY * length)))
    return lost, min(lost, max(1, round(lost / MEAN_LENGTH)))


def sentinels_for(length: int) -> int:
    """How many sentinels texts of up to `length` tokens need: one for each span, and the last."""
    return sizes(length)[1] + 1


def _parts(total: int, count: int, random: Random) -> list[int]:
    """`total` as a sum of `count` numbers above 0 in order, every such sum as likely as another."""
    cuts = [0, *sorted(random.sample(range(1, total), count - 1)), total]
    return [b - a for a, b in pairwise(cuts)]
