"""Models of many languages: the tokens that say which, and where each class of transformers has them.

mBART-50, M2M100 and NLLB read `[source] X </s>`, and write `[target] Y </s>`, whose first token is given. mBART-cc25
and NLLB's older form read `X </s> [source]`; and mBART-cc25 starts from `[target]` itself.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pellucid.config import ModelConfig
from pellucid.config.checks import check_language, is_language
from pellucid.data.tokenizers.interface import EOS
from pellucid.errors import CheckpointError, ConfigError
from pellucid.interop.foreign_tokenizer import Foreign
from pellucid.interop.reading import Fields, read_mapping
from pellucid.interop.vocabulary import Rows
from pellucid.runs.tensors import Lazily

MANY = ("mbart", "m2m_100")
_TOKEN = re.compile(r"__([a-z]{2,3})__|([a-z]{2,3})_([A-Z][A-Za-z]{1,3})")


@dataclass(frozen=True)
class Pair:
    """From which language into which.

    Attributes:
        codes: of the two, as tags of BCP 47.
        tokens: their ids there; None where the class has none.
        is_behind: the source's token stands behind the end of a source, not before it.
        is_start: an output starts from the target's token, and it is no token of the output.
    """

    codes: tuple[str, str]
    tokens: tuple[int, int] | None = None
    is_behind: bool = False
    is_start: bool = False

    def of_model(self, model: ModelConfig) -> ModelConfig:
        """What reads a source that ends with its language needs a matrix of its own; see `weights`."""
        return replace(model, tie_embeddings=False) if self.is_behind else model

    def weights(self, ours: Lazily, rows: Rows) -> Lazily:
        """A source ends with eos here. Where theirs ends with eos and the language, the two change their vectors."""
        return swapped(ours, self.language(rows))

    def language(self, rows: Rows) -> int | None:
        """Our id of the language that a source of theirs ends with, if it does."""
        return rows.order.index(self.tokens[0]) if self.tokens is not None and self.is_behind else None


def swapped(ours: Lazily, language: int | None) -> Lazily:
    """With the vectors of the end and of a language changed in what reads sources; as they are where that is None."""
    if language is None:
        return ours
    matrix = ours["source_embedding.weight"].clone()
    matrix[[EOS, language]] = matrix[[language, EOS]]
    return ours | {"source_embedding.weight": matrix}


def pair_of(fields: Fields, foreign: Foreign, languages: str | None) -> Pair | None:
    """The pair that is asked for, as "en-fr", or that the folder names; None where nothing does.

    Raises:
        ConfigError: no pair; a language that the model does not know, or a model of many languages, and no pair.
        CheckpointError: tokenizer_config.json is damaged.
    """
    asked = None if languages is None else languages.split("-") if languages.count("-") == 1 else ["", ""]
    if asked is not None and not all(asked):
        raise ConfigError(f"{languages[:40]!r} is no pair of languages", where="--languages",  # type: ignore[index]
                          fix="give the codes of both, such as en-fr")
    told = _mapping(fields.where.with_name("tokenizer_config.json"))
    if fields.values.get("model_type") not in MANY:
        for code in asked or ():
            check_language(code, "--languages")
        source, target = asked or (told.get("source_lang"), told.get("target_lang"))  # as Marian's has them
        return Pair((source, target)) if is_language(source) and is_language(target) else None
    first = _forced(fields, foreign)
    source, target = asked or (told.get("src_lang"), told.get("tgt_lang") or (
        None if first is None else foreign.pieces[first]))
    known = {piece: i for i, piece in enumerate(foreign.pieces) if _TOKEN.fullmatch(piece)}
    if not known:
        raise CheckpointError("the tokenizer has no tokens of languages", where=str(fields.where.parent),
                              why=f"a model of the type {fields.values['model_type']} chooses its languages by them")
    tokens = tuple(_token(code, known) for code in (source, target))
    plain = "MBartTokenizer" if fields.values["model_type"] == "mbart" else None  # where neither file names a class
    named = told.get("tokenizer_class") or fields.values.get("tokenizer_class") or plain
    is_older = named in ("MBartTokenizer", "MBartTokenizerFast")
    return Pair((_tag(tokens[0]), _tag(tokens[1])), (known[tokens[0]], known[tokens[1]]),
                is_older or told.get("legacy_behaviour") is True, is_older)


def around(fields: Fields, foreign: Foreign, pair: Pair | None) -> Foreign:
    """The tokenizer with what stands around a source, its end at last, and what an output begins with."""
    if pair is None or pair.tokens is None:
        first = _forced(fields, foreign)
        return foreign if first is None else replace(foreign, first=[first])
    source, target = pair.tokens
    end = [fields.token("eos_token_id", 2, len(foreign.pieces))]
    return replace(foreign, before=[] if pair.is_behind else [source], after=[source, *end] if pair.is_behind else end,
                   first=[] if pair.is_start else [target])


def _forced(fields: Fields, foreign: Foreign) -> int | None:
    """The token that every output begins with, where the folder names one."""
    value = fields.search.get("forced_bos_token_id")
    return value if type(value) is int and 0 <= value < len(foreign.pieces) else None


def _token(code: object, known: dict[str, int]) -> str:
    """The token of a language: itself, or the only one that begins with its code."""
    found = [piece for piece in known if piece == code] or [
        piece for piece in known if code in (_tag(piece), _tag(piece).split("-")[0])]
    if len(found) == 1:
        return found[0]
    some = found or list(known)
    raise ConfigError("the model speaks many languages, and none is chosen" if code is None else
                      f"the model has {'more than one' if found else 'no'} token for the language {str(code)[:40]!r}",
                      where="--languages", why=f"it has {', '.join(some[:8])}" + (", …" if len(some) > 8 else ""),
                      fix="give the codes of source and target, such as en-fr")


def _tag(token: str) -> str:
    """`__fr__` and `fr_XX` are fr; of a script, as in fra_Latn, it is a part."""
    match = _TOKEN.fullmatch(token)
    assert match is not None
    plain, language, region = match.groups()
    return plain or (language if region.isupper() else f"{language}-{region}")


def _mapping(path: Path) -> dict[str, Any]:
    return read_mapping(path) if path.is_file() else {}
