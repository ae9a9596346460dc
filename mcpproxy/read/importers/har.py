"""Read MCP traffic from the HTTP Archives (HAR 1.2) of browsers and other proxies.

An exchange of the archive is read if JSON-RPC was posted to its URL, if it is an event stream or a well-known
document of the same origin, or if it is a step of a login, at any origin. All other exchanges are left out.

An archive has one time for a whole response. So every event of a stream gets the time at which the stream
ended, unless the archive lists the events with their times (``_eventSourceMessages`` of Chromium). If the
client answered a request of the stream earlier, the request and the events before it get a time before that
answer. Archives often lack the connections, and some also lack credentials or the bodies of streams. If a
request of MCP has no headers in the archive, only the messages are read.

Source: http://www.softwareishard.com/blog/har-12-spec/
"""

import binascii
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from mcpproxy.judge.session.frame import (
    CLIENT,
    SERVER,
    ExchangeEnd,
    Frame,
    Gap,
    Headers,
    RequestHead,
    ResponseHead,
)
from mcpproxy.protocol.jsonrpc import (
    JSON,
    ErrorResponse,
    JSONObject,
    Malformed,
    Request,
    Response,
    parse,
)
from mcpproxy.protocol.message_parts import member, singles
from mcpproxy.protocol.oauth import RESOURCE_METADATA, SERVER_METADATA
from mcpproxy.read.importers.import_source import (
    Clock,
    ImportedSource,
    digest,
    read_json_file,
    refuse,
    selected_session,
    unix_ns,
)
from mcpproxy.record.recorder.http.body_frames import EventBody, WholeBody
from mcpproxy.record.recorder.masking import Masker
from mcpproxy.record.trace.records import Header, Recorded

NAME: Final = "HAR"

_IMPORT_NOTE: Final = "from HAR: times within answers, connections and the session's end are not in it"
_PARTIAL_NOTE: Final = "a HAR keeps no order among the messages of streams"
_NO_BODY: Final = "no body of an answer"
_WELL_KNOWN: Final = "/.well-known/"
_LONGEST_MS: Final = 1e10
"""An exchange that seems to be longer (about four months) is taken to have no duration."""
_VERSION: Final = re.compile(r"(?:HTTP/|h)([0-9.]+)$", re.IGNORECASE)


@dataclass(slots=True)
class _Entry:
    """One HTTP exchange of an archive. ``body`` is the body of the request; times are ns since 1970.

    ``connection`` is the archive's name for the connection, empty if it has none. ``events`` are those of the
    response that Chromium listed.
    """

    url: str
    request: JSONObject
    response: JSONObject
    body: bytes
    start_ns: int
    end_ns: int
    connection: str
    events: tuple["_StreamEvent", ...]

    @property
    def address(self) -> str:
        """The URL without query and fragment."""
        return self.url.partition("?")[0].partition("#")[0]

    @property
    def origin(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def is_stream(self) -> bool:
        media_type = member(self.response, "content", "mimeType")
        return isinstance(media_type, str) and media_type.lower().startswith("text/event-stream")


class _StreamEvent(NamedTuple):
    """An event of a stream, as Chromium lists it: ``at_ns`` since 1970, and its bytes in the stream."""

    at_ns: int
    raw: bytes


def read(path: str, session: int) -> ImportedSource:
    """Open an archive. It counts as one recording, so ``session`` must be 0 or 1.

    Raises:
        TraceError: the file is not an archive, contains no MCP traffic, or ``session`` is over 1.
    """
    selected_session(path, session, 1)
    entries = _entries(path)
    addresses = {entry.address for entry in entries if _is_mcp(entry)}
    origins = {entry.origin for entry in entries if entry.address in addresses}
    if not addresses:
        refuse(path, None, "holds no MCP: nothing in it is posted JSON-RPC over HTTP")
    selected = [
        entry
        for entry in entries
        if entry.address in addresses
        or (entry.origin in origins and (entry.is_stream or _WELL_KNOWN in entry.address))
        or _is_login_step(entry)
    ]
    clock = Clock()
    clock.since(selected[0].start_ns)  # sets ``started_at``
    upstream = next(entry.address for entry in selected if entry.address in addresses)
    left_out = len(entries) - len(selected)
    note = f"; exchanges without MCP, which were left out: {left_out}" if left_out else ""
    header = Header(
        mcpproxy="",
        transport="http",
        label=os.path.basename(path),
        started_at=clock.started_at,
        redaction="credentials",
        upstream=upstream,
        partial=_PARTIAL_NOTE,
        imported=_IMPORT_NOTE + note,
    )
    # Masks depend on this key. It is the same for each import, so that sessions keep their names. Only
    # someone who has the archive, and thus the masked values, can compute it.
    key = digest(path)
    return ImportedSource(header, lambda: _events(selected, addresses, Masker(key)))


def _entries(path: str) -> list[_Entry]:
    """Return all exchanges that have a URL and a starting time, in the order of these times.

    Raises:
        TraceError: the file cannot be read, or is not an archive.
    """
    archive = read_json_file(path, "HAR")
    raw_entries = member(archive, "log", "entries")
    if not isinstance(raw_entries, list):
        refuse(path, None, "not a HAR: there are no entries in it")
    entries = [entry for raw in raw_entries if (entry := _decode_entry(raw)) is not None]
    return sorted(entries, key=lambda entry: entry.start_ns)


def _decode_entry(raw: JSON) -> _Entry | None:
    """Return one entry of the archive; ``None`` if it has no usable URL or no starting time."""
    request, response, url = member(raw, "request"), member(raw, "response"), member(raw, "request", "url")
    start_ns = unix_ns(member(raw, "startedDateTime"))
    if not isinstance(request, dict) or not isinstance(url, str) or start_ns is None:
        return None
    try:
        urlsplit(url)
    except ValueError:
        return None
    duration_ms = member(raw, "time")
    duration_ns = 0
    if isinstance(duration_ms, int | float) and 0 < duration_ms < _LONGEST_MS:
        duration_ns = round(duration_ms * 1e6)
    text = member(request, "postData", "text")
    return _Entry(
        url=url,
        request=request,
        response=response if isinstance(response, dict) else {},
        body=text.encode("utf-8", "replace") if isinstance(text, str) else b"",
        start_ns=start_ns,
        end_ns=start_ns + duration_ns,
        connection=str(member(raw, "connection") or ""),
        events=_stream_events(member(raw, "_eventSourceMessages")),
    )


def _stream_events(listed: JSON) -> tuple[_StreamEvent, ...]:
    """Return the events of a stream that Chromium listed; none if one of them has no time or no data."""
    events: list[_StreamEvent] = []
    for event in listed if isinstance(listed, list) else ():
        at_ns, data = unix_ns(member(event, "time")), member(event, "data")
        if at_ns is None or not isinstance(data, str):
            return ()
        fields = [(field, member(event, name)) for field, name in (("event", "eventName"), ("id", "eventId"))]
        lines = [f"{field}: {value}" for field, value in fields if isinstance(value, str) and value]
        lines += [f"data: {line}" for line in data.split("\n")]
        events.append(_StreamEvent(at_ns, "\n".join((*lines, "", "")).encode("utf-8", "replace")))
    return tuple(events)


def _is_mcp(entry: _Entry) -> bool:
    """Whether JSON-RPC was posted over HTTP in this exchange."""
    if entry.request.get("method") != "POST" or not entry.url.startswith(("http://", "https://")):
        return False
    return any(member(single.value, "jsonrpc") == "2.0" for single in singles(parse(entry.body)))


def _is_login_step(entry: _Entry) -> bool:
    """Whether an exchange asks for metadata of OAuth, a client id, an authorization or a token."""
    if any(name in entry.address for name in (RESOURCE_METADATA, *SERVER_METADATA)):
        return True
    if entry.request.get("method") == "POST":
        return b"grant_type=" in entry.body or b'"redirect_uris"' in entry.body
    _, _, query = entry.url.partition("?")
    return "client_id=" in query and ("response_type=" in query or "code_challenge=" in query)


def _events(entries: list[_Entry], addresses: set[str], mask: Masker) -> Iterator[Recorded]:
    """Yield the events of all exchanges in the order of their times, with frames and heads numbered.

    If a request of MCP has no headers, yield only the frames that are messages, outside of any exchange.
    """
    has_heads = all(_headers(entry.request) for entry in entries if _is_mcp(entry))
    connections: dict[str, int] = {}
    timed: list[tuple[int, int, Recorded]] = []
    order = count()  # keeps the order of events with equal times
    for number, entry in enumerate(entries, start=1):
        # An exchange that names no connection gets one of its own.
        connection = connections.setdefault(entry.connection or f"#{number}", len(connections) + 1)
        for at_ns, event in _exchange_events(entry, number, connection, entries, addresses, mask):
            if has_heads:
                timed.append((at_ns, next(order), event))
            elif isinstance(event, Frame) and event.raw and not isinstance(event.message, Malformed):
                event.exchange, event.connection, event.event = 0, 0, None
                timed.append((at_ns, next(order), event))
    timed.sort(key=lambda item: item[:2])
    clock = Clock()
    seq = 0
    for unix_time_ns, _, event in timed:
        at_ns = clock.since(unix_time_ns)
        match event:
            case Frame():
                seq += 1
                event.seq, event.observed_at_ns = seq, at_ns
                yield event
            case RequestHead() | ResponseHead():
                seq += 1
                yield replace(event, seq=seq, observed_at_ns=at_ns)
            case ExchangeEnd() | Gap():
                yield replace(event, observed_at_ns=at_ns)
            case _:
                yield event


def _exchange_events(
    entry: _Entry, number: int, connection: int, entries: list[_Entry], addresses: set[str], mask: Masker
) -> Iterator[tuple[int, Recorded]]:
    """Yield the events of one exchange, each with its time in nanoseconds since 1970."""
    request, response = entry.request, entry.response
    is_endpoint = entry.address in addresses or entry.is_stream
    parts = urlsplit(entry.url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not any(address.startswith(f"{entry.origin}/") for address in addresses):
        target = entry.origin + target  # an absolute URL: a login uses other servers, too
    yield (
        entry.start_ns,
        RequestHead(
            0,
            number,
            connection,
            method=str(request.get("method", "")),
            target=mask.url(target),
            headers=mask.headers(_headers(request)),
            endpoint=is_endpoint,
            version=_version(request),
        ),
    )
    if entry.body:
        raw = entry.body if is_endpoint else mask.body(entry.body)
        yield entry.start_ns, Frame(0, CLIENT, raw, exchange=number, connection=connection)
    status = response.get("status")
    if not isinstance(status, int) or not 100 <= status < 1000:
        yield entry.end_ns, ExchangeEnd(number, connection, True)
        return
    frames, lost = _answer_frames(entry, is_endpoint, mask)
    times = _frame_times(entry, frames, entries)
    head = ResponseHead(
        0,
        number,
        connection,
        status=status,
        headers=mask.headers(_headers(response)),
        reason=str(response.get("statusText") or ""),
        version=_version(response),
    )
    yield times[0] if times else entry.end_ns, head
    if lost:
        at_ns = times[0] if times else entry.end_ns
        yield at_ns, Gap(f"the HAR holds {lost}", server_bytes=_size(response), exchange=number)
    for at_ns, frame in zip(times, frames, strict=True):
        frame.exchange, frame.connection = number, connection
        yield at_ns, frame
    yield entry.end_ns, ExchangeEnd(number, connection)


def _answer_frames(entry: _Entry, is_endpoint: bool, mask: Masker) -> tuple[list[Frame], str]:
    """Return the frames of an answer, and how much of its body is recorded: the object of "the HAR holds".

    The text is empty if nothing of the body is lost.
    """
    content = member(entry.response, "content")
    text = member(content, "text")
    lost = ""
    if isinstance(text, str):
        data = text.encode("utf-8", "replace")
        if member(content, "encoding") == "base64":
            try:
                data = binascii.a2b_base64(data)
            except ValueError:
                return [], _NO_BODY
    elif entry.is_stream and entry.events:
        data = b"".join(event.raw for event in entry.events)
        lost = "the messages of a stream, and no event without data"
    else:
        return [], "" if not entry.is_stream and _size(entry.response) <= 0 else _NO_BODY
    if not is_endpoint:
        data = mask.body(data)
    body = EventBody(SERVER) if entry.is_stream else WholeBody(SERVER)
    frames = [*body.feed(data, 0), *body.end(0, is_whole=True)]
    for frame in frames:
        if frame.event is not None and frame.event.name == "endpoint":
            frame.raw = mask.endpoint(frame.raw)
    return frames, lost


def _frame_times(entry: _Entry, frames: list[Frame], entries: list[_Entry]) -> list[int]:
    """Return the latest time at which each frame of a response can have been sent, in ns since 1970.

    That is the time of its event if the archive lists an event for each frame, otherwise the end of the
    response. But a request that the client answered earlier, and all frames before it, were sent before that
    answer.
    """
    times = [entry.end_ns] * len(frames)
    latest = entry.end_ns
    if not entry.is_stream:
        return times
    if len(entry.events) == len(frames):
        times = [min(max(event.at_ns, entry.start_ns), entry.end_ns) for event in entry.events]
    answered_ns = {
        answer.id: later_entry.start_ns
        for later_entry in entries
        if entry.start_ns < later_entry.start_ns <= entry.end_ns
        and isinstance(answer := parse(later_entry.body), Response | ErrorResponse)
    }
    for index in range(len(frames) - 1, -1, -1):
        message = frames[index].message
        if isinstance(message, Request) and message.id in answered_ns:
            latest = min(latest, answered_ns[message.id] - 1)
        times[index] = latest = min(latest, times[index])
    return times


def _headers(head: JSONObject) -> Headers:
    listed = head.get("headers")
    headers = listed if isinstance(listed, list) else []
    pairs = [(member(header, "name"), member(header, "value")) for header in headers]
    return tuple(
        (name, value)
        for name, value in pairs
        if isinstance(name, str) and isinstance(value, str) and not name.startswith(":")
    )


def _version(head: JSONObject) -> str:
    """Return the HTTP version, such as ``1.1`` or ``2``; empty if it is missing or in an unknown form."""
    match = _VERSION.match(str(head.get("httpVersion", "")))
    if match is None:
        return ""
    return match[1] if match[1] == "1.0" else match[1].removesuffix(".0")


def _size(response: JSONObject) -> int:
    """Return the size of the body of ``response`` in bytes; 0 or less if the archive does not give it."""
    sizes = (member(response, "content", "size"), response.get("bodySize"))
    return max((size for size in sizes if isinstance(size, int)), default=0)
