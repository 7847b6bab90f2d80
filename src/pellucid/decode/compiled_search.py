"""Greedy and beam search in one call of a kernel: what `greedy_search` and `beam_search` find over the engine, without
Python between the steps, so that several threads never wait for it."""

from __future__ import annotations

import ctypes
from ctypes import addressof, c_int64, c_void_p

import torch

from pellucid.decode.beam_search import largest_penalties
from pellucid.decode.constraints import Rules
from pellucid.decode.engine import Engine, Memory
from pellucid.decode.options import Hypothesis, length_penalty
from pellucid.decode.program import Buffer
from pellucid.decode.rows import hypothesis
from pellucid.nn import kernels

LONGEST = 1024  # tokens that room is made for at the start


class Search(ctypes.Structure):
    """As the kernel has it."""

    _fields_ = [("operations", c_void_p), ("count", c_int64),
                *((name, c_void_p) for name in ("buffers", "places", "firsts", "lengths")),
                *((name, c_int64) for name in ("longest", "sentences", "beam", "layers", "width", "bos", "eos",
                                               "pad", "min_length", "max_length", "n_best")),
                *((name, c_void_p) for name in ("penalties", "largest", "tokens", "log_p", "sizes"))]


def knows(engine: Engine, rules: Rules) -> bool:
    """Whether the kernel searches by these rules."""
    options, vocabulary = rules.options, engine.decoder.widths[Buffer.LOGITS]
    return (not options.sample and options.no_repeat_ngram == 0 and rules.prefixes.shape[1] == 0
            and options.max_length <= min(LONGEST, engine.target_places.limit)
            and vocabulary >= 2 * options.beam_size + 3 and vocabulary > max(vars(rules.specials).values()))


def compiled_search(engine: Engine, state: Memory, rules: Rules) -> list[list[Hypothesis]] | None:
    """The hypotheses of each sentence, best first; `state` has a row a sentence, and is left as it is.

    Returns:
        None where a row has no finite logit: the plain search knows what to do then.
    """
    options, specials, sentences = rules.options, rules.specials, len(rules.indices)
    longest, shape = options.max_length, (sentences, options.n_best, options.max_length)
    buffers = engine.decoder.buffers(sentences * options.beam_size) | {Buffer.SOURCE: state.source}
    pointers = engine.pointers(buffers)
    places = engine.target_places.first(longest)
    penalties = torch.tensor([1.0, *(length_penalty(n + 1, options.length_penalty) for n in range(longest))],
                             dtype=torch.float64)
    largest = torch.tensor(largest_penalties(options), dtype=torch.float64)
    tokens, log_p = torch.empty(shape, dtype=torch.int64), torch.empty(shape)
    sizes = torch.full(shape[:2], -1)
    kernels.run("search", engine.decoder.dtype, Search(
        engine.decoder.address, len(engine.decoder.operations), addressof(pointers), places.data_ptr(),
        state.firsts.data_ptr(), state.lengths.data_ptr(), state.longest, sentences, options.beam_size,
        engine.layers, 2 * engine.width * engine.decoder.dtype.itemsize, specials.bos,
        specials.eos, specials.pad, options.min_length, longest, options.n_best, penalties.data_ptr(),
        largest.data_ptr(), tokens.data_ptr(), log_p.data_ptr(), sizes.data_ptr()))
    if int(sizes[0, 0]) < 0:
        return None
    room = int(sizes.max())
    return [[hypothesis(ids[:size], terms[:size], specials.eos, options.length_penalty)
             for size, ids, terms in zip(*sentence, strict=True) if size]
            for sentence in zip(sizes.tolist(), tokens[..., :room].tolist(), log_p[..., :room].tolist(), strict=True)]
