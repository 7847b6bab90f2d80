"""Characters that stand in a text by mistake: text decoded twice, lost characters, control characters."""

import re
from collections.abc import Sequence

from pellucid.doctor.finding import Tally

# UTF-8 read as Windows-1252 or Latin-1: a lead byte, then as many continuation bytes as it announces. Quotes, dashes,
# dots and spaces are continuation bytes too, and follow an accented letter in good text: “LIBERTÉ…”, « été ». So they
# count after Â and Ã, or inside of a word; and three bytes count if they are a punctuation mark's, or stand twice.
_PLAIN = "[\x80-\x9f\xa1-\xaa\xac-\xba\xbc-\xbfŒœŠšŸŽžƒ]"
_MARKS = "[\xa0\xab\xbbˆ˜–—‘’‚“”„†‡•…‰‹›€™]"
_EITHER = f"(?:{_PLAIN}|{_MARKS})"
_DECODED_TWICE = re.compile(
    f"[\xc2\xc3]{_EITHER}|[\xc4-\xd9]{_PLAIN}|[\xc4-\xd9]{_MARKS}(?=[a-z])|\xe2[€\x80‚\x82„\x84]{_EITHER}"
    f"|(?:[\xe0\xe1\xe3-\xef]{_EITHER}{{2}}){{2}}|\xf0[Ÿ\x9f]{_EITHER}{{2}}")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_INVISIBLE = re.compile("[\xad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_ANY = re.compile(f"\ufffd|{_CONTROL.pattern}|{_INVISIBLE.pattern}|{_DECODED_TWICE.pattern}")
_ASCII_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")


def is_mojibake(text: str) -> bool:
    """Whether a part of the text is UTF-8 that was decoded as Windows-1252 or Latin-1: "Ã¼" for "ü"."""
    return any(_repaired(match[0]) for match in _DECODED_TWICE.finditer(text))


def _repaired(part: str) -> str:
    """What the part was, or an empty text where it is no UTF-8."""
    codes = bytearray()
    for character in part:
        try:
            codes += character.encode("cp1252")
        except UnicodeEncodeError:
            codes += character.encode("latin-1")
    try:
        return codes.decode("utf-8")
    except UnicodeDecodeError:
        return ""


def fault_of(text: str) -> str:
    """The kind of finding (see advice.py) that a text gives, the worst if several; empty if none."""
    if is_mojibake(text):
        return "mojibake"
    if "\ufffd" in text:
        return "replacement_character"
    if _CONTROL.search(text):
        return "control_character"
    return "invisible_character" if _INVISIBLE.search(text) else ""


def tally_characters(texts: Sequence[str], numbers: Sequence[int], tallies: dict[str, Tally]) -> None:
    """Adds the lines that show a fault to the tally of its kind."""
    joined = "\n".join(texts)
    if not (_ASCII_CONTROL if joined.isascii() else _ANY).search(joined):
        return
    for number, text in zip(numbers, texts, strict=True):
        if _ANY.search(text) and (kind := fault_of(text)):
            tallies[kind].add([number])
