"""What each neighbour can hold, by the names of our options; what it cannot is refused by name, never approximated."""

from collections.abc import Container, Mapping
from dataclasses import fields
from typing import Any

from pellucid.config import DecodeConfig, ModelConfig, RunConfig
from pellucid.errors import ConfigError


class _Every:
    """Holds every value."""

    def __contains__(self, value: object) -> bool:
        return True


# Keys that any of them can hold, whatever they are; `window` counts only where `attention` is window.
_ANY = {"d_model", "n_heads", "d_ff", "encoder_layers", "decoder_layers", "dropout", "attention_dropout",
        "feed_forward_dropout", "max_length", "window", "pooling", "head_activation"}
EVERY = _Every()
Holds = Mapping[str, Container[Any]]
_PLAIN = ("relu", "gelu", "gelu_tanh", "swish")
_BART: Holds = {"norm": ("layernorm",), "feed_forward": _PLAIN, "tie_embeddings": (True,), "output_bias": EVERY}
SEQ2SEQ: dict[str, Holds] = {  # of every other key, a class holds the default
    "blenderbot": {**_BART, "residual": ("pre",), "position": ("sinusoidal", "learned")},
    "marian": {**_BART, "residual": ("post", "deepnorm"), "position": ("sinusoidal", "learned")},
    "umt5": {"residual": ("pre",), "norm": ("rmsnorm",), "position": ("t5",), "tie_embeddings": (True,),
             "feed_forward": (*_PLAIN, "geglu", "geglu_tanh", "swiglu"), "biases": EVERY, "d_head": EVERY,
             "norm_epsilon": EVERY}}
CLASSIFIERS: dict[str, Holds] = {
    "bert": {"residual": ("post",), "norm": ("layernorm",), "position": ("sinusoidal", "learned"),
             "feed_forward": _PLAIN, "embedding_norm": (True,), "norm_epsilon": EVERY, "pooling": ("first",),
             "head_activation": ("tanh",), "tie_embeddings": EVERY, "output_bias": EVERY}}

CTRANSLATE2: Holds = {"residual": ("pre", "post", "deepnorm"), "norm": ("layernorm", "rmsnorm"),
                      "position": ("none", "sinusoidal", "learned", "rotary", "t5"), "tie_embeddings": (True, False),
                      "feed_forward": (*_PLAIN, "swiglu", "geglu", "geglu_tanh"), "d_key": EVERY, "d_head": EVERY,
                      "norm_epsilon": EVERY, "embedding_norm": EVERY, "output_bias": EVERY, "biases": EVERY}
ONNX: Holds = {**CTRANSLATE2, "residual": ("pre", "post", "deepnorm", "none"),
               "attention": ("full", "window", "linear"), "norm": ("layernorm", "rmsnorm", "stdnorm", "none"),
               "position": ("none", "sinusoidal", "learned", "rotary", "alibi", "t5", "quadratic", "transformer_xl")}


def misfits(config: ModelConfig, holds: Holds) -> list[str]:
    """The keys that something cannot hold, with their values, as "model.position rotary"."""
    found = []
    for field in fields(config):
        value = getattr(config, field.name)
        held: Container[Any] = EVERY if field.name in _ANY else (field.default,)
        if value not in holds.get(field.name, held):
            found.append(f"model.{field.name} {_spelled(value)}")
    return found


def class_for(config: RunConfig) -> str:
    """The class of transformers that holds the model.

    Raises:
        ConfigError: none does; what the nearest one lacks, and where the model can go.
    """
    classes = CLASSIFIERS if config.task == "classification" else SEQ2SEQ
    found = {name: misfits(config.model, holds) for name, holds in classes.items()}
    nearest = min(found, key=lambda name: len(found[name]))
    if found[nearest]:
        raise refusal("--to huggingface", f"no class of transformers holds {', '.join(found[nearest])}",
                      f"the nearest class is {nearest}, and code of our own would have to be trusted to run it")
    return nearest


def refuse_passages(config: RunConfig, target: str) -> None:
    """Refuses runs that read passages, each encoded apart.

    Raises:
        ConfigError: the run is one.
    """
    if config.retrieval.is_on:
        raise ConfigError("this run reads passages beside each source (retrieval.k)", where=target,
                          why="what is written there encodes a source as a whole, and has no index",
                          fix="--to run copies it, passages and all")


def undivided(decode: DecodeConfig) -> tuple[str, ...]:
    """What is to be known of a run that divides texts into sentences, which no other engine does by itself."""
    return ("a text is translated as one there; the run divides it at the ends of its sentences "
            "(decode.split_sentences)",) if decode.split_sentences else ()


def refusal(target: str, what: str, why: str) -> ConfigError:
    """The error of a model that cannot go there."""
    return ConfigError(what, where=target, why=why, fix=f"try another target: {OTHERS[target]}")


_ALL = "--to onnx holds every option that ships, --to run parts of your own as well"
OTHERS = {"--to huggingface": f"--to ctranslate2 holds more, {_ALL}",
          "--to ctranslate2": _ALL,
          "--to argos": f"--to ctranslate2 takes any tokenizer, {_ALL}",
          "--to onnx": "--to run holds all that a run can be"}


def _spelled(value: object) -> str:
    """As YAML has it."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
