"""The cache grows at its end, and its rows can be chosen."""

from __future__ import annotations

import torch

from pellucid.nn.key_value_cache import KeyValueCache


def test_append_is_concatenation_in_time() -> None:
    k, v = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 5, 4)
    cache = KeyValueCache()
    for start, stop in ((0, 1), (1, 4), (4, 5)):
        cache.append(k[:, :, start:stop], v[:, :, start:stop])
    keys, values = cache.read()
    assert torch.equal(keys, k)
    assert torch.equal(values, v)


def test_select_gathers_rows_again_and_again_and_leaves_the_old_cache_alone() -> None:
    cache = KeyValueCache((torch.randn(3, 2, 5, 4), torch.randn(3, 2, 5, 4)))
    keys, values = cache.read()
    before = keys.clone()
    new_keys, new_values = cache.select(torch.tensor([2, 0, 0, 2])).read()
    for new, old in enumerate((2, 0, 0, 2)):
        assert torch.equal(new_keys[new], keys[old])
        assert torch.equal(new_values[new], values[old])
    assert torch.equal(cache.read()[0], before)


def test_a_copy_grows_by_itself() -> None:
    cache = KeyValueCache((torch.randn(1, 2, 3, 4), torch.randn(1, 2, 3, 4)))
    copy = cache.copy()
    copy.append(torch.randn(1, 2, 1, 4), torch.randn(1, 2, 1, 4))
    assert copy.read()[0].shape[2] == 4
    assert cache.read()[0].shape[2] == 3
    empty = KeyValueCache().select(torch.tensor([0, 0]))  # nothing has no rows to choose
    empty.append(*copy.read())
    assert torch.equal(empty.read()[1], copy.read()[1])
