"""Whose fault a wrong output is: the search's, which missed what the model likes more, or the model's, which likes the
output more than the reference (Stahlberg and Byrne 2019, "On NMT Search Errors and Model Errors: Cat Got Your
Tongue?")."""

from collections.abc import Sequence
from dataclasses import dataclass

from pellucid.runs.candidates import Generated, Scored
from pellucid.runs.run import Run
from pellucid.search.options import length_penalty


@dataclass(frozen=True)
class SearchErrors:
    """Counts of sentences.

    Attributes:
        n: those with an output.  exact: the output is the reference, token by token.
        search_errors: others whose reference is more probable than the output, so that the search missed at least one
            better output; model_errors: all that are left.
        share: search_errors over n.
        search_errors_by_score: those whose reference has the higher score, log-probability over the length penalty of
            the run, which is what the search looks for.
    """

    n: int
    exact: int
    search_errors: int
    model_errors: int
    share: float
    search_errors_by_score: int


def search_errors(run: Run, sources: Sequence[str], generated: Sequence[Generated],
                  references: Sequence[Scored]) -> SearchErrors:
    """Compares each output with its reference, both scored by the same pass through the model.

    An output whose tokens are not those that its text is split into, or that was stopped before its end, keeps the
    log-probability that the search gave it.

    Args:
        references: their scores, as `run.score` gives them.
    """
    outputs = run.score(sources, [one.text for one in generated], cut=True)
    alpha = run.config.decode.length_penalty
    n = exact = by_probability = by_score = 0
    for source, found, again, reference in zip(sources, generated, outputs, references, strict=True):
        if not source.strip():
            continue
        n += 1
        best = found.hypotheses[0]
        is_same = best.finished and again.tokens[:-1] == best.tokens
        if best.tokens == reference.tokens[:-1]:
            exact += 1
            continue
        probability = again.log_probability if is_same else best.log_probability
        score = probability / length_penalty(len(best.tokens) + best.finished, alpha)
        by_probability += reference.log_probability > probability
        by_score += reference.log_probability / length_penalty(len(reference.tokens), alpha) > score
    return SearchErrors(n, exact, by_probability, n - exact - by_probability, by_probability / max(n, 1), by_score)
