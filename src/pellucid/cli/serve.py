"""pellucid serve RUN [RUN …]"""

import signal
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.cli.arguments import parse_with_overrides, refuse_other_keys
from pellucid.cli.fields import Positional, Repeated
from pellucid.errors import ConfigError, PellucidWarning

if TYPE_CHECKING:
    from pellucid.serve.catalogue import Catalogue


@dataclass
class Serve:
    """Answers over HTTP: LibreTranslate's clients at /translate, /detect and /languages, and all that a run can do at
    /v1; /openapi.json says how. For example: pellucid serve runs/demo

    Search options as --decode.key value hold for all runs: beam_size, length_penalty, max_length, precision and others.
    """

    run: Positional[tuple[Path, ...]]
    """run folders; several make several pairs of languages"""
    languages: Repeated[tuple[str, ...]] = ()
    """the languages of a run, such as en-de; once for each run that translates, in their order; those that it was
    trained with if left out"""
    index: str | None = None
    """an index in which runs that read look for answers: POST /answer; see pellucid index"""
    host: str = "127.0.0.1"
    """the address to listen on; 0.0.0.0 is everybody's"""
    port: int = 5000
    """the port to listen on; 0 takes one that is free"""
    page: bool = False
    """also serve the page that looks inside, at /"""
    api_keys: Path | None = None
    """a file of keys, one a line; whoever asks must give one"""
    characters: int = 5000
    """the most that a text may have; 0 takes this limit away, as it does each of those below"""
    texts: int = 128
    """the most that a request may have"""
    requests_per_minute: int = 600
    """the most that a client may make"""
    timeout: float = 30.0
    """seconds in which a request is answered, or told that it is not"""
    queue: float = 5.0
    """seconds of predicted work that may wait; what is more is told to come again"""


def main(program: str, words: Sequence[str]) -> int:
    """Serves until it is told to stop."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is something to change over from
    arguments, overrides = parse_with_overrides(Serve, program, words)
    refuse_other_keys(program, overrides)
    require_extra()
    from pellucid.serve.keys import Keys, read_keys
    from pellucid.serve.limits import Limits
    from pellucid.serve.server import serve

    if not arguments.run:
        raise ConfigError("give at least one run folder", where=program)
    if arguments.page and arguments.api_keys:
        raise ConfigError("the page sends no key, and could ask for nothing", where="--page",
                          fix="leave --page or --api-keys out; pellucid play serves the page on this machine alone")
    limits = Limits(characters=arguments.characters, texts=arguments.texts, timeout=arguments.timeout,
                    requests_per_minute=arguments.requests_per_minute, queue=arguments.queue)
    _tell_of_exposure(arguments.host, arguments.api_keys)
    keys = read_keys(arguments.api_keys) if arguments.api_keys else Keys()
    opens = partial(_opened, arguments.run, arguments.languages, overrides.get("decode", {}), arguments.index)
    serve(opens, limits, keys, (arguments.host, arguments.port), arguments.page)
    return 0


def _opened(folders: Sequence[Path], languages: Sequence[str], decode: dict[str, Any],
            index: str | None) -> "Catalogue":
    """The runs, and a warning of those that LibreTranslate's clients cannot ask."""
    from pellucid.serve.catalogue import open_catalogue

    catalogue = open_catalogue(folders, languages, decode, index)
    for one in catalogue.served:
        if one.run.config.task == "seq2seq" and not (one.source and one.target):
            warnings.warn(f"{one.name} names no languages, so that /v1/translate alone offers it, and not /translate; "
                          "--languages en-fr would name them", PellucidWarning, stacklevel=1)
    return catalogue


def require_extra() -> None:
    """Makes sure that what a server stands on is installed.

    Raises:
        ConfigError: it is not.
    """
    lacking = [name for name in ("starlette", "uvicorn", "httptools") if find_spec(name) is None]
    if lacking:
        raise ConfigError(f"a server needs {' and '.join(lacking)}", fix="pip install 'pellucid[serve]'")


def _tell_of_exposure(host: str, keys: Path | None) -> None:
    """What it means to listen on an address that is not this machine's own."""
    from pellucid.serve.guard import is_of_this_machine

    if not is_of_this_machine(host):
        who = "whoever has a key" if keys else "anybody, without a key (see --api-keys),"
        print(f"pellucid: {host} can be reached from other machines: {who} may ask, and what they send is not "
              "encrypted; put a proxy with TLS before it", file=sys.stderr)
