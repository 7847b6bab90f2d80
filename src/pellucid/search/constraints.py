"""What may not follow: each rule sets the log-probability of what it forbids to -inf.

The rules change log-probabilities [R, V] in place and return them, so that they compose. They decide what is chosen,
not what it is worth: scores are sums of the model's log-probabilities as they were before (a renormalised score would
depend on the constraints, and could not be compared with the score of the same text). The longest length is no rule on
tokens: search stops there.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from pellucid.search.options import SearchOptions, Specials


@dataclass(frozen=True)
class Rules:
    """What one search obeys.

    Args:
        prefixes: [N, P], the tokens each sentence must begin with, -1 behind a prefix that is shorter than P.
        indices: the caller's number of each of the N sentences.
    """

    options: SearchOptions
    specials: Specials
    prefixes: Tensor
    indices: tuple[int, ...]


class LastResort(NamedTuple):
    """The token a row takes when the rules leave it none: the forced one if there is one, else `eos`.

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
        ValueError: a special or prefix token is not in the vocabulary.
    """
    options, specials, length = rules.options, rules.specials, generated.shape[1]
    if length == 0:
        check_vocabulary(log_p.shape[1], rules)
    last_resort = torch.full_like(sentences, specials.eos)
    forced = None
    if length < rules.prefixes.shape[1]:
        forced = rules.prefixes[:, length].to(log_p.device)[sentences]  # [R]
        last_resort = torch.where(forced >= 0, forced, last_resort)
    resort = LastResort(last_resort, log_p.gather(1, last_resort[:, None]).squeeze(1))

    log_p = forbid_tokens(log_p, (specials.pad, specials.bos))
    log_p = forbid_end(log_p, length, options.min_length, specials.eos)
    log_p = forbid_repeated_ngrams(log_p, generated, options.no_repeat_ngram)
    if forced is not None:
        log_p = force_tokens(log_p, forced)
    return log_p, resort


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


def force_tokens(log_p: Tensor, forced: Tensor) -> Tensor:
    """y_t = forced, where forced [R] is not -1; what another rule forbids stays forbidden (see `LastResort`)."""
    rows = (forced >= 0).nonzero().squeeze(1)
    kept = log_p[rows, forced[rows]]
    log_p[rows] = -torch.inf
    log_p[rows, forced[rows]] = kept
    return log_p


def check_vocabulary(vocabulary: int, rules: Rules) -> None:
    """Every id that search may name has a logit."""
    specials = rules.specials
    largest = max(specials.bos, specials.eos, specials.pad, int(rules.prefixes.amax()) if rules.prefixes.numel() else 0)
    if largest >= vocabulary:
        raise ValueError(f"token {largest} is not in the vocabulary: the model scores {vocabulary} tokens")
