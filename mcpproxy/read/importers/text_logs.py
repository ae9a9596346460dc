"""Read texts that people paste: the log that a host keeps of a server, or JSON-RPC messages.

Claude Desktop writes ``TIME [SERVER] [info] Message from client: MESSAGE { metadata: undefined }``. Older
versions write nothing after the message, or the level before the server. Claude Desktop logs every message,
so a session that begins with ``initialize`` is considered complete. VS Code writes
``TIME [debug] [editor -> server] MESSAGE`` if its log level is Debug or Trace. Other lines are the host's
own. The server's stderr is not imported: in the log of Claude Desktop nothing tells its lines from those of
the host.

In a log, a message is on one line; else it may be laid out over several. If a file begins with an array, its
elements are successive messages; any other array is a batch. To each message mcporter adds a ``_meta`` with
``direction``, ``server`` and ``ts``, which is removed here. Without one, the direction of a message is a
guess, by who may send its method and whose request it answers.
"""

import json
import os
import re
from collections.abc import Callable, Iterator
from typing import Final

from mcpproxy.judge.session.frame import CLIENT, SERVER, Frame, Gap, Sender
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.message_parts import as_object, member, objects_in
from mcpproxy.protocol.methods import kind_of, sends_in_any
from mcpproxy.protocol.raw_json import elements, without_value
from mcpproxy.protocol.revisions import REVISIONS
from mcpproxy.read.importers.import_source import (
    LINE_LIMIT_BYTES,
    Clock,
    ImportedMessage,
    ImportedSource,
    SessionNumbers,
    first_of_session,
    opened_file,
    refuse,
    unix_ns,
)
from mcpproxy.read.importers.json_texts import CUT_LINE, json_texts
from mcpproxy.record.trace.records import Header, Recorded

MARK: Final = re.compile(
    rb"^[ \t>]*(?:(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?Z?) )?"
    rb"(?:\[(?:info|debug|warn|warning|error|trace)\] )?(?:\[(?P<name>[^\]\n]*)\] )?(?:\[[a-z]+\] )?"
    rb"(?:(?P<desktop>Message from (?P<from>client|server): )"
    rb"|\[(?P<by>editor|server) -> (?:server|editor)\] )",
    re.MULTILINE,
)
"""Matches the text before a message in a host's log. The level is before or after the server's name."""

_CLIENT_WORDS: Final = (b"client", b"editor")
_DIRECTIONS: Final[dict[JSON, Sender]] = {"send": CLIENT, "recv": SERVER}

_LOG_NOTE: Final = "from a host's log: stderr, lines that are no messages and the session's end are not in it"
_NAMED_SENDERS_NOTE: Final = (
    "from JSON lines: each says who sent it; stderr and the session's end are not in it"
)
_GUESSED_NOTE: Final = "from JSON lines: the direction of a message is guessed where no line says it"
_PARTIAL_NOTE: Final = "a part of a session may have been copied, and a host does not log every message"


def read_log(path: str, session: int) -> ImportedSource:
    """Open one session of a host's log, by its number from 1, or 0 for the only one.

    Raises:
        TraceError: the file holds no message or no such session, holds several sessions and none is selected,
            or has too long a line.
    """
    return _source(path, session, lambda: _log_messages(path), is_log=True)


def read_lines(path: str, session: int) -> ImportedSource:
    """Open one session of a file of JSON-RPC messages, by its number from 1, or 0 for the only one.

    Raises:
        TraceError: a text in the file is no message, or the file holds no message or no such session, or
            holds several sessions and none is selected.
    """
    return _source(path, session, lambda: _json_messages(path), is_log=False)


def is_message(value: JSON) -> bool:
    """Whether a JSON value is a JSON-RPC message, or an array of messages."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(item, dict) and is_message(item) for item in value)
    members = as_object(value) or {}
    return "jsonrpc" in members and not members.keys().isdisjoint(("method", "result", "error"))


def _source(
    path: str, session: int, messages: Callable[[], Iterator[ImportedMessage]], *, is_log: bool
) -> ImportedSource:
    guessed_sessions = set[int]()

    def tracked_messages() -> Iterator[ImportedMessage]:
        for message in messages():
            if message.is_guessed:
                guessed_sessions.add(message.session)
            yield message

    first, started_at = first_of_session(path, session, tracked_messages())
    note = (
        _LOG_NOTE if is_log else _GUESSED_NOTE if first.session in guessed_sessions else _NAMED_SENDERS_NOTE
    )
    is_complete = is_log and first.server and first.begins
    header = Header(
        mcpproxy="",
        transport="stdio",
        label=first.server or os.path.basename(path),
        started_at=started_at,
        partial="" if is_complete else _PARTIAL_NOTE,
        imported=note,
    )

    def events() -> Iterator[Recorded]:
        clock, seq = Clock(), 0
        for message in messages():
            if message.session != first.session:
                continue
            at_ns = clock.since(message.unix_ns)
            if message.raw is None:
                yield Gap("the log has only a part of a message", observed_at_ns=at_ns)
            else:
                seq += 1
                yield Frame(seq, message.sender, message.raw, at_ns)

    return ImportedSource(header, events)


def _log_messages(path: str) -> Iterator[ImportedMessage]:
    """Yield the messages in the log of a host.

    Raises:
        TraceError: the file cannot be read, or has too long a line.
    """
    sessions = SessionNumbers()
    with opened_file(path) as file:
        number = 0
        while line := file.readline(LINE_LIMIT_BYTES):
            number += 1
            if len(line) == LINE_LIMIT_BYTES:
                refuse(path, number, f"a line of {LINE_LIMIT_BYTES >> 20} MiB or more, too long to read")
            if mark := MARK.match(line):
                sender = CLIENT if (mark["from"] or mark["by"]) in _CLIENT_WORDS else SERVER
                server = mark["name"] if mark["desktop"] else None
                text = line[mark.end() :].decode("utf-8", "surrogateescape")
                message, end = _first_value(text)
                yield sessions.numbered(
                    (server or b"").decode("utf-8", "replace"),
                    sender,
                    message,
                    text[:end].encode("utf-8", "surrogateescape") if end else None,
                    unix_ns((mark["time"] or b"").decode()),
                )


def _first_value(text: str) -> tuple[JSON, int]:
    """Return the JSON value at the start of a text, and where it ends; 0 if there is no complete one."""
    try:
        value: JSON
        value, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None, 0
    return value, end


def _json_messages(path: str) -> Iterator[ImportedMessage]:
    """Yield the messages of a file of JSON texts; for a last line that is cut, one without bytes.

    Raises:
        TraceError: a text is not a message.
    """
    sessions, requesters = SessionNumbers(), dict[JSON, Sender]()
    last: ImportedMessage | None = None
    for text in json_texts(path):
        if last and text.fault == CUT_LINE:
            yield sessions.numbered(last.server, SERVER, None, None, None)
            return
        if text.fault or not is_message(text.value):
            refuse(path, text.line, text.fault or "not a JSON-RPC message")
        messages = ((text.raw, text.value),)
        if last is None and isinstance(text.value, list):
            messages = zip(elements(text.raw), text.value, strict=True)
        for raw, value in messages:
            last = _numbered_message(raw, value, sessions, requesters)
            yield last


def _numbered_message(
    raw: bytes, value: JSON, sessions: SessionNumbers, requesters: dict[JSON, Sender]
) -> ImportedMessage:
    """Return a message or a batch with the number of its session.

    ``requesters`` are the senders of the open requests, by id. They are updated by the message.
    """
    messages = objects_in(value) or [as_object(value) or {}]
    note = as_object(messages[0].get("_meta")) or {}
    named_sender = _DIRECTIONS.get(direction) if isinstance(direction := note.get("direction"), str) else None
    if named_sender:
        raw = without_value(raw, ("_meta",)) or raw
    sender = named_sender or _guess_sender(messages[0], requesters)
    for message in messages:
        method, id = message.get("method"), message.get("id")
        if isinstance(id, int | str):
            if method is None:
                requesters.pop(id, None)
            else:
                requesters[id] = sender
    server = note.get("server") if named_sender else None
    return sessions.numbered(
        server if isinstance(server, str) else "",
        sender,
        value,
        raw,
        unix_ns(note.get("ts")) if named_sender else None,
        is_guessed=not named_sender,
    )


def _guess_sender(message: JSONObject, requesters: dict[JSON, Sender]) -> Sender:
    """Return who probably sent a message. ``requesters`` are the senders of the open requests, by id."""
    method, id = message.get("method"), message.get("id")
    if not isinstance(method, str):
        known = isinstance(id, int | str)
        return CLIENT if known and requesters.get(id) == SERVER else SERVER
    kind = "notification" if id is None and "id" not in message else "request"
    of_client, of_server = (
        sends_in_any(sender, method, kind_of(method), REVISIONS) for sender in (CLIENT, SERVER)
    )
    if of_client != of_server:
        return CLIENT if of_client else SERVER
    if method == "notifications/cancelled":
        cancelled = member(message.get("params"), "requestId")
        return requesters.get(cancelled, CLIENT) if isinstance(cancelled, int | str) else CLIENT
    return SERVER if kind == "notification" else CLIENT
