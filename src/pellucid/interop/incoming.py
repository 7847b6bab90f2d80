"""Weights of transformers as ours: the way back of weights.py and names.py."""

import math
import re
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from pellucid.config import ModelConfig
from pellucid.errors import CheckpointError
from pellucid.interop import basis, names
from pellucid.interop.families import scales_input, scales_output, skipped_of
from pellucid.interop.reading import Fields
from pellucid.interop.vocabulary import Rows
from pellucid.nn.positional_encoding import SinusoidalPosition
from pellucid.runs.tensors import Lazily

Weights = Mapping[str, Tensor]
_COPIES = re.compile(r"(model\.)?(encoder|decoder)\.embed_tokens\.weight|lm_head\.weight")  # of the embedding
_BESIDE = re.compile(r"final_logits_bias|model\.(encoder|decoder)\.embed_positions\.weights?|"
                     r".*\.token_type_embeddings\.weight|.*\.relative_attention_bias\.weight|"  # or reckoned
                     r"roberta\.pooler\.dense\.(weight|bias)")  # which its classifier does not read
BARTS, T5S = ("marian", "bart", "blenderbot", "mbart", "m2m_100"), ("t5", "mt5", "umt5")


def to_ours(fields: Fields, theirs: Weights, config: ModelConfig, rows: Rows) -> Lazily:
    """The weights of a model of ours.

    Args:
        fields: of config.json.  theirs: of the file.  rows: of the vocabulary.

    Raises:
        CheckpointError: a tensor is missing, or has no place here. Shapes are left to who fills the model.
    """
    kind, where = str(fields.values["model_type"]), fields.where.parent
    if kind in BARTS:
        modules, make = names.bart(config), _of_bart
    elif kind in T5S:
        modules, make = names.t5(config), _of_t5
    else:
        modules, make = names.bert(config, kind), _of_bert
    used = {f"{module}.{leaf}" for module in modules.values() for leaf in ("weight", "bias")}
    left = sorted(theirs.keys() - used)
    copies = [name for name in left if _COPIES.fullmatch(name)]
    if extra := [name for name in left if name not in copies and not _BESIDE.fullmatch(name)]:
        raise CheckpointError(f"{len(extra)} tensors have no place in a {kind} of ours", where=str(where),
                              why=f"{', '.join(extra[:3])} among them")
    embedding = modules["source_embedding"] + ".weight"
    if embedding not in theirs or theirs[embedding].dim() != 2:
        raise CheckpointError("a tensor is missing", where=str(where), why=f"{embedding} is not there, or is no matrix")
    if (width := theirs[embedding].shape[1]) != config.d_model:
        raise CheckpointError("the tensors are not those that config.json describes", where=str(where),
                              why=f"{embedding} has {width:,} columns, not {config.d_model:,}")
    if other := [name for name in copies if not torch.equal(theirs[name], theirs[embedding])]:
        raise CheckpointError(f"{other[0]} is another matrix than {embedding}", where=str(where),
                              why=f"a {kind} of ours has one for both")
    return make(fields, theirs, names.to_ours(theirs, modules), config, rows)


def with_embedding(theirs: Lazily, kind: str) -> Lazily:
    """The embedding under its own name, too: of a matrix that serves several times a file may hold any one."""
    prefix = "model." if kind in BARTS else ""
    names = [f"{prefix}{name}.weight" for name in ("shared", "encoder.embed_tokens", "decoder.embed_tokens")]
    found = next((name for name in [*names, "lm_head.weight"] if name in theirs), None)
    return theirs if found is None else theirs | Lazily(names[:1], lambda _: theirs[found])


def has_head(theirs: Weights) -> bool:
    """Whether an output projection of its own is in the file."""
    head, shared = theirs.get("lm_head.weight"), theirs.get("shared.weight")
    return head is not None and shared is not None and not torch.equal(head, shared)


def has_positions(theirs: Weights, config: ModelConfig) -> bool:
    """Whether a Marian has other positions than its sinusoids in the file, which it then reads."""
    table = theirs.get("model.encoder.embed_positions.weight")
    if table is None or table.dim() != 2 or table.shape[1] != config.d_model:
        return False
    sinusoids = SinusoidalPosition(config.d_model).table(torch.arange(len(table)))[:, basis.halves(config.d_model)]
    return not torch.allclose(table, sinusoids, rtol=0, atol=1e-3)


def _of_bart(fields: Fields, theirs: Weights, ours: Lazily, config: ModelConfig, rows: Rows) -> Lazily:
    kind = fields.values["model_type"]
    skipped = skipped_of(fields)
    positions = [f"{stack}.position.table" for stack in ("encoder", "decoder")]
    tables = {name: ours[name][skipped:] for name in positions if config.position == "learned" and name in ours}
    if kind == "m2m_100":
        tables = dict.fromkeys(positions, _sinusoids(1 + fields.number("pad_token_id", 1), config))
    embeddings = _embeddings(rows.of(ours["source_embedding.weight"]), config, scales_input(fields))
    ours = ours.but(*positions) | tables | embeddings | {"output_bias.bias": rows.bias(_bias(theirs, rows))}
    if config.position == "sinusoidal":
        return basis.permuted(ours, torch.argsort(basis.halves(config.d_model)))
    return ours


def _sinusoids(first: int, config: ModelConfig) -> Tensor:
    """What M2M100 adds at each position: sin(p·ω) in the first half of the features, cos(p·ω) in the second, with
    ω = 10000^(-i / (D/2 - 1)), and positions p from `first` on."""
    half = config.d_model // 2
    omega = torch.exp(torch.arange(half).float() * -(math.log(10000) / max(1, half - 1)))
    angles = torch.arange(first, first + config.max_length).float()[:, None] * omega
    return torch.nn.functional.pad(torch.cat([angles.sin(), angles.cos()], 1), (0, config.d_model % 2))


def _embeddings(matrix: Tensor, config: ModelConfig, is_scaled: bool) -> dict[str, Tensor]:
    """One matrix where embeddings are multiplied by √D as ours are; else those that read it are divided by that."""
    if config.tie_embeddings:
        return {"source_embedding.weight": matrix}
    read = matrix if is_scaled else matrix / math.sqrt(config.d_model)
    return {"source_embedding.weight": read, "target_embedding.weight": read, "output.weight": matrix}


def _bias(theirs: Weights, rows: Rows) -> Tensor:
    size = 1 + max(row for row in rows.order if row is not None)
    found = theirs.get("final_logits_bias")
    return torch.zeros(size) if found is None else found.reshape(-1)


def _of_t5(fields: Fields, theirs: Weights, ours: Lazily, config: ModelConfig, rows: Rows) -> Lazily:
    head = "output.weight" if "output.weight" in ours else "source_embedding.weight"
    if fields.values["model_type"] != "umt5":  # one table for all layers of a stack
        for name in ("encoder", "decoder"):
            count = config.encoder_layers if name == "encoder" else config.decoder_layers
            table = ours.get(f"{name}.layers.0.self_attention.position.table")
            if table is not None:
                ours |= {f"{name}.layers.{i}.self_attention.position.table": table for i in range(count)}
    kept = ours.but("output.weight", *(name for name in ours if "cross_attention.position" in name))
    embedding = rows.of(ours["source_embedding.weight"])
    unscaled = basis.t5_unscaled(kept | {"source_embedding.weight": embedding}, config)
    if not config.tie_embeddings:
        scale = math.sqrt(config.d_model) if scales_output(fields) else 1.0
        unscaled |= {"target_embedding.weight": unscaled["source_embedding.weight"],
                     "output.weight": rows.of(ours[head]) / scale}
    return unscaled | {"output_bias.bias": rows.bias(torch.zeros(len(theirs["shared.weight"])))}


def _of_bert(fields: Fields, theirs: Weights, ours: Lazily, config: ModelConfig, rows: Rows) -> Lazily:
    embedding = rows.of(ours["source_embedding.weight"]) / math.sqrt(config.d_model)
    table = ours["encoder.position.table"][skipped_of(fields):]
    segments: Iterable[Tensor] = (tensor for name, tensor in theirs.items() if "token_type_embeddings" in name)
    table = table + next((kinds[0] for kinds in segments), torch.zeros(()))  # one segment
    return ours | {"source_embedding.weight": embedding, "encoder.position.table": table}
