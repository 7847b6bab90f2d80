"""Every request has its answer; a server that ends before that is an error, and no wait without an end."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks.http_load import ask, post
from benchmarks.serve import server

SERVER = r"""
import re, socket, sys
listening = socket.create_server(("127.0.0.1", 0))
print(f"listening on http://127.0.0.1:{listening.getsockname()[1]}", file=sys.stderr, flush=True)
line, _ = listening.accept()
for number in range(int(sys.argv[1])):
    asked = b""
    while not asked.endswith(b"}"):
        asked += line.recv(4096)
    body = asked.partition(b"\r\n\r\n")[2]
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    line.sendall(answer[:20])
    line.sendall(answer[20:])
line.recv(4096)
line.sendall(b"HTTP/1.1 200")
line.close()
sys.exit("no memory is left")
"""
REQUESTS = [post("/translate", {"q": number}) for number in range(3)]


def test_each_request_has_its_answer() -> None:
    with server([sys.executable, "-c", SERVER, "3"], {}) as (port, _, _):
        answers = ask(port, REQUESTS, 1)
    assert [json.loads(body) for body in answers.bodies] == [{"q": 0}, {"q": 1}, {"q": 2}]
    assert sum(answers.seconds) <= answers.elapsed


def test_a_server_that_ends_before_it_has_answered_is_an_error() -> None:
    said = r"ended a connection after 12 bytes of an answer: the server ended with 1\n    no memory is left$"
    with (pytest.raises(SystemExit, match=said),
          server([sys.executable, "-c", SERVER, "2"], {}) as (port, _, _)):
        ask(port, REQUESTS, 1)


def test_a_server_that_does_not_start_says_why() -> None:
    with pytest.raises(SystemExit, match=r"^the server ended with 1\n    no port is free$"):
        with server([sys.executable, "-c", "raise SystemExit('no port is free')"], {}):
            pass
