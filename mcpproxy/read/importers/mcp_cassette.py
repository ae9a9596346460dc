"""Read cassettes of the two programs that are called mcp-cassette.

The one for Python writes one JSON document: ``{"format_version", "recorded_at", "messages": [...]}``. The one
for Node.js writes lines: first a header with ``cassetteVersion``, then lines of three types: ``frame`` (a
message), ``raw`` (a line that was no message) and ``chunks`` (the messages of a stream). Both re-serialise
messages and replace secrets. Neither keeps HTTP heads, stderr or the end of the session.

Source: mcp-cassette 0.4.0 (PyPI), ``mcp_cassette/cassette.py``; ivermin1123/mcp-cassette,
``docs/cassette-format-v2.md``
"""

import os
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import orjson

from mcpproxy.judge.session.frame import CLIENT, SERVER, Frame, Gap, Sender
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.message_parts import member, objects_in
from mcpproxy.read.importers.import_source import (
    MAX_BYTES,
    Clock,
    ImportedSource,
    lines,
    read_json_file,
    refuse,
    unix_ns,
)
from mcpproxy.record.trace.records import Header, Recorded

NAME: Final = "mcp-cassette"

DOCUMENT: Final = re.compile(rb'\s*\{\s*"format_version"\s*:\s*\d+\s*,\s*"recorded_at"\s*:')
"""How a cassette of the program for Python begins."""

_SENDERS: Final[dict[str, Sender]] = {"client": CLIENT, "c2s": CLIENT, "server": SERVER, "s2c": SERVER}
_IMPORT_NOTE: Final = "from mcp-cassette: messages written anew; stderr and the session's end are not in it"
_PARTIAL_NOTE: Final = "mcp-cassette keeps no HTTP heads"


class _Message(NamedTuple):
    """A message, or a line that is no message.

    ``value`` is its JSON value, or the text of such a line. ``at_ms`` is its time in ms since the recording
    began. ``is_late`` is true if it was added after the session.
    """

    at_ms: float
    sender: Sender
    value: JSON
    is_late: bool = False


def read_document(path: str, session: int) -> ImportedSource:
    """Open a cassette of the program for Python.

    It holds one session, so ``session`` is 0 or 1.

    Raises:
        TraceError: the file is not a cassette, holds no message, or there is no such session.
    """
    cassette = read_json_file(path, "cassette")
    listed = objects_in(member(cassette, "messages"))
    messages = [
        _Message(_time_ms(item, "t_offset_ms"), _SENDERS[sender], item.get("payload"))
        for item in listed
        if isinstance(sender := item.get("sender"), str) and sender in _SENDERS
    ]
    header = _header(
        path,
        session,
        recorded_at=member(cassette, "recorded_at"),
        url=member(cassette, "server_url"),
        is_http=member(cassette, "transport") == "http",
        is_redacted=any(item.get("redacted") is True for item in listed),
    )
    return _source(path, header, messages)


def read_lines(path: str, session: int) -> ImportedSource:
    """Open a cassette of the program for Node.js.

    It holds one session, so ``session`` is 0 or 1.

    Raises:
        TraceError: the file is no cassette, is over ``MAX_BYTES``, or has no message or no such session.
    """
    first: JSONObject = {}
    messages: list[_Message] = []
    size = 0
    for number, line, members in lines(path, NAME):
        size += len(line)
        if size > MAX_BYTES:
            refuse(path, number, f"is over {MAX_BYTES >> 20} MiB, too long to be read as a cassette")
        if number == 1:
            first = members
        messages += _messages_in(members)
    if "cassetteVersion" not in first:
        refuse(path, 1, "not the header of a cassette")
    command = first.get("command")
    header = _header(
        path,
        session,
        recorded_at=first.get("startedAt"),
        url=first.get("url"),
        is_http=first.get("transport") == "http",
        is_redacted=member(first, "redaction", "applied") is True,
        command=tuple(map(str, command)) if isinstance(command, list) else (),
    )
    # A stream is written when it ends; each of its messages has the time at which it came.
    in_order = sorted(messages, key=lambda message: (message.is_late, message.at_ms))
    return _source(path, header, in_order)


def _messages_in(members: JSONObject) -> Iterator[_Message]:
    """Yield the messages of a line of a cassette. Lines of unknown types are skipped."""
    sender = _SENDERS.get(str(members.get("dir")))
    if sender is None:
        return
    is_late = members.get("origin") == "live"
    match members:
        case {"type": "frame", "frame": message} | {"type": "raw", "data": str(message)}:
            yield _Message(_time_ms(members, "t"), sender, message, is_late=is_late)
        case {"type": "chunks", "chunks": chunks}:
            for chunk in objects_in(chunks):
                if "frame" in chunk:
                    yield _Message(_time_ms(chunk, "t"), sender, chunk["frame"], is_late=is_late)
        case _:
            pass


def _time_ms(members: JSONObject, name: str) -> float:
    """Return the member ``name``, a time in ms; 0 if it is missing, negative, or 1e13 or more."""
    value = members.get(name)
    return value if isinstance(value, int | float) and 0 < value < 1e13 else 0


def _header(
    path: str,
    session: int,
    *,
    recorded_at: JSON,
    url: JSON,
    is_http: bool,
    is_redacted: bool,
    command: tuple[str, ...] = (),
) -> Header:
    if session > 1:
        refuse(path, None, "holds one session")
    clock = Clock()
    clock.since(unix_ns(recorded_at))  # this sets ``started_at``
    return Header(
        mcpproxy="",
        transport="http" if is_http else "stdio",
        command=command,
        label=os.path.basename(path),
        started_at=clock.started_at,
        upstream=url if isinstance(url, str) else "",
        redaction=NAME if is_redacted else "none",
        partial=_PARTIAL_NOTE if is_http else "",
        imported=_IMPORT_NOTE,
    )


def _source(path: str, header: Header, messages: list[_Message]) -> ImportedSource:
    if not messages:
        refuse(path, None, "holds no message")
    return ImportedSource(header, lambda: _events(messages))


def _events(messages: list[_Message]) -> Iterator[Recorded]:
    at_ns = 0
    for seq, message in enumerate(messages, start=1):
        if message.is_late:
            yield Gap("mcp-cassette added messages of another session", observed_at_ns=at_ns)
            return
        at_ns = max(at_ns, round(message.at_ms * 1e6))
        value = message.value
        raw = value.encode("utf-8", "replace") if isinstance(value, str) else orjson.dumps(value)
        yield Frame(seq, message.sender, raw, at_ns)
