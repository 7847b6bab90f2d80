"""The socket that a server listens on: opened before anything is loaded, and closed so that nobody is turned away who
was let in."""

from __future__ import annotations

import contextlib
import ctypes
import socket
import struct
import sys

from pellucid.errors import ConfigError

_ATTACH_FILTER = 26  # SO_ATTACH_FILTER of Linux
_NO_SYN = b"".join(struct.pack("HBBI", *instruction) for instruction in (  # as of bpf(4)
    (0x30, 0, 0, 13),  # the flags of a segment
    (0x45, 0, 1, 0x02),  # SYN among them?
    (0x06, 0, 0, 0),  # then it never came
    (0x06, 0, 0, 0xFFFF_FFFF)))


def open_door(host: str, port: int) -> socket.socket:
    """A socket that is bound, so that an address that cannot be had is told before anything is loaded.

    Raises:
        ConfigError: it cannot be had.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        door = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # else asyncio leaves Nagle's delay on
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((host, port))
    except (OSError, OverflowError, UnicodeError) as error:
        raise ConfigError(f"cannot listen on {host}:{port}", where="--port", why=str(error),
                          fix="choose another --port, or 0 for one that is free") from error
    return door


def let_nobody_in(door: socket.socket) -> None:
    """From now on nobody can begin to connect, where the system has a way (Linux); who has begun comes in. A door that
    is closed after that, and after all have been let in who stood before it, turns nobody away: who comes meanwhile
    knocks again a second later, and finds it closed."""
    if sys.platform == "linux":
        program = ctypes.create_string_buffer(_NO_SYN)
        with contextlib.suppress(OSError):
            door.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, struct.pack("HP", 4, ctypes.addressof(program)))
