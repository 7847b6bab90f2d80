"""`pellucid VERB --help`: what the docstrings of a verb's arguments say, in the language of who reads it."""

import ast
import dataclasses
import inspect
import itertools
import re
import shutil
import textwrap
import types
import typing
from pathlib import Path
from typing import Any

import tyro

from pellucid.cli.chinese import told
from pellucid.language import columns

NAMES: dict[Any, str] = {Path: "PATH", int: "N", float: "X", str: "TEXT"}  # of values
SHOW = "show this and exit"
_MOST_COLUMNS = 80
_MOST_OF_A_NAME = 20  # columns; a longer one has a line of its own
_WIDE = "\u2e80-\uffef"  # Chinese characters and their marks: a line may end behind any …
_UNIT = rf" *[（“《]*(?:[{_WIDE}]|[^{_WIDE} ]+)[，。；：、）”》…]*"  # … but not before or behind some marks


@dataclasses.dataclass(frozen=True)
class Argument:
    """One argument of a verb.

    Attributes:
        name: of its field.
        value: the name of its value; none for what is said or not.
        shown: as it is typed, with the name of its value.
        said: what its docstring says.
        is_place: whether it is known by its place, not by a name.
        default: what it is if left out; dataclasses.MISSING where it must be given.
    """

    name: str
    value: str | None
    shown: str
    said: str
    is_place: bool
    default: Any

    @property
    def is_needed(self) -> bool:
        """Whether it must be given."""
        return self.default is dataclasses.MISSING


def help_of(kind: Any, program: str) -> str:
    """All that is said of a verb whose arguments are the fields of the dataclass `kind`."""
    arguments, width = arguments_of(kind), min(shutil.get_terminal_size().columns, _MOST_COLUMNS)
    usage = [program, *(one.shown if one.is_needed else f"[{one.shown}]"
                        for one in arguments if one.is_place or one.is_needed)]
    if not all(one.is_place or one.is_needed for one in arguments):
        usage.append(told("[options]"))
    lines = [told("usage: {}").format(" ".join(usage)), ""]
    for paragraph in paragraphs_of(kind):
        lines += [*wrapped(told(paragraph), width), ""]
    rows = [(one.shown, told(one.said) + _left_out(one.default)) for one in arguments] + [("-h, --help", told(SHOW))]
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


def arguments_of(kind: Any) -> list[Argument]:
    """The fields of the dataclass `kind`, as a verb's arguments."""
    said, hints, found = _docstrings(kind), typing.get_type_hints(kind, include_extras=True), []
    for field in dataclasses.fields(kind):
        name, marks = field.name, getattr(hints[field.name], "__metadata__", ())
        hint = typing.get_args(hints[name])[0] if marks else hints[name]
        is_place, is_list = tyro.conf.Positional in marks, typing.get_origin(hint) is tuple
        value = name.removesuffix("s" if is_list else "").upper() if is_place else _value(hint)
        words = [*([] if is_place else [f"--{name.replace('_', '-')}"]), *([] if value is None else [value]),
                 *(["…"] if is_list and tyro.conf.UseAppendAction not in marks else [])]
        found.append(Argument(name, value, " ".join(words), said[name], is_place, field.default))
    return found


def _value(hint: Any) -> str | None:
    """How a value of this type is called; None for what is said or not."""
    is_choice = typing.get_origin(hint) in (typing.Union, types.UnionType, tuple)
    kind = typing.get_args(hint)[0] if is_choice else hint  # before None, or before the dots
    return "|".join(typing.get_args(kind)) if typing.get_origin(kind) is typing.Literal else NAMES.get(kind)


def _docstrings(kind: Any) -> dict[str, str]:
    """The string below each field of a dataclass, in one line."""
    (made,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(made, ast.ClassDef)
    return {field.target.id: " ".join(below.value.value.split()) for field, below in itertools.pairwise(made.body)
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            and isinstance(below.value.value, str)}


def _left_out(default: Any) -> str:
    """What is said of a default that says something."""
    return "" if default in (dataclasses.MISSING, None, False, ()) else told("; {} if left out").format(default)


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of so many columns, words and marks kept whole."""
    lines = [""]
    for unit in re.findall(_UNIT, text):  # compiled here, and only where help is asked for: it takes 10 ms
        if lines[-1] and columns(lines[-1] + unit) > width:
            lines.append(unit.lstrip())
        else:
            lines[-1] += unit
    return lines
