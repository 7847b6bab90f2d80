"""Numbers of a study as text: with the digits and the unit of their metric, and which way is better."""

from pellucid.ablate.effects import Interval
from pellucid.ablate.results import is_lower_better
from pellucid.ablate.scales import score_of, unit_of

NONE = "–"
_LONG = 1e9  # what is as large is told by its power of ten: of two seeds, a perplexity's bound has hundreds of digits


def arrow(metric: str) -> str:
    """Which way is better."""
    return "↓" if is_lower_better(metric) else "↑"


def number(metric: str, value: float) -> str:
    """A value with the digits that its metric deserves."""
    score = score_of(metric)
    digits = {"loss": 4, "perplexity": 3, "tokens_per_second": 0, "seconds": 1}.get(score, 2)
    text = f"{value:,.{digits}f}" if abs(value) < _LONG else f"{value:.1e}"
    return text.replace("-", "−")


def signed(metric: str, value: float) -> str:
    """A difference, with its sign."""
    return ("+" if value > 0 else "") + number(metric, value)


def span(metric: str, interval: Interval | None, is_difference: bool) -> str:
    """``0.41 to 0.55``."""
    if interval is None or interval.low is None or interval.high is None:
        return NONE
    told = signed if is_difference else number
    return f"{told(metric, interval.low)} to {told(metric, interval.high)}"


def probability(p: float | None) -> str:
    """``0.013``, ``< 0.001``."""
    return NONE if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def counted(value: float | None) -> str:
    """``1,234``."""
    return NONE if value is None else f"{value:,.0f}"


def with_unit(metric: str, text: str) -> str:
    """``3.10 points``."""
    return f"{text} {unit_of(metric)}".rstrip()


def better(metric: str) -> str:
    """``points, higher is better``."""
    return ", ".join(filter(None, (unit_of(metric), f"{'lower' if is_lower_better(metric) else 'higher'} is better")))


def judged(metric: str, difference: Interval) -> str:
    """A difference with its direction: ``0.80 points better (0.14 worse to 1.83 better)``."""
    whole = f"{with_unit(metric, number(metric, abs(difference.mean)))} {_side(metric, difference.mean)}".rstrip()
    if difference.low is None or difference.high is None:
        return whole
    ends = (f"{number(metric, abs(end))} {_side(metric, end)}".rstrip() for end in (difference.low, difference.high))
    return f"{whole} ({' to '.join(ends)})"


def _side(metric: str, value: float) -> str:
    if value == 0:
        return ""
    return "worse" if (value > 0) == is_lower_better(metric) else "better"
