"""What LibreTranslate's routes and those for operators take and give, as dataclasses that only describe it.

Those requests are read as LibreTranslate reads them: keys that nobody knows are no error, and a form or the query
string may say what JSON says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Text:
    """Texts to translate, as LibreTranslate is asked.

    Attributes:
        q: one, or a list.
        source: the code of its language; "auto" finds it out.
        target: the code of the language to translate into.
        format: whether tags are kept where their words go.
        alternatives: how many other translations are told.
        api_key: where one is needed.
    """

    q: str | tuple[str, ...]
    source: str
    target: str
    format: Literal["text", "html"] = "text"
    alternatives: int = 0
    api_key: str = ""


@dataclass(frozen=True)
class Detection:
    """A language that a text may be in.

    Attributes:
        confidence: from 0 to 100.
        language: its code.
    """

    confidence: float
    language: str


@dataclass(frozen=True)
class Translated:
    """One translation for one text, lists for a list.

    Attributes:
        translatedText: with line breaks and spaces as they were.
        detectedLanguage: where the source was "auto".
        alternatives: where they were asked for.
    """

    translatedText: str | tuple[str, ...]
    detectedLanguage: Detection | tuple[Detection, ...] | None = None
    alternatives: tuple[str, ...] | tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Detect:
    """A text whose language is to be found out.

    Attributes:
        q: the text.
        api_key: where one is needed.
    """

    q: str
    api_key: str = ""


@dataclass(frozen=True)
class Named:
    """A language: its code and its name in English."""

    code: str
    name: str


@dataclass(frozen=True)
class Language:
    """A language that is translated from.

    Attributes:
        targets: codes of those that it is translated into.
    """

    code: str
    name: str
    targets: tuple[str, ...]


@dataclass(frozen=True)
class Sides:
    """What a page begins with."""

    source: Named | None
    target: Named | None


@dataclass(frozen=True)
class Settings:
    """What a page needs to know before it asks.

    Attributes:
        charLimit: of one text; -1 is none.
        frontendTimeout: milliseconds that it waits behind a key.
    """

    apiKeys: bool
    charLimit: int
    filesTranslation: bool
    frontendTimeout: int
    keyRequired: bool
    language: Sides
    suggestions: bool
    supportedFilesFormat: tuple[str, ...]


@dataclass(frozen=True)
class Status:
    """How the server is."""

    status: str


@dataclass(frozen=True)
class Reload:
    """Runs are to be opened as they are in their folders now.

    Attributes:
        api_key: may be in a header too.
    """

    api_key: str = ""


@dataclass(frozen=True)
class Reloaded:
    """The names of the runs that are served now."""

    runs: tuple[str, ...]


@dataclass(frozen=True)
class Error:
    """What is told when there is no answer.

    Attributes:
        error: why, in a sentence.
    """

    error: str
