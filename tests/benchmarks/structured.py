"""What passes while a result of 1 MB is on the wire: it, a ping behind it, and the pings after it.

The result is structured, so that there is something to judge: it is held against the tool's ``outputSchema``.
A proxy that parsed it before it passed it on would show in all three. The server is this module, run as a
program; the client reads and writes without parsing.
"""

import itertools
import os
import sys
import time
from pathlib import Path
from typing import Final

import orjson

from tests.benchmarks import peers
from tests.benchmarks.options import Kind
from tests.benchmarks.report import Samples
from tests.benchmarks.sessions import CLOSE, ROOT, Variant, WrongBytesError, wait_until_recorded

SIZE: Final = 1 << 20
RESULTS: Final = 20
PINGS: Final = 50
"""So many after each result."""

_ROW: Final = {"type": "object", "properties": {"n": {"type": "integer"}, "text": {"type": "string"}}}
_SCHEMA: Final = {"type": "object", "properties": {"rows": {"type": "array", "items": _ROW}}}
_TOOL: Final[dict[str, object]] = {
    "name": "rows",
    "inputSchema": {"type": "object", "properties": {}},
    "outputSchema": _SCHEMA,
}


def result() -> bytes:
    """Rows, ``SIZE`` bytes of them: one half as they are and one half as the text that says them again."""
    rows = orjson.dumps({"rows": [{"n": n, "text": "x" * 80} for n in range(SIZE // 214)]})
    text = orjson.dumps({"type": "text", "text": rows.decode("ascii")})
    return b'{"content":[%b],"structuredContent":%b}' % (text, rows)


LISTED: Final = b'{"jsonrpc":"2.0","id":1,"result":' + orjson.dumps({"tools": [_TOOL]}) + b"}\n"
RESULT: Final = b'{"jsonrpc":"2.0","id":%d,"result":%b}\n'
LIST: Final = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'
CALL: Final = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"rows","arguments":{}}}\n'
PING: Final = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n'
PONG: Final = b'{"jsonrpc":"2.0","id":%d,"result":{}}\n'


def serve() -> None:
    """Answer what ``measure`` asks, until stdin ends."""
    rows, held = result(), b""
    while chunk := os.read(0, peers.ROOM):
        *lines, held = (held + chunk).split(b"\n")
        for line in lines:
            id = int(line.partition(b'"id":')[2].partition(b",")[0]) if b'"id":' in line else None
            if b'"ping"' in line:
                peers.write_all(1, PONG % id)
            elif b'"tools/call"' in line:
                peers.write_all(1, RESULT % (id, rows))
            elif id is not None:
                peers.write_all(1, peers.INITIALIZE_RESULT if id == 0 else LISTED)


def measure(samples: Samples, variant: Variant, kind: Kind, trace: Path, results: int = RESULTS) -> None:
    """One session with ``results`` results; its times go to ``samples``.

    Raises:
        WrongBytesError: a frame was lost or changed.
    """
    server = [sys.executable, "-m", "tests.benchmarks.structured"]
    with trace.with_suffix(".stderr").open("wb") as stderr:
        child, to, back = peers.start(kind, variant.wrap(server, trace), ROOT, stderr)
        try:
            client = _Client(variant.name, to, back)
            client.ask(peers.INITIALIZE, peers.INITIALIZE_RESULT)
            client.ask(peers.INITIALIZED + LIST, LISTED)
            _make_calls(client, samples, variant.name, results)
            os.close(to)
            if child.wait() != 0:
                raise WrongBytesError(f"{variant.name}: the command exited with status {child.returncode}")
        finally:
            child.kill()
            child.wait()
            os.close(back)
    if variant.records:
        wait_until_recorded(trace, CLOSE)
        _verify(trace, 5 + results * (4 + 2 * PINGS), results)
        trace.unlink()


def _make_calls(client: "_Client", samples: Samples, name: str, results: int) -> None:
    rows, ids = result(), itertools.count(2)
    for _ in range(results):
        id, behind = next(ids), next(ids)
        first, both = client.ask(CALL % id + PING % behind, RESULT % (id, rows) + PONG % behind)
        samples.add("structured result of 1 MB, ms to its first byte", name, first / 1e6)
        samples.add("structured result of 1 MB, ms to the answer behind it", name, both / 1e6)
        slowest = max(client.ask(PING % n, PONG % n)[1] for n in itertools.islice(ids, PINGS))
        samples.add(f"slowest of the {PINGS} pings after it, ms", name, slowest / 1e6)


class _Client:
    def __init__(self, name: str, to: int, back: int) -> None:
        self._name, self._to, self._back = name, to, back

    def ask(self, said: bytes, expected: bytes) -> tuple[int, int]:
        """Nanoseconds until the first and until the last byte of what comes back."""
        began = time.monotonic_ns()
        peers.write_all(self._to, said)
        answer = bytearray(os.read(self._back, peers.ROOM))
        first = time.monotonic_ns() - began
        while len(answer) < len(expected) and (chunk := os.read(self._back, peers.ROOM)):
            answer += chunk
        took = time.monotonic_ns() - began
        if bytes(answer) != expected:
            raise WrongBytesError(f"{self._name}: a byte was changed or lost")
        return first, took


def _verify(trace: Path, frames: int, results: int) -> None:
    """Every frame is in the trace, each result with its bytes, and none is accused."""
    rows, seen, whole = result(), 0, 0
    with trace.open("rb") as file:
        for record in file:
            if record.startswith(b'{"type":"finding"'):
                raise WrongBytesError(f"{trace.name}: a finding in a clean session: {record[:300]!r}")
            seen += record.startswith(b'{"type":"frame"')
            whole += len(record) > SIZE // 2 and rows in record
    if (seen, whole) != (frames, results):
        raise WrongBytesError(f"{trace.name}: {seen} frames of {frames}, {whole} results of {results}")


if __name__ == "__main__":
    serve()
