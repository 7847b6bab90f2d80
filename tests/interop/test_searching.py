"""How outputs are searched for there, as our search: lengths that are bounded, and what is no number of anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pellucid.config import ModelConfig
from pellucid.interop.reading import Fields
from pellucid.interop.searching import decode_of, left_out
from pellucid.interop.vocabulary import rows_of

ROWS = rows_of(10, 7, 1, 5, 0)


def test_a_null_tells_nothing_and_a_file_of_its_own_all(tmp_path: Path) -> None:
    fields = Fields({"num_beams": 3, "repetition_penalty": None}, tmp_path / "config.json")
    assert fields.search == {"num_beams": 3}
    (tmp_path / "generation_config.json").write_text('{"max_length": 9, "guidance_scale": null}')
    assert fields.search == {"max_length": 9}


@pytest.mark.parametrize(("told", "longest", "shortest"), [
    ({}, 256, 0), ({"max_length": 13, "min_length": 5}, 12, 4), ({"max_length": 1}, 1, 0), ({"max_length": 0}, 256, 0),
    ({"max_length": True, "min_length": -3}, 256, 0), ({"max_length": 13, "max_new_tokens": 30}, 30, 0),
    ({"max_new_tokens": 30, "min_length": 9, "min_new_tokens": 2}, 30, 2), ({"max_length": 8, "min_length": 9}, 7, 6),
    ({"max_length": 10**9, "min_new_tokens": 10**9}, 10_000, 9_999), ({"max_length": 1, "min_length": 1}, 1, 0),
    ({"max_new_tokens": "12"}, 256, 0)])
def test_lengths_are_told_without_the_start(told: dict[str, Any], longest: int, shortest: int) -> None:
    """And the shortest is below the longest, as a run's must be: else it could not be opened."""
    decode = decode_of(told, ModelConfig(position="sinusoidal", max_length=50))
    assert (decode.max_length, decode.min_length) == (longest, shortest)


@pytest.mark.parametrize(("told", "longest"), [({}, 50), ({"max_length": 51}, 50), ({"max_length": 50}, 49),
                                               ({"max_new_tokens": 51}, 50)])
def test_an_output_has_no_more_tokens_than_a_table_has_positions(told: dict[str, Any], longest: int) -> None:
    assert decode_of(told, ModelConfig(position="learned", max_length=50)).max_length == longest


@pytest.mark.parametrize(("told", "width", "ngram"), [
    ({}, 1, 0), ({"num_beams": 5, "no_repeat_ngram_size": 3}, 5, 3), ({"num_beams": 10**6}, 1000, 0),
    ({"num_beams": 0, "no_repeat_ngram_size": -1}, 1, 0), ({"num_beams": "4", "no_repeat_ngram_size": 2.0}, 1, 0),
    ({"max_new_tokens": 4, "no_repeat_ngram_size": 9, "length_penalty": 2.0}, 1, 4)])
def test_how_wide_it_looks(told: dict[str, Any], width: int, ngram: int) -> None:
    decode = decode_of(told, ModelConfig())
    assert (decode.beam_size, decode.no_repeat_ngram, decode.length_penalty) == (width, ngram, 0.0)


@pytest.mark.parametrize(("told", "named"), [
    ({}, []), ({"eos_token_id": 0, "num_beams": 1, "early_stopping": True, "length_penalty": 2.0}, []),
    ({"eos_token_id": [0], "suppress_tokens": [7, 5], "bad_words_ids": [[7], [5]], "do_sample": False}, []),
    ({"eos_token_id": [0, 3]}, ["eos_token_id [0, 3]"]), ({"suppress_tokens": [0]}, ["suppress_tokens [0]"]),
    ({"bad_words_ids": [[7, 5]]}, ["bad_words_ids [[7, 5]]"]), ({"do_sample": True}, ["do_sample True"]),
    ({"num_beams": 2}, ["length_penalty 1.0"]), ({"num_beams": 2, "length_penalty": 0.0, "early_stopping": True},
                                                 ["early_stopping true"]),
    ({"num_beams": 2, "length_penalty": 0, "early_stopping": "never"}, [])])
def test_what_is_not_searched_for_here_is_named(told: dict[str, Any], named: list[str]) -> None:
    assert left_out(told, ROWS) == named
