"""Who may ask: keys in a file, a line each, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from pathlib import Path

from pellucid.errors import ConfigError, no_utf8


class Keys:
    """The keys that are accepted; none: everybody may ask. Only their digests are kept.

    Args:
        path: the file that they are from.
    """

    def __init__(self, keys: Iterable[str] = (), path: Path | None = None) -> None:
        self.path, self._digests = path, [_digest(key) for key in keys]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def accepts(self, key: str) -> bool:
        """Whether it is one of them; takes as long whichever it is."""
        given = _digest(key)
        return sum([hmac.compare_digest(given, each) for each in self._digests]) > 0

    def again(self) -> Keys:
        """Those that are in their file now. Raises as `read_keys` does."""
        return read_keys(self.path) if self.path else self


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def read_keys(path: Path) -> Keys:
    """The keys of a file: one a line; empty lines say nothing, nor what begins with "#", a line or behind a space.

    Raises:
        ConfigError: it cannot be read, or holds none.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise ConfigError("the keys cannot be read", where=str(path), why=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise no_utf8(ConfigError, error, str(path)) from error
    keys = [key for line in lines if (key := re.sub(r"(^|\s)#.*", "", line).strip())]
    if not keys:
        raise ConfigError("the file holds no keys", where=str(path), fix="write one key a line")
    return Keys(keys, path)
