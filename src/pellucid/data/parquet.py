"""Rows of a Parquet file."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from pellucid.data.tables import Field, Fields, Record, checked_text, missing_field, one_column, refuse_repeated
from pellucid.data.text_lines import open_data
from pellucid.errors import ConfigError, DataError


def read_parquet(path: str, fields: Fields) -> Iterator[Record]:
    """The rows of a Parquet file, streamed by row group; a field may lie inside a struct.

    Raises:
        ConfigError: pyarrow is not installed.
        DataError: what `open_data` says; a broken file; a column that is absent, is there twice, is asked for twice or
            holds no text; an empty cell.
    """
    pyarrow = _pyarrow(path)
    number = 0
    with open_data(path) as file, _seekable(path, file) as seekable:
        try:
            table = pyarrow.parquet.ParquetFile(seekable)
            steps = [_column(table.schema_arrow, field, path) for field in (fields.first, fields.second)]
            if steps[0] == steps[1] and not fields.are_one:
                raise one_column(table.schema_arrow.names.index(steps[0][0]) + 1, path)
            wanted = sorted({names[0] for names in steps})
            for batch in table.iter_batches(batch_size=4096, columns=wanted):
                values = [_values(batch, names, f"{path}, after row {number}") for names in steps]
                for a, b in zip(*values, strict=True):
                    number += 1
                    where = f"{path}, row {number}"
                    yield (number, checked_text(a, ".".join(steps[0]), fields.first.is_label, where),
                           checked_text(b, ".".join(steps[1]), fields.second.is_label, where))
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            raise DataError("the Parquet file is damaged", where=f"{path}, after row {number}",
                            why=str(error)[:300]) from error


def count_rows(path: str) -> int | None:
    """How many rows a Parquet file says that it has; None of one that is damaged, as reading it will tell.

    Raises:
        ConfigError, DataError: as `read_parquet`.
    """
    pyarrow = _pyarrow(path)
    with open_data(path) as file, _seekable(path, file) as seekable:
        try:
            return int(pyarrow.parquet.ParquetFile(seekable).metadata.num_rows)
        except (pyarrow.ArrowException, OSError):
            return None


def _pyarrow(path: str) -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ConfigError("reading Parquet needs pyarrow", where=path, fix="pip install 'pellucid[data]'") from error
    return pyarrow


@contextlib.contextmanager
def _seekable(path: str, file: BinaryIO) -> Iterator[BinaryIO]:
    """Parquet is read from its end: a packed file is unpacked into a temporary one first."""
    if not path.lower().endswith(".gz"):
        yield file
        return
    with tempfile.TemporaryFile() as unpacked:
        shutil.copyfileobj(file, unpacked)
        unpacked.seek(0)
        yield cast(BinaryIO, unpacked)


def _column(schema: Any, field: Field, path: str) -> list[str]:
    """The steps from the table to a column: its name, and the names of the structs around it."""
    import pyarrow

    if field.name is None and field.column > len(schema.names):
        raise DataError(f"there is no column {field.column}", where=path,
                        why=f"the columns are {', '.join(schema.names)}")
    name = schema.names[field.column - 1] if field.name is None else field.name
    parts = [name] if name in schema.names else name.split(".")
    inside = list(schema)
    for part in parts:
        found = {member.name: member for member in inside}
        if part not in found:
            raise missing_field(name, schema.names, path, "the columns are")
        refuse_repeated(part, [member.name for member in inside], path)
        kind = found[part].type
        inside = [kind.field(i) for i in range(kind.num_fields)] if pyarrow.types.is_struct(kind) else []
    return parts


def _values(batch: Any, names: list[str], where: str) -> list[Any]:
    """The cells of a column, of which no neighbour in its struct is looked at."""
    import pyarrow.compute

    cells = batch.column(names[0])
    if names[1:]:
        cells = pyarrow.compute.struct_field(cells, names[1:])
    try:
        return list(cells.to_pylist())
    except UnicodeDecodeError:
        raise
    except (OverflowError, ValueError) as error:  # a date that Python has not, an object with a name twice: no text
        raise DataError(f"the field {'.'.join(names)} is {cells.type} where text is wanted", where=where,
                        why=str(error)[:300]) from error
