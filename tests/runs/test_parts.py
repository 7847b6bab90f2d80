"""The parts of a line: drawn apart, and put together as one."""

from __future__ import annotations

from pellucid.config import TokenizerConfig
from pellucid.data.tokenizers.build import train_tokenizers
from pellucid.runs.candidates import Candidate, Generated
from pellucid.runs.parts import Part, join, parts_of, together


def test_no_two_parts_are_drawn_alike_and_the_first_as_its_line_is() -> None:
    parts = [Part(line, number, "") for line in range(5) for number in range(4)]
    assert len({part.drawn_by(7) for part in parts}) == len(parts)
    assert [part.drawn_by(7) for part in parts if part.number == 0] == [7, 8, 9, 10, 11]
    assert Part(3, 2, "").drawn_by(7) == Part(10, 2, "").drawn_by(0)  # wherever a call begins


def test_a_line_is_divided_into_what_fits_with_its_end_and_one_sentence_stays_as_it_is() -> None:
    texts = [" One two. ", "", " ", "One two.  Three four five six seven.\t", "One two three."]
    tokenizer = train_tokenizers(TokenizerConfig(kind="word"), [(text, text) for text in texts], "seq2seq").source
    assert parts_of(texts, tokenizer, None) == [Part(line, 0, texts[line]) for line in (0, 3, 4)]
    found = parts_of(texts, tokenizer, 4)
    assert found == [Part(0, 0, " One two. "), Part(3, 0, "One two."), Part(3, 1, "Three four"),
                     Part(3, 2, "five six seven."), Part(4, 0, "One two three.")]
    assert {len(tokenizer.encode(part.text)) for part in found} == {2, 3}  # of four, with the end


def test_several_are_one_with_sums_of_what_can_be_summed() -> None:
    first = Generated((Candidate("a b.", ("a", "b."), -1.0, -2.0),), 3, ("x",), ("u",))
    second = Generated((Candidate("c", ("c",), -0.5, -0.75, finished=False),), 4, ("y", "z"), ("v",))
    assert together([first]) is first
    assert together([first, second]) == Generated(
        (Candidate("a b. c", ("a", "b.", "c"), -1.5, -2.75, finished=False),), 7, ("x", "y", "z"), ("u", "v"))


def test_a_space_stands_between_but_behind_what_is_written_without() -> None:
    assert join(["One.", "Two.", "", "Three."]) == "One. Two. Three."
    assert join(["你好。", "世界"]) == "你好。世界"
    assert join(["", "안녕하세요.", "세상"]) == "안녕하세요. 세상"
    assert join([]) == ""
