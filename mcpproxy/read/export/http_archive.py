"""Export HTTP traffic as an HTTP Archive (HAR 1.2), with the members that Chrome adds for event streams.

Each exchange whose request was recorded becomes an entry. Entries are kept in a temporary file until the end
of the recording, because readers expect them in the order in which they began, and a stream may last as long
as the session. An archive is ASCII: other characters are written as JSON escapes.

Source: http://www.softwareishard.com/blog/har-12-spec/
"""

import json
import tempfile
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Final
from urllib.parse import parse_qsl

from mcpproxy import __version__
from mcpproxy.base.paths import rfc3339
from mcpproxy.base.style import count
from mcpproxy.base.visible import visible
from mcpproxy.errors import UsageError
from mcpproxy.judge.session.exchanges import Fields
from mcpproxy.judge.session.frame import (
    CLIENT,
    SERVER,
    ExchangeEnd,
    Finding,
    Frame,
    Headers,
    Opaque,
    RequestHead,
    ResponseHead,
    Sender,
)
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.read.export.exported_trace import ExportedTrace
from mcpproxy.read.export.http_bytes import is_interim
from mcpproxy.record.trace.records import Encoded, frame_bytes
from mcpproxy.record.trace.request_urls import request_url
from mcpproxy.record.trace.session_labels import SessionNames

_NS_PER_MS: Final = 1_000_000
_YEAR_10000_NS: Final = 253_402_300_800_000_000_000
_NOT_ENDED: Final = "the recording ends before the exchange"


@dataclass(slots=True)
class _Entry:
    """One exchange. Times are nanoseconds since the start of the recording.

    ``bodies`` are decoded; ``encoded`` are those that had a content coding, as they were sent. ``error`` says
    why the exchange is incomplete, and is empty if it is complete. ``interim`` are its interim responses (1xx
    except 101), ``events`` the events of its stream, and ``last_ns`` is the time of its last record.
    """

    request: RequestHead
    session: str = ""
    response: ResponseHead | None = None
    interim: list[JSON] = field(default_factory=list[JSON])
    bodies: dict[Sender, bytearray] = field(default_factory=lambda: defaultdict(bytearray))
    encoded: dict[Sender, bytearray] = field(default_factory=lambda: defaultdict(bytearray))
    events: list[JSON] = field(default_factory=list[JSON])
    findings: list[JSON] = field(default_factory=list[JSON])
    sent_ns: int = 0
    """When the last part of the request was read."""
    last_ns: int = 0
    error: str = _NOT_ENDED


class HttpArchive:
    """Makes the archive of a recording. ``entries`` and ``left_out`` are known when ``pieces`` has ended."""

    def __init__(self, exported: ExportedTrace) -> None:
        self.entries = 0
        """How many entries the archive has."""
        self.left_out: list[str] = []
        """What the archive leaves out, each a clause."""
        self._exported: Final = exported
        self._names: Final = SessionNames()
        self._open: Final[dict[int, _Entry]] = {}
        self._findings: Final[defaultdict[int, list[JSON]]] = defaultdict(list)
        self._places: Final[list[tuple[int, int, int]]] = []
        """The start of each exchange, and offset and length of its entry in the temporary file."""
        self._frames_left_out = 0
        self._opaque_bytes = 0

    def pieces(self) -> Iterator[bytes]:
        """Yield the file in pieces.

        Raises:
            TraceError: the recording cannot be read.
            UsageError: no exchange was recorded, but messages were.
        """
        for finding in self._exported.trace.findings():
            self._findings[finding.frame].append(_finding(finding))
        with tempfile.TemporaryFile(prefix="mcpproxy-") as entries:
            for record in self._exported.trace.records():
                self._add_record(record, entries)
            for entry in self._open.values():
                self._write_entry(entry, entries)
            if not self.entries and self._frames_left_out:
                instead = "use mcpproxy export pcapng or mcpproxy export html"
                raise UsageError(self._exported.name, "only messages were recorded, and no HTTP", instead)
            yield b'{"log":{"version":"1.2","creator":'
            yield _json({"name": "mcpproxy", "version": __version__})
            yield b',"pages":[],"entries":['
            separator = b"\n"
            for _, offset, length in sorted(self._places):
                entries.seek(offset)
                yield separator + entries.read(length)
                separator = b",\n"
        self.left_out = self._left_out()
        about = self._about()
        notes = [*self._exported.notes, *self.left_out]
        yield b"\n]" + b"".join(b',"%b":%b' % (name.encode(), _json(value)) for name, value in about.items())
        yield b',"comment":' + _json("; ".join(notes)) if notes else b""
        yield b"}}\n"

    def _about(self) -> JSONObject:
        """Return the member of the archive that describes the whole recording."""
        header = self._exported.header
        about: JSONObject = {"recording": self._exported.name, "label": visible(header.label)}
        if header.upstream:
            about["upstream"] = visible(header.upstream)
        # The remaining findings are about the whole session, or about a frame that is in no entry.
        about["findings"] = [finding for of_frame in self._findings.values() for finding in of_frame]
        return {"_mcpproxy": about}

    def _left_out(self) -> list[str]:
        left_out: list[str] = []
        if self._frames_left_out:
            messages = count(self._frames_left_out, "message")
            left_out.append(f"the HTTP request of {messages} is not in the recording")
        if self._opaque_bytes:
            left_out.append(f"{count(self._opaque_bytes, 'byte')} were not HTTP")
        return left_out

    def _add_record(self, record: object, entries: IO[bytes]) -> None:
        session = self._names.track(record)
        match record:
            case RequestHead():
                if replaced := self._open.pop(record.exchange, None):
                    self._write_entry(replaced, entries)
                entry = self._open[record.exchange] = _Entry(record, sent_ns=record.observed_at_ns)
                self._update_entry(entry, record.seq, record.observed_at_ns, session)
            case ResponseHead():
                if entry := self._open.get(record.exchange):
                    self._update_entry(entry, record.seq, record.observed_at_ns, session)
                    if is_interim(record):
                        headers = _name_values(record.headers)
                        entry.interim.append({"status": record.status, "headers": headers})
                    else:
                        entry.response = record
            case Encoded():
                if entry := self._open.get(record.exchange):
                    entry.encoded[record.sender] += record.data
                    self._update_entry(entry, 0, record.observed_at_ns, session)
            case Frame():
                if entry := self._open.get(record.exchange):
                    self._add_frame(entry, record)
                    self._update_entry(entry, record.seq, record.observed_at_ns, session)
                else:
                    self._frames_left_out += 1
            case ExchangeEnd():
                if entry := self._open.pop(record.exchange, None):
                    entry.error = "" if not record.cut else f"cut off by the {record.by or 'connection'}"
                    self._update_entry(entry, 0, record.observed_at_ns, session)
                    self._write_entry(entry, entries)
            case Opaque():
                self._opaque_bytes += record.size
            case _:
                pass

    def _update_entry(self, entry: _Entry, seq: int, at_ns: int, session: str) -> None:
        entry.last_ns = max(entry.last_ns, at_ns)
        entry.session = session or entry.session
        if seq:
            entry.findings += self._findings.pop(seq, ())

    def _add_frame(self, entry: _Entry, frame: Frame) -> None:
        entry.bodies[frame.sender] += frame_bytes(frame)
        if frame.sender == CLIENT:
            entry.sent_ns = frame.observed_at_ns
        # The standard of event streams says that an event without data is not dispatched.
        if frame.event is not None and frame.raw and frame.terminated:
            entry.events.append(
                {
                    "time": self._wall_ns(frame.observed_at_ns) / 1e9,
                    "eventName": frame.event.name or "message",
                    "eventId": frame.event.id or "",
                    "data": frame.raw.decode("utf-8", "replace"),
                }
            )

    def _write_entry(self, entry: _Entry, entries: IO[bytes]) -> None:
        """Write an entry, to which nothing more is added, to the temporary file."""
        text = _json(self._entry_object(entry))
        self._places.append((entry.request.observed_at_ns, entries.tell(), len(text)))
        entries.write(text)
        self.entries += 1

    def _wall_ns(self, at_ns: int) -> int:
        return self._exported.started_ns + at_ns

    def _entry_object(self, entry: _Entry) -> JSONObject:
        start_ns = entry.request.observed_at_ns
        sent_ns = max(start_ns, entry.sent_ns)
        answered_ns = max(sent_ns, entry.response.observed_at_ns if entry.response else entry.last_ns)
        end_ns = max(answered_ns, entry.last_ns)
        timings = {
            "send": (sent_ns - start_ns) / _NS_PER_MS,
            "wait": (answered_ns - sent_ns) / _NS_PER_MS,
            "receive": (end_ns - answered_ns) / _NS_PER_MS,
        }
        made: JSONObject = {
            "startedDateTime": _date(self._wall_ns(start_ns)),
            "time": (end_ns - start_ns) / _NS_PER_MS,
            "request": _request(entry, request_url(self._exported.header, entry.request)),
            "response": _response(entry),
            "cache": {},
            "timings": {"blocked": -1, "dns": -1, "connect": -1, "ssl": -1, **timings},
            "connection": str(entry.request.connection),
            "_resourceType": "eventsource" if entry.events and entry.request.method == "GET" else "fetch",
        }
        if entry.events:
            made["_eventSourceMessages"] = entry.events
        if entry.interim:
            made["_interimResponses"] = entry.interim
        if entry.session:
            made["_session"] = entry.session
        if entry.response and entry.response.by_proxy:
            made["_answeredBy"] = "mcpproxy"
        if entry.findings:
            made["_findings"] = entry.findings
            rules = sorted({str(found["rule"]) for found in entry.findings if isinstance(found, dict)})
            made["comment"] = f"mcpproxy found {', '.join(rules)}"
        return made


def _request(entry: _Entry, url: str) -> JSONObject:
    head, body = entry.request, entry.bodies[CLIENT]
    encoded = entry.encoded[CLIENT]
    made: JSONObject = {
        "method": head.method,
        "url": url,
        "httpVersion": f"HTTP/{head.version}",
        "cookies": [],  # the header fields have them
        "headers": _name_values(head.headers),
        "queryString": _query(url),
        "headersSize": -1,
        "bodySize": _sent_size(head, body, encoded),
    }
    content = body or encoded
    if content:
        media_type = Fields(head.headers).get("content-type") or ""
        text, encoding = _text(content)
        made["postData"] = {"mimeType": media_type, "text": text, **encoding}
    return made


def _response(entry: _Entry) -> JSONObject:
    head = entry.response or ResponseHead(0, 0, 0, status=0, headers=(), version=entry.request.version)
    fields = Fields(head.headers)
    body, encoded = entry.bodies[SERVER], entry.encoded[SERVER]
    content: JSONObject = {"size": len(body), "mimeType": fields.get("content-type") or "x-unknown"}
    if body or encoded:
        text, encoding = _text(body or encoded)
        content |= {"text": text, **encoding}
        if body and encoded:
            content["compression"] = len(body) - len(encoded)
        elif encoded:
            content["comment"] = "as it was sent, because it could not be decoded"
    made: JSONObject = {
        "status": head.status,
        "statusText": head.reason,
        "httpVersion": f"HTTP/{head.version}",
        "cookies": [],
        "headers": _name_values(head.headers),
        "content": content,
        "redirectURL": fields.get("location") or "",
        "headersSize": -1,
        "bodySize": _sent_size(head, body, encoded),
    }
    if entry.error:
        made["_error"] = entry.error
    return made


def _sent_size(head: RequestHead | ResponseHead, body: bytearray, encoded: bytearray) -> int:
    """Return how many bytes of a body were sent; -1 if only its decoded form was recorded."""
    if encoded:
        return len(encoded)
    return -1 if body and Fields(head.headers).get("content-encoding") else len(body)


def _text(content: bytearray) -> tuple[str, JSONObject]:
    """Return a body as text, and the member ``encoding`` if the text is base64."""
    try:
        return content.decode("utf-8"), {}
    except UnicodeDecodeError:
        return b64encode(content).decode(), {"encoding": "base64"}


def _name_values(headers: Headers) -> list[JSON]:
    return [{"name": name, "value": value} for name, value in headers]


def _query(url: str) -> list[JSON]:
    query = url.partition("?")[2].partition("#")[0]
    return [{"name": name, "value": value} for name, value in parse_qsl(query, keep_blank_values=True)]


def _finding(finding: Finding) -> JSONObject:
    found: JSONObject = {
        "rule": visible(finding.rule),
        "severity": finding.severity,
        "blame": finding.blame,
        "message": visible(finding.message),
        "frame": finding.frame,
    }
    if finding.pointer is not None:
        found["pointer"] = visible(finding.pointer)
    if finding.source:
        found["source"] = visible(finding.source)
    return found


def _date(unix_ns: int) -> str:
    return rfc3339(unix_ns=unix_ns if 0 <= unix_ns < _YEAR_10000_NS else 0)


def _json(value: JSON) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
