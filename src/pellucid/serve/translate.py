"""A text of any length, translated: cut into sentences, each translated, and put together as it was."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from pellucid.runs.candidates import Generated
from pellucid.serve.alignment import CrossAttention
from pellucid.serve.catalogue import Served
from pellucid.serve.html import HtmlPassage, cut_html
from pellucid.serve.passages import Passage, cut
from pellucid.serve.service import Service
from pellucid.serve.tasks import Ask

_LONG = 4000  # characters, which take about 3 ms to cut: more is not done while others wait for an answer

Result = TypeVar("Result")


@dataclass(frozen=True)
class Wanted:
    """A text to translate.

    Attributes:
        served: by which run; None gives the text back.
        is_html: its tags are kept where their words go.
        alternatives: how many other translations are told.
    """

    text: str
    served: Served | None
    is_html: bool = False
    alternatives: int = 0

    @cached_property
    def ask(self) -> Ask | None:
        """What its sentences are decoded with."""
        if self.served is None:
            return None
        return self.served.some_each(1 + self.alternatives) if self.alternatives else self.served.one_each


@dataclass(frozen=True)
class Translated:
    """A translation, and others, the next best first, none of which is empty."""

    text: str
    alternatives: tuple[str, ...] = ()


async def aside(texts: Sequence[str], work: Callable[[], Result]) -> Result:
    """What `work` makes of the texts, on another thread where they are long."""
    return await run_in_threadpool(work) if sum(map(len, texts)) > _LONG else work()


async def translate(service: Service, request: Request, wanted: Sequence[Wanted]) -> list[Translated]:
    """The translation of each text; one that comes out empty stays as it was. Errors as of `Service.generate`."""
    read = [one.text for one in wanted]
    passages = await aside(read, lambda: [_cut(one) for one in wanted])
    asked: dict[Ask, list[str]] = {}
    for one, passage in zip(wanted, passages, strict=True):
        if one.ask is not None:
            asked.setdefault(one.ask, []).extend(passage.pieces)
    answers = await service.generate_all(request, list(asked.items()))
    found = {ask: iter(each) for ask, each in zip(asked, answers, strict=True)}
    works = [partial(_together, one, passage, [next(found[one.ask]) for _ in passage.pieces] if one.ask else [])
             for one, passage in zip(wanted, passages, strict=True)]
    if any(isinstance(passage, HtmlPassage) and passage.has_tags for passage in passages):
        return await service.alone_all(request, works)  # which words became which is asked of the model
    return await aside(read, lambda: [work() for work in works])


def _cut(one: Wanted) -> Passage | HtmlPassage:
    """The sentences of a text, each short enough for its run."""
    if one.served is None:
        return Passage(())
    tokenizer, limit = one.served.run.tokenizers.source, one.served.run.config.model.max_length
    return (cut_html if one.is_html else cut)(
        one.text, lambda text: _is_short(text, limit) or len(tokenizer.encode(text)) < limit)


def _is_short(text: str, limit: int) -> bool:
    """Whether any tokenizer makes fewer tokens of a text: at most one of each byte, once it is normalised and in lower
    case, which may take two bytes for one."""
    return 2 * len(text.encode()) + 1 < limit and unicodedata.is_normalized("NFKC", text)


def _together(one: Wanted, passage: Passage | HtmlPassage, found: Sequence[Generated]) -> Translated:
    if one.served is None:
        return Translated(one.text)
    each = [[_text(one, place) for one in found] for place in range(1 + one.alternatives)]
    align = CrossAttention(one.served.glass)
    whole = [_put(passage, texts, align) if any(map(str.strip, texts)) else "" for texts in each]
    best = whole[0] or one.text
    return Translated(best, tuple(dict.fromkeys(other for other in whole[1:] if other not in ("", best))))


def _put(passage: Passage | HtmlPassage, texts: Sequence[str], align: CrossAttention) -> str:
    return passage.put(texts, align) if isinstance(passage, HtmlPassage) else passage.put(texts)


def _text(found: Generated, place: int) -> str:
    """The hypothesis at this place, or the last of fewer."""
    return found.hypotheses[min(place, len(found.hypotheses) - 1)].text
