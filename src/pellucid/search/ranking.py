"""The best tokens that may follow each row: log softmax, then the rules, then the first few."""

import functools

import torch
from torch import Tensor

from pellucid.kernels import calls
from pellucid.search.constraints import LastResort, Rules, check_vocabulary, constrain
from pellucid.search.distribution import largest, log_probabilities, top_candidates
from pellucid.search.rows import Rows

_EQUALS = 16  # more than asked for, to see what is equal: logits in bf16 often are


def best_tokens(logits: Tensor, live: Rows, rules: Rules, count: int) -> tuple[Tensor, Tensor]:
    """The `count` most probable tokens of each row under the rules, the lower id first among equals.

    Args:
        logits: [R, V].  live: the rows so far.

    Returns:
        log-probabilities [R, count], at most 0, in fp32, and ids [R, count], both on the CPU. Past what may follow the
        values are -inf; the first column holds a last resort where nothing may.

    Raises:
        NumericalError: a logit is not a number.
    """
    begun = _begun(live, rules)
    if len(begun) == len(logits) or not _is_simple(logits, rules, count):
        return _the_plain_way(logits, live, rules, count)
    if live.tokens.shape[1] == 0:
        check_vocabulary(logits.shape[1], rules)
    values, ids = (_in_one_copy if logits.is_cuda else _in_one_pass)(logits, live, rules, count)
    others = ~values[:, 0].isfinite()  # infinite logits or NaN: the plain way knows what to do
    if begun:
        others[begun] = True
    if bool(others.any()):  # they alone: it rounds otherwise, and no sentence is to feel its neighbours
        rows = others.nonzero()[:, 0]
        values[rows], ids[rows] = _the_plain_way(logits[rows.to(logits.device)], live.select(rows), rules, count)
    return values.clamp_(max=0.0), ids


def _the_plain_way(logits: Tensor, live: Rows, rules: Rules, count: int) -> tuple[Tensor, Tensor]:
    log_p, last_resort = under_rules(logits, live, rules)
    values, ids = top_candidates(log_p, count)
    ids[:, 0], values[:, 0] = last_resort.settle(ids[:, 0], values[:, 0])
    return values.clamp_(max=0.0).cpu(), ids.cpu()  # a rounded log softmax may exceed it


def under_rules(logits: Tensor, live: Rows, rules: Rules) -> tuple[Tensor, LastResort]:
    """The log-probabilities [R, V] of what may follow each row, where the logits are; and what is taken where nothing
    may. Arguments and errors as of `best_tokens`."""
    live = live.to(logits.device)
    log_p = log_probabilities(logits.float(), live.sentences, rules.indices)
    return constrain(log_p, live.tokens, live.sentences, rules)


def _begun(live: Rows, rules: Rules) -> list[int]:
    """The rows of the sentences whose beginnings may go on."""
    length = live.tokens.shape[1]
    if length >= rules.longest_beginning:
        return []
    return [row for row, sentence in enumerate(live.sentences.tolist())
            if length < len(rules.beginnings[sentence].choices)]


def _is_simple(logits: Tensor, rules: Rules, count: int) -> bool:
    """Whether the same few tokens are forbidden in every row behind its beginning, and enough are left."""
    return (rules.options.no_repeat_ngram == 0 and count + 3 <= logits.shape[1]
            and (calls.serve(logits) or logits.is_cuda))


def _in_one_pass(logits: Tensor, live: Rows, rules: Rules, count: int) -> tuple[Tensor, Tensor]:
    forbidden = _forbidden(live, rules)
    values = torch.empty(len(logits), count, dtype=torch.float32, device="cpu")
    ids = torch.empty(len(logits), count, dtype=torch.int64, device="cpu")
    logits = logits.contiguous()
    calls.run("rank", logits.dtype, logits, values, ids, *logits.shape, count, forbidden, len(forbidden))
    return values, ids


def _in_one_copy(logits: Tensor, live: Rows, rules: Rules, count: int) -> tuple[Tensor, Tensor]:
    """Ranked where the logits are, all but what is equal: a GPU is waited for once. NaN where so many are equal that
    some of them were left out."""
    log_p = torch.log_softmax(logits.float(), dim=-1)
    log_p.index_fill_(1, _forbidden(live, rules).to(logits.device), -torch.inf)
    values, ids = largest(log_p, min(count + _EQUALS, logits.shape[1]))
    values, ids = torch.stack([values.view(torch.int32), ids.int()]).cpu()
    ids, order = ids.long().sort(dim=1)
    values, order = values.view(torch.float32).gather(1, order).sort(dim=1, descending=True, stable=True)
    is_cut = (values[:, count - 1] == values[:, -1]) & values[:, -1].isfinite()
    values[:, 0].masked_fill_(is_cut, torch.nan)
    return values[:, :count].contiguous(), ids.gather(1, order)[:, :count].contiguous()


def _forbidden(live: Rows, rules: Rules) -> Tensor:
    specials = rules.specials
    too_short = live.tokens.shape[1] < rules.options.min_length
    return _ids(specials.pad, specials.bos, *([specials.eos] if too_short else []))


@functools.cache
def _ids(*tokens: int) -> Tensor:
    return torch.tensor(tokens, device="cpu")
