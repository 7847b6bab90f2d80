"""What a verb takes: each field of its dataclass is an argument, known by its place or by its name."""

import dataclasses
import types
import typing
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

Kind = TypeVar("Kind")
Positional = Annotated[Kind, "known by its place"]
Repeated = Annotated[Kind, "given once for each value"]

NAMES: dict[Any, str] = {Path: "PATH", int: "N", float: "X", str: "TEXT"}  # of values


@dataclasses.dataclass(frozen=True)
class Argument:
    """One argument of a verb.

    Attributes:
        name: of its field.
        kind: of a value: Path, int, float or str; bool for what is said or not.
        choices: the values that there are; none where any will do.
        is_place: whether it is known by its place, not by a name.
        is_list: whether it takes any number of values.
        is_repeated: whether each of them has the name before it.
        default: what it is if left out; dataclasses.MISSING where it must be given.
    """

    name: str
    kind: type[Any]
    choices: tuple[str, ...]
    is_place: bool
    is_list: bool
    is_repeated: bool
    default: Any

    @property
    def is_needed(self) -> bool:
        """Whether it must be given."""
        return self.default is dataclasses.MISSING

    @property
    def value(self) -> str:
        """How its value is called; nothing for what is said or not."""
        if self.is_place:
            return self.name.removesuffix("s" if self.is_list else "").upper()
        return "|".join(self.choices) or NAMES.get(self.kind, "")

    @property
    def called(self) -> str:
        """Its flag; where it is known by its place, the name of its value."""
        return self.value if self.is_place else f"--{self.name.replace('_', '-')}"

    @property
    def shown(self) -> str:
        """As it is typed, with the name of its value."""
        words = (self.called, "" if self.is_place else self.value, "…" if self.is_list and not self.is_repeated else "")
        return " ".join(filter(None, words))


def arguments_of(kind: Any) -> list[Argument]:
    """The fields of the dataclass `kind`, as a verb's arguments."""
    hints, found = typing.get_type_hints(kind, include_extras=True), []
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        marks = getattr(hint, "__metadata__", ())
        hint = hint.__origin__ if marks else hint
        is_list = typing.get_origin(hint) is tuple
        if is_list or typing.get_origin(hint) in (typing.Union, types.UnionType):
            hint = typing.get_args(hint)[0]  # before None, or before the dots
        choices = typing.get_args(hint) if typing.get_origin(hint) is Literal else ()
        found.append(Argument(field.name, str if choices else hint, choices, is_list=is_list, default=field.default,
                              is_place=marks == Positional.__metadata__, is_repeated=marks == Repeated.__metadata__))
    return found
