"""Read recordings of mcpsnoop: lines with ``seq``, ``ts``, ``direction``, ``transport``, ``raw``.

``raw`` is the message without the spaces between its tokens; ``text`` is a line that is not JSON. If ``seq``
skips a number, a line was dropped. Over HTTP there are no heads and no streams: the messages of all
connections are in one sequence, and batches are split. The end of the session is not recorded.
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.importers.import_source import Clock, ImportedSource, choose, lines, refuse, unix_ns
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.protocol.raw_json import value_bytes
from mcpproxy.session.frame import CLIENT, SERVER, Frame, Gap, Sender, Stderr
from mcpproxy.trace.records import Header, Recorded

NAME: Final = "mcpsnoop"

_SENDERS: Final[dict[str, Sender]] = {"c2s": CLIENT, "s2c": SERVER}
_DIRECTIONS: Final = (*_SENDERS, "stderr", "meta")
_REDACTED: Final = "[REDACTED]"
_UNKNOWN: Final = "masked(len=0,visible=yes,hash=000000000000)"
"""The mask that our recordings use for an unknown value."""

_LOST: Final = "from mcpsnoop: spaces between tokens and the end are not in it"
_NO_HTTP: Final = "mcpsnoop keeps no HTTP: no heads, no streams, messages of all connections in one row"


def read(path: str, session: int) -> ImportedSource:
    """Open one session of a file.

    Raises:
        TraceError: the file is not a recording of mcpsnoop, or holds several sessions and none is selected.
    """
    sessions: dict[str, JSONObject] = {}
    command: dict[str, tuple[tuple[str, ...], str]] = {}
    opened: dict[str, int] = {}
    redacted = False
    for number, _, members in lines(path, NAME):
        id, direction, raw = _id(path, number, members), members.get("direction"), members.get("raw")
        sessions.setdefault(id, members)
        redacted = redacted or members.get("redacted") is True
        match direction, raw:
            case "meta", {"command": list(words), **rest}:
                command[id] = tuple(map(str, words)), str(rest.get("cwd", ""))
            case "c2s", {"method": "initialize"}:
                opened[id] = opened.get(id, 0) + 1
            case _:
                pass
    chosen = choose(path, session, len(sessions)) if sessions else 0
    if not chosen:
        refuse(path, None, "holds no message")
    id, first = list(sessions.items())[chosen - 1]
    is_http = first.get("transport") == "http"
    if is_http and opened.get(id, 0) > 1:
        refuse(path, None, "several HTTP clients in one row, and nothing tells which message is whose")
    clock = Clock()
    clock.since(unix_ns(first.get("ts")))
    words, cwd = command.get(id, ((), ""))
    header = Header(
        mcpproxy="",
        transport="http" if is_http else "stdio",
        command=words,
        label=str(first.get("server_label", "")),
        cwd=cwd,
        started_at=clock.started_at,
        redaction=NAME if redacted else "none",
        partial=_NO_HTTP if is_http else "",
        imported=_LOST,
    )
    return ImportedSource(header, lambda: _events(path, id, is_http))


def _id(path: str, number: int, members: JSONObject) -> str:
    id, seq = members.get("session_id"), members.get("seq")
    if isinstance(id, str) and isinstance(seq, int) and members.get("direction") in _DIRECTIONS:
        return id
    return refuse(path, number, "not a record of mcpsnoop")


def _events(path: str, id: str, is_http: bool) -> Iterator[Recorded]:
    clock = Clock()
    expected, seq = 1, 0
    for number, line, members in lines(path, NAME):
        if _id(path, number, members) != id:
            continue
        at_ns = clock.since(unix_ns(members.get("ts")))
        found = members.get("seq")
        if isinstance(found, int) and not is_http:  # over HTTP ``seq`` does not give the order
            if found > expected:
                yield Gap(f"mcpsnoop dropped {found - expected} lines", observed_at_ns=at_ns)
            expected = max(expected, found + 1)
        text = members.get("text")
        direction = str(members["direction"])
        if direction == "stderr":
            yield Stderr(str(text or "").encode("utf-8", "replace"), at_ns)
        elif sender := _SENDERS.get(direction):
            raw = _raw(line, members)
            if members.get("truncated") is True or (raw is None and text and is_http):
                what = "only the beginning" if members.get("truncated") is True else "a body that is no JSON"
                yield Gap(f"mcpsnoop kept {what} of a message", observed_at_ns=at_ns)
            elif raw is not None or (text is not None and not is_http):
                seq += 1
                yield Frame(seq, sender, raw or str(text).encode("utf-8", "replace"), at_ns)


def _raw(line: bytes, members: JSONObject) -> bytes | None:
    """Return the bytes of the message, taken from the line; ``None`` if it has none."""
    if members.get("raw") is None:
        return None
    raw = value_bytes(line, ("raw",)) or b"null"
    if members.get("redacted") is True:
        raw = raw.replace(_REDACTED.encode("ascii"), _UNKNOWN.encode("ascii"))
    return raw
