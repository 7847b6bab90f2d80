"""A text is read to its end, and translated into what says something: what comes out empty is no translation, nor an
alternative to one; nor is a translation an alternative to itself."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.promises.tiny import SUBWORDS, tiny_run
from tests.serve.asgi import serving

from pellucid.runs.candidates import Candidate, Generated
from pellucid.serve.alignment import CrossAttention, Links


@pytest.mark.parametrize(("text", "form", "said", "best", "others"), [
    ("a cat", "text", ["x", "", "y", "x", "y"], "x", ["y"]), ("a cat", "text", ["", "x"], "a cat", ["x"]),
    ("a <b>cat</b>", "html", ["x", "", "y"], "<b>x</b>", ["<b>y</b>"]), ("<b>a</b>", "html", [" "], "<b>a</b>", []),
    ("", "text", ["x", "y"], "", []), (" ", "text", ["x"], " ", []), ("<br>", "html", ["x", "y"], "<br>", [])])
def test_only_what_says_something_is_told(text: str, form: str, said: Sequence[str], best: str, others: Sequence[str],
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    run = tiny_run(1, {}, {}, SUBWORDS)
    generate = run.generate

    def generated(texts: Sequence[str], **options: Any) -> list[Generated]:
        found = tuple(Candidate(one, (), 0.0, 0.0) for one in said)
        return [replace(one, hypotheses=found) for one in generate(texts, **options)]

    monkeypatch.setattr(run, "generate", generated)
    with serving({"run": run}, [("en", "fr")]) as server:
        answer = server.post("/translate", {"q": [text], "source": "en", "target": "fr", "format": form,
                                            "alternatives": len(said)}).json
    assert answer == {"translatedText": [best], "alternatives": [others]}


@pytest.mark.parametrize(("text", "form", "pieces"), [
    ("a" * 39, "text", ["a" * 39]), ("a" * 40, "text", ["a" * 20] * 2), ("a" * 40, "html", ["a" * 20] * 2),
    ("a &amp; <b>a</b>\na", "text", ["a &amp; <b>a</b>", "a"]), ("a &amp; <b>a</b>\na", "html", ["a & a a"])])
def test_a_text_is_cut_into_what_the_model_takes(text: str, form: str, pieces: Sequence[str],
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    run, read = tiny_run(1, {}, {}, SUBWORDS), list[str]()
    generate = run.generate

    def generated(texts: Sequence[str], **options: Any) -> list[Generated]:
        found = generate(texts, **options)
        assert not any(one.cut for one in found)
        read.extend(texts)
        return found

    monkeypatch.setattr(run, "generate", generated)
    with serving({"run": run}, [("en", "fr")]) as server:
        answer = server.post("/translate", {"q": text, "source": "en", "target": "fr", "format": form})
    assert (answer.status, sorted(read)) == (200, sorted(pieces))  # which is read first is the scheduler's affair


@pytest.mark.parametrize("texts", [["the <b>cat</b>"], ["the cat", "the <b>cat</b>", "<b></b>"]])
def test_the_model_is_looked_into_where_nobody_else_does(texts: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    looks, threads = CrossAttention.__call__, list[str]()

    def look(self: CrossAttention, pairs: Sequence[tuple[str, str]]) -> list[Links]:
        threads.append(threading.current_thread().name)
        return looks(self, pairs)

    monkeypatch.setattr(CrossAttention, "__call__", look)
    with serving({"run": tiny_run(1, {}, {}, SUBWORDS)}, [("en", "fr")]) as server:
        answer = server.post("/translate", {"q": texts, "source": "en", "target": "fr", "format": "html"})
    assert answer.status == 200
    assert [name.split()[0] for name in threads] == ["decoding"]
