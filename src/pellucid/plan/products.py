"""How many shapes of matrix products a run meets: oneDNN keeps a primitive for each of them.

The products of one small batch, whose numbers of tokens are no other size of the model, are a template: where a side is
as long as the batch has source or target tokens, every other batch puts its own number there. A product of another
layout, of transposed matrices, is another one.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from pellucid.plan.rehearsal import Product
from pellucid.plan.workload import Shape

PROBE = Shape(7, 11, 13)
_ROWS = -1  # in the place of either


def count_primitives(products: Iterable[Product], shapes: Sequence[Shape], scale: float, passes: int) -> int:
    """The distinct products of a run.

    Args:
        products: of the batch PROBE.
        shapes: of the run's batches, or of a sample of them.
        scale: how many times as many batches there are as shapes.
        passes: of every sentence through the model, side by side: 2 with R-Drop.
    """
    distinct = set(shapes)
    probed = passes * PROBE.sentences
    rows = {probed * PROBE.source: {passes * shape.sentences * shape.source for shape in distinct},
            probed * PROBE.target: {passes * shape.sentences * shape.target for shape in distinct}}
    seen: dict[Product, set[int]] = {}
    others = set[tuple[int, Product]]()
    for name, sides in products:
        sizes = {size for side in sides for size in side}
        if sizes & rows.keys():
            template = (name, tuple(tuple(_ROWS if size in rows else size for size in side) for side in sides))
            for size in sizes & rows.keys():
                seen.setdefault(template, set()).update(rows[size])
        elif sizes & {probed, PROBE.source, PROBE.target}:  # where both sides are as long, some are the same
            for shape in distinct:
                own = {probed: passes * shape.sentences, PROBE.source: shape.source, PROBE.target: shape.target}
                others.add((shape.sentences, (name, tuple(tuple(own.get(s, s) for s in side) for side in sides))))
    growth = _growth(shapes, scale)
    return round(sum(_grown(values, growth) for values in seen.values()) + len(others) * growth)


def _growth(shapes: Sequence[Shape], scale: float) -> float:
    """How many times as many distinct shapes there are among `scale` times as many batches as among these: by how many
    of these are there once and twice (Chao 1984; Colwell et al. 2012, "Models and estimators linking individual-based
    and sample-based rarefaction, extrapolation and comparison of assemblages", eq. 9)."""
    times = Counter(Counter(shapes).values())
    once, distinct, count = times[1], times.total(), len(shapes)
    if scale <= 1 or not once:
        return 1.0
    unseen = once * (once - 1) / (2 * (times[2] + 1))
    missed = math.pow(1 - once / (count * unseen + once), (scale - 1) * count)  # of those that are unseen
    return 1 + unseen / distinct * (1 - missed)


def _grown(values: set[int], growth: float) -> float:
    """How many values there will be: no more than there are numbers between them."""
    return min(len(values) * growth, max(values) - min(values) + 1) if growth > 1 else len(values)
