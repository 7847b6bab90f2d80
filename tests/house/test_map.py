"""The map at the top of docs/architecture.md is what the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_map_is_drawn_from_the_code_as_it_is() -> None:
    done = subprocess.run([sys.executable, "docs/draw_map.py", "--check"], cwd=ROOT, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr


def test_every_room_and_every_way_to_decode_is_on_it() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rooms = [path.parent.name for path in (ROOT / "src" / "pellucid").glob("*/__init__.py")]
    assert all(f"[`{room}`](../src/pellucid/{room})" in page for room in rooms)
    ways = page.split("<!-- decoding -->")[1].split("<!-- end -->")[0]
    for number, way in enumerate(("kept engine", "engine", "engine by steps", "graphed steps", "plain steps"), start=1):
        assert f"{number}. {way}: " in ways
    assert "refused: positions are …" in ways
    assert "refused: outputs are drawn at random" in ways
