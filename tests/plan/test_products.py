"""How many kernels a run leaves, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from pellucid.config import ModelConfig, RunConfig, TrainConfig
from pellucid.data.sample import corpus_of
from pellucid.plan.memory import rehearse_updates
from pellucid.plan.products import PROBE, count_primitives
from pellucid.plan.workload import Shape, Workload

SOURCE, TARGET = PROBE.sentences * PROBE.source, PROBE.sentences * PROBE.target


def test_a_layer_of_both_sides_meets_each_number_of_rows_once() -> None:
    products = {("mm", ((SOURCE, 64), (64, 128))), ("mm", ((TARGET, 64), (64, 128))), ("mm", ((128, 64), (64, 9)))}
    shapes = [Shape(10, 5, 6), Shape(10, 6, 5), Shape(10, 5, 6), Shape(3, 7, 7)]
    assert count_primitives(products, shapes, 1) == 3  # 50, 60, 21 rows; the last has no side of the batch


def test_a_layer_of_one_side_meets_that_sides_rows() -> None:
    products = {("mm", ((SOURCE, 64), (64, 128)))}
    assert count_primitives(products, [Shape(10, 5, 6), Shape(10, 5, 7), Shape(10, 8, 7)], 1) == 2


def test_products_of_sentences_are_new_for_each_length() -> None:
    products = {("bmm nn", ((PROBE.sentences, 11, 16), (PROBE.sentences, 16, 11)))}
    assert count_primitives(products, [Shape(2, 5, 5), Shape(2, 5, 6), Shape(2, 6, 6), Shape(3, 5, 5)], 1) == 3


def test_where_both_sides_are_as_long_they_share_products() -> None:
    """Unless the matrices lie otherwise."""
    source, target = PROBE.source, PROBE.target
    products = {(f"bmm {lies}", ((28, rows, inner), (28, inner, 16))) for lies, rows, inner in (
        ("nn", source, source), ("nn", target, source), ("nn", target, target), ("tn", target, target))}
    assert count_primitives(products, [Shape(2, 5, 5)], 1) == 2
    assert count_primitives(products, [Shape(2, 5, 6)], 1) == 4


def test_two_passes_of_a_batch_are_products_of_twice_the_rows() -> None:
    products = {("mm", ((2 * SOURCE, 64), (64, 128))), ("mm", ((2 * TARGET, 64), (64, 128)))}
    shapes = [Shape(10, 5, 6), Shape(10, 6, 5), Shape(3, 7, 7)]
    assert count_primitives(products, shapes, 2) == 3


@pytest.mark.parametrize("r_drop", [0.0, 1.0])
@pytest.mark.parametrize("classes", [0, 3])
def test_the_products_of_a_real_update_are_found(r_drop: float, classes: int) -> None:
    """Every layer multiplies by a number of rows of its own: none of the batch's products may be passed over."""
    model = ModelConfig(d_model=64, n_heads=4, d_ff=96, encoder_layers=1, decoder_layers=1)
    config = RunConfig(task="classification" if classes else "seq2seq", model=model,
                       train=TrainConfig(r_drop=r_drop, label_smoothing=0.0))
    rows = [np.full(10, 5)]
    workload = Workload(corpus_of(rows, [np.full(1, 1)] if classes else rows), 1, 300, 300, not classes, classes, ())
    probe = PROBE._replace(target=1) if classes else PROBE
    [(_, products)] = rehearse_updates(config, workload, [probe], "bf16", False)
    one, two = (count_primitives(products, shapes, 2 if r_drop else 1)
                for shapes in ([Shape(5, 8, 1)], [Shape(5, 8, 1), Shape(7, 9, 1)]))
    assert one >= 4 * 3  # a joint projection, the output's, and two of the feed-forward layer, and their gradients
    assert two == 2 * one
