"""Peak memory of training BPE pieces, reckoned from some of the pairs that they are learned from.

It holds its sample, once as Python has it and once as sentences of its own, and of each different word (what stands
between spaces: where no space divides text, a whole line) the places of its characters, and whatever stands side by
side. Of more pairs than are known, there are taken to be more different words with each doubling of the pairs, by a
factor that falls from one doubling to the next as it did within what is known.
"""

import math
import sys
from collections.abc import Sequence

from pellucid.config import TokenizerConfig
from pellucid.data.tokenizers.interface import Tidy
from pellucid.plan.rehearsal import Holdings

# Bytes found by experiment with SentencePiece 0.2.3 and glibc, see docs/plan.md.
_PAIR, _SENTENCE, _ROOM = 250, 50, 3  # beside a pair's strings; beside a sentence, which has room for thrice its bytes
_WORD, _CHARACTER, _NEIGHBOURS = 100, 45, 190  # of a different word, a character in it, two different neighbours
_UNIGRAM = 27, 59  # of a character, where pieces are by unigram: English and French; Chinese verse
_MERGE = 0.0006  # of each character of a different word, for each piece of the vocabulary


def memory_of(config: TokenizerConfig, pairs: Sequence[tuple[str, str]], count: int, sides: int) -> Holdings:
    """Bytes by what holds them, beside the process; nothing for what is no BPE, or is not trained.

    Args:
        pairs: some of the `count` that there are, each as likely as another.
        sides: 1 where the second is a label, which is not learned from.
    """
    if config.kind != "sentencepiece" or config.algorithm != "bpe" or config.path is not None or not pairs:
        return {}
    taken, _ = _sampled(config, pairs, count)
    known, tidy = pairs[:taken], Tidy(config.lowercase, config.strip_punctuation)
    times = taken / len(known)
    learned = [[tidy(pair[side]) for pair in known] for side in range(sides)]
    if config.shared and sides == 2:
        learned = [[text for pair in zip(*learned, strict=True) for text in pair]]
    sample = sum(sys.getsizeof(a) + sys.getsizeof(b) + _PAIR for a, b in known)
    trained = [_trained(texts, times, config.vocab_size) for texts in learned]
    return {"sample": round(times * sample)} | max(trained, key=lambda held: sum(held.values()))


def not_reckoned(config: TokenizerConfig, pairs: Sequence[tuple[str, str]], count: int) -> tuple[str, ...]:
    """What there is to say, in a sentence, of pieces by unigram, whose memory grows with the text otherwise in each
    language: between the bounds that were measured. Arguments as of `memory_of`."""
    if config.kind != "sentencepiece" or config.algorithm != "unigram" or config.path is not None or not pairs:
        return ()
    taken, mean = _sampled(config, pairs, count)
    low, high = (f"{bound * taken * mean / 2**20:,.0f}" for bound in _UNIGRAM)
    return (f"the memory of the tokenizer's training is not reckoned: pieces by unigram took {_UNIGRAM[0]} to "
            f"{_UNIGRAM[1]} bytes a character beside the text itself, which is {low} to {high} MiB of "
            f"{taken * mean:,.0f} characters; a lower tokenizer.sample_characters takes less",)


def _sampled(config: TokenizerConfig, pairs: Sequence[tuple[str, str]], count: int) -> tuple[int, float]:
    """How many pairs are learned from, and how many characters they have on average."""
    mean = max(sum(len(a) + len(b) for a, b in pairs) / len(pairs), 1.0)
    return max(1, min(count, config.sample_lines, int(config.sample_characters / mean))), mean


def _trained(texts: Sequence[str], times: float, pieces: int) -> Holdings:
    sentences = sum(_ROOM * len(text.encode("utf-8", "replace")) + _SENTENCE for text in texts)
    parts = zip(*(_different(texts[: len(texts) // share]) for share in (4, 2, 1)), strict=True)
    words, characters, neighbours = (_grown(quarter, half, whole, math.log2(times)) for quarter, half, whole in parts)
    return {"sentences": round(times * sentences),
            "words": round(_WORD * words + (_CHARACTER + _MERGE * pieces) * characters),
            "neighbours": round(_NEIGHBOURS * neighbours)}


def _different(texts: Sequence[str]) -> tuple[int, int, int]:
    """How many different words, characters in them, and pairs of neighbours in these; a space begins a word."""
    words = {word for text in texts for word in text.split(" ")}
    neighbours = {word[i : i + 2] for word in words for i in range(len(word) - 1)} | {f" {word[:1]}" for word in words}
    return len(words), sum(map(len, words)) + len(words), len(neighbours)


def _grown(quarter: int, half: int, whole: int, doublings: float) -> float:
    """How many of what there are so many of in a quarter, the half and the whole, after some doublings of it."""
    if not quarter < half < whole:
        return whole
    growth = math.log2(whole / half)
    falls, found = min(growth / math.log2(half / quarter), 1.0), float(whole)
    while doublings > 0:
        growth *= falls
        found *= 2 ** (growth * min(doublings, 1.0))
        doublings -= 1
    return found
