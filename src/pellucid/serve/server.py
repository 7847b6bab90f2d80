"""A server from its first moment to its last: it says when it is ready, changes its runs over, and goes when it is
told to, once all that it has accepted is answered."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import resource
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import uvicorn

from pellucid.errors import PellucidWarning
from pellucid.serve.app import make_app
from pellucid.serve.catalogue import Catalogue
from pellucid.serve.deadlines import MOST_CONNECTIONS, Protocol, close_idlers
from pellucid.serve.door import let_nobody_in, open_door
from pellucid.serve.guard import is_of_this_machine
from pellucid.serve.keys import Keys
from pellucid.serve.limits import Limits
from pellucid.serve.service import Service, free_earlier

DRAINING = 0.5  # seconds in which connections are let go, and new ones still come, before the door is closed
_COMING_IN = 0.2  # seconds for those who have begun to connect by then
_CHECKING = 0.5  # seconds from one look at connections that come to nothing to the next
_MOST_FILES = MOST_CONNECTIONS + 256
_GARBAGE = (20_000, 50, 100)  # a request leaves next to none that counting references does not find
_SWITCH = 0.001  # seconds after which the event loop lets the decoding thread go on


class _Server(uvicorn.Server):
    """Uvicorn's, with our signals."""

    def __init__(self, config: uvicorn.Config, service: Service, ready: Callable[[str], None]) -> None:
        super().__init__(config)
        self.service, self.ready = service, ready
        self._tasks: set[asyncio.Task[None]] = set()  # that nobody else holds

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._leave)
        loop.add_signal_handler(signal.SIGHUP, self._change_over)
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        host, port, *_ = self.servers[0].sockets[0].getsockname()
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        self._begin(self._check_connections())
        _tell(f"listening on {url}")
        self.ready(url)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for door in sockets or []:
            let_nobody_in(door)
        await asyncio.sleep(_COMING_IN)
        await super().shutdown(sockets)

    async def _check_connections(self) -> None:
        while True:
            await asyncio.sleep(_CHECKING)
            close_idlers(self.server_state.connections, self.service.is_draining)  # type: ignore[arg-type]

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _leave(self) -> None:
        """Begins to go; the second time, at once."""
        if self.service.is_draining:
            self.force_exit = self.should_exit = True
            return
        self.service.is_draining = True
        asyncio.get_running_loop().call_later(DRAINING, setattr, self, "should_exit", True)
        _tell("stopping: what was accepted is answered first; once more stops at once")

    def _change_over(self) -> None:
        self._begin(self._reload())

    async def _reload(self) -> None:
        try:
            await self.service.reload()
        except Exception as error:
            _tell(f"the runs or keys cannot be opened, and those before stay: {error}")
        else:
            _tell(f"now serving {', '.join(self.service.catalogue.by_name)}")


def serve(opens: Callable[[], Catalogue], limits: Limits, keys: Keys, address: tuple[str, int], with_page: bool,
          ready: Callable[[str], None] = lambda url: None) -> None:
    """Serves runs until a signal ends it; says on standard error where it listens.

    Args:
        opens: what gives the runs, now and at each change, such as `open_catalogue`.
        address: host and port.
        with_page: whether / answers with the page that looks inside.
        ready: called with the URL when it answers.

    Raises:
        ConfigError: the address cannot be had.
        UserError: what `opens` raises.
    """
    door = open_door(*address)
    service = Service(opens, limits, keys, opens(), is_private=is_of_this_machine(address[0]))
    config = uvicorn.Config(make_app(service, with_page), http=Protocol, ws="none", lifespan="off", loop="asyncio",
                            log_config=None, access_log=False, server_header=False, proxy_headers=False,
                            timeout_graceful_shutdown=int(limits.timeout or 3600) + 5)
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # what clients do wrong is told to them alone
    _allow_connections()
    free_earlier()
    gc.set_threshold(*_GARBAGE)
    sys.setswitchinterval(_SWITCH)
    warnings.simplefilter("ignore", PellucidWarning)  # answers say what was cut; a server has no line to warn of
    service.scheduler.start()
    server = _Server(config, service, ready)
    try:
        server.run([door])
    finally:
        service.scheduler.close(at_once=server.force_exit)


def _tell(sentence: str) -> None:
    with contextlib.suppress(OSError):  # nobody may read it any more
        print(sentence, file=sys.stderr, flush=True)


def _allow_connections() -> None:
    """As many files as there may be connections, if the system lets us have them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _MOST_FILES:
        most = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
