"""A server for promises: of a run with random weights, made on the spot, on a free port of the loopback address."""

from __future__ import annotations

import contextlib
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from pellucid.config.mapping import from_mapping
from pellucid.data.tokenizers.build import train_tokenizers
from pellucid.interop.run_folder import write_run
from pellucid.runs.checkpoint import weights_of
from pellucid.runs.run import build_model

WORDS = ("the cat sleeps dog sees a small house and reads old books she does not come where is it now that we know "
         "little of what he said before").split()
SLOW = {"d_model": 512, "n_heads": 8, "d_ff": 2048, "encoder_layers": 6, "decoder_layers": 6}  # as the base model
TINY = {"d_model": 16, "n_heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1}


@dataclass
class Server:
    """One that listens.

    Attributes:
        log: what it has told.
    """

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def memory(self, what: str = "VmRSS") -> int:
        """Bytes that it holds, or has held at most (VmHWM)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(status.partition(f"{what}:")[2].split()[0])


def sentences(count: int, seed: int = 0, words: int = 12) -> list[str]:
    """Texts of so many words."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=words)) for _ in range(count)]


def make_run(folder: Path, model: dict[str, int], tokens: int = 20, seed: int = 1) -> Path:
    """Writes a run from English to French whose answers have at most so many tokens, and mostly as many."""
    config = from_mapping({"tokenizer": {"kind": "word"}, "data": {"source_language": "en", "target_language": "fr"},
                           "model": {"max_length": 256, "dropout": 0.0, "tie_embeddings": True, **model},
                           "decode": {"beam_size": 1, "max_length": tokens}})
    lines = sentences(200)
    tokenizers = train_tokenizers(config.tokenizer, [(line, line) for line in lines], "seq2seq")
    torch.manual_seed(seed)
    write_run(config, tokenizers, weights_of(build_model(config, tokenizers, seed)),
              {"what": "random weights", "from": "a promise"}, folder)
    return folder


@contextlib.contextmanager
def serving(run: Path, *words: str) -> Iterator[Server]:
    """Serves a run until the end; `words` are flags of `pellucid serve`."""
    server = start(run, words)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait()


def start(run: Path, words: Sequence[str] = ()) -> Server:
    """The same, with nobody to end it."""
    log = run.parent / f"{run.name}.log"
    command = [sys.executable, "-m", "pellucid", "serve", str(run), "--port", "0", "--requests-per-minute", "0", *words]
    with log.open("wb") as told:
        process = subprocess.Popen(command, stderr=told, stdout=told, env=os.environ | {"PELLUCID_LANG": "en"})
    while not (found := re.search(r"listening on http://127\.0\.0\.1:(\d+)", log.read_text())):
        if process.poll() is not None:
            raise ValueError(f"no server: {log.read_text()}")
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.01)
    return Server(process, int(found[1]), log)
