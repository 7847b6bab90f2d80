"""Generated documents: every answer stands where it is said to, is the only one, and splits share no document."""

import re
from pathlib import Path
from random import Random

import pytest

from pellucid.config.mapping import from_mapping
from pellucid.data.generated.documents import _facts, documents
from pellucid.data.generated.grammar.clauses import ASKED_WHAT
from pellucid.data.generated.grammar.lexicon import PEOPLE
from pellucid.data.reading import question_of
from pellucid.data.splits import open_splits

SIZES = {"train": 300, "validation": 50, "test": 100}


def test_answers_stand_where_they_are_said_to() -> None:
    pairs = [(text, question_of(line)) for made in documents(SIZES, 1).values() for text, line in made]
    assert all(text[answer.start :].startswith(answer.text) for text, question in pairs for answer in question.answers)
    assert len({(text, question.text) for text, question in pairs if question.answers}) == sum(
        bool(question.answers) for _, question in pairs)
    assert 0.15 < sum(not question.answers for _, question in pairs) / len(pairs) < 0.35


def test_what_is_not_answered_is_near_and_told_nowhere() -> None:
    nouns = {person.english for person in PEOPLE} | {one.english for frame in ASKED_WHAT for one in frame.objects}
    named: dict[str, list[bool]] = {"Who": [], "What": [], "Where": []}  # of the unanswered, whether one is told of
    for text, line in (pair for made in documents(SIZES, 1).values() for pair in made):
        question = question_of(line)
        kind, words = question.text.split()[0], set(re.findall(r"\w+", question.text))
        assert question.text.endswith("?")
        if kind == "Who":
            done = question.text.removeprefix("Who ").removesuffix("?")
            assert (f" {done} " in text) == bool(question.answers)
        if question.answers:
            start = {"Who": "The ", "What": "the ", "Where": ""}[kind]
            assert question.answers[0].text.startswith(start)
            assert set(question.answers[0].text.split()) & nouns or kind == "Where"
        else:
            named[kind].append(bool(words & nouns & set(re.findall(r"\w+", text))))
    assert all(named["Where"])
    assert all(sum(some) > len(some) / 5 for some in named.values())
    assert 0.6 < sum(map(sum, named.values())) / sum(map(len, named.values())) < 0.75


def test_each_person_and_thing_of_a_document_is_told_of_once() -> None:
    documents = [_facts(Random(seed)) for seed in range(300)]
    assert {len(facts) for facts in documents} == {3, 4, 5, 6}
    for facts in documents:
        assert len({fact.person for fact in facts}) == len({fact.thing for fact in facts}) == len(facts)
        assert all(re.fullmatch(r"The \w+ \w+( for)? the \w+( \w+)+\.", fact.sentence) for fact in facts)
    assert any(" looked for the " in fact.sentence for facts in documents for fact in facts)


def test_of_few_documents_none_is_in_two_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.data.generated.documents._SENTENCES", (1, 1))
    made = documents({"train": 3000, "validation": 600, "test": 600}, 1)
    texts = [{text for text, _ in pairs} for pairs in made.values()]
    assert [len(some) for some in texts] == [1000, 200, 200]
    assert len(set.union(*texts)) == 1400


def test_no_document_is_in_two_splits_and_all_are_the_same_again() -> None:
    made = documents(SIZES, 1)
    assert {name: len(pairs) for name, pairs in made.items()} == SIZES
    texts = [{text for text, _ in pairs} for pairs in made.values()]
    assert sum(map(len, texts)) == len(set.union(*texts))
    assert made == documents(SIZES, 1) != documents(SIZES, 2)
    more = documents(SIZES | {"train": 400}, 1)
    assert all(made[name] == more[name] for name in ("test", "validation"))


def test_they_are_written_and_read_as_they_were_made(tmp_path: Path) -> None:
    config = from_mapping({"task": "reading", "data": {"generated": {"task": "documents", **SIZES}}})
    splits = open_splits(config, tmp_path)
    assert {name: list(pairs) for name, pairs in splits.items()} == documents(SIZES, 1)
