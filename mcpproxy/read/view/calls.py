"""The data that the terminal, the page and the exports show: calls, their parts, sessions, findings, tools.

Texts in these classes are safe to show: control characters and invisible characters are escaped (see
``mcpproxy.base.visible``). Records (``Part.record``) and ``View.raw`` are unchanged. Times are nanoseconds
since the start of the recording; durations are nanoseconds, too.
"""

from enum import StrEnum
from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.judge.session.frame import Event, Finding, Sender, Severity
from mcpproxy.judge.session.outcomes import ERRORS, CallCounts, Kind, Outcome
from mcpproxy.protocol.jsonrpc import JSON

_WITHOUT_CONTENT: Final = ("", "{}", '{"content":[]}')
"""The previews of results without content."""


@slotted(frozen=True)
class Call:
    """One row: a request with its answer, or an orphan, a record that is not part of a request.

    ``number`` counts the rows from 1, in the order in which they began. ``frame`` is the sequence number of
    the request or orphan (0 if it has none: a gap, or stderr), ``answer`` that of the answer, ``None`` if
    there is none. ``session`` is the ``number`` of its session. ``sender`` is the peer that sent the request
    or orphan. ``target`` is the name of the tool or prompt, or the URI of the resource; ``None`` for other
    methods. ``error_code`` is the code of a JSON-RPC error, or an HTTP status; ``None`` if there is neither.
    ``findings`` counts the findings about the row.

    ``latency_ns`` is the time from the request to its answer; ``None`` if that is not known, as in a
    recording by another program without times, or if there is no answer. A request without an answer has
    ``waited_ns``, how long it waited: until it was cancelled, until its HTTP exchange ended, until the end of
    the recording, or until now if the recording is running. It is 0 if the request is the last record, and
    ``None`` while the answer may be in a part of the recording that has not been read. ``parent`` is the row
    of the call during which the server sent this request or update; 0 if there is no such call, or if it is
    not certain which call it is.

    Texts are shortened to 240 characters. ``arguments`` and ``result`` are previews on one line;
    ``result`` is the text of the content, or the message of the error, as the caller got it.
    """

    number: int
    kind: Kind
    frame: int
    answer: int | None
    id: str
    """The id of the request as JSON: ``7`` and ``"7"`` differ. Empty if there is no id."""
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
    """The worst severity of its findings; ``None`` if it has none."""
    worst_findings: int = 0
    """How many of its findings have that severity."""
    parent: int = 0
    closed: bool = False
    """Whether its HTTP exchange ended without an answer, so that none can come."""
    exchange: int = 0
    """Over HTTP the number of the exchange of its first record, else 0."""
    progress: str = ""
    """The last progress notification of a call: ``1 of 2, model 1``; empty if it had none."""
    cause: str = ""
    """Why it was unsuccessful, in a few words, beyond what ``outcome`` and ``result`` say; else empty."""
    intervention: str = ""
    """What mcpproxy did to its messages because the user asked for it: ``request edited by mcpproxy``."""

    @property
    def said(self) -> str:
        """The result; if it has no content, the progress of the call if that is known."""
        return self.result if self.result not in _WITHOUT_CONTENT else self.progress or self.result

    @property
    def is_error(self) -> bool:
        """Whether the answer is an error: of a tool, of JSON-RPC or of HTTP."""
        return self.outcome in ERRORS


class Role(StrEnum):
    """The role of a record in its call."""

    REQUEST = "request"
    ANSWER = "answer"
    PROGRESS = "progress"
    LOG = "log"
    """A log message, or a line on stderr."""
    CANCEL = "cancel"
    INNER_REQUEST = "inner request"
    """A request that the receiver sent while it worked on the call."""
    INNER_ANSWER = "inner answer"
    GIVEN = "given instead"
    """A message that mcpproxy gave a peer in place of another: edited, changed, or delayed."""
    MESSAGE = "message"
    """Another message: for example an update of ACP, or a notification in the stream of the call."""
    HTTP_REQUEST = "http request"
    HTTP_RESPONSE = "http response"
    HTTP_END = "http end"
    BODY = "body"
    """A body over HTTP that is not a message: an error page, or an answer that was cut."""
    CUT_EVENT = "cut event"
    """The last event of a stream, without its end: clients discard it."""
    OTHER = "other"


@slotted(frozen=True)
class Part:
    """One record that belongs to a call, or successive lines that the server wrote to stderr.

    ``record`` is a frame, the head of an HTTP message, or another event. Successive lines on stderr are one
    event; ``lines`` is their number, and ``summary`` the line that probably names the error.

    ``seq`` is the sequence number of the record, ``None`` if it has none. ``row`` is the number of the call's
    row, or that of the inner request if the record belongs to one.
    """

    role: Role
    seq: int | None
    at_ns: int
    row: int
    record: Event
    summary: str
    lines: int = 1


@slotted(frozen=True)
class FoundRule:
    """A finding with the texts of its rule. They are empty for a rule that this mcpproxy does not know.

    ``row`` is the row that the finding is about, 0 if it is about the whole session or a frame without a row.
    ``sentence`` is the requirement, ``instead`` says what to send, and ``link`` is the URL of the requirement
    in the specification, empty if the source that the finding names is no URL.
    """

    finding: Finding
    row: int
    name: str
    summary: str
    sentence: str
    instead: str
    link: str


@slotted(frozen=True)
class Detail:
    """A call with everything that belongs to it.

    ``parts`` are in the order of the recording, ``told`` in the order in which people want them. ``cause``
    says in one or two sentences why the call failed, why it has no answer, or that output without a message
    preceded the answer; it is empty for any other call. ``cause_row`` is the other row that ``cause`` names,
    or 0.
    """

    call: Call
    parts: tuple[Part, ...]
    findings: tuple[FoundRule, ...]
    inner: tuple[int, ...]
    """The rows of the requests and updates that the receiver sent while it worked on the call."""
    left_out: int = 0
    """How many records were left out of the middle of ``parts``."""
    cause: str = ""
    cause_row: int = 0

    @property
    def told(self) -> tuple[Part, ...]:
        """The parts: first the request, the answer and messages given instead of them; then all others."""
        first = (Role.REQUEST, Role.ANSWER, Role.GIVEN)
        main = tuple(part for part in self.parts if part.role in first)
        return main + tuple(part for part in self.parts if part.role not in first)


@slotted(frozen=True)
class RuleFindings:
    """All findings of one rule.

    ``severity`` is the worst of them. ``count`` includes findings that the recorder only counted.
    """

    rule: str
    name: str
    severity: Severity
    summary: str
    count: int
    findings: tuple[Finding, ...]
    rows: tuple[int, ...]
    """The row of each of ``findings``; 0 for a finding about the whole session or a frame without a row."""


@slotted(frozen=True)
class SessionSummary:
    """One session of the recording. In MCP on stdio there is one; otherwise each session id has its own.

    ``name`` is the argument of ``show --session``; empty for traffic without a session id.
    ``revision`` is the protocol revision that was agreed on or used last, empty if unknown. ``rows`` counts
    all rows, ``calls`` the requests of both peers.
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
    """The time of the last record; with several sessions, when the last of its rows began or ended."""
    rows: int
    calls: CallCounts
    findings: int
    severity: Severity | None
    """The worst severity of its findings; ``None`` if it has none."""
    worst_findings: int = 0
    """How many of its findings have that severity."""


@slotted(frozen=True)
class ToolDefinition:
    """A tool as the server listed it last. ``size`` is the size of its definition in bytes.

    ``definition`` is the JSON value, ``frame`` the sequence number of the answer that listed it, ``calls``
    how often it was called. ``listed`` is false for a tool that was called but never listed.
    """

    name: str
    session: int
    definition: "JSON"
    size: int
    frame: int
    calls: int
    listed: bool = True


@slotted(frozen=True)
class Refreshed:
    """The result of ``View.refresh``.

    Rows from ``first`` on are new or have changed; ``first`` is 0 if none are. ``count`` is the number of
    rows now. ``running`` says whether the recording is still being written. ``rebuilt`` is true if the file
    was replaced, so that every row may have changed.
    """

    first: int
    count: int
    running: bool
    rebuilt: bool = False


@slotted(frozen=True)
class Progress:
    """How much of a recording a search has searched, or the index has read.

    ``found`` counts the results so far.
    """

    done_bytes: int
    total_bytes: int
    found: int
