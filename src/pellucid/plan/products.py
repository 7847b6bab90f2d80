"""How many shapes of matrix products a run meets: oneDNN keeps a primitive for each of them.

The products of one small batch, whose numbers of tokens are no other size of the model, are a template: where a side is
as long as the batch has source or target tokens, every other batch puts its own number there. A product of another
layout, of transposed matrices, is another one.
"""

from collections.abc import Iterable

from pellucid.plan.rehearsal import Product
from pellucid.plan.workload import Shape

PROBE = Shape(7, 11, 13)
_ROWS = -1  # in the place of either


def count_primitives(products: Iterable[Product], shapes: Iterable[Shape], passes: int) -> int:
    """The distinct products of a run.

    Args:
        products: of the batch PROBE.
        shapes: of the run's batches.
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
    return sum(map(len, seen.values())) + len(others)
