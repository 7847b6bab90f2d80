"""Which language people are told things in: help and the page of an inspection."""

import os
from typing import Literal

_ASKED = ("PELLUCID_LANG", "LC_ALL", "LC_MESSAGES", "LANG")  # the first that is set decides, as POSIX has it


def language() -> Literal["en", "zh"]:
    """Chinese where ``PELLUCID_LANG``, or else the locale, begins with ``zh``, and English everywhere else."""
    wanted = next(filter(None, map(os.environ.get, _ASKED)), "")
    return "zh" if wanted.lower().startswith("zh") else "en"
