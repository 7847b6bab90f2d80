"""What the routes of a server share: the runs, the threads that decode, the limits, and whether it is about to go."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from pellucid.errors import CheckpointError, NumericalError, UserError
from pellucid.runs.candidates import Generated
from pellucid.serve.catalogue import Catalogue, Served
from pellucid.serve.keys import Keys
from pellucid.serve.limits import Limits, Meter, client_of
from pellucid.serve.metrics import Metrics
from pellucid.serve.requests import HttpError, while_connected
from pellucid.serve.scheduler import Busy, Late, Scheduler
from pellucid.serve.tasks import Ask

_AGAIN, _AGAIN_SECONDS = 3, 0.2  # how often a run is opened that is trained on meanwhile, and after how long

Result = TypeVar("Result")


@dataclass
class Service:
    """A server's state; only `reload` and a signal change it.

    Args:
        opens: what gives the runs as they are in their folders now.
        keys: of those who may ask; none: everybody may.

    Attributes:
        catalogue: what is answered with. A request takes what it needs of it once, and keeps it to its end.
        is_private: it is to answer this machine alone.
        is_draining: it answers what it has, and goes.
    """

    opens: Callable[[], Catalogue]
    limits: Limits
    keys: Keys
    catalogue: Catalogue
    scheduler: Scheduler = field(init=False)
    meter: Meter = field(init=False)
    metrics: Metrics = field(default_factory=Metrics)
    is_private: bool = False
    is_draining: bool = False
    _changing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(self.limits.queue or math.inf)
        self.meter = Meter(self.limits.requests_per_minute)

    def admit(self, request: Request, values: Mapping[str, Any]) -> None:
        """Lets a request in as `identify` does, if there is still room for it: its body may have come slowly. From here
        on runs the time to its answer, however many steps that takes.

        Raises:
            HttpError: what `identify` and `require_room` raise.
        """
        self.identify(request, values)
        self.require_room()
        request.state.has_begun = False  # from when on it is not refused for those that wait
        request.state.deadline = time.monotonic() + (self.limits.timeout or math.inf)

    def require_room(self) -> None:
        """Refuses what would wait too long.

        Raises:
            HttpError: 429, too much waits.
        """
        try:
            self.scheduler.require_room()
        except Busy as busy:
            raise _too_busy(busy) from None

    def identify(self, request: Request, values: Mapping[str, Any]) -> None:
        """Lets a request in that has a key, where one is needed, and that its client may still make.

        Args:
            values: its parameters, of which `api_key` may be one.

        Raises:
            HttpError: 400, there is no key; 403, nobody has this one; 429, too many requests.
        """
        key = values.get("api_key") or _sent(request.headers.get("x-api-key", "")) or _sent(_bearer(request))
        if self.keys and not key:
            raise HttpError(400, "Please contact the server operator to get an API key")
        is_known = bool(self.keys) and isinstance(key, str) and self.keys.accepts(key)
        address = client_of(request.client.host) if request.client else ""
        seconds = self.meter.refuses(f"key {key}" if is_known else address)
        if seconds:
            raise HttpError(429, f"Slowdown: {self.limits.requests_per_minute} per 1 minute", seconds)
        if self.keys and not is_known:
            raise HttpError(403, "Invalid API key")

    async def reload(self) -> None:
        """Changes over to the runs and keys as they are in their files now; requests that have begun end with those
        before.

        Raises:
            UserError: they cannot be opened, and those before stay.
        """
        async with self._changing:
            keys = await run_in_threadpool(self.keys.again)
            self.catalogue, self.keys = await self._opened(), keys
            await run_in_threadpool(free_earlier)

    async def _opened(self) -> Catalogue:
        """The runs as they are now; one that is trained on may let go of a checkpoint just as it is opened."""
        for _ in range(_AGAIN - 1):
            try:
                return await run_in_threadpool(self.opens)
            except CheckpointError:
                await asyncio.sleep(_AGAIN_SECONDS)
        return await run_in_threadpool(self.opens)

    async def generate(self, request: Request, ask: Ask, texts: Sequence[str],
                       prefixes: Sequence[str] = ()) -> list[Generated]:
        """What the run makes of the texts, in their turn, as long as somebody waits for it: of a request that was
        admitted.

        Raises:
            HttpError: 429, too much waits; 503, it took too long; 400, the run refuses it; 500, its weights give no
                numbers.
        """
        return (await self.generate_all(request, [(ask, texts)], prefixes))[0]

    async def generate_all(self, request: Request, asked: Sequence[tuple[Ask, Sequence[str]]],
                           prefixes: Sequence[str] = ()) -> list[list[Generated]]:
        """The same for several runs, one behind the other."""
        deadline = request.state.deadline
        if any(_needs_torch(ask) for ask, _ in asked):
            await run_in_threadpool(_import_torch)

        async def each() -> list[list[Generated]]:
            found = []
            for ask, texts in asked:
                found.append(await self.scheduler.generate(ask, texts, deadline, prefixes, request.state.has_begun))
                request.state.has_begun |= bool(texts)
            return found

        return await _answered(request, each())

    async def alone(self, request: Request, work: Callable[[], Result]) -> Result:
        """What `work` gives on a thread that decodes; torch is there. Raises as `generate` does."""
        return (await self.alone_all(request, [work]))[0]

    async def alone_all(self, request: Request, works: Sequence[Callable[[], Result]]) -> list[Result]:
        """The same for several works, one behind the other; those of others may come between them."""
        deadline = request.state.deadline
        await run_in_threadpool(_import_torch)

        async def each() -> list[Result]:
            found = []
            for work in works:
                found.append(await self.scheduler.alone(work, deadline, request.state.has_begun))
                request.state.has_begun = True
            return found

        return await _answered(request, each())

    def named(self, name: str) -> Served:
        """The run of this name.

        Raises:
            HttpError: 400, there is none.
        """
        found = self.catalogue.by_name.get(name)
        if found is None:
            raise HttpError(400, f"there is no run {name[:80]!r}: there are {', '.join(self.catalogue.by_name)}")
        return found


def free_earlier() -> None:
    """What is open stays, and need not be searched for garbage again and again; what an earlier opening has left goes,
    but for what requests that have begun still use: that goes at the next."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # glibc keeps for itself what it was given back
        trim(0)


def _sent(header: str) -> str:
    """A header's text as it was sent, in UTF-8 if it can be: it is read as Latin-1."""
    with contextlib.suppress(UnicodeError):
        return header.encode("latin-1").decode("utf-8")
    return header


def _bearer(request: Request) -> str:
    kind, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if kind.lower() == "bearer" else ""


def _needs_torch(ask: Ask) -> bool:
    """Whether what is asked is beyond what packed weights are searched for without it."""
    options, own = ask.options, ask.run.config.decode
    return ask.has_prefixes or options.sample or options.no_repeat_ngram > 0 or options.precision != own.precision


def _import_torch() -> None:
    """Beside the event loop and the threads that decode: it takes a second, the first time."""
    import torch  # noqa: F401


async def _answered(request: Request, work: Awaitable[Result]) -> Result:
    try:
        return await while_connected(request, work)
    except Busy as busy:
        raise _too_busy(busy) from None
    except Late:
        raise HttpError(503, "The answer took too long", 1) from None
    except CheckpointError as error:
        raise HttpError(503, f"The run has changed since it was opened: {error.what}", 60) from None
    except NumericalError as error:  # whatever is asked for
        raise HttpError(500, f"The run cannot answer: {_told(error)}") from None
    except UserError as error:  # any other is a fault of ours, and logged
        raise HttpError(400, f"Invalid request: {_told(error)}") from None


def _told(error: UserError) -> str:
    """What is wrong, why, and what to do, in a line; where it is in our files is nobody's business."""
    return "; ".join(part for part in (error.what, error.why, error.fix) if part)


def _too_busy(busy: Busy) -> HttpError:
    return HttpError(429, f"Too busy: try again in {busy.retry_after} s", busy.retry_after)
