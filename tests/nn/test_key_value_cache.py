"""The cache grows at its end, and its rows can be chosen."""

from __future__ import annotations

import torch

from pellucid.nn.key_value_cache import KeyValueCache


def test_append_is_concatenation_in_time() -> None:
    k, v = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 5, 4)
    cache = KeyValueCache(k[:, :, :0], v[:, :, :0])
    for start, stop in ((0, 1), (1, 4), (4, 5)):
        cache = cache.append(k[:, :, start:stop], v[:, :, start:stop])
    assert torch.equal(cache.keys, k)
    assert torch.equal(cache.values, v)


def test_select_gathers_rows_again_and_again_and_leaves_the_old_cache_alone() -> None:
    cache = KeyValueCache(torch.randn(3, 2, 5, 4), torch.randn(3, 2, 5, 4))
    before = cache.keys.clone()
    chosen = cache.select(torch.tensor([2, 0, 0, 2]))
    for new, old in enumerate((2, 0, 0, 2)):
        assert torch.equal(chosen.keys[new], cache.keys[old])
        assert torch.equal(chosen.values[new], cache.values[old])
    assert torch.equal(cache.keys, before)
