"""Every answer is the piece of the user's file that it cites, whatever that holds and however it is laid out."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.promises.cited import LAYOUTS, PIECES, drawn, faults, write
from tests.promises.tiny import SUBWORDS, tiny_reader

from pellucid.runs.run import Run

TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=8), min_size=1, max_size=20).map("".join)


@pytest.fixture(scope="module")
def readers() -> list[Run]:
    return [tiny_reader(1, {"kind": "character"}), tiny_reader(2, {"kind": "word", "lowercase": True}),
            tiny_reader(3, SUBWORDS)]


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=3), question=TEXTS, layout=st.sampled_from(LAYOUTS),
       seed=st.integers(0, 99))
def test_an_answer_stands_where_it_says(readers: list[Run], texts: list[str], question: str, layout: str,
                                        seed: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        paths = write(Path(place), layout, [*texts, "the key"], Random(seed))
        questions = [question[:200], texts[0][:40], "the key"]
        assert not any(faults(readers[seed % 3], Path(place), paths, questions, 1 + seed % 4))


def test_most_of_them_are_answered_and_what_stands_elsewhere_is_found(
        readers: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = Random(1)
    paths = write(tmp_path, "folder", [drawn(draw) for _ in range(20)], draw)
    questions = ["the king", "范廷颂", "Dr. Who", "ABC", "flour"]
    assert len(list(faults(readers[0], tmp_path, paths, questions, 5))) >= 3
    monkeypatch.setattr("pellucid.runs.answers.Answer.place", ("0/0.txt", 1, 2))
    assert any(faults(readers[0], tmp_path, paths, questions, 5))
