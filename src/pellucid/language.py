"""Which language people are told things in, and how much room a text takes before their eyes."""

import os
import unicodedata
from typing import Literal

_ASKED = ("PELLUCID_LANG", "LC_ALL", "LC_MESSAGES", "LANG")  # the first that is set decides, as POSIX has it


def language() -> Literal["en", "zh"]:
    """Chinese where ``PELLUCID_LANG``, or else the locale, begins with ``zh``, and English everywhere else."""
    wanted = next(filter(None, map(os.environ.get, _ASKED)), "")
    return "zh" if wanted.lower().startswith("zh") else "en"


def columns(text: str) -> int:
    """How many columns of a terminal, or letters of a picture, the text is wide: a Chinese character takes two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def shortened(text: str, most: int) -> str:
    """The text in at most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"
