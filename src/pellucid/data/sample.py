"""Some of the training data as training has it, in memory."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pellucid.config import RunConfig
from pellucid.data.corpus import Corpus, Sequences
from pellucid.data.encoding import Report
from pellucid.data.source_ids import shorten, source_ids
from pellucid.data.tokenizers.build import Tokenizers
from pellucid.data.tokenizers.interface import EOS


def sample_corpus(pairs: Sequence[tuple[str, str]], tokenizers: Tokenizers, config: RunConfig) -> Corpus:
    """The pairs encoded, too long ones cut or left out; a label is one token, whichever."""
    limit, cut = config.model.max_length, config.data.too_long == "cut"
    classify, alone = config.task == "classification", config.data.objective == "span_corruption"
    sources = source_ids([a for a, _ in pairs], tokenizers, classify)
    targets = [[EOS] for _ in pairs] if classify or alone else [
        [*ids, EOS] for ids in tokenizers.target.encode_batch([b for _, b in pairs])]
    kept = [(shorten(a, limit), shorten(b, limit)) for a, b in zip(sources, targets, strict=True)
            if cut or max(len(a), len(b)) <= limit]
    return corpus_of([np.asarray(a) for a, _ in kept], [np.asarray(b) for _, b in kept])


def corpus_of(sources: Sequence[NDArray[np.int64]], targets: Sequence[NDArray[np.int64]]) -> Corpus:
    """The corpus of these ids; its report says nothing."""
    return Corpus(_sequences(sources), _sequences(targets), Report(0, 0, 0, 0, 0, 0))


def _sequences(rows: Sequence[NDArray[np.int64]]) -> Sequences:
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return Sequences(np.concatenate([np.zeros(0, np.int32), *rows]).astype(np.int32), offsets)
