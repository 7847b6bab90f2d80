"""Our own API: /v1/translate, /v1/score, /v1/classify, /answer, /v1/runs; what looks inside is in inside.py.

Bodies are JSON, read into the dataclasses of asked.py; answers are those of answered.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pellucid.config import Task
from pellucid.errors import UserError
from pellucid.retrieve.retriever import MOST, check_question
from pellucid.runs.candidates import Scored
from pellucid.runs.run import Run
from pellucid.serve import answered, streams
from pellucid.serve.alignment import CrossAttention
from pellucid.serve.answered import respond
from pellucid.serve.asked import Asked, Classify, Question, Score, Translate, read_asked, read_options
from pellucid.serve.catalogue import Served
from pellucid.serve.names import plain
from pellucid.serve.requests import HttpError, read_json
from pellucid.serve.service import Service
from pellucid.serve.tasks import Ask

_TOGETHER = 4096  # characters that are classified or scored at once
_MOST_TOKENS = 1024  # of a target that is scored

if TYPE_CHECKING:
    from pellucid.runs.answers import Answer

Result = TypeVar("Result")
Pair = tuple[str, str]


def routes(service: Service) -> list[Route]:
    """The routes of the API."""

    async def runs(request: Request) -> Response:
        return respond(answered.runs(service.catalogue.served))

    async def translate(request: Request) -> Response:
        return await _translate(service, request, await ask(service, request, Translate))

    async def score(request: Request) -> Response:
        return await _score(service, request, await ask(service, request, Score))

    async def classify(request: Request) -> Response:
        return await _classify(service, request, await ask(service, request, Classify))

    async def answer(request: Request) -> Response:
        return await _answer(service, request, await ask(service, request, Question))

    return [Route("/v1/runs", runs), Route("/answer", answer, methods=["POST"]),
            Route("/v1/translate", translate, methods=["POST"]),
            Route("/v1/score", score, methods=["POST"]), Route("/v1/classify", classify, methods=["POST"])]


async def _translate(service: Service, request: Request, asked: Translate) -> Response:
    texts = as_list(service, "text", asked.text)
    prefixes = [""] * len(texts)
    if asked.prefix is not None:
        prefixes = as_list(service, "prefix", asked.prefix)
        _require_pairs("text", asked.text, "prefix", asked.prefix)
    served = choose(service, asked.run, asked.source, asked.target)
    options = read_options(served.run, asked.options)
    if asked.stream:
        if options.split_sentences or not isinstance(asked.text, str):
            raise HttpError(400, "Invalid request: stream is for one text, which is not split into sentences")
        return await streams.stream(service, request, served, asked, options)
    found = await service.generate(request, Ask(served.run, options, has_prefixes=any(prefixes)), texts, prefixes)
    links = None
    if asked.alignments:
        pairs = list(zip(texts, (one.text for one in found), strict=True))
        links = await service.alone(request, lambda: CrossAttention(served.glass)(pairs))
    return respond(answered.translations(served, found, links))


async def _score(service: Service, request: Request, asked: Score) -> Response:
    sources, targets = as_list(service, "source", asked.source), as_list(service, "target", asked.target)
    _require_pairs("source", asked.source, "target", asked.target)
    served = choose(service, asked.run)

    def score(pairs: Sequence[Pair]) -> list[Scored]:
        for _, target in pairs:
            _require_length(served.run, target)
        return served.glass.score([source for source, _ in pairs], [target for _, target in pairs])

    pairs = list(zip(sources, targets, strict=True))
    return respond(answered.scores(served, await _in_turn(service, request, pairs, score)))


async def _classify(service: Service, request: Request, asked: Classify) -> Response:
    texts = [(text, "") for text in as_list(service, "text", asked.text)]
    served = choose(service, asked.run, asked.source, asked.target, "classification")
    found = await _in_turn(service, request, texts, lambda some: served.run.classify([text for text, _ in some]))
    return respond(answered.Classifications(served.name, tuple(found)))


async def _answer(service: Service, request: Request, asked: Question) -> Response:
    as_list(service, "question", asked.question)
    most, index = service.limits.texts or MOST, service.catalogue.index
    readers = [one for one in service.catalogue.served if one.run.config.task == "reading"]
    if index is None or not readers:
        raise HttpError(400, "Invalid request: this server has no index to answer from")
    served = readers[0] if asked.run is None else service.named(asked.run)
    if served not in readers or (asked.run is None and len(readers) > 1):
        raise HttpError(400, f"Invalid request: run must be one of {', '.join(one.name for one in readers)}")
    if not 1 <= asked.k <= most:
        raise HttpError(400, f"Invalid request: k is {asked.k}, and from 1 to {most} passages are read")

    def read() -> Answer:
        check_question(asked.question, asked.k)
        from pellucid.runs.answers import answers_in, passages_for  # needs torch, which is there only now

        try:
            passages = passages_for(index, [asked.question], asked.k)
        except UserError as error:
            raise HttpError(503, f"The index cannot be searched now: {error.what}", 60) from error
        return answers_in(served.run, [asked.question], passages)[0]

    found = (await service.alone(request, read)).to_mapping()
    passages = tuple(answered.ReadPassage(**one) for one in found["passages"])
    return respond(answered.Answer(**found | {"passages": passages}))


async def _in_turn(service: Service, request: Request, pairs: Sequence[Pair],
                   work: Callable[[Sequence[Pair]], list[Result]]) -> list[Result]:
    """What `work` gives for all pairs, called with some at a time: others have their turn in between."""
    groups: list[list[Pair]] = []
    room = 0
    for pair in pairs:
        room -= sum(map(len, pair))
        if room < 0 or not groups:
            groups.append([])
            room = _TOGETHER - sum(map(len, pair))
        groups[-1].append(pair)
    return list(chain.from_iterable(await service.alone_all(request, [partial(work, group) for group in groups])))


async def ask(service: Service, request: Request, kind: type[Asked]) -> Asked:
    """The request, read strictly, of somebody who may make it.

    Raises:
        HttpError: as of `read_json`, `Service.admit` and `read_asked`.
    """
    values = await read_json(request)
    service.admit(request, values)
    if not isinstance(values.pop("api_key", ""), str):
        raise HttpError(400, "Invalid request: api_key must be text")
    return read_asked(kind, values)


def choose(service: Service, run: str | None, source: str | None = None, target: str | None = None,
           task: Task = "seq2seq") -> Served:
    """The run of this name, or of these languages, one of this task before others; the only one, if nothing is said.

    Raises:
        HttpError: 400, there is none, or more than one.
    """
    if run is not None:
        if source is not None or target is not None:
            raise HttpError(400, "Invalid request: give run, or source and target")
        found = service.named(run)
        if found.run.config.task == "reading":
            raise HttpError(400, f"Invalid request: {run} reads: ask it at /answer")
        return found
    if source is None and target is None and len(service.catalogue.served) > 1:
        raise HttpError(400, f"Invalid request: run is missing: there are {', '.join(service.catalogue.by_name)}")
    fitting = [one for one in service.catalogue.served
               if one.run.config.task != "reading" and all(given is None or plain(given) == plain(code) for given, code
                                                           in ((source, one.source), (target, one.target)))]
    if fitting:
        return next((one for one in fitting if one.run.config.task == task), fitting[0])
    raise HttpError(400, f"Invalid request: there is no run from {(source or 'anything')[:40]} to "
                         f"{(target or 'anything')[:40]}")


def as_list(service: Service, name: str, given: str | tuple[str, ...]) -> list[str]:
    """The texts of a request.

    Raises:
        HttpError: 400, there are none, or too many or too long ones.
    """
    texts, limits = [given] if isinstance(given, str) else list(given), service.limits
    if not texts:
        raise HttpError(400, f"Invalid request: {name} is an empty list")
    if limits.texts and len(texts) > limits.texts:
        raise HttpError(400, f"Invalid request: {len(texts)} texts in {name}, and at most {limits.texts} are answered")
    longest = max(map(len, texts))
    if limits.characters and longest > limits.characters:
        raise HttpError(400, f"Invalid request: {name} has {longest} characters, and at most {limits.characters} are "
                             "answered")
    return texts


def _require_pairs(name: str, one: str | tuple[str, ...], other_name: str, other: str | tuple[str, ...]) -> None:
    """Refuses a text beside a list, and lists of different lengths."""
    if isinstance(one, str) != isinstance(other, str) or (not isinstance(one, str) and len(one) != len(other)):
        raise HttpError(400, f"Invalid request: {other_name} must be a text for a text, or a list of as many: {name} "
                             f"has {1 if isinstance(one, str) else len(one)}")


def _require_length(run: Run, target: str) -> None:
    """Refuses what takes a model too long to score."""
    tokens = len(run.tokenizers.target.encode(target)) + 1
    if tokens > _MOST_TOKENS:
        raise HttpError(400, f"Invalid request: a target has {tokens} tokens, and at most {_MOST_TOKENS} are scored")
