"""`pellucid play`: on this machine alone, the browser opened or not, and what is said where it cannot be."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a server is asked for, and the address that a browser is opened at; the server is ready at once."""
    told: dict[str, Any] = {"opened": threading.Event()}

    def serve(opens: Any, limits: Any, keys: Any, address: Any, with_page: bool, ready: Any) -> None:
        told.update(opens=opens.args, limits=limits, address=address, with_page=with_page)
        ready("http://127.0.0.1:1")

    def show(url: str) -> None:
        told["url"] = url
        told["opened"].set()

    monkeypatch.setattr("pellucid.serve.server.serve", serve)
    monkeypatch.setattr("webbrowser.open", show)
    return told


def test_the_page_is_served_on_this_machine_and_opened(cli: Any, served: dict[str, Any]) -> None:
    assert cli("play", "a", "b", "--port", "7").code == 0
    assert served["opens"] == ((Path("a"), Path("b")),)
    assert served["address"] == ("127.0.0.1", 7)
    assert served["with_page"]
    assert served["limits"].requests_per_minute == 0
    assert served["opened"].wait(10)
    assert served["url"] == "http://127.0.0.1:1"


def test_the_browser_is_left_alone(cli: Any, served: dict[str, Any]) -> None:
    assert cli("play", "a", "--no-browser").code == 0
    assert served["address"] == ("127.0.0.1", 5000)
    assert not served["opened"].is_set()


def test_what_cannot_be_played_with_is_said(cli: Any, tmp_path: Path) -> None:
    cli("play").says(2, "give at least one run folder")
    cli("play", tmp_path, "--port", "0", "--no-browser").says(4, "not a run folder")
