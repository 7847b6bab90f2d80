"""How pictures look: colours that the colour-blind can tell apart, fonts that know Chinese where one is installed."""

from __future__ import annotations

import contextlib
import io
import logging
import math
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from pellucid.inspection.chinese import named, told
from pellucid.language import columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ft2font import FT2Font
    from matplotlib.text import Text
    from matplotlib.ticker import LogLocator

# Okabe and Ito 2008, yellow left out: it is hard to see on white.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
LINES = ("-", "--", ":", "-.")  # a second turn through the colours has another dash
SEQUENTIAL, DIVERGING = "YlGnBu", "PuOr_r"  # ColorBrewer's; both are told apart without red or green
DOTS_PER_INCH = 110
Lie = Literal["flat", "stacked", "turned", "slanted"]  # of a label

_CJK = re.compile(r"noto ?sans ?(mono ?)?cjk|source ?han|wenquanyi|droid ?sans ?fallback|simhei|simsun|yahei|pingfang|"
                  r"heiti|songti|uming|ukai|arial ?unicode|ipa(ex)?gothic|takao|unifont", re.IGNORECASE)
_CJK_FILES = re.compile(r"cjk|sourcehan|wqy|droidsansfallback|simhei|simsun|msyh|pingfang|heiti|songti|uming|ukai|"
                        r"ipaex|ipag|takao|unifont", re.IGNORECASE)


def line_of(i: int) -> tuple[str, str | tuple[int, tuple[int, ...]]]:
    """The colour and the dash of the i-th line of a picture; no two are alike: after LINES each turn has a dot more
    between its dashes."""
    turn, place = divmod(i, len(COLOURS))
    return COLOURS[place], LINES[turn] if turn < len(LINES) else (0, (6, 1) + (1, 1) * (turn - 2))


def ink(colour: Sequence[float]) -> str:
    """Black or white, whichever stands out more from this colour (red, green, blue from 0 to 1): by the relative
    luminance of WCAG 2."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour[:3])
    return "black" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 else "white"


def letters(label: str) -> int:
    """How wide a label is, in letters; a Chinese character and the ▁ of SentencePiece are as wide as two."""
    return columns(label) + label.count("▁")


def lie_of(labels: Sequence[str]) -> list[Lie]:
    """How each label of the columns of a picture is written: as it is where all are two letters or one Chinese
    character; slanted, all of them, so that none lies on another; where at least half are Chinese, these from top to
    bottom and longer ones of other letters turned, as in Chinese print."""
    if all(letters(label) <= 2 for label in labels):
        return ["flat"] * len(labels)
    if 2 * sum(map(_is_chinese, labels)) < len(labels):
        return ["slanted"] * len(labels)
    return ["flat" if letters(label) <= 2 else "stacked" if _is_chinese(label) else "turned" for label in labels]


def _is_chinese(label: str) -> bool:
    return 2 * sum(columns(character) == 2 for character in label) > len(label)


def log_scale(values: Sequence[float], most: int = 9) -> tuple[float, float, LogLocator]:
    """Lowest and highest end of a logarithmic scale for positive values, and its ticks: wide enough for two of 1, 2, 5,
    10, …, so that it can be read however little the values differ; and about `most` of them, unless the powers of 10
    are more."""
    from matplotlib.ticker import LogLocator

    low, high = min(values), max(values)
    margin = math.sqrt(max(1.4, 6.3 * low / high))
    decades = math.log10(high / low)
    subs = next((one for one in ((1.0, 2.0, 5.0), (1.0, 3.0)) if decades * len(one) <= most), (1.0,))
    return low / margin, high * margin, LogLocator(subs=subs)


def logarithmic(axes: Axes, way: Literal["x", "y"], values: Sequence[float]) -> None:
    """Gives axes a logarithmic scale, across ("x") or upwards, for those of the values that are above 0."""
    positive = [value for value in values if value > 0]
    if positive:
        low, high, ticks = log_scale(positive, 5 if way == "x" else 9)  # numbers beside one another take more room
        axes.set(**{f"{way}scale": "log", f"{way}lim": (low, high)})
        axis = axes.xaxis if way == "x" else axes.yaxis
        axis.set_major_locator(ticks)
        axis.set_major_formatter("{x:g}")
        axes.minorticks_off()


@cache
def families() -> tuple[str, ...]:
    """The fonts of pictures, first choice first: DejaVu Sans, which comes with matplotlib, then those with Chinese."""
    from matplotlib.font_manager import findSystemFonts, fontManager

    def known() -> list[str]:
        return sorted({font.name for font in fontManager.ttflist if _CJK.search(font.name)})

    if not known():  # installed since matplotlib made its list
        for path in findSystemFonts():
            if _CJK_FILES.search(path):
                with contextlib.suppress(Exception):  # a font that cannot be read is as good as none
                    fontManager.addfont(path)
    return ("DejaVu Sans", *known())


def missing_glyphs(texts: Iterable[str]) -> str:
    """The characters of the texts that no font here can draw, each once, in order."""
    wanted = sorted({c for text in texts for c in text if not c.isspace()})
    for family in families():
        if wanted:
            wanted = [c for c in wanted if not _font(family).get_char_index(ord(c))]
    return "".join(wanted)


@cache
def _font(family: str) -> FT2Font:
    from matplotlib.font_manager import FontProperties, fontManager
    from matplotlib.ft2font import FT2Font

    return FT2Font(fontManager.findfont(FontProperties(family=[family])))


def drawn(sentence: str) -> str:
    """What `told` makes of it, for a picture: English where no font here can draw the Chinese."""
    return sentence if missing_glyphs([told(sentence)]) else told(sentence)


def drawn_name(name: str) -> str:
    """What `named` makes of it, for a picture, likewise."""
    return name if missing_glyphs([named(name)]) else named(name)


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """While this lasts, matplotlib draws in this house's style, and a glyph that no font has is a box, not a
    warning."""
    from matplotlib import rc_context

    style: Any = {"font.family": list(families()), "font.size": 10, "axes.titlesize": 11, "axes.labelsize": 10,
             "axes.spines.top": False, "axes.spines.right": False, "axes.grid": False, "grid.alpha": 0.3,
             "legend.frameon": False, "lines.linewidth": 1.6, "figure.titlesize": 12,
             "figure.constrained_layout.w_pad": 0.1, "figure.constrained_layout.h_pad": 0.07}  # inches
    log = logging.getLogger("matplotlib.font_manager")  # complains of a Chinese font without bold letters
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with rc_context(style), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            yield
    finally:
        log.setLevel(level)


def stand(label: Text, side: Literal["left", "right"]) -> None:
    """A label on this side of an axis, if there is Chinese in it, is written from top to bottom, what is not Chinese in
    a line of its own; others stay turned."""
    lines = re.findall(r"[\u2e80-\u9fff]|[^\s\u2e80-\u9fff\uff00-\uffef]+", label.get_text())
    if any(columns(line) == 2 * len(line) for line in lines):
        label.set(text="\n".join(lines), rotation=0, va="center", ha=side, multialignment="center", linespacing=1.1)


def as_png(figure: Figure) -> bytes:
    """The figure as a PNG file's content."""
    for axes in figure.axes:
        stand(axes.yaxis.label, "right" if str(axes.yaxis.get_label_position()) == "left" else "left")
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=DOTS_PER_INCH, bbox_inches="tight", pad_inches=0.1)
    return data.getvalue()


def as_sheet_png(sheet: Axes) -> bytes:
    """Likewise of axes whose texts and images are all that their figure has: cut to these without a first drawing,
    which `as_png` needs to learn where they lie."""
    from matplotlib.transforms import Bbox

    figure = sheet.get_figure(root=True)
    assert figure is not None
    extent = Bbox.union([one.get_window_extent() for one in (*sheet.texts, *sheet.images)])
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=DOTS_PER_INCH,
                   bbox_inches=extent.transformed(figure.dpi_scale_trans.inverted()).padded(0.1))
    return data.getvalue()
