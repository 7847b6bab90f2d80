"""The command line, called in this process; two tiny runs that every test may look at, and copies of them to damage."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pellucid.cli import main
from pellucid.kernels import compiled

TINY = """\
task: seq2seq
data: {generated: {task: copy, train: 300, validation: 24, test: 24, symbols: 8, min_length: 2, max_length: 5}}
tokenizer: {kind: word}
model: {d_model: 16, n_heads: 2, d_ff: 32, encoder_layers: 1, decoder_layers: 1, dropout: 0.1, max_length: 24}
train: {steps: 24, batch_sentences: 16, learning_rate: 0.01, warmup_steps: 4, precision: fp32, validate_every: 8,
        log_every: 4, average_last: 2}
decode: {beam_size: 2, max_length: 12}
"""
TINY_CLASSIFIER = """\
task: classification
data: {train: LABELLED/train.tsv, validation: LABELLED/validation.tsv, test: LABELLED/test.tsv}
tokenizer: {kind: character}
model: {d_model: 16, n_heads: 2, d_ff: 32, encoder_layers: 1, max_length: 24}
train: {steps: 20, batch_sentences: 16, learning_rate: 0.01, warmup_steps: 4, precision: fp32, validate_every: 10,
        log_every: 5}
"""


@dataclass(frozen=True)
class Outcome:
    """What one command did."""

    code: int
    out: str
    err: str

    def says(self, code: int, *texts: str) -> None:
        """It ended with `code`, with one clear screen on standard error that holds every text."""
        shown = f"exit {self.code}\n--- out\n{self.out[-2000:]}\n--- err\n{self.err[-4000:]}"
        assert self.code == code, shown
        assert "Traceback" not in self.err, shown
        assert "this is a bug" not in self.err, shown
        assert 0 < len(self.err.splitlines()) <= 24, shown
        for text in texts:
            assert text in self.err, f"{text!r} is missing\n{shown}"


Cli = Callable[..., Outcome]


def call(*words: object, stdin: bytes | str = b"") -> Outcome:
    """Runs `pellucid WORDS` with this standard input, as in a process in which nobody has chosen kernels yet."""
    compiled._chosen = None
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    given = stdin.encode("utf-8") if isinstance(stdin, str) else stdin
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(given), encoding="utf-8")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main([str(word) for word in words])
            except SystemExit as stop:
                code = stop.code if isinstance(stop.code, int) else 1
    finally:
        sys.stdin = before
    texts = []
    for stream in (out, err):
        stream.flush()
        assert isinstance(stream.buffer, io.BytesIO)
        texts.append(stream.buffer.getvalue().decode("utf-8"))
    return Outcome(code, *texts)


@pytest.fixture(scope="session")
def cli(tmp_path_factory: pytest.TempPathFactory, new_cache: Callable[[Path], str]) -> Iterator[Cli]:
    before = os.environ.get("PELLUCID_CACHE")
    os.environ["PELLUCID_CACHE"] = new_cache(tmp_path_factory.mktemp("cache"))
    yield call
    if before is None:
        del os.environ["PELLUCID_CACHE"]
    else:
        os.environ["PELLUCID_CACHE"] = before


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of the tiny copy run."""
    path = tmp_path_factory.mktemp("config") / "tiny.yaml"
    path.write_text(TINY)
    return path


def labelled_line(number: int) -> str:
    """A text of two kinds, and its label."""
    first, second = ("a", "b") if number % 2 else ("d", "c")
    return f"{first}{second}\t{first * (1 + number % 7)}{second}{number % 10}\n"


@pytest.fixture(scope="session")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of labelled text: train.tsv, validation.tsv, test.tsv; columns label and text, no header."""
    folder = tmp_path_factory.mktemp("labelled")
    for name, lines in (("train", range(200)), ("validation", range(200, 230)), ("test", range(230, 260))):
        (folder / f"{name}.tsv").write_text("".join(labelled_line(i) for i in lines))
    return folder


@pytest.fixture(scope="session")
def tiny_classifier(labelled: Path) -> Path:
    """The configuration of the tiny classifier."""
    path = labelled / "classifier.yaml"
    path.write_text(TINY_CLASSIFIER.replace("LABELLED", str(labelled)))
    return path


@pytest.fixture(scope="session")
def run(cli: Cli, tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained copy run; for looking only."""
    folder = tmp_path_factory.mktemp("runs") / "copy"
    done = cli("train", tiny, "--out", folder, "--json")
    assert done.code == 0, done.err
    (folder.parent / "summary.json").write_text(done.out)
    return folder


@pytest.fixture(scope="session")
def classifier(cli: Cli, tiny_classifier: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained classifier; for looking only."""
    folder = tmp_path_factory.mktemp("runs") / "classifier"
    done = cli("train", tiny_classifier, "--out", folder)
    assert done.code == 0, done.err
    return folder


@pytest.fixture
def copy(run: Path, tmp_path: Path) -> Path:
    """The copy run, to be damaged."""
    return Path(shutil.copytree(run, tmp_path / "run"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with s.txt and t.txt, forty lines each, and pairs.tsv with both."""
    sources = [f"{i % 7} {i % 5} {i}" for i in range(40)]
    targets = [f"{i} {i % 5}" for i in range(40)]
    (tmp_path / "s.txt").write_text("".join(f"{line}\n" for line in sources))
    (tmp_path / "t.txt").write_text("".join(f"{line}\n" for line in targets))
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in zip(sources, targets, strict=True)))
    return tmp_path


@pytest.fixture
def train_on(cli: Cli, tiny: Path, tmp_path: Path) -> Callable[..., Outcome]:
    """`pellucid train` with two steps and no run folder yet, on the data that the words name."""

    def train(*words: object, steps: int = 2) -> Outcome:
        return cli("train", tiny, "--out", tmp_path / "out", "--train.steps", steps, *words)

    return train
