"""Servers that read and write badly, and do not end as they should."""

import fcntl
import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterable
from typing import Any

from tests.validate.scripted import Json, RefusedError, Server, flaw

_READ = 1 << 16


def _chunks() -> Iterable[bytes]:
    while chunk := os.read(0, _READ):
        yield chunk


@flaw
def lines_by_unicode(server: Server) -> None:
    """As ``str.splitlines`` cuts them."""

    def lines() -> Iterable[bytes]:
        for line in sys.stdin.buffer:
            for one in line.decode().splitlines():
                yield one.encode()

    server.lines = lines


@flaw
def a_read_is_a_message(server: Server) -> None:
    def lines() -> Iterable[bytes]:
        for chunk in _chunks():
            yield from chunk.split(b"\n")[: chunk.count(b"\n") or 1]

    server.lines = lines


@flaw
def asks_between_pieces(server: Server) -> None:
    """No flaw at all: a server may ask what it likes while a message is still on its way."""

    def lines() -> Iterable[bytes]:
        held = b""
        for chunk in _chunks():
            *whole, held = (held + chunk).split(b"\n")
            yield from whole
            if held:
                server.say({"jsonrpc": "2.0", "id": "a-question", "method": "ping"})

    server.lines = lines


_GAP_S = 0.1
"""What comes without such a gap between has come at once."""


def _crowds() -> Iterable[list[bytes]]:
    """The messages on stdin, those together that have come at once."""
    held = b""
    while chunk := os.read(0, _READ):
        held += chunk
        if not select.select([0], [], [], _GAP_S)[0]:
            *crowd, held = held.split(b"\n")
            yield crowd


@flaw
def few_at_once(server: Server) -> None:
    """Of four or more messages that come at once, the first is taken."""

    def lines() -> Iterable[bytes]:
        for crowd in _crowds():
            yield from crowd[:1] if len(crowd) > 3 else crowd

    server.lines = lines


@flaw
def swapped_answers(server: Server) -> None:
    """Of requests that come at once, each gets the answer to its neighbour."""

    def lines() -> Iterable[bytes]:
        for crowd in _crowds():
            if len(crowd) < 4:
                yield from crowd
                continue
            messages: list[Json] = [one for one in map(json.loads, crowd) if "id" in one]
            ids = [one["id"] for one in messages]
            for message, id in zip(messages, ids[1:] + ids[:1], strict=True):
                yield json.dumps({**message, "id": id}).encode()

    server.lines = lines


@flaw
def refused_crowd(server: Server) -> None:
    good = server.result
    crowded: list[bytes] = []

    def lines() -> Iterable[bytes]:
        for crowd in _crowds():
            crowded[:] = crowd[3:]
            yield from crowd

    def result(method: str, params: dict[str, Any]) -> Json:
        if crowded:
            raise RefusedError(-32000, "Too many requests")
        return good(method, params)

    server.lines = lines
    server.result = result


@flaw
def end_at_cancellation(server: Server) -> None:
    server.notifications["notifications/cancelled"] = lambda params: os._exit(1)


@flaw
def answered_cancellation(server: Server) -> None:
    server.notifications["notifications/cancelled"] = lambda params: server.say(
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32602, "message": "No such request"}}
    )


def _limited(server: Server, size: int, *, refuses: bool) -> None:
    def lines() -> Iterable[bytes]:
        for line in sys.stdin.buffer:
            if len(line) <= size:
                yield line
            elif refuses:
                id = line[:100].partition(b'"id":')[2].partition(b",")[0].decode()
                error = {"code": -32600, "message": "Request too large"}
                server.say({"jsonrpc": "2.0", "id": int(id), "error": error})
            else:
                os._exit(1)

    server.lines = lines


@flaw
def small_buffer(server: Server) -> None:
    _limited(server, 1 << 16, refuses=False)


@flaw
def small_refusing_buffer(server: Server) -> None:
    _limited(server, 1 << 16, refuses=True)


@flaw
def middling_buffer(server: Server) -> None:
    _limited(server, 1 << 20, refuses=False)


@flaw
def middling_refusing_buffer(server: Server) -> None:
    """No flaw at all: nobody has to read as much."""
    _limited(server, 1 << 20, refuses=True)


@flaw
def traceback_on_stdout(server: Server) -> None:
    server.malformed = lambda: server.write(b"Traceback (most recent call last):\n")


@flaw
def farewell_on_stdout(server: Server) -> None:
    def end() -> int:
        server.write(b"Server stopped.\n")
        return 0

    server.end = end


@flaw
def deaf_to_eof(server: Server) -> None:
    def end() -> int:
        time.sleep(60)
        return 0

    server.end = end


@flaw
def exit_code_three(server: Server) -> None:
    server.end = lambda: 3


@flaw
def end_by_segfault(server: Server) -> None:
    def end() -> int:
        os.kill(os.getpid(), signal.SIGSEGV)
        return 0

    server.end = end


@flaw
def deaf_to_sigterm(server: Server) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


@flaw
def tools_of_this_process(server: Server) -> None:
    server.tools[1]["name"] = f"add-{os.getpid()}"


@flaw
def words_of_this_process(server: Server) -> None:
    server.tools[1]["description"] = f"Adds, in process {os.getpid()}."


def _is_first() -> bool:
    """Take the file ``LOCK`` until this process ends; whether no other process has it."""
    lock = os.open(os.environ["LOCK"], os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@flaw
def deaf_while_first(server: Server) -> None:
    """Only the process with the lock has work that it does not leave."""
    if _is_first():
        deaf_to_eof(server)
        deaf_to_sigterm(server)


@flaw
def one_at_a_time(server: Server) -> None:
    """No flaw at all: where one process works, a second has nothing to do."""
    if not _is_first():
        os._exit(1)
