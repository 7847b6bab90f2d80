"""The limit counts the products that an update really makes, and every system trains the same model."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import peers, workloads
from benchmarks.limit import flops, products
from benchmarks.textbook import Textbook
from benchmarks.worker import our_updates, read
from pellucid.kernels.compiled import use_kernels

TINY = replace(workloads.MODELS["tiny"], d_model=32, n_heads=2, d_ff=48, encoder_layers=1, decoder_layers=2,
               vocabulary=50)
CPU = torch.device("cpu")


def one_length(sentences: int, length: int) -> list[tuple[np.ndarray, np.ndarray]]:
    ids = np.random.default_rng(1).integers(4, 50, (2, sentences, length))
    return [(ids[0], ids[1])]


@pytest.mark.parametrize("classes", [0, 3])
def test_the_products_are_those_that_torch_counts(classes: int) -> None:
    model = asdict(replace(TINY, classes=classes, decoder_layers=0 if classes else 2))
    batches = one_length(6, 7)
    if classes:
        batches = [(batches[0][0], np.arange(6)[:, None] % classes)]
    _, update, _ = our_updates("plain bf16", model, batches, CPU)  # torch does not count its fused fp32 attention
    with FlopCounterMode(display=False) as counter:
        update(0)
    assert flops(products(model, batches[0])) == counter.get_total_flops()
    use_kernels(CPU, False)


def test_every_system_has_as_many_parameters() -> None:
    model, batches = asdict(TINY), one_length(2, 5)
    ours = sum(p.numel() for p in our_updates("plain fp32", model, batches, CPU)[0].parameters())
    theirs = sum(p.numel() for p in peers.build("nn.Transformer", model).parameters())
    textbook = sum(p.numel() for p in Textbook(model).parameters())
    assert ours == theirs == textbook


def test_every_system_reads_the_same_ids(tmp_path: Path) -> None:
    model, batches = read(str(workloads.write("short-small", tmp_path)))
    assert model == asdict(workloads.MODELS["small"])
    assert len(batches) == workloads.CASES["short-small"][2]
    for source, target in batches:
        assert source.max() < model["vocabulary"]
        assert (source[:, 0] > 0).all()
        assert ((source == workloads.EOS).sum(1) == 1).all()
        assert (source > 0).mean() > 0.9  # sorted by length: hardly any padding
        assert 3000 < (target > 0).sum() < 4096 + 50
