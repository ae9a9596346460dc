"""Read recordings of mcp-rec: lines ``{"ts": seconds, "dir": "client->server", "msg": {...}}``.

mcp-rec parses each message and writes it again, so the original spacing, repeated names and invalid UTF-8 are
lost. It does not record stderr, the ends of the streams or the end of the process. It appends to its file, so
a file can hold several sessions; each session begins with ``initialize``.
"""

import os
import re
from collections.abc import Iterator
from typing import Final

from mcpproxy.judge.session.frame import CLIENT, SERVER, Frame, Gap, Sender
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.protocol.raw_json import value_bytes
from mcpproxy.read.importers.import_source import (
    Clock,
    ImportedMessage,
    ImportedSource,
    SessionNumbers,
    first_of_session,
    lines,
    refuse,
    unix_ns,
)
from mcpproxy.record.trace.encode import is_embeddable
from mcpproxy.record.trace.records import Header, Recorded

NAME: Final = "mcp-rec"

_SENDERS: Final[dict[str, Sender]] = {"client->server": CLIENT, "server->client": SERVER}
_IMPORT_NOTE: Final = (
    "from mcp-rec: messages written anew; stderr, invalid UTF-8 and the session's end are not in it"
)


def read(path: str, session: int) -> ImportedSource:
    """Open one session of a file, by its number from 1, or 0 for the only one.

    Raises:
        TraceError: the file is not a recording of mcp-rec, holds no message or no such session, or holds
            several sessions and none is selected.
    """
    first, started_at = first_of_session(path, session, _messages(path))
    header = Header(
        mcpproxy="",
        transport="stdio",
        label=os.path.basename(path),
        started_at=started_at,
        imported=_IMPORT_NOTE,
    )
    return ImportedSource(header, lambda: _events(path, first.session))


def _events(path: str, chosen: int) -> Iterator[Recorded]:
    clock = Clock()
    seq = 0
    for imported in _messages(path):
        sender, raw = imported.sender, imported.raw
        if imported.session != chosen or raw is None:
            continue
        seq += 1
        frame = Frame(seq, sender, raw, clock.since(imported.unix_ns))
        # mcp-rec writes NaN or Infinity, which are not JSON, for a number too large for a float.
        if raw[:1] in b"{[" and not is_embeddable(frame) and re.search(rb"NaN|Infinity", raw):
            seq -= 1
            lost = {"client_bytes" if sender == CLIENT else "server_bytes": len(raw)}
            yield Gap("a number that mcp-rec did not keep", **lost, observed_at_ns=frame.observed_at_ns)
        else:
            yield frame


def _messages(path: str) -> Iterator[ImportedMessage]:
    sessions = SessionNumbers()
    for number, line, members in lines(path, NAME):
        sender, message = _sender_and_message(path, number, members)
        yield sessions.numbered("", sender, message, _raw(line, message), unix_ns(members.get("ts")))


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
