"""Rows of questions and passages: windows that cover, spans that lead back to the characters, damaged files refused."""

import gzip
import json
import math
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.config import TokenizerConfig
from pellucid.data.cropping import cropping
from pellucid.data.reading import (
    Question,
    Reference,
    Texts,
    UnitReader,
    Units,
    example,
    extents_of,
    pack_span,
    place_alone,
    question_of,
    row_of,
    span_in,
    span_of,
    windows_of,
)
from pellucid.data.rivals import MOST, Rivals
from pellucid.data.squad import read_squad, squad_of
from pellucid.data.tokenizers.build import Tokenizers, train_tokenizers
from pellucid.data.tokenizers.interface import BOS, EOS
from pellucid.errors import DataError
from pellucid.retrieve.bm25 import K1, B

PASSAGE = "The king lost his key.\nＡＢＣ 范廷颂于1919年６月 👨‍👩‍👧 café cafe\u0301 ﬁn."
KINDS = ("word", "character", "sentencepiece")


def tokenizers(kind: str) -> Tokenizers:
    asked = Question("1", "who lost 1919 年", ()).as_json()
    config = TokenizerConfig(kind=kind, vocab_size=60 if kind == "sentencepiece" else 500)  # type: ignore[arg-type]
    return train_tokenizers(config, Texts([(PASSAGE, asked)] * 30, kind == "character"), "reading")


ALL = {kind: UnitReader(tokenizers(kind)) for kind in KINDS}


@given(st.integers(0, 30), st.integers(0, 400), st.integers(62, 90))
def test_windows_cover_the_passage_and_each_fits(question: int, passage: int, limit: int) -> None:
    windows = windows_of(question, passage, limit)
    assert {i for begin, end in windows for i in range(begin, end)} == set(range(passage))
    assert all(question + 2 + end - begin <= limit for begin, end in windows)
    assert len(windows) == 1 or windows[-1][1] > windows[-2][1]


def asked_of(length: int, asked: int, first: int = 1000) -> tuple[Units, Units]:
    """A question and a passage, of tokens that are all different."""
    return (Units([100 + i for i in range(asked)], [(i, i + 1) for i in range(asked)]),
            Units([first + i for i in range(length)], [(i, i + 1) for i in range(length)]))


@given(st.integers(1, 20), st.integers(1, 300), st.integers(44, 90), st.booleans(), st.booleans(), st.data())
def test_a_piece_of_a_passage_holds_its_answer(asked: int, length: int, limit: int, is_answered: bool, is_alone: bool,
                                               data: st.DataObject) -> None:
    question, passage = asked_of(length, asked)
    row = row_of(question, passage, limit)
    start = data.draw(st.integers(0, length - 1))
    span = span_in(row, passage, Reference("x" * data.draw(st.integers(1, 5)), start)) if is_answered else (0, 0)
    if span is None:
        return
    rows, spans = [row.ids], [[pack_span(*span)]]
    if not is_alone:
        rows.append(row_of(question, asked_of(data.draw(st.integers(2, 300)), asked, 5000)[1], limit).ids)
        spans.append([pack_span(0, 0)])
    cropped, numbers = cropping(limit)(rows, spans, Random(data.draw(st.integers(0, 99))))
    ids, number, room = cropped[0], numbers[0][0], limit - asked - 2
    piece, beside = ids[asked + 2 : asked + 2 + min(length, room)], ids[asked + 2 + min(length, room) :]
    assert ids[: asked + 2] == row.ids[: asked + 2]
    assert piece == list(range(piece[0], piece[0] + min(length, room))), "a piece without a gap, and full"
    assert bool(beside) <= (length > room), "a passage that fits is left as it is"
    assert is_alone or bool(beside) == (length > room), "there is always another piece where there is another passage"
    if beside:
        assert beside == [EOS, *range(beside[1], beside[1] + len(beside) - 1)], "another one without a gap"
        assert len(beside) == 1 + room or beside[1] >= 5000
        assert len(beside) <= 1 + room
    first, last = span_of(number)
    assert ids[first : last + 1] == row.ids[span[0] : span[1] + 1], "the answer, or bos"
    if is_answered:
        answer = set(row.ids[span[0] : span[1] + 1])
        assert not answer & set(beside), "of the answer there is nothing"
        assert beside or length <= room or min(answer) - 1000 < room > 999 + length - max(answer), "or no room for it"


def test_pieces_differ_from_epoch_to_epoch_and_reach_everywhere() -> None:
    question, passage = asked_of(200, 1)
    row = row_of(question, passage, 63)
    span = span_in(row, passage, Reference("x", 100))
    assert span is not None
    rows, spans = [row.ids, row_of(question, asked_of(90, 1, 5000)[1], 63).ids], [[pack_span(*span)], [pack_span(0, 0)]]
    drawn = [cropping(63)(rows, spans, Random(seed))[0][0] for seed in range(4000)]
    assert {ids[3] - 1000 for ids in drawn} == set(range(41, 101)), "from where the answer comes last to first"
    beside = {ids[64] for ids in drawn}
    assert {i - 1000 for i in beside if i < 5000} == {*range(41), *range(101, 141)}, "from the first token to the last"
    assert {i - 5000 for i in beside if i >= 5000} == set(range(31)), "of the other passage likewise"
    assert 0.45 < sum(ids[64] < 5000 for ids in drawn) / len(drawn) < 0.55, "of each passage every other time"


TOKENS = st.lists(st.integers(4, 7), max_size=12)


@given(st.lists(st.tuples(TOKENS, TOKENS), min_size=1, max_size=9))
def test_rivals_are_the_other_passages_that_fit_best(rows: list[tuple[list[int], list[int]]]) -> None:
    """By the equation of retrieve/bm25.py, in plain Python."""
    rivals = Rivals([passage for _, passage in rows])
    passages = list(dict.fromkeys(tuple(passage) for _, passage in rows))
    counts = [Counter(pairwise(passage)) for passage in passages]
    average = sum(count.total() for count in counts) / len(passages)

    def fits(question: list[int], count: Counter[tuple[int, int]]) -> float:
        score = 0.0
        for pair in set(pairwise(question)) & count.keys():
            holders = sum(pair in other for other in counts)
            rarity = math.log(1 + (len(passages) - holders + 0.5) / (holders + 0.5))
            score += rarity * count[pair] / (count[pair] + K1 * (1 - B + B * count.total() / average))
        return score

    for question, own in rows:
        found = rivals.of(question, own)
        others = [passage for passage in passages if passage != tuple(own)]
        if max(map(len, passages)) < 2:
            assert not found
            continue
        scores = {passage: fits(question, count) for passage, count in zip(passages, counts, strict=True)}
        best = sorted((scores[passage] for passage in others), reverse=True)[:MOST]
        assert len(set(map(tuple, found))) == len(found) == len(best)
        assert tuple(own) not in map(tuple, found)
        assert [scores[tuple(passage)] for passage in found] == pytest.approx(best, abs=1e-5), "the best first"


def test_of_rivals_that_fit_alike_the_first_come_first() -> None:
    """Else which they are would be the sorting's choice, which is another on another processor."""
    passages = [[5, 6, number] for number in range(7, 700)]
    rivals = Rivals(passages)
    assert rivals.of([5, 6], passages[2]) == [tuple(passages[number]) for number in (0, 1, 3, 4, 5)]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(text=st.text(max_size=40).map(lambda text: PASSAGE + text), limit=st.integers(16, 60), data=st.data())
def test_the_span_of_an_answer_covers_its_characters(kind: str, text: str, limit: int, data: st.DataObject) -> None:
    text = text.encode("utf-8", "replace").decode()
    units, question = ALL[kind].read(text), ALL[kind].read("who lost?")
    start = data.draw(st.integers(0, len(text) - 1))
    answer = Reference(text[start : start + data.draw(st.integers(1, 4))], start)
    row = row_of(question, units, limit)
    span = span_in(row, units, answer)
    if span is None:
        return
    place, holders = 1 + len(question.ids[: limit // 2 - 1]), 0
    for begin, end in row.windows:
        assert row.ids[place] == EOS
        if place < span[0] <= place + end - begin:
            first, last = (begin + one - place - 1 for one in span)
            covered = text[units.extents[first][0] : units.extents[last][1]]
            assert answer.text.strip() in covered
            assert [units.ids[first], units.ids[last]] == [row.ids[span[0]], row.ids[span[1]]]
            holders += 1
        place += 1 + end - begin
    assert holders == 1


def test_of_the_windows_that_hold_an_answer_the_one_counts_that_shows_most_around_it() -> None:
    """Windows of the tokens 0 to 7 and 6 to 13: behind 6 there is one more in the first, before 7 one in the second."""
    passage = Units(list(range(10, 24)), [(i, i + 1) for i in range(14)])
    row = row_of(Units([5], [(0, 1)]), passage, 11)
    assert row.windows == [(0, 8), (6, 14)]
    assert [span_in(row, passage, Reference("x", start)) for start in (6, 7)] == [(9, 9), (13, 13)]


def test_extents_are_in_order_and_hold_all_that_is_no_space() -> None:
    for is_character in (False, True):
        extents = extents_of(PASSAGE, is_character)
        assert all(a < b <= c for (a, b), (c, _) in pairwise(extents))
        assert "".join("".join(PASSAGE[a:b] for a, b in extents).split()) == "".join(PASSAGE.split())


def test_a_question_that_no_passage_answers_points_at_the_beginning() -> None:
    reader = ALL["word"]
    row, number = example(reader.read("a b"), reader.read("c"), Question("1", "c", ()), 16)
    assert (row.ids[0], number) == (BOS, pack_span(0, 0))
    nowhere = Question("1", "c", (Reference("b or not", -1),))
    assert example(reader.read("a b"), reader.read("c"), nowhere, 16)[1] is None


def test_what_is_learned_leads_to_the_answer_and_a_passage_of_too_many_windows_is_not_learned_from() -> None:
    """Windows of 8 tokens, each 6 behind the one before: 16 of them reach 98 tokens, from 99 on there are 17."""
    question = Units([5, 6], [(0, 1), (1, 2)])
    for length in (8, 98, 99):
        passage = Units(list(range(10, 10 + length)), [(i, i + 1) for i in range(length)])
        row, number = example(passage, question, Question("1", "", (Reference("xyz", 4),)), 12)
        if length == 99:
            assert (len(row.windows), number) == (17, None)
        else:
            assert number is not None
            first, last = span_of(number)
            assert row.ids[first : last + 1] == [14, 15, 16]
            again = example(passage, question, Question("1", "", (Reference("x", 0),)), 12)[1]
            assert again == pack_span(4, 4)  # of the answer at the very beginning


def test_a_place_leads_to_the_same_token_where_its_window_is_read_alone() -> None:
    passage = Units(list(range(10, 31)), [(i, i + 1) for i in range(21)])
    row, place = row_of(Units([5, 6], [(0, 1), (1, 2)]), passage, 12), 3
    assert len(row.windows) == 4
    for number, (begin, end) in enumerate(row.windows):
        alone = [BOS, 5, 6, EOS, *passage.ids[begin:end]]
        for token in passage.ids[begin:end]:
            place += 1
            window, there = place_alone(row, place)
            assert (row.ids[place], window, alone[there]) == (token, number, token)
        place += 1  # the eos between two
    with pytest.raises(ValueError, match="lies in no window"):
        place_alone(row, place)


@given(st.integers(0, 2**16 - 1), st.integers(0, 2**15 - 1))
def test_a_span_is_one_number(first: int, length: int) -> None:
    assert span_of(pack_span(first, first + length)) == (first, first + length)


def squad(folder: Path, context: str, answers: object, name: str = "q.json") -> str:
    content = json.dumps({"data": [{"paragraphs": [{"context": context, "qas": [
        {"id": "7", "question": "who?", "answers": answers}]}]}]}).encode()
    (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return str(folder / name)


def test_the_layout_of_squad_is_read_and_a_place_that_is_wrong_is_put_right(tmp_path: Path) -> None:
    path = squad(tmp_path, "a bee, a cat, a bee", [{"text": "bee", "answer_start": 13}], "q.json.gz")
    (number, context, line), = read_squad(path)
    assert (number, context) == (1, "a bee, a cat, a bee")
    assert question_of(line) == Question("7", "who?", (Reference("bee", 16),))
    (_, _, line), = read_squad(squad(tmp_path, "a bee", [{"text": "ant", "answer_start": 2}]))
    assert question_of(line).answers == (Reference("ant", -1),)


@pytest.mark.parametrize(("context", "text", "start", "found"), [
    ("ab ab ab", "ab", 3, 3), ("ab ab ab", "ab", 4, 3), ("ab ab ab", "ab", 5, 6), ("ab ab ab", "ab", 99, 6),
    ("ab ab ab", "ab", -1, 0), ("ab ab ab", "ab", None, 0), ("c ab ab", "ab", None, 2), ("ab ab ab", " ab ", 2, 3),
    ("ab", "zz", 1, -1), ("ab", " ", 1, -1), ("a " * 3000, "a", 5000, 5000), ("a\ud800b", "\ud800b", 1, 1)])
def test_an_answer_is_where_it_is_said_to_be_or_nearest_to_there(context: str, text: str, start: int | None, found: int,
                                                                 tmp_path: Path) -> None:
    answer = {"text": text} | ({} if start is None else {"answer_start": start})
    (_, passage, line), = read_squad(squad(tmp_path, context, [answer]))
    (reference,) = question_of(line).answers
    assert (reference.start, "\ud800" in passage + reference.text) == (found, False)
    assert found < 0 or passage[found:].startswith(reference.text)


def test_what_is_written_in_that_layout_is_read_again(tmp_path: Path) -> None:
    asked = [Question("1", "who?", (Reference("b", 2), Reference("a", 0))), Question("x", "où?", ())]
    pairs = [("a b", asked[0].as_json()), ("a b", asked[1].as_json()), ("c", asked[1].as_json())]
    (tmp_path / "q.json").write_text(squad_of(pairs), encoding="utf-8")
    assert [pair for _, *pair in read_squad(str(tmp_path / "q.json"))] == [list(pair) for pair in pairs]
    assert squad_of(pairs).count("context") == 2  # one for all its questions
    content = json.loads(squad_of(pairs[:1]))
    content["data"][0]["paragraphs"][0]["qas"][0] |= {"is_impossible": True}
    (tmp_path / "q.json").write_text(json.dumps(content))
    (_, _, line), = read_squad(str(tmp_path / "q.json"))
    assert question_of(line).answers == ()


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"data": 1}', '{"data": [{"paragraphs": [{"qas": []}]}]}',
                                     '{"data": [{"paragraphs": [{"context": "a", "qas": [{"question": "b"}]}]}]}',
                                     '{"data": [{"paragraphs": [{"context": "a", "qas": [{"question": "b", "answers": '
                                     '[{"text": "a", "answer_start": "x"}]}]}]}]}', "[" * 100_000])
def test_what_is_no_such_file_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(DataError):
        list(read_squad(str(path)))


def test_a_file_in_another_encoding_is_told_by_line_and_byte(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(b'{"data":\n["caf\xe9"]}')
    with pytest.raises(DataError, match="the file is not valid UTF-8") as error:
        list(read_squad(str(path)))
    assert (error.value.where, error.value.why) == (f"{path}:2", "byte 0xe9 at offset 14 of the file")
