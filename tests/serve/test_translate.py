"""What comes out empty is no translation, nor an alternative to one; nor is a translation an alternative to itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.promises.tiny import SUBWORDS, tiny_run
from tests.serve.asgi import serving

from pellucid.runs.candidates import Candidate, Generated


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
