"""The search as it decided, in full: its lattice, what ended, and what else could have come.

One trace holds the answer for every length penalty α of a range. Hypotheses that live are ranked by log-probability,
where α has no say: it only orders what has ended, and tells when to stop. A search that is over for the largest α of
the range is over for all of them (lattice.py says why), so that is the one that is traced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import torch

from pellucid.config import DecodeConfig
from pellucid.data.tokenizers.interface import BOS, EOS, PAD, UNK
from pellucid.errors import ConfigError
from pellucid.inspection.answers import Alternative, Trace
from pellucid.inspection.examples import Ids, token_names
from pellucid.inspection.lattice import Enough, Tracer
from pellucid.inspection.looked_at import read
from pellucid.model.stepper import evaluating
from pellucid.model.transformer import Transformer
from pellucid.runs.openings import Opening, Speller
from pellucid.runs.run import Run
from pellucid.runs.texts import search_options

SILENT = (PAD, UNK, BOS, EOS)  # say nothing that a prefix could ask for
ALPHAS = (0.0, 2.0)  # the range of the slider, wider where the options ask for an α outside of it


def trace(run: Run, text: str, options: DecodeConfig | None = None, prefix: str = "", alternatives: int = 8,
          each_step: Callable[[], None] | None = None) -> Trace:
    """Searches for one text, and says what was decided on the way.

    Args:
        options: how to search; the run's own `decode` section if left out. The text is one, whatever its
            split_sentences says.
        prefix: how the output begins, to the byte.
        alternatives: tokens told for each place of the best output.
        each_step: called before each step is written down; what it raises ends the search, and comes out of it.

    Raises:
        ConfigError (a ValueError): the run is a classifier or a reader, outputs are drawn at random, or an option is
            refused.
        UserError: the text is empty, or the search has too many candidates to be looked at.
        ValueError: fewer than no alternatives.
    """
    options = replace(options or run.config.decode, split_sentences=False)
    asked = search_options(options)
    if alternatives < 0:
        raise ValueError(f"alternatives must be 0 or more, not {alternatives}")
    if asked.sample:
        raise ConfigError("samples are drawn, not searched for: there is nothing to trace", where="decode.sample",
                          fix="leave it out")
    widest = (min(ALPHAS[0], asked.length_penalty), max(ALPHAS[1], asked.length_penalty))
    opening = Speller(run.tokenizers.target).opening(prefix)
    tracer = Tracer(run.tokenizers.target, asked, opening, each_step)
    decoder = run.observed(tracer, replace(options, length_penalty=widest[1]))
    source = read(run, text)
    alphas = widest
    try:
        decoder.search([source.ids], [opening.beginning], [0])
    except Enough:
        alphas = (widest[0], max(asked.length_penalty, min(widest[1], tracer.decided_up_to())))
    order = sorted(range(len(tracer.finished)), key=lambda place: -tracer.finished[place].score)
    best, spellings = tracer.sequences[order[0]], run.tokenizers.target.spellings()
    return Trace(text, source.names, prefix, asked.beam_size, asked.length_penalty, asked.n_best, asked.max_length,
                 decoder.route.precision, decoder.route.decoder, alphas, tracer.search_steps, tuple(tracer.steps),
                 tuple(tracer.finished), tuple(order), _alternatives(run, source.ids, best, opening, alternatives),
                 " " if all(spelling.startswith(" ") or not spelling for spelling in spellings) else "")


@torch.inference_mode()
def _alternatives(run: Run, source: Ids, output: Sequence[int], opening: Opening,
                  count: int) -> tuple[tuple[Alternative, ...], ...]:
    """The most probable tokens at each place of an output, the one that stands there among them or behind them."""
    model = cast(Transformer, run.model)
    device = model.output.weight.device
    with evaluating(model):
        logits = model(torch.from_numpy(source.astype(np.int64))[None].to(device),
                       torch.tensor([[BOS, *output[:-1]]], device=device))
    probabilities = logits[0].float().softmax(-1).cpu()  # [T, V]
    told = []
    begun, _ = opening.beginning.walk(output)  # what a prefix is made of could have been otherwise, too
    for place, (row, token) in enumerate(zip(probabilities, output, strict=True)):
        best = row.topk(min(count, len(row))).indices.tolist()
        ids = best if token in best else [*best, token]
        names = token_names(run.tokenizers.target, np.asarray(ids, dtype=np.int32))
        say = run.tokenizers.target.decode if place < begun else opening.say
        texts = [None if i in SILENT else say([*output[:place], i]) for i in ids]
        told.append(tuple(Alternative(name, i, float(row[i]), text)
                          for name, i, text in zip(names, ids, texts, strict=True)))
    return tuple(told)
