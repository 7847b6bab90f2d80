"""The numbers behind each picture, for whoever wants to draw it anew: NAME.csv beside NAME.png, a point a row.

Names of modules are the model's own, as in its checkpoint; heads count from 1, positions from 0, as in the pictures.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from torch import Tensor

from pellucid.inspection.measures import HeadTable


@dataclass(frozen=True)
class Points:
    """A table whose columns have names."""

    columns: Sequence[str]
    rows: Iterable[Sequence[object]]


def as_csv(points: Points) -> str:
    """The table as comma-separated values, with its header."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(points.columns)
    writer.writerows(points.rows)
    return text.getvalue()


def grid(values: Tensor, axes: Mapping[str, Sequence[object]], value: str) -> Points:
    """A tensor [*axes] whose places have names, as rows of the places and the value there."""
    assert values.shape == tuple(map(len, axes.values()))
    return Points([*axes, value], ((*place, number) for place, number in zip(product(*axes.values()), _flat(values))))


def joined(column: str, parts: Mapping[str, Points]) -> Points:
    """Tables with the same columns below one another, the name of each in a column of its own."""
    columns = next(iter(parts.values())).columns
    return Points([column, *columns], ([name, *row] for name, points in parts.items() for row in points.rows))


def of_attention(weights: Tensor, queries: Sequence[str], keys: Sequence[str]) -> Points:
    """Weights [H, T, S] with the tokens of both sides."""
    heads = range(1, len(weights) + 1)
    places = product(heads, enumerate(queries), enumerate(keys))
    return Points(("head", "query_position", "query", "key_position", "key", "weight"),
                  ((head, *query, *key, number) for (head, query, key), number in zip(places, _flat(weights))))


def of_heads(table: HeadTable) -> Points:
    """A number for each head, and its standard error where there is one."""
    heads = range(1, table.values.shape[1] + 1)
    points = grid(table.values, {"attention": table.rows, "head": heads}, "value")
    if table.errors is None:
        return points
    return Points([*points.columns, "standard_error"],
                  ([*row, error] for row, error in zip(points.rows, _flat(table.errors), strict=True)))


def _flat(values: Tensor) -> Iterator[object]:
    """Each number with as many digits as tell it from its neighbours."""
    return iter(values.detach().cpu().numpy().ravel())
