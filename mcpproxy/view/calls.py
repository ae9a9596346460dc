"""What the faces show: calls, what belongs to a call, sessions, rules that were broken, tools.

Texts in these classes are safe to show: control characters and invisible characters are escapes, see
``mcpproxy.base.visible``. Records (``Part.record``) and ``View.raw`` hold what was recorded, unchanged.
Times are nanoseconds since the start of the recording, durations nanoseconds.
"""

from dataclasses import dataclass
from enum import StrEnum

from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.session.frame import Event, Finding, Sender, Severity


class Kind(StrEnum):
    """What a row is about. All but ``REQUEST`` are orphans: they belong to no request."""

    REQUEST = "request"
    ANSWER = "answer"
    """A response or an error to which there is no open request."""
    NOTIFICATION = "notification"
    NOT_A_MESSAGE = "not a message"
    """A line, body or event that is not a JSON-RPC message."""
    EXCHANGE = "http"
    """An HTTP request that carries no request of JSON-RPC."""
    STDERR = "stderr"
    """Lines that the server wrote to stderr while no request was open; one row for those in succession."""
    GAP = "gap"
    """Bytes that passed without being recorded."""


class Outcome(StrEnum):
    """How a call ended. The values are the words of ``status:`` in a filter."""

    OK = "ok"
    TOOL_ERROR = "tool-error"
    """A result with ``isError``."""
    RPC_ERROR = "rpc-error"
    """A JSON-RPC error; its code is the ``error_code``."""
    HTTP_ERROR = "http-error"
    """No JSON-RPC answer, but an HTTP status of 400 or more, which is the ``error_code``."""
    INPUT_REQUIRED = "input-required"
    """A result that asks the client to send the request again with more input."""
    NO_ANSWER = "no-answer"
    CANCELLED = "cancelled"
    """Cancelled before it was answered."""
    REFUSED = "refused"
    """Refused or answered by mcpproxy itself."""
    NONE = "none"
    """A row that expects no answer."""


@dataclass(frozen=True, slots=True)
class Call:
    """One row: a request with its answer, or an orphan.

    ``number`` counts the rows from 1, in the order in which they began on the wire. ``frame`` is the
    sequence number of the request or orphan (0 for a gap), ``answer`` that of the answer. ``session`` is
    the ``number`` of its session. ``sender`` is who sent the request or orphan. ``target`` is the name of
    the tool or prompt, or the URI of the resource.

    ``latency_ns`` is the time from the request to its answer. Without an answer it is ``None``, and
    ``waited_ns`` says for how long there was none: until it was cancelled, until the end of the
    recording, or until now while it is running. ``parent`` is the row to which a request of the server
    belongs; 0 if it belongs to none, or if that is not certain.

    Texts are shortened to 240 characters. ``arguments`` and ``result`` are previews on one line;
    ``result`` is the text of the content, or the message of the error.
    """

    number: int
    kind: Kind
    frame: int
    answer: int | None
    id: str
    """The id of the request as JSON: ``7`` and ``"7"`` differ. Empty for orphans without one."""
    session: int
    sender: Sender
    method: str
    target: str | None
    outcome: Outcome
    error_code: int | None
    started_ns: int
    latency_ns: int | None
    waited_ns: int | None
    request_bytes: int
    answer_bytes: int
    arguments: str
    result: str
    findings: int
    severity: Severity | None
    """The worst severity of its findings."""
    parent: int = 0
    exchange: int = 0
    """Over HTTP the number of its exchange, else 0."""
    progress: str = ""
    """Of a call without an answer, how far it came by its last progress notification: ``1/2 model 1``."""

    @property
    def is_error(self) -> bool:
        """Whether it was answered with an error of any kind."""
        return self.outcome in ERRORS


ERRORS = frozenset({Outcome.TOOL_ERROR, Outcome.RPC_ERROR, Outcome.HTTP_ERROR})


class Role(StrEnum):
    """What a part is for its call."""

    REQUEST = "request"
    ANSWER = "answer"
    PROGRESS = "progress"
    LOG = "log"
    """A log message, or a line on stderr."""
    CANCEL = "cancel"
    INNER_REQUEST = "inner request"
    """A request that the receiver sent while it worked on the call."""
    INNER_ANSWER = "inner answer"
    MESSAGE = "message"
    """Another message: for example an update of ACP, or a notification in the stream of the call."""
    HTTP_REQUEST = "http request"
    HTTP_RESPONSE = "http response"
    HTTP_END = "http end"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Part:
    """One record that belongs to a call. ``record`` is a frame, a head of HTTP, or another event.

    ``seq`` is its sequence number, ``None`` if it has none. ``row`` is the number of the row that it is the
    request or answer of: another than the call's own for an inner request.
    """

    role: Role
    seq: int | None
    at_ns: int
    row: int
    record: Event
    summary: str


@dataclass(frozen=True, slots=True)
class FoundRule:
    """A finding with what its rule says. The texts are empty for a rule that this mcpproxy does not know.

    ``sentence`` is the requirement, ``link`` the place of it in the specification.
    """

    finding: Finding
    row: int
    name: str
    summary: str
    sentence: str
    instead: str
    link: str


@dataclass(frozen=True, slots=True)
class Detail:
    """A call with everything that belongs to it, in the order of the wire."""

    call: Call
    parts: tuple[Part, ...]
    findings: tuple[FoundRule, ...]
    inner: tuple[int, ...]
    """The rows of the requests that belong to it."""
    left_out: int = 0
    """How many records in the middle were left out."""


@dataclass(frozen=True, slots=True)
class RuleFindings:
    """All findings of one rule. ``count`` includes those that were only counted and have no record."""

    rule: str
    name: str
    severity: Severity
    summary: str
    count: int
    findings: tuple[Finding, ...]
    rows: tuple[int, ...]
    """The row of each of ``findings``; 0 for a finding about the whole session."""


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """One session of the recording. On stdio there is one; over HTTP each session id has its own.

    ``name`` is the argument of ``show --session``; empty on stdio and for traffic without a session id.
    ``revision`` is the protocol revision that was agreed on or used last, empty if unknown.
    """

    number: int
    name: str
    protocol: str
    """``mcp`` or ``acp``."""
    client: str
    client_version: str
    server: str
    server_version: str
    revision: str
    started_ns: int
    ended_ns: int
    """The time of its last record."""
    rows: int
    errors: int
    unanswered: int
    findings: int
    severity: Severity | None


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool as the server listed it last. ``size`` is the size of its definition in bytes.

    ``definition`` is the JSON value, ``frame`` the answer that listed it, ``calls`` how often it was called.
    ``listed`` is false for a tool that was called but never listed.
    """

    name: str
    session: int
    definition: "JSON"
    size: int
    frame: int
    calls: int
    listed: bool = True


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What ``View.refresh`` found.

    Rows from ``first`` on are new or have changed; ``first`` is 0 if none are. ``count`` is the number of
    rows now. ``rebuilt`` says that the file was replaced, so that every row may be another one.
    """

    first: int
    count: int
    running: bool
    rebuilt: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search or the building of an index is. ``found`` is the number of rows so far."""

    done_bytes: int
    total_bytes: int
    found: int
