r"""The learning rate of each step (section 5.3).

The paper's equation (3), :math:`D^{-0.5} \min(s^{-0.5}, s\,w^{-1.5})`, is `inverse_sqrt` with the peak
:math:`(D\,w)^{-0.5}`.
"""

import math
from collections.abc import Callable

# Each schedule: the share of the peak at step s (from 1) after w warm-up steps, of n steps in all.
SCHEDULES: dict[str, Callable[[int, int, int], float]] = {
    "inverse_sqrt": lambda s, w, n: math.sqrt(max(w, 1) / s),
    "cosine": lambda s, w, n: 0.5 * (1 + math.cos(math.pi * (s - w) / max(n - w, 1))),
    "linear": lambda s, w, n: (n - s) / max(n - w, 1),
    "constant": lambda s, w, n: 1.0,
}


def learning_rate(step: int, schedule: str, peak: float, warmup_steps: int, steps: int) -> float:
    """The rate of the update `step`, counted from 1: up in a straight line to `peak`, then down as `schedule` says.

    Without warm-up, `inverse_sqrt` begins at the peak.
    """
    if step <= warmup_steps:
        return peak * step / warmup_steps
    return peak * max(SCHEDULES[schedule](step, warmup_steps, steps), 0.0)


def paper_peak(d_model: int, warmup_steps: int) -> float:
    """The highest rate of equation (3)."""
    return 1 / math.sqrt(d_model * warmup_steps)
