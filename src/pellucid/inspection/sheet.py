"""Many maps in one picture: images in one pair of axes whose unit is the inch, and each label a text there; axes of
their own with their ticks would take three times as long."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pellucid.inspection.style import stand

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

BAR = 0.16  # inches: the width of a colour bar


class Colours(NamedTuple):
    """A colour map of matplotlib, and the values at its ends."""

    name: str
    low: float
    high: float


def new_sheet(right: float, top: float) -> Axes:
    """Axes of so many inches, that hold the maps; labels and the scale may lie outside. To be called while `drawing`
    lasts, and saved by `as_sheet_png`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(right, top))
    FigureCanvasAgg(figure)
    sheet = figure.add_axes((0, 0, 1, 1), xlim=(0, right), ylim=(0, top), autoscale_on=False)
    sheet.set_axis_off()
    return sheet


def lay(sheet: Axes, values: NDArray[np.float32], place: tuple[float, float, float, float], colours: Colours) -> None:
    """Lays a matrix as an image from left to right and from below to the top, with lines on its left and below it."""
    left, right, below, top = place
    sheet.imshow(values, cmap=colours.name, vmin=colours.low, vmax=colours.high, extent=place, aspect="auto",
                 interpolation="nearest", clip_on=False)
    sheet.plot((left, left, right), (top, below, below), color="black", linewidth=0.8, solid_joinstyle="miter",
               clip_on=False)


def lay_scale(sheet: Axes, x: float, middle: float, tall: float, colours: Colours, what: str) -> None:
    """What the colours mean: a bar whose left side is at x, so tall around its middle."""
    from matplotlib.ticker import MaxNLocator, ScalarFormatter

    _, low, high = colours
    below = middle - tall / 2
    lay(sheet, np.linspace(high, low, 256, dtype=np.float32)[:, None], (x, x + BAR, below, below + tall), colours)
    locator, written = MaxNLocator(5 if tall > 1.2 else 2, steps=(1, 2, 5, 10)), ScalarFormatter(useOffset=False)
    written.set_scientific(False)
    written.create_dummy_axis()
    ticks = [float(tick) for tick in locator.tick_values(low, high) if low <= tick <= high]
    labels = [sheet.text(x + BAR + 0.06, below + tall * (tick - low) / (high - low), label, va="center_baseline")
              for tick, label in zip(ticks, written.format_ticks(ticks), strict=True)]
    beside = max(reach(label)[2] for label in labels) + 0.08
    stand(sheet.text(beside, middle, what, rotation=90, va="center"), "left")


def reach(label: Text) -> tuple[float, float, float, float]:
    """Where a label begins and ends, in inches of its figure: left, below, right, above."""
    figure, extent = label.get_figure(root=True), label.get_window_extent()
    assert figure is not None
    left, below, right, above = (float(end) / figure.dpi for end in extent.extents)
    return left, below, right, above
