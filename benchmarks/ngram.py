"""What n-grams make of a run's data: `python -m benchmarks.ngram RUN [--split test] [--order 5] [--json FILE]`.

The unigram model and modified Kneser–Ney learn from the targets of the run's training split and are scored on those of
another split, as the very ids that the run reads; so is the run. N-grams do not see the source.
"""

from __future__ import annotations

import argparse
import json
import math
from typing import Any

import torch

from benchmarks import machine
from benchmarks.arguments import new_file, positive, run_folder
from benchmarks.kneser_ney import KneserNey
from pellucid.data.corpus import Corpus, open_corpus
from pellucid.data.splits import open_splits
from pellucid.model.stepper import evaluating
from pellucid.precision import resolve
from pellucid.runs.run import Run, load
from pellucid.train.validation import mean_loss
from pellucid.train.workers import Workers


def rows(run: Run, split: str, order: int) -> list[dict[str, Any]]:
    """Nats and perplexity of each model over the targets of `split`, ends of sequences counted as tokens."""
    splits = open_splits(run.config, run.folder)
    train, held_out = (open_corpus(splits[name], run.tokenizers, run.config) for name in ("train", split))
    learned, scored = targets(train), targets(held_out)
    size = run.tokenizers.target.size
    nats = {name: -float(KneserNey(learned, n, size).log_probabilities(scored).sum())
            for name, n in (("unigram", 1), (f"{order}-gram, modified Kneser-Ney", order))}
    tokens = sum(map(len, scored))
    precision = resolve(run.config.train.precision, torch.device("cpu"))
    with evaluating(run.model):
        nats["pellucid"] = mean_loss(run.model, held_out, run.config, precision, Workers(1, None)) * tokens
    characters = sum(len(run.tokenizers.target.decode(ids)) for ids in scored)
    return [{"model": name, "tokens": tokens, "characters": characters, "nats": total,
             "perplexity": math.exp(total / tokens), "perplexity_per_character": math.exp(total / characters)}
            for name, total in nats.items()]


def targets(corpus: Corpus) -> list[list[int]]:
    """The target ids of each example, eos at the end."""
    return [corpus.target[i].tolist() for i in range(len(corpus))]


def main() -> None:
    """Parses, measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=run_folder, help="a run folder of the task seq2seq")
    parser.add_argument("--split", default="validation", help="of which the targets are")
    parser.add_argument("--order", type=positive, default=5, help="of the n-grams")
    parser.add_argument("--json", type=new_file, help="where to write the results")
    args = parser.parse_args()
    found = rows(load(args.run), args.split, args.order)
    for row in found:
        print(f"{row['model']:<28} perplexity {row['perplexity']:8.2f} a token, "
              f"{row['perplexity_per_character']:8.2f} a character")
    if args.json:
        told = {**machine.describe(), "split": args.split, "rows": found}
        args.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
