"""Read recordings of mcp-rec: lines ``{"ts": seconds, "dir": "client->server", "msg": {...}}``.

mcp-rec parses each message and writes it again, so the original spacing, repeated names and invalid UTF-8 are
lost. It does not record stderr, the ends of the streams or the end of the process. It appends to its file, so
a file can hold several sessions; each session begins with ``initialize``.
"""

import os
import re
from collections.abc import Iterator
from typing import Final

from mcpproxy.importers.import_source import Clock, ImportedSource, lines, refuse, selected_session, unix_ns
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.raw_json import value_bytes
from mcpproxy.session.frame import CLIENT, SERVER, Frame, Gap, Sender
from mcpproxy.trace.encode import is_embeddable
from mcpproxy.trace.records import Header, Recorded

NAME: Final = "mcp-rec"

_SENDERS: Final[dict[str, Sender]] = {"client->server": CLIENT, "server->client": SERVER}
_IMPORT_NOTE: Final = (
    "from mcp-rec: messages written anew; stderr, invalid UTF-8 and the session's end are not in it"
)


def read(path: str, session: int) -> ImportedSource:
    """Open one session of a file.

    Raises:
        TraceError: the file is not a recording of mcp-rec, or holds several sessions and none is selected.
    """
    count, start_ns = 0, None
    for current, _, _, unix_time_ns in _messages(path):
        count = current
        start_ns = unix_time_ns if start_ns is None and current == max(1, session) else start_ns
    if count == 0:
        refuse(path, None, "holds no message")
    chosen = selected_session(path, session, count)
    clock = Clock()
    clock.since(start_ns)  # this sets ``started_at``
    header = Header(
        mcpproxy="",
        transport="stdio",
        label=os.path.basename(path),
        started_at=clock.started_at,
        imported=_IMPORT_NOTE,
    )
    return ImportedSource(header, lambda: _events(path, chosen))


def _events(path: str, chosen: int) -> Iterator[Recorded]:
    clock = Clock()
    seq = 0
    for current, sender, raw, unix_time_ns in _messages(path):
        if current != chosen:
            continue
        seq += 1
        frame = Frame(seq, sender, raw, clock.since(unix_time_ns))
        # mcp-rec writes NaN or Infinity, which are not JSON, for a number too large for a float.
        if raw[:1] in b"{[" and not is_embeddable(frame) and re.search(rb"NaN|Infinity", raw):
            seq -= 1
            lost = {"client_bytes" if sender == CLIENT else "server_bytes": len(raw)}
            yield Gap("a number that mcp-rec did not keep", **lost, observed_at_ns=frame.observed_at_ns)
        else:
            yield frame


def _messages(path: str) -> Iterator[tuple[int, Sender, bytes, int | None]]:
    """Yield session number, sender, bytes and Unix time in nanoseconds of each message in the file."""
    current, has_initialize = 1, False
    for number, line, members in lines(path, NAME):
        sender, message = _sender_and_message(path, number, members)
        if sender == CLIENT and member(message, "method") == "initialize":
            if has_initialize:
                current += 1
            has_initialize = True
        yield current, sender, _raw(line, message), unix_ns(members.get("ts"))


def _sender_and_message(path: str, number: int, members: dict[str, JSON]) -> tuple[Sender, JSON]:
    sender = _SENDERS.get(str(members.get("dir")))
    if sender is None or "msg" not in members:
        refuse(path, number, "not a record of mcp-rec")
    return sender, members["msg"]


def _raw(line: bytes, message: JSON) -> bytes:
    """Return the bytes of a message; mcp-rec stores a line that is not JSON as text in ``_raw``."""
    match message:
        case {"_unparsed": True, "_raw": str(text)}:
            return text.encode("utf-8", "replace")
        case _:
            return value_bytes(line, ("msg",)) or b"null"
