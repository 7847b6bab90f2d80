"""Types for argparse, which tells what is wrong with a value before anything is measured."""

from __future__ import annotations

import argparse
from pathlib import Path


def positive(text: str) -> int:
    """A whole number from 1 on."""
    if not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)


def above_zero(text: str) -> float:
    """A number above 0, and not infinite."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return value


def new_file(text: str) -> Path:
    """A file that is to be written, in a folder that is there."""
    path = Path(text)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {path.parent}")
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{path} is a folder")
    return path


def text_file(text: str) -> Path:
    """A file of lines, of which one at least has text."""
    try:
        with open(text, encoding="utf-8") as file:
            if not any(map(str.strip, file)):
                raise argparse.ArgumentTypeError(f"there is no text in {text}")
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise argparse.ArgumentTypeError(f"{text} is no UTF-8") from error
    return Path(text)


def run_folder(text: str) -> Path:
    """A run that can be loaded."""
    from pellucid.errors import UserError
    from pellucid.runs.run import load

    try:
        load(text)
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return Path(text)
