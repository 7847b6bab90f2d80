"""Texts in, texts out: tokenise, batch by length, search, put back in order."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from itertools import groupby

import numpy as np

from pellucid.config import DecodeConfig
from pellucid.data.passages import passages_in
from pellucid.data.source_ids import longest_row, shorten, source_ids
from pellucid.data.tokenizers.build import Tokenizers
from pellucid.data.tokenizers.interface import EOS, UNK, Tokenizer
from pellucid.engine.workers import each
from pellucid.errors import ConfigError, DataError, PellucidWarning
from pellucid.runs.candidates import EMPTY, Candidate, Generated
from pellucid.runs.decoder import Decoder
from pellucid.runs.openings import Opening, Speller
from pellucid.runs.parts import parts_of, together
from pellucid.search.options import Hypothesis, SearchOptions
from pellucid.search.substrings import substrings_of

_TOLD = 5  # lines that are told to be cut, one by one


class CutWarning(PellucidWarning):
    """Texts were longer than the model takes; results say of each how much was left out."""


def checked_texts(texts: Sequence[str], name: str = "text") -> list[str]:
    """Texts, as a list; of one text alone, each character would be taken for one.

    Args:
        name: what one is called.

    Raises:
        TypeError: they are no list, or one of them, told by its number from 1, is no text.
        DataError: one of them holds half a surrogate pair.
    """
    if isinstance(texts, str | bytes) or not isinstance(texts, Sized):
        raise TypeError(f"a list of texts is wanted, not {type(texts).__name__}")
    listed = list(texts)
    for number, text in enumerate(listed, start=1):
        if not isinstance(text, str):
            raise TypeError(f"{name} {number} must be str, not {type(text).__name__}")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise DataError("half a surrogate pair is no character", where=f"{name} {number}",
                            why=f"character {error.start + 1:,} is {text[error.start]!a}",
                            fix="correct it, as text.encode('utf-8', 'replace').decode() does") from None
    return listed


def search_options(config: DecodeConfig, scores: bool = True) -> SearchOptions:
    """The part of the configuration that search sees.

    Args:
        scores: whether anybody will look at them.

    Raises:
        ValueError: a value out of range.
    """
    if config.split_sentences and config.n_best > 1:
        raise ConfigError("a text that is divided into sentences has one output", where="decode.split_sentences",
                          why=f"decode.n_best is {config.n_best}", fix="leave one of the two out")
    return SearchOptions(beam_size=config.width, length_penalty=config.length_penalty,
                         min_length=config.min_length, max_length=config.max_length, n_best=config.n_best,
                         no_repeat_ngram=config.no_repeat_ngram, sample=config.sample,
                         temperature=config.temperature, top_k=config.top_k, top_p=config.top_p, seed=config.seed,
                         scores=scores)


def answers(decoder: Decoder, tokenizers: Tokenizers, texts: Sequence[str], max_source: int,
            options: DecodeConfig, prefixes: Sequence[str] | None = None,
            progress: Callable[[int], None] = lambda done: None, first: int = 0) -> list[Generated]:
    """For each text, what is found for it; an empty line for an empty line.

    Args:
        max_source: longer sources are cut to so many tokens, eos among them, with a warning.
        options: whether texts are divided into sentences, and outputs held to passages; the rest the decoder knows.
        prefixes: for each text, how its output must begin; see runs/openings.py.
        progress: called with the number of texts done.
        first: the number of the first text; a sample depends on the seed and on its text's number.

    Raises:
        ValueError: not as many prefixes as texts.
        ConfigError: outputs are held to passages, and begin otherwise, or have a vocabulary of their own.
    """
    if prefixes is not None and len(prefixes) != len(texts):
        raise ValueError(f"{len(texts)} texts and {len(prefixes)} prefixes")
    parts = parts_of(texts, tokenizers.source, max_source if options.split_sentences else None)
    encoded = source_ids([part.text for part in parts], tokenizers, classify=False, limit=max_source)
    lengths = list(map(longest_row, encoded))
    warn_of_cuts({first + part.line: length for part, length in zip(parts, lengths, strict=True)}, max_source,
                 stacklevel=4)
    sources = [np.asarray(shorten(ids, max_source), dtype=np.int32) for ids in encoded]
    speller = Speller(tokenizers.target)
    openings = [speller.opening(prefixes[part.line] if prefixes and part.number == 0 else "") for part in parts]
    beginnings = [opening.beginning for opening in openings]
    if options.from_passages:
        _check_held(tokenizers, prefixes)
        beginnings = [substrings_of(passages_in(ids.tolist()), EOS) for ids in sources]
    unknown = unknown_parts(tokenizers.source, [part.text for part in parts], encoded)
    found: list[Generated] = [EMPTY] * len(parts)
    left = Counter(part.line for part in parts)  # parts of each text that are still to be done
    done = len(texts) - len(left)

    def decode(group: Sequence[int]) -> list[list[Hypothesis]]:
        return decoder.search([sources[i] for i in group], [beginnings[i] for i in group],
                              [parts[i].drawn_by(first) for i in group])

    groups = list(length_groups([len(ids) for ids in sources], decoder.batch_tokens))
    for group, results in zip(groups, each(decode, groups, decoder.threads, decoder.use_threads), strict=True):
        for i, hypotheses in zip(group, results, strict=True):
            said = tuple(_candidate(one, tokenizers.target, openings[i]) for one in hypotheses)
            found[i] = Generated(said, max(0, lengths[i] - max_source), unknown[i], openings[i].unknown)
            left[parts[i].line] -= 1
            done += left[parts[i].line] == 0
        progress(done)
    by_line = groupby(zip(parts, found, strict=True), key=lambda pair: pair[0].line)
    whole = {line: together([one for _, one in of_line]) for line, of_line in by_line}
    return [whole.get(line, EMPTY) for line in range(len(texts))]


def _check_held(tokenizers: Tokenizers, prefixes: Sequence[str] | None) -> None:
    where = "decode.from_passages"
    if any(prefixes or ()):
        raise ConfigError("an output that is a piece of a passage cannot be made to begin with another text",
                          where=where, fix="leave the prefix out, or decode.from_passages")
    if not tokenizers.shared:
        raise ConfigError("pieces of passages are outputs only in the passages' own vocabulary", where=where,
                          why="tokenizer.shared is false", fix="train with tokenizer.shared true")


def unknown_parts(tokenizer: Tokenizer, texts: Sequence[str], rows: Sequence[Sequence[int]]) -> list[tuple[str, ...]]:
    """For each text, what of it became UNK in its row of ids."""
    return [tuple(tokenizer.unknown(text)) if UNK in ids else () for text, ids in zip(texts, rows, strict=True)]


def warn_of_cuts(lengths: Mapping[int, int], limit: int, stacklevel: int = 3, line: str = "line",
                 which: str = "model.max_length") -> None:
    """Says which texts, by number from 0, are longer than the model takes, and how much of them is lost.

    Args:
        stacklevel: as of `warnings.warn`; that of the caller's caller if left out.
        line: what a text is called.
        which: the key that the limit comes from.
    """
    cut = [f"{line} {number + 1} loses {length - limit:,} of its {length:,} tokens"
           for number, length in lengths.items() if length > limit]
    if cut:
        more = f", and {len(cut) - _TOLD:,} more" if len(cut) > _TOLD else ""
        warnings.warn(f"longer than the {limit:,} tokens that the model takes ({which}): "
                      f"{', '.join(cut[:_TOLD])}{more}", CutWarning, stacklevel)


def _candidate(hypothesis: Hypothesis, tokenizer: Tokenizer, opening: Opening) -> Candidate:
    ids = list(hypothesis.tokens)
    return Candidate(opening.say(ids), tuple(tokenizer.pieces(ids)), hypothesis.score, hypothesis.log_probability,
                     hypothesis.finished)


def length_groups(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Indices of about equal lengths together, longest first, at most `budget` padded tokens a group (or one)."""
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    group: list[int] = []
    for i in order:
        if group and (len(group) + 1) * lengths[group[0]] > budget:
            yield group
            group = []
        group.append(i)
    if group:
        yield group
