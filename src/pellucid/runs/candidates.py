"""What comes out for a text."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Candidate:
    """One way to say it.

    Attributes:
        text: detokenised.  tokens: its pieces.
        score: log-probability over the length penalty.  log_probability: of the whole, in nats, eos included.
        finished: it ended by itself; otherwise it was stopped at `decode.max_length`, and has no eos.
    """

    text: str
    tokens: tuple[str, ...]
    score: float
    log_probability: float
    finished: bool = True


@dataclass(frozen=True)
class Generated:
    """What came out for one line: the best text, and all hypotheses, best first.

    Attributes:
        cut: tokens of the line that were left out, because the model takes no longer ones.
        unknown: the parts of the line that its tokenizer does not know; the model reads UNK in their place.
        unknown_target: those of the prefix.
    """

    hypotheses: tuple[Candidate, ...]
    cut: int = 0
    unknown: tuple[str, ...] = ()
    unknown_target: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The best hypothesis' text."""
        return self.hypotheses[0].text

    @property
    def score(self) -> float:
        """The best hypothesis' score."""
        return self.hypotheses[0].score

    @property
    def tokens(self) -> tuple[str, ...]:
        """The best hypothesis' pieces."""
        return self.hypotheses[0].tokens


EMPTY = Generated((Candidate("", (), 0.0, 0.0),))


@dataclass(frozen=True)
class Classified:
    """The label of one text, and the probability of every label; `cut` and `unknown` as of `Generated`."""

    label: str
    probabilities: dict[str, float]
    cut: int = 0
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scored:
    """The log-probability of one given target, in nats: of each of its tokens, eos included, and of the whole; and
    `cut`, `unknown` and `unknown_target`, as of `Generated`."""

    tokens: tuple[str, ...]
    token_log_probabilities: tuple[float, ...]
    cut: int = field(default=0, compare=False)
    unknown: tuple[str, ...] = field(default=(), compare=False)
    unknown_target: tuple[str, ...] = field(default=(), compare=False)

    @property
    def log_probability(self) -> float:
        """The sum over tokens."""
        return sum(self.token_log_probabilities)
