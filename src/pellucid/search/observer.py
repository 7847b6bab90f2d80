"""Who watches a search: told at each step what it decides. A search that nobody watches does nothing for it."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from pellucid.search.rows import Candidates, Rows


@dataclass(frozen=True)
class Decisions:
    """What one step decided, of N sentences in beam search, else of N rows (one a sentence, `n_best` of samples).

    Args:
        rows: the hypotheses that were extended.
        candidates: what was found to extend them, c of each sentence, best first.
        kept: [N, c], true where a candidate lives on.
        finished: [N, c], true where it has ended. What is neither is pruned, or does not exist.
    """

    rows: Rows
    candidates: Candidates
    kept: Tensor
    finished: Tensor


class Observer(Protocol):
    """Watches a search."""

    def step(self, decisions: Decisions) -> None:
        """Called at each step, before the next one is computed. What it raises ends the search, and comes out of it."""
        ...
