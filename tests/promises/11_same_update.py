"""Promise 11: an update that ranks share out is the update of one process.

    python tests/promises/11_same_update.py [--count N] [--json FILE]

One to four ranks, each with all weights (DDP) or with a part of them (FSDP2), make two updates of twelve micro-batches,
with dropout. Their weights must be those of one process within 1e-6, and every micro-batch be seen once. In fp64, so
that what differs is the method and not rounding: where a gradient is zero but for rounding, Adam makes a step of it. In
fp32 the gradients are compared, within 1e-6 of the largest.
"""

from __future__ import annotations

import argparse
import itertools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from ranks import close, in_world

from pellucid.config import ModelConfig, RunConfig, TrainConfig
from pellucid.data.batching import Batches
from pellucid.data.corpus import Corpus, Sequences
from pellucid.data.encoding import Report
from pellucid.data.tokenizers.interface import EOS
from pellucid.model.build import POSITIONS, build, build_classifier
from pellucid.runs.sharded import whole
from pellucid.train.optimizer import make_optimizer
from pellucid.train.parallel import Objective, parallelize
from pellucid.train.update import Learner, rehearse, share_of, update
from pellucid.train.world import ALONE, World

WORDS, ACCUMULATE, UPDATES = 31, 12, 2  # a number of words that no world here divides


@dataclass(frozen=True)
class Case:
    """What is trained, by how many ranks, of which so many divide the weights."""

    size: int
    shard: int
    position: str
    tied: bool
    r_drop: float
    classes: int = 0
    optimizer: Literal["adamw", "muon"] = "adamw"

    def __str__(self) -> str:
        engine = "one rank" if self.size == 1 else f"{self.size} ranks, " + (
            "DDP" if self.shard == 1 else f"FSDP2 over {self.shard}")
        kind = "classifier" if self.classes else "tied" if self.tied else "untied"
        more = [name for name, is_on in (("R-Drop", self.r_drop), ("Muon", self.optimizer == "muon")) if is_on]
        return ", ".join([engine, self.position, kind, *more])


def cases() -> list[Case]:
    """Every position with every world; tied and untied, with and without R-Drop, and classifiers, in turn; and Muon."""
    worlds = [(size, shard) for size in range(1, 5) for shard in range(1, size + 1) if size % shard == 0]
    found = []
    for turn, (position, (size, shard)) in enumerate(itertools.product(sorted(POSITIONS), worlds)):
        found.append(Case(size, shard, position, tied=turn % 2 == 0, r_drop=float(turn % 3 == 0)))
    return found + [Case(size, shard, "sinusoidal", True, 0.0, *more) for more in ((3,), (0, "muon"))
                    for size, shard in worlds]


def corpus(classes: int) -> Corpus:
    """Pairs of very different lengths."""
    draw = np.random.default_rng(0)

    def side(longest: int) -> Sequences:
        rows = [[*draw.integers(4, WORDS, size=draw.integers(1, longest)).tolist(), EOS] for _ in range(200)]
        return Sequences(np.asarray(list(itertools.chain.from_iterable(rows)), dtype=np.int32),
                         np.cumsum([0, *map(len, rows)]).astype(np.int64))

    target = Sequences(draw.integers(0, classes, size=200).astype(np.int32), np.arange(201)) if classes else side(9)
    return Corpus(side(14), target, Report(200, 200, 0, 0, 0, 0))


def learner(case: Case, world: World, dtype: torch.dtype) -> Learner:
    """At its beginning."""
    sizes = ModelConfig(d_model=16, n_heads=2, d_ff=24, encoder_layers=2, decoder_layers=1, dropout=0.1,
                        attention_dropout=0.1, position=case.position, tie_embeddings=case.tied, max_length=32)
    train = TrainConfig(accumulate=ACCUMULATE, batch_tokens=30, optimizer=case.optimizer, r_drop=case.r_drop,
                        clip_norm=0.5, shard=case.shard if world.size > 1 else 1, precision="fp32")
    config = replace(RunConfig(), model=sizes, train=train)
    model: Any = (build_classifier(sizes, WORDS, case.classes, seed=1) if case.classes
                  else build(sizes, WORDS, WORDS, shared=case.tied, seed=1))
    model.to(dtype)
    objective = parallelize(Objective(model, train), world, train.shard)
    return Learner(config=config, model=model, objective=objective, optimizer=make_optimizer(model, train),
                   average=None, batches=Batches(corpus(case.classes), train.batch_tokens, None, seed=1),
                   schedule=lambda step: 0.01, precision="fp32", device=torch.device("cpu"), world=world)


def updated(case: Case, world: World, dtype: torch.dtype) -> tuple[dict[str, torch.Tensor], list[torch.Tensor], Any]:
    """The weights after the updates, the gradients of the first, and which micro-batches were seen here."""
    made = learner(case, world, dtype)
    seen = [number for step in range(1, UPDATES + 1) for number in share_of(made, step)[0]]
    gradients: list[torch.Tensor] = []
    made.optimizer.register_step_pre_hook(lambda *_: gradients.extend(
        whole(p.grad).clone() for p in made.parameters if p.grad is not None and len(gradients) < len(made.parameters)))
    made.model.train()
    rehearse(made)
    for _ in range(UPDATES):
        update(made)
    progress = made.progress
    told = (seen, progress.source_tokens, progress.target_tokens, progress.loss_sum)
    return {name: whole(p.detach()).clone() for name, p in made.model.named_parameters()}, gradients, told


def difference(case: Case) -> tuple[float, float, bool]:
    """The largest difference of a weight in fp64, and of a gradient in fp32, of the largest; whether each micro-batch
    was seen once."""
    found = []
    for dtype in (torch.float64, torch.float32):
        alone = updated(case, ALONE, dtype)
        ranks = in_world(case.size, lambda world, dtype=dtype: updated(case, world, dtype))
        found.append((alone, ranks))
    (alone, ranks), (alone_32, ranks_32) = found
    weights = max(float((rank[0][name] - value).abs().max()) for rank in ranks for name, value in alone[0].items())
    largest = max(float(g.abs().max()) for g in alone_32[1])
    gradients = max(float((a - b).abs().max()) for rank in ranks_32
                    for a, b in zip(rank[1], alone_32[1], strict=True)) / largest
    seen = sorted(number for rank in ranks for number in rank[2][0]) == sorted(alone[2][0])
    tokens = all(rank[2][1:3] == alone[2][1:3] and abs(rank[2][3] - alone[2][3]) < 1e-6 for rank in ranks)
    return weights, gradients, seen and tokens


def main() -> int:
    """Prints a line for each case, and the promise's closing line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, help="of the cases, spread over all of them; all if left out")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    every = cases()
    chosen = [every[i * len(every) // arguments.count] for i in range(arguments.count)] if arguments.count else every
    passed, rows = 0, []
    for case in chosen:
        weights, gradients, seen = difference(case)
        good = weights <= 1e-6 and gradients <= 1e-6 and seen
        passed += good
        rows.append({"case": str(case), "weights": weights, "gradients": gradients, "seen_once": seen})
        print(f"{'same' if good else 'OTHER'}: {case}: weights {weights:.1e}, gradients {gradients:.1e}", flush=True)
    return close(11, passed, len(rows), rows, arguments.json)


if __name__ == "__main__":
    raise SystemExit(main())
