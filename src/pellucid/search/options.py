"""What a search is asked for, and what it returns."""

import itertools
import math
from dataclasses import dataclass

MAXIMUM_ALPHA = 5.0  # keeps lp(Y) far from overflow: lp(10^6)^5 ≈ 10^26


@dataclass(frozen=True)
class Specials:
    """The ids that begin a sequence, end it and fill what is left of a row."""

    bos: int = 2
    eos: int = 3
    pad: int = 0


@dataclass(frozen=True)
class SearchOptions:
    """How to search: `sample` draws; otherwise beam_size 1 is greedy, over at the first `eos`, and more is a beam.

    Lengths count generated tokens: `bos` never, `eos` towards `max_length` but not `min_length`, a forced prefix
    towards both.

    Args:
        beam_size: hypotheses kept a sentence; without effect on sampling.
        length_penalty: α in lp(Y) = (5 + |Y|)^α / 6^α; 0 ranks by log-probability, more favours longer output.
        min_length: tokens before `eos` may follow.
        max_length: a hypothesis of this many tokens stops where it stands, finished or not.
        n_best: hypotheses returned, at most (equal samples and short supplies give fewer).
        no_repeat_ngram: no sequence of this many tokens occurs twice; 0 allows all.
        sample: draw `n_best` sequences at random in place of searching for the best.
        temperature: divides the log-probabilities before drawing.
        top_k: draws among this many most probable tokens; 0 draws among all.
        top_p: draws among the fewest most probable tokens that hold this much probability; 1 draws among all.
        seed: the draws depend on it, on the sentence's index and on nothing else.
        scores: false if the log-probabilities of the hypotheses will not be looked at; greedy search then may leave out
            the sums that they need, and say NaN.

    Raises:
        ValueError: a value is out of range; the message says what is allowed.
    """

    beam_size: int = 4
    length_penalty: float = 0.6
    min_length: int = 0
    max_length: int = 256
    n_best: int = 1
    no_repeat_ngram: int = 0
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1
    scores: bool = True

    def __post_init__(self) -> None:
        for name, lowest in _WHOLE_NUMBERS.items():
            value = self.__dict__[name]
            if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
                raise ValueError(f"{name} must be a whole number, {lowest} or more, not {value!r}")
        for name, allowed, holds in (
                ("min_length", f"less than max_length ({self.max_length})", self.min_length < self.max_length),
                ("n_best", f"at most beam_size ({self.beam_size}), except for samples",
                 self.sample or self.n_best <= self.beam_size),
                ("length_penalty", f"between {-MAXIMUM_ALPHA} and {MAXIMUM_ALPHA}",
                 -MAXIMUM_ALPHA <= self.length_penalty <= MAXIMUM_ALPHA),
                ("temperature", "above 0 and finite", 0 < self.temperature < math.inf),
                ("top_p", "above 0 and at most 1", 0 < self.top_p <= 1)):
            if not holds:
                raise ValueError(f"{name} must be {allowed}, not {self.__dict__[name]!r}")


_WHOLE_NUMBERS = {"beam_size": 1, "min_length": 0, "max_length": 1, "n_best": 1, "no_repeat_ngram": 0, "top_k": 0,
                  "seed": 0}


@dataclass(frozen=True)
class Hypothesis:
    """One output sequence Y.

    Log-probabilities are the model's own, natural logarithms, before any constraint, temperature or cut: scoring the
    same text with the same model gives the same numbers.

    Args:
        tokens: what was generated, without `bos` and `eos`; a forced prefix is its beginning.
        score: log_probability / lp(Y); what hypotheses are ranked by.
        log_probability: log P(Y | x), `eos` included; -inf where a constraint forced what the model rules out.
        token_log_probabilities: its terms, one a token and one for `eos` if the hypothesis is finished.
        finished: it ended in `eos`; otherwise it was stopped at `max_length`.
    """

    tokens: tuple[int, ...]
    score: float
    log_probability: float
    token_log_probabilities: tuple[float, ...]
    finished: bool


def length_penalty(length: int, alpha: float) -> float:
    """lp(Y) = (5 + |Y|)^α / (5 + 1)^α, with |Y| = `length` tokens, `eos` counted (Wu et al. 2016, eq. 14)."""
    return math.pow((5 + length) / 6, alpha)


def largest_penalties(options: SearchOptions) -> list[float]:
    """For n = 0 … max_length - 1 tokens the largest lp(Y) that a longer hypothesis can have."""
    largest, penalties = 0.0, []
    for length in range(options.max_length, 0, -1):
        largest = max(largest, length_penalty(length, options.length_penalty))
        penalties.append(largest)
    return penalties[::-1]


def hypothesis(tokens: list[int], log_p: list[float], eos: int, alpha: float) -> Hypothesis:
    """The result made of tokens (`eos` among them if it ends there) and the log-probability of each."""
    *_, log_probability = itertools.accumulate(log_p)  # in the order, and so with the rounding, of the search
    finished = tokens[-1] == eos
    return Hypothesis(tokens=tuple(tokens[:-1] if finished else tokens),
                      score=log_probability / length_penalty(len(tokens), alpha), log_probability=log_probability,
                      token_log_probabilities=tuple(log_p), finished=finished)
