"""Runs beside each other: every score with both tests, and where they differ.

One score is chosen before anything is decoded; its p are corrected over all pairs of runs (Holm 1979). The others are
there to look at. All regard letter case, or none does.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, islice
from typing import Any

from pellucid.data.splits import open_splits
from pellucid.data.tokenizers.build import Tokenizers
from pellucid.errors import ConfigError, UserError, guess
from pellucid.evaluate import per_character
from pellucid.evaluate.differences import (
    Words,
    by_frequency,
    by_length,
    count_words,
    most_different,
    word_splitter,
)
from pellucid.evaluate.holm import holm
from pellucid.evaluate.reading import OF_READERS, OPEN, definition_of
from pellucid.evaluate.significance import (
    DEFAULT_RESAMPLES,
    DEFAULT_TRIALS,
    SentenceStatistics,
    approximate_randomisation,
    corpus_score,
    difference_interval,
    paired_bootstrap,
)
from pellucid.evaluate.translation import KINDS, LOWERCASE, SCORES
from pellucid.runs.run import Run

LIKELIHOODS = ("perplexity", per_character.NAME)
OF_CLASSIFIERS = ("accuracy", "macro_f1")
_MOST_PAIRS = 500_000  # of the training data, that words are counted in
_DRAWS_EACH = 100  # for every couple of runs, in each test


@dataclass(frozen=True)
class Evaluated:
    """A run's outputs on the pairs, the statistics of its scores, and the share of unknown tokens in its references."""

    name: str
    run: Run
    outputs: list[str]
    statistics: dict[str, SentenceStatistics]
    unknown: float


def in_lowercase(runs: Sequence[Run]) -> bool:
    """Whether scores of these runs disregard case: as soon as one of them can write lower case alone."""
    return any(run.tokenizers.config.lowercase for run in runs)


def chosen_score(runs: Sequence[Run], wanted: str | None, is_open: bool = False) -> str:
    """The score that the runs are tested by: `wanted`, or the one of their task; `is_open`: readers have an index.

    That is accuracy for classifiers, F1 for readers, exact matches for generated tasks whose lines are numbers, and
    otherwise chrF, recommended of the scores that compare strings by Kocmi et al. (2021), "To Ship or Not to Ship".

    Raises:
        ConfigError: there is no such score, or it cannot compare these runs; they have different tasks.
    """
    if len({run.config.task for run in runs}) > 1:
        raise ConfigError("the runs were trained for different tasks, so they cannot be compared",
                          where=", ".join(f"{run.folder}: {run.config.task}" for run in runs))
    config, lowercase = runs[0].config, LOWERCASE if in_lowercase(runs) else ""
    known: tuple[str, ...] = {"classification": OF_CLASSIFIERS, "reading": (*OF_READERS, *OPEN * is_open),
                              "seq2seq": (*SCORES, *LIKELIHOODS)}[config.task]
    if wanted is None:
        if config.task == "classification":
            return "accuracy"
        if config.task == "reading":
            return "f1"
        made = config.data.generated if config.data.train is None else None
        numbers = made is not None and made.task != "grammar"
        return ("exact" if numbers else "chrf") + lowercase
    if wanted not in known:
        raise ConfigError(f"there is no score {wanted}", where="--score",
                          fix=f"{guess(wanted, known)}choose {', '.join(known)}")
    for a, b in combinations(runs, 2):
        why = incomparable(wanted, a.tokenizers, b.tokenizers)
        if why:
            raise ConfigError(f"{wanted} does not compare {a.folder} with {b.folder}", where="--score", why=why,
                              fix="choose another score")
    return wanted


def incomparable(score: str, a: Tokenizers, b: Tokenizers) -> str:
    """Why this score of two runs is about different things, or an empty text."""
    if score == "perplexity" and a.target_sha256() != b.target_sha256():
        return "it is per token, and the target tokenizers differ"
    tidies = {(side.config.lowercase, side.config.strip_punctuation) for side in (a, b)}
    if score == per_character.NAME and len(tidies) > 1:
        return "one tokenizer changes case or punctuation otherwise than the other: the texts that they score differ"
    return ""


def compare(runs: Sequence[Evaluated], pairs: Sequence[tuple[str, str]], chosen: str,
            say: Callable[[str], None]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Every two runs: the rows of scores, groups by the `chosen` one, and the sentences that differ most by chrF, or
    accuracy, as plain data."""
    rows: list[dict[str, Any]] = []
    details: list[dict[str, Any]] = []
    frequencies: Frequencies | None = None
    lowercase, couples = in_lowercase([one.run for one in runs]), list(combinations(runs, 2))
    draws = _DRAWS_EACH * len(couples)  # or the smallest p, corrected for so many, could not be small
    for a, b in couples:
        say(f"comparing {a.name} with {b.name}")
        names, notes = _scores_of(a, b, chosen, lowercase)
        rows += [_row(a, b, name, draws) for name in names]
        of_a, of_b, outputs = a.statistics[chosen], b.statistics[chosen], (a.outputs, b.outputs)
        graded = {"classification": "accuracy", "reading": "f1"}.get(
            a.run.config.task, "chrf" + (LOWERCASE if lowercase else ""))
        graded = graded if graded in a.statistics else chosen
        words = word_splitter([source for source, _ in pairs], lowercase)
        detail: dict[str, Any] = {"a": a.name, "b": b.name, "score": chosen, "notes": notes,
                                  "by_length": by_length(of_a, of_b, [len(words(source)) for source, _ in pairs])}
        if a.run.config.task == "seq2seq":
            references = [reference for _, reference in pairs]
            frequencies = frequencies or _frequencies(runs[0].run, references, lowercase)
            detail["by_frequency"] = by_frequency(outputs, pairs, frequencies.counts, frequencies.words)
            detail["frequency_in"] = frequencies.where
        detail["sentences_by"] = graded  # of one sentence, exact matches say little, and BLEU nothing reliable
        detail["sentences"] = most_different(a.statistics[graded], b.statistics[graded], pairs, outputs)
        details.append({key: [one if isinstance(one, str) else asdict(one) for one in value]
                        if isinstance(value, list) else value for key, value in detail.items()})
    adjusted = holm([row["p"] if row["score"] == chosen else None for row in rows])
    return [{**row, "p_holm": p} for row, p in zip(rows, adjusted, strict=True)], details


def _scores_of(a: Evaluated, b: Evaluated, chosen: str, lowercase: bool) -> tuple[list[str], list[str]]:
    """The scores that compare two runs, the chosen one first, and what has to be said about them."""
    sides, notes = (a.run.tokenizers, b.run.tokenizers), []
    if a.run.config.task == "classification":
        wanted = list(OF_CLASSIFIERS)
    elif a.run.config.task == "reading":
        wanted = [name for name in (*OF_READERS, *OPEN) if name in a.statistics]
    else:
        wanted = [kind + (LOWERCASE if lowercase else "") for kind in KINDS]
        wanted += LIKELIHOODS[:1] if not incomparable("perplexity", *sides) else LIKELIHOODS
        wanted = [name for name in wanted if name in a.statistics]  # others were left out
    names, languages = [], {side.run.config.data.source_language for side in (a, b)} - {None}
    apart = a.run.config.task == "reading" and len({definition_of(language, ()) for language in languages}) > 1
    for name in dict.fromkeys([chosen, *wanted]):
        why = incomparable(name, *sides) or apart * "one is scored as SQuAD defines it, the other as CMRC 2018 does"
        if not why and not all(math.isfinite(corpus_score(one.statistics[name])) for one in (a, b)):
            why = "it is infinite"
        if why:
            notes.append(f"{name} is not compared: {why}")
        else:
            names.append(name)
            if not a.statistics[name].is_smooth:
                notes.append(f"{name} is tested by exchanges alone: both its p are by approximate randomisation")
    if len({side.config.strip_punctuation for side in sides}) > 1:
        notes.append(f"{'a' if sides[0].config.strip_punctuation else 'b'} strips punctuation, and is charged for the "
                     "marks of the references, which the other can write")
    if per_character.NAME in names and max(a.unknown, b.unknown) > 0:
        notes.append(f"{per_character.NAME}: {100 * a.unknown:.2f} % of a's reference tokens are unknown, "
                     f"{100 * b.unknown:.2f} % of b's, and an unknown one costs less than its characters")
    return names, notes


def _row(a: Evaluated, b: Evaluated, score: str, draws: int) -> dict[str, Any]:
    """One score of two runs, tested by `draws` draws at least."""
    both = a.statistics[score], b.statistics[score]
    by_exchange = approximate_randomisation(*both, max(draws, DEFAULT_TRIALS))
    found = asdict(paired_bootstrap(*both, (a.name, b.name), max(draws, DEFAULT_RESAMPLES)))
    p = found["p"] if both[0].is_smooth else by_exchange
    return {**found, "p": p, "interval": difference_interval(*both), "p_randomisation": by_exchange}


@dataclass(frozen=True)
class Frequencies:
    """How often each word occurs, and where that was counted."""

    counts: Counter[str]
    where: str
    words: Words


def _frequencies(run: Run, references: Sequence[str], lowercase: bool) -> Frequencies:
    """Of the training targets of `run`; of the references, where those are not there any more."""
    words = word_splitter(references, lowercase)
    try:
        training = open_splits(run.config, run.folder)["train"]
        return Frequencies(count_words((target for _, target in islice(training, _MOST_PAIRS)), words),
                           "the training data", words)
    except UserError:
        return Frequencies(count_words(references, words), "the references", words)
