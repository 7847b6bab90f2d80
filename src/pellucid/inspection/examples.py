"""Sentences to look at: what the model makes of them, and where every head looked while it did."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pellucid.data.corpus import Corpus, Sequences
from pellucid.data.encoding import Report
from pellucid.data.examples import validation_examples
from pellucid.data.source_ids import shorten, source_ids
from pellucid.data.splits import open_splits
from pellucid.data.tokenizers.interface import BOS, EOS, UNK, Tokenizer
from pellucid.errors import UserError
from pellucid.inspection.record import attentions, record_attention
from pellucid.model.classifier import Classifier
from pellucid.model.stepper import evaluating
from pellucid.runs.candidates import Candidate
from pellucid.runs.run import Run

Ids = NDArray[np.int32]
_NAMES = {BOS: "‹start›", EOS: "‹end›", UNK: "‹unknown›"}
_SIGNS = {"\n": "⏎", "\t": "⇥"}
_UNSEEN = {"Zs": "␣", "Zl": "⏎", "Zp": "⏎", "Cc": "�", "Cs": "�"}  # by Unicode's categories
_READ_AT_MOST = 300  # pairs, of which a few of moderate length are chosen


@dataclass(frozen=True)
class Example:
    """One sentence and what happened in the model.

    Attributes:
        source, output, reference: texts; the output is the model's, a label for a classifier; the reference is None
            where none is known.
        source_tokens: what the encoder reads [S].
        written: what the decoder writes [T]; empty for a classifier.
        read: what the decoder has before it as it writes each of them [T].
        attention: weights [H, T, S] by name, encoder's first.
        probabilities: of each label, for a classifier.
        cut: tokens of the source that were left out, because the model takes no longer ones.
    """

    source: str
    output: str
    reference: str | None
    source_tokens: tuple[str, ...]
    written: tuple[str, ...]
    read: tuple[str, ...]
    attention: dict[str, Tensor]
    probabilities: dict[str, float]
    cut: int = 0

    def sides(self, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The tokens of the queries and of the keys of an attention."""
        if name.startswith("encoder"):
            return self.source_tokens, self.source_tokens
        return self.written, self.source_tokens if name.endswith("cross_attention") else self.read


@dataclass(frozen=True)
class Sample:
    """The first pairs of a split, or the reason why there are none."""

    split: str
    pairs: tuple[tuple[str, str], ...]
    reason: str = ""


def first_pairs(run: Run, splits: Sequence[str], count: int) -> Sample:
    """The first usable pairs of the first of these splits that the run has and that can be read."""
    reason = "the run has none of the splits " + ", ".join(splits)
    try:
        found = open_splits(run.config, run.folder)
    except UserError as error:
        return Sample("", (), error.what)
    for name in splits:
        if name in found:
            try:
                usable = (pair for pair in found[name] if _is_usable(run, pair))
                pairs = tuple(islice(usable, count))
            except UserError as error:
                reason = f"the {name} data cannot be read: {error.what}" + (f" ({error.where})" if error.where else "")
                reason += f"; {error.why}" if error.why else ""
                continue
            if pairs:
                return Sample(name, pairs)
    return Sample("", (), reason)


def _is_usable(run: Run, pair: tuple[str, str]) -> bool:
    source, target = pair
    known = run.config.task != "classification" or target in run.tokenizers.labels
    return bool(source.strip() and target.strip()) and known


def choose(run: Run, pairs: Sequence[tuple[str, str]], count: int) -> list[tuple[str, str]]:
    """A few pairs that make readable pictures: the first ones of 5 to 16 source tokens, else the shortest."""
    lengths = [len(ids) for ids in run.tokenizers.source.encode_batch([a for a, _ in pairs[:_READ_AT_MOST]])]
    order = sorted(range(len(lengths)), key=lambda i: (not 5 <= lengths[i] <= 16, lengths[i] * (lengths[i] > 16)))
    return [pairs[i] for i in order[:count]]


def encode(run: Run, pairs: Sequence[tuple[str, str]]) -> list[tuple[Ids, Ids]]:
    """What the model reads and should write, for each pair; a classifier's target is its label's number."""
    limit, classify = run.config.model.max_length, isinstance(run.model, Classifier)
    sources = [shorten(ids, limit) for ids in source_ids([a for a, _ in pairs], run.tokenizers, classify, limit)]
    if classify:
        targets = [[run.tokenizers.labels.index(label)] for _, label in pairs]
    else:
        targets = [shorten([*ids, EOS], limit) for ids in run.tokenizers.target.encode_batch([b for _, b in pairs])]
    return [(np.asarray(a, dtype=np.int32), np.asarray(b, dtype=np.int32))
            for a, b in zip(sources, targets, strict=True)]


def as_validated(run: Run, pairs: Sequence[tuple[str, str]]) -> list[tuple[Ids, Ids]]:
    """`encode`, in the form that a validation has: where training was span corruption, the same spans are lost."""
    found = encode(run, pairs)
    if run.config.data.objective != "span_corruption":
        return found
    texts = Sequences(np.concatenate([ids for ids, _ in found]), np.cumsum([0, *(len(ids) for ids, _ in found)]))
    made = validation_examples(Corpus(texts, texts, Report(len(found), len(found), 0, 0, 0, 0)), run.config)
    return [(np.asarray(made.source[i], dtype=np.int32), np.asarray(made.target[i], dtype=np.int32))
            for i in range(len(found))]


def attend(run: Run, source: Ids, target: Ids) -> dict[str, Tensor]:
    """One forward pass over one pair, without dropout: the weights [H, T, S] of every attention, by name, on the CPU in
    fp32."""
    model, device = run.model, next(run.model.parameters()).device
    read = torch.from_numpy(source.astype(np.int64))[None].to(device)
    with evaluating(model), torch.inference_mode(), record_attention(model) as weights:
        if isinstance(model, Classifier):
            model(read)
        else:
            model(read, torch.tensor([[BOS, *target[:-1].tolist()]], device=device))
    return {name: weights[name][0].float().cpu() for name in attentions(model)}


def look_at(run: Run, source: str, reference: str | None, first: int = 0) -> Example:
    """What the model makes of a text, and its attention while it reads the text and writes that; `first` is the text's
    number, as `Run.generate` takes it."""
    probabilities: dict[str, float] = {}
    written: tuple[str, ...] = ()
    if isinstance(run.model, Classifier):
        classified = run.classify([source], first)[0]
        output, probabilities, cut = classified.label, classified.probabilities, classified.cut
        ids, target = encode(run, [(source, output)])[0]
    else:
        generated = run.generate([source], n_best=1, first=first)[0]
        best, cut = generated.hypotheses[0], generated.cut
        output, (ids, _), target = best.text, encode(run, [(source, best.text)])[0], _as_written(run, best)
        written = token_names(run.tokenizers.target, target)
    names = token_names(run.tokenizers.source, ids, run.tokenizers.source.unknown(source))
    return Example(source, output, reference, names, written,
                   ("‹start›", *written[:-1]) if written else (), attend(run, ids, target), probabilities, cut)


def _as_written(run: Run, best: Candidate) -> Ids:
    """The ids that the model wrote: not those of its text, which may be divided otherwise; eos last if it ended."""
    tokenizer = run.tokenizers.target
    known = {piece: i for i, piece in enumerate(tokenizer.pieces(range(tokenizer.size)))}
    ids = [*(known[piece] for piece in best.tokens), *([EOS] if best.finished else [])]
    return np.asarray(shorten(ids, run.config.model.max_length), dtype=np.int32)


def token_names(tokenizer: Tokenizer, ids: Ids, unknown: Sequence[str] = ()) -> tuple[str, ...]:
    """A name for each id: its piece, with what cannot be seen made visible; for the unknown ones in their order, as
    far as they are given, what they are in the text."""
    parts = iter(unknown)
    names = []
    for i, piece in zip(ids, tokenizer.pieces(ids.tolist()), strict=True):
        part = next(parts, "") if i == UNK else ""
        names.append(f"‹unknown: {visible(part)}›" if part else _NAMES.get(int(i)) or visible(piece))
    return tuple(names)


def visible(text: str) -> str:
    """Blanks, line ends and control characters as signs; so are joiners, marks of direction and their like (Cf), where
    there is nothing else."""
    kinds = [unicodedata.category(c) for c in text]
    unseen = _UNSEEN if set(kinds) - {"Cf"} else {"Cf": "�"}
    return "".join(_SIGNS.get(c) or unseen.get(kind, c) for c, kind in zip(text, kinds, strict=True)) or "∅"
