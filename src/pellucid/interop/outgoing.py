"""Weights of an imported run as the class that they came from has them: the way back of incoming.py."""

import math
from collections.abc import Callable, Collection, Mapping

import torch
from torch import Tensor

from pellucid.config import ModelConfig
from pellucid.interop import basis, names
from pellucid.interop.families import scales_output, skipped_of
from pellucid.interop.incoming import BARTS, T5S
from pellucid.interop.reading import Fields
from pellucid.interop.vocabulary import Rows
from pellucid.runs.tensors import Lazily

Weights = Mapping[str, Tensor]
_COPIES = ("embed_tokens.weight", "lm_head.weight")  # of the embedding
_TABLES = ("encoder.position.table", "decoder.position.table")


def to_theirs(fields: Fields, ours: Weights, config: ModelConfig, rows: Rows, kept: Weights,
              wanted: Collection[str]) -> Lazily:
    """The tensors of their file.

    Args:
        fields: of their config.json.  ours: of the run.  rows: of the vocabulary.
        kept: what ours has no place for, as `unplaced` finds it.  wanted: the names of the file.
    """
    made, embedding = _made(fields, ours, config, rows, kept)
    return Lazily(wanted, lambda name: made[name] if name in made else kept[name] if name in kept else made[embedding])


def unplaced(fields: Fields, theirs: Weights, ours: Weights, config: ModelConfig, rows: Rows) -> dict[str, Tensor]:
    """What their file has and ours has no place for: other segments, rows that no position has, tables of sinusoids."""
    made, _ = _made(fields, ours, config, rows, {})
    kept = {name: theirs[name] for name in theirs if name not in made and not name.endswith(_COPIES)}
    skipped = skipped_of(fields)
    rest = {name: theirs[name][:skipped].clone() for name in _tables(fields, config).values() if name in theirs}
    return kept | (rest if skipped else {})


def _made(fields: Fields, ours: Weights, config: ModelConfig, rows: Rows, kept: Weights) -> tuple[Lazily, str]:
    """What follows from ours, and the name of the embedding."""
    kind = str(fields.values["model_type"])
    make: Callable[[Fields, Weights, ModelConfig, Rows], Lazily] = (
        _bart if kind in BARTS else _t5 if kind in T5S else _bert)
    modules = names.bart(config) if kind in BARTS else names.t5(config) if kind in T5S else names.bert(config, kind)
    made = names.to_theirs(make(fields, ours, config, rows), modules)
    tables = {theirs: mine for mine, theirs in _tables(fields, config).items() if mine in ours}
    more = Lazily(tables, lambda name: _table(ours[tables[name]], name, kept))
    bias = Lazily(["final_logits_bias"] if kind in BARTS else [], lambda _: _bias(ours, rows))
    return made.but(*_tables(fields, config).values()) | more | bias, f"{modules['source_embedding']}.weight"


def _tables(fields: Fields, config: ModelConfig) -> dict[str, str]:
    """Our tables of positions that are theirs, by name; M2M100 reckons its own."""
    kind = str(fields.values["model_type"])
    if kind in T5S or kind == "m2m_100" or config.position != "learned":
        return {}
    modules = names.bart(config) if kind in BARTS else names.bert(config, kind)
    return {name: f"{modules[name.removesuffix('.table')]}.weight" for name in _TABLES
            if name.removesuffix(".table") in modules}


def _table(ours: Tensor, name: str, kept: Weights) -> Tensor:
    """Without the segment that is in it, and with the rows that no position has."""
    segment = next((tensor[0] for other, tensor in kept.items() if "token_type_embeddings" in other), None)
    table = ours if segment is None else ours - segment
    return torch.cat([kept[name], table]) if name in kept else table


def _bart(fields: Fields, ours: Weights, config: ModelConfig, rows: Rows) -> Lazily:
    if config.position == "sinusoidal":
        ours = basis.permuted(ours, basis.halves(config.d_model))
    shared = "source_embedding.weight" if config.tie_embeddings else "output.weight"
    return Lazily([name for name in ours if name not in _TABLES],
                  lambda name: rows.back(ours[shared]) if name == "source_embedding.weight" else ours[name])


def _bias(ours: Weights, rows: Rows) -> Tensor:
    size = 1 + max(row for row in rows.order if row is not None)
    return rows.back(ours["output_bias.bias"])[None] if "output_bias.bias" in ours else torch.zeros(1, size)


def _t5(fields: Fields, ours: Weights, config: ModelConfig, rows: Rows) -> Lazily:
    theirs = basis.t5_scaled(ours, config)
    scale = math.sqrt(config.d_model) if scales_output(fields) else 1.0

    def back(name: str) -> Tensor:
        if name == "output.weight":
            return rows.back(ours[name] * scale)
        return rows.back(theirs[name]) if name == "source_embedding.weight" else theirs[name]

    one_table = fields.values["model_type"] != "umt5"  # of the first layer, for all
    left_out = [name for name in ours if name.endswith("position.table") and ".layers.0." not in name]
    return Lazily([name for name in ours if not one_table or name not in left_out], back)


def _bert(fields: Fields, ours: Weights, config: ModelConfig, rows: Rows) -> Lazily:
    scale = math.sqrt(config.d_model)
    return Lazily([name for name in ours if name not in _TABLES],
                  lambda name: rows.back(ours[name] * scale) if name == "source_embedding.weight" else ours[name])
