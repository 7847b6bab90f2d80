"""Generated documents: every answer stands where it is said to, is the only one, and splits share no document."""

from pathlib import Path

from pellucid.config.mapping import from_mapping
from pellucid.data.generated.documents import documents
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
    for text, line in (pair for made in documents(SIZES, 1).values() for pair in made):
        question = question_of(line)
        if question.text.startswith("Who"):
            done = question.text.removeprefix("Who ").removesuffix("?")
            assert (f" {done} " in text) == bool(question.answers)
            assert question.answers or set(done.split()[1:]) & set(text.split())


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
