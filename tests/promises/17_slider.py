"""Promise 17: one trace holds the answer for every length penalty of its range: sorted again, it gives the order and
the scores of a fresh search.

    python tests/promises/17_slider.py [--count 10000] [--json FILE]

Runs of tiny random models, made on the spot; sentences, beams, lengths, n-grams, prefixes and penalties are drawn. A
case is one penalty of one trace: what `generate` finds with it, as the fastest decoder that there is finds it, against
what a page does with the trace: scores are log P / ((5 + |Y|) / 6)^α, the earlier first among equals.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from dataclasses import replace
from pathlib import Path

import torch
from tiny import SUBWORDS, TEXT, tiny_run

from pellucid.config import DecodeConfig
from pellucid.inspection.answers import Ended, Trace
from pellucid.inspection.trace import trace
from pellucid.kernels.compiled import use_kernels
from pellucid.runs.candidates import Generated
from pellucid.runs.run import Run

TOLERANCE = 1e-12
MADE = [({"position": "rotary"}, {"kind": "word"}), ({}, SUBWORDS), ({"tie_embeddings": True}, {"kind": "character"}),
        ({"residual": "post", "position": "learned", "max_length": 80}, SUBWORDS)]


def drawn(draw: random.Random) -> DecodeConfig:
    """Options of a search."""
    beam, longest = draw.choice([1, 2, 3, 4, 5, 8]), draw.choice([3, 8, 16, 40, 70])
    return DecodeConfig(beam_size=beam, n_best=draw.randint(1, beam), max_length=longest, precision="fp32",
                        length_penalty=draw.choice([-1.0, 0.0, 0.6, 1.0, 3.0]), no_repeat_ngram=draw.choice([0, 0, 2]),
                        min_length=draw.choice([0, 0, 2]))


def best_of(traced: Trace, alpha: float) -> list[tuple[float, Ended]]:
    """What the trace says for this penalty: scores and hypotheses, best first."""
    scored = [(one.log_probability / ((5 + one.length) / 6) ** alpha, one) for one in traced.finished]
    return sorted(scored, key=lambda pair: -pair[0])[: traced.n_best]


def is_the_same(traced: Trace, alpha: float, found: Generated) -> bool:
    """Whether the trace, sorted for this penalty, is what was found."""
    best = best_of(traced, alpha)
    return len(best) == len(found.hypotheses) and all(
        (one.text, one.finished, one.length - one.finished) == (fresh.text, fresh.finished, len(fresh.tokens))
        and abs(score - fresh.score) <= TOLERANCE and abs(one.log_probability - fresh.log_probability) <= TOLERANCE
        for (score, one), fresh in zip(best, found.hypotheses, strict=True))


def cases(run: Run, draw: random.Random) -> tuple[list[bool], Trace]:
    """A sentence with drawn options: whether each of a few penalties gives what a fresh search does."""
    text = " ".join(draw.choices(" ".join(TEXT).split(), k=draw.randint(1, 4)))
    prefix = draw.choice(["", "", draw.choice(TEXT)[: draw.randint(1, 5)]])
    options = drawn(draw)
    traced = trace(run, text, options, prefix)
    alphas = [*traced.alphas, options.length_penalty, *(draw.uniform(*traced.alphas) for _ in range(5))]
    prefixes = [prefix] if prefix else None
    return [is_the_same(traced, alpha, run.generate(
        [text], prefixes=prefixes, options=replace(options, length_penalty=alpha))[0]) for alpha in alphas], traced


def check(count: int, seed: int = 1) -> tuple[int, int, int]:
    """How many of `count` cases hold; of how many traces the range ends early, and in how many the best hypothesis at
    its end is not that at its beginning."""
    draw, results, runs, early, turned = random.Random(seed), list[bool](), list[Run](), 0, 0
    while len(results) < count:
        if len(runs) < len(MADE) or draw.random() < 0.02:
            model, tokenizer = MADE[len(runs) % len(MADE)]
            runs.append(tiny_run(draw.randrange(10**6), model, {}, tokenizer))
        held, traced = cases(draw.choice(runs[-len(MADE):]), draw)
        results += held
        low, high = traced.alphas
        early += high < 2
        turned += best_of(traced, low)[0][1] != best_of(traced, high)[0][1]
    return sum(results[:count]), early, turned


def main() -> int:
    """Prints the promise's closing line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"kernels: {use_kernels(torch.device('cpu'))}")
    begun = time.monotonic()
    passed, early, turned = check(arguments.count)
    seconds = time.monotonic() - begun
    print(f"{seconds:.0f} s; {early} traces hold less than the penalties from 0 to 2, and say so; in {turned} the "
          "slider changes which is best")
    if arguments.json:
        arguments.json.write_text(json.dumps({"passed": passed, "of": arguments.count, "early": early,
                                              "turned": turned}) + "\n",
                                  encoding="utf-8")
    print(f"promise 17: {passed} of {arguments.count}")
    return 0 if passed == arguments.count else 1


if __name__ == "__main__":
    raise SystemExit(main())
