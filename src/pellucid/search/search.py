"""One door to the three searches."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import torch

from pellucid.search.beam_search import beam_search
from pellucid.search.beginnings import Beginning, of_tokens
from pellucid.search.constraints import Rules
from pellucid.search.greedy import greedy_search
from pellucid.search.observer import Observer
from pellucid.search.options import Hypothesis, SearchOptions, Specials
from pellucid.search.sampling import sample
from pellucid.search.step import State, Step

Source = TypeVar("Source")


def search(step: Step[Source, State], source: Source, sentences: int, options: SearchOptions, specials: Specials,
           prefixes: Sequence[Sequence[int] | Beginning] | None = None,
           indices: Sequence[int] | None = None, observer: Observer | None = None) -> list[list[Hypothesis]]:
    """Sample, search greedily or search with a beam, as `options` say.

    A sentence's hypotheses depend on the sentence, its prefix, its index (samples only) and the options: not on the
    others in the batch, nor on their number or order, as far as the step computes each row alike in any batch.

    Args:
        source: what `step.start` takes, `sentences` of them.
        prefixes: for each sentence the tokens its hypotheses begin with, or several ways to begin them; may be empty. A
            prefix obeys no other rule but the maximum length.
        indices: for each sentence a number of its own; the draws and error messages go by it. 0, 1, … if left out.
        observer: told of every step; nobody if left out.

    Returns:
        For each sentence 1 to `n_best` distinct hypotheses, best score first.

    Raises:
        ValueError: prefixes or indices do not fit, or the model's logits are NaN (`NumericalError`).
    """
    indices = tuple(range(sentences)) if indices is None else tuple(indices)
    if len(indices) != sentences or any(index < 0 for index in indices):
        raise ValueError(f"indices must be {sentences} numbers from 0 up, one a sentence, not {list(indices)}")
    rules = Rules(options, specials, _beginnings(prefixes, sentences, specials), indices)
    if sentences == 0:
        return []
    with torch.inference_mode():
        state = step.start(source)
        if options.sample:
            return sample(step, state, rules, observer)
        if options.beam_size == 1:
            return greedy_search(step, state, rules, observer)
        return beam_search(step, state, rules, observer)


def _beginnings(prefixes: Sequence[Sequence[int] | Beginning] | None, sentences: int,
                specials: Specials) -> tuple[Beginning, ...]:
    prefixes = [()] * sentences if prefixes is None else prefixes
    if len(prefixes) != sentences:
        raise ValueError(f"prefixes must be {sentences}, one a sentence, not {len(prefixes)}")
    reserved = (specials.pad, specials.bos, specials.eos)
    begun = tuple(prefix if isinstance(prefix, Beginning) else of_tokens(prefix) for prefix in prefixes)
    for choice in (choice for beginning in begun for choice in beginning.choices):
        tokens = np.concatenate([choice.tokens[: len(choice.ways)], choice.ends[choice.ends != specials.eos]])
        if (tokens < 0).any() or np.isin(tokens, reserved).any():
            raise ValueError(f"a prefix must be made of token ids other than {reserved}, not {tokens.tolist()[:9]}")
    return begun
