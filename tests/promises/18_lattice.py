"""Promise 18: every node of the lattice is what the search decided, totals are what `score` says of them, and attention
is what is recorded.

    python tests/promises/18_lattice.py [--count 1000] [--json FILE]

A case is one sentence. Of a random lookup table: a beam search in lists (plain.py) must decide the same of every
candidate, to the last bit: tokens, total, rank, what became of it, and by how much it lost. Of a tiny random model: the
same with log-probabilities from whole passes of the model, in fp32, where candidates nearer to each other than 1e-5 may
change places; all totals must be those that `score` is made of, within 1e-5, and every attention's weights those of
record.py.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from plain import Decided, Tokens, plain_steps
from tiny import SUBWORDS, TEXT, tiny_run

from pellucid.config import DecodeConfig
from pellucid.data.source_ids import source_ids
from pellucid.data.tokenizers.interface import BOS, EOS, PAD
from pellucid.inspection.answers import Column, Trace
from pellucid.inspection.lattice import Enough, Tracer
from pellucid.inspection.live import attention
from pellucid.inspection.record import record_attention
from pellucid.inspection.trace import trace
from pellucid.kernels.compiled import use_kernels
from pellucid.model.transformer import Transformer
from pellucid.runs.decoder import SPECIALS
from pellucid.runs.generate import score_targets
from pellucid.runs.run import Run
from pellucid.runs.texts import search_options
from pellucid.search.options import SearchOptions
from pellucid.search.search import search

TOLERANCE = 1e-5
MADE = [({"position": "rotary"}, {"kind": "word"}), ({"position": "t5"}, SUBWORDS),
        ({"residual": "post", "position": "learned"}, {"kind": "character"}),
        ({"attention": "window", "window": 2, "norm": "rmsnorm"}, SUBWORDS)]
TOKENIZER: Any = SimpleNamespace(pieces=lambda ids: [str(i) for i in ids])
OPENING: Any = SimpleNamespace(say=lambda tokens: " ".join(map(str, tokens)))


@dataclass
class Counts:
    """What has been compared."""

    nodes: int = 0
    by_state: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("kept", "finished", "pruned"), 0))
    ties: int = 0
    furthest: float = 0.0  # of a total from that of `score`


class Table:
    """A step of the search whose logits are drawn once for each beginning."""

    def __init__(self, vocabulary: int, seed: int) -> None:
        self.vocabulary, self.seed = vocabulary, seed
        self.log_p = cache(self._log_p)

    def _logits(self, tokens: Tokens) -> list[float]:
        draw = random.Random(f"{self.seed} {tokens}")
        return [draw.choice((draw.gauss(0, 2), 0.0)) for _ in range(self.vocabulary)]  # with ties

    def _log_p(self, tokens: Tokens) -> list[float]:
        found: list[float] = torch.log_softmax(torch.tensor([self._logits(tokens)]), -1)[0].clamp_(max=0).tolist()
        return found

    def start(self, source: None) -> list[Tokens]:
        """One sentence."""
        return [()]

    def step(self, state: list[Tokens], tokens: torch.Tensor) -> tuple[torch.Tensor, list[Tokens]]:
        """Logits of what may follow."""
        longer = [row if token == BOS else (*row, token) for row, token in zip(state, tokens.tolist(), strict=True)]
        return torch.tensor([self._logits(row) for row in longer]), longer

    def select(self, state: list[Tokens], rows: torch.Tensor) -> list[Tokens]:
        """Those rows."""
        return [state[row] for row in rows.tolist()]


def rule(vocabulary: int, options: SearchOptions) -> Callable[[Tokens], list[int]]:
    """What may follow some tokens, in the plainest words."""
    def allowed(tokens: Tokens) -> list[int]:
        n = options.no_repeat_ngram
        seen = {tokens[i : i + n] for i in range(len(tokens) - n + 1)} if n else set()
        free = [token for token in range(vocabulary) if token not in (PAD, BOS)
                and not (token == EOS and len(tokens) < options.min_length)
                and not (n and len(tokens) >= n - 1 and (*tokens[len(tokens) - n + 1 :], token) in seen)]
        return free or [EOS]

    return allowed


def drawn(draw: random.Random) -> DecodeConfig:
    """Options of a search."""
    beam = draw.choice([1, 2, 3, 4, 6])
    return DecodeConfig(beam_size=beam, n_best=draw.randint(1, beam), max_length=draw.choice([2, 5, 9, 14]),
                        min_length=draw.choice([0, 0, 1]), no_repeat_ngram=draw.choice([0, 0, 1, 2]),
                        length_penalty=draw.choice([-1.0, 0.0, 0.6, 2.0]), precision="fp32")


def sequences(steps: tuple[Column, ...]) -> dict[int, Tokens]:
    """The tokens of every node."""
    found: dict[int, Tokens] = {}
    for node in (node for step in steps for node in step.nodes):
        found[node.id] = (*(found[node.parent] if node.parent is not None else ()), node.token_id)
    return found


def is_decided_so(steps: tuple[Column, ...], wanted: list[list[Decided]], tolerance: float, counts: Counts) -> bool:
    """Whether each column is what was decided in plain words; up to a tie, where a tolerance allows one."""
    tokens = sequences(steps)
    for step, decided in zip(steps, wanted, strict=False):
        totals = [one.total for one in decided]
        if tolerance and any(a - b <= tolerance for a, b in pairwise(totals)):
            counts.ties += 1
            return True
        if len(step.nodes) != len(decided):
            return False
        for node, one in zip(step.nodes, decided, strict=True):
            told = (tokens[node.id], node.rank, node.state, node.lost_by is None)
            lost = (node.lost_by or 0.0) - (one.lost_by or 0.0)
            if told != (one.tokens, one.rank, one.state, one.lost_by is None) or abs(lost) > 2 * tolerance or (
                    abs(node.log_probability - one.total) > tolerance):
                return False
            counts.nodes += 1
            counts.by_state[node.state] += 1
    return len(steps) <= len(wanted)


def of_table(draw: random.Random, counts: Counts) -> bool:
    """One sentence of a lookup table."""
    table, options = Table(draw.randint(5, 12), draw.randrange(10**9)), search_options(drawn(draw))
    tracer = Tracer(TOKENIZER, options, OPENING)
    try:
        search(table, None, 1, options, SPECIALS, observer=tracer)
    except Enough:
        return False
    wanted = list(plain_steps(table.log_p, rule(table.vocabulary, options), options, EOS))
    return len(tracer.steps) == tracer.search_steps and is_decided_so(tuple(tracer.steps), wanted, 0.0, counts)


def of_run(run: Run, draw: random.Random, counts: Counts) -> bool:
    """One sentence of a model."""
    text, options = " ".join(draw.choices(" ".join(TEXT).split(), k=draw.randint(1, 4))), drawn(draw)
    traced = trace(run, text, options)
    source = np.asarray(source_ids([text], run.tokenizers, False)[0], dtype=np.int32)

    def log_p(tokens: Tokens) -> list[float]:
        with torch.inference_mode():
            logits = run.model(torch.tensor(source[None].astype(np.int64)), torch.tensor([[BOS, *tokens]]))
        found: list[float] = logits[0, -1].float().log_softmax(-1).tolist()
        return found

    asked = search_options(options)
    wanted = plain_steps(log_p, rule(run.tokenizers.target.size, asked), asked, EOS)
    first = [step for step, _ in zip(wanted, range(4), strict=False)]  # whole passes take long
    return (is_decided_so(traced.steps[:4], first, TOLERANCE, counts) and totals_are_scores(run, source, traced, counts)
            and attention_is_recorded(run, text, source, traced))


def totals_are_scores(run: Run, source: Any, traced: Trace, counts: Counts) -> bool:
    """Whether each node's log-probability is the sum of those that `score` finds of its tokens."""
    nodes = [node for step in traced.steps for node in step.nodes]
    tokens = sequences(traced.steps)
    pairs = [(source, np.asarray(tokens[node.id], dtype=np.int32)) for node in nodes]
    assert isinstance(run.model, Transformer)
    scored = score_targets(run.model, pairs, 4096)
    far = [abs(sum(terms) - node.log_probability) for terms, node in zip(scored, nodes, strict=True)]
    counts.furthest = max(counts.furthest, *far)
    return max(far) <= TOLERANCE


def attention_is_recorded(run: Run, text: str, source: Any, traced: Trace) -> bool:
    """Whether what is told of the best output's attention is what is recorded in a pass over it."""
    said = traced.finished[traced.order[0]].text
    told = attention(run, text, said)
    target = [BOS, *run.tokenizers.target.encode(said)]
    with record_attention(run.model) as weights, torch.inference_mode():
        run.model(torch.tensor(source[None].astype(np.int64)), torch.tensor([target]))
    return all(one.weights == weights[one.name][0].double().numpy().round(6).tolist() for one in told.attentions)


def check(count: int, seed: int = 1) -> tuple[int, Counts]:
    """How many of `count` sentences hold, half of them of lookup tables: those with torch's logarithms, to the bit."""
    draw, counts, passed = random.Random(seed), Counts(), 0
    use_kernels(torch.device("cpu"), False)
    for _ in range(count // 2):
        passed += of_table(draw, counts)
    print(f"kernels: {use_kernels(torch.device('cpu'))}")
    runs = [tiny_run(draw.randrange(10**6), model, {}, tokenizer) for model, tokenizer in MADE]
    for _ in range(count - count // 2):
        passed += of_run(draw.choice(runs), draw, counts)
    return passed, counts


def main() -> int:
    """Prints the promise's closing line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    begun = time.monotonic()
    passed, counts = check(arguments.count)
    print(f"{time.monotonic() - begun:.0f} s; {counts.nodes:,} nodes are what was decided ({counts.by_state}); "
          f"{counts.ties} sentences were followed to a tie; totals are within {counts.furthest:.1e} of those of score")
    if arguments.json:
        arguments.json.write_text(json.dumps({"passed": passed, "of": arguments.count, **vars(counts)}) + "\n",
                                  encoding="utf-8")
    print(f"promise 18: {passed} of {arguments.count}")
    return 0 if passed == arguments.count else 1


if __name__ == "__main__":
    raise SystemExit(main())
