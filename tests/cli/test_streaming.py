"""A pipe is answered as it comes: at once where input is slow, in large blocks where it is fast, in order, the same."""

from __future__ import annotations

import contextlib
import io
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pellucid.cli import lines
from pellucid.cli.lines import blocks_of_lines
from pellucid.errors import DataError

SECONDS = 60.0


@pytest.fixture
def fed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """A pipe as standard input, and something that writes to it meanwhile: texts, and seconds to wait."""
    read, write = os.pipe()
    writers = []

    def feed(*parts: bytes | float) -> None:
        def run() -> None:
            with open(write, "wb", buffering=0) as pipe, contextlib.suppress(BrokenPipeError):  # nobody reads on
                for part in parts:
                    time.sleep(part) if isinstance(part, float) else pipe.write(part)

        writers.append(threading.Thread(target=run))
        writers[0].start()

    with open(read, encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        yield feed
    for writer in writers:
        writer.join()


@pytest.mark.parametrize("verb", ["translate", "classify"])
def test_a_line_of_a_pipe_is_answered_before_the_next_is_sent(cli: Any, run: Path, classifier: Path,
                                                              verb: str) -> None:
    folder, sent = (run, ["1 2", "", "3 4 5"]) if verb == "translate" else (classifier, ["aab1", "", "dc2"])
    together = cli(verb, folder, stdin="".join(f"{line}\n" for line in sent)).out.split("\n")
    with subprocess.Popen([sys.executable, "-m", "pellucid", verb, folder], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line, wanted in zip(sent, together, strict=False):
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
            assert select.select([process.stdout], [], [], SECONDS)[0], "no answer"
            assert process.stdout.readline().decode() == f"{wanted}\n"
        process.stdin.close()
        assert process.wait(SECONDS) == 0


def test_slow_lines_are_blocks_of_their_own(fed: Callable[..., None]) -> None:
    fed(b"a\n", 0.5, b"b\nc\n", 0.5, b"d", 0.2, b"e\n", 0.5, b"f")
    assert list(blocks_of_lines(None)) == [["a"], ["b", "c"], ["de"], ["f"]]


def test_a_pipe_that_does_not_block_is_read_to_its_end(fed: Callable[..., None]) -> None:
    os.set_blocking(sys.stdin.fileno(), False)
    fed(0.2, b"a\n", 0.2, b"b", 0.2, b"c\n", 0.2, b"d")
    assert list(blocks_of_lines(None)) == [["a"], ["bc"], ["d"]]


@pytest.mark.parametrize("blocks", [True, False])
def test_fast_lines_are_blocks_as_large_as_those_of_a_file(fed: Callable[..., None], tmp_path: Path,
                                                           blocks: bool) -> None:
    text = b"".join(b"%d %d\n" % (i, i * i) for i in range(20_000))
    (tmp_path / "file").write_bytes(text)
    os.set_blocking(sys.stdin.fileno(), blocks)
    fed(*(text[i : i + 1000] for i in range(0, len(text), 1000)))
    assert list(blocks_of_lines(None)) == list(blocks_of_lines(tmp_path / "file"))


def test_lines_that_never_rest_are_answered_all_the_same(fed: Callable[..., None]) -> None:
    fed(*[b"a\n", 0.01] * 100)
    sizes = [len(block) for block in blocks_of_lines(None)]
    assert sum(sizes) == 100
    assert max(sizes) < 50


@pytest.mark.parametrize(("text", "expected"), [
    (b"", []), (b"\n", [""]), (b"a", ["a"]), (b"a\r\nb\rc\r", ["a", "b\rc\r"]), (b"\xef\xbb\xbf", []),
    (b"\xef\xbb\xbf\n\xef\xbb\xbfa", ["", "\ufeffa"]), (b"a\n\n", ["a", ""]), ("é\n".encode() * 3, ["é"] * 3)])
def test_lines_are_what_they_are_in_a_file(fed: Callable[..., None], tmp_path: Path, text: bytes,
                                           expected: list[str]) -> None:
    (tmp_path / "file").write_bytes(text)
    fed(*(text[i : i + 1] for i in range(len(text))))
    assert [line for block in blocks_of_lines(None) for line in block] == expected
    assert [line for block in blocks_of_lines(tmp_path / "file") for line in block] == expected


def test_what_is_no_text_is_placed(fed: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    fed(b"a\nb\xff\n")
    blocks = blocks_of_lines(None)
    assert next(blocks) == ["a"]  # which is answered
    with pytest.raises(DataError, match=r"standard input:2\n.*byte 2 of the line is 0xff"):
        next(blocks)
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 1000)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\n" + b"b" * 1001)))
    blocks = blocks_of_lines(None)
    assert next(blocks) == ["a"]
    with pytest.raises(DataError, match=r"longer than(.|\n)*standard input:2"):
        next(blocks)


@pytest.fixture
def piped(tmp_path: Path) -> Callable[[str, bytes], Path]:
    """A named pipe, and something that writes to it, once."""
    def pipe(name: str, content: bytes) -> Path:
        os.mkfifo(tmp_path / name)
        threading.Thread(target=(tmp_path / name).write_bytes, args=(content,), daemon=True).start()
        return tmp_path / name

    return pipe


def test_a_named_pipe_is_answered_as_standard_input(cli: Any, run: Path, classifier: Path,
                                                    piped: Callable[[str, bytes], Path]) -> None:
    for verb, folder, text in (("translate", run, b"1 2\n\n3"), ("classify", classifier, b"aab1\ndc2\n")):
        done = cli(verb, folder, "--input", piped(verb, text))
        assert (done.code, done.out) == (0, cli(verb, folder, stdin=text).out), done.err
    sides = ["--source", piped("source", b"1 2\n3\n"), "--target", piped("target", b"2\n1\n")]
    assert cli("score", run, *sides).out.count("\n") == 2


def test_what_is_no_text_is_placed_in_a_named_pipe(cli: Any, run: Path, piped: Callable[[str, bytes], Path],
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    bad = piped("bad", b"1 2\n1 \xff\n")
    cli("translate", run, "--input", bad).says(3, f"{bad}:2", "byte 3 of the line is 0xff")
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 1000)
    long = piped("long", b"1 2\n" + b"1" * 1001)
    cli("translate", run, "--input", long).says(3, f"{long}:2", "longer than")
