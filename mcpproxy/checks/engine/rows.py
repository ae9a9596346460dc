"""The form in which each module of checks says what it decides, and on what it looks.

Every module ends with its ``FAMILY``: rows of data, from which the dispatch is derived, so that a
message meets only the checks that can concern it. Most messages are as they should be, and to call a
function costs more than what most checks look at: so a row may also name what must be the case for it to
matter at all: members that are there, words in the text (``mentions``), a ``Fact``. None of them replaces
what the check itself asks; without them it says the same, later.
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
"""For what JSON-RPC itself says, or its framing on stdio."""


Fact: TypeAlias = int
"""What the judge knows of a message before any check looks: these bits, any number of them at once.

Plain numbers, since there is hardly a frame for which none of them is asked for.
"""

IRREGULAR: Final[Fact] = 1
"""Something around the contents is not as it should be: see ``regular`` in ``protocol.jsonrpc``."""
MISSHAPEN: Final[Fact] = 2
"""Params or result lack a member or have one of another type than their method has in this revision."""
REPEATED: Final[Fact] = 4
"""The text may hold one name twice in an object."""
REUSED: Final[Fact] = 8
"""Its sender has used the id of this request before."""
UNMATCHED: Final[Fact] = 16
"""It is an answer whose id is not that of a request under way."""
UNDECLARED: Final[Fact] = 32
"""What its method (or that of the request answered) needs was not all declared in the handshake."""
OUT_OF_ORDER: Final[Fact] = 64
"""Something about it may be wrong in this state of the handshake."""
AUGMENTED: Final[Fact] = 128
"""It has a member ``task``, or the request that it answers had one."""
CANCELLED: Final[Fact] = 256
"""Some request of this session was cancelled."""
TASKS: Final[Fact] = 512
"""This session has tasks, or a tool that is to be called as one."""
LOG_LEVEL_GIVEN: Final[Fact] = 1024
"""Some stateless request of this session asked for log messages."""
DISCOVERED: Final[Fact] = 2048
"""The server may have said in a DiscoverResult what it has."""
UNPROVEN: Final[Fact] = 4096
"""The server may not have shown yet that it speaks a stateless revision."""

UNFAMILIAR: Final[Fact] = 8192
"""The ``_meta`` of this message, or of the request answered, is not that which requests of this session have
had and which says the usual, no more and no less. Otherwise checks of a request that look at no other member
than ``_meta`` are passed by: they have seen it."""
INTRODUCED: Final[Fact] = 16384
"""The server has said who it is in a result."""

AT_START: Final = UNPROVEN
"""What is known of every message when a session begins."""

NOTED: Final[Fact] = 32768
"""Something was noted of the request that it answers (``noted`` in ``session.history``)."""

FACTS: Final = 16
"""How many there are."""

DispatchKey: TypeAlias = tuple[Kind, str, Sender, tuple[str, ...]]
"""What is known of a message before anybody looks into it: its kind, the method (for an answer that of
the request answered), who sent it, and the revisions that it may be of."""


@slotted(frozen=True)
class Check:
    """One check and where it applies.

    ``methods`` narrows it to messages of these methods (for an answer: of the request answered),
    ``sender`` to those of one peer, ``within`` to those that may be of these revisions; empty means
    all. ``members`` narrows it to messages whose params or result have one of these. ``mentions`` narrows
    it to frames in whose text one of these occurs: the name of a member without which nothing is wrong, in
    its quotes. ``given`` narrows it to messages of which one of these facts is known; of a row with both of
    these, either is enough. ``unless`` spares it messages of which that is known before anybody looks into
    them. ``protocols`` are those whose sessions it looks at.
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
    """What a family remembers of a message, written after all checks have seen it.

    What it writes to is its own: ``history.of(Progress)`` gives the session's one ``Progress``.
    What narrows it is as for a check.
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
"""When an HTTP check looks: the request is all there; a response's head has come with a 2xx status, or
with another; a body or an SSE event has come from the server; the exchange is over; the recording ends
while it is under way; the recording ends and this was the last exchange of its session."""

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
    """One check of an exchange, the moments at which it looks, and where it applies.

    ``methods`` narrows it to requests with these HTTP methods; empty means all. ``given`` narrows it to
    exchanges of which one of these facts is known.
    """

    rules: tuple[str, ...]
    check: HttpCheckFunction
    moments: tuple[Moment, ...]
    traffic: tuple[Traffic, ...]
    methods: tuple[str, ...] = ()
    given: HttpFact = 0


@slotted(frozen=True)
class EventCheck:
    """One check of what is no frame: signals, and the end, when what is missing can be told."""

    rules: tuple[str, ...]
    check: EventCheckFunction
    protocols: tuple[Protocol, ...] = MCP_ONLY


@slotted(frozen=True)
class RuleFamily:
    """All that one module decides, in the order in which it is told, and what it remembers."""

    checks: tuple[Check, ...] = ()
    http: tuple[HttpCheck, ...] = ()
    events: tuple[EventCheck, ...] = ()
    updates: tuple[StateUpdate, ...] = ()


def is_the_senders(dispatch_key: DispatchKey) -> bool:
    """Whether one of the revisions lets the sender send this method as a message of this kind."""
    kind, method, sender, candidates = dispatch_key
    return kind in ("request", "notification") and sends_in_any(sender, method, kind, candidates)
