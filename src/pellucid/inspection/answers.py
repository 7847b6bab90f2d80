"""What looking inside gives: plain data, as JSON tells it. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["kept", "finished", "pruned"]
Matrix = list[list[float]]


@dataclass(frozen=True)
class Node:
    """A candidate of one step.

    Attributes:
        id: its number in the trace.  parent: that of the hypothesis that it extends; None at the first step.
        token, token_id: what it adds.  log_probability: of the whole, in nats.  token_log_probability: of the token.
        rank: among the candidates of its step, 0 first.
        state: kept, finished or pruned.
        lost_by: how many nats a pruned one is behind the last that was let through: the k-th candidate of all for one
            that ends, the last that is kept for another.
        text: what it says so far.
    """

    id: int
    parent: int | None
    token: str
    token_id: int
    log_probability: float
    token_log_probability: float
    rank: int
    state: State
    lost_by: float | None
    text: str


@dataclass(frozen=True)
class Column:
    """One step: hypotheses of `length` tokens, best first."""

    length: int
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Ended:
    """A hypothesis that ended, by itself (`finished`) or at the maximum length.

    Attributes:
        id: of its node.
        token_ids: of its tokens, as the attention and the contributions of just these can be asked for.
        length: |Y|, eos counted.
        log_probability: in nats, and of each of its tokens.  score: at the α of the options.
    """

    id: int
    text: str
    tokens: tuple[str, ...]
    token_ids: tuple[int, ...]
    length: int
    log_probability: float
    token_log_probabilities: tuple[float, ...]
    score: float
    finished: bool


@dataclass(frozen=True)
class Alternative:
    """A token that could have come in a place.

    Attributes:
        text: the output so far with this token in the place; None where it says nothing, as the end does.
    """

    token: str
    token_id: int
    probability: float
    text: str | None


@dataclass(frozen=True)
class Trace:
    """A search for one text.

    Attributes:
        source, source_tokens: what was read.  prefix: how the output had to begin.
        beam_size, length_penalty, n_best, max_length: as searched with.  precision, decoder: of the steps.
        alphas: for each α from the first to the second, the `n_best` best of `finished` (the earlier among equals) are
            what a search with that α finds. It is `ALPHAS` (and the α of the options), but ends earlier where that
            would take more than `lattice.ENOUGH_NODES`.
        search_steps: after so many steps the search itself, with the α of the options, is over.
        steps: every candidate of each step.
        finished: what ended, in the order in which it did.  order: their places, best score first.
        alternatives: for each token of the best output, what else could have come there, best first, in fp32.
        word_end: what a text of this trace has behind it as a prefix, so that its last token stays as it is: a space
            where every token is a word, nothing where it may be a part of one.
    """

    source: str
    source_tokens: tuple[str, ...]
    prefix: str
    beam_size: int
    length_penalty: float
    n_best: int
    max_length: int
    precision: str
    decoder: str
    alphas: tuple[float, float]
    search_steps: int
    steps: tuple[Column, ...]
    finished: tuple[Ended, ...]
    order: tuple[int, ...]
    alternatives: tuple[tuple[Alternative, ...], ...]
    word_end: str


@dataclass(frozen=True)
class Head:
    """One head of an attention, such as ``decoder.layers.0.cross_attention``, by its number from 0."""

    attention: str
    head: int


@dataclass(frozen=True)
class Map:
    """The weights of one attention.

    Attributes:
        name: in the model.  spoken: the same in words.
        rows, columns: which tokens look, and at which: source, written or read.
        weights: [H][rows][columns], to six decimals.
    """

    name: str
    spoken: str
    rows: str
    columns: str
    weights: list[Matrix]


@dataclass(frozen=True)
class Attention:
    """Where every head looks over a text and an output, and what comes out without some of them.

    Attributes:
        source_tokens: what the encoder reads [S].  written: what the decoder writes [T].  read: what it has before it
            as it does [T]; both are empty for a classifier.
        attentions: of the whole model.
        cut: tokens of the text that were left out, because the model takes no longer ones.  unknown: its parts that the
            model does not know.
        output: a text; a label for a classifier.  log_probability: of the whole of it, in nats.
        without: heads that were switched off. output_without: what the model writes then, by its own search, or the
            label that it chooses; log_probability_without: that of `output` then. None where none was.
        label, probabilities, probabilities_without: of a classifier, by label.
    """

    source_tokens: tuple[str, ...]
    read: tuple[str, ...]
    written: tuple[str, ...]
    attentions: tuple[Map, ...]
    cut: int
    unknown: tuple[str, ...]
    output: str
    log_probability: float
    without: tuple[Head, ...] = ()
    output_without: str | None = None
    log_probability_without: float | None = None
    label: str | None = None
    probabilities: dict[str, float] | None = None
    probabilities_without: dict[str, float] | None = None


@dataclass(frozen=True)
class Contributions:
    """What each token of the source and of the prefix contributes to each token that is written, in nats.

    Attributes:
        method: how they were found.
        source_tokens: what the encoder reads [S].  written: what the decoder writes [T].  read: what it has before it
            as it does [T]; both are empty for a classifier, which has one row.
        output: a text; a label for a classifier, which is its `label` too.
        source: [T][S].  prefix: [T][T], of each token that is read; 0 for those that come later.
        explained: [T], by how much the log-probability of a token is larger than where all embeddings are 0.
        error: [T], how far the row's contributions are from adding up to that; None where the method does not say that
            they do.
        share_of_source: [T], the source's part of a row's absolute contributions, from 0 to 1.
        random_source, random_prefix: the same contributions in a model of the same kind with random weights.
    """

    method: str
    source_tokens: tuple[str, ...]
    read: tuple[str, ...]
    written: tuple[str, ...]
    output: str
    label: str | None
    source: Matrix
    prefix: Matrix
    explained: tuple[float, ...]
    error: tuple[float | None, ...]
    share_of_source: tuple[float, ...]
    random_source: Matrix
    random_prefix: Matrix
