"""Which words of a text became which words of its translation.

Two aligners: by place alone, which needs no model; and by where the decoder's cross-attention looks.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from pellucid.data.source_ids import shorten, source_ids
from pellucid.data.tokenizers.interface import BOS, UNK
from pellucid.runs.parts import is_wide
from pellucid.runs.run import Run
from pellucid.runs.texts import length_groups

Links = list[tuple[int, int]]  # pairs of a word of the source and a word of the target, by number from 0
Aligner = Callable[[Sequence[tuple[str, str]]], list[Links]]  # for each text and its translation, their links

_TOKENS = 4096  # of a batch, padding counted
_SKIPPED = 64  # characters between two tokens, at most: those that a tokenizer takes away
_JOINER = "\u200d"
_UNSPACED = ((0xE00, 0xEFF), (0x1000, 0x109F), (0x1780, 0x17FF))  # Thai, Lao; Burmese; Khmer


def words(text: str) -> list[tuple[int, int]]:
    """Where the words of a text begin and end: letters and digits together, each other mark by itself, as each letter
    of a script that has no spaces; what only shapes the character before it goes with that. Whatever space stands
    between them changes nothing."""
    found: list[tuple[int, int]] = []
    can_grow = False
    for place, character in enumerate(text):
        if character.isspace():
            can_grow = False
            continue
        is_joined = bool(found) and found[-1][1] == place and _shapes(character, text[place - 1])
        is_letter = (character.isalnum() or character == "_") and not _is_alone(character)
        if is_joined or (can_grow and is_letter):
            found[-1] = found[-1][0], place + 1
        else:
            found.append((place, place + 1))
            can_grow = is_letter
    return found


def _shapes(character: str, before: str) -> bool:
    """Whether it is no character of its own: an accent, what joins or parts letters, the rest of a joined emoji."""
    kind = unicodedata.category(character)
    return kind[0] == "M" or kind == "Cf" or before == _JOINER or "\U0001f3fb" <= character <= "\U0001f3ff"


def _is_alone(character: str) -> bool:
    return is_wide(character) or any(low <= ord(character) <= high for low, high in _UNSPACED)


def proportional(pairs: Sequence[tuple[str, str]]) -> list[Links]:
    """The links of texts that say the same in the same order: each word of the target belongs to the one as far along
    in the source."""
    found = []
    for source, target in pairs:
        sources, targets = len(words(source)), len(words(target))
        found.append([((2 * place + 1) * sources // (2 * targets), place) for place in range(targets) if sources])
    return found


class CrossAttention:
    """Links each word of a translation to the word of the text that the decoder looked at most as it wrote it.

    What is looked at is the mean over all heads of the upper half of the decoder's layers, in the row that writes the
    token; lower layers look before they know what is to be written. Weights of a word's tokens are added up. For the
    token of the source without which a token of the output is least probable, this is the one looked at most in 92 %
    of tokens of the demo and 77 % of a model of 4 + 4 layers on Multi30k, where its place alone is in 54 % and 39 %.
    Marks that end both sentences are linked.

    Args:
        run: a translator.
    """

    def __init__(self, run: Run) -> None:
        self._run = run

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> list[Links]:
        """Texts and their translations → their links, one for each word of a translation that has tokens."""
        limit, sides = self._run.config.model.max_length, self._run.tokenizers
        sources = [shorten(ids, limit) for ids in source_ids([text for text, _ in pairs], sides, classify=False)]
        targets = [ids[:limit] for ids in sides.target.encode_batch([text for _, text in pairs])]
        found = []
        for (source, target), read, written, weights in zip(pairs, sources, targets, self._weights(sources, targets),
                                                            strict=True):
            rows = _membership(target, self._spans(1, target, written))
            columns = _membership(source, self._spans(0, source, read[:-1]))
            looked = rows @ weights[:, : len(read) - 1] @ columns.T  # [words of the target, words of the source]
            if _ends_in_mark(source) and _ends_in_mark(target):
                looked[-1] = np.eye(len(columns), dtype=np.float32)[-1]
            found.append([(int(looked[word].argmax()), word) for word in np.flatnonzero(looked.any(1)).tolist()])
        return found

    def _weights(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> list[NDArray[np.float32]]:
        """Of each pair, how much each source token was looked at as each target token was written [T, S]."""
        import torch

        from pellucid.data.batching import pad
        from pellucid.inspection.record import record_attention
        from pellucid.model.stepper import evaluating
        from pellucid.model.transformer import Transformer

        model = self._run.model
        assert isinstance(model, Transformer)
        layers = range(len(model.decoder.layers) // 2, len(model.decoder.layers))
        names = [f"decoder.layers.{layer}.cross_attention" for layer in layers]
        found = [np.zeros((0, len(source)), dtype=np.float32) for source in sources]
        written = [number for number, target in enumerate(targets) if target]
        groups = length_groups([max(len(sources[i]), len(targets[i])) for i in written], _TOKENS)
        for group in ([written[i] for i in group] for group in groups):
            source, real = pad([np.asarray(sources[i], dtype=np.int32) for i in group])
            target, _ = pad([np.asarray([BOS, *targets[i][:-1]], dtype=np.int32) for i in group])
            device = model.output.weight.device
            with evaluating(model), torch.inference_mode(), record_attention(model) as weights:
                model(source.to(device), target.to(device), None if real is None else real.to(device))
                mean = torch.stack([weights[name].float().mean(1) for name in names]).mean(0)  # [B, T, S]
            for i, each in zip(group, mean.cpu().numpy(), strict=True):
                found[i] = each[: len(targets[i]), : len(sources[i])]
        return found

    def _spans(self, side: int, text: str, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Where each token of a text begins and ends in it."""
        unknown = iter((self._run.tokenizers.source, self._run.tokenizers.target)[side].unknown(text))
        folded, place, spans = _folded(text), 0, []
        for token in ids:
            spelled = _folded(next(unknown, "") if token == UNK else self._spellings[side][token].strip())
            found = folded.find(spelled, place, place + len(spelled) + _SKIPPED)
            place, begin = (found + len(spelled), found) if spelled and found >= 0 else (place, place)
            spans.append((begin, place))
        return spans

    @functools.cached_property
    def _spellings(self) -> tuple[list[str], list[str]]:
        return self._run.tokenizers.source.spellings(), self._run.tokenizers.target.spellings()


def _ends_in_mark(text: str) -> bool:
    return any(not any(map(str.isalnum, text[begin:end])) for begin, end in words(text)[-1:])


def _folded(text: str) -> str:
    """In lower case, each character by itself: it stays as long."""
    return "".join(lower if len(lower := character.lower()) == 1 else character for character in text)


def _membership(text: str, spans: Sequence[tuple[int, int]]) -> NDArray[np.float32]:
    """1 where a token has a part of a word [words, tokens]."""
    of_words = np.array(words(text), dtype=np.int64).reshape(-1, 2)
    of_tokens = np.array(spans, dtype=np.int64).reshape(-1, 2)
    return ((of_words[:, :1] < of_tokens[:, 1]) & (of_tokens[:, 0] < of_words[:, 1:])).astype(np.float32)
