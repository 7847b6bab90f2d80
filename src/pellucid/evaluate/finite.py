"""Numbers that JSON has no form for (RFC 8259)."""

import math
from typing import Any


def finite(value: Any) -> Any:
    """Plain data as JSON can have it: None for each number in it that is infinite, as the bound of an interval where
    there is but one source."""
    if isinstance(value, dict):
        return {key: finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
