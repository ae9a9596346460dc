"""The journal: the relay's append-only copy of what it forwarded, until the recorder has filed it.

A journal is the folder ``<trace>.journal`` beside the trace it feeds. It holds segments named by an
eight-digit number from ``00000001`` on, each a run of records, and a ``checkpoint`` that the recorder
keeps. A segment that has been filed in the trace is deleted; a folder that outlives its session is
folded into the trace by the next command that opens it.

A record is a fixed head and a payload. The head is little-endian: payload length (u32), kind (u8),
three zero bytes, connection (u32, 0 on stdio), time (u64, ``time.monotonic_ns``). Nothing in it is
escaped or terminated: a segment that ends inside a record was torn by a kill or by a full disk.
"""

import struct
from typing import Final

HEAD: Final = struct.Struct("<IBxxxIQ")

START: Final = 0  # payload: JSON, what the trace's header needs; the first record of every journal
CLIENT: Final = 1  # payload: bytes that the client sent and the server's pipe took
SERVER: Final = 2  # payload: bytes that the server sent and the client's pipe took
STDERR: Final = 3  # payload: bytes of the server's stderr
CLIENT_EOF: Final = 4
SERVER_EOF: Final = 5
STDERR_EOF: Final = 6
SIGNAL: Final = 7  # payload: the signal's name in ASCII, received by the wrapper
GAP: Final = 8  # payload: JSON, {"reason": str, "client": bytes, "server": bytes, "stderr": bytes}
EXIT: Final = 9  # payload: JSON, {"ending": str, "code": int|null, "signal": int|null}; the last record

SEGMENT_BYTES: Final = 8 << 20
"""A segment is left for the next one when it has grown past this."""

LIMIT_BYTES: Final = 1 << 30
"""What all segments together may hold; beyond it the traffic goes on and the loss becomes a gap."""


def folder(trace: str) -> str:
    """Where the journal of the trace file ``trace`` lies."""
    return trace + ".journal"


def segment_name(number: int) -> str:
    return f"{number:08d}"
