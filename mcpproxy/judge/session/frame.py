"""Events, the input of an observer (the judge of a recording), and findings, its output.

The recorder makes events while a session runs, and the trace reader makes equal events from the recording
later, so the findings are the same both times. Times are nanoseconds since the recording started, on the
monotonic clock of the recording machine. The observer uses no clock of its own.

``Frame`` is the only event that is not frozen: frames are the most frequent events, and making a frozen
instance takes longer.
"""

from typing import Final, Literal

from mcpproxy.base.slotted import field, slotted
from mcpproxy.protocol.jsonrpc import ErrorResponse, JSONObject, Message, Response, parse

Sender = Literal["client", "server"]
Blame = Literal["client", "server", "proxy"]
Severity = Literal["error", "warning", "info"]

CLIENT: Final = "client"
SERVER: Final = "server"

WORST_FIRST: Final[tuple[Severity, ...]] = ("error", "warning", "info")
"""The severities of findings, in the order of reports and counts."""

FRAME_BYTES: Final = 1 << 10
"""The approximate memory, in bytes, of a frame and its message besides ``raw``, for limits on kept frames."""


def other(sender: Sender) -> Sender:
    """Return the peer that receives what ``sender`` sends."""
    return SERVER if sender == CLIENT else CLIENT


@slotted(frozen=True)
class SseEvent:
    """The SSE event whose data is the content of a frame.

    ``before`` and ``after`` are the bytes of the event around the data, so that ``before + raw + after`` are
    exactly the bytes that were sent, unless masked. If the data was on several lines, ``before`` is the
    complete event and ``after`` is ``None``. ``id``, ``name`` and ``retry`` (in milliseconds) are ``None`` if
    the event lacks the field.
    """

    before: bytes
    after: bytes | None
    id: str | None = None
    name: str | None = None
    retry: int | None = None

    @property
    def is_named_message(self) -> bool:
        """Whether the event's name is ``message``, which is also the name of an event that names none.

        Many clients read only such events: https://html.spec.whatwg.org/multipage/server-sent-events.html.
        """
        return self.name in (None, "", "message")


@slotted(frozen=True)
class FaultMark:
    """The fault that a frame belongs to: a rule (``--fault``) or addon of the user, its action, a number.

    The number is the same for the message that was sent and for everything that mcpproxy sent in its place or
    in answer to it.
    """

    rule: str
    action: str
    number: int

    @property
    def members(self) -> dict[str, object]:
        """Its members in the object that stands for it in a record."""
        return {"rule": self.rule, "action": self.action, "number": self.number}


@slotted()
class Frame:
    """One unit that a peer sent: a stdio line without its line feed, an HTTP body, an SSE event.

    ``seq`` is its sequence number in the recording. ``terminated`` is false if the end of the stream cut off
    the line, body or event. ``continues`` is true for a piece of a line, body or event too long to hold: the
    sender's next frame (in the exchange) is the next piece, and no piece is judged. Over HTTP, ``exchange``
    and ``connection`` count from 1, and ``event`` is set for a frame in an SSE stream. An event without data
    is a frame with empty ``raw``. ``by_proxy`` marks a frame that mcpproxy sent in place of ``sender``; such
    a frame is only judged in ``TwoViews``. ``refused`` marks a message that mcpproxy did not pass on: it is
    judged, but counts as never sent, because the receiver never saw it. ``fault`` marks a frame that met a
    fault. Without ``by_proxy``, the frame is what its sender sent, but the receiver did not get it like this;
    with ``by_proxy``, it is what mcpproxy sent instead.
    """

    seq: int
    sender: Sender
    raw: bytes
    observed_at_ns: int = 0
    terminated: bool = True
    continues: bool = False
    exchange: int = 0
    connection: int = 0
    event: SseEvent | None = None
    by_proxy: bool = False
    refused: bool = False
    fault: FaultMark | None = None
    parsed: Message | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def message(self) -> Message:
        """The JSON-RPC value in the frame, parsed once.

        ``frame.parsed or frame.message`` is the same, and takes 600 instructions less once it is parsed.
        """
        if self.parsed is None:
            self.parsed = parse(self.raw)
        return self.parsed

    @property
    def is_unfinished_event(self) -> bool:
        """Whether it is an SSE event without its blank line. Clients discard such an event.

        Source: https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
        """
        return self.event is not None and not self.terminated

    @property
    def is_undelivered(self) -> bool:
        """Whether the receiver's program does not get it as a message.

        This is so for an unfinished event, and on stdio for an answer of the server without its line feed.
        Many clients wait for the line feed, among them those of the SDKs for Python and TypeScript.
        """
        if self.terminated or self.exchange:
            return self.is_unfinished_event
        return self.sender == SERVER and isinstance(self.message, Response | ErrorResponse)

    def answers_instead(self, sender: Sender) -> bool:
        """Whether it is mcpproxy's answer to a message of ``sender``, not a frame in place of the message.

        An answer has the other peer as its sender; a frame in place of a message has the message's sender.
        """
        return self.by_proxy and self.sender != sender

    def with_message(self, message: Message) -> "Frame":
        """Set the message, which must be what ``parse`` returns for ``raw``, and return the frame."""
        self.parsed = message
        return self


Headers = tuple[tuple[str, str], ...]
"""Header fields in the order and the case in which they were sent, decoded as Latin-1."""


@slotted(frozen=True)
class RequestHead:
    """The head of an HTTP request, as the client wrote it.

    ``version`` is that of HTTP. ``target`` is the request target (path and query, or a URL), and ``endpoint``
    says whether it is the MCP endpoint. Requests to other targets are forwarded and recorded, but only a few
    rules apply to them. ``fault`` and ``by_proxy`` mean the same as for a frame.
    """

    seq: int
    exchange: int
    connection: int
    method: str
    target: str
    headers: Headers
    endpoint: bool = True
    version: str = "1.1"
    observed_at_ns: int = 0
    by_proxy: bool = False
    fault: FaultMark | None = None


@slotted(frozen=True)
class ResponseHead:
    """The head of an HTTP response, interim responses (1xx) included.

    ``by_proxy`` marks a response that mcpproxy sent in place of the server. ``fault`` means the same as for a
    frame.
    """

    seq: int
    exchange: int
    connection: int
    status: int
    headers: Headers
    reason: str = ""
    version: str = "1.1"
    by_proxy: bool = False
    observed_at_ns: int = 0
    fault: FaultMark | None = None


@slotted(frozen=True)
class ExchangeEnd:
    """The end of an exchange. ``cut`` is set if the exchange was incomplete; then ``by`` is who ended it.

    ``left_ns`` is the time at which the client closed its side of the connection, which the server may notice
    later; ``None`` if it did not close it first, and in recordings of earlier releases.
    """

    exchange: int
    connection: int
    cut: bool = False
    by: Blame | None = None
    observed_at_ns: int = 0
    left_ns: int | None = None


@slotted(frozen=True)
class Opaque:
    """Bytes that are not HTTP: after an upgrade, in a tunnel of CONNECT, or invalid. ``size`` is in bytes.

    ``by_proxy`` marks bytes that mcpproxy sent in place of ``sender``.
    """

    connection: int
    sender: Sender
    size: int
    reason: str
    observed_at_ns: int = 0
    by_proxy: bool = False


SENT_LATE: Final = "sent-late"
"""The ``what`` of a note that marks when a server got a request, if connecting to the server took long."""

NOT_DECODED: Final = "not-decoded"
"""The ``what`` of a note about a body whose content could not be read and was therefore not judged."""

UNKNOWN_DIALECT: Final = "unknown-dialect"
"""The ``what`` of a note about a request that seems to go to a model, but in a dialect that is not known."""


@slotted(frozen=True)
class Note:
    """An action of mcpproxy itself on a connection, such as refusing a request or rewriting a head.

    ``what`` is the kind of action, as one word; ``why`` is the reason, for people. ``exchange`` is the
    exchange whose answer could not be read; 0 for any other action.
    """

    connection: int
    what: str
    why: str
    observed_at_ns: int = 0
    exchange: int = 0


@slotted(frozen=True)
class Stderr:
    """A line (or a piece of one) that the server wrote to stderr. Only rules that a user enables judge it."""

    raw: bytes
    observed_at_ns: int = 0
    terminated: bool = True


@slotted(frozen=True)
class Eof:
    """A peer on stdio sends nothing more: the client closed the server's stdin, or the server its stdout."""

    sender: Sender
    observed_at_ns: int = 0


@slotted(frozen=True)
class Signal:
    """A signal that mcpproxy passed on to the server, or sent of its own accord, e.g. ``SIGTERM``."""

    name: str
    observed_at_ns: int = 0


@slotted(frozen=True)
class Gap:
    """Bytes that were forwarded but not recorded. Their content is unknown.

    ``client_bytes``, ``server_bytes`` and ``stderr_bytes`` are their numbers, by stream. ``reason`` is a
    clause for people ("the disk was full"). ``exchange`` is the HTTP exchange to whose answer the bytes
    belong; 0 if it is unknown.
    """

    reason: str
    client_bytes: int = 0
    server_bytes: int = 0
    stderr_bytes: int = 0
    observed_at_ns: int = 0
    exchange: int = 0


Ending = Literal["exited", "signalled", "not started", "cut"]


@slotted(frozen=True)
class Close:
    """How the recording ended.

    ``exited``: the server process (over HTTP mcpproxy) ended with ``exit_code``; if it is an error before any
    message, ``reason`` is the line of stderr that explains it. ``signalled``: the signal with the number
    ``signal`` ended the process. ``not started``: the command could not be run; ``reason`` is a clause for
    people. ``cut``: the recording stops here because the proxy was killed, and how the session ended is
    unknown. Recordings of earlier releases have no reason.
    """

    ending: Ending
    exit_code: int | None = None
    signal: int | None = None
    observed_at_ns: int = 0
    reason: str = ""


HttpEvent = RequestHead | ResponseHead | ExchangeEnd | Opaque | Note
Event = Frame | HttpEvent | Stderr | Eof | Signal | Gap | Close


@slotted(frozen=True)
class Finding:
    """One occurrence of a broken requirement, or of something else that a user wants to know.

    ``rule`` and ``requirement`` are ids in the catalogue. ``frame`` is the sequence number of the frame; 0 if
    the finding is about the session as a whole. ``related`` are the numbers of other frames that are
    evidence, too. ``pointer`` is a JSON Pointer (RFC 6901) into the frame's message. ``revision`` is the
    protocol revision by which the message was judged; ``None`` if it is unknown. ``source`` is the URL of the
    requirement. If mcpproxy refuses the message, ``data`` becomes the ``data`` of the JSON-RPC error; in a
    finding of a HOST rule it has the host and the fact. Reports do not show it.
    """

    rule: str
    severity: Severity
    blame: Blame
    message: str
    frame: int
    related: tuple[int, ...] = ()
    pointer: str | None = None
    revision: str | None = None
    source: str = ""
    requirement: str = ""
    data: JSONObject | None = field(default=None, compare=False, repr=False)


@slotted(frozen=True)
class Repeated:
    """The number of findings of one cause in addition to those that are given in full."""

    rule: str
    severity: Severity
    blame: Blame
    requirement: str
    count: int
