"""What torch allocates, as its profiler counts it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def most_allocated(task: Callable[[], object]) -> int:
    """The most bytes that torch had allocated at once while this ran, besides what was there before it."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        task()
    profiler: Any = profile.profiler
    live = most = 0
    for event in sorted(profiler.kineto_results.events(), key=lambda e: e.start_ns()):
        if event.name() == "[memory]":
            live += event.nbytes()
            most = max(most, live)
    return most
