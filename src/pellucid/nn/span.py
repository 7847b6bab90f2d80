r"""Where an answer starts and ends: two distributions over the places of a row (Vinyals et al. 2015; Seo et al. 2017).

.. math:: \ell = -\log p_s(i) - \log p_e(j), \qquad (i, j) = \arg\max_{i \le j < i + L} s_i + e_j

Each distribution is over all places of a question, in whatever window they lie (Clark and Gardner 2018).
"""

import torch
from torch import Tensor


def span_cross_entropy(scores: Tensor, first: Tensor, last: Tensor, smoothing: float) -> Tensor:
    """The loss of each row, in nats: scores [B, S, 2], −∞ where nothing may start or end; first, last [B] → [B].

    `smoothing` is spread over the places where something may.
    """
    log_probabilities = scores.log_softmax(1)
    allowed = scores.isfinite()
    truth = log_probabilities.gather(1, torch.stack([first, last], 1)[:, None]).sum((1, 2))
    if smoothing == 0:
        return -truth
    mean = log_probabilities.masked_fill(~allowed, 0.0).sum(1) / allowed.sum(1)
    return -(1 - smoothing) * truth - smoothing * mean.sum(1)


def best_spans(scores: Tensor, windows: Tensor, longest: int) -> tuple[Tensor, Tensor, Tensor]:
    """The best span of each row, found exactly: of all that lie in one window and have at most `longest` places; the
    shortest among equals.

    Args:
        scores: [B, S, 2], −∞ where nothing may start or end.
        windows: [B, S], the number of each place's window; place 0, "no answer", is none of theirs.

    Returns:
        Its score s + e [B], −∞ where there is none; its first and its last place [B].
    """
    starts, ends = scores.unbind(-1)
    starts = starts.index_fill(1, torch.zeros(1, dtype=torch.long, device=scores.device), -torch.inf)
    best = torch.full_like(starts[:, 0], -torch.inf)
    first, last = torch.zeros_like(windows[:, 0]), torch.zeros_like(windows[:, 0])
    for length in range(min(longest, starts.shape[1])):
        until = starts.shape[1] - length
        sums = starts[:, :until] + ends[:, length:]
        value, place = sums.masked_fill(windows[:, :until] != windows[:, length:], -torch.inf).max(1)
        better = value > best
        best = torch.where(better, value, best)
        first, last = torch.where(better, place, first), torch.where(better, place + length, last)
    return best, first, last
