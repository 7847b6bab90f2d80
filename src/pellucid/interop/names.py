"""Where each weight of ours stands in a class of transformers: one list a family, read in both directions.

Modules are paired by name; inside of one, our gain and our tables are their weight.
"""

from collections.abc import Iterator, Mapping

from torch import Tensor

from pellucid.config import ModelConfig
from pellucid.runs.tensors import Lazily

Modules = dict[str, str]  # ours → theirs

_BART = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
_T5 = {"query": "q", "key": "k", "value": "v", "output": "o", "position": "relative_attention_bias"}
_TO_WEIGHT = {"gain", "table"}


def to_theirs(weights: Mapping[str, Tensor], modules: Modules) -> Lazily:
    """Our weights under their names; those of a module that is not listed are left out."""
    found = {}
    for name in weights:
        module, _, leaf = name.rpartition(".")
        if module in modules:
            found[f"{modules[module]}.{'weight' if leaf in _TO_WEIGHT else leaf}"] = name
    return Lazily(found, lambda name: weights[found[name]])


def to_ours(weights: Mapping[str, Tensor], modules: Modules) -> Lazily:
    """Their weights under our names: what is there of the modules that are listed."""
    found = {}
    for ours, theirs in modules.items():
        for leaf in ("weight", "bias"):
            if f"{theirs}.{leaf}" in weights:
                is_norm, is_table = "norm" in ours, ours.endswith("position")
                mine = "gain" if is_norm else "table" if is_table else leaf
                found[f"{ours}.{mine if leaf == 'weight' else leaf}"] = f"{theirs}.{leaf}"
    return Lazily(found, lambda name: weights[found[name]])


def bart(config: ModelConfig, prefix: str = "model.") -> Modules:
    """Of BART's family (Marian, Blenderbot, mBART, M2M100): all but the logits."""
    modules = {"source_embedding": f"{prefix}shared"}
    for ours, _, inner in _layers(config):
        theirs = f"{prefix}{ours}"
        modules |= _attentions(ours, theirs, inner, _BART, {"self_attention": "self_attn",
                                                            "cross_attention": "encoder_attn"})
        modules |= {f"{ours}.residual_{n}.norm": f"{theirs}.{name}_layer_norm" for n, name in enumerate(
            ["self_attn", *(["encoder_attn"] if len(inner) == 2 else []), "final"], start=1)}
        modules |= {f"{ours}.feed_forward.inner": f"{theirs}.fc1", f"{ours}.feed_forward.outer": f"{theirs}.fc2"}
    for stack in ("encoder", "decoder"):
        modules |= {f"{stack}.position": f"{prefix}{stack}.embed_positions",
                    f"{stack}.closing_norm": f"{prefix}{stack}.layer_norm",
                    f"{stack}.embedding_norm": f"{prefix}{stack}.layernorm_embedding"}
    return modules


def t5(config: ModelConfig) -> Modules:
    """Of T5's family, with a table of positions in every layer, as UMT5 has it."""
    modules = {"source_embedding": "shared", "output": "lm_head"}
    is_gated = "glu" in config.feed_forward
    for ours, i, inner in _layers(config):
        stack = ours.split(".")[0]
        theirs = f"{stack}.block.{i}.layer"
        modules |= _attentions(ours, theirs, inner, _T5, {"self_attention": "0.SelfAttention",
                                                          "cross_attention": "1.EncDecAttention"})
        modules |= {f"{ours}.residual_{n}.norm": f"{theirs}.{n - 1}.layer_norm" for n in range(1, len(inner) + 2)}
        dense = f"{theirs}.{len(inner)}.DenseReluDense"
        modules |= {f"{ours}.feed_forward.gate": f"{dense}.wi_0", f"{ours}.feed_forward.outer": f"{dense}.wo",
                    f"{ours}.feed_forward.inner": f"{dense}.{'wi_1' if is_gated else 'wi'}"}
        modules[f"{stack}.closing_norm"] = f"{stack}.final_layer_norm"
    return modules


_BERT = {"query": "attention.self.query", "key": "attention.self.key", "value": "attention.self.value",
         "output": "attention.output.dense"}
_DISTILBERT = {"query": "attention.q_lin", "key": "attention.k_lin", "value": "attention.v_lin",
               "output": "attention.out_lin"}


def bert(config: ModelConfig, kind: str = "bert") -> Modules:
    """Of classifiers: BERT, RoBERTa, DistilBERT."""
    is_distilled, prefix = kind == "distilbert", kind.removeprefix("xlm-")
    modules = {"source_embedding": f"{prefix}.embeddings.word_embeddings", "encoder.position":
               f"{prefix}.embeddings.position_embeddings", "encoder.embedding_norm": f"{prefix}.embeddings.LayerNorm"}
    norms, inner, outer, parts, layers = (
        ("sa_layer_norm", "output_layer_norm"), "ffn.lin1", "ffn.lin2", _DISTILBERT, "transformer.layer") if (
        is_distilled) else (("attention.output.LayerNorm", "output.LayerNorm"), "intermediate.dense", "output.dense",
                            _BERT, "encoder.layer")
    for i in range(config.encoder_layers):
        ours, theirs = f"encoder.layers.{i}", f"{prefix}.{layers}.{i}"
        modules |= {f"{ours}.self_attention.{part}": f"{theirs}.{name}" for part, name in parts.items()}
        modules |= {f"{ours}.residual_{n}.norm": f"{theirs}.{name}" for n, name in enumerate(norms, start=1)}
        modules |= {f"{ours}.feed_forward.{mine}": f"{theirs}.{name}" for mine, name in (("inner", inner),
                                                                                         ("outer", outer))}
    first, last = {"bert": ("bert.pooler.dense", "classifier"), "distilbert": ("pre_classifier", "classifier")}.get(
        kind, ("classifier.dense", "classifier.out_proj"))
    return modules | {"head_1": first, "head_2": last}


def _layers(config: ModelConfig) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Each layer's name of ours, its number, and its attentions."""
    for i in range(config.encoder_layers):
        yield f"encoder.layers.{i}", i, ("self_attention",)
    for i in range(config.decoder_layers):
        yield f"decoder.layers.{i}", i, ("self_attention", "cross_attention")


def _attentions(ours: str, theirs: str, inner: tuple[str, ...], parts: Mapping[str, str],
                names: Mapping[str, str]) -> Modules:
    return {f"{ours}.{attention}.{part}": f"{theirs}.{names[attention]}.{name}"
            for attention in inner for part, name in parts.items()}
