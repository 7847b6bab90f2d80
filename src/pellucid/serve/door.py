"""The socket that a server listens on: opened before anything is loaded, and closed so that nobody is turned away who
was let in."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import socket
import struct
import sys

from pellucid.errors import ConfigError, OutputError

_ATTACH_FILTER = 26  # SO_ATTACH_FILTER of Linux
_ANOTHER = "choose another --port, or 0 for one that is free"
_NO_SYN = b"".join(struct.pack("HBBI", *instruction) for instruction in (  # as of bpf(4)
    (0x30, 0, 0, 13),  # the flags of a segment
    (0x45, 0, 1, 0x02),  # SYN among them?
    (0x06, 0, 0, 0),  # then it never came
    (0x06, 0, 0, 0xFFFF_FFFF)))


def open_door(host: str, port: int) -> socket.socket:
    """A socket that is bound, so that an address that cannot be had is told before anything is loaded.

    Raises:
        OutputError: not now: another has it, or this machine has no such address yet; later it may be had.
        ConfigError: not ever.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        door = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # else asyncio leaves Nagle's delay on
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((host, port))
    except (OSError, OverflowError, UnicodeError) as error:
        told = f"cannot listen on {host}:{port}"
        number = error.errno if isinstance(error, OSError) else None
        if number == errno.EADDRNOTAVAIL:
            raise OutputError(told, where="--host", why=str(error), fix="give an address of this machine; if it is to "
                              "be one, start again when it is") from error
        if number == errno.EADDRINUSE:
            raise OutputError(told, where="--port", why=str(error), fix=_ANOTHER) from error
        raise ConfigError(told, where="--host and --port", why=str(error), fix=_ANOTHER) from error
    return door


def let_nobody_in(door: socket.socket) -> None:
    """From now on nobody can begin to connect, where the system has a way (Linux); who has begun comes in. A door that
    is closed after that, and after all have been let in who stood before it, turns nobody away: who comes meanwhile
    knocks again a second later, and finds it closed."""
    if sys.platform == "linux":
        program = ctypes.create_string_buffer(_NO_SYN)
        with contextlib.suppress(OSError):
            door.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, struct.pack("HP", 4, ctypes.addressof(program)))
