"""The promises on looking inside, on few cases; tests/promises/17 to 19 keep them on many."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

PROMISES = Path(__file__).parents[1] / "promises"


@pytest.mark.parametrize(("name", "count"), [("17_slider", 24), ("18_lattice", 12), ("19_prefix", 12)])
@pytest.mark.usefixtures("compiled_kernels")
def test_a_promise_is_kept(name: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PROMISES))
    spec = importlib.util.spec_from_file_location(f"promise_{name}", PROMISES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    assert module.check(count)[0] == count
