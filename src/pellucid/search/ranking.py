"""The best tokens that may follow each row: log softmax, then the rules, then the first few."""

import functools

import torch
from torch import Tensor

from pellucid.kernels import calls
from pellucid.search.constraints import Rules, check_vocabulary, constrain
from pellucid.search.distribution import log_probabilities, top_candidates
from pellucid.search.rows import Rows


def best_tokens(logits: Tensor, live: Rows, rules: Rules, count: int) -> tuple[Tensor, Tensor]:
    """The `count` most probable tokens of each row under the rules, the lower id first among equals.

    Args:
        logits: [R, V].  live: the rows so far.

    Returns:
        log-probabilities [R, count], at most 0, in fp32, and ids [R, count]. Past what may follow the values are -inf;
        the first column holds a last resort where nothing may.

    Raises:
        NumericalError: a logit is not a number.
    """
    if _is_simple(logits, live, rules, count):
        check_vocabulary(logits.shape[1], rules)
        values, ids = _in_one_pass(logits, live, rules, count)
        if bool(values[:, 0].isfinite().all()):  # else infinite logits or NaN: the plain way knows what to do
            return values.clamp_(max=0.0), ids
    log_p = log_probabilities(logits.float(), live.sentences, rules.indices)
    log_p, last_resort = constrain(log_p, live.tokens, live.sentences, rules)
    values, ids = top_candidates(log_p, count)
    ids[:, 0], values[:, 0] = last_resort.settle(ids[:, 0], values[:, 0])
    return values.clamp_(max=0.0), ids  # a rounded log softmax may exceed it


def _is_simple(logits: Tensor, live: Rows, rules: Rules, count: int) -> bool:
    """Whether the same few tokens are forbidden in every row, and enough are left."""
    length = live.tokens.shape[1]
    return (length >= rules.longest_beginning and rules.options.no_repeat_ngram == 0
            and count + 3 <= logits.shape[1] and calls.serve(logits))


def _in_one_pass(logits: Tensor, live: Rows, rules: Rules, count: int) -> tuple[Tensor, Tensor]:
    specials = rules.specials
    too_short = live.tokens.shape[1] < rules.options.min_length
    forbidden = _ids(specials.pad, specials.bos, *([specials.eos] if too_short else []))
    values = torch.empty(len(logits), count)
    ids = torch.empty(len(logits), count, dtype=torch.int64)
    logits = logits.contiguous()
    calls.run("rank", logits.dtype, logits, values, ids, *logits.shape, count, forbidden, len(forbidden))
    return values, ids


@functools.cache
def _ids(*tokens: int) -> Tensor:
    return torch.tensor(tokens)
