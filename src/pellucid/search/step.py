"""What search sees of a model: a first state, one step, and a choice of rows.

A row is one hypothesis being extended: R = N sentences at first, R = N · beam_size later. The state is the model's own
(for a Transformer the encoder's output and the key-value cache); search passes it on and never looks inside, so that
it can be tested on a lookup table.
"""

from typing import Protocol, TypeVar

from torch import Tensor

Source_contra = TypeVar("Source_contra", contravariant=True)
State = TypeVar("State")


class Step(Protocol[Source_contra, State]):
    """A conditional language model p(y_t | y_<t, x), one token at a time.

    What search promises: rows stay sorted by sentence; after `start` there is one row a sentence, in beam search from
    the first `select` on exactly `beam_size` rows a sentence (some may be dead: their tokens are in the vocabulary,
    their result is ignored); a row's parent is a row of the same sentence; a dropped sentence never comes back.
    """

    def start(self, source: Source_contra) -> State:
        """The state before the first token, one row a sentence."""
        ...

    def step(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """Append tokens [R] (int64, on the CPU; the beginning of sequence at first) and score what may follow.

        Returns:
            logits [R, V], float32 or bfloat16, and the state that has seen `tokens`. The old state is not used again.
        """
        ...

    def select(self, state: State, rows: Tensor) -> State:
        """The state whose row i is row `rows[i]` of this one; rows [R'] (int64, on the CPU).

        Expands to beams, reorders them and drops sentences, often all in one call; never called when nothing changes.
        """
        ...
