"""Small pieces of HTML: text made safe, tables, pictures as data, and attention maps whose labels are text."""

import base64
import html
import io
import math
import unicodedata
from collections.abc import Sequence

import torch
from torch import Tensor

from pellucid.inspection.chinese import told
from pellucid.inspection.style import SEQUENTIAL, Lie, letters, lie_of

_CELL, _LETTER, _LINE = 18, 7, 13  # CSS pixels: the side of a dot, a letter of the labels, from line to line
_SLANT = math.sqrt(0.5)  # of 45°


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
    lies = lie_of(columns)
    top = round(max(map(_height, columns, lies), default=0)) + 8
    slanted = [_CELL * i + _SLANT * _LETTER * letters(one) for i, (one, lie) in enumerate(zip(columns, lies), start=1)
               if lie == "slanted"]
    right = max(slanted, default=0) - _CELL * len(columns)
    width, height = left + _CELL * len(columns) + max(0, round(right)), top + _CELL * len(rows)
    lines = ""
    for i, row in enumerate(rows):
        lines += f'<text x="{left - 4}" y="{top + _CELL * i + 13}" text-anchor="end">{text(row)}</text>'
    for i, (column, lie) in enumerate(zip(columns, lies, strict=True)):
        lines += _over(column, lie, left + _CELL * i + _CELL // 2, top - 5)
    box = f'x="{left}" y="{top}" width="{_CELL * len(columns)}" height="{_CELL * len(rows)}"'
    dots = f'<image href="{data_uri(_dots(weights))}" {box} preserveAspectRatio="none"/><rect {box}/>'
    return (f'<figure class="map"><svg role="img" aria-label="{text(name)}" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}">{dots}{lines}</svg><figcaption>{text(name)}</figcaption></figure>')


def _height(column: str, lie: Lie) -> float:
    """What the label of a column takes over it, in CSS pixels."""
    length = _LETTER * letters(column)
    return {"flat": _CELL, "stacked": _LINE * len(column), "turned": length, "slanted": _SLANT * length + _LINE}[lie]


def _over(column: str, lie: Lie, x: int, y: int) -> str:
    """The label of the column whose middle is x, down to y."""
    if lie in ("turned", "slanted"):
        x, angle = (x + 4, 90) if lie == "turned" else (x + 2, 45)
        return f'<text x="{x}" y="{y}" transform="rotate(-{angle} {x} {y})">{text(column)}</text>'
    parts = [column] if lie == "flat" else column
    return "".join(f'<text x="{x}" y="{y - _LINE * i}" text-anchor="middle">{text(part)}</text>'
                   for i, part in enumerate(reversed(parts)))


def scale() -> str:
    """The colours of attention weights from 0 to 1."""
    strip = data_uri(_dots(torch.linspace(0, 1, 64)[None]))
    colours = text(told("pale yellow to dark blue"))
    return f'<span class="scale">0 <img src="{strip}" width="160" height="12" alt="{colours}"> 1</span>'


def _dots(weights: Tensor) -> bytes:
    from matplotlib import colormaps
    from matplotlib.image import imsave

    data = io.BytesIO()
    imsave(data, colormaps[SEQUENTIAL](weights.clamp(0, 1).numpy(), bytes=True), format="png")
    return data.getvalue()

