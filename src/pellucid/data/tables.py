"""Records of a TSV, of JSON Lines, of a JSON array: each reader gives (number, first text, second text).

TSV has no quoting: a tab ends a cell and nothing else does. JSON fields may be nested: ``translation.de``.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pellucid.data.json_array import DECODER, Repeated, is_array, read_array
from pellucid.data.text_lines import open_data, read_lines
from pellucid.errors import ConfigError, DataError, guess

Record = tuple[int, str, str]  # the line, record or row number from 1, and the two texts


@dataclass(frozen=True)
class Field:
    """One column: by `name` where there are names, else by `column`, counted from 1."""

    name: str | None  # None: the user gave a number
    column: int
    required: bool  # the user chose this name, so a TSV without it is refused and not read by column
    is_label: bool  # a label may be a number or a boolean in JSON and Parquet


@dataclass(frozen=True)
class Fields:
    """The two columns of a table: source and target, or text and label; one column twice where text stands alone."""

    first: Field
    second: Field
    are_questions: bool = False  # the passages and questions of SQuAD's layout, which has no columns

    @property
    def are_one(self) -> bool:
        """Whether text stands alone, in place of pairs."""
        return self.first == self.second


def read_tsv(path: str, fields: Fields) -> Iterator[Record]:
    """A header is a first line that holds every name asked for; without one, columns count from 1.

    Raises:
        DataError: what `read_lines` and `read_tsv_head` say; a line with too few columns, or with more than the first
            line has.
    """
    lines = read_lines(path)
    head = next(lines)
    a, b, most, has_header = read_tsv_head(head, fields, path)
    if not has_header:
        yield 1, *_cells(head.split("\t"), a, b, most, f"{path}:1")
    for number, line in enumerate(lines, start=2):
        cells = line.split("\t")
        if not max(a, b) < len(cells) <= most:
            _cells(cells, a, b, most, f"{path}:{number}")
        yield number, cells[a], cells[b]


def read_tsv_head(line: str, fields: Fields, path: str) -> tuple[int, int, int, bool]:
    """From the first line: the places of the two cells from 0, the number of cells, whether it is a header.

    Raises:
        DataError: a chosen name that is no column, or that of two; one of the two names, but not the other; both, but
            in other letters; one column for both.
    """
    head = line.split("\t")
    names = [field.name for field in (fields.first, fields.second) if field.name is not None]
    has_header = bool(names) and all(name in head for name in names)
    alike = {cell.strip(" \"'").lower() for cell in head}
    is_half = any(name in head for name in names) or (  # a header of other names would be taken for data
        alike.issuperset(name.lower() for name in names))
    for field in (fields.first, fields.second):
        if field.name is not None and field.name not in head and (field.required or is_half):
            raise missing_field(field.name, head, f"{path}:1", "the first line holds")
        if field.name is not None and has_header:
            refuse_repeated(field.name, head, f"{path}:1")
    a, b = (head.index(field.name) if has_header and field.name is not None else field.column - 1
            for field in (fields.first, fields.second))
    if a == b and not fields.are_one:
        raise one_column(a + 1, f"{path}:1")
    return a, b, len(head), has_header


def _cells(cells: list[str], a: int, b: int, most: int, where: str) -> tuple[str, str]:
    found = f"{len(cells)} column{'s' * (len(cells) != 1)}"
    if len(cells) <= max(a, b):
        raise DataError(f"the line has {found} where columns {a + 1} and {b + 1} are wanted", where=where,
                        why="columns are separated by one tab each")
    if len(cells) > most:
        raise DataError(f"the line has {found} where the first line has {most}", where=where,
                        why="a tab inside a text would cut it", fix="remove the extra tab")
    return cells[a], cells[b]


def read_jsonl(path: str, fields: Fields) -> Iterator[Record]:
    """One JSON object a line.

    Raises:
        DataError: what `read_lines` says; a line that is no whole object; a field that is absent or of a wrong type.
    """
    for number, line in enumerate(read_lines(path), start=1):
        where = f"{path}:{number}"
        record = _parse(line, where)
        yield number, _text(record, fields.first, where), _text(record, fields.second, where)


def read_json(path: str, fields: Fields) -> Iterator[Record]:
    """One JSON array of objects, read as a stream, or JSON Lines under the name .json.

    Raises:
        DataError: what `read_array` says; a record that is no object; a field that is absent or of a wrong type.
    """
    with open_data(path) as file:
        head = file.read(4096)
    if not is_array(head):
        yield from read_jsonl(path, fields)
        return
    for number, record in enumerate(read_array(path), start=1):
        where = f"{path}, record {number}"
        yield number, _text(record, fields.first, where), _text(record, fields.second, where)


def _parse(text: str, where: str) -> Any:
    try:
        return DECODER.decode(text)
    except json.JSONDecodeError as error:
        what = "the line is empty where a JSON object is wanted" if not text.strip() else "this is no whole JSON value"
        raise DataError(what, where=where, why=f"{error.msg} at column {error.colno}",
                        fix="write one object a line; or one array of objects, in a file called .json") from error
    except (ValueError, RecursionError) as error:  # an endless number, nesting without end
        raise DataError("this JSON value cannot be read", where=where, why=str(error)) from error


def _text(record: Any, field: Field, where: str) -> str:
    if not isinstance(record, dict):
        raise DataError(f"a JSON object is wanted, not {_KINDS.get(type(record), 'a number')}", where=where)
    name = _name(field, where)
    value = record
    for part in [name] if name in record else name.split("."):
        if not isinstance(value, dict) or part not in value:
            raise missing_field(name, list(record), where, "the fields here are")
        if isinstance(value, Repeated):
            refuse_repeated(part, value.names, where)
        value = value[part]
    return checked_text(value, name, field.is_label, where)


_KINDS = {str: "text", list: "a list", bool: "true or false", type(None): "null", dict: "an object", int: "a number",
          float: "a number"}


def checked_text(value: Any, name: str, is_label: bool, where: str) -> str:
    """The text of a value; a label may be a whole number or a boolean.

    Raises:
        DataError: a value of another type, or text that UTF-8 cannot hold.
    """
    if is_label and isinstance(value, bool | int):
        return str(value).lower()
    if not isinstance(value, str):
        wanted = "text or a whole number" if is_label else "text"
        raise DataError(f"the field {name} is {_KINDS.get(type(value), type(value).__name__)} where {wanted} is wanted",
                        where=where)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(f"the field {name} holds half a surrogate pair, which is no character", where=where) from error
    return value


def _name(field: Field, where: str) -> str:
    if field.name is None:
        raise ConfigError(f"column {field.column} was asked for, but JSON has names and no column numbers",
                          where=where, fix="give data.source_field, target_field or label_field a name")
    return field.name


def missing_field(name: str, present: Sequence[str], where: str, lead: str) -> DataError:
    """The error for a field that is absent: `lead` introduces those that are present."""
    shown = ", ".join(text[:40] for text in present[:20]) + (", …" if len(present) > 20 else "")
    return DataError(f"there is no field {name[:200]}", where=where, why=f"{lead} {shown or 'none'}",
                     fix=f"{guess(name, present)}set data.source_field, target_field or label_field, to a name or a "
                         "number from 1")


def one_column(number: int, where: str) -> DataError:
    """The error for a table of which this column is to be both sides."""
    return DataError(f"column {number} is asked for twice", where=where, why="each side has a column of its own",
                     fix="set data.source_field, and data.target_field or data.label_field, to different ones")


def refuse_repeated(name: str, present: Sequence[str], where: str) -> None:
    """Refuses a name that stands twice among those that are present.

    Raises:
        DataError: it does.
    """
    if present.count(name) > 1:
        raise DataError(f"there is more than one field {name}", where=where, fix="give each a name of its own")
