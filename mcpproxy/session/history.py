"""What one session has said so far, as far as a rule may need it.

Two id spaces, never mixed: what the client asked and what the server asked. An id keeps its JSON
type (``1`` and ``"1"`` are two ids). Checks read this state as it was *before* the frame they judge;
only the observer writes it.
"""

from bisect import bisect_right
from collections import deque
from itertools import islice
from typing import Final, TypeVar

from mcpproxy.base.slotted import field, slotted
from mcpproxy.protocol.jsonrpc import JSON, Absent, JSONObject, RequestId
from mcpproxy.protocol.lifecycle import State
from mcpproxy.protocol.methods import Need
from mcpproxy.protocol.revisions import REVISIONS, STATELESS, Protocol, stateless_of
from mcpproxy.session.frame import CLIENT, Sender
from mcpproxy.session.pretty_printed import SplitMessage

Memory = TypeVar("Memory")
K = TypeVar("K")
V = TypeVar("V")

RECENT_IDS: Final = 16_384
"""How many ids remember the frame that used them first."""

RECENT_ANSWERS: Final = 1024
"""How many of the requests answered last are remembered."""


@slotted()
class SentRequest:
    """One request and what became of it.

    ``candidates`` are the revisions it may have been meant for, one once that is settled; a
    ``stateless`` request names its own. An ``early`` one came before the handshake was through.
    ``answers_due`` is above one when its id was reused while it was in flight; if for another
    method, nobody can tell which of them an answer means, and ``method`` is empty. ``answered_seq`` is
    the frame of its latest answer, 0 while there is none, and ``answered_ns`` when that came.
    ``taken_back`` is set when HTTP refused the frame: the request was never made. The ``_meta`` of a
    ``familiar`` one was that of the session, see there. ``noted`` is what the checks of its method have to
    remember of it until it is answered.
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
    """About what it takes to remember it, in bytes."""


def keep(table: dict[K, V], key: K, value: V, most: int) -> None:
    """Remember ``value``, and the latest of all: ``most``, and up to an eighth more.

    The oldest go in batches. To find the first key, a dict looks at every place that was emptied before it,
    so that taking one at a time would cost more than all else that is done with a message.
    """
    table.pop(key, None)
    table[key] = value
    if len(table) > most + (most >> 3):
        for oldest in tuple(islice(table, len(table) - most)):
            del table[oldest]


class UsedIds:
    """Every id one side has used, in little room however long the session.

    The last ``RECENT_IDS``, and up to an eighth more, remember their frame. Older whole numbers shrink to
    ranges (ids mostly count up), older texts stay as they are.
    """

    __slots__ = ("_ends", "_recent", "_starts", "_texts", "size")

    def __init__(self) -> None:
        self._recent: dict[RequestId, int] = {}
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._texts: set[str] = set()
        self.size = 0
        """About how many bytes of memory they take, never less."""

    def add(self, id: RequestId, seq: int) -> None:
        """Note that frame ``seq`` used ``id``; the first use counts."""
        if id in self._recent:
            return
        self._recent[id] = seq
        self.size += len(id) + 120 if type(id) is str else 8  # numbers shrink to ranges
        if len(self._recent) > RECENT_IDS + (RECENT_IDS >> 3):
            self._shrink()

    def discard(self, id: RequestId, seq: int) -> None:
        """Forget that frame ``seq`` used ``id``, if it was the first and is not too long ago."""
        if self._recent.get(id) == seq:
            del self._recent[id]

    def first_use(self, id: RequestId) -> int | None:
        """The frame that used ``id`` first; 0 if it is too long ago to say; ``None`` if never used."""
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
        """Keep the ids that came before the last ``RECENT_IDS`` in less room, in batches as ``keep`` does."""
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
    held: SplitMessage = field(default_factory=SplitMessage)
    closed_ns: int | None = None
    notified_seq: int = 0  # its latest frame if that is a notification, otherwise 0
    last_answered_seq: int = 0  # the latest of its requests that was answered
    unreadable: bool = False  # it sent something meant as a message that nobody could read
    in_pieces: bool = False  # it is in the middle of a line too long to hold

    @property
    def was_read(self) -> bool:
        """Whether all it sent up to now was understood; what was not may hold any id."""
        return not self.unreadable and not self.held.frames


@slotted()
class History:
    """The state of one session.

    ``protocol`` is the one that its first messages speak. ``candidates`` are the revisions it may
    speak: all at first, the stateful ones after initialize, one once it is negotiated. ``blind`` is set
    when something passed unseen: from then on nothing is concluded from what is missing. What looks like a
    mask is one only where it says ``masked``; anywhere else it is what a peer wrote.
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
    scattered: bool = False  # over HTTP: what it sent may be counted elsewhere, or have passed unseen
    caller: str = ""  # of a stateless request over HTTP: the server asked, a blank, Authorization

    initialize: SentRequest | None = None  # the latest initialize request
    initialize_answered: bool = False
    initialized: bool = False
    initialized_seq: int | None = None
    answered: deque[SentRequest] = field(
        default_factory=lambda: deque[SentRequest](maxlen=RECENT_ANSWERS)
    )  # the latest
    eager: SentRequest | None = None  # the first client request between the result and initialized
    unconfirmed_seq: int | None = None  # what the client sent, instead of initialized, after the result
    facts: int = 0  # those (see checks.table) that are known of every message from now on

    client_capabilities: JSONObject | None = None
    unmet: dict[tuple[Sender, str], tuple[Need, ...]] = field(
        default_factory=dict[tuple[Sender, str], tuple[Need, ...]]
    )  # what each peer needs for its methods and was not declared
    unmet_for_tasks: frozenset[tuple[Sender, str]] = frozenset()  # those that need it for tasks alone
    unserved: frozenset[str] = frozenset()  # methods of the client that need what the server never declared
    server_capabilities: JSONObject | None = None

    stateful_seq: int | None = None  # the first initialize
    stateless_seq: int | None = None  # the first request with its own protocol version
    stateless_revision: str | None = None  # the version that the latest of them named
    familiar_meta: bytes | None = None  # of stateless requests: one (as JSON) that was found to lack nothing
    familiar_candidates: tuple[str, ...] = ()  # the revision that it names
    modern_answer: "ModernAnswer | None" = None
    supported: dict[str, int] = field(default_factory=dict[str, int])  # version -> frame that listed it

    _memories: dict[type, object] = field(default_factory=dict[type, object])
    lasting: dict[type, object] | None = None  # what outlives a stateless request over HTTP

    @property
    def in_both_eras(self) -> bool:
        """Whether it has spoken with a handshake and without one."""
        return self.stateless_seq is not None and self.stateful_seq is not None

    def side(self, sender: Sender) -> Side:
        return self.client if sender == CLIENT else self.server

    def capabilities(self, of: Sender) -> JSONObject | None:
        """What ``of`` declared in the handshake; ``None`` before that or if it was no object."""
        return self.client_capabilities if of == CLIENT else self.server_capabilities

    def pending(self, asker: Sender, id: RequestId) -> SentRequest | None:
        """The request of ``asker`` with this id that has no answer yet."""
        return self.side(asker).pending.get(id)

    def of(self, memory: type[Memory]) -> Memory:
        """What one family of checks remembers of this session, empty at first."""
        found = self._memories.get(memory)
        if found is None:
            found = self._memories[memory] = memory()
        return found  # pyright: ignore[reportReturnType] # each stands under its own type

    def forget_families(self) -> None:
        """Forget what the families of checks remember."""
        self._memories.clear()

    def beyond(self, memory: type[Memory]) -> Memory:
        """As ``of``, but over HTTP one for all stateless requests; to be kept apart by ``caller``."""
        memories = self._memories if self.lasting is None else self.lasting
        found = memories.get(memory)
        if found is None:
            found = memories[memory] = memory()
        return found  # pyright: ignore[reportReturnType] # each stands under its own type


@slotted(frozen=True)
class ModernAnswer:
    """Proof that the server speaks a stateless revision: a DiscoverResult or a modern error.

    ``asked`` are the revisions that the request may be of which it answers.
    """

    seq: int
    versions: tuple[str, ...]  # what it listed, if it listed any
    refused: bool = False  # it was an error
    asked: tuple[str, ...] = ()

    @property
    def stateless_versions(self) -> tuple[str, ...]:
        return tuple(v for v in self.versions if v in STATELESS)

    @property
    def candidates(self) -> tuple[str, ...]:
        """The stateless revisions that the server may speak, by what it listed or, without that, answered."""
        return stateless_of(self.stateless_versions or self.asked)
