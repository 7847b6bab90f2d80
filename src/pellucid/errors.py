"""What a user can get wrong, each kind with its exit code; the command line prints them without a traceback."""

import codecs
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

_MAGIC = {b"\x1f\x8b": "it looks like gzip: unpack it, or name it .gz where it is data",
          b"PAR1": "it looks like Parquet: name it .parquet where it is data",
          b"PK": "it looks like a zip archive", b"\x28\xb5\x2f\xfd": "it looks like zstandard",
          **dict.fromkeys((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
                          "it looks like UTF-16: convert it, iconv -f UTF-16 -t UTF-8 OLD > NEW")}
_TO_UTF8 = "convert it: iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW, or from what else it is in, such as GB18030"


class UserError(ValueError):
    """A mistake outside the program: one screen that says what, where, why, and what to do.

    Args:
        what: one sentence, the mistake itself.
        where: the place, as ``file``, ``file:line`` or a configuration key.
        why: the reason, when `what` does not say it.
        fix: what the user can do about it.
    """

    exit_code = 2

    def __init__(self, what: str, *, where: str = "", why: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what, self.where, self.why, self.fix = what, where, why, fix

    def __str__(self) -> str:
        labelled = [("where", self.where), ("why", self.why), ("do", self.fix)]
        return "\n".join([self.what, *(f"  {label + ':':<6} {text}" for label, text in labelled if text)])


class ConfigError(UserError):
    """A command line or configuration that cannot be used (exit 2)."""


class DataError(UserError):
    """Data that is missing, damaged or does not fit the task (exit 3)."""

    exit_code = 3


class CheckpointError(UserError):
    """A run folder or checkpoint that is missing, damaged or belongs to something else (exit 4)."""

    exit_code = 4


class NumericalError(UserError):
    """Training met a number that is not finite and stopped before it reached the weights (exit 5)."""

    exit_code = 5


class OutputError(UserError):
    """Something could not be written: disk full, no permission, output closed (exit 74)."""

    exit_code = 74


Kind = TypeVar("Kind", bound=UserError)


@contextmanager
def right_to_read() -> Iterator[None]:
    """Tells which file of a run, or of its like, this user may not read; a decorator, too.

    Raises:
        CheckpointError: there is one.
    """
    try:
        yield
    except PermissionError as error:
        raise no_right(error) from error


def no_right(error: PermissionError) -> CheckpointError:
    """What is told of a file of a run, or of its like, that this user may not read."""
    return CheckpointError("no permission to read the file", where=str(error.filename),
                           fix="give this user the right; chmod -R a+rX FOLDER gives it to all")


def no_utf8(kind: type[Kind], error: UnicodeDecodeError, where: str) -> Kind:
    """What is told of a whole file in another encoding."""
    line = error.object.count(b"\n", 0, error.start) + 1
    return kind("the file is not valid UTF-8", where=f"{where}:{line}", fix=to_utf8(error.object),
                why=f"byte 0x{error.object[error.start]:02x} at offset {error.start:,} of the file")


def to_utf8(start: bytes) -> str:
    """What makes UTF-8 of a file that begins so."""
    return next((text for magic, text in _MAGIC.items() if start.startswith(magic)), _TO_UTF8)


class PellucidWarning(UserWarning):
    """Something was done otherwise than asked for; the message says what and why. The command line prints it."""


def guess(name: str, known: Iterable[str]) -> str:
    """``did you mean NAME? ``, of the one that is nearly what was given; nothing where none is."""
    from difflib import get_close_matches  # which a command that is right need not wait for

    near = get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]}? " if near else ""


def in_words(error: Exception) -> dict[str, str]:
    """An error that another process is to raise, with `error_in`."""
    if isinstance(error, UserError):
        return {"kind": type(error).__name__, "what": error.what, "where": error.where, "why": error.why,
                "fix": error.fix}
    return {"kind": "", "why": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}


def error_in(words: dict[str, str], who: str) -> UserError:
    """The error that `in_words` has put into words; `who` met it."""
    if words["kind"]:
        kind: type[UserError] = globals().get(words["kind"], UserError)
        return kind(words["what"], where=words["where"], why=words["why"], fix=words["fix"])
    error = UserError(f"{who} failed", why=words["why"])
    error.add_note(words["trace"])
    return error


def check_format(found: object, known: int, where: str) -> None:
    """Refuses what is written in a later format than this version knows.

    Args:
        found: the number in the file; what is no number is left to its reader.
        known: the last that this version reads.

    Raises:
        CheckpointError: it is later.
    """
    if isinstance(found, int) and found > known:
        raise CheckpointError("this was made by a newer version of pellucid", where=where,
                              why=f"its format is {found}, and this version reads formats up to {known}",
                              fix="use the version that made it, or a later one")
