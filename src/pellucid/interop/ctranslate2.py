"""A folder that CTranslate2 opens: our weights written straight into its specification.

Its converters know no encoder–decoder with rotary positions, and count sinusoids otherwise; its engine takes ours.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from pellucid.config import ModelConfig, RunConfig
from pellucid.config.checks import refuse_readers
from pellucid.data.tokenizers.interface import BOS, EOS, SPECIALS, UNK, Tokenizer
from pellucid.errors import ConfigError
from pellucid.files import write_text
from pellucid.interop import basis, holding
from pellucid.interop.card import model_card
from pellucid.interop.folder import Written, new_folder, sizes
from pellucid.interop.huggingface import positions_of
from pellucid.interop.pieces import models
from pellucid.model.encoder import Stack
from pellucid.model.transformer import Transformer
from pellucid.nn.embeddings import OutputBias
from pellucid.runs.checkpoint import weights_of
from pellucid.runs.run import Run, load

TARGET = "--to ctranslate2"
QUANTIZATIONS = ("int8",)
_LONGEST = {"encoder": 1024, "decoder": 256}  # tokens of a source and an output, where a call, as of Argos, bounds none
_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "swish": "SWISH", "geglu": "GELU",
                "geglu_tanh": "GELUTanh", "swiglu": "SWISH"}
_USE = '''```python
import ctranslate2

translator = ctranslate2.Translator("this folder")
result = translator.translate_batch([pieces], SEARCH)[0]  # of a source without an eos, which is added
print(result.hypotheses[0])
```'''

Weights = Mapping[str, Tensor]


def export(folder: Path, out: Path, quantization: str | None = None) -> Written:
    """Writes the run in `folder` to `out`, whole or not at all.

    Args:
        quantization: of matrices, int8; None keeps float32.

    Raises:
        ConfigError: the model or the task is none of CTranslate2's; there is something at `out`; it is not installed.
        CheckpointError: no run, or a file of it that is damaged.
        OutputError: disk full, no permission.
    """
    if quantization is not None and quantization not in QUANTIZATIONS:
        raise ConfigError(f"{quantization!r} is no quantization that is known here", where="--quantization",
                          fix=f"choose {', '.join(QUANTIZATIONS)}")
    run = load(folder)
    refuse_readers(run.config, "export", str(folder))
    check(run.config)
    spec = specification(cast("Transformer", run.model).cpu(), run.config)
    _register(spec, run)
    spec.validate()
    spec.optimize(quantization)
    notes = notes_of(run.config, quantization) + _forced(run.tokenizers.target)
    with new_folder(out) as place:
        spec.save(str(place))
        if run.tokenizers.config.kind == "sentencepiece":
            for side, content in zip(("source", "target"), models(run.tokenizers), strict=True):
                (place / f"{side}.spm").write_bytes(content)
        write_text(place / "README.md", model_card(run, folder, "a CTranslate2 model", notes,
                                                   _USE.replace("SEARCH", search_of(run.config))))
        files = sizes(place)
    return Written("CTranslate2 " + (quantization or "float32"), files, notes)


def check(config: RunConfig) -> None:
    """Refuses what CTranslate2 does not have; errors as in `export`."""
    holding.refuse_passages(config, TARGET)
    if config.task != "seq2seq":
        raise holding.refusal(TARGET, f"task {config.task} is none of CTranslate2's", "it translates")
    found = holding.misfits(config.model, holding.CTRANSLATE2)
    width = config.model.value_width
    if config.model.d_key is not None and config.model.d_key > width:
        found.append(f"model.d_key {config.model.d_key}, which is above the {width} of a head's values")
    if found:
        raise holding.refusal(TARGET, f"CTranslate2 does not hold {', '.join(found)}", "its engine has no such part")


def notes_of(config: RunConfig, quantization: str | None) -> tuple[str, ...]:
    """What is otherwise there than here, a sentence each."""
    notes = ["CTranslate2's beam divides by length ** length_penalty, pellucid's by ((5 + length) / 6) ** "
             "length_penalty: with a length penalty of 0 both choose the same",
             "CTranslate2 says one piece at least; min_decoding_length=0 lets it say nothing, as pellucid may"]
    if config.decode.width > 1 and (config.decode.min_length or config.decode.no_repeat_ngram):
        notes.append("CTranslate2's beam divides the probability of what must not come, an end too early or an n-gram "
                     "again, among the others, pellucid's passes it over: either may choose another output")
    if quantization:
        notes.append(f"matrices are rounded to {quantization}")
    return (*notes, *holding.undivided(config.decode))


def search_of(config: RunConfig) -> str:
    """The run's own search as arguments of `translate_batch`: the folder cannot hold them, and its engine's differ."""
    decode = config.decode
    said = {"max_input_length": config.model.max_length, "beam_size": 1 if decode.sample else decode.width,
            "length_penalty": decode.length_penalty, "min_decoding_length": decode.min_length,
            "max_decoding_length": decode.max_length, "no_repeat_ngram_size": decode.no_repeat_ngram}
    draws = {"sampling_temperature": decode.temperature, "sampling_topk": decode.top_k, "sampling_topp": decode.top_p}
    return ", ".join(f"{name}={value}" for name, value in (said | (draws if decode.sample else {})).items())


def _forced(tokenizer: Tokenizer) -> tuple[str, ...]:
    """What is to be known where outputs begin with a token of their language."""
    pieces = tokenizer.pieces(tokenizer.forced)
    return (f"each output begins with {' '.join(pieces)}: give CTranslate2 that as target_prefix",) if pieces else ()


def specification(model: Transformer, config: RunConfig) -> Any:
    """CTranslate2's description of the model, every variable filled."""
    try:
        from ctranslate2.specs import common_spec, transformer_spec
    except ImportError as error:
        raise ConfigError("this needs ctranslate2", where=TARGET, fix="pip install 'pellucid[interop]'") from error
    m = config.model
    keys: dict[str, Any] = {
        "pre_norm": m.residual == "pre", "activation": getattr(common_spec.Activation, _ACTIVATIONS[m.feed_forward]),
        "ffn_glu": "glu" in m.feed_forward, "rms_norm": m.norm == "rmsnorm",
        "relative_attention_bias": m.position == "t5", "layernorm_embedding": m.embedding_norm}
    if m.d_head is not None:
        keys["head_dim"] = m.d_head
    if m.position == "rotary":
        keys |= {"rotary_dim": m.d_key or 0, "rotary_interleave": True}
    spec = transformer_spec.TransformerSpec(
        transformer_spec.TransformerEncoderSpec(m.encoder_layers, m.n_heads, **keys),
        transformer_spec.TransformerDecoderSpec(m.decoder_layers, m.n_heads, **keys))
    weights, rows = basis.wide_keys(weights_of(model), m), positions_of(config)
    alphas = basis.alphas(m)
    for name, theirs, ours in (("encoder", spec.encoder, model.encoder), ("decoder", spec.decoder, model.decoder)):
        mine = basis.streamed(weights, name, alphas[name])
        _fill_stack(theirs, mine, name, m)
        if hasattr(theirs, "position_encodings"):
            here = rows if m.position == "learned" else max(rows, _LONGEST[name])
            theirs.position_encodings.encodings = _array(alphas[name] * _table(ours, here, m.d_model))
        embedding = model.source_embedding if name == "encoder" else model.target_embedding
        (theirs.embeddings[0] if name == "encoder" else theirs.embeddings).weight = _array(embedding.weight)
        theirs.scale_embeddings = alphas[name] * embedding.scale
        if m.embedding_norm:
            _fill_norm(theirs.layernorm_embedding, mine, f"{name}.embedding_norm")
    spec.decoder.projection.weight = _array(model.output.weight)
    if isinstance(model.output_bias, OutputBias):
        spec.decoder.projection.bias = _array(model.output_bias.bias)
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = m.norm_epsilon or (1e-6 if m.norm == "rmsnorm" else 1e-5)
    return spec


def _fill_stack(spec: Any, weights: Weights, name: str, config: ModelConfig) -> None:
    """A stack's layers and its closing norm."""
    inner = ["self_attention"] if name == "encoder" else ["self_attention", "attention"]
    for i, layer in enumerate(spec.layer):
        for number, theirs in enumerate(inner, start=1):
            ours = "cross_attention" if theirs == "attention" else theirs
            _fill_attention(getattr(layer, theirs), weights, f"{name}.layers.{i}.{ours}")
            _fill_norm(getattr(layer, theirs).layer_norm, weights, f"{name}.layers.{i}.residual_{number}.norm")
        _fill_norm(layer.ffn.layer_norm, weights, f"{name}.layers.{i}.residual_{len(inner) + 1}.norm")
        dense = f"{name}.layers.{i}.feed_forward"
        first = {"linear_0": "gate", "linear_0_noact": "inner"} if "glu" in config.feed_forward else {
            "linear_0": "inner"}
        for theirs, ours in (first | {"linear_1": "outer"}).items():
            _fill_linear(getattr(layer.ffn, theirs), weights, [f"{dense}.{ours}"])
    if config.residual == "pre":
        _fill_norm(spec.layer_norm, weights, f"{name}.closing_norm")


def _fill_attention(spec: Any, weights: Weights, name: str) -> None:
    """Queries, keys and values are one product where all are made of the same, and keys and values are always."""
    is_self = name.endswith("self_attention")
    groups = [["query", "key", "value"]] if is_self else [["query"], ["key", "value"]]
    for linear, parts in zip(spec.linear, [*groups, ["output"]], strict=True):
        _fill_linear(linear, weights, [f"{name}.{part}" for part in parts])
    if (table := weights.get(f"{name}.position.table")) is not None:
        import numpy as np

        spec.relative_attention_bias = _array(table)
        spec.relative_attention_max_distance = np.dtype("int32").type(128)


def _fill_linear(spec: Any, weights: Weights, names: list[str]) -> None:
    """One product of several."""
    spec.weight = _joined(weights, [f"{name}.weight" for name in names])
    if f"{names[0]}.bias" in weights:
        spec.bias = _joined(weights, [f"{name}.bias" for name in names])


def _joined(weights: Weights, names: list[str]) -> Any:
    """One below the other; a single one is not copied."""
    return _array(weights[names[0]] if len(names) == 1 else torch.cat([weights[name] for name in names]))


def _fill_norm(spec: Any, weights: Weights, name: str) -> None:
    spec.gamma = _array(weights[f"{name}.gain"])
    if f"{name}.bias" in weights:
        spec.beta = _array(weights[f"{name}.bias"])


def _table(stack: Stack, rows: int, width: int) -> Tensor:
    """What the stack adds at each position."""
    nothing = torch.zeros(1, rows, width)
    return stack.position.embed(nothing, torch.arange(rows))[0]


def _register(spec: Any, run: Run) -> None:
    """The names of the ids of both sides; a special one gives way to a piece that is spelled as it."""
    sides = [side.pieces(range(side.size)) for side in (run.tokenizers.source, run.tokenizers.target)]
    taken, special = {piece for side in sides for piece in side[len(SPECIALS):]}, list(SPECIALS)
    while not taken.isdisjoint(special):
        special = [f"<{name}>" if name in taken else name for name in special]
    spec.register_source_vocabulary([*special, *sides[0][len(SPECIALS):]])
    spec.register_target_vocabulary([*special, *sides[1][len(SPECIALS):]])
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = (special[i] for i in (UNK, BOS, EOS))
    spec.config.decoder_start_token = special[BOS]


def _array(tensor: Tensor) -> Any:
    return tensor.detach().float().contiguous().numpy()
