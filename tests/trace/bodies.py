"""The body of an HTTP message, from the records of a trace."""

from collections.abc import Iterable

from mcpproxy.judge.session.frame import Frame, Sender
from mcpproxy.record.trace.records import Encoded, frame_bytes


def body_bytes(records: Iterable[object], exchange: int, sender: Sender) -> bytes:
    """Return the exact bytes of one body, without its transfer coding, from the records of a trace.

    Credentials in bodies that are not MCP messages are masked, unless the recording kept them.
    """
    encoded: list[bytes] = []
    framed: list[bytes] = []
    for record in records:
        match record:
            case Encoded() if (record.exchange, record.sender) == (exchange, sender):
                encoded.append(record.data)
            case Frame() if (record.exchange, record.sender) == (exchange, sender):
                framed.append(frame_bytes(record))
            case _:
                pass
    return b"".join(encoded or framed)
