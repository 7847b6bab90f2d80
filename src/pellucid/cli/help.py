"""`pellucid VERB --help`: what the docstrings of a verb's arguments say, in the language of who reads it."""

import ast
import dataclasses
import inspect
import itertools
import re
import shutil
import textwrap
from typing import Any

from pellucid.cli.chinese import told
from pellucid.cli.fields import arguments_of
from pellucid.language import columns

SHOW = "show this and exit"
_MOST_COLUMNS = 80
_MOST_OF_A_NAME = 20  # columns; a longer one has a line of its own
_WIDE = "\u2e80-\uffef"  # Chinese characters and their marks: a line may end behind any …
_UNIT = rf" *[（“《]*(?:[{_WIDE}]|[^{_WIDE} ]+)[，。；：、）”》…]*"  # … but not before or behind some marks


def help_of(kind: Any, program: str) -> str:
    """All that is said of a verb whose arguments are the fields of the dataclass `kind`."""
    arguments, said = arguments_of(kind), said_of(kind)
    width = min(shutil.get_terminal_size().columns, _MOST_COLUMNS)
    usage = [program, *(one.shown if one.is_needed else f"[{one.shown}]"
                        for one in arguments if one.is_place or one.is_needed)]
    if not all(one.is_place or one.is_needed for one in arguments):
        usage.append(told("[options]"))
    lines = [told("usage: {}").format(" ".join(usage)), ""]
    for paragraph in paragraphs_of(kind):
        lines += [*wrapped(told(paragraph), width), ""]
    rows = [(one.shown, told(said[one.name]) + _left_out(one.default)) for one in arguments]
    rows.append(("-h, --help", told(SHOW)))
    edge = max(len(shown) for shown, _ in rows if len(shown) <= _MOST_OF_A_NAME) + 4
    for shown, text in rows:
        head = f"  {shown}"
        if len(head) + 2 > edge:
            lines.append(head)
            head = ""
        for line in wrapped(text, width - edge):
            lines.append(head.ljust(edge) + line)
            head = ""
    return "\n".join(lines) + "\n"


def paragraphs_of(kind: Any) -> list[str]:
    """What is said of the verb as a whole, each paragraph one line."""
    return [" ".join(paragraph.split()) for paragraph in (inspect.getdoc(kind) or "").split("\n\n")]


def said_of(kind: Any) -> dict[str, str]:
    """What is said of each argument: the string below a field of the dataclass, in one line."""
    (made,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(made, ast.ClassDef)
    return {field.target.id: " ".join(below.value.value.split()) for field, below in itertools.pairwise(made.body)
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            and isinstance(below.value.value, str)}


def _left_out(default: Any) -> str:
    """What is said of a default that says something."""
    is_silent = default is False or default in (dataclasses.MISSING, None, (), "-")  # 0 says something
    return "" if is_silent else told("; {} if left out").format(default)


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of so many columns, words and marks kept whole."""
    lines = [""]
    for unit in re.findall(_UNIT, text):  # compiled here, and only where help is asked for: it takes 10 ms
        if lines[-1] and columns(lines[-1] + unit) > width:
            lines.append(unit.lstrip())
        else:
            lines[-1] += unit
    return lines
