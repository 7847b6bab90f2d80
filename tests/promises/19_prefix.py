"""Promise 19: an output begins with its prefix to the byte, wherever that is cut.

    python tests/promises/19_prefix.py [--count 1000] [--json FILE]

Runs of tiny random models with every kind of tokenizer, made on the spot. A prefix is a text of the languages that they
know, or of letters and signs that they do not, cut anywhere: behind a word, inside of one, between an emoji and what
joins it, between a letter and its accent. What `generate` writes must begin with it, byte by byte, and so must every
text of a trace. The time is that of `generate` with one prefix.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tiny import SUBWORDS, TEXT, tiny_run

from pellucid.inspection.trace import trace
from pellucid.kernels.compiled import use_kernels
from pellucid.runs.run import Run

KINDS: list[dict[str, Any]] = [
    {"kind": "word"}, {"kind": "character"}, SUBWORDS, {**SUBWORDS, "algorithm": "unigram", "vocab_size": 44},
    {**SUBWORDS, "character_coverage": 0.98, "vocab_size": 50}, {"kind": "spacy", "target_language": "fr"}]
STRANGE = ["☃ snow", "e\u0301te\u0301", "naïve  two  spaces", "👩‍👧‍👦 family", "𝔘𝔫𝔦", "tab\there", " leading",
           "🇫🇷 déjà", "</s> <unk>", "‹end›", "a\u00a0b", "ﬁn", "½ kg", "한국어", "עברית"]


def drawn(draw: random.Random) -> str:
    """A prefix, cut anywhere."""
    parts = draw.choices([*TEXT, *TEXT, *STRANGE], k=draw.randint(1, 2))
    text = unicodedata.normalize(draw.choice(["NFC", "NFD"]), " ".join(parts))
    return text[: draw.randint(1, min(len(text), 16))]


def is_kept(run: Run, text: str, prefix: str, beam_size: int, seconds: list[float]) -> bool:
    """Whether all that is written begins so, and all that a trace says."""
    options = replace(run.config.decode, beam_size=beam_size, n_best=beam_size)
    begun = time.perf_counter()
    found = run.generate([text], prefixes=[prefix], options=options)[0]
    seconds.append(time.perf_counter() - begun)
    wanted = prefix.encode("utf-8")
    traced = trace(run, text, options, prefix)
    told = [one.text for one in found.hypotheses] + [one.text for one in traced.finished]
    told += [node.text for step in traced.steps for node in step.nodes]
    return all(one.encode("utf-8").startswith(wanted) for one in told)


def check(count: int, seed: int = 1) -> tuple[int, float]:
    """How many of `count` prefixes are kept, and the median of seconds."""
    draw, passed, seconds = random.Random(seed), 0, list[float]()
    runs = [tiny_run(draw.randrange(10**6), {}, {"max_length": 24}, kind) for kind in KINDS]
    for number in range(count):
        prefix, text = drawn(draw), draw.choice(TEXT)
        held = is_kept(runs[number % len(runs)], text, prefix, draw.choice([1, 3]), seconds)
        if not held:
            print(f"not kept: {prefix!r} by {KINDS[number % len(runs)]}")
        passed += held
    return passed, statistics.median(seconds)


def main() -> int:
    """Prints the promise's closing line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"kernels: {use_kernels(torch.device('cpu'))}")
    passed, median = check(arguments.count)
    print(f"one prefix: p50 {median * 1000:.1f} ms")
    if arguments.json:
        arguments.json.write_text(json.dumps({"passed": passed, "of": arguments.count, "p50": median}) + "\n",
                                  encoding="utf-8")
    print(f"promise 19: {passed} of {arguments.count}")
    return 0 if passed == arguments.count else 1


if __name__ == "__main__":
    raise SystemExit(main())
