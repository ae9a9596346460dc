"""The state of one session: what rules may need to know about its messages so far.

There are two separate id spaces: requests of the client and requests of the server. An id keeps its JSON type
(``1`` and ``"1"`` are two ids). Checks read this state as it was *before* the frame they judge; only the
observer changes it.
"""

import typing
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Final, TypeVar

from mcpproxy.base.slotted import field, slotted
from mcpproxy.protocol.jsonrpc import JSON, Absent, JSONObject, RequestId
from mcpproxy.protocol.lifecycle import State
from mcpproxy.protocol.methods import Need
from mcpproxy.protocol.revisions import REVISIONS, STATELESS, Protocol, stateless_of
from mcpproxy.session.frame import CLIENT, Close, Sender
from mcpproxy.session.pretty_printed import SplitMessage

Memory = TypeVar("Memory")
K = TypeVar("K")
V = TypeVar("V")

RECENT_IDS: Final = 16_384
"""How many ids are remembered together with the frame that used them first."""

CRASHES: Final = frozenset({4, 6, 7, 8, 11})
"""The signals by which a program ends itself, mostly: SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV."""

RECENT_ANSWERS: Final = 1024
"""How many answered requests are remembered, the latest ones."""


@typing.runtime_checkable
class KeepsFinished(typing.Protocol):
    """State of a family that remembers requests beyond their answers."""

    def forget_finished(self) -> None:
        """Forget them. No finding may follow from their absence."""


@slotted()
class SentRequest:
    """One request and its outcome.

    ``candidates`` are the revisions that it may belong to, only one once that is settled; a ``stateless``
    request names its revision itself. An ``early`` one was sent before the handshake was complete.
    ``answers_due`` is above one if its id was reused while it was pending; if that was for another method,
    ``method`` is empty, because an answer may be to either request. ``answered_seq`` is the frame of its
    latest answer, 0 while there is none, and ``answered_ns`` the time of that frame. ``taken_back`` is set
    when HTTP refused the frame, so that the request counts as never sent. A request is ``familiar`` if its
    ``_meta`` was found correct in an earlier request (``History.familiar_meta``).
    ``noted`` is what the checks of its method remember about it until it is answered.
    """

    seq: int
    sender: Sender
    id: RequestId
    method: str
    params: "JSON | Absent"
    at_ns: int
    candidates: tuple[str, ...]
    stateless: bool
    early: bool = False
    cancelled: bool = False
    answers_due: int = 1
    answered_seq: int = 0
    answered_ns: int = 0
    taken_back: bool = False
    familiar: bool = False
    noted: object = None
    weight: int = 0
    """About how many bytes it takes to remember it."""


def keep(table: dict[K, V], key: K, value: V, most: int) -> None:
    """Put ``value`` into ``table``, which keeps its latest ``most`` entries and up to an eighth more.

    The oldest are removed in batches. To find its first key, a dict visits every place that was emptied
    before it, so removing one entry at a time would cost more than everything else that is done with a
    message.
    """
    table.pop(key, None)
    table[key] = value
    if len(table) > most + (most >> 3):
        for oldest in tuple(islice(table, len(table) - most)):
            del table[oldest]


def kept(table: dict[K, V], key: K, make: Callable[[], V], most: int) -> V:
    """Return the value of ``key`` in ``table``, which ``make`` returns if it is missing."""
    found = table.get(key)
    if found is None:
        found = make()
        keep(table, key, found, most)
    return found


class UsedIds:
    """Every id that one side has used, in little memory for sessions of any length.

    For the last ``RECENT_IDS`` ids, and up to an eighth more, the frame is remembered. Older integers are
    merged into ranges, because ids mostly count up; older strings are not changed.
    """

    __slots__ = ("_ends", "_recent", "_starts", "_texts", "size")

    def __init__(self) -> None:
        self._recent: dict[RequestId, int] = {}
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._texts: set[str] = set()
        self.size = 0
        """About how many bytes of memory the ids take, never too few."""

    def add(self, id: RequestId, seq: int) -> None:
        """Remember that frame ``seq`` used ``id``, unless an earlier frame did."""
        if id in self._recent:
            return
        self._recent[id] = seq
        self.size += len(id) + 120 if type(id) is str else 8  # integers are merged into ranges
        if len(self._recent) > RECENT_IDS + (RECENT_IDS >> 3):
            self._shrink()

    def discard(self, id: RequestId, seq: int) -> None:
        """Forget that frame ``seq`` was the first to use ``id``, if that is still remembered."""
        if self._recent.get(id) == seq:
            del self._recent[id]

    def first_use(self, id: RequestId) -> int | None:
        """Return the frame that used ``id`` first, 0 if that is no longer known, ``None`` if none did."""
        seq = self._recent.get(id)
        if seq is not None:
            return seq
        return 0 if (id in self._texts if isinstance(id, str) else self._has_number(id)) else None

    def __contains__(self, id: RequestId) -> bool:
        """Whether ``id`` was ever used."""
        if id in self._recent:
            return True
        return id in self._texts if isinstance(id, str) else bool(self._starts) and self._has_number(id)

    def _shrink(self) -> None:
        """Store the ids before the last ``RECENT_IDS`` in less memory, in batches as ``keep`` does."""
        for oldest in tuple(islice(self._recent, len(self._recent) - RECENT_IDS)):
            del self._recent[oldest]
            if isinstance(oldest, str):
                self._texts.add(oldest)
            else:
                self._add_number(oldest)

    def _has_number(self, number: int) -> bool:
        at = bisect_right(self._starts, number) - 1
        return at >= 0 and number <= self._ends[at]

    def _add_number(self, number: int) -> None:
        if self._has_number(number):
            return
        at = bisect_right(self._starts, number)
        joins_left = at > 0 and self._ends[at - 1] == number - 1
        joins_right = at < len(self._starts) and self._starts[at] == number + 1
        if joins_left and joins_right:
            self._ends[at - 1] = self._ends.pop(at)
            del self._starts[at]
        elif joins_left:
            self._ends[at - 1] = number
        elif joins_right:
            self._starts[at] = number
        else:
            self.size += 100
            self._starts.insert(at, number)
            self._ends.insert(at, number)


@slotted()
class Side:
    """What one peer has sent."""

    pending: dict[RequestId, SentRequest] = field(default_factory=dict[RequestId, SentRequest])
    used: UsedIds = field(default_factory=UsedIds)
    withdrawn: UsedIds = field(default_factory=UsedIds)  # the ids of requests that were taken back
    held: SplitMessage = field(default_factory=SplitMessage)  # lines that may be one message together
    closed_ns: int | None = None  # when it closed its stream
    notified_seq: int = 0  # its latest frame if that is a notification, otherwise 0
    last_answered_seq: int = 0  # the frame of its latest request that was answered
    refused_seq: int = 0  # the other side's latest error without an id: it may answer any request before
    unreadable: bool = False  # it sent something meant as a message that could not be read
    in_pieces: bool = False  # more pieces of a line too long to hold are to come

    @property
    def was_read(self) -> bool:
        """Whether everything it sent could be read. A message that could not be read may contain any id."""
        return not self.unreadable and not self.held.frames


@slotted()
class History:
    """The state of one session.

    ``protocol`` is recognised by its first messages. ``candidates`` are the revisions that it may speak: all
    at first, the stateful ones after initialize, one after the negotiation. ``blind`` is set after a gap:
    from then on nothing is concluded from missing messages.
    ``masked`` is set if values may be masked; otherwise a text that looks like a mask was written by a peer.
    """

    client: Side = field(default_factory=Side)
    server: Side = field(default_factory=Side)
    protocol: Protocol = "mcp"
    state: State = State.IDLE
    candidates: tuple[str, ...] = REVISIONS
    negotiated: str | None = None
    blind: bool = False
    masked: bool = False
    over_http: bool = False
    is_signalled: bool = False  # somebody sent the server a signal that may have ended it
    scattered: bool = False  # over HTTP: some of its messages may be attributed to another session
    caller: str = ""  # for a stateless request over HTTP: server, a space, Authorization

    initialize: SentRequest | None = None  # the latest initialize request
    initialize_answered: bool = False
    initialized: bool = False
    initialized_seq: int | None = None
    answered: deque[SentRequest] = field(
        default_factory=lambda: deque[SentRequest](maxlen=RECENT_ANSWERS)
    )  # the latest
    eager: SentRequest | None = None  # the first client request between the result and initialized
    unconfirmed_seq: int | None = None  # what the client sent after the result instead of initialized
    facts: int = 0  # the facts (see checks.engine.rows) that are true of every message from now on

    client_capabilities: JSONObject | None = None
    unmet: dict[tuple[Sender, str], tuple[Need, ...]] = field(
        default_factory=dict[tuple[Sender, str], tuple[Need, ...]]
    )  # the undeclared capabilities that each peer would need for its methods
    unmet_for_tasks: frozenset[tuple[Sender, str]] = frozenset()  # those of them that need one for tasks only
    unserved: frozenset[str] = (
        frozenset()
    )  # methods of the client that need a capability the server did not declare
    server_capabilities: JSONObject | None = None

    stateful_seq: int | None = None  # the frame of the first initialize
    stateless_seq: int | None = None  # the first request with its own protocol version
    stateless_revision: str | None = None  # the version that the latest of them named
    familiar_meta: bytes | None = None  # a ``_meta`` (as JSON) of a stateless request that was found correct
    familiar_candidates: tuple[str, ...] = ()  # the revision that it names
    modern_answer: "ModernAnswer | None" = None
    supported: dict[str, int] = field(default_factory=dict[str, int])  # version -> frame that listed it

    _memories: dict[type, object] = field(default_factory=dict[type, object])
    lasting: dict[type, object] | None = None  # over HTTP: what is remembered across stateless requests

    @property
    def in_both_eras(self) -> bool:
        """Whether the session has seen both a handshake and stateless requests."""
        return self.stateless_seq is not None and self.stateful_seq is not None

    def own_end(self, close: Close) -> str:
        """How the server ended of its own accord, on stdio; empty if somebody may have ended it."""
        ended_ns, left_ns = self.server.closed_ns, self.client.closed_ns
        if ended_ns is None or self.over_http or self.is_signalled:
            return ""
        if left_ns is not None and left_ns <= ended_ns:
            return ""
        if close.ending == "signalled":
            return f"crashed with signal {close.signal}" if close.signal in CRASHES else ""
        # A shell exits with 128 and the number of the signal that ended its command.
        code = close.exit_code or 0
        killed = code > 128 and code - 128 not in CRASHES
        return f"exited with {close.exit_code}" if close.ending == "exited" and not killed else ""

    def side(self, sender: Sender) -> Side:
        """Return what ``sender`` has sent."""
        return self.client if sender == CLIENT else self.server

    def capabilities(self, of: Sender) -> JSONObject | None:
        """Return what ``of`` declared in the handshake; ``None`` before that, or if it was not an object."""
        return self.client_capabilities if of == CLIENT else self.server_capabilities

    def pending(self, asker: Sender, id: RequestId) -> SentRequest | None:
        """Return the unanswered request of ``asker`` with this id."""
        return self.side(asker).pending.get(id)

    def of(self, memory: type[Memory]) -> Memory:
        """Return the session's instance of the class in which a family of checks keeps its state.

        It is made on first use.
        """
        found = self._memories.get(memory)
        if found is None:
            found = self._memories[memory] = memory()
        return found  # pyright: ignore[reportReturnType] # each is stored under its own type

    def forget_finished(self) -> None:
        """Forget requests that were answered. What checks say about them needs their presence."""
        self.answered.clear()
        for memory in self._memories.values():
            if isinstance(memory, KeepsFinished):
                memory.forget_finished()

    def forget_families(self) -> None:
        """Forget the state of all families of checks."""
        self._memories.clear()

    def beyond(self, memory: type[Memory]) -> Memory:
        """Like ``of``, but over HTTP all stateless requests share the instance: key it by ``caller``."""
        memories = self._memories if self.lasting is None else self.lasting
        found = memories.get(memory)
        if found is None:
            found = memories[memory] = memory()
        return found  # pyright: ignore[reportReturnType] # each is stored under its own type


@slotted(frozen=True)
class ModernAnswer:
    """Proof that the server speaks a stateless revision: a DiscoverResult or a modern error.

    ``request_candidates`` are the revisions that the answered request may belong to.
    """

    seq: int
    versions: tuple[str, ...]  # what it listed, if it listed any
    refused: bool = False  # it was an error
    request_candidates: tuple[str, ...] = ()

    @property
    def stateless_versions(self) -> tuple[str, ...]:
        """The stateless revisions among the versions that it listed."""
        return tuple(v for v in self.versions if v in STATELESS)

    @property
    def candidates(self) -> tuple[str, ...]:
        """The stateless revisions that the server may speak: those it listed, or else those it answered."""
        return stateless_of(self.stateless_versions or self.request_candidates)
