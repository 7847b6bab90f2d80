"""A verb's words: what they mean, whatever their order, and what is said of those that mean nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.cli.arguments import parse, parse_with_overrides, split_overrides
from pellucid.cli.fields import Positional, Repeated, arguments_of
from pellucid.errors import ConfigError


@dataclass
class Many:
    """One argument of each kind."""

    runs: Positional[tuple[Path, ...]]
    """folders"""
    k: int = 5
    """how many"""
    beam_size: int | None = None
    timeout: float = 0.5
    name: str | None = None
    text: Repeated[tuple[str, ...]] = ()
    without: tuple[Literal["chrf", "ter"], ...] = ()
    """a score to leave out"""
    json: bool = False
    """as JSON"""


@dataclass
class One:
    """A place that must be taken, one that may be, and a flag that must be given."""

    run: Positional[Path]
    """a folder"""
    index: str
    """another folder"""
    question: Positional[str] = "-"


def test_what_is_left_out_is_what_the_field_says() -> None:
    assert parse(Many, "p", []) == Many(())
    assert parse(One, "p", ["a", "--index", "i"]) == One(Path("a"), "i")


@pytest.mark.parametrize(("words", "found"), [
    ("a b", Many((Path("a"), Path("b")))),
    ("--k 3 --beam-size=4 --timeout 2", Many((), k=3, beam_size=4, timeout=2.0)),
    ("--k -3 --timeout -.5", Many((), k=-3, timeout=-0.5)),
    ("--beam_size 4", Many((), beam_size=4)),
    ("--name=--json", Many((), name="--json")),
    ("--name=a_b=c", Many((), name="a_b=c")),
    ("--text --snake_case␣word", Many((), text=("--snake_case word",))),
    ("--name=", Many((), name="")),
    ("--text a --json --text b", Many((), text=("a", "b"), json=True)),
    ("--without chrf ter --k 1", Many((), k=1, without=("chrf", "ter"))),
    ("--without chrf --without ter", Many((), without=("chrf", "ter"))),
    ("-- --help", Many((Path("--help"),))),
    ("--k 1 --k 2", Many((), k=2)),
    ("--json -- --k", Many((Path("--k"),), json=True)),
    ("- -1", Many((Path("-"), Path("-1")))),
])
def test_words(words: str, found: Many) -> None:
    assert parse(Many, "p", [word.replace("␣", " ") for word in words.split()]) == found


@given(st.permutations([["a"], ["b"], ["--k", "7"], ["--json"], ["--text", "x y"], ["--name=--z"]]))
def test_flags_stand_anywhere(groups: list[list[str]]) -> None:
    runs = [Path(group[0]) for group in groups if len(group[0]) == 1]
    found = parse(Many, "p", [word for group in groups for word in group])
    assert found == Many(tuple(runs), k=7, name="--z", text=("x y",), json=True)


@given(st.permutations([["run"], ["why?"], ["--index", "i"]]))
def test_places_are_taken_in_order(groups: list[list[str]]) -> None:
    first, second = (group[0] for group in groups if len(group) == 1)
    assert parse(One, "p", [word for group in groups for word in group]) == One(Path(first), "i", second)


@pytest.mark.parametrize(("kind", "words", "what", "fix"), [
    (Many, "--beamsize 3", "--beamsize", "did you mean --beam-size?"),
    (Many, "--beam 3 a", "--beam is not", "--beam-size"),  # no flag is cut short
    (Many, "a --jsn=1", "--jsn", "--json"),
    (Many, "a -x 3", "-x", "p --help"),
    (Many, "--k many", "--k: invalid int value: 'many'", "--k N: how many"),
    (Many, "--k", "--k: expected one", "--k N: how many"),
    (Many, "--json=yes", "--json: ", "--json: as JSON"),
    (Many, "--without bleu", "'bleu'", "--without chrf|ter …: a score to leave out"),
    (One, "--index i", "RUN is missing", "RUN: a folder"),
    (One, "a", "--index is missing", "--index TEXT: another folder"),
    (One, "a b c --index i", "'c' is one word too many", "quotes"),
])
def test_what_means_nothing_is_refused_by_name(kind: type[Any], words: str, what: str, fix: str) -> None:
    with pytest.raises(ConfigError) as told:
        parse(kind, "p", words.split())
    assert what in told.value.what
    assert fix in told.value.fix
    assert told.value.where == "p"


@pytest.mark.parametrize(("words", "fix"), [
    ("--learning_rate 3", "say --train.learning_rate"), ("--learning-rate=3", "say --train.learning_rate"),
    ("--beam_size 3 --max_length 9", "say --data.generated.max_length or --model.max_length or --decode.max_length")])
def test_a_key_without_its_section_is_named_with_it(words: str, fix: str) -> None:
    with pytest.raises(ConfigError, match="there is no flag --") as told:
        parse_with_overrides(Many, "p", words.split())
    assert told.value.fix == fix
    assert parse_with_overrides(Many, "p", ["--beam_size", "3", "--", "--steps"])[0].beam_size == 3


def test_a_text_that_stands_for_a_flag_or_lacks_its_quotes_is_told_how(cli: Any) -> None:
    cli("translate", "run", "the cat").says(2, "'the cat' is one word", "echo 'the cat' | pellucid translate RUN")
    cli("search", "idx", "the", "cat").says(2, "'cat' is one word", "quotes")


@pytest.mark.parametrize("words", [
    ["", "--index", "i"], ["a", "--index", "i", "--out", ""], ["a", "--index", "i", "--out="]])
def test_an_empty_path_is_not_the_current_folder(words: list[str]) -> None:
    @dataclass
    class Written(One):
        """One more."""

        out: Path | None = None
        """a file"""

    with pytest.raises(ConfigError, match="empty"):
        parse(Written, "p", words)


def test_keys_behind_two_hyphens_are_words() -> None:
    assert split_overrides(["a", "--seed", "3", "--", "--seed", "4"]) == (["a", "--", "--seed", "4"], {"seed": 3})


def test_how_they_are_shown() -> None:
    assert [one.shown for one in arguments_of(Many)] == [
        "RUN …", "--k N", "--beam-size N", "--timeout X", "--name TEXT", "--text TEXT", "--without chrf|ter …",
        "--json"]
    assert [one.shown for one in arguments_of(One)] == ["RUN", "--index TEXT", "QUESTION"]
