"""Read recordings of mcpsnoop: lines with ``seq``, ``ts``, ``direction``, ``transport``, ``raw``.

``raw`` is the message without the spaces between its tokens. A line that is not JSON is stored as ``text``
instead. On stdio, mcpsnoop dropped a line if ``seq`` skips a number. A gap replaces such a line, a message
that was truncated, and an HTTP error or body without a message. A recording of HTTP has no heads of requests
and responses, and does not name the stream of a message: the messages of all connections are in one sequence,
and batches are split. If several clients speak at once, the messages are distinguished by the connections
that they name. The end of the session is not recorded.
"""

from collections.abc import Iterator
from itertools import count
from typing import Final

from mcpproxy.base.visible import visible
from mcpproxy.judge.session.frame import CLIENT, SERVER, Frame, Gap, Sender, Stderr
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.protocol.raw_json import value_bytes
from mcpproxy.read.importers.import_source import (
    Clock,
    ImportedSource,
    lines,
    refuse,
    selected_session,
    unix_ns,
)
from mcpproxy.record.trace.records import Header, Recorded

NAME: Final = "mcpsnoop"

_SENDERS: Final[dict[str, Sender]] = {"c2s": CLIENT, "s2c": SERVER}
_DIRECTIONS: Final = (*_SENDERS, "stderr", "meta")
_REDACTED: Final = "[REDACTED]"
_UNKNOWN_MASK: Final = "masked(len=0,visible=yes,hash=000000000000)"
"""The mask that our recordings use for a secret of unknown value."""

_IMPORT_NOTE: Final = "from mcpsnoop: spaces between tokens and the session's end are not in it"
_PARTIAL_NOTE: Final = (
    "mcpsnoop keeps no HTTP: no heads, no streams, messages of all connections in one sequence"
)
_NAMED_NOTE: Final = "mcpsnoop keeps no HTTP heads and no streams"
_MIXED_NOTE: Final = (
    "mcpsnoop keeps no HTTP heads, and several clients speak at once: their messages are shown, not judged"
)


def read(path: str, session: int) -> ImportedSource:
    """Open one session of a file, by its number from 1, or 0 for the only one.

    Raises:
        TraceError: the file is not a recording of mcpsnoop, holds no message or no such session, holds
            several sessions and none is selected, or the session has several HTTP clients and does not name
            the connection of each message.
    """
    sessions: dict[str, JSONObject] = {}
    commands: dict[str, tuple[tuple[str, ...], str]] = {}  # session -> command and working directory
    connections: dict[str, _Connections] = {}
    is_redacted = False
    for number, _, members in lines(path, NAME):
        id, direction, raw = _session_id(path, number, members), members.get("direction"), members.get("raw")
        sessions.setdefault(id, members)
        is_redacted = is_redacted or members.get("redacted") is True
        if direction == "meta" and isinstance(raw, dict) and isinstance(words := raw.get("command"), list):
            commands[id] = tuple(map(str, words)), str(raw.get("cwd", ""))
        connections.setdefault(id, _Connections()).add(members)
    chosen = selected_session(path, session, len(sessions)) if sessions else 0
    if not chosen:
        refuse(path, None, "holds no message")
    id, first_record = list(sessions.items())[chosen - 1]
    is_http = first_record.get("transport") == "http"
    is_mixed = is_http and connections[id].are_mixed
    if is_mixed and not connections[id].are_named:
        refuse(path, None, "several HTTP clients in one sequence, and nothing tells which message is whose")
    note = _MIXED_NOTE if is_mixed else _NAMED_NOTE if connections[id].are_named else _PARTIAL_NOTE
    clock = Clock()
    clock.since(unix_ns(first_record.get("ts")))  # this sets ``started_at``
    words, cwd = commands.get(id, ((), ""))
    header = Header(
        mcpproxy="",
        transport="http" if is_http else "stdio",
        command=words,
        label=str(first_record.get("server_label", "")),
        cwd=cwd,
        started_at=clock.started_at,
        redaction=NAME if is_redacted else "none",
        partial=note if is_http else "",
        imported=_IMPORT_NOTE,
    )
    return ImportedSource(header, lambda: _events(path, id, is_http, is_mixed))


class _Connections:
    """Tells whether an HTTP session has the messages of several clients.

    ``are_mixed`` is true if two requests with the same id wait for answers at the same time, or a second
    client begins. ``are_named`` is true if each message names its connection.
    """

    def __init__(self) -> None:
        self.are_mixed, self.are_named = False, True
        self._open: set[str | int] = set()
        self._is_begun = False

    def add(self, members: JSONObject) -> None:
        """Add the next record of the session."""
        direction, raw = members.get("direction"), members.get("raw")
        if direction not in _SENDERS or not isinstance(raw, dict):
            return
        self.are_named = self.are_named and isinstance(members.get("conn_id"), str)
        id, method = raw.get("id"), raw.get("method")
        is_from_client = direction == "c2s" and method is not None
        if is_from_client and method == "initialize":
            self.are_mixed = self.are_mixed or self._is_begun
            self._is_begun = True
        if isinstance(id, str | int):
            if is_from_client:
                self.are_mixed = self.are_mixed or id in self._open
                self._open.add(id)
            elif direction == "s2c" and method is None:
                self._open.discard(id)


def _session_id(path: str, number: int, members: JSONObject) -> str:
    """Return the session id of the record in line ``number``.

    Raises:
        TraceError: the line is not a record of mcpsnoop.
    """
    id, seq = members.get("session_id"), members.get("seq")
    if isinstance(id, str) and isinstance(seq, int) and members.get("direction") in _DIRECTIONS:
        return id
    return refuse(path, number, "not a record of mcpsnoop")


def _events(path: str, id: str, is_http: bool, is_mixed: bool) -> Iterator[Recorded]:
    clock = Clock()
    exchanges, numbers = dict[str, int](), count(1)  # connection -> its open exchange
    expected_seq, seq = 1, 0
    for number, line, members in lines(path, NAME):
        if _session_id(path, number, members) != id:
            continue
        at_ns = clock.since(unix_ns(members.get("ts")))
        line_seq = members.get("seq")
        if isinstance(line_seq, int) and not is_http:  # over HTTP ``seq`` does not give the order
            if line_seq > expected_seq:
                yield Gap(f"mcpsnoop dropped {line_seq - expected_seq} lines", observed_at_ns=at_ns)
            expected_seq = max(expected_seq, line_seq + 1)
        text = members.get("text")
        direction = str(members["direction"])
        if direction == "stderr":
            yield Stderr(str(text or "").encode("utf-8", "replace"), at_ns)
        elif sender := _SENDERS.get(direction):
            raw = _raw(line, members)
            if members.get("truncated") is True:
                yield Gap("mcpsnoop kept only the beginning of a message", observed_at_ns=at_ns)
            elif raw is None and is_http:
                if reason := _lost_body_text(members):
                    yield Gap(reason, observed_at_ns=at_ns)
            elif raw is not None or text is not None:
                seq += 1
                frame = Frame(seq, sender, raw or str(text).encode("utf-8", "replace"), at_ns)
                if is_mixed and isinstance(connection := members.get("conn_id"), str):
                    if sender == CLIENT or connection not in exchanges:
                        exchanges[connection] = next(numbers)
                    frame.exchange = exchanges[connection]
                yield frame


def _lost_body_text(members: JSONObject) -> str:
    """Return the text of the gap for an HTTP body without a message; empty if there may have been no body."""
    status, challenge = members.get("status"), members.get("auth_challenge")
    is_error = isinstance(status, int) and status >= 400
    if not (members.get("text") or is_error):
        return ""
    kept = "a body that is no JSON" if members.get("text") else "no body"
    answer = f" of an answer with HTTP {status}" if is_error else ""
    named = f" (WWW-Authenticate: {visible(challenge)})" if isinstance(challenge, str) else ""
    return f"mcpsnoop kept {kept}{answer}{named}"


def _raw(line: bytes, members: JSONObject) -> bytes | None:
    """Return the bytes of the message, taken from the line; ``None`` if the line has no ``raw``.

    The marks of mcpsnoop for removed secrets become masks of ours.
    """
    if members.get("raw") is None:
        return None
    raw = value_bytes(line, ("raw",)) or b"null"
    if members.get("redacted") is True:
        raw = raw.replace(_REDACTED.encode("ascii"), _UNKNOWN_MASK.encode("ascii"))
    return raw
