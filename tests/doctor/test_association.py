"""What belongs together is learned from pairs alone, and scored as the equation says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from pellucid.doctor import association as module
from pellucid.doctor.association import FREQUENT, SIZE, Association, Vocabulary, aligned, learn, vocabulary
from pellucid.doctor.words import words_of

Lines = tuple[list[str], list[str]]
MakeUp = Callable[[int, int], Lines]
Translate = Callable[[str], str]


def learned(lines: Lines) -> Association:
    return learn([(words_of(lines[0]), words_of(lines[1]))])


def ids_of(text: str, vocabulary: Vocabulary) -> list[int]:
    """The ids of a line, word by word."""
    return [int(vocabulary.ids(words_of([word])).ids[0]) for word in text.split()]


def partners(association: Association, source: list[str], translate: Translate) -> list[bool]:
    """Of each word of the source lines, whether its partner is its translation."""
    return [association.partner[ids_of(name, association.source_ids)[0]]
            == ids_of(translate(name), association.target_ids)[0] for name in sorted(set(" ".join(source).split()))]


def test_rare_words_share_buckets_on_both_sides_and_numbers_have_their_own() -> None:
    frequent = vocabulary([words_of(["the"] * 5 + ["a the 2026"])])
    none = vocabulary([words_of(["the"])])
    assert ids_of("the", frequent) == [0]
    assert FREQUENT <= ids_of("2026", frequent)[0] < FREQUENT + 256 <= ids_of("Zanzibar", frequent)[0] < SIZE
    assert ids_of("Zanzibar", frequent) == ids_of("Zanzibar", none)


def test_frequent_words_stand_by_rank() -> None:
    lines = [" ".join(f"w{i}" for i in range(n)) for n in range(20)]  # w0 in most lines, then w1, …
    assert ids_of(" ".join(f"w{i}" for i in range(16)), vocabulary([words_of(lines)])) == list(range(16))


def test_the_most_frequent_words_get_partners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FREQUENT", 3)
    lines = [" ".join(f"w{i}" for i in range(n)) for n in range(20)]
    assert len(vocabulary([words_of(lines)]).words) == 3
    assert ids_of("w0 w1 w2", vocabulary([words_of(lines)])) == [0, 1, 2]


def test_every_word_finds_its_translation(made_up: MakeUp, translate: Translate) -> None:
    lines = made_up(800, 1)
    association = learned(lines)
    assert all(partners(association, lines[0], translate))
    assert association.power > 0.99


def test_translations_are_found_though_every_pair_has_slipped_by_two(made_up: MakeUp, translate: Translate) -> None:
    source, target = made_up(800, 1)
    assert np.mean(partners(learned((source[:-2], target[2:])), source, translate)) > 0.95


def test_sides_that_have_nothing_to_do_with_each_other_have_no_power(made_up: MakeUp) -> None:
    assert learned((made_up(600, 1)[0], made_up(600, 2)[1])).power == pytest.approx(0.5, abs=0.1)


def test_scores_are_the_sum_that_the_equation_gives(made_up: MakeUp, translate: Translate) -> None:
    """Against the same in plain loops; the lengths of pairs lie nearer to their mean than those of lines far apart."""
    source, target = made_up(400, 3)
    association = replace(learned((source, target)), ratio=(0.1, 0.2, 0.5))
    some = sorted(set(" ".join(source).split()))[:5]
    a = [" ".join(some), f"{some[0]} 7 {some[1]} unheard of", "", "alone"]
    b = [translate(" ".join(some)), f"{translate(some[0])} 7 x y z", "q w e r t", ""]
    left, right = association.source_ids.ids(words_of(a)), association.target_ids.ids(words_of(b))
    scores = association.scores(left, right, (-1, 0, 1))
    mean, near, far = association.ratio
    for i, line in enumerate(a):
        for column, offset in enumerate((-1, 0, 1)):
            j = i + offset
            if not 0 <= j < len(b) or not line or not b[j]:
                assert scores[i, column] == 0
                continue
            there = set(ids_of(b[j], association.target_ids))
            ids = ids_of(line, association.source_ids)
            total = sum(association.hit[f] if association.partner[f] in there else association.miss[f] for f in ids)
            ratio = np.log((len(b[j].split()) + 1) / (len(ids) + 1)) - mean
            total += max(stats.norm.logpdf(ratio, scale=near) - stats.norm.logpdf(ratio, scale=far), -4)
            assert scores[i, column] == pytest.approx(np.clip(total, -15, 15), abs=1e-3)


@pytest.mark.parametrize("slip", [-150, -5, -4, 0, 4, 5, 150])
def test_a_slip_is_found_by_lengths_alone(slip: int) -> None:
    """From farther away than words are learned from; a shorter one is left to the words."""
    sizes = np.random.default_rng(4).integers(1, 40, 800)
    source, target = (words_of([" ".join(f"{side}{i}" for i in range(n)) for n in each])
                      for side, each in (("s", sizes[200:600]), ("t", (sizes + 3)[200 - slip : 600 - slip])))
    lines = aligned((source, target))
    assert len(lines[0]) == len(lines[1]) == 400 - (abs(slip) if abs(slip) > 4 else 0)
    if abs(slip) > 4:
        assert (lines[1].sizes - lines[0].sizes == 3).all()


def test_lengths_that_have_nothing_to_do_with_each_other_show_no_slip() -> None:
    for seed in range(20):
        random = np.random.default_rng(seed)
        chunk = tuple(words_of([" ".join(map(str, range(n))) for n in random.integers(1, 40, 200)]) for _ in range(2))
        assert aligned((chunk[0], chunk[1])) == chunk


def test_partners_and_rates_are_what_plain_loops_count() -> None:
    """Of texts of several parts, words without a partner among them, numbers and rare words."""
    random = np.random.default_rng(5)
    chunks = [tuple([" ".join(random.choice([*letters, *"789", f"rare{i}", str(1000 + i)], random.integers(0, 5)))
                     for i in range(25)] for letters in ("abcdefghij", "ABCDEFG")) for _ in range(3)]
    found = module._learned([(words_of(source), words_of(target)) for source, target in chunks])
    ids = [[[set(ids_of(line, known)) for line in lines] for lines, known in
            zip(chunk, (found.source_ids, found.target_ids), strict=True)] for chunk in chunks]
    n_lines = sum(len(source) for source, _ in ids)
    for f in range(len(found.source_ids.words)):
        sizes = []
        for e in range(len(found.target_ids.words)):
            near = sum(f in source[i] and e in target[i + d] for source, target in ids for i in range(len(source))
                       for d in range(-4, 5) if 0 <= i + d < len(target))
            expected = 9 * sum(f in line for source, _ in ids for line in source) / n_lines * sum(
                e in line for _, target in ids for line in target)
            sizes.append((near - expected) / np.sqrt(expected + 1))
        assert [*sizes, 0.0][found.partner[f]] == pytest.approx(max(*sizes, 0.0))  # else a word that there is not
    assert found.partner[FREQUENT:].tolist() == list(range(FREQUENT, SIZE))

    def hits(f: int, offset: int, part: int) -> list[bool]:
        source, target = ids[part]
        return [found.partner[f] in target[i + offset] for i, line in enumerate(source)
                if f in line and 0 <= i + offset < len(target)]

    everything = sorted({f for source, _ in ids for line in source for f in line})
    best = [max(sorted(range(-4, 5), key=abs),
                key=lambda offset: np.mean([hit for f in everything for hit in hits(f, offset, part)]))
            for part in range(len(ids))]
    kinds = [[f] for f in everything if f < FREQUENT]
    kinds += [[f for f in everything if f >= FREQUENT and (f < FREQUENT + 256) == is_number] for is_number in (1, 0)]
    for same in kinds:
        there = [[hit for part in range(len(ids)) for f in same for hit in hits(f, offsets[part], part)]
                 for offsets in (best, [12] * len(ids))]
        more = 5 if same[0] < FREQUENT else 10
        near, far = (np.clip((sum(each) + 0.5) / (len(each) + more), 0.002, 0.98) for each in there)
        for f in same:
            assert found.hit[f] == pytest.approx(np.log(near / far), abs=1e-5)
            assert found.miss[f] == pytest.approx(np.log((1 - near) / (1 - far)), abs=1e-5)
