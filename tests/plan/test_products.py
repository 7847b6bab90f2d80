"""How many kernels a run leaves, counted by hand."""

from __future__ import annotations

from pellucid.plan.products import PROBE, count_primitives
from pellucid.plan.workload import Shape

SOURCE, TARGET = PROBE.sentences * PROBE.source, PROBE.sentences * PROBE.target


def test_a_layer_of_both_sides_meets_each_number_of_rows_once() -> None:
    products = {("mm", ((SOURCE, 64), (64, 128))), ("mm", ((TARGET, 64), (64, 128))), ("mm", ((128, 64), (64, 9)))}
    shapes = [Shape(10, 5, 6), Shape(10, 6, 5), Shape(10, 5, 6), Shape(3, 7, 7)]
    assert count_primitives(products, shapes, 1) == 3  # 50, 60 and 21 rows; the last product has no side of the batch's


def test_a_layer_of_one_side_meets_that_sides_rows() -> None:
    products = {("mm", ((SOURCE, 64), (64, 128)))}
    assert count_primitives(products, [Shape(10, 5, 6), Shape(10, 5, 7), Shape(10, 8, 7)], 1) == 2


def test_products_of_sentences_are_new_for_each_shape() -> None:
    products = {("bmm", ((PROBE.sentences, 11, 16), (PROBE.sentences, 16, 11)))}
    assert count_primitives(products, [Shape(2, 5, 5), Shape(2, 5, 6), Shape(2, 5, 5)], 1) == 2


def test_more_batches_meet_no_more_rows_than_there_are_numbers() -> None:
    products = {("mm", ((SOURCE, 64), (64, 128)))}
    shapes = [Shape(10, 5, 6), Shape(10, 6, 6), Shape(10, 7, 6)]  # 50, 60, 70 rows
    assert count_primitives(products, shapes, 3) == 9
    assert count_primitives(products, shapes, 100) == 21
