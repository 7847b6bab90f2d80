"""Pairs of texts from wherever they lie: text files side by side, tables, the Hub.

`read_records` streams (source, target) for seq2seq, (text, label) for classification, and for reading (passage,
question), the latter as data/reading.py writes one. Nothing is skipped: a pair with an empty side is a pair, so that
the n-th pair is the n-th line of the file.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from pellucid.config import DataConfig, Split, Task
from pellucid.data import hub
from pellucid.data.parquet import read_parquet
from pellucid.data.shards import Shard, numbered, shards_of, suffix
from pellucid.data.squad import read_squad
from pellucid.data.tables import Field, Fields, Record, read_json, read_jsonl, read_tsv
from pellucid.data.text_lines import TO_FILL, open_raw, read_lines, read_parallel
from pellucid.errors import ConfigError, DataError

READERS: dict[str, Callable[[str, Fields], Iterator[Record]]] = {
    ".tsv": read_tsv, ".tab": read_tsv, ".txt": read_tsv, ".jsonl": read_jsonl, ".ndjson": read_jsonl,
    ".json": read_json, ".parquet": read_parquet}
_TSV_OF_CSV = ("""python3 -c "import csv, sys; [print(*(' '.join(cell.split()) for cell in row), sep='\\t') """
               """for row in csv.reader(sys.stdin)]" < OLD.csv > NEW.tsv""")
QUESTIONS = Fields(Field("context", 1, True, False), Field("qas", 2, True, False), are_questions=True)


def fields_for(task: Task, data: DataConfig) -> Fields:
    """The columns that `data` asks for; those it leaves open are source 1 and target 2, or label 1 and text 2.
    Span corruption reads the source alone.

    Raises:
        ConfigError: a column number below 1, or one column asked for twice.
    """
    if task == "reading":
        return QUESTIONS
    if task == "classification":
        fields = Fields(_field("source_field", data.source_field, "text", 2, is_label=False),
                        _field("label_field", data.label_field, "label", 1, is_label=True))
    else:
        fields = Fields(_field("source_field", data.source_field, "source", 1, is_label=False),
                        _field("target_field", data.target_field, "target", 2, is_label=False))
    first, second = fields.first, fields.second
    if data.objective == "span_corruption":
        return Fields(first, first)
    if first.name == second.name and (first.name is not None or first.column == second.column):
        raise ConfigError(f"one column, {first.name or first.column}, is asked for twice", where="data.source_field")
    return fields


def _field(key: str, given: str | int | None, usual: str, column: int, *, is_label: bool) -> Field:
    if isinstance(given, int):
        if given < 1:
            raise ConfigError(f"data.{key} is {given}, but columns count from 1", where=f"data.{key}")
        return Field(None, given, required=False, is_label=is_label)
    name = usual if given is None else given
    return Field(name, column, required=name != usual, is_label=is_label)


def read_records(split: Split, fields: Fields) -> Iterator[Record]:
    """The pairs of a split, streamed, each with its number, which `shards.place` turns into a place.

    Raises:
        DataError: files that are missing, damaged or do not hold what is asked for, by file and line.
        ConfigError: a package that the format needs is not installed.
    """
    for i, shard in enumerate(shards_of(split)):
        if i == 0:
            yield from read_shard(shard, fields)
        else:
            yield from ((numbered(i, line), first, second) for line, first, second in read_shard(shard, fields))


def read_shard(shard: Shard, fields: Fields) -> Iterator[Record]:
    """The pairs of a shard, streamed, each with its line, row or place in the file. Text that stands alone is both
    sides of its pair: each line of a .txt file, or of the source of two files. Raises what `read_records` raises.
    """
    path = shard.files[0]
    if fields.are_questions:
        yield from read_squad(path)
        return
    if fields.are_one and (not shard.is_table or suffix(path) == ".txt"):
        yield from ((number, line, line) for number, line in enumerate(read_lines(path), start=1))
        return
    if not shard.is_table:
        yield from read_parallel(*shard.files)
        return
    record = None
    for record in _reader(path)(path, fields):
        yield record
    if record is None:
        raise DataError("the file holds no records", where=path, fix=TO_FILL)


def _reader(path: str) -> Callable[[str, Fields], Iterator[Record]]:
    with open_raw(path):
        pass  # a missing file is told as such, whatever its name ends in
    ending = suffix(path)
    if ending not in READERS:
        advice = {".arrow": f"of a data set that was saved to disk, say {hub.PREFIX}{Path(path).parent}; else ",
                  ".csv": f"make a .tsv of it, {_TSV_OF_CSV}; else "}.get(ending, "")
        raise DataError(f"the format {ending or 'of a name without an ending'} is not known", where=path,
                        fix=f"{advice}use {', '.join(READERS)} (each also .gz), or two text files: {{source, target}}")
    return READERS[ending]
