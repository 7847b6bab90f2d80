r"""Linear attention (Katharopoulos et al. 2020): softmax replaced by a product of features, in time linear in length.

.. math:: \mathrm{Attention}(Q, K, V)_t =
          \frac{\phi(q_t)^\top \sum_s \phi(k_s) v_s^\top}{\phi(q_t)^\top \sum_s \phi(k_s)},
          \qquad \phi(x) = \mathrm{elu}(x) + 1

With a causal pattern the sums run over s ≤ t.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.nn.attention_pattern import AttentionPattern

_CHUNK = 64


def features(x: Tensor) -> Tensor:
    """φ(x) = elu(x) + 1, positive everywhere; in fp32 it is rounded to 0 from about -17 down."""
    return F.elu(x) + 1


class LinearAttention(nn.Module):
    """φ(Q)(φ(K)ᵀV) behind the same two methods as softmax attention; neither bias, rotation nor window fits in."""

    accepts_bias = False
    accepts_rotation = False

    def weights(self, q: Tensor, k: Tensor, pattern: AttentionPattern, bias: Tensor | None) -> Tensor:
        """φ(q_t)·φ(k_s) over its sum along s, where the pattern allows: [B, H, T, S]."""
        assert bias is None
        products = features(q) @ features(k).transpose(-2, -1)  # [B, H, T, S]
        if pattern.mask is not None:
            products = products * pattern.mask
        return products / _divisor(products.sum(-1, keepdim=True))

    def forward(self, q: Tensor, k: Tensor, v: Tensor, pattern: AttentionPattern, bias: Tensor | None) -> Tensor:
        """Attention(Q, K, V): [B, H, T, d_v], without a [T, S] matrix; the T queries stand at the end of the S keys
        when the pattern is causal."""
        assert bias is None
        assert pattern.window is None
        dtype = q.dtype
        with torch.autocast(q.device.type, enabled=False):  # long sums need the precision
            wide = torch.float64 if dtype == torch.float64 else torch.float32
            q, k, v = features(q.to(wide)), features(k.to(wide)), v.to(wide)
            if pattern.real_keys is not None:
                k = k * pattern.real_keys[:, None, :, None]
            v = torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)  # the last column sums the weights
            out = _causal(q, k, v) if pattern.causal else q @ (k.transpose(-2, -1) @ v)
            return (out[..., :-1] / _divisor(out[..., -1:])).to(dtype)


def _divisor(total: Tensor) -> Tensor:
    """`total`, with 1 where it is 0: nothing to look at gives 0, and gradients that cannot overflow."""
    return total.masked_fill(total == 0, 1)


def _causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Σ_{s ≤ t} (q_t·k_s) v_s in chunks: what lies before a chunk through its sum, what lies inside it directly."""
    before = k.shape[-2] - q.shape[-2]
    state = k[..., :before, :].transpose(-2, -1) @ v[..., :before, :]  # [B, H, d_k, d_v + 1]
    chunks = []
    for start in range(0, max(q.shape[-2], 1), _CHUNK):  # of no queries one, which is empty
        q_here = q[..., start : start + _CHUNK, :]
        k_here = k[..., before + start : before + start + _CHUNK, :]
        v_here = v[..., before + start : before + start + _CHUNK, :]
        chunks.append(q_here @ state + (q_here @ k_here.transpose(-2, -1)).tril() @ v_here)
        state = state + k_here.transpose(-2, -1) @ v_here
    return torch.cat(chunks, dim=-2)
