"""pellucid play RUN [RUN …]"""

import importlib
import threading
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pellucid.cli.arguments import parse
from pellucid.cli.fields import Positional
from pellucid.cli.serve import require_extra
from pellucid.errors import ConfigError


@dataclass
class Play:
    """Look inside a run as it works, in the browser: type, and see its tokens with their probabilities, its search, its
    attention and what each word contributed; several runs side by side.

    Listens on this machine alone, without a limit on how often it is asked. For example: pellucid play runs/demo
    """

    run: Positional[tuple[Path, ...]]
    """run folders; the first is shown first"""
    index: str | None = None
    """an index in which runs that read look for answers; see pellucid index"""
    port: int = 5000
    """the port to listen on; 0 takes one that is free"""
    no_browser: bool = False
    """say where the page is, and leave it to you to open it"""


def main(program: str, words: Sequence[str]) -> int:
    """Serves the page until it is told to stop."""
    arguments = parse(Play, program, words)
    require_extra()
    from pellucid.serve.catalogue import open_catalogue
    from pellucid.serve.keys import Keys
    from pellucid.serve.limits import Limits
    from pellucid.serve.server import serve

    if not arguments.run:
        raise ConfigError("give at least one run folder", where=program)
    opens = partial(open_catalogue, arguments.run, index=arguments.index)
    serve(opens, Limits(requests_per_minute=0), Keys(), ("127.0.0.1", arguments.port), True,
          ready=_prepare if arguments.no_browser else _show)
    return 0


def _show(url: str) -> None:
    """Opens a browser, which may be one that only comes back when it is closed."""
    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
    _prepare(url)


def _prepare(url: str) -> None:
    """Fetches torch, which what looks inside will need, while the page is on its way."""
    threading.Thread(target=importlib.import_module, args=("torch",), daemon=True).start()
