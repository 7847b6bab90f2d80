"""How much one client, and all of them, may ask of a server; each limit is on from the start."""

from __future__ import annotations

import ipaddress
import math
import time
from collections import OrderedDict
from dataclasses import asdict, dataclass

from pellucid.errors import ConfigError

_MOST_CLIENTS = 16_384  # that are remembered; those that have asked nothing for longest are forgotten first


@dataclass(frozen=True)
class Limits:
    """What is answered; 0 takes a limit away.

    Attributes:
        characters: of one text.
        texts: of one request.
        requests_per_minute: of one client.
        body_bytes: of a request.
        alternatives: of one text.
        timeout: seconds from a request to its answer.
        queue: seconds of predicted work that may wait; what is more is refused.
    """

    characters: int = 5_000
    texts: int = 128
    requests_per_minute: int = 600
    body_bytes: int = 2**20
    alternatives: int = 10
    timeout: float = 30.0
    queue: float = 5.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not 0 <= value < math.inf:
                raise ConfigError(f"a server cannot have a limit of {value}", where=f"--{name.replace('_', '-')}",
                                  fix="give a number from 0 on; 0 takes the limit away")


class Meter:
    """Requests of each client in a minute, as a bucket that fills as time goes by.

    Args:
        per_minute: how many there may be at once, and on average; 0 counts nothing.
    """

    def __init__(self, per_minute: int) -> None:
        self.per_minute = per_minute
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # how many, and when that was

    def refuses(self, client: str) -> int:
        """Counts a request; 0, or the seconds after which it may be asked again."""
        if not self.per_minute:
            return 0
        now, rate = time.monotonic(), self.per_minute / 60
        left, then = self._left.pop(client, (float(self.per_minute), now))
        left = min(self.per_minute, left + (now - then) * rate)
        self._left[client] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > _MOST_CLIENTS:
            self._left.popitem(last=False)
        return 0 if left >= 1 else math.ceil((1 - left) / rate)


def client_of(host: str) -> str:
    """What is counted as one client: an address of IPv4, also where a socket for both writes it as one of IPv6 (RFC
    4291, section 2.5.5.2); or the 64 bits of one of IPv6 that its network gave it (section 2.5.4), behind which it may
    take any."""
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    return str(address.ipv4_mapped or ipaddress.IPv6Network((address, 64), strict=False))
