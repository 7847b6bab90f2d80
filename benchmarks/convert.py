"""A pellucid Transformer's weights in the peers' models: the same numbers under other names.

Sinusoidal positions, LayerNorm (post-norm or pre-norm), ReLU, one vocabulary, tied embeddings: what all of them can be.
Sinusoids go in as a table, since everybody lays the sines and cosines out in another order. `HELD` has the other
positions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.decode_job import BOS, EOS, PAD, Weights

POSITIONS = 1024
EPSILON = 1e-5  # of our LayerNorm
MAX_DISTANCE = 128  # of our T5 buckets
SPECIALS = ["<pad>", "<unk>", "<s>", "</s>"]
EMBEDDING = "target_embedding.weight"
HELD = {"ctranslate2": {"sinusoidal", "rotary", "t5"}, "transformers": {"sinusoidal"}, "joeynmt": {"sinusoidal"}}

# Ours → theirs, by stack; the rest of a name stays.
PARTS_OF_TRANSFORMERS = {
    "self_attention.query": "self_attn.q_proj", "self_attention.key": "self_attn.k_proj",
    "self_attention.value": "self_attn.v_proj", "self_attention.output": "self_attn.out_proj",
    "cross_attention.query": "encoder_attn.q_proj", "cross_attention.key": "encoder_attn.k_proj",
    "cross_attention.value": "encoder_attn.v_proj", "cross_attention.output": "encoder_attn.out_proj",
    "feed_forward.inner": "fc1", "feed_forward.outer": "fc2", "residual_1.norm": "self_attn_layer_norm",
    "closing_norm": "layer_norm", ".gain": ".weight"}
TRANSFORMERS = {"encoder": {**PARTS_OF_TRANSFORMERS, "residual_2.norm": "final_layer_norm"},
                "decoder": {**PARTS_OF_TRANSFORMERS, "residual_2.norm": "encoder_attn_layer_norm",
                            "residual_3.norm": "final_layer_norm"}}
PARTS_OF_JOEYNMT = {
    "attention.query": "attention.q_layer", "attention.key": "attention.k_layer",
    "attention.value": "attention.v_layer", "attention.output": "attention.output_layer",
    "cross_attention": "src_trg_att", "feed_forward.inner": "feed_forward.pwff_layer.0",
    "feed_forward.outer": "feed_forward.pwff_layer.3", "closing_norm": "layer_norm", ".gain": ".weight"}
JOEYNMT = {"encoder": {**PARTS_OF_JOEYNMT, "self_attention": "src_src_att", "residual_1.norm": "layer_norm",
                       "residual_2.norm": "feed_forward.layer_norm"},
           "decoder": {**PARTS_OF_JOEYNMT, "self_attention": "trg_trg_att", "residual_1.norm": "x_layer_norm",
                       "residual_2.norm": "dec_layer_norm", "residual_3.norm": "feed_forward.layer_norm"}}


def holds(system: str, model: dict[str, Any]) -> bool:
    """Whether a system has such a model's positions and attention."""
    position, attention = model.get("position", "sinusoidal"), model.get("attention", "full")
    return system == "pellucid" or (position in HELD[system] and attention == "full")


def renamed(weights: Weights, names: dict[str, dict[str, str]]) -> dict[str, Any]:
    """The stacks' weights under their other names, as torch tensors."""
    import torch

    found = {}
    for name, value in weights.items():
        stack = name.split(".", 1)[0]
        if stack in names:
            for ours, theirs in names[stack].items():
                name = name.replace(ours, theirs)
            found[name] = torch.from_numpy(value)
    return found


def sinusoids(width: int) -> np.ndarray:
    """Section 3.5 of the paper, sine and cosine in turn."""
    even = np.arange(0, width, 2, dtype=np.float32)
    angles = np.arange(POSITIONS, dtype=np.float32)[:, None] * np.exp(even * np.float32(-np.log(10_000.0) / width))
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(POSITIONS, -1)[:, :width].astype(np.float32)


def to_transformers(model: dict[str, Any], weights: Weights) -> Any:
    """MarianMTModel for post-norm; its pre-norm sister, PegasusForConditionalGeneration, for pre-norm."""
    import torch
    from transformers import MarianConfig, MarianMTModel, PegasusConfig, PegasusForConditionalGeneration

    config, kind = {"post": (MarianConfig, MarianMTModel),
                    "pre": (PegasusConfig, PegasusForConditionalGeneration)}[model["residual"]]
    theirs = kind(config(
        vocab_size=model["vocabulary"], d_model=model["d_model"], encoder_layers=model["encoder_layers"],
        decoder_layers=model["decoder_layers"], encoder_attention_heads=model["n_heads"],
        decoder_attention_heads=model["n_heads"], encoder_ffn_dim=model["d_ff"], decoder_ffn_dim=model["d_ff"],
        activation_function="relu", max_position_embeddings=POSITIONS, scale_embedding=True, pad_token_id=PAD,
        eos_token_id=EOS, bos_token_id=BOS, decoder_start_token_id=BOS, forced_eos_token_id=None,
        attn_implementation="sdpa"))
    positions = torch.from_numpy(sinusoids(model["d_model"]))
    state = {**renamed(weights, TRANSFORMERS), "shared.weight": torch.from_numpy(weights[EMBEDDING]),
             "encoder.embed_positions.weight": positions, "decoder.embed_positions.weight": positions}
    missing, unexpected = theirs.model.load_state_dict(state, strict=False)
    assert not unexpected, unexpected
    assert {name.rpartition(".")[0] for name in missing} <= {"encoder.embed_tokens", "decoder.embed_tokens"}, missing
    assert theirs.model.encoder.embed_tokens.weight is theirs.lm_head.weight  # one matrix
    return theirs.eval()


def to_joeynmt(model: dict[str, Any], weights: Weights) -> Any:
    """JoeyNMT's model. Its padding must be id 1 and its unknown word 0: `swapped` changes places."""
    import torch
    from joeynmt.model import build_model
    from torch import nn

    from benchmarks.peers import joeynmt_vocabulary

    words = joeynmt_vocabulary(model["vocabulary"])
    part = {"type": "transformer", "num_heads": model["n_heads"], "hidden_size": model["d_model"],
            "ff_size": model["d_ff"], "embeddings": {"embedding_dim": model["d_model"], "scale": True, "dropout": 0.0},
            "dropout": 0.0, "layer_norm": model["residual"]}
    theirs = build_model({"tied_embeddings": True, "tied_softmax": True,
                          "encoder": {**part, "num_layers": model["encoder_layers"]},
                          "decoder": {**part, "num_layers": model["decoder_layers"]}}, words, words)
    embedding = torch.from_numpy(weights[EMBEDDING])[[1, 0, *range(2, model["vocabulary"])]]
    state = {**renamed(weights, JOEYNMT), "src_embed.lut.weight": embedding, "trg_embed.lut.weight": embedding,
             "decoder.output_layer.weight": embedding}
    missing, unexpected = theirs.load_state_dict(state, strict=False)
    assert not unexpected, unexpected
    assert all(name.endswith("pe.pe") for name in missing), missing  # its sinusoids are laid out as ours
    for module in theirs.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = EPSILON
    return theirs.eval()


def swapped(ids: np.ndarray) -> np.ndarray:
    """Ids with 0 and 1 in each other's place."""
    return np.where(ids < 2, 1 - ids, ids)


def words_of(vocabulary: int) -> list[str]:
    """A name for each id: CTranslate2 takes and gives strings."""
    return SPECIALS + [str(i) for i in range(len(SPECIALS), vocabulary)]


def to_ctranslate2(model: dict[str, Any], weights: Weights, folder: Path, vocabulary_map: Path | None = None,
                   words: list[str] | None = None) -> None:
    """Writes the model as CTranslate2 reads it, in float32; other types are made as it is loaded.

    Args:
        words: the names of ids that it shall take and give; those of `words_of` if left out.
    """
    from ctranslate2.specs import TransformerSpec
    from ctranslate2.specs.transformer_spec import TransformerDecoderSpec, TransformerEncoderSpec

    options = {"rotary": {"rotary_dim": 0, "rotary_interleave": True}, "t5": {"relative_attention_bias": True}}
    spec = TransformerSpec(*(kind(layers, model["n_heads"], pre_norm=model["residual"] == "pre",
                                  **options.get(model.get("position", "sinusoidal"), {}))
                             for kind, layers in ((TransformerEncoderSpec, model["encoder_layers"]),
                                                  (TransformerDecoderSpec, model["decoder_layers"]))))
    for stack, name in ((spec.encoder, "encoder"), (spec.decoder, "decoder")):
        embeddings = stack.embeddings[0] if name == "encoder" else stack.embeddings
        embeddings.weight = weights[EMBEDDING]
        if model.get("position", "sinusoidal") == "sinusoidal":
            stack.position_encodings.encodings = sinusoids(model["d_model"])
        for number, layer in enumerate(stack.layer):
            _fill_layer(layer, weights, f"{name}.layers.{number}")
        if model["residual"] == "pre":
            _fill_norm(stack.layer_norm, weights, f"{name}.closing_norm")
    spec.decoder.projection.weight = weights[EMBEDDING]
    spec.config.layer_norm_epsilon = EPSILON
    words = words or words_of(model["vocabulary"])
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    if vocabulary_map:
        spec.register_vocabulary_mapping(str(vocabulary_map))
    spec.validate()
    spec.optimize()
    folder.mkdir()
    spec.save(str(folder))


def _fill_layer(layer: Any, weights: Weights, name: str) -> None:
    norms = iter(range(1, 4))
    _fill_linear(layer.self_attention.linear[0], weights, name + ".self_attention", "query", "key", "value")
    _fill_linear(layer.self_attention.linear[1], weights, name + ".self_attention", "output")
    if f"{name}.self_attention.position.table" in weights:
        layer.self_attention.relative_attention_bias = weights[f"{name}.self_attention.position.table"]
        layer.self_attention.relative_attention_max_distance = np.int32(MAX_DISTANCE)
    _fill_norm(layer.self_attention.layer_norm, weights, f"{name}.residual_{next(norms)}.norm")
    if f"{name}.cross_attention.query.weight" in weights:
        _fill_linear(layer.attention.linear[0], weights, name + ".cross_attention", "query")
        _fill_linear(layer.attention.linear[1], weights, name + ".cross_attention", "key", "value")
        _fill_linear(layer.attention.linear[2], weights, name + ".cross_attention", "output")
        _fill_norm(layer.attention.layer_norm, weights, f"{name}.residual_{next(norms)}.norm")
    _fill_linear(layer.ffn.linear_0, weights, name + ".feed_forward", "inner")
    _fill_linear(layer.ffn.linear_1, weights, name + ".feed_forward", "outer")
    _fill_norm(layer.ffn.layer_norm, weights, f"{name}.residual_{next(norms)}.norm")


def _fill_linear(spec: Any, weights: Weights, name: str, *parts: str) -> None:
    spec.weight = np.concatenate([weights[f"{name}.{part}.weight"] for part in parts])
    spec.bias = np.concatenate([weights[f"{name}.{part}.bias"] for part in parts])


def _fill_norm(spec: Any, weights: Weights, name: str) -> None:
    spec.gamma, spec.beta = weights[f"{name}.gain"], weights[f"{name}.bias"]
