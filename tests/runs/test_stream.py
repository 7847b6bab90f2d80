"""What is told as it comes is the search's best so far, and in the end what `generate` gives."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import log

import pytest
from tests.promises.tiny import SUBWORDS, tiny_classifier, tiny_run

from pellucid.errors import ConfigError
from pellucid.runs.run import Run
from pellucid.runs.stream import Partial, stream


@pytest.fixture(scope="module")
def run() -> Run:
    return tiny_run(1, {}, {}, SUBWORDS)


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("prefix", ["", "le ch"])
def test_a_stream_ends_in_what_generate_gives(beam_size: int, prefix: str, run: Run) -> None:
    options = replace(run.config.decode, beam_size=beam_size)
    told: list[Partial] = []
    found = stream(run, "the cat sleeps .", told.append, prefix, options)
    assert found == run.generate(["the cat sleeps ."], prefixes=[prefix], options=options)[0]
    assert all(one.text.startswith(prefix) for one in told)
    assert all(len(one.tokens) == len(one.probabilities) for one in told)
    assert all(0 < p <= 1 for one in told for p in one.probabilities)
    if beam_size == 1:  # each goes on where the one before it ended, and their probabilities are the score's
        assert all(b.tokens[: len(a.tokens)] == a.tokens for a, b in pairwise(told))
        assert (told[-1].text, told[-1].tokens) == (found.text, found.tokens)  # without the end
        assert sum(map(log, told[-1].probabilities)) >= found.hypotheses[0].log_probability - 1e-9


def test_what_is_streamed_is_not_divided_into_sentences(run: Run) -> None:
    text, options = "The cat sleeps. The cat.", run.config.decode
    whole = run.generate([text], options=options)[0]
    divided = replace(options, split_sentences=True)
    assert stream(run, text, lambda partial: None, options=divided) == whole != run.generate([text], options=divided)[0]


def test_who_has_gone_ends_the_search(run: Run) -> None:
    told: list[Partial] = []

    def tell(partial: Partial) -> None:
        told.append(partial)
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError, match="gone"):
        stream(run, "the cat", tell)
    assert len(told) == 1


def test_an_empty_text_is_an_empty_stream(run: Run) -> None:
    told: list[Partial] = []
    assert stream(run, " ", told.append).text == ""
    assert told == []
    with pytest.raises(ConfigError, match="cannot generate"):
        stream(tiny_classifier(1, {}), "the cat", told.append)


def test_an_observer_has_the_faster_ways_refused(run: Run) -> None:
    class Counts:
        steps = 0

        def step(self, decisions: object) -> None:
            self.steps += 1

    route = run.observed(Counts()).route
    assert route.decoder in ("engine by steps", "plain steps")
    assert all("observer" in reason for name, reason in route.against.items() if name in ("kept engine", "engine"))
