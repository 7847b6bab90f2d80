"""Small pieces of HTML: text made safe, tables, pictures as data, and attention maps whose labels are text."""

import base64
import html
import io
import unicodedata
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from pellucid.inspection.style import SEQUENTIAL, is_upright, letters

_CELL, _LETTER = 18, 7  # CSS pixels: the side of a dot, the width of a letter in the labels


def text(value: object) -> str:
    """Any text, safe between tags and in attributes; characters that HTML forbids are replaced."""
    kept = "".join("�" if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t" else c for c in str(value))
    return html.escape(kept)


def data_uri(png: bytes) -> str:
    """A picture that needs no second file."""
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def picture(png: bytes, caption: str) -> str:
    """A figure at its own size, or as wide as the window is."""
    width = int.from_bytes(png[16:20], "big")
    height = int.from_bytes(png[20:24], "big")
    return (f'<figure><img src="{data_uri(png)}" width="{width}" height="{height}" alt="{text(caption)}">'
            f"<figcaption>{text(caption)}</figcaption></figure>")


def paragraph(sentence: str) -> str:
    """A sentence, made safe."""
    return f"<p>{text(sentence)}</p>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """A table of cells that are HTML already; the columns `numbers` are aligned to the right. A cell that begins with
    "=" closes a sum and makes its row stand out."""
    kind = [' class="n"' if i in numbers else "" for i in range(len(head))]
    top = "".join(f"<th scope=\"col\"{k}>{cell}</th>" for k, cell in zip(kind, head))
    body = ""
    for row in rows:
        mark = ' class="sum"' if row[0].startswith("=") else ""
        cells = "".join(f"<td{k}>{cell.removeprefix('=')}</td>" for k, cell in zip(kind, row))
        body += f"<tr{mark}>{cells}</tr>\n"
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead>\n<tbody>\n{body}</tbody></table></div>'


def attention_map(weights: Tensor, rows: Sequence[str], columns: Sequence[str], name: str) -> str:
    """Weights [T, S] as a picture of one dot a weight, enlarged without blur, with its labels as text."""
    left = _LETTER * max(map(letters, rows), default=0) + 8
    top = max((_CELL if is_upright(column) else _LETTER * letters(column) for column in columns), default=0) + 8
    width, height = left + _CELL * len(columns), top + _CELL * len(rows)
    lines = ""
    for i, row in enumerate(rows):
        lines += f'<text x="{left - 4}" y="{top + _CELL * i + 13}" text-anchor="end">{text(row)}</text>'
    for i, column in enumerate(columns):
        x, y = left + _CELL * i + _CELL // 2, top - 4
        place = (f'x="{x}" y="{y}" text-anchor="middle"' if is_upright(column)
                 else f'x="{x + 4}" y="{y}" transform="rotate(-90 {x + 4} {y})"')
        lines += f"<text {place}>{text(column)}</text>"
    box = f'x="{left}" y="{top}" width="{_CELL * len(columns)}" height="{_CELL * len(rows)}"'
    dots = f'<image href="{data_uri(_dots(weights))}" {box} preserveAspectRatio="none"/><rect {box}/>'
    return (f'<figure class="map"><svg role="img" aria-label="{text(name)}" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}">{dots}{lines}</svg><figcaption>{text(name)}</figcaption></figure>')


@cache
def scale() -> str:
    """The colours of attention weights from 0 to 1."""
    strip = data_uri(_dots(torch.linspace(0, 1, 64)[None]))
    return f'<span class="scale">0 <img src="{strip}" width="160" height="12" alt="pale yellow to dark blue"> 1</span>'


def _dots(weights: Tensor) -> bytes:
    from matplotlib import colormaps
    from matplotlib.image import imsave

    data = io.BytesIO()
    imsave(data, colormaps[SEQUENTIAL](weights.clamp(0, 1).numpy(), bytes=True), format="png")
    return data.getvalue()

