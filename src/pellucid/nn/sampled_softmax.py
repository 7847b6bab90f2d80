r"""The softmax over some of the words (Jean et al. 2015, section 3): the targets of a batch, and others that are drawn,
each of which stands for several.

.. math:: Z = \sum_v e^{z_v} \approx \sum_{v \in T} e^{z_v} + \frac{V - |T|}{|K|} \sum_{v \in K} e^{z_v}

with the targets T, and K drawn evenly from the rest. So log((V - |T|) / |K|) is added to the logits of
what is drawn; what is expected of the sum is Z. Label smoothing needs no sample: it stays even over all words, for
the logsoftmax has the same log Z in each of them,

.. math:: -(1 - \epsilon) \log p_y - \frac{\epsilon}{V} \sum_v \log p_v
          = -\log p_y + \epsilon \, (z_y - \bar z), \qquad \bar z = h \cdot \frac1V \sum_v w_v

so that what it adds is one product with the mean of the matrix.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from pellucid.kernels import calls

STEP = 512  # numbers of words are multiples of it: each new shape of a product takes a while to be made


def enough_words(targets: Tensor, count: int) -> int:
    """How many words to take, at least `count`: of targets [N] half of them at least are others that are drawn."""
    distinct = len(torch.unique(targets)) if calls.has_data(targets) else 0
    return math.ceil(max(count, 2 * distinct) / STEP) * STEP


def sampled_words(hidden: Tensor, weight: Tensor, targets: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The output over `count` words in place of V, the targets among them; over all words where those would be no
    fewer. A one behind each hidden state meets what is added to the logits.

    Args:
        hidden: [..., D].  weight: [V, D].  targets: [N], token ids.
        count: K + T, see `enough_words`.

    Returns:
        [..., D + 1], [K + T, D + 1], and targets as places among the words: [N].
    """
    vocabulary = len(weight)
    if count >= vocabulary:
        return hidden, weight, targets
    is_target = targets.new_zeros(vocabulary, dtype=torch.bool).index_fill(0, targets, True)
    keys = torch.rand(vocabulary, dtype=torch.float32, device=weight.device)
    before = 3 - torch.arange(vocabulary, device=weight.device).float() / vocabulary  # targets first, in their order
    best, words = torch.where(is_target, before, keys).topk(count)
    number = is_target.sum().double()
    added = torch.where(best > 1, 0.0, ((vocabulary - number) / (count - number)).log()).to(weight.dtype)
    matrix = torch.cat([F.embedding(words, weight), added[:, None]], -1)
    return torch.cat([hidden, torch.ones_like(hidden[..., :1])], -1), matrix, (is_target.cumsum(0) - 1)[targets]


def above_mean(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """By how much the logits of targets are above the mean of all words' logits, summed over hidden states: what label
    smoothing adds to the cross-entropy, for each ε.

    Args:
        hidden: [..., N, D].  weight: [V, D].  targets: [N], token ids.
    """
    return (hidden * (F.embedding(targets, weight) - weight.mean(0))).sum()
