"""Which model of ours a config.json of transformers describes; what has no counterpart here is refused by name."""

from collections.abc import Callable
from dataclasses import dataclass

from pellucid.config import ModelConfig
from pellucid.errors import CheckpointError
from pellucid.interop.reading import Fields

_PLAIN = {"relu": "relu", "gelu": "gelu", "gelu_python": "gelu", "gelu_new": "gelu_tanh",
          "gelu_pytorch_tanh": "gelu_tanh", "silu": "swish", "swish": "swish"}
_MOST_POSITIONS, _MOST_LAYERS = 2**16, 1000
_T5 = _PLAIN | {"gated-gelu": "geglu_tanh", "gated-gelu_new": "geglu_tanh", "gated-gelu_python": "geglu",
                "gated-silu": "swiglu"}


@dataclass(frozen=True)
class Family:
    """How a class of theirs is read.

    Attributes:
        model: its config.json as a configuration of ours.
        pad, end, start: the ids that a config.json means which names none; end and start None for what labels texts.
    """

    model: Callable[[Fields], ModelConfig]
    pad: int
    end: int | None = None
    start: int | None = None

    @property
    def is_classifier(self) -> bool:
        """It labels texts."""
        return self.end is None


def _bart(fields: Fields, residual: str, position: str, embedding_norm: bool) -> ModelConfig:
    """Of BART's family."""
    kind = fields.values.get("model_type")
    fields.same("encoder_attention_heads", "decoder_attention_heads")
    fields.same("encoder_ffn_dim", "decoder_ffn_dim")
    return ModelConfig(
        d_model=fields.number("d_model"), n_heads=fields.number("encoder_attention_heads"),
        d_ff=fields.number("encoder_ffn_dim"), encoder_layers=_layers(fields, "encoder_layers"),
        decoder_layers=_layers(fields, "decoder_layers"), position=position, residual=residual,
        feed_forward=fields.one_of("activation_function", "relu" if kind == "m2m_100" else "gelu", _PLAIN),
        embedding_norm=embedding_norm, tie_embeddings=scales_input(fields), output_bias=True,
        max_length=fields.number("max_position_embeddings", 128 if kind == "blenderbot" else 1024),
        dropout=_dropout(fields, "dropout"))


def scales_input(fields: Fields) -> bool:
    """Whether one of BART's family multiplies its embeddings by √D."""
    return fields.flag("scale_embedding", fields.values.get("model_type") == "m2m_100")


def _marian(fields: Fields) -> ModelConfig:
    if fields.flag("normalize_before", False) or fields.flag("normalize_embedding", False):
        raise CheckpointError("this Marian normalises where Marian does not", where=str(fields.where))
    if not fields.flag("share_encoder_decoder_embeddings", True):
        raise CheckpointError("share_encoder_decoder_embeddings is false, which cannot be imported yet",
                              where=str(fields.where), why="its two sides have vocabularies of their own")
    return _bart(fields, "post", "sinusoidal", embedding_norm=False)


def _m2m100(fields: Fields) -> ModelConfig:
    """And NLLB: its sinusoids have steps of their own, and become a table."""
    if fields.number("max_position_embeddings", 1024) > _MOST_POSITIONS:
        raise fields.wrong("max_position_embeddings", f"at most {_MOST_POSITIONS}")
    return _bart(fields, "pre", "learned", embedding_norm=False)


def _t5(fields: Fields) -> ModelConfig:
    """Of T5's family."""
    width, heads, keys = fields.number("d_model"), fields.number("num_heads"), fields.number("d_kv", 64)
    if (fields.number("relative_attention_num_buckets", 32), fields.number(
            "relative_attention_max_distance", 128)) != (32, 128):
        raise fields.wrong("relative_attention_num_buckets", "32, up to a distance of 128")
    plain = "relu" if fields.values.get("model_type") == "t5" else "gated-gelu"
    kind, inner = fields.one_of("feed_forward_proj", plain, _T5), fields.number("d_ff")
    epsilon, layers = fields.real("layer_norm_epsilon", 1e-6), _layers(fields, "num_layers")
    return ModelConfig(
        d_model=width, n_heads=heads, d_head=None if heads * keys == width else keys,
        d_ff=round(1.5 * inner) if "glu" in kind else inner, encoder_layers=layers,
        decoder_layers=_layers(fields, "num_decoder_layers", layers), position="t5", norm="rmsnorm",
        norm_epsilon=None if epsilon == 1e-6 else epsilon, residual="pre", feed_forward=kind, biases=False,
        output_bias=True, tie_embeddings=scales_output(fields), max_length=1024,
        dropout=_dropout(fields, "dropout_rate"))


def scales_output(fields: Fields) -> bool:
    """Whether a T5 divides its last hidden states by √D: UMT5 does and mT5 does not; T5 itself does where its two
    embeddings were meant to be one."""
    kind = fields.values.get("model_type")
    if kind == "t5":
        return fields.flag("scale_decoder_outputs", fields.flag("tie_word_embeddings", True))
    return kind == "umt5"


def skipped_of(fields: Fields) -> int:
    """Rows of a table of positions that no position has: BART's first two, and RoBERTa's up to that of its padding."""
    kind = fields.values["model_type"]
    if kind in ("roberta", "xlm-roberta"):
        return 1 + fields.token("pad_token_id", 1, fields.number("max_position_embeddings", 512) - 1)
    return 2 if kind in ("bart", "mbart") else 0


def _bert(fields: Fields) -> ModelConfig:
    """BERT, and RoBERTa."""
    if fields.values.get("position_embedding_type", "absolute") != "absolute":
        raise fields.wrong("position_embedding_type", "absolute")
    if fields.flag("is_decoder", False):
        raise fields.wrong("is_decoder", "false: a classifier looks at the whole text")
    rows = fields.number("max_position_embeddings", 512) - skipped_of(fields)
    return _encoder(fields, ("hidden_size", "num_attention_heads", "intermediate_size", "num_hidden_layers"),
                    fields.one_of("hidden_act", "gelu", _PLAIN), fields.real("layer_norm_eps", 1e-12), rows)


def _distilbert(fields: Fields) -> ModelConfig:
    if fields.flag("sinusoidal_pos_embds", False):
        raise fields.wrong("sinusoidal_pos_embds", "false")
    return _encoder(fields, ("dim", "n_heads", "hidden_dim", "n_layers"),
                    fields.one_of("activation", "gelu", _PLAIN), 1e-12,
                    fields.number("max_position_embeddings", 512))


def _encoder(fields: Fields, names: tuple[str, str, str, str], kind: str, epsilon: float, rows: int) -> ModelConfig:
    width, heads, inner = (fields.number(name) for name in names[:3])
    is_distilled = names[0] == "dim"
    return ModelConfig(d_model=width, n_heads=heads, d_ff=inner, encoder_layers=_layers(fields, names[3]),
                       position="learned", residual="post", feed_forward=kind, embedding_norm=True, pooling="first",
                       norm_epsilon=None if epsilon == 1e-5 else epsilon, max_length=rows,
                       head_activation="relu" if is_distilled else "tanh",
                       dropout=_dropout(fields, "dropout" if is_distilled else "hidden_dropout_prob"))


def _layers(fields: Fields, name: str, default: int | None = None) -> int:
    """As many as a stack may have: each is made, before it is known whether the file has it."""
    return fields.number(name, default, _MOST_LAYERS)


def _dropout(fields: Fields, name: str) -> float:
    """On sub-layers; that on attention is not taken over."""
    return fields.real(name, 0.1)


FAMILIES = {
    "marian": Family(_marian, 58100, 0, 58100),
    "bart": Family(lambda fields: _bart(fields, "post", "learned", embedding_norm=True), 1, 2, 2),
    "blenderbot": Family(lambda fields: _bart(fields, "pre", "learned", embedding_norm=False), 0, 2, 1),
    "mbart": Family(lambda fields: _bart(fields, "pre", "learned", embedding_norm=True), 1, 2, 2),
    "m2m_100": Family(_m2m100, 1, 2, 2),
    "t5": Family(_t5, 0, 1, 0), "mt5": Family(_t5, 0, 1, 0), "umt5": Family(_t5, 0, 1, 0),
    "bert": Family(_bert, 0), "roberta": Family(_bert, 1), "xlm-roberta": Family(_bert, 1),
    "distilbert": Family(_distilbert, 0)}


def family_of(fields: Fields) -> tuple[str, Family]:
    """The family by its name.

    Raises:
        CheckpointError: none of those that can be imported.
    """
    kind = fields.values.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise CheckpointError(f"model_type {str(kind)[:40]!r} cannot be imported", where=str(fields.where),
                              why=f"those that can are {', '.join(FAMILIES)}")
    return kind, FAMILIES[kind]


def other_class(fields: Fields, family: Family) -> str:
    """Of a model of a known family that is of another class by what it says itself, which can be imported."""
    known = ("ForSequenceClassification",) if family.is_classifier else (
        "ForConditionalGeneration", "MTModel", "LMHeadModel")
    if not fields.values.get("architectures") or fields.architecture.endswith(known):
        return ""
    return (f"this is {fields.architecture}; import a model that translates, …ForConditionalGeneration or "
            "MarianMTModel, or that labels whole texts, BERT's and its like's …ForSequenceClassification")
