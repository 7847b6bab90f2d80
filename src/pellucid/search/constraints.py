"""What may not follow: each rule sets the log-probability of what it forbids to -inf.

The rules change log-probabilities [R, V] in place and return them, so that they compose. They decide what is chosen,
not what it is worth: scores are sums of the model's log-probabilities as they were before (a renormalised score would
depend on the constraints, and could not be compared with the score of the same text). The longest length is no rule on
tokens: search stops there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from pellucid.search.beginnings import Beginning
from pellucid.search.options import SearchOptions, Specials


@dataclass(frozen=True)
class Rules:
    """What one search obeys.

    Args:
        beginnings: what the hypotheses of each of the N sentences begin with.
        indices: the caller's number of each of the N sentences.
    """

    options: SearchOptions
    specials: Specials
    beginnings: tuple[Beginning, ...]
    indices: tuple[int, ...]

    @cached_property
    def longest_beginning(self) -> int:
        """Tokens after which every hypothesis is free."""
        return max(len(beginning.choices) for beginning in self.beginnings)


class LastResort(NamedTuple):
    """The token a row takes when the rules leave it none: the best that its beginning allows, else `eos`.

    So every hypothesis can go on or end, whatever the constraints and the logits.
    """

    tokens: Tensor  # [R]
    log_p: Tensor  # [R], the model's, before the rules

    def settle(self, tokens: Tensor, log_p: Tensor) -> tuple[Tensor, Tensor]:
        """tokens [R] and their log_p [R], with the last resort in the place of what is at -inf."""
        none_left = log_p == -torch.inf
        return torch.where(none_left, self.tokens, tokens), torch.where(none_left, self.log_p, log_p)


def constrain(log_p: Tensor, generated: Tensor, sentences: Tensor, rules: Rules) -> tuple[Tensor, LastResort]:
    """All the rules on log_p [R, V], in place.

    Args:
        log_p: [R, V].
        generated: [R, t], each row's tokens so far, without `bos`.
        sentences: [R], the position in the batch of each row's sentence.

    Raises:
        ValueError: a special token or one of a beginning is not in the vocabulary.
    """
    options, specials, length = rules.options, rules.specials, generated.shape[1]
    if length == 0:
        check_vocabulary(log_p.shape[1], rules)
    last_resort = torch.full_like(sentences, specials.eos)
    allowed = beginning_tokens(generated, sentences, rules)
    for row, tokens in allowed.items():
        last_resort[row] = tokens[log_p[row, tokens].argmax()]
    resort = LastResort(last_resort, log_p.gather(1, last_resort[:, None]).squeeze(1))

    log_p = forbid_tokens(log_p, (specials.pad, specials.bos))
    log_p = forbid_end(log_p, length, options.min_length, specials.eos)
    log_p = forbid_repeated_ngrams(log_p, generated, options.no_repeat_ngram)
    return allow_only(log_p, allowed), resort


def beginning_tokens(generated: Tensor, sentences: Tensor, rules: Rules) -> dict[int, Tensor]:
    """For each row that is still inside of its beginning, the tokens that may come next."""
    if generated.shape[1] >= rules.longest_beginning:
        return {}
    allowed = {}
    for row, (tokens, sentence) in enumerate(zip(generated.tolist(), sentences.tolist(), strict=True)):
        choice = rules.beginnings[sentence].walk(tokens)[1]
        if choice is not None:
            allowed[row] = torch.from_numpy(choice.tokens).to(generated.device)
    return allowed


def forbid_tokens(log_p: Tensor, tokens: tuple[int, ...]) -> Tensor:
    """y_t ∉ tokens."""
    for token in tokens:
        log_p[:, token] = -torch.inf
    return log_p


def forbid_end(log_p: Tensor, length: int, min_length: int, eos: int) -> Tensor:
    """y_t ≠ eos for t ≤ min_length, `length` tokens standing before y_t."""
    if length < min_length:
        log_p[:, eos] = -torch.inf
    return log_p


def forbid_repeated_ngrams(log_p: Tensor, generated: Tensor, n: int) -> Tensor:
    """(y_{t-n+1}, …, y_t) ≠ (y_{s-n+1}, …, y_s) for all n ≤ s < t; generated [R, t-1]; n = 0 forbids nothing."""
    length = generated.shape[1]
    if n == 0 or length < n:
        return log_p
    ngrams = generated.unfold(1, n, 1)  # [R, t-n, n]
    latest = generated[:, length - n + 1 :]  # [R, n-1]
    rows, places = (ngrams[:, :, :-1] == latest[:, None, :]).all(dim=-1).nonzero(as_tuple=True)
    log_p[rows, ngrams[rows, places, -1]] = -torch.inf
    return log_p


def allow_only(log_p: Tensor, allowed: Mapping[int, Tensor]) -> Tensor:
    """y_t ∈ allowed, in the rows that it names; what another rule forbids stays forbidden (see `LastResort`)."""
    for row, tokens in allowed.items():
        kept = log_p[row, tokens]
        log_p[row] = -torch.inf
        log_p[row, tokens] = kept
    return log_p


def check_vocabulary(vocabulary: int, rules: Rules) -> None:
    """Every id that search may name has a logit."""
    specials = rules.specials
    begun = (int(tokens.max(initial=0)) for beginning in rules.beginnings for tokens in beginning.tokens())
    largest = max(specials.bos, specials.eos, specials.pad, *begun)
    if largest >= vocabulary:
        raise ValueError(f"token {largest} is not in the vocabulary: the model scores {vocabulary} tokens")
