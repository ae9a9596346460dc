"""The rows in which a module of checks says which rules its checks report, and for which messages.

Most modules of checks end with a ``FAMILY``, which contains the rows. ``Dispatch`` is made from them, and
calls only those checks that can apply to a message. A row may also name conditions without which its check
cannot find anything: members that must be present, words in the text (``mentions``), or a ``Fact``. These
conditions only save time, because most messages are correct, and calling a function takes longer than most
checks themselves. Without the conditions the findings are the same.

The rows declare their constructors for the type checker. It then verifies that a check that takes
``MessageContext[Request]`` is called with requests only, and a check that takes a ``Frame`` with bodies or
events only. So no check has to test the types of its arguments.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, overload

from mcpproxy.base.slotted import slotted
from mcpproxy.judge.checks.engine.context import (
    CheckFunction,
    ContentCheckFunction,
    EventCheckFunction,
    HttpCheckFunction,
    M,
    MessageContext,
    StderrCheckFunction,
)
from mcpproxy.judge.checks.engine.http_facts import HttpFact
from mcpproxy.judge.session.exchanges import Traffic
from mcpproxy.judge.session.frame import Sender, Stderr
from mcpproxy.judge.session.history import History
from mcpproxy.protocol.jsonrpc import ErrorResponse, Malformed, Notification, Request, Response, Single
from mcpproxy.protocol.methods import sends_in_any
from mcpproxy.protocol.revisions import Protocol

Kind = Literal["request", "notification", "response", "error", "malformed"]

KIND_NAMES: Final[dict[type[Single], Kind]] = {
    Request: "request",
    Notification: "notification",
    Response: "response",
    ErrorResponse: "error",
    Malformed: "malformed",
}
"""The name of each kind of message. A row may give a kind by its class or by this name."""

ASKS: Final = (Request, Notification)
ANSWERS: Final = (Response, ErrorResponse)
MESSAGES: Final = (*ASKS, *ANSWERS)
"""These three are kinds of message that several rows name together; ``MESSAGES`` are all but malformed ones.
"""

MCP_ONLY: Final[tuple[Protocol, ...]] = ("mcp",)
ACP_ONLY: Final[tuple[Protocol, ...]] = ("acp",)
ANY_PROTOCOL: Final[tuple[Protocol, ...]] = ("mcp", "acp")
"""For requirements of JSON-RPC itself, or of its framing on stdio."""


Fact: TypeAlias = int
"""A fact about a message that is known before any check runs. Each fact is one bit of a number.

Facts are plain integers and not an ``enum.Flag``, which takes longer to test for each frame.
"""

IRREGULAR: Final[Fact] = 1
"""The message is an error, or its envelope has a fault: see ``regular`` in ``protocol.jsonrpc``."""
MISSHAPEN: Final[Fact] = 2
"""The params or the result do not have the shape that the method requires in this revision."""
REPEATED_NAMES: Final[Fact] = 4
"""Some object in the message may have two members with the same name."""
REUSED_ID: Final[Fact] = 8
"""The sender has used the id of this request before."""
UNMATCHED_ID: Final[Fact] = 16
"""The message is a response whose id is not that of a pending request."""
UNDECLARED: Final[Fact] = 32
"""The method (of a response: that of its request) needs a capability that was not declared."""
OUT_OF_ORDER: Final[Fact] = 64
"""The message may not be allowed in this state of the handshake."""
AUGMENTED: Final[Fact] = 128
"""The params or the result have a member ``task``, or the params of the request that is answered had one."""
CANCELLED: Final[Fact] = 256
"""Some request of this session was cancelled."""
TASKS: Final[Fact] = 512
"""This session has tasks, or a tool that must be called as a task."""
LOG_LEVEL_GIVEN: Final[Fact] = 1024
"""Some stateless request of this session asked for log messages."""
DISCOVERED: Final[Fact] = 2048
"""The server may have declared its capabilities in the result of server/discover."""
UNPROVEN: Final[Fact] = 4096
"""The server may not have shown yet that it supports a stateless revision."""

UNFAMILIAR: Final[Fact] = 8192
"""The ``_meta`` of this request, or of the request that this message answers, was not found correct before.

Notifications always have this fact. Without it, checks that look only at ``_meta`` are skipped: there is
none, or an equal ``_meta`` was found correct in an earlier request of this session.
"""
INTRODUCED: Final[Fact] = 16384
"""The server may have named its implementation in a result."""

AT_START: Final = UNPROVEN
"""The facts about every message at the beginning of a session."""

NOTED: Final[Fact] = 32768
"""The message answers a request about which a check remembers something (``SentRequest.check_memory``)."""

FACT_COUNT: Final = 16
"""How many facts there are."""

DispatchKey: TypeAlias = tuple[type[Single], str, Sender, tuple[str, ...]]
"""The kind, the method, the sender and the candidate revisions of a message.

Messages with the same key have the same plan (see ``Dispatch``). The method of a response is that of its
request.
"""


@slotted(frozen=True)
class Check:
    """One check, and the messages for which it is called.

    ``rules`` are the codes that ``check`` may report. Each of the other fields limits the messages, unless it
    is empty:

    - ``kinds``: the kinds of message, as classes or by ``KIND_NAMES``;
    - ``methods``: the methods; the method of a response is that of its request;
    - ``protocols``, ``sender``: the protocol of the session, and who sent the message;
    - ``within``: revisions; one of them must be a candidate for the message;
    - ``members``: names of members; the params or the result must have one of them;
    - ``mentions``: words, mostly names of members with their quotes; one of them must occur in the frame;
    - ``given``: facts; one of them must hold; if the row also has ``mentions``, a fact or a word is enough;
    - ``unless``: a function that returns whether to exclude the messages with a ``DispatchKey``.
    """

    rules: tuple[str, ...]
    check: CheckFunction
    kinds: tuple[type[Single] | Kind, ...]
    methods: tuple[str, ...] = ()
    protocols: tuple[Protocol, ...] = MCP_ONLY
    sender: Sender | None = None
    within: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    mentions: tuple[bytes, ...] = ()
    given: Fact = 0
    unless: "Callable[[DispatchKey], bool] | None" = None

    if TYPE_CHECKING:

        def __init__(
            self,
            rules: tuple[str, ...],
            check: CheckFunction[M],
            kinds: tuple[type[M] | Kind, ...],
            methods: tuple[str, ...] = (),
            protocols: tuple[Protocol, ...] = MCP_ONLY,
            sender: Sender | None = None,
            within: tuple[str, ...] = (),
            members: tuple[str, ...] = (),
            mentions: tuple[bytes, ...] = (),
            given: Fact = 0,
            unless: "Callable[[DispatchKey], bool] | None" = None,
        ) -> None: ...


Write: TypeAlias = Callable[[MessageContext[M], History], None]
"""The function of a ``StateUpdate``."""


@slotted(frozen=True)
class StateUpdate:
    """A function that adds to the history what a family needs to remember about a message.

    ``write`` is called after all checks have judged the message. It changes the state class of its own family
    (``history.of(ProgressTokens)``, for example, returns the session's instance of such a class), and may
    change facts in the history itself, such as ``History.facts``. The other fields are those of ``Check``.
    """

    write: Write
    kinds: tuple[type[Single] | Kind, ...]
    methods: tuple[str, ...] = ()
    protocols: tuple[Protocol, ...] = MCP_ONLY
    sender: Sender | None = None
    within: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    mentions: tuple[bytes, ...] = ()
    given: Fact = 0

    if TYPE_CHECKING:

        def __init__(
            self,
            write: Write[M],
            kinds: tuple[type[M] | Kind, ...],
            methods: tuple[str, ...] = (),
            protocols: tuple[Protocol, ...] = MCP_ONLY,
            sender: Sender | None = None,
            within: tuple[str, ...] = (),
            members: tuple[str, ...] = (),
            mentions: tuple[bytes, ...] = (),
            given: Fact = 0,
        ) -> None: ...


def takes(row: Check | StateUpdate, kind: type[Single]) -> bool:
    """Whether the row applies to messages of this kind."""
    return kind in row.kinds or KIND_NAMES[kind] in row.kinds


Content = Literal["body", "event"]
Moment = Literal["request", "success", "refusal", Content, "end", "close", "over"]
"""When an HTTP check runs.

- ``request``: after the whole request;
- ``success`` or ``refusal``: after the head of a response with a 2xx or with another status;
- ``body`` or ``event``: after each body or SSE event of the server that has content;
- ``end``: when the exchange is over;
- ``close``: when the recording ends while the exchange is open;
- ``over``: when a recording without gaps ends, for the last exchange of each session with none open.
"""

# Groups of moments, and of the kinds of HTTP traffic, that several rows name together

HEAD: Final[tuple[Moment, ...]] = ("success", "refusal")
CONTENT: Final[tuple[Content, ...]] = ("body", "event")

STATEFUL: Final[tuple[Traffic, ...]] = ("stateful",)
STATELESS: Final[tuple[Traffic, ...]] = ("stateless",)
STREAMABLE: Final[tuple[Traffic, ...]] = ("stateful", "stateless")
LEGACY: Final[tuple[Traffic, ...]] = ("http+sse",)
OTHER: Final[tuple[Traffic, ...]] = ("other",)
MCP: Final[tuple[Traffic, ...]] = (*STREAMABLE, *LEGACY)


@slotted(frozen=True)
class HttpCheck:
    """One check of an HTTP exchange, the moments at which it runs, and the exchanges for which it is called.

    ``methods`` are HTTP methods; empty means all. ``given`` are facts about the exchange; unless it is empty,
    one of them must hold.
    """

    rules: tuple[str, ...]
    check: HttpCheckFunction
    moments: tuple[Moment, ...]
    traffic: tuple[Traffic, ...]
    methods: tuple[str, ...] = ()
    given: HttpFact = 0

    if TYPE_CHECKING:

        @overload
        def __init__(
            self,
            rules: tuple[str, ...],
            check: ContentCheckFunction,
            moments: tuple[Content, ...],
            traffic: tuple[Traffic, ...],
            methods: tuple[str, ...] = (),
            given: HttpFact = 0,
        ) -> None: ...
        @overload
        def __init__(
            self,
            rules: tuple[str, ...],
            check: HttpCheckFunction,
            moments: tuple[Moment, ...],
            traffic: tuple[Traffic, ...],
            methods: tuple[str, ...] = (),
            given: HttpFact = 0,
        ) -> None: ...
        def __init__(self, *_: object, **__: object) -> None: ...


@slotted(frozen=True)
class EventCheck:
    """One check that is called for a signal, and at the end of the recording to report missing messages.

    At the end of a recording over HTTP it is not called for a stateless request, which has its own history. A
    check with ``across_requests`` is called then for all stateless requests together.
    """

    rules: tuple[str, ...]
    check: EventCheckFunction
    protocols: tuple[Protocol, ...] = MCP_ONLY
    across_requests: bool = False


@slotted(frozen=True)
class StderrCheck:
    """One check of the lines that the server writes to stderr.

    ``remember`` is called afterwards. It adds to the history what the check needs to know about the line.
    """

    rules: tuple[str, ...]
    check: StderrCheckFunction
    remember: Callable[[Stderr, History], None]
    protocols: tuple[Protocol, ...] = MCP_ONLY


@slotted(frozen=True)
class RuleFamily:
    """The checks of one module, in the order in which their findings are reported, and its state updates."""

    checks: tuple[Check, ...] = ()
    http: tuple[HttpCheck, ...] = ()
    events: tuple[EventCheck, ...] = ()
    updates: tuple[StateUpdate, ...] = ()
    stderr: tuple[StderrCheck, ...] = ()


def sender_may_send(dispatch_key: DispatchKey) -> bool:
    """Whether one of the candidate revisions lets the sender send this method as this kind of message."""
    kind, method, sender, candidates = dispatch_key
    name = KIND_NAMES[kind]
    return name in ("request", "notification") and sends_in_any(sender, method, name, candidates)
