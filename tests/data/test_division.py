"""Division: every text has one part, twins have the same, the parts are as large as asked, and the test never moves."""

from __future__ import annotations

import hashlib
import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.data.division import SCHEMES, Division, place

SHARES = st.floats(0, 0.5)
NUMBERS = [" ".join(str(i * 7 % 10) for i in range(j, j + 4)) + f" {j}" for j in range(20_000)]
KINDS = {
    "words": [f"sentence {i}" for i in range(20_000)],
    "numbers": NUMBERS,
    "digits": [" ".join(str(i)) for i in range(20_000)],
    "brackets": ["".join("()[]{}<>"[i >> 3 * j & 7] for j in range(5)) for i in range(20_000)],
    "Chinese": [chr(0x4E00 + i // 140) + chr(0x5E00 + i % 140) for i in range(20_000)],
    "Thai": [chr(0x0E01 + i % 40) + chr(0x0E34 + i // 40 % 6) + chr(0x0E01 + i // 240 % 40) + chr(0x0E01 + i // 9600)
             for i in range(19_200)],
    "private": [chr(0xE000 + i // 100) + chr(0xE800 + i % 100) for i in range(20_000)],
}


@settings(deadline=None)
@given(st.text(), SHARES, SHARES)
def test_twins_share_a_part(text: str, validation: float, test: float) -> None:
    division = Division(validation, test)
    assert division.part_of(f"a{text}") == division.part_of(f"A {text.lower()} !")


def test_help_me_and_its_twins_share_a_part_at_every_share() -> None:
    for share in (0.01 * i for i in range(1, 50)):
        division = Division(share, share)
        assert len({division.part_of(text) for text in ("Help me!", "help me !", "help me", "HELP ME…")}) == 1


@settings(deadline=None)
@given(st.text(), SHARES, SHARES, SHARES)
def test_the_test_is_the_same_whatever_is_set_aside_for_validation(text: str, one: float, other: float,
                                                                  test: float) -> None:
    assert (Division(one, test).part_of(text) == "test") == (Division(other, test).part_of(text) == "test")


@settings(deadline=None)
@given(st.text(), SHARES, SHARES, SHARES)
def test_a_smaller_share_lies_within_a_larger_one(text: str, share: float, more: float, test: float) -> None:
    if Division(share, test).part_of(text) == "validation":
        assert Division(share + more, test).part_of(text) == "validation"
    if Division(share, test).part_of(text) == "test":
        assert Division(share, test + more).part_of(text) == "test"
    if Division(share, test).part_of(text) == "validation":  # a test share takes from it, and adds nothing
        assert Division(share, 0).part_of(text) == "validation"


@pytest.mark.parametrize(("validation", "test"), [(0.05, 0), (0.05, 0.1), (0.3, 0.4), (0, 0.02)])
@pytest.mark.parametrize("kind", KINDS)
def test_the_parts_are_as_large_as_asked(kind: str, validation: float, test: float) -> None:
    """Within four and a half standard deviations of the binomial."""
    texts = KINDS[kind]
    assert len(set(texts)) == len(texts)
    found = Counter(map(Division(validation, test).part_of, texts))
    assert found.total() == len(texts)
    for part, share in (("test", test), ("validation", (1 - test) * validation)):
        deviation = math.sqrt(share * (1 - share) * len(texts))
        assert abs(found[part] - share * len(texts)) <= 4.5 * deviation


@settings(deadline=None)
@given(st.text(), st.sampled_from(SCHEMES), SHARES, SHARES)
def test_what_is_not_asked_for_is_empty(text: str, scheme: int, validation: float, test: float) -> None:
    division = Division(validation, test, scheme)
    assert division.part_of(text) in division.parts
    assert Division(0, 0, scheme).part_of(text) == "train"
    assert Division(scheme=scheme).parts == ("train",)


def test_the_place_of_a_text_is_its_hash_for_each_part_another() -> None:
    assert place("a cat") == int(hashlib.blake2b(b"a cat", digest_size=8).hexdigest(), 16) / 2**64
    test = hashlib.blake2b(b"acat", digest_size=8, person=b"test").hexdigest()
    at = int(test, 16) / 2**64
    assert Division(test=math.nextafter(at, 1)).part_of("A cat.") == "test"
    assert Division(test=at).part_of("A cat.") == "train"


@settings(deadline=None)
@given(st.text(), SHARES, SHARES)
def test_the_first_scheme_is_what_it_was(text: str, validation: float, test: float) -> None:
    """One hash of the text as it stands; an interval of its places for each part."""
    data = text.encode("utf-8", "surrogatepass")
    at = int.from_bytes(hashlib.blake2b(data, digest_size=8).digest()) / 2**64
    low, high = validation, validation + test
    expected = "validation" if at < low else "test" if low <= at < high else "train"
    assert Division(validation, test, 1).part_of(text) == expected
