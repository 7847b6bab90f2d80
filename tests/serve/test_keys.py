"""Keys in a file: a line each, and nothing of them is kept but what they hash to."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from pellucid.errors import ConfigError
from pellucid.serve.keys import Keys, read_keys
from pellucid.serve.service import _sent


def test_a_line_is_a_key(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes("\ufeff# ours\none  # of Anna\n\n\ttwo\t\r\nthréé\n#four\nfi#ve\n".encode())
    keys = read_keys(path)
    assert [keys.accepts(key) for key in ("one", "two", "thréé", "fi#ve")] == [True] * 4
    assert not any(keys.accepts(key) for key in ("", "four", "fi", "#four", "One", "one ", "\ufeffone", "\ud800"))
    assert b"one" not in pickle.dumps(keys)


def test_no_keys_are_not_keys() -> None:
    assert not Keys()
    assert not Keys().accepts("")
    assert Keys(["a"])
    assert Keys().again() is not None


def test_they_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("one\n")
    keys = read_keys(path)
    path.write_text("two\n")
    assert keys.accepts("one")
    again = keys.again()
    assert (again.accepts("one"), again.accepts("two")) == (False, True)
    path.write_text("\n")
    with pytest.raises(ConfigError, match="holds no keys"):
        again.again()


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"", b"# nobody\n"])
def test_a_file_that_holds_none_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "keys"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as error:
        read_keys(path)
    assert error.value.where.startswith(str(path))


def test_a_header_is_what_was_sent() -> None:
    assert _sent("clé".encode().decode("latin-1")) == "clé"
    assert _sent("key") == "key"
    assert _sent("\xe9") == "\xe9"  # which is no UTF-8
