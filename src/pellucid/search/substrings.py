"""Outputs that are a piece of given texts: an automaton over their tokens, which `Beginning` walks to the end.

A state is the set of places where what was said so far ends in the texts (Blumer et al. 1985): of n tokens there are
at most 2n. Imports no torch.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from pellucid.search.beginnings import Beginning, Choice


def substrings_of(texts: Iterable[Sequence[int]], eos: int) -> Beginning:
    """Any run of neighbours within one of the texts, then `eos`; of no text only `eos`."""
    tokens = [token for text in texts for token in (*text, None)]
    ends = np.array([eos], dtype=np.int64)
    states = {tuple(range(len(tokens))): 0}
    choices, waiting = list[Choice](), list(states)
    for places in waiting:  # which grows meanwhile
        after = defaultdict[int, list[int]](list)
        for place in places:
            if (token := tokens[place]) is not None:
                after[token].append(place + 1)
        ways = dict[int, int]()
        for token, reached in after.items():
            state = tuple(reached)
            if state not in states:
                states[state] = len(states)
                waiting.append(state)
            ways[token] = states[state]
        choices.append(Choice(ways, ends))
    return Beginning(tuple(choices))
