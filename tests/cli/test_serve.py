"""`pellucid serve`: the server gets what is said, and what cannot work is refused before anything is loaded."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a server is asked for."""
    told: dict[str, Any] = {}

    def serve(opens: Any, limits: Any, keys: Any, address: Any, with_page: bool) -> None:
        told.update(opens=opens.args, limits=limits, keys=keys, address=address, page=with_page)

    monkeypatch.setattr("pellucid.serve.server.serve", serve)
    return told


def test_the_server_gets_what_is_said(cli: Any, served: dict[str, Any], tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("# of the office\nabc\n", encoding="utf-8")
    done = cli("serve", "a", "b", "--languages", "en-de", "--languages", "zh-Hans:en", "--port", "7", "--api-keys",
               keys, "--characters", "0", "--timeout", "3", "--decode.beam_size", "1", "--index", "idx")
    assert done.code == 0
    assert served["opens"] == ((Path("a"), Path("b")), ("en-de", "zh-Hans:en"), {"beam_size": 1}, "idx")
    assert (served["address"], served["page"]) == (("127.0.0.1", 7), False)
    assert (served["limits"].characters, served["limits"].timeout, served["limits"].texts) == (0, 3.0, 128)
    assert served["keys"].accepts("abc")
    assert not served["keys"].accepts("abcd")
    assert "can be reached" not in done.err


def test_what_others_can_reach_is_told(cli: Any, served: dict[str, Any], tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("abc\n", encoding="utf-8")
    told = "0.0.0.0 can be reached from other machines: "
    assert told + "anybody, without a key (see --api-keys), may ask" in cli("serve", "a", "--host", "0.0.0.0").err
    assert told + "whoever has a key may ask" in cli("serve", "a", "--host", "0.0.0.0", "--api-keys", keys).err


@pytest.mark.parametrize(("words", "what"), [
    ((), "at least one run"), (("a", "--train.steps", "5"), "--train.steps cannot be given here"),
    (("a", "--decode.beam", "5"), "did you mean decode.beam_size"),
    (("a", "--api-keys", "none"), "the keys cannot be read"),
    (("a", "--page", "--api-keys", "none"), "the page sends no key"), (("a", "--timeout", "-1"), "a limit of -1")])
def test_what_cannot_work_is_refused(cli: Any, served: dict[str, Any], words: tuple[str, ...], what: str) -> None:
    done = cli("serve", *words)
    assert done.code == 2
    assert what in done.err
    assert not served


def test_keys_in_another_encoding_are_told_by_line_and_byte(cli: Any, served: dict[str, Any], tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_bytes(b"abc\nschl\xfcssel\n")
    cli("serve", "a", "--api-keys", keys).says(2, "the file is not valid UTF-8", f"{keys}:2", "byte 0xfc at offset 8")
    assert not served


def test_a_server_says_what_it_needs(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.cli.serve.find_spec", lambda name: None)
    done = cli("serve", "a")
    assert done.code == 2
    assert "pip install 'pellucid[serve]'" in done.err


def test_a_signal_to_change_over_does_not_end_a_server_that_starts(cli: Any) -> None:
    before = signal.getsignal(signal.SIGHUP)
    try:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        assert cli("serve").code == 2
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
