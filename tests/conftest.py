"""What all tests share."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from tests.hanging import noticed

if TYPE_CHECKING:
    import torch

MEMORY = Path("/dev/shm")
if "TMPDIR" not in os.environ and MEMORY.is_dir() and os.access(MEMORY, os.W_OK):
    room = os.statvfs(MEMORY)
    if room.f_bavail * room.f_frsize > 2**31 and not room.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)  # the smallest run flushes ninety files to the disk

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # hundreds of processes are started that import the same modules
sys.dont_write_bytecode = False

if "PELLUCID_WAY" not in os.environ:  # which has a profile of its own, see kernels/ways.py
    settings.register_profile("untimed", deadline=None)  # other work on the machine makes nothing false
    settings.load_profile("untimed")


def pytest_configure() -> None:
    """Tensors lie where PELLUCID_DEVICE says, cuda for one: what holds of the equations holds there. Where it says
    nothing, none is set: with a default device, be it the CPU, all that torch does goes through Python first."""
    if device := os.environ.get("PELLUCID_DEVICE"):
        import torch

        torch.set_default_device(device)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Kernels compute in fp32 and bf16: in fp64 the plain equations run either way, and one of them is enough."""
    import torch

    compiled_fp64 = {"either_way": "compiled", "dtype": torch.float64}.items()
    items[:] = [item for item in items
                if not hasattr(item, "callspec") or not compiled_fp64 <= item.callspec.params.items()]


def pytest_collection_finish() -> None:
    """What is collected, half a million objects, lives as long as the tests: no search for garbage walks through it."""
    gc.freeze()
    gc.set_threshold(5_000)  # in place of 700: what tests leave behind is looked through a seventh as often


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """These matrices are tiny: threads would only wait for each other. Whichever the test before has left in use."""
    import torch

    if torch.get_num_threads() != 1:
        torch.set_num_threads(1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """A test that hangs fails and is named."""
    with noticed():
        return (yield)


@pytest.fixture
def closed() -> Callable[[Path], contextlib.AbstractContextManager[None]]:
    """Nobody may read what is in a folder while `closed(folder)` lasts, root neither."""
    @contextlib.contextmanager
    def without_rights(folder: Path) -> Iterator[None]:
        mode, is_root = folder.stat().st_mode, os.geteuid() == 0
        folder.chmod(0)
        if is_root:
            os.seteuid(65534)
        try:
            yield
        finally:
            if is_root:
                os.seteuid(0)
            folder.chmod(mode)

    return without_rights


@pytest.fixture(autouse=True, scope="session")
def in_english() -> Iterator[None]:
    """What is told is told in English, wherever the tests run; a test of Chinese asks for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PELLUCID_LANG", "en")
        yield


@pytest.fixture(autouse=True, scope="module")
def plain_kernels() -> None:
    """The tests of a file begin with torch's own operations, as a process does in which nobody has chosen kernels yet,
    whichever those before it have left in use."""
    import torch

    from pellucid.kernels import compiled

    compiled.use_kernels(torch.device("cpu"), False)
    compiled._chosen = None


@pytest.fixture(autouse=True, scope="session")
def one_loss_curve() -> Iterator[None]:
    """Of all runs that tests train in a process the first one's loss curve is drawn, and the others show that: drawing
    takes as long as most of these trainings. tests/train/test_journal.py draws its own."""
    from pellucid.files import write_bytes
    from pellucid.train import loop
    from pellucid.train.journal import draw_loss_curve

    picture = b""

    def draw(events: list[dict[str, Any]], path: Path) -> None:
        nonlocal picture
        if not picture:
            draw_loss_curve(events, path)
            picture = path.read_bytes()
        write_bytes(path, picture)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "draw_loss_curve", draw)
        yield


CACHE = os.environ.get("PELLUCID_CACHE")  # before any test has one of its own


@pytest.fixture(scope="session")
def new_cache() -> Callable[[Path], str]:
    """A function: makes a folder a cache that has nothing but the kernels, which take longer to compile than most tests
    take; what PELLUCID_CACHE is to be."""
    from pellucid.kernels.compiled import find_library

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PELLUCID_CACHE", CACHE) if CACHE else patch.delenv("PELLUCID_CACHE", raising=False)
        library = find_library()

    def make(folder: Path) -> str:
        if not isinstance(library, str) and not (folder / "kernels").exists():
            (folder / "kernels").mkdir(parents=True, mode=0o700)
            for file in (library.path, library.path.with_suffix(".sha256")):
                shutil.copy(file, folder / "kernels")
        return str(folder)

    return make


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Each test draws the same numbers, whichever tests run before it."""
    from tests.seeds import reseed

    reseed(0)


@pytest.fixture
def no_own_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers is forgotten after it."""
    from pellucid import own
    from pellucid.model.build import PARTS

    monkeypatch.setattr(own, "_known", {})
    monkeypatch.setattr(own, "_files", {})
    before = {part: dict(known) for part, known in PARTS.items()}
    yield
    for part, known in before.items():
        PARTS[part].clear()
        PARTS[part].update(known)


def load_kernels() -> None:
    """Loads the compiled kernels. Skips the test only where nothing could compile them: there is nothing to test then,
    and kernels that could be compiled but are not fail here. Where PELLUCID_REQUIRE_KERNELS is set, nothing skips."""
    import torch

    from pellucid.kernels.compiled import use_kernels

    state = use_kernels(torch.device("cpu"))
    if state.startswith(("plain: no C++ compiler", "plain: the processor is older")):
        assert not os.environ.get("PELLUCID_REQUIRE_KERNELS"), f"{state}, and PELLUCID_REQUIRE_KERNELS is set"
        pytest.skip(state)
    assert state == "compiled"


@pytest.fixture(scope="module", params=["plain", "compiled"])
def either_way(request: pytest.FixtureRequest) -> Iterator[str]:
    """The plain equations, then the compiled kernels: what holds for the one holds for the other."""
    import torch

    from pellucid.kernels.compiled import use_kernels

    if request.param == "compiled":
        load_kernels()
    else:
        use_kernels(torch.device("cpu"), False)
    yield request.param
    use_kernels(torch.device("cpu"), False)


@pytest.fixture
def compiled_kernels() -> Iterator[None]:
    """The compiled kernels are loaded for a test."""
    import torch

    from pellucid.kernels.compiled import use_kernels

    load_kernels()
    yield
    use_kernels(torch.device("cpu"), False)


@pytest.fixture(params=["float64", "float16", "bfloat16"])
def default_type(request: pytest.FixtureRequest) -> Iterator[torch.dtype]:
    """What torch makes without being told a type is not fp32."""
    import torch

    torch.set_default_dtype(getattr(torch, request.param))
    yield torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)


VOID = {"meta", "link", "img", "br", "hr", "input"}
SELF_CLOSED = {"image", "rect"}


class Checker(HTMLParser):
    """Tags that close, ids that are unique, links that lead somewhere, and every address that is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            assert value is not None or name == "open"
            if name == "id":
                self.ids.append(str(value))
            if name in ("src", "href", "srcset", "action", "data", "poster", "background"):
                (self.links if tag == "a" else self.addresses).append(str(value))
            assert not name.startswith("on")
        assert tag not in ("script", "iframe", "object", "embed", "base", "form")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag in SELF_CLOSED | VOID
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check(html: str) -> set[str]:
    """Asserts that a page is valid and asks for nothing but its own data; gives the ids on it."""
    checker = Checker()
    checker.feed(html)
    checker.close()
    assert html.startswith("<!DOCTYPE html>")
    assert not checker.open
    assert len(checker.ids) == len(set(checker.ids))
    assert all(link.removeprefix("#") in checker.ids for link in checker.links)
    assert all(address.startswith("data:") for address in checker.addresses)
    css = "".join(re.findall(r"<style>(.*?)</style>", html, re.DOTALL))
    assert "url(" not in css
    assert "@import" not in css
    return set(checker.ids)


@pytest.fixture(scope="session")
def check_page() -> Callable[[str], set[str]]:
    """`check`: an assertion about a page."""
    return check
