"""What the precisions of decoding cost in BLEU: `python -m benchmarks.precisions RUN`.

The run decodes its validation and test splits greedily and by beam 4 (α = 1) in fp32, bf16 and bytes: lower-cased BLEU,
and how many outputs are those of fp32.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Literal

from sacrebleu.metrics.bleu import BLEU

from benchmarks.arguments import run_folder
from pellucid.evaluate.evaluate import pairs_of
from pellucid.runs.run import Run, load

Precision = Literal["fp32", "bf16", "int8"]
PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16", "int8")
BEAMS = (1, 4)


def outputs_of(run: Run, sources: list[str], precision: Precision, beam_size: int) -> list[str]:
    """One text for each source."""
    options = replace(run.config.decode, precision=precision, beam_size=beam_size, length_penalty=1.0, n_best=1)
    return [found.text for found in run.generate(sources, options=options)]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=run_folder, help="a run folder of the task seq2seq")
    run, splits = load(parser.parse_args().run), ("validation", "test")
    pairs = {split: pairs_of(run, split, None) for split in splits}
    metric, exact = BLEU(lowercase=True), dict[str, list[list[str]]]()
    print("| precision | validation | test2016 | same text as fp32 |\n|---|---|---|---|")
    for precision in PRECISIONS:
        scores, same = [], []
        for split in splits:
            sources, references = map(list, zip(*pairs[split]))
            found = [outputs_of(run, sources, precision, beam) for beam in BEAMS]
            exact.setdefault(split, found)
            scores.append(" / ".join(f"{metric.corpus_score(texts, [references]).score:.2f}" for texts in found))
            shares = [sum(a == b for a, b in zip(*both)) / len(sources) for both in zip(found, exact[split])]
            same.append(" / ".join(f"{100 * share:.1f}" for share in shares) + " %")
        print(f"| {precision} | {' | '.join(scores)} | {'' if precision == PRECISIONS[0] else ', '.join(same)} |",
              flush=True)


if __name__ == "__main__":
    main()
