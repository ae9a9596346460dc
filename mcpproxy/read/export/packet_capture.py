"""Export a recording as a pcapng file: HTTP as TCP connections, stdio as messages for Wireshark's dissectors.

A finding about a frame is a comment on its last packet. Events that are not traffic (such as signals, gaps
and the end of the session), findings about no frame and notes on missing data are texts on another interface.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from mcpproxy.base.visible import visible
from mcpproxy.judge.session.ending import ending_text
from mcpproxy.judge.session.frame import (
    CLIENT,
    SERVER,
    Close,
    Eof,
    Event,
    ExchangeEnd,
    Finding,
    Frame,
    Gap,
    Note,
    Opaque,
    RequestHead,
    ResponseHead,
    Sender,
    Signal,
    Stderr,
)
from mcpproxy.protocol.jsonrpc import NOT_JSON, Malformed
from mcpproxy.read.export.exported_trace import ExportedTrace, finding_text
from mcpproxy.read.export.http_bytes import (
    LAST_CHUNK,
    FramingPlan,
    Head,
    chunk,
    ends_with_connection,
    head_bytes,
    is_chunked,
    is_interim,
)
from mcpproxy.read.export.packets import JSON_TEXT, TEXT, TcpConnection, message_packets
from mcpproxy.read.export.pcapng_blocks import (
    LINK_EXPORTED_PDU,
    LINK_RAW_IP,
    interface,
    packet,
    section_header,
)
from mcpproxy.record.trace.opened_trace import gap_note
from mcpproxy.record.trace.records import Encoded, frame_bytes

_INTERFACES: Final = (
    ("http", LINK_RAW_IP),
    ("client", LINK_EXPORTED_PDU),
    ("server", LINK_EXPORTED_PDU),
    ("stderr", LINK_EXPORTED_PDU),
    ("mcpproxy", LINK_EXPORTED_PDU),
)
_INTERFACE_NUMBER: Final = {name: number for number, (name, _) in enumerate(_INTERFACES)}
_MADE_UP: Final = (
    "Addresses, ports and TCP headers are made up, because a recording has none. Chunks and Content-Length "
    "of HTTP bodies are made anew, and compressed bodies are shown decoded."
)


@dataclass(slots=True)
class _Exchange:
    request: RequestHead
    response: ResponseHead | None = None
    has_whole_request: bool = False

    def head(self, sender: Sender) -> Head | None:
        return self.request if sender == CLIENT else self.response


class PacketCapture:
    """Makes the pcapng file of a recording. ``packets`` is how many it has, when ``pieces`` has ended."""

    def __init__(self, exported: ExportedTrace) -> None:
        self.packets = 0
        self._exported: Final = exported
        self._plan: Final = FramingPlan()
        self._findings: Final[defaultdict[int, list[Finding]]] = defaultdict(list)
        self._exchanges: Final[dict[int, _Exchange]] = {}
        self._connections: Final[dict[int, TcpConnection]] = {}
        self._last_ns = 0

    def pieces(self) -> Iterator[bytes]:
        """Yield the file in pieces.

        Raises:
            TraceError: the recording cannot be read.
        """
        trace = self._exported.trace
        for record in trace.records():
            if isinstance(record, Finding):
                self._findings[record.frame].append(record)
            else:
                self._plan.add_record(record)
        self._plan.finish()
        notes = [f"Missing: {note}" for note in self._exported.notes]
        yield section_header((f"Recorded as {self._exported.name}", _MADE_UP, *notes))
        for name, link_type in _INTERFACES:
            yield interface(name, link_type)
        for record in trace.records():
            if not isinstance(record, Finding):
                self._last_ns = max(self._last_ns, record.observed_at_ns)
                yield from self._record_packets(record)
        yield from self._remaining_notes()

    def _remaining_notes(self) -> Iterator[bytes]:
        """Yield the findings about no frame in the file, and notes about missing data."""
        for findings in list(self._findings.values()):
            for finding in findings:
                text = finding_text(finding)
                yield from self._note_packets(text, self._last_ns, (text,))
        for note in self._exported.notes:
            yield from self._note_packets(f"missing: {note}", self._last_ns)

    def _record_packets(self, record: Event | Encoded) -> Iterator[bytes]:
        at_ns = record.observed_at_ns
        match record:
            case RequestHead():
                self._exchanges[record.exchange] = _Exchange(record)
                yield from self._head_packets(record, CLIENT)
            case ResponseHead():
                if (exchange := self._exchanges.get(record.exchange)) and not is_interim(record):
                    exchange.response = record
                yield from self._head_packets(record, SERVER)
            case Frame() if record.exchange in self._exchanges:
                yield from self._body_packets(record)
            case Frame():
                yield from self._message_packets(record)
            case Encoded():
                if self._plan.framing(record.exchange, record.sender).is_encoded:
                    yield from self._content_packets(
                        record.exchange, record.connection, record.sender, at_ns, record.data
                    )
            case ExchangeEnd():
                yield from self._end_packets(record)
            case Stderr():
                yield from self._packets("stderr", at_ns, message_packets(SERVER, TEXT, "stderr", record.raw))
            case Opaque():
                self._connection(record.connection).skip(record.sender, record.size)
                who = "mcpproxy" if record.by_proxy else f"the {record.sender}"
                text = f"connection {record.connection}: {record.size} bytes by {who}"
                yield from self._note_packets(f"{text} are not here: {record.reason}", at_ns)
            case Note():
                yield from self._note_packets(
                    f"connection {record.connection}: {record.what}: {record.why}", at_ns
                )
            case Eof():
                yield from self._note_packets(f"the {record.sender} closed its side", at_ns)
            case Signal():
                yield from self._note_packets(f"signal {record.name}", at_ns)
            case Gap():
                yield from self._note_packets(gap_note(record), at_ns)
            case Close():
                yield from self._note_packets(ending_text(record, self._exported.header), at_ns)

    # HTTP

    def _head_packets(self, head: Head, sender: Sender) -> Iterator[bytes]:
        comments = self._comments(head.seq)
        if isinstance(head, ResponseHead) and head.by_proxy:
            comments.insert(0, "mcpproxy answered this request itself")
        is_final = not (isinstance(head, ResponseHead) and is_interim(head))
        data = head_bytes(head, self._plan.framing(head.exchange, sender)) if is_final else head_bytes(head)
        yield from self._segments(head.connection, sender, head.observed_at_ns, data, comments)

    def _body_packets(self, frame: Frame) -> Iterator[bytes]:
        comments, data = self._comments(frame.seq), frame_bytes(frame)
        at_ns = frame.observed_at_ns
        yield from self._content_packets(
            frame.exchange, frame.connection, frame.sender, at_ns, data, comments
        )
        exchange = self._exchanges[frame.exchange]
        if frame.sender == CLIENT and not frame.continues:
            yield from self._request_end_packets(exchange, at_ns)

    def _content_packets(
        self,
        number: int,
        connection: int,
        sender: Sender,
        at_ns: int,
        data: bytes,
        comments: Iterable[str] = (),
    ) -> Iterator[bytes]:
        exchange = self._exchanges.get(number)
        head = exchange.head(sender) if exchange else None
        data = chunk(data) if head and is_chunked(head) else data
        if data or comments:
            yield from self._segments(connection, sender, at_ns, data, comments)

    def _request_end_packets(self, exchange: _Exchange, at_ns: int) -> Iterator[bytes]:
        if is_chunked(exchange.request) and not exchange.has_whole_request:
            yield from self._segments(exchange.request.connection, CLIENT, at_ns, LAST_CHUNK)
        exchange.has_whole_request = True

    def _end_packets(self, end: ExchangeEnd) -> Iterator[bytes]:
        exchange = self._exchanges.pop(end.exchange, None)
        if exchange is None:
            return
        at_ns, request, response = end.observed_at_ns, exchange.request, exchange.response
        if end.cut:
            comment = f"cut off by the {end.by}" if end.by else "cut off"
            by = CLIENT if end.by == CLIENT else SERVER
            last = self._connection(end.connection).end(by)
            yield from self._packets("http", at_ns, (last,), (comment,))
            return
        yield from self._request_end_packets(exchange, at_ns)
        if response and is_chunked(response):
            yield from self._segments(end.connection, SERVER, at_ns, LAST_CHUNK)
        elif response and ends_with_connection(request, response):
            yield from self._packets("http", at_ns, (self._connection(end.connection).end(SERVER),))

    def _connection(self, number: int) -> TcpConnection:
        return self._connections.setdefault(number, TcpConnection(number))

    def _segments(
        self, connection: int, sender: Sender, at_ns: int, data: bytes, comments: Iterable[str] = ()
    ) -> Iterator[bytes]:
        segments = self._connection(connection).segments(sender, data)
        yield from self._packets("http", at_ns, segments, comments)

    # Messages and notes

    def _message_packets(self, frame: Frame) -> Iterator[bytes]:
        comments = self._comments(frame.seq)
        facts = {
            "a piece of a line that is too long to be judged": frame.continues,
            "the end of the stream cut this line off": not (frame.continues or frame.terminated),
            "mcpproxy sent this itself": frame.by_proxy,
            "mcpproxy refused this request": frame.refused,
        }
        comments += [fact for fact, holds in facts.items() if holds]
        message = frame.message
        is_json = not (isinstance(message, Malformed) and message.flaw in NOT_JSON)
        dissector = JSON_TEXT if is_json and not frame.continues else TEXT
        packets = message_packets(frame.sender, dissector, "JSON-RPC", frame.raw)
        yield from self._packets(frame.sender, frame.observed_at_ns, packets, comments)

    def _note_packets(self, text: str, at_ns: int, comments: Iterable[str] = ()) -> Iterator[bytes]:
        packets = message_packets(None, TEXT, "mcpproxy", visible(text).encode())
        yield from self._packets("mcpproxy", at_ns, packets, comments)

    def _comments(self, seq: int) -> list[str]:
        findings = self._findings.pop(seq, ())
        return [f"frame {seq}: {finding_text(finding)}" for finding in findings]

    def _packets(
        self, interface: str, at_ns: int, packets: Iterable[bytes], comments: Iterable[str] = ()
    ) -> Iterator[bytes]:
        """Yield the blocks of ``packets``; the last one has the comments."""
        held: bytes | None = None
        unix_ns = self._exported.started_ns + at_ns
        for data in packets:
            if held is not None:
                yield packet(_INTERFACE_NUMBER[interface], unix_ns, held)
                self.packets += 1
            held = data
        if held is not None:
            yield packet(_INTERFACE_NUMBER[interface], unix_ns, held, comments)
            self.packets += 1
