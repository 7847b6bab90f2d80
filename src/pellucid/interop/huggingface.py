"""A folder that the Auto* classes of transformers open without any code of ours: weights, tokenizer, configuration.

transformers itself is not needed to write it.
"""

from pathlib import Path
from typing import Any

from pellucid.config import RunConfig
from pellucid.config.checks import refuse_readers
from pellucid.data.tokenizers.build import Tokenizers
from pellucid.data.tokenizers.interface import BOS, EOS, PAD
from pellucid.files import write_json, write_text
from pellucid.interop import holding, returning
from pellucid.interop.card import model_card
from pellucid.interop.folder import Written, new_folder, sizes
from pellucid.interop.pieces import models
from pellucid.interop.tokenizer_json import tokenizer_config, tokenizer_json
from pellucid.interop.weights import CLASSES as WEIGHTS_OF
from pellucid.interop.weights import nonzero_bias
from pellucid.model.transformer import Transformer
from pellucid.runs.format import IMPORTED, WEIGHTS
from pellucid.runs.run import Run, load
from pellucid.runs.tensors import write_tensors

TARGET = "--to huggingface"
CLASSES = {"blenderbot": "BlenderbotForConditionalGeneration", "marian": "MarianMTModel",
           "umt5": "UMT5ForConditionalGeneration", "bert": "BertForSequenceClassification"}
_USE = '''```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("this folder")
model = AutoModelForSeq2SeqLM.from_pretrained("this folder")
ids = model.generate(**tokenizer(text, truncation=True, return_tensors="pt"))
print(tokenizer.decode(ids[0], skip_special_tokens=True))
```'''
_USE_CLASSIFIER = '''```python
from transformers import pipeline

print(pipeline("text-classification", "this folder")(text, truncation=True))
```'''
_SPECIALS = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS}
_ACTIVATIONS = {"gelu_tanh": "gelu_new", "swish": "silu", "geglu": "gated-gelu_python", "geglu_tanh": "gated-gelu",
                "swiglu": "gated-silu"}  # where theirs has another name


def export(folder: Path, out: Path) -> Written:
    """Writes the run in `folder` to `out`, whole or not at all.

    Raises:
        ConfigError: no class holds the model, or no tokenizer.json its tokenizer; there is something at `out`.
        CheckpointError: no run, or a file of it that is damaged.
        OutputError: disk full, no permission.
    """
    run = load(folder)
    refuse_readers(run.config, "export", str(folder))
    holding.refuse_passages(run.config, TARGET)
    if (folder / IMPORTED).is_dir():
        return returning.export(run, folder, out)
    config, kind = run.config, check(run.config, run.tokenizers)
    model: Any = run.model.cpu()
    if kind == "umt5" and (name := nonzero_bias(model)):
        raise holding.refusal(TARGET, f"umt5 has no biases, and {name} is one that adds something",
                              "its projections have weights alone")
    is_classifier = config.task == "classification"
    tokenizer = tokenizer_json(run.tokenizers, is_classifier)
    positions = positions_of(config)
    with new_folder(out) as place:
        write_tensors(place / WEIGHTS, WEIGHTS_OF[kind](model, config.model, positions))
        if is_classifier:
            write_json(place / "config.json", classifier_json(run, len(model.source_embedding.weight), positions))
        else:
            write_json(place / "config.json", config_json(kind, model, config, positions))
            write_json(place / "generation_config.json", generation_config(config))
        write_json(place / "tokenizer.json", tokenizer)
        write_json(place / "tokenizer_config.json", tokenizer_config(config.model.max_length))
        _write_pieces(run, place)
        notes = notes_of(kind, config)
        write_text(place / "README.md", model_card(run, folder, f"`{CLASSES[kind]}` of transformers", notes,
                                                         _USE_CLASSIFIER if is_classifier else _USE))
        files = sizes(place)
    return Written(CLASSES[kind], files, notes)


def check(config: RunConfig, tokenizers: Tokenizers) -> str:
    """The class that holds a run, by the name of its type; errors as in `export`."""
    if config.tokenizer.kind == "imported":
        raise holding.refusal(TARGET, "tokenizer.kind imported", "its pieces have ids of ours, and its file has theirs")
    if not tokenizers.shared and config.task == "seq2seq":
        raise holding.refusal(TARGET, "tokenizer.shared false", "a tokenizer.json has one vocabulary for both sides")
    return holding.class_for(config)


def positions_of(config: RunConfig) -> int:
    """How many positions a table of theirs needs: a source or an output of ours is no longer."""
    longest = config.model.max_length
    is_known = config.model.position == "learned" or config.task == "classification"
    return longest if is_known else max(longest, config.decode.max_length) + 1


def config_json(kind: str, model: Transformer, config: RunConfig, positions: int) -> dict[str, Any]:
    """The content of config.json."""
    m, vocabulary = config.model, len(model.output.weight)
    activation = _ACTIVATIONS.get(m.feed_forward, m.feed_forward)
    same = {"architectures": [CLASSES[kind]], "model_type": kind, "vocab_size": vocabulary, "d_model": m.d_model,
            "is_encoder_decoder": True, "tie_word_embeddings": True, "use_cache": True, "dtype": "float32",
            "decoder_start_token_id": BOS, **_SPECIALS}
    if kind == "umt5":
        inner = model.encoder.layers[0].feed_forward.inner.weight.shape[0]  # type: ignore[union-attr,index]
        # `generate` of transformers 5 makes a cache for decoder_layers, and for num_layers where that is not told
        return same | {"num_layers": m.encoder_layers, "num_decoder_layers": m.decoder_layers,
                       "decoder_layers": m.decoder_layers, "num_heads": m.n_heads, "d_kv": m.key_width,
                       "d_ff": inner, "feed_forward_proj": activation, "dropout_rate": m.dropout,
                       "layer_norm_epsilon": m.norm_epsilon or 1e-6, "relative_attention_num_buckets": 32,
                       "relative_attention_max_distance": 128}
    return same | {"encoder_layers": m.encoder_layers, "decoder_layers": m.decoder_layers,
                   "encoder_attention_heads": m.n_heads, "decoder_attention_heads": m.n_heads,
                   "encoder_ffn_dim": m.d_ff, "decoder_ffn_dim": m.d_ff, "activation_function": activation,
                   "scale_embedding": True, "max_position_embeddings": positions, "dropout": m.dropout,
                   "attention_dropout": m.attention_dropout, "activation_dropout": m.feed_forward_dropout,
                   "forced_eos_token_id": None, "encoder_no_repeat_ngram_size": 0}


def classifier_json(run: Run, vocabulary: int, positions: int) -> dict[str, Any]:
    """The content of config.json of a classifier."""
    m, labels = run.config.model, run.tokenizers.labels
    return {"architectures": [CLASSES["bert"]], "model_type": "bert", "vocab_size": vocabulary,
            "hidden_size": m.d_model, "num_hidden_layers": m.encoder_layers, "num_attention_heads": m.n_heads,
            "intermediate_size": m.d_ff, "hidden_act": _ACTIVATIONS.get(m.feed_forward, m.feed_forward),
            "hidden_dropout_prob": m.dropout, "attention_probs_dropout_prob": m.attention_dropout,
            "max_position_embeddings": positions, "type_vocab_size": 1, "layer_norm_eps": m.norm_epsilon or 1e-5,
            "position_embedding_type": "absolute", "pad_token_id": PAD, "dtype": "float32",
            "id2label": {str(i): label for i, label in enumerate(labels)},
            "label2id": {label: i for i, label in enumerate(labels)}}


def generation_config(config: RunConfig) -> dict[str, Any]:
    """The content of generation_config.json: the run's own search, as far as theirs knows it."""
    decode, beams = config.decode, 1 if config.decode.sample else config.decode.width  # theirs would draw in a beam
    of_beams = {"early_stopping": "never", "length_penalty": decode.length_penalty}  # told of anything else, it warns
    draws = {"temperature": decode.temperature, "top_k": decode.top_k, "top_p": decode.top_p}
    return {"decoder_start_token_id": BOS, **_SPECIALS, "suppress_tokens": [PAD, BOS], "num_beams": beams,
            "num_return_sequences": 1, "max_length": decode.max_length + 1,
            "min_length": decode.min_length + 1 if decode.min_length else 0, "do_sample": decode.sample,
            "no_repeat_ngram_size": decode.no_repeat_ngram} | (of_beams if beams > 1 else {}) | (
                draws if decode.sample else {})


def notes_of(kind: str, config: RunConfig) -> tuple[str, ...]:
    """What is otherwise there than here, a sentence each."""
    notes: list[str] = []
    decode, m = config.decode, config.model
    if config.task == "seq2seq" and not decode.sample and decode.width > 1 and decode.length_penalty:
        alpha = f"{decode.length_penalty:g}"
        notes.append(f"transformers divides the log-probability of a hypothesis by length ** {alpha}, pellucid by "
                     f"((5 + length) / 6) ** {alpha}: a beam may choose another output. With a length penalty of 0 "
                     "both choose the same")
    if m.residual == "deepnorm":
        notes.append("DeepNorm's α is folded into the weights, which is exact but for the ε of the norms")
    if kind == "marian" and m.position == "learned":
        notes.append("Marian leaves its positions out when transformers saves it again: keep this folder")
    if config.tokenizer.lowercase:
        notes.append("a capital sigma at the end of a word becomes σ in lower case, not ς")
    return (*notes, *holding.undivided(decode))


def _write_pieces(run: Run, place: Path) -> None:
    """The model of SentencePiece, for who reads that."""
    if run.tokenizers.config.kind == "sentencepiece":
        for side, content in zip(("source",) if run.tokenizers.labels else ("source", "target"),
                                 models(run.tokenizers), strict=False):
            (place / f"{side}.spm").write_bytes(content)


