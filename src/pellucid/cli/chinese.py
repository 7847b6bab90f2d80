"""What help says in Chinese: the sentences of chinese.txt, each below the English one that it stands for."""

import functools
import re
from pathlib import Path

from pellucid.language import language

_SIGN = "= "  # begins the Chinese
_FOLD = "(?<=[\u2e80-\uffef])\n|\n(?=[\u2e80-\uffef])"  # no space beside a Chinese character or mark


def told(text: str) -> str:
    """A sentence of help as its reader is told it: in Chinese where that is asked for and there is one."""
    return sentences().get(text, text) if language() == "zh" else text


@functools.cache
def sentences() -> dict[str, str]:
    """English → Chinese, each in one line."""
    found = {}
    for block in Path(__file__).with_name("chinese.txt").read_text(encoding="utf-8").strip().split("\n\n"):
        english, chinese = block.split(f"\n{_SIGN}")
        found[english.replace("\n", " ")] = re.sub(_FOLD, "", chinese).replace("\n", " ")
    return found
