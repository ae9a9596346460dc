"""Behaviour of the session's own client that the session itself shows, without a table of facts.

The client stops reading a list before its last page, gives up calls after the same time again and again, or
sends no ``progressToken``. Each is reported at the end of the session, as an info, if the user chose the host
whose client is in the session (``SEEN``). The unread pages are reported only if no fact has said so.
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.checks.engine.context import MessageContext, Violation, shortened
from mcpproxy.judge.checks.hosts.facts import (
    Client,
    HostChoice,
    client_of,
    client_of_request,
    client_of_session,
)
from mcpproxy.judge.checks.hosts.hits import words
from mcpproxy.judge.checks.hosts.pages import ReadPages, left_unread
from mcpproxy.judge.checks.utilities.cancelled_requests import Cancellations
from mcpproxy.judge.session.frame import CLIENT, SERVER
from mcpproxy.judge.session.history import History, SentRequest, get_or_make, keep_latest
from mcpproxy.protocol.jsonrpc import ABSENT, Notification, request_id
from mcpproxy.protocol.message_parts import member, target_of
from mcpproxy.protocol.wording import seconds, shown

PAGES: Final = ("HOST-007", "X-033")
GIVEN_UP: Final = ("HOST-016", "X-042")
NO_TOKEN: Final = ("HOST-022", "X-048")
"""The rule and the requirement for each of the three."""

_OFTEN: Final = 3
"""If this many calls were given up after the same time, that time is a limit of the client."""
_MOST_WAITS: Final = 64
"""How many calls that a client gave up are remembered."""
_MOST_CLIENTS: Final = 256
"""How many clients, and how many connections of stateless requests, are remembered."""
_LONG_NS: Final = 10_000_000_000
"""People want to see the progress of a call that takes this long."""


@slotted(eq=False)
class Watched:
    """The calls of one client: how many, how many with a ``progressToken``, and how long the client waited.

    ``slowest_ns``, ``tool`` and ``seq`` are the time, the tool and the frame of the slowest call. ``ended``
    has the calls that the client cancelled: how long it had waited, in nanoseconds, the tool, and the frame
    of the cancellation. Calls that it cancels together count as one, because somebody may have stopped all of
    them. ``ended_ns`` is the time of the latest cancellation.
    """

    client: Client | None = None
    candidates: tuple[str, ...] = ()
    calls: int = 0
    tokens: int = 0
    slowest_ns: int = 0
    tool: str = ""
    seq: int = 0
    ended: list[tuple[int, str, int]] = field(default_factory=list[tuple[int, str, int]])
    ended_ns: int = 0

    def record_time(self, request: SentRequest, now_ns: int) -> None:
        """Record how long a call took, or how long the client waited for it, if no time before was longer."""
        if (taken_ns := now_ns - request.sent_ns) > self.slowest_ns:
            self.slowest_ns, self.tool, self.seq = (
                taken_ns,
                target_of(request.method, request.params) or "",
                request.seq,
            )


@slotted()
class WatchedClients:
    """The calls by caller and client; the client is ``None`` after a handshake, or if the calls name none.

    ``answered_seqs`` has, by caller and connection, the frame of the latest stateless request that was
    answered.
    """

    calls: dict[tuple[str, Client | None], Watched] = field(
        default_factory=dict[tuple[str, Client | None], Watched]
    )
    answered_seqs: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])


def remember_answered(context: MessageContext, history: History) -> None:
    """Record that a stateless request over HTTP is answered. For a session, its ``History`` knows this."""
    request = context.answers
    if request is not None and history.stateless_memories is not None:
        key = history.caller, context.frame.connection
        keep_latest(history.across_requests(WatchedClients).answered_seqs, key, request.seq, _MOST_CLIENTS)


def remember_call(context: MessageContext, history: History) -> None:
    """Record an answered call, and how long it took."""
    if (request := context.answers) is None:
        return
    client = client_of(context, history)
    watched = _watched_calls(client if context.stateless else None, history)
    watched.client, watched.candidates = client, context.candidates
    _count_call(watched, request)
    watched.record_time(request, context.frame.observed_at_ns)


def remember_given_up(context: MessageContext[Notification], history: History) -> None:
    """Record a call that the client cancels before it is answered."""
    id = request_id(member(context.message.params, "requestId"))
    request = history.of(Cancellations).request(history, CLIENT, id) if id is not None else None
    if request is None or request.method != "tools/call" or request.answered_seq:
        return
    client = client_of_request(request) if request.stateless else None
    watched, now_ns = _watched_calls(client, history), context.frame.observed_at_ns
    watched.candidates = context.candidates
    _count_call(watched, request)
    watched.record_time(request, now_ns)
    waited_ns = now_ns - request.sent_ns
    is_together = watched.ended and now_ns - watched.ended_ns <= _tolerance_ns(waited_ns)
    if not is_together and len(watched.ended) < _MOST_WAITS:
        watched.ended.append((waited_ns, target_of(request.method, request.params) or "", context.seq))
    watched.ended_ns = now_ns


def observed_limit(choice: HostChoice, history: History) -> Iterator[Violation]:
    """Report a client that gave up calls after the same time again and again (HOST-016)."""
    for watched, client in _named_clients(choice, history):
        waits = [wait for wait, _, _ in watched.ended]
        if len(waits) >= _OFTEN and max(waits) - min(waits) <= _tolerance_ns(max(waits)):
            says = f"gave up {len(waits):,} calls after {seconds(sorted(waits)[len(waits) // 2])} each"
            met = f"tool {words(shown(tool) for _, tool, _ in watched.ended)}"
            yield _violation(choice, client, GIVEN_UP, says, met, watched.ended[-1][2], watched.candidates)


def calls_without_token(choice: HostChoice, history: History) -> Iterator[Violation]:
    """Report a client that waited ``_LONG_NS`` for a call, or gave one up, and made all its calls without a
    ``progressToken`` (HOST-022).
    """
    for watched, client in _named_clients(choice, history):
        if watched.tokens or (watched.slowest_ns < _LONG_NS and not watched.ended):
            continue
        slow = f"it waited {seconds(watched.slowest_ns)} for tool {shown(watched.tool)}"
        met = f"none of its {watched.calls:,} calls has one" if watched.calls > 1 else "its call has none"
        says = "sends no progressToken, so it hears of no progress"
        met = f"{met}, and {slow}"
        yield _violation(choice, client, NO_TOKEN, says, met, watched.seq, watched.candidates)


def observed_pages(choice: HostChoice, caller: str, reading: ReadPages, history: History) -> Violation | None:
    """Return the violation of a client that left pages of a list unread and made other requests (HOST-007).

    The result is ``None`` if there is none, or if the user did not choose ``SEEN``.
    """
    client = reading.client
    if not choice.known or client is None:
        return None
    answered_seq = history.client.last_answered_seq
    if history.stateless_memories is not None:
        # On the same connection it is certainly the same program, and not another one with its name.
        answered_seqs = history.across_requests(WatchedClients).answered_seqs
        answered_seq = answered_seqs.get((caller, reading.connection), 0)
    if answered_seq <= reading.seq:
        return None
    met = left_unread(reading, len(reading.counts))
    says = f"did not ask for the next page of {reading.method}"
    return _violation(choice, client, PAGES, says, met, reading.seq, reading.candidates, "/result/nextCursor")


def _tolerance_ns(wait_ns: int) -> int:
    """Return by how many nanoseconds two waits may differ and still count as equal."""
    return max(500_000_000, wait_ns // 50)


def _watched_calls(client: Client | None, history: History) -> Watched:
    """Return the calls of a client of stateless requests; if it is ``None``, those of the session."""
    calls = history.across_requests(WatchedClients).calls
    return get_or_make(calls, (history.caller, client), Watched, _MOST_CLIENTS)


def _named_clients(choice: HostChoice, history: History) -> Iterator[tuple[Watched, Client]]:
    """Yield the calls of each client that has named itself; nothing unless the user chose ``SEEN``."""
    if not choice.known:
        return
    for watched in history.across_requests(WatchedClients).calls.values():
        client = watched.client or client_of_session(history)
        if client is not None and watched.calls:
            yield watched, client


def _count_call(watched: Watched, request: SentRequest) -> None:
    watched.calls += 1
    watched.tokens += member(request.params, "_meta", "progressToken") not in (None, ABSENT)


def _violation(
    choice: HostChoice,
    client: Client,
    rule: tuple[str, str],
    says: str,
    met: str,
    seq: int,
    candidates: tuple[str, ...],
    pointer: str = "",
) -> Violation:
    host = next((host for host in choice.known if host.is_client(client[0])), None)
    name = host.name if host is not None else shortened(client[0])
    version = f" {shortened(client[1])}" if client[1] and (host is None or host.tells_version) else ""
    reason = f"{says}: {met} (observed in this recording)"
    return Violation(
        *rule,
        f"Legal MCP. {name}{version} {reason}",
        pointer=pointer,
        blame=SERVER,
        at_most="info",
        frame=seq,
        candidates=candidates,
        data={
            "host": shortened(client[0]) if host is None else choice.id_of_seen(host, client[1]),
            "effect": "changed",
            "says": says,
            "reason": reason,
        },
    )
