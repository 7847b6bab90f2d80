"""Files of a server over https: only what was announced is kept, and what was interrupted goes on where it ended."""

import contextlib
import hashlib
import http.client
import ipaddress
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPMessage
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from pellucid.errors import DataError, UserError
from pellucid.files import make_folder, output_errors

_PATIENCE = 30.0  # seconds that a server may be silent
_MOST_JSON = 16 * 2**20  # bytes of an answer in JSON
_AT_ONCE = 2**20  # bytes
_TELL = 5.0  # seconds between two lines about a file


class Unreachable(DataError):
    """There is no answer: no network, no such host, a connection that broke, or a server that was silent."""


class Refused(DataError):
    """The server answers that it will not.

    Args:
        status: of HTTP.  code: what the server calls it, in X-Error-Code; often nothing.
    """

    def __init__(self, where: str, status: int, code: str) -> None:
        super().__init__(f"the server answers {status}", where=where, why=code[:80])
        self.status, self.code = status, code


@dataclass(frozen=True)
class Remote:
    """A file as its server announces it.

    Attributes:
        name: a plain name.  bytes: its size.
        digest: in hexadecimal: the SHA-256 of the file, or git's SHA-1 of it as a blob; None where it is not told.
    """

    name: str
    bytes: int
    digest: str | None


def read_json(url: str, token: str) -> Any:
    """What an address answers, as JSON.

    Args:
        token: sent to this server alone, to none that it leads to; none if empty.

    Raises:
        DataError: an address that is not https, no answer (`Unreachable`), a refusal (`Refused`), no JSON.
    """
    with _errors(url), _opened(url, token) as answer:
        body = answer.read(_MOST_JSON + 1)
    try:
        if len(body) > _MOST_JSON:
            raise ValueError(f"it has more than {_MOST_JSON:,} bytes")
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise DataError("the server's answer is no JSON", where=url, why=str(error)[:200]) from error


def fetch(url: str, remote: Remote, place: Path, token: str, tell: Callable[[str], None]) -> None:
    """Writes a file to `place`, whole: it grows beside it, in a file that a later call goes on with.

    Args:
        tell: is told how far it is, and how long it will take.

    Raises:
        DataError: as of `read_json`; another size or digest than announced.
        OutputError: disk full, no permission.
    """
    make_folder(place.parent)
    part = place.with_name(f".{place.name}.part")
    with output_errors(part), part.open("ab") as file:
        if file.tell() > remote.bytes:
            file.truncate(0)
        if file.tell() < remote.bytes:
            with _errors(url), _opened(url, token, file.tell()) as answer:
                _receive(answer, file, remote, url, tell)
        file.flush()
        os.fsync(file.fileno())
    with output_errors(place):
        if remote.digest is not None and _digest(part, len(remote.digest)) != remote.digest:
            part.unlink()
            raise DataError(f"{remote.name} is not what the server announced", where=url, why="its digest is another",
                            fix="run it again: it begins anew")
        part.replace(place)


def _receive(answer: Any, file: IO[bytes], remote: Remote, url: str, tell: Callable[[str], None]) -> None:
    """Appends the body; the sizes that are announced must be those of the file, and what comes no longer."""
    if answer.status != 206:
        file.truncate(0)  # the server begins anew
    begun, done = time.monotonic(), os.fstat(file.fileno()).st_size
    first, told = done, begun
    length, told_range = answer.headers.get("Content-Length"), answer.headers.get("Content-Range")
    wanted = f"bytes {first}-{remote.bytes - 1}/{remote.bytes}"
    if (length is not None and length.strip() != str(remote.bytes - first)) or (
            answer.status == 206 and told_range != wanted):
        raise DataError(f"{remote.name} has another size than the server announced", where=url,
                        why=f"Content-Length: {str(length)[:40]}, Content-Range: {str(told_range)[:60]}, where "
                            f"{remote.bytes - first:,} bytes are missing")
    while block := answer.read(min(_AT_ONCE, remote.bytes - done + 1)):
        if done + len(block) > remote.bytes:
            raise DataError(f"{remote.name} is longer than the server announced", where=url,
                            why=f"there is more behind {remote.bytes:,} bytes")
        with output_errors(Path(file.name)):
            file.write(block)
        done += len(block)
        now = time.monotonic()
        if now - told >= _TELL:
            told, left = now, (remote.bytes - done) * (now - begun) / (done - first)
            tell(f"{remote.name}: {done / 1e6:,.0f} of {remote.bytes / 1e6:,.0f} MB, {left:,.0f} s left")
    if done < remote.bytes:
        file.flush()
        raise Unreachable(f"the connection broke within {remote.name}", where=url, fix="run it again: it goes on",
                          why=f"{done:,} of {remote.bytes:,} bytes are here")


def _digest(path: Path, digits: int) -> str:
    """SHA-256 where 64 digits are to be compared, else git's of a blob."""
    digest = hashlib.sha256() if digits == 64 else hashlib.sha1(b"blob %d\0" % path.stat().st_size,
                                                                usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(_AT_ONCE):
            digest.update(block)
    return digest.hexdigest()


def is_safe(url: str) -> bool:
    """Whether what is read there cannot be changed on its way: by https, or by http from this machine itself."""
    return _scheme_and_own(url) in (("https", True), ("https", False), ("http", True))


def _scheme_and_own(url: str) -> tuple[str, bool]:
    """The scheme, and whether the host is a loopback address."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        return parts.scheme, host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return url.partition(":")[0].lower(), False


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Goes on only to https; from this machine to itself by http, too."""

    def redirect_request(self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage,
                         newurl: str) -> urllib.request.Request | None:
        """The request of the new address.

        Raises:
            DataError: it is not safe.
        """
        begun_here = _scheme_and_own(req.full_url) == ("http", True)
        if _scheme_and_own(newurl)[0] != "https" and not (begun_here and is_safe(newurl)):
            raise DataError("the server leads to an address that is not https", where=req.full_url, why=newurl[:200])
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opened(url: str, token: str, first: int = 0) -> Any:
    """The answer of an address, from this byte on if the server can."""
    if not is_safe(url):
        raise DataError("this address is not https", where=url)
    request = urllib.request.Request(url, headers={"User-Agent": "pellucid", "Accept-Encoding": "identity"})
    if first:
        request.add_header("Range", f"bytes={first}-")
    if token:
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    handlers: list[urllib.request.BaseHandler] = [_Redirects()]
    if _scheme_and_own(url)[1]:
        handlers.append(urllib.request.ProxyHandler({}))
    return urllib.request.build_opener(*handlers).open(request, timeout=_PATIENCE)


@contextlib.contextmanager
def _errors(url: str) -> Iterator[None]:
    """What urllib raises, in words."""
    try:
        yield
    except urllib.error.HTTPError as error:
        with error:
            raise Refused(url, error.code, error.headers.get("X-Error-Code") or "") from error
    except UserError:
        raise
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Unreachable("there is no answer", where=url, why=f"{type(error).__name__}: {str(error)[:200]}",
                          fix="check the network, and run it again: what is here already is kept") from error
