"""An output as it comes: after each step of the search, the best hypothesis so far."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import exp

from pellucid.config import DecodeConfig
from pellucid.data.tokenizers.interface import EOS, Tokenizer
from pellucid.runs.candidates import Generated
from pellucid.runs.openings import Opening, Speller
from pellucid.runs.run import Run
from pellucid.runs.texts import answers
from pellucid.search.observer import Decisions


@dataclass(frozen=True)
class Partial:
    """The beginning of an output; a later one need not go on from it, as long as a beam has others.

    Attributes:
        text: detokenised, its prefix included.
        tokens: its pieces.  probabilities: of each of them, given those before it.
    """

    text: str
    tokens: tuple[str, ...]
    probabilities: tuple[float, ...]


def stream(run: Run, text: str, tell: Callable[[Partial], None], prefix: str = "",
           options: DecodeConfig | None = None) -> Generated:
    """`run.generate` for one text, step by step.

    Args:
        tell: called after each step with the best hypothesis so far; what it raises ends the search, and comes out.
        prefix, options: as there; the text is one, whatever decode.split_sentences says.

    Raises:
        ConfigError: as there.
    """
    tokenizers = run.tokenizers
    telling = _Telling(tokenizers.target, Speller(tokenizers.target).opening(prefix), tell)
    options = replace(options or run.config.decode, split_sentences=False)
    decoder, limit = run.observed(telling, options), run.config.model.max_length
    return answers(decoder, tokenizers, run.fused([text]), limit, options, [prefix])[0]


class _Telling:
    """The observer of one sentence's search, which tells its best candidate at each step."""

    def __init__(self, tokenizer: Tokenizer, opening: Opening, tell: Callable[[Partial], None]) -> None:
        self._tokenizer, self._opening, self._tell = tokenizer, opening, tell

    def step(self, decisions: Decisions) -> None:
        ids, log_p = decisions.candidates.sequence(decisions.rows, 0, 0)
        if ids[-1] == EOS:
            del ids[-1], log_p[-1]
        self._tell(Partial(self._opening.say(ids), tuple(self._tokenizer.pieces(ids)), tuple(map(exp, log_p))))
