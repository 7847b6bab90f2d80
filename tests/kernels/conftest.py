"""What the kernels' tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def no_pass_is_too_small() -> Iterator[None]:
    """What is compiled is compared with the equations on a few numbers, too, where torch's own would be quicker."""
    from pellucid.kernels import layer_norm

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layer_norm, "FEW", 1)
        yield
