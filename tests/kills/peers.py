"""The peers of a session that is killed: both talk all the time, and keep a log of what they received.

``python peers.py duplex SEED LOG PACE``: lines out on descriptor 1, lines in on descriptor 0.
``python peers.py serve LOG PACE``: an HTTP server that says each body back, or, if a model is asked, what was
said last, in events; prints its port.
``python peers.py post SEED LOG PACE PORT PATH``: a client that posts to it on one connection.

Every byte is in the log before anything else is done. ``LOG.end`` says how it ended. ``PACE`` is ``plain``,
or ``slow`` for a peer that reads in sips, so that whoever writes to it must wait. On lines a slow peer takes
the rest at once when the session is over: the server has less than a second for that once its relay is gone.
"""

import json
import os
import random
import select
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from itertools import count

PAUSE_MS = 1
TURNS = 20
MODEL = "/v1/chat/completions"


class Log:
    """What was received; ``end`` is written last."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def add(self, data: bytes) -> None:
        os.write(self._fd, data)

    def end(self, how: str) -> None:
        with open(self._path + ".end", "w") as file:
            file.write(how)


def texts(random_: random.Random) -> Iterator[str]:
    """Mostly small, sometimes longer than all that is read or held at once."""
    for number in count(1):
        size = random_.choices((random_.randrange(200), 5_000, 200_000), (85, 13, 2))[0]
        yield chr(97 + number % 26) * size


def notifications(random_: random.Random) -> Iterator[bytes]:
    for number, text in enumerate(texts(random_), 1):
        yield b'{"jsonrpc":"2.0","method":"notifications/x","params":{"n":%d,"t":"%b"}}' % (
            number,
            text.encode(),
        )


def questions(random_: random.Random) -> Iterator[bytes]:
    """Requests to a model: each repeats the conversation, which begins anew now and then."""
    said: list[bytes] = []
    for text in texts(random_):
        said = said[len(said) // TURNS * TURNS :]
        said.append(b'{"role":"user","content":"%b"}' % text.encode())
        yield b'{"model":"m","stream":true,"messages":[%b]}' % b",".join(said)


def events(body: bytes) -> Iterator[bytes]:
    """What a model says: what was said to it last, in pieces."""
    said = json.loads(body)["messages"][-1]["content"]
    size = len(said) // 5 + 1
    for at in range(0, len(said) + 1, size):
        yield b'data: {"choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % said[at : at + size].encode()
    yield b"data: [DONE]\n\n"


def duplex(seed: str, path: str, pace: str) -> None:
    log, random_ = Log(path), random.Random(int(seed))
    os.set_blocking(1, False)
    poll = select.poll()
    poll.register(0, select.POLLIN)
    messages = notifications(random_)
    left, has_end, is_closed = memoryview(b""), False, False
    pause = select.poll()

    def stop(signal_number: int, frame: object) -> None:
        nonlocal has_end
        has_end = True

    signal.signal(signal.SIGTERM, stop)
    while True:
        if has_end and not left:
            if not is_closed:
                os.close(1)
                is_closed = True
        elif not left:
            left = memoryview(next(messages) + b"\n")
        try:
            left = left[os.write(1, left) :] if left else left
        except BlockingIOError:
            pass
        except BrokenPipeError:
            has_end, left = True, memoryview(b"")
        is_slow = pace == "slow" and not has_end
        if poll.poll(PAUSE_MS):
            try:
                data = os.read(0, 900 if is_slow else 1 << 16)
            except OSError as error:
                log.end(repr(error))
                return
            log.add(data)
            if not data:
                log.end("end")
                return
        if is_slow:
            pause.poll(PAUSE_MS)


def serve(path: str, pace: str) -> None:
    log = Log(path)
    listener = socket.create_server(("127.0.0.1", 0))
    os.write(1, b"%d\n" % listener.getsockname()[1])
    connection, _ = listener.accept()
    for body in iter(lambda: receive(connection, log, pace), b""):
        answer, kind = body, b"application/json"
        if b'"messages":' in body[:60]:
            answer, kind = b"".join(events(body)), b"text/event-stream"
        head = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n" % (kind, len(answer))
        try:
            connection.sendall(head + answer)
        except OSError:
            break
    log.end("end")


def post(seed: str, path: str, pace: str, port: str, target: str) -> None:
    log, random_ = Log(path), random.Random(int(seed))
    connection = socket.create_connection(("127.0.0.1", int(port)))
    is_over = False

    def stop(signal_number: int, frame: object) -> None:
        nonlocal is_over
        is_over = True

    signal.signal(signal.SIGTERM, stop)
    fields = b"Host: 127.0.0.1:%d\r\nContent-Type: application/json\r\n" % int(port)
    head = b"POST %b HTTP/1.1\r\n%b" % (target.encode(), fields)
    for body in questions(random_) if target == MODEL else notifications(random_):
        try:
            connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        except OSError:
            break
        if not receive(connection, log, pace) or is_over:
            break
    log.end("end")


def receive(connection: socket.socket, log: Log, pace: str) -> bytes:
    """The body of the next message, which the log has as it comes; empty when there is no whole one."""
    take: Callable[[int], bytes] = connection.recv
    head = b""
    try:
        while not head.endswith(b"\r\n\r\n"):
            if not (byte := take(1)):
                return b""
            head += byte
        size = int(head.lower().partition(b"content-length:")[2].split()[0])
        body = b""
        while len(body) < size:
            if pace == "slow":
                select.poll().poll(PAUSE_MS)
            if not (data := take(min(size - len(body), 9_000 if pace == "slow" else 1 << 16))):
                return b""
            log.add(data)
            body += data
    except OSError:
        return b""
    return body


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
