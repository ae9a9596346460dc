"""The state of one session: facts about its messages so far that checks may need.

The client's request ids and the server's are independent of each other. An id keeps its JSON type (``1`` and
``"1"`` are two ids). Checks read this state as it was *before* the frame that they judge. Only the observer
(the judge) changes the state. The checks are grouped into families, and each family may keep its own state,
its *memory*, here.
"""

import typing
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Final, TypeVar

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.session.frame import CLIENT, Close, Sender
from mcpproxy.judge.session.pretty_printed import SplitMessage
from mcpproxy.protocol.jsonrpc import JSON, Absent, JSONObject, RequestId
from mcpproxy.protocol.lifecycle import State
from mcpproxy.protocol.methods import Need
from mcpproxy.protocol.revisions import REVISIONS, STATELESS, Protocol, stateless_of

Memory = TypeVar("Memory")
K = TypeVar("K")
V = TypeVar("V")

RECENT_IDS: Final = 16_384
"""The number of ids that are remembered together with the frame that first used them."""

CRASHES: Final = frozenset({4, 6, 7, 8, 11})
"""Signals that usually come from a program's own fault: SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV."""

RECENT_ANSWERS: Final = 1024
"""The number of latest answered requests that are remembered."""

MAX_UNREAD_BYTES: Final = 1 << 14
"""The amount of text of unreadable messages that is remembered."""

_UNCLEAR_TEXT: Final = pattern(
    rb"""[^ -~\t\r\n]|\\|(?<![\w."'])-?\d+[.eExX_]|\d{16}|"id"\s*:\s*(?:true|false)|masked\(len="""
)
"""Text from which a parser may read an id that is not literally in it: bytes beyond ASCII, escapes,
fractions, integers that are rounded, truth values; and a mask, which replaces the original text."""


@typing.runtime_checkable
class KeepsFinished(typing.Protocol):
    """The state of a family of checks that remembers requests after their answers."""

    def forget_finished(self) -> None:
        """Forget answered requests, in a way that causes no false findings."""


@slotted()
class SentRequest:
    """One request and its outcome.

    ``candidates`` are the revisions that the request may belong to. A ``stateless`` request names its
    revision itself. An ``early`` request was sent before the result of initialize, or after messages were
    missed. ``answers_due`` is the number of answers to come: more than one if the same id was used again
    while the first request was pending. If the two requests have different methods, or a request has two
    members ``method``, ``method`` is empty, because an answer may be to either. ``answered_seq`` is the frame
    of the latest answer (0 if there is none yet), and ``answered_ns`` the time of that frame.
    ``refused_by_http`` is set if the frame was refused, redirected or not answered over HTTP, so that the
    request counts as never sent. ``has_familiar_meta`` is set if an equal ``_meta`` was correct in an earlier
    request (``History.familiar_meta``). ``check_memory`` is state that the checks of the method keep for the
    request until it is answered.
    """

    seq: int
    sender: Sender
    id: RequestId
    method: str
    params: "JSON | Absent"
    sent_ns: int
    candidates: tuple[str, ...]
    stateless: bool
    early: bool = False
    cancelled: bool = False
    answers_due: int = 1
    answered_seq: int = 0
    answered_ns: int = 0
    refused_by_http: bool = False
    has_familiar_meta: bool = False
    check_memory: object = None
    weight: int = 0
    """The approximate size of the request in memory, in bytes."""


def keep_latest(table: dict[K, V], key: K, value: V, most: int) -> None:
    """Put ``value`` into ``table``, which keeps its latest ``most`` entries and up to an eighth more.

    The oldest entries are removed in batches. To find its first key, a dict visits every emptied slot before
    that key, so removing one entry at a time would take longer than judging a message.
    """
    table.pop(key, None)
    table[key] = value
    if len(table) > most + (most >> 3):
        for oldest in tuple(islice(table, len(table) - most)):
            del table[oldest]


def get_or_make(table: dict[K, V], key: K, make: Callable[[], V], most: int) -> V:
    """Return the value of ``key`` in ``table``; if the key is missing, first add it with ``make()``.

    The table keeps its latest ``most`` entries, as with ``keep_latest``.
    """
    value = table.get(key)
    if value is None:
        value = make()
        keep_latest(table, key, value, most)
    return value


def _bytes_of(id: RequestId) -> int:
    """Estimate the bytes of memory that a used id takes, too high rather than too low."""
    if isinstance(id, int):
        return 100 + id.bit_length() // 3
    return len(id) + 120 if id.isascii() else 4 * len(id) + 150


class UsedIds:
    """Every id that one side has used, in little memory for sessions of any length.

    The latest ``RECENT_IDS`` ids, and up to an eighth more, are remembered with the frame that first used
    them. Older ids are remembered without it: integers as ranges, because ids mostly count up, and strings
    one by one.
    """

    __slots__ = ("_ends", "_recent", "_starts", "_texts", "size")

    def __init__(self) -> None:
        self._recent: dict[RequestId, int] = {}
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._texts: set[str] = set()
        self.size = 0
        """The approximate size of the ids in memory, in bytes."""

    def add(self, id: RequestId, seq: int) -> None:
        """Remember that frame ``seq`` used ``id``, unless it is one of the latest ids."""
        if id in self._recent:
            return
        self._recent[id] = seq
        self.size += _bytes_of(id)
        if len(self._recent) > RECENT_IDS + (RECENT_IDS >> 3):
            self._shrink()

    def discard(self, id: RequestId, seq: int) -> None:
        """Forget ``id`` if frame ``seq`` was the first to use it."""
        if self._recent.get(id) == seq:
            del self._recent[id]
            self.size -= _bytes_of(id)

    def first_use(self, id: RequestId) -> int | None:
        """Return the first remembered frame that used ``id``; 0 if that is forgotten, ``None`` if unused."""
        if id in self._recent:
            return self._recent[id]
        was_used = id in self._texts if isinstance(id, str) else bool(self._starts) and self._has_number(id)
        return 0 if was_used else None

    def _shrink(self) -> None:
        """Store the ids before the last ``RECENT_IDS`` in less memory, in batches as ``keep_latest`` does."""
        for oldest in tuple(islice(self._recent, len(self._recent) - RECENT_IDS)):
            del self._recent[oldest]
            if isinstance(oldest, str):
                self._texts.add(oldest)
            else:
                self.size -= _bytes_of(oldest)
                self._add_number(oldest)

    def _has_number(self, number: int) -> bool:
        """Whether one of the ranges contains ``number``."""
        index = bisect_right(self._starts, number) - 1
        return index >= 0 and number <= self._ends[index]

    def _add_number(self, number: int) -> None:
        """Add ``number`` to the ranges, and join ranges that touch."""
        if self._has_number(number):
            return
        index = bisect_right(self._starts, number)
        joins_left = index > 0 and self._ends[index - 1] == number - 1
        joins_right = index < len(self._starts) and self._starts[index] == number + 1
        if joins_left and joins_right:
            self._ends[index - 1] = self._ends.pop(index)
            del self._starts[index]
            self.size -= _bytes_of(number)  # two ranges became one
        elif joins_left:
            self._ends[index - 1] = number
        elif joins_right:
            self._starts[index] = number
        else:
            self.size += _bytes_of(number)  # also enough for the two numbers of a range
            self._starts.insert(index, number)
            self._ends.insert(index, number)


@slotted()
class Side:
    """The messages that one peer has sent, as far as checks need them."""

    # The requests of this side that wait for an answer, by id.
    pending: dict[RequestId, SentRequest] = field(default_factory=dict[RequestId, SentRequest])
    # The ids of the requests that reached the receiver, as far as is known.
    used_ids: UsedIds = field(default_factory=UsedIds)
    # The ids of requests that count as never sent, because mcpproxy refused them, or because they were
    # refused, redirected or not answered over HTTP.
    refused_ids: UsedIds = field(default_factory=UsedIds)
    held_lines: SplitMessage = field(default_factory=SplitMessage)  # lines that may be one message together
    closed_ns: int | None = None  # when this side closed its stream
    notified_seq: int = 0  # the frame of the latest message if that is a notification, otherwise 0
    # For the last few methods of notifications: the frame of the latest notification.
    latest_notifications: dict[str, int] = field(default_factory=dict[str, int])
    last_answered_seq: int = 0  # the frame of this side's latest request that was answered
    # The frame of the latest error without an id that this side received. Such an error may answer any
    # earlier request of this side.
    refused_seq: int = 0
    # This side sent what its receiver may refuse with the id null: a batch, an invalid notification, or
    # something that is no message.
    sent_invalid: bool = False
    sent_unreadable: bool = False  # this side sent something unreadable, which may contain any id
    # The text of messages that could not be read, and of notifications with an id. Any id that the other side
    # reads in them is in this text.
    unread_text: bytes = b""
    cut_bytes: int = 0  # on stdio, the size of this side's last line if it was cut off
    in_pieces: bool = False  # a line too long to hold is recorded in pieces; the last piece is yet to come
    has_other_framing: bool = False  # its stream began like that of another transport, which was reported

    @property
    def fully_read(self) -> bool:
        """Whether the ids in all complete messages of this side are known."""
        return not (self.sent_unreadable or self.unread_text or self.held_lines.frames)

    def note_unread(self, raw: bytes) -> None:
        """Remember the text of a message that could not be read."""
        if len(self.unread_text) + len(raw) > MAX_UNREAD_BYTES or _UNCLEAR_TEXT.search(raw):
            self.sent_unreadable = True
        else:
            self.unread_text += raw + b"\n"

    def may_have_sent(self, id: RequestId) -> bool:
        """Whether an unreadable message of this side may have ``id``."""
        if self.sent_unreadable or self.held_lines.frames:
            return True
        return bool(self.unread_text) and str(id).lstrip("-").encode("utf-8", "replace") in self.unread_text


@slotted()
class History:
    """The state of one session.

    The first messages show the ``protocol``. ``candidates`` are the revisions that the session may use: all
    at first, the stateful ones after initialize, one after the negotiation. ``has_gap`` is set if messages
    are missing, such as the start of the session; nothing is then concluded from the absence of a message.
    ``negotiated`` is the revision in the result of initialize, or the one that the judge was given.
    ``initialized`` is set once the client has sent notifications/initialized, in frame ``initialized_seq``.
    ``answered_requests`` are the latest requests of both sides that were answered. ``masked`` is set if
    values in messages may be masked. If it is not set, a text that looks like a mask was written by a peer.
    """

    client: Side = field(default_factory=Side)
    server: Side = field(default_factory=Side)
    protocol: Protocol = "mcp"
    state: State = State.IDLE
    candidates: tuple[str, ...] = REVISIONS
    negotiated: str | None = None
    has_gap: bool = False
    has_stderr: bool = False
    """Whether the server wrote something to stderr."""
    masked: bool = False
    over_http: bool = False
    is_signalled: bool = False  # the server received a signal that may have ended it
    may_lack_messages: bool = False  # over HTTP: messages may be missing, or in another session
    # Identifies the sender of a stateless request over HTTP: ``HttpExchange.server`` and the value of the
    # Authorization header, joined by a space. Otherwise it is empty.
    caller: str = ""

    initialize: SentRequest | None = None  # the latest initialize before a version was negotiated
    initialize_answered: bool = False
    initialized: bool = False
    initialized_seq: int | None = None
    answered_requests: deque[SentRequest] = field(
        default_factory=lambda: deque[SentRequest](maxlen=RECENT_ANSWERS)
    )
    # The client's first request after the result of initialize and before notifications/initialized.
    request_before_initialized: SentRequest | None = None
    # The frame that the client sent first, except pings and answers, when notifications/initialized was due.
    instead_of_initialized_seq: int | None = None
    facts: int = 0  # the facts (see ``checks.engine.rows``) that hold for every message from now on

    client_capabilities: JSONObject | None = None
    unmet_needs: dict[tuple[Sender, str], tuple[Need, ...]] = field(
        default_factory=dict[tuple[Sender, str], tuple[Need, ...]]
    )  # by sender and method: the capabilities that the method needs and that were not declared
    # The keys of ``unmet_needs`` whose method needs the capabilities only if the request becomes a task.
    unmet_for_tasks_only: frozenset[tuple[Sender, str]] = frozenset()
    # The client's methods that need a capability which the server did not declare.
    unserved_methods: frozenset[str] = frozenset()
    server_capabilities: JSONObject | None = None

    # Every request is stateless, whatever its ``_meta`` says: by its exchange over HTTP, or because the
    # session is in an ACP session whose MCP messages are always stateless.
    only_stateless: bool = False
    stateful_seq: int | None = None  # the frame of the first initialize
    stateless_seq: int | None = None  # the frame of the first stateless request
    stateless_revision: str | None = None  # the version that the latest stateless request named
    familiar_meta: bytes | None = None  # a correct ``_meta`` of a stateless request, as JSON
    familiar_candidates: tuple[str, ...] = ()  # the revision that ``familiar_meta`` names
    modern_answer: "ModernAnswer | None" = None
    supported_versions: dict[str, int] = field(
        default_factory=dict[str, int]
    )  # by version: the frame in which the server listed it

    # The state of each family of checks, by its class.
    _memories: dict[type, object] = field(default_factory=dict[type, object])
    # In a stateless session over HTTP: the state that families of checks share with all such sessions.
    # Otherwise ``None``: the session has one caller, and ``_memories`` serves for all its requests.
    stateless_memories: dict[type, object] | None = None
    # Over HTTP: the state that families of checks share with all sessions of one route.
    endpoint_memories: dict[type, object] | None = None

    @property
    def in_both_eras(self) -> bool:
        """Whether the session has seen both an initialize request and a stateless request."""
        return self.stateless_seq is not None and self.stateful_seq is not None

    def unprovoked_end(self, close: Close) -> str:
        """Return how a server on stdio ended by itself; empty if the client or a signal may have ended it."""
        server_closed_ns, client_closed_ns = self.server.closed_ns, self.client.closed_ns
        if server_closed_ns is None or self.over_http or self.is_signalled:
            return ""
        if client_closed_ns is not None and client_closed_ns <= server_closed_ns:
            return ""
        if close.ending == "signalled":
            return f"crashed with signal {close.signal}" if close.signal in CRASHES else ""
        # If a signal ends the command of a shell, the shell exits with 128 plus the number of the signal.
        code = close.exit_code or 0
        was_killed = code > 128 and code - 128 not in CRASHES
        return f"exited with {close.exit_code}" if close.ending == "exited" and not was_killed else ""

    def side(self, sender: Sender) -> Side:
        """Return the state of ``sender``."""
        return self.client if sender == CLIENT else self.server

    def capabilities(self, of: Sender) -> JSONObject | None:
        """Return the capabilities of ``of``; ``None`` if they are unknown so far, or not an object."""
        return self.client_capabilities if of == CLIENT else self.server_capabilities

    def pending(self, requestor: Sender, id: RequestId) -> SentRequest | None:
        """Return the unanswered request of ``requestor`` with this id; ``None`` if there is none."""
        return self.side(requestor).pending.get(id)

    def of(self, memory: type[Memory]) -> Memory:
        """Return the session's one instance of ``memory``, a class with the state of a family of checks.

        The instance is made on first use.
        """
        return _instance(self._memories, memory)

    def forget_finished(self) -> None:
        """Forget answered requests. This may suppress findings, but causes no false ones."""
        self.answered_requests.clear()
        for memory in self._memories.values():
            if isinstance(memory, KeepsFinished):
                memory.forget_finished()

    def forget_memories(self) -> None:
        """Forget the state of all families of checks, except what this session shares with others."""
        self._memories.clear()

    def across_requests(self, memory: type[Memory]) -> Memory:
        """Like ``of``, but over HTTP all stateless requests share one instance.

        The entries of such a class are keyed by ``caller``, because the requests may be of many clients.
        """
        memories = self._memories if self.stateless_memories is None else self.stateless_memories
        return _instance(memories, memory)

    def across_sessions(self, memory: type[Memory]) -> Memory:
        """Like ``of``, but over HTTP all sessions that began without an id share one at each route."""
        memories = self._memories if self.endpoint_memories is None else self.endpoint_memories
        return _instance(memories, memory)


def _instance(memories: dict[type, object], memory: type[Memory]) -> Memory:
    """Return the instance of ``memory`` in ``memories``, which is made on first use."""
    instance = memories.get(memory)
    if instance is None:
        instance = memories[memory] = memory()
    return instance  # pyright: ignore[reportReturnType] # each instance is stored under its own type


@slotted(frozen=True)
class ModernAnswer:
    """An answer that only a server of a stateless revision gives.

    It is the result of server/discover, or one of certain errors. ``seq`` is its frame. ``versions`` are the
    protocol versions that the answer lists. ``refused`` is set for an error of ``era.MODERN_CODES``.
    ``request_candidates`` are the revisions that the answered request may belong to.
    """

    seq: int
    versions: tuple[str, ...]
    refused: bool = False
    request_candidates: tuple[str, ...] = ()

    @property
    def stateless_versions(self) -> tuple[str, ...]:
        """The stateless revisions among ``versions``."""
        return tuple(version for version in self.versions if version in STATELESS)

    @property
    def candidates(self) -> tuple[str, ...]:
        """The stateless revisions that the server may support: the listed ones, or else the request's."""
        return stateless_of(self.stateless_versions or self.request_candidates)
