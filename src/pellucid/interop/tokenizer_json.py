"""Our tokenizers as tokenizer.json: what the `tokenizers` package, transformers and transformers.js read.

The ids are those that a run has for the same text. Lower case and punctuation are what the reader's Unicode says, not
Python's, and a capital sigma at the end of a word becomes σ there; with a unigram model, two ways of the same score to
divide a text may be told apart otherwise.
"""

from typing import Any

from pellucid.config import TokenizerConfig
from pellucid.data.tokenizers.build import Tokenizers
from pellucid.data.tokenizers.interface import BOS, EOS, FIRST_SENTINEL, PAD, SPECIALS, UNK, UNKNOWN
from pellucid.data.tokenizers.sentencepiece import SPACE, SentencePieceTokenizer
from pellucid.data.tokenizers.symbols import symbols_of
from pellucid.data.tokenizers.vocabulary import VocabularyTokenizer
from pellucid.errors import ConfigError

Json = dict[str, Any]


def tokenizer_json(tokenizers: Tokenizers, classify: bool) -> Json:
    """The content of tokenizer.json: the source side, with an eos behind each text, or a bos before it to classify.

    Raises:
        ConfigError: spaCy's rules, which nothing else has; a token spelled as a special one.
    """
    config, tokenizer = tokenizers.config, tokenizers.source
    pieces = tokenizer.pieces(range(tokenizer.size))
    taken = sorted(set(SPECIALS) & set(pieces[len(SPECIALS):]))
    if taken:
        raise ConfigError(f"the vocabulary has a token of its own that is spelled {taken[0]}", where="tokenizer",
                          why="a tokenizer.json tells tokens apart by their spelling")
    if isinstance(tokenizer, SentencePieceTokenizer):
        parts = _of_sentencepiece(config, tokenizer, pieces)
    else:
        assert isinstance(tokenizer, VocabularyTokenizer)
        parts = _of_vocabulary(config, pieces)
    parts["normalizer"] = _sequence([*_tidying(config), *parts["normalizer"]], "normalizers")
    unknown = {"type": "Replace", "pattern": {"String": SPECIALS[UNK]}, "content": UNKNOWN}
    parts["decoder"] = _sequence([unknown, *parts["decoder"]], "decoders")
    special = [{"id": i, "content": SPECIALS[i], "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": True} for i in (PAD, BOS, EOS)]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
            "post_processor": _template(classify), "pre_tokenizer": None, **parts}


def tokenizer_config(max_length: int) -> Json:
    """The content of tokenizer_config.json. A text that spells a special token is plain text: `split_special_tokens`.
    The unknown token is not named there, so that it comes back as "⁇" and is not skipped."""
    return {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": SPECIALS[PAD], "bos_token": SPECIALS[BOS],
            "eos_token": SPECIALS[EOS], "model_max_length": max_length, "clean_up_tokenization_spaces": False,
            "split_special_tokens": True, "model_input_names": ["input_ids", "attention_mask"]}


def _template(classify: bool) -> Json:
    name, number = (SPECIALS[BOS], BOS) if classify else (SPECIALS[EOS], EOS)
    special, text = {"SpecialToken": {"id": name, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    single = [special, text] if classify else [text, special]
    return {"type": "TemplateProcessing", "single": single, "pair": [*single, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {name: {"id": name, "ids": [number], "tokens": [name]}}}


def _of_sentencepiece(config: TokenizerConfig, tokenizer: SentencePieceTokenizer, pieces: list[str]) -> Json:
    symbols = _symbols(config, pieces)
    apart = [_escaped(symbol) for symbol in sorted(symbols, key=len, reverse=True)]  # as SentencePiece takes them
    names = "|".join(sorted({name.strip("</>") for name in SPECIALS}))
    special = f"</?(?=(?:{names})>"  # is cut off, else a text could spell a special token
    model: Json
    if config.algorithm == "bpe":
        if apart:  # between two symbols alone: elsewhere nothing is merged into one
            apart.append(f"(?<={'|'.join(apart)}){special}(?:{'|'.join(apart)}|(?![\\s\\S])))")
        model = {"type": "BPE", "dropout": None, "unk_token": SPECIALS[UNK], "continuing_subword_prefix": None,
                 "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": False, "ignore_merges": bool(symbols),
                 "vocab": {piece: i for i, piece in enumerate(pieces)}, "merges": merges(tokenizer, symbols)}
    else:
        scores = tokenizer.scores()
        model = {"type": "Unigram", "unk_id": UNK, "byte_fallback": False,
                 "vocab": [(piece, scores[piece][1] if piece in scores else 0.0) for piece in pieces]}
    parts: Json = {"model": model, "normalizer": [{"type": "Prepend", "prepend": SPACE},
                                                  {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}],
                   "decoder": [{"type": "Replace", "pattern": {"String": SPACE}, "content": " "}, {"type": "Fuse"},
                               {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    splits = [_split("|".join(apart), "Isolated")] if apart else []
    if config.algorithm == "unigram":  # behind the <, which is one unknown with those before it
        splits.append(_split(f"{special})", "MergedWithPrevious"))
    return parts | {"pre_tokenizer": _sequence(splits, "pretokenizers")}


def _split(pattern: str, behavior: str) -> Json:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": False}


def _symbols(config: TokenizerConfig, pieces: list[str]) -> list[str]:
    """Pieces that are never cut, merged or made of others."""
    sentinels = pieces[FIRST_SENTINEL:FIRST_SENTINEL + config.sentinels]
    there = set(pieces)
    return [*sentinels, *config.user_defined_symbols,
            *(symbol for symbol in symbols_of(config.symbols) if symbol in there)]


def merges(tokenizer: SentencePieceTokenizer, symbols: list[str]) -> list[list[str]]:
    """The pairs of pieces that make another piece, those that make the best first: SentencePiece merges any two
    neighbours that are a piece together, the piece with the highest score first."""
    scores = tokenizer.scores()
    known = scores.keys() - set(symbols)
    found = [(-scores[piece][1], at, piece[:at], piece[at:]) for piece in known
             for at in range(1, len(piece)) if piece[:at] in known and piece[at:] in known]
    return [[left, right] for _, _, left, right in sorted(found)]


def _of_vocabulary(config: TokenizerConfig, pieces: list[str]) -> Json:
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": SPECIALS[UNK]}
    if config.kind == "word":
        split = {"type": "Split", "pattern": {"String": " "}, "behavior": "Removed", "invert": False}
        spelled = {"Regex": rf"(?<![^ ])({'|'.join(SPECIALS)})(?![^ ])"}  # in a text, an unknown word like any other
        return {"model": model, "pre_tokenizer": split,
                "normalizer": [{"type": "Replace", "pattern": spelled, "content": SPECIALS[UNK]}],
                "decoder": [{"type": "WordPiece", "prefix": " ", "cleanup": False}]}  # no word begins with a space
    if config.kind == "character":
        split = {"type": "Split", "pattern": {"Regex": "(?m:.)"}, "behavior": "Isolated", "invert": False}
        return {"model": model, "pre_tokenizer": split, "normalizer": [], "decoder": [{"type": "Fuse"}]}
    raise ConfigError(f"tokenizer.kind {config.kind} has no tokenizer.json", where="--to huggingface",
                      why="its rules are those of another package", fix="--to run keeps it, and --to ctranslate2 "
                      "takes tokens, however they were made")


def _tidying(config: TokenizerConfig) -> list[Json]:
    lower = [{"type": "Lowercase"}] if config.lowercase else []
    plain = [{"type": "Replace", "pattern": {"Regex": r"\p{P}"}, "content": ""}] if config.strip_punctuation else []
    return [*lower, *plain]


def _sequence(parts: list[Json], kind: str) -> Json | None:
    return {"type": "Sequence", kind: parts} if parts else None


def _escaped(text: str) -> str:
    return "".join("\\" + c if c in r"\.+*?()|[]{}^$-#&~/ " else c for c in text)
