"""What claims.yaml says: each line makes some figures of README and docs again.

A line has commands, what they need, how each figure is read from what they print, the band that it must fall into, and
the places where it stands; `quick` is a smaller version, with bands of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import yaml

from pellucid.config.reader import read_dataclass
from pellucid.errors import ConfigError

ROOT = Path(__file__).resolve().parents[1]
CLAIMS = Path(__file__).with_name("claims.yaml")
Band = tuple[float, float]


@dataclass(frozen=True)
class Needs:
    """What must be there.

    Args:
        data: files or folders below the folder that is given as DATA.
        packages: Python packages that pellucid itself does not need.
        variables: of the environment, that the commands read.
        bf16: a processor that multiplies bf16.
        instructions: a processor that has these, as Linux names them.
        lines: other lines, whose runs are used.
    """

    data: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    bf16: bool = False
    instructions: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figure:
    """How one number is read; of several values (seeds, cells) `take` makes one.

    Args:
        key: of the JSON that the command prints, or writes to `{json}`, as in ``runs.0.bleu``.
        pattern: a regular expression; its group in the last match of what is printed.
        cell: of a table that is printed, ``row > column``; ``*`` stands for anything.
        number: which number of that cell, from 1.
        clock: the seconds that the command takes.
        command: which one, from 1; 0 for the last.
        seed: of this run alone.
        scale: what is read is multiplied by it.
        band: it must be within, ends included; without one it is shown, and never wrong.
        interval: of a score by `key` its interval is read, too, as ``NAME_low`` and ``NAME_high``; it reaches so far
            beyond the band at most.
    """

    key: str = ""
    pattern: str = ""
    cell: str = ""
    number: int = 1
    clock: bool = False
    command: int = 0
    seed: int | None = None
    take: Literal["mean", "min", "max"] = "mean"
    scale: float = 1.0
    band: Band | None = None
    interval: float | None = None


@dataclass(frozen=True)
class Version:
    """A way to make a line's figures: the whole one, or the quick one.

    Args:
        commands: for bash, in turn. `{seed}` runs one for each seed, `{json}` is a file that it may write, `{root}`
            this repository; `data/…` is what is given as DATA, and runs lie in `runs/`.
        minutes: that it takes on two cores.
        bands: of figures, and of columns of tables, by name; a number without one is shown, and never wrong.
    """

    commands: tuple[str, ...] = ()
    minutes: float = 1.0
    seeds: tuple[int, ...] = (1,)
    needs: Needs = field(default_factory=Needs)
    bands: dict[str, Band] = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    """An entry of claims.yaml.

    Args:
        text: place → what stands there, each figure as ``{name}``, that of another line as ``{line.name}``; numbers
            written out are settings, or published by others. A place is ``page > heading > row > column``, where
            a row may be given by its beginning; or ``page > heading``, for a sentence.
        tables: place, with ``*`` for anything → a column, or ``row > column`` → its band. The commands print these
            cells as they stand there.
        measured: on what machine and when, if not on the usual one.
    """

    name: str
    about: str
    whole: Version
    quick: Version | None
    figures: dict[str, Figure]
    text: dict[str, str]
    tables: dict[str, dict[str, Band]]
    measured: str

    def bands(self, is_quick: bool) -> dict[str, Band]:
        """By the name of a figure or a column."""
        return (self.quick or self.whole).bands if is_quick else self.whole.bands


@dataclass(frozen=True)
class Claims:
    """The whole table.

    Args:
        settings: place, with ``*`` → why the numbers there are no measurements.
    """

    lines: dict[str, Line]
    settings: dict[str, str]


@dataclass(frozen=True)
class _Written:
    """A line as it is written."""

    about: str = ""
    commands: tuple[str, ...] = ()
    minutes: float = 1.0
    seeds: tuple[int, ...] = (1,)
    needs: Needs = field(default_factory=Needs)
    figures: dict[str, Any] = field(default_factory=dict)
    text: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, Any] = field(default_factory=dict)
    quick: dict[str, Any] | None = None
    measured: str = ""


@dataclass(frozen=True)
class _File:
    measured: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, Any] = field(default_factory=dict)


def read_claims(path: Path = CLAIMS) -> Claims:
    """The table in a file.

    Raises:
        ConfigError: a key that does not exist, a value of a wrong type, a line without commands, about or figures.
    """
    file: _File = read_dataclass(_File, yaml.safe_load(path.read_text(encoding="utf-8")))
    lines = {str(name): _line(str(name), mapping, file.measured) for name, mapping in file.lines.items()}
    for line in lines.values():
        for version in filter(None, (line.whole, line.quick)):
            if missing := set(version.needs.lines) - set(lines):
                raise ConfigError(f"it needs {missing.pop()}, which is no line", where=line.name)
    return Claims(lines, file.settings)


def _line(name: str, mapping: Any, measured: str) -> Line:
    written: _Written = read_dataclass(_Written, mapping, name)
    if not (written.commands and written.about and (written.figures or written.tables)):
        raise ConfigError("a line has about, commands, and figures or tables", where=name)
    figures = {key: figure for name_of, value in written.figures.items()
               for key, figure in _figures(name_of, value, f"{name}.figures.{name_of}")}
    tables: dict[str, dict[str, Band]] = {
        place: {column: _band(band, name) for column, band in (columns or {}).items()}
        for place, columns in written.tables.items()}
    bands = {key: figure.band for key, figure in figures.items() if figure.band}
    for columns in tables.values():
        bands |= columns
    whole = Version(written.commands, written.minutes, written.seeds, written.needs, bands)
    return Line(name, written.about, whole, _quick(name, written.quick, whole), figures, written.text, tables,
                written.measured or measured)


def _figures(name: str, value: Any, where: str) -> Iterator[tuple[str, Figure]]:
    """A figure, which may be its key alone, and the ends of its interval."""
    figure: Figure = read_dataclass(Figure, {"key": value} if isinstance(value, str) else value, where)
    yield name, figure
    if figure.interval is not None:
        run, score = figure.key.rsplit(".", 1)
        for i, end in enumerate(("low", "high")):
            reach = -figure.interval if end == "low" else figure.interval
            band = figure.band and (figure.band[0] + min(reach, 0), figure.band[1] + max(reach, 0))
            yield f"{name}_{end}", replace(figure, key=f"{run}.interval.{score}.{i}", band=band, interval=None)


def _quick(name: str, mapping: Any, whole: Version) -> Version | None:
    """What is not said is as in the whole version; bands are, if the commands are."""
    if mapping is None:
        return None
    same = {"minutes": whole.minutes, "seeds": whole.seeds, "commands": whole.commands}
    given = dict(mapping)
    bands = {key: _band(band, name) for key, band in given.pop("bands", {}).items()}
    version: Version = read_dataclass(Version, same | given, f"{name}.quick")
    is_whole = "commands" not in given and "seeds" not in given
    needs = whole.needs if "needs" not in given and "commands" not in given else version.needs
    return Version(version.commands, version.minutes, version.seeds, needs, (whole.bands if is_whole else {}) | bands)


def _band(value: Any, where: str) -> Band:
    if not (isinstance(value, list) and len(value) == 2 and all(isinstance(end, int | float) for end in value)):
        raise ConfigError(f"a band is two numbers, not {value!r}", where=where)
    return float(value[0]), float(value[1])
