"""Pieces of words, found by SentencePiece: byte-pair encoding (Sennrich et al. 2016) or a unigram model (Kudo 2018).

Text of known characters comes back from its ids as it was, with its spaces at the ends and in a row, tabs, no-break
spaces, control characters and line separators: nothing is normalised. Three characters are SentencePiece's own: "▁"
(U+2581) comes back as a space, NUL and "▅" (U+2585) as the unknown "⁇". Unknown characters in a row are one "⁇".
"""

import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, final

from pellucid.config import TokenizerConfig
from pellucid.data.tokenizers.interface import BOS, EOS, PAD, SPECIALS, UNK, UNKNOWN, Tidy, sentinels
from pellucid.data.tokenizers.symbols import symbols_of
from pellucid.errors import ConfigError, DataError

MAX_LINE_BYTES = 65_536  # longer lines are left out of training, not of encoding
SPACE = "▁"  # stands for it in pieces
_OWN = "\0▅"  # characters that never become pieces
_ROOM = 0.75  # of the vocabulary, for characters: the fewer pieces are left for words, the longer texts become
_LEAST = 0.9995  # of the characters of a text, which are known whatever room they take
_THREADS = 4  # a fixed number: the sums of the unigram model depend on how they are divided


@final
class SentencePieceTokenizer:
    """A trained model.

    Args:
        model: the content of a SentencePiece model file.
        tidy: goes before the model.

    Raises:
        ValueError: `model` is no such file, or numbers the specials otherwise.
    """

    def __init__(self, model: bytes, tidy: Tidy) -> None:
        self._processor = processor = processor_of(model)
        if (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id()) != (PAD, UNK, BOS, EOS):
            raise ValueError("the model numbers padding, unknown, beginning and end otherwise than 0, 1, 2, 3")
        self._model, self._tidy = model, tidy

    @property
    def size(self) -> int:
        return int(self._processor.get_piece_size())

    @property
    def forced(self) -> tuple[int, ...]:
        return ()

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._processor.encode(self._tidy(text))
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        ids: list[list[int]] = self._processor.encode([self._tidy(text) for text in texts])
        return ids

    def scores(self) -> dict[str, tuple[int, float]]:
        """Of each piece, its id and its score in the model; specials have none."""
        processor = self._processor
        return {processor.id_to_piece(i): (i, processor.get_score(i)) for i in range(len(SPECIALS), self.size)}

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._processor.decode([i for i in ids if i not in (PAD, BOS, EOS)]))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [str(self._processor.id_to_piece(i)) for i in ids]

    def unknown(self, text: str) -> list[str]:
        pieces = self._processor.encode(self._tidy(text), out_type=str)  # unknown ones as they stand in the text
        return [piece for piece, token in zip(pieces, self.encode(text), strict=True) if token == UNK]

    def spellings(self) -> list[str]:
        pieces = self.pieces(range(len(SPECIALS), self.size))
        return [""] * len(SPECIALS) + [piece.replace(SPACE, " ") for piece in pieces]

    def spelled(self, text: str) -> str:
        return " " + self._tidy(text)  # add_dummy_prefix

    def serialized(self) -> bytes:
        return self._model


def processor_of(model: bytes) -> Any:
    """What encodes and decodes by a model.

    Raises:
        ValueError: it is none.
    """
    import sentencepiece

    if not model:
        raise ValueError("this is no SentencePiece model: it is empty")
    try:
        return sentencepiece.SentencePieceProcessor(model_proto=model)
    except RuntimeError as error:
        raise ValueError(f"this is no SentencePiece model: {error}") from error


def train(config: TokenizerConfig, texts: Sequence[str], tidy: Tidy) -> SentencePieceTokenizer:
    """Learns `config.vocab_size` pieces; the same texts give the same model, byte for byte. Where
    `config.character_coverage` is None, it is `coverage_by_need`.

    Raises:
        ConfigError: more or fewer pieces than the texts allow, with the number that they do; impossible symbols.
        DataError: no text.
    """
    import sentencepiece

    _check_symbols(config.user_defined_symbols, tidy)
    named = [*config.user_defined_symbols,
             *(symbol for symbol in symbols_of(config.symbols) if tidy(symbol) == symbol)]  # no text has the others
    symbols = list(dict.fromkeys([*sentinels(config.sentinels), *named]))
    model, coverage = io.BytesIO(), config.character_coverage
    if coverage is None:
        counts = Counter({" ": len(texts)})  # add_dummy_prefix
        for text in texts:
            counts.update(tidy(text))
        coverage = coverage_by_need(counts, config.vocab_size, symbols)
    stopped = list[KeyboardInterrupt]()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_until_stopped(texts, tidy, stopped), model_writer=model, model_type=config.algorithm,
            vocab_size=config.vocab_size, character_coverage=coverage,
            split_digits=config.split_digits, user_defined_symbols=symbols,
            normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=True,
            max_sentence_length=MAX_LINE_BYTES, num_threads=_THREADS, minloglevel=2, unk_surface=UNKNOWN,
            pad_id=PAD, unk_id=UNK, bos_id=BOS, eos_id=EOS, pad_piece=SPECIALS[PAD], unk_piece=SPECIALS[UNK],
            bos_piece=SPECIALS[BOS], eos_piece=SPECIALS[EOS])
    except RuntimeError as error:
        raise _explain(str(error), config, coverage) from error
    except ValueError:
        if stopped:
            raise stopped[0] from None
        raise
    return SentencePieceTokenizer(model.getvalue(), tidy)


def _until_stopped(texts: Sequence[str], tidy: Tidy, stopped: list[KeyboardInterrupt]) -> Iterator[str | None]:
    """The texts for SentencePiece, which makes of an interruption an error of its own, or aborts the process: it is put
    aside, and no text given in its place, so that nothing is learnt of those before."""
    try:
        for text in texts:
            yield tidy(text)
    except KeyboardInterrupt as stop:
        stopped.append(stop)
        yield None


def coverage_by_need(counts: Counter[str], vocab_size: int, symbols: Sequence[str]) -> float:
    """The share of a text's characters to know: all of them where they take three quarters of the vocabulary at most,
    else as many of the most frequent as do, but no less than 99.95 %.

    Args:
        counts: how often each character is in the text.
        symbols: which have a place in the vocabulary whatever is covered.
    """
    places = int(_ROOM * (vocab_size - len(SPECIALS) - len(symbols)))
    found = sorted((count for character, count in counts.items() if character not in (*_OWN, *symbols)), reverse=True)
    return max(sum(found[:max(places, 0)]) / max(sum(found), 1), _LEAST)


def _check_symbols(symbols: tuple[str, ...], tidy: Tidy) -> None:
    for symbol in symbols:
        if tidy(symbol) != symbol:
            raise ConfigError(f"no text has {symbol!r} in it", where="tokenizer.user_defined_symbols",
                              why="texts are lower-cased, or lose their punctuation, before they are cut",
                              fix=f"write {tidy(symbol)!r}, or leave out tokenizer.lowercase and strip_punctuation")
        if not symbol or symbol in SPECIALS or symbols.count(symbol) > 1 or any(c in symbol for c in " \0▁▅"):
            raise ConfigError(f"{symbol!r} cannot be a symbol of its own", where="tokenizer.user_defined_symbols",
                              why=f"a symbol has no space in it, occurs once, and is none of {', '.join(SPECIALS)}")


def _explain(message: str, config: TokenizerConfig, coverage: float) -> ConfigError | DataError:
    """SentencePiece's complaint in the words of our configuration."""
    key = "tokenizer.vocab_size"
    if most := re.search(r"too high \(\d+\)\. Please set it to a value <= (\d+)", message):
        return ConfigError(f"{key} is {config.vocab_size:,}, and this text allows {int(most[1]):,} at most", where=key,
                           why=f"no more pieces can be told apart in it ({config.algorithm})",
                           fix=f"set {key} to {most[1]} or less, or use tokenizer.kind word or character")
    if least := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return ConfigError(f"{key} is {config.vocab_size:,}, and this text needs {int(least[1]):,} at least", where=key,
                           why=f"every character is a piece, at character_coverage {coverage:g}",
                           fix=f"set {key} to {least[1]} or more, or lower tokenizer.character_coverage")
    if "sentences_.empty()" in message:
        return DataError("there is no text to train the tokenizer on", where="data.train",
                         why=f"every line is empty, or longer than {MAX_LINE_BYTES:,} bytes")
    return ConfigError("SentencePiece refuses these settings", where="tokenizer", why=message[:300])
