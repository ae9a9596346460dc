"""The peers of ``peers.c`` in Python, for machines without a C compiler: same arguments, same lines.

Slower than what they measure, so the figures they give say little about the cost of what is between;
that no byte is lost or changed they show as well.
"""

import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Final

FIRST_ID: Final = 1_000_000

INITIALIZE: Final = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{},"clientInfo":{"name":"load","version":"1"}}}\n'
)
INITIALIZE_RESULT: Final = (
    b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}}}\n'
)
INITIALIZED: Final = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'

CALL: Final = (
    b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%b"}}}\n'
)
ANSWER: Final = (
    b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"%b"}],"isError":false}}\n'
)

TEXT_AT: Final = CALL.index(b"%b") + len(b"1000000") - len(b"%d")
CALL_END: Final = CALL[CALL.index(b"%b") + 2 :]

ROOM: Final = 1 << 20


def text(index: int, size: int) -> bytes:
    """What call number ``index`` of ``size`` bytes says; the answer says it again."""
    return bytes([ord("a") + index % 26]) * max(0, size - len(CALL % (FIRST_ID, b"")))


def serve(boot_ms: int) -> int:
    time.sleep(boot_ms / 1000)
    held = b""
    while chunk := os.read(0, ROOM):
        *lines, held = (held + chunk).split(b"\n")
        write_all(1, b"".join(answer(line + b"\n") for line in lines))
    return 0


def answer(line: bytes) -> bytes:
    if line == INITIALIZE:
        return INITIALIZE_RESULT
    if line == INITIALIZED:
        return b""
    return ANSWER % (int(line[22:29]), line[TEXT_AT : -len(CALL_END)])


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def drive(kind: str, size: int, count: int, window: int, command: list[str]) -> int:
    began = time.monotonic_ns()
    child, to, back = start(kind, command)
    write_all(to, INITIALIZE)
    held = b""
    while not held.endswith(b"\n"):
        held += expect(back)
    assert held == INITIALIZE_RESULT, "another answer than the server's to initialize"
    say(f"ready {child.pid} {(time.monotonic_ns() - began) // 1000}")
    write_all(to, INITIALIZED)
    sys.stdin.readline()

    os.set_blocking(to, False)
    os.set_blocking(back, False)
    sent_at: list[int] = []
    took: list[int] = []
    pending, held = memoryview(b""), bytearray()
    first = time.monotonic_ns()
    while len(took) < count:
        may_send = bool(pending) or (len(sent_at) < count and len(sent_at) - len(took) < window)
        readable, writable, _ = select.select([back], [to] if may_send else [], [], 60)
        assert readable or writable, "nothing moved for a minute"
        if writable:
            if not pending:
                pending = memoryview(CALL % (FIRST_ID + len(sent_at), text(len(sent_at), size)))
                sent_at.append(time.monotonic_ns())
            pending = pending[os.write(to, pending) :]
        if readable:
            held += expect(back)
            read_at = time.monotonic_ns()
            *lines, rest = held.split(b"\n")
            for line in lines:
                index = len(took)
                assert line + b"\n" == ANSWER % (FIRST_ID + index, text(index, size)), (
                    "a byte was changed or lost"
                )
                took.append(read_at - sent_at[index])
            held = rest
    last = time.monotonic_ns()
    took.sort()
    p50, p99 = (took[count * share // 100] / 1000 if count else 0 for share in (50, 99))
    say(f"done {(last - first) / 1e9:.6f} {p50:.2f} {p99:.2f} {last}")
    sys.stdin.readline()

    closed = time.monotonic_ns()
    os.set_blocking(back, True)
    os.close(to)
    assert os.read(back, 1) == b"", "more bytes than answers"
    status = child.wait()
    say(f"closed {status} {(time.monotonic_ns() - closed) // 1000}")
    return 0


def start(
    kind: str, command: list[str], cwd: Path | None = None, stderr: IO[bytes] | None = None
) -> tuple[subprocess.Popen[bytes], int, int]:
    """The child, and our ends of its stdin and its stdout."""
    if kind == "pipe":
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=cwd, stderr=stderr
        )
        assert child.stdin is not None
        assert child.stdout is not None
        return child, os.dup(child.stdin.fileno()), release(child)
    (far_in, to), (far_out, back) = socket.socketpair(), socket.socketpair()
    child = subprocess.Popen(command, stdin=far_in.fileno(), stdout=far_out.fileno(), cwd=cwd, stderr=stderr)
    far_in.close()
    far_out.close()
    return child, to.detach(), back.detach()


def release(child: subprocess.Popen[bytes]) -> int:
    """Keep a plain descriptor of the child's stdout and close the objects around both pipes."""
    assert child.stdin is not None
    assert child.stdout is not None
    back = os.dup(child.stdout.fileno())
    child.stdin.close()
    child.stdout.close()
    return back


def expect(fd: int) -> bytes:
    chunk = os.read(fd, ROOM)
    assert chunk, "the command closed its stdout early"
    return chunk


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", *boot_ms]:
            sys.exit(serve(int(boot_ms[0]) if boot_ms else 0))
        case ["drive", kind, size, count, window, *command]:
            sys.exit(drive(kind, int(size), int(count), int(window), command))
        case _:
            sys.exit("usage: peers.py serve [BOOT_MS] | drive {pipe|socketpair} SIZE COUNT WINDOW COMMAND...")
