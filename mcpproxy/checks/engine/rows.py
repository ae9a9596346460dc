"""The rows in which a module of checks says which rules its checks decide, and for which messages.

Every module ends with its ``FAMILY``: rows of data from which the dispatch is made, so that only the checks
that can apply to a message are called. Most messages are correct, and calling a function costs more than the
tests of most checks. So a row may also name a condition without which its check cannot find anything: members
that are present, words in the text (``mentions``), a ``Fact``. The check does not rely on it: without these
conditions the findings are the same, but take longer.
"""

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from mcpproxy.base.slotted import slotted
from mcpproxy.checks.engine.context import (
    CheckFunction,
    EventCheckFunction,
    HttpCheckFunction,
    MessageContext,
)
from mcpproxy.checks.engine.http_facts import HttpFact
from mcpproxy.protocol.methods import sends_in_any
from mcpproxy.protocol.revisions import Protocol
from mcpproxy.session.exchanges import Traffic
from mcpproxy.session.frame import Sender
from mcpproxy.session.history import History

Kind = Literal["request", "notification", "response", "error", "malformed"]

ASKS: Final[tuple[Kind, ...]] = ("request", "notification")
ANSWERS: Final[tuple[Kind, ...]] = ("response", "error")
MESSAGES: Final[tuple[Kind, ...]] = (*ASKS, *ANSWERS)

MCP_ONLY: Final[tuple[Protocol, ...]] = ("mcp",)
ACP_ONLY: Final[tuple[Protocol, ...]] = ("acp",)
ANY_PROTOCOL: Final[tuple[Protocol, ...]] = ("mcp", "acp")
"""For requirements of JSON-RPC itself, or of its framing on stdio."""


Fact: TypeAlias = int
"""What the judge knows about a message before any check runs: bits of one number.

They are plain integers, not an ``enum.Flag``, because they are tested for nearly every frame.
"""

IRREGULAR: Final[Fact] = 1
"""Its JSON-RPC envelope has a fault: see ``regular`` in ``protocol.jsonrpc``."""
MISSHAPEN: Final[Fact] = 2
"""Its params or result do not have the shape that its method requires in this revision."""
REPEATED_NAMES: Final[Fact] = 4
"""Some object in its text may have two members of one name."""
REUSED_ID: Final[Fact] = 8
"""Its sender has used the id of this request before."""
UNMATCHED_ID: Final[Fact] = 16
"""It is an answer whose id is not that of a pending request."""
UNDECLARED: Final[Fact] = 32
"""Its method (or that of the request answered) needs a capability that was not declared."""
OUT_OF_ORDER: Final[Fact] = 64
"""It may break a requirement in this state of the handshake."""
AUGMENTED: Final[Fact] = 128
"""It has a member ``task``, or the request that it answers had one."""
CANCELLED: Final[Fact] = 256
"""Some request of this session was cancelled."""
TASKS: Final[Fact] = 512
"""This session has tasks, or a tool that must be called as a task."""
LOG_LEVEL_GIVEN: Final[Fact] = 1024
"""Some stateless request of this session asked for log messages."""
DISCOVERED: Final[Fact] = 2048
"""The server may have declared its capabilities in a DiscoverResult."""
UNPROVEN: Final[Fact] = 4096
"""The server may not have shown yet that it speaks a stateless revision."""

UNFAMILIAR: Final[Fact] = 8192
"""The ``_meta`` of this message, or of the request answered, differs from the one that was found correct in
earlier requests of this session. Without this fact, checks that look only at ``_meta`` are skipped, because
they have judged the same ``_meta`` before."""
INTRODUCED: Final[Fact] = 16384
"""The server has named its implementation in a result."""

AT_START: Final = UNPROVEN
"""The facts known about every message when a session begins."""

NOTED: Final[Fact] = 32768
"""A check remembers something about the request answered (``SentRequest.noted``)."""

FACT_COUNT: Final = 16
"""How many facts there are."""

DispatchKey: TypeAlias = tuple[Kind, str, Sender, tuple[str, ...]]
"""What selects the plan for a message: its kind, its method (for an answer, that of the request answered),
its sender, and the revisions that it may belong to."""


@slotted(frozen=True)
class Check:
    """One check and where it applies.

    ``rules`` are the codes that ``check`` may report. The other fields limit the messages it is called for:
    ``kinds`` and ``methods`` (for an answer: the method of the request answered), ``protocols``, ``sender``,
    ``within`` (revisions, one of which the message may belong to) and ``members`` (one of which the params or
    result have). An empty field does not limit. ``mentions`` are words, one of which must occur in the text
    of the frame: names of members with their quotes. ``given`` are facts, one of which must hold. Where a row
    has both of these, either is enough. ``unless`` excludes messages by their ``DispatchKey``.
    """

    rules: tuple[str, ...]
    check: CheckFunction
    kinds: tuple[Kind, ...]
    methods: tuple[str, ...] = ()
    protocols: tuple[Protocol, ...] = MCP_ONLY
    sender: Sender | None = None
    within: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    mentions: tuple[bytes, ...] = ()
    given: Fact = 0
    unless: "Callable[[DispatchKey], bool] | None" = None


Write: TypeAlias = Callable[[MessageContext, History], None]


@slotted(frozen=True)
class StateUpdate:
    """A function that adds to the history what a family needs to remember about a message.

    It runs after all checks have seen the message, and writes only to a state class of its own family:
    ``history.of(ProgressTokens)`` returns the session's one instance. The other fields are those of
    ``Check``.
    """

    write: Write
    kinds: tuple[Kind, ...]
    methods: tuple[str, ...] = ()
    protocols: tuple[Protocol, ...] = MCP_ONLY
    sender: Sender | None = None
    within: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    mentions: tuple[bytes, ...] = ()
    given: Fact = 0


Moment = Literal["request", "success", "refusal", "body", "event", "end", "close", "over"]
"""When an HTTP check runs: ``request``, when the whole request was seen; ``success`` or ``refusal``, when the
head of the response came with a 2xx or another status; ``body`` or ``event``, for each body or SSE event of
the server; ``end``, when the exchange is over; ``close``, when the recording ends while the exchange is open;
``over``, when the recording ends, for the last exchange of each session."""

HEAD: Final[tuple[Moment, ...]] = ("success", "refusal")
CONTENT: Final[tuple[Moment, ...]] = ("body", "event")

STATEFUL: Final[tuple[Traffic, ...]] = ("stateful",)
STATELESS: Final[tuple[Traffic, ...]] = ("stateless",)
STREAMABLE: Final[tuple[Traffic, ...]] = ("stateful", "stateless")
LEGACY: Final[tuple[Traffic, ...]] = ("http+sse",)
OTHER: Final[tuple[Traffic, ...]] = ("other",)
MCP: Final[tuple[Traffic, ...]] = (*STREAMABLE, *LEGACY)


@slotted(frozen=True)
class HttpCheck:
    """One check of an HTTP exchange, the moments at which it runs, and where it applies.

    ``methods`` are HTTP methods; empty means all. ``given`` are facts about the exchange, one of which must
    hold.
    """

    rules: tuple[str, ...]
    check: HttpCheckFunction
    moments: tuple[Moment, ...]
    traffic: tuple[Traffic, ...]
    methods: tuple[str, ...] = ()
    given: HttpFact = 0


@slotted(frozen=True)
class EventCheck:
    """One check of a signal or of the end of the recording, when missing messages can be reported."""

    rules: tuple[str, ...]
    check: EventCheckFunction
    protocols: tuple[Protocol, ...] = MCP_ONLY


@slotted(frozen=True)
class RuleFamily:
    """The checks of one module, in the order in which their findings are reported, and its state updates."""

    checks: tuple[Check, ...] = ()
    http: tuple[HttpCheck, ...] = ()
    events: tuple[EventCheck, ...] = ()
    updates: tuple[StateUpdate, ...] = ()


def is_the_senders(dispatch_key: DispatchKey) -> bool:
    """Whether one of the revisions lets the sender send this method as a message of this kind."""
    kind, method, sender, candidates = dispatch_key
    return kind in ("request", "notification") and sends_in_any(sender, method, kind, candidates)
