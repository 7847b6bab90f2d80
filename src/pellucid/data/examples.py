"""What is learned from: the corpus as it is, or, where the configuration asks for it, drawn anew in each epoch. First
sources are mixed, then subwords sampled, then spans corrupted; of long passages a reader has two windows.

What an epoch holds is a pure function of (seed, epoch), so that resuming needs no more than a step number. It is drawn
window by window (blocks.py), each as a whole, since the lengths decide who stands beside whom, and lies in files that
have no name: memory holds only the pages in use, and the system removes them with the process.
"""

import contextlib
import itertools
import tempfile
from collections.abc import Callable, Sequence
from random import Random
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from pellucid.cache import cache_folder
from pellucid.config import RunConfig
from pellucid.data.blocks import BLOCK, SIDES, WINDOW
from pellucid.data.corpus import Corpus, Examples, Sequences
from pellucid.data.cropping import cropping
from pellucid.data.mixture import Mixed
from pellucid.data.span_corruption import corrupt_rows, sentinels_for
from pellucid.data.subword_sampling import SubwordSampling
from pellucid.data.tokenizers.build import Tokenizers
from pellucid.data.tokenizers.sentencepiece import SentencePieceTokenizer
from pellucid.errors import ConfigError
from pellucid.files import output_errors

_AT_ONCE = 10_000  # that many times into a block
_SAMPLE = 20_000  # of all examples, by which is told how long they become

Rows = list[list[int]]
Draw = Callable[[Rows, Rows, Random], tuple[Rows, Rows]]  # gives sources and targets another form


def training_examples(corpus: Corpus, tokenizers: Tokenizers, config: RunConfig) -> Examples:
    """The training data as each epoch has it."""
    draws: list[Draw] = []
    if config.tokenizer.sampling:
        draws.append(_sampling(tokenizers, config))
    if config.data.objective == "span_corruption":
        draws.append(corrupt_rows)
    if config.task == "reading":
        draws.append(cropping(config.model.max_length))
    examples = Mixed(corpus, config.seed) if corpus.weights else corpus
    return Drawn(examples, draws, config.seed) if draws else examples


def validation_examples(corpus: Corpus, config: RunConfig) -> Corpus:
    """The validation data: never sampled, and corrupted in one way, which is the same in all runs."""
    return Drawn(corpus, [corrupt_rows], seed=0).in_epoch(0) if config.data.objective == "span_corruption" else corpus


def check_tokenizers(config: RunConfig, tokenizers: Tokenizers) -> None:
    """Refuses tokenizers that cannot do what `config` asks of them.

    Raises:
        ConfigError: sampling without SentencePiece; span corruption with two vocabularies, or too few sentinels.
    """
    sides = (tokenizers.source, tokenizers.target)
    if config.tokenizer.sampling and not all(isinstance(side, SentencePieceTokenizer) for side in sides):
        raise ConfigError("tokenizer.sampling needs pieces of words", where="tokenizer.sampling",
                          why=f"these tokenizers are of the kind {tokenizers.config.kind}",
                          fix="leave tokenizer.sampling out")
    if config.data.objective == "span_corruption":
        if not tokenizers.shared:
            raise ConfigError("span corruption needs one vocabulary for source and target", where="tokenizer.shared",
                              why="what is lost to the source goes to the target", fix="set tokenizer.shared true")
        needed, there = sentinels_for(config.model.max_length - 1), tokenizers.config.sentinels
        if there < needed:
            raise ConfigError(f"texts of {config.model.max_length} tokens need {needed} sentinels, and the vocabulary "
                              f"has {there}", where="tokenizer.sentinels",
                              fix=f"set tokenizer.sentinels {needed}, or lower model.max_length")


class Drawn:
    """Examples that take another form in each epoch.

    Args:
        corpus: as it is kept.
        draws: what is done to it, in turn.
        seed: of everything that is drawn.
    """

    def __init__(self, corpus: Examples, draws: Sequence[Draw], seed: int) -> None:
        self.corpus = corpus
        self.draws = draws
        self.seed = seed

    @property
    def blocks(self) -> int:
        """Those of the corpus."""
        return self.corpus.blocks

    def in_epoch(self, epoch: int) -> Corpus:
        """The examples as `epoch` has them, in the order of the corpus.

        Raises:
            OutputError: the disk of the cache is full.
        """
        return self.window(epoch, range(self.blocks))[0]

    def window(self, epoch: int, blocks: range) -> tuple[Corpus, NDArray[np.int64]]:
        """The examples of these blocks as `epoch` has them, one after another, and all their places.

        Raises:
            OutputError: as `in_epoch`.
        """
        folder = cache_folder("ids")
        with output_errors(folder), contextlib.ExitStack() as stack:
            sides = [_Written(stack.enter_context(tempfile.TemporaryFile(dir=folder))) for _ in SIDES]
            for block in blocks:
                corpus, rows = self.corpus.window(epoch, range(block, block + 1))
                for start in range(0, len(rows), _AT_ONCE):
                    drawn = self._drawn(corpus, rows[start : start + _AT_ONCE], f"{epoch} {block * BLOCK + start}")
                    for side, kept, new in zip(sides, (corpus.source, corpus.target), drawn, strict=True):
                        side.write(new, kept.tokens.dtype)
            if len(sides[0].lengths) == 1:  # of a weight so small
                return corpus, rows
            source, target = (side.read() for side in sides)
        return Corpus(source, target, corpus.report), np.arange(len(source))

    def totals(self) -> NDArray[np.int64]:
        """See `Examples`: those of the corpus, times how much longer some examples from all over it are when drawn.

        Drawn targets are longer or shorter in proportion to their own tokens; where the corpus has none, but their
        ends, to those of the sources that they are made of.
        """
        before, after = np.zeros(3), np.zeros(3)
        chosen = range(0, self.blocks, -(-self.blocks // WINDOW))
        for block in chosen:
            corpus, rows = self.corpus.window(0, range(block, block + 1))
            rows = rows[: _SAMPLE // len(chosen)]
            drawn = self._drawn(corpus, rows, f"0 {block * BLOCK}")
            before += [len(rows), *(side.lengths_of(rows).sum() for side in (corpus.source, corpus.target))]
            after += [len(rows), *(sum(map(len, side)) for side in drawn)]
        if before[0] == 0:  # of a weight so small
            return self.corpus.totals()
        columns = [0, 1, 1 if before[2] == before[0] < after[2] else 2]
        return np.ceil(self.corpus.totals()[:, columns] * (after / before[columns])).astype(np.int64)

    def _drawn(self, corpus: Corpus, rows: NDArray[np.int64], key: str) -> tuple[Rows, Rows]:
        """These rows of the corpus, drawn as the seed and the key have it."""
        sources, targets = ([side[i].tolist() for i in rows.tolist()] for side in (corpus.source, corpus.target))
        random = Random(f"{self.seed} {key}")
        for draw in self.draws:
            sources, targets = draw(sources, targets, random)
        return sources, targets


def _sampling(tokenizers: Tokenizers, config: RunConfig) -> Draw:
    """Of both sides; a label has no pieces."""
    def of(tokenizer: object) -> SubwordSampling:
        assert isinstance(tokenizer, SentencePieceTokenizer)
        return SubwordSampling(tokenizer, tokenizers.config, config.tokenizer.sampling)

    source, longest = of(tokenizers.source), config.model.max_length
    target = None if tokenizers.labels else source if tokenizers.shared else of(tokenizers.target)

    def draw(sources: Rows, targets: Rows, random: Random) -> tuple[Rows, Rows]:
        sources = source.resegmented(sources, longest, random)
        return sources, targets if target is None else target.resegmented(targets, longest, random)

    return draw


class _Written:
    """Sequences that are written one after another into a file."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.lengths = file, [0]

    def write(self, rows: Rows, dtype: np.dtype[Any]) -> None:
        self.file.write(np.fromiter(itertools.chain.from_iterable(rows), dtype).tobytes())
        self.lengths += map(len, rows)
        self.dtype = dtype

    def read(self) -> Sequences:
        """All of them; the file may be closed then."""
        self.file.flush()
        return Sequences(np.memmap(self.file, self.dtype, mode="r"), np.cumsum(self.lengths, dtype=np.int64))
