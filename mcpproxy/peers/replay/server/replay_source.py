"""The parts of a recording from which a server is replayed, and notes on the parts that are left out.

Two kinds of HTTP exchange are not part of the replayed sessions. Responses at other paths than the MCP
endpoint (metadata, tokens) are served unchanged. Requests that the server refused with 401 are left out,
because a replay asks for no credentials. A 401 that a fault rule of mcpproxy made is replayed.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import Final

from mcpproxy.base.style import count
from mcpproxy.judge.session.frame import CLIENT, SERVER
from mcpproxy.peers.replay.recording import Exchange, LoadedTrace, RecordedSession, SessionMessage
from mcpproxy.protocol.header_names import SESSION_ID
from mcpproxy.protocol.jsonrpc import Malformed, Request
from mcpproxy.protocol.methods import LISTEN

_UNAUTHORIZED: Final = 401


@dataclass(frozen=True, slots=True)
class NonMcpAnswer:
    """A response at another path than the MCP endpoint, such as a metadata document."""

    exchange: Exchange
    body: bytes


@dataclass(frozen=True, slots=True)
class ReplaySource:
    """The parts of one or more recordings from which a server is replayed.

    ``unnamed`` is the session of the messages without a session id, on stdio the only session. ``sessions``
    are the sessions with an id. ``non_mcp`` are the responses at other paths than the endpoint. ``complete``
    is false if something is missing in a recording. ``notes`` are clauses about what cannot be replayed.
    """

    unnamed: RecordedSession
    sessions: tuple[RecordedSession, ...]
    non_mcp: tuple[NonMcpAnswer, ...]
    complete: bool
    notes: tuple[str, ...]

    @property
    def is_stateful(self) -> bool:
        """Whether any session has an ``initialize``."""
        return any(
            entry.method == "initialize"
            for session in (self.unnamed, *self.sessions)
            for entry in session.messages
        )

    def as_one(self) -> RecordedSession:
        """Return the first session, with the messages that were sent before it had an id."""
        return merged([self.unnamed, *self.sessions[:1]])


def replay_source(recording: LoadedTrace) -> ReplaySource:
    """Return the parts of ``recording`` that can be replayed."""
    parts = [_divided(session) for session in recording.sessions]
    sessions = [part.replayed for part in parts]
    non_mcp = [answer for part in parts for answer in part.non_mcp]
    notes = list(recording.notes)
    if refused := sum(part.refused for part in parts):
        notes.append(f"{count(refused, 'request')} refused with 401 (no credentials): left out")
    replayed = tuple(answer for answer in non_mcp if b"masked(len=" not in answer.body)
    if masked := len(non_mcp) - len(replayed):
        notes.append(f"{count(masked, 'answer')} with masked credentials: not replayed")
    if not recording.complete and (open_requests := sum(map(_count_unanswered, sessions))):
        notes.append(
            f"{count(open_requests, 'request')} of the client without a recorded answer: a miss if sent again"
        )
    named = tuple(session for session in sessions if session.messages and _has_begun(session))
    unnamed = replace(merged([session for session in sessions if not _has_begun(session)]), name="")
    return ReplaySource(unnamed, named, replayed, recording.complete, tuple(notes))


@dataclass(frozen=True, slots=True)
class _DividedSession:
    """A session without the exchanges that are not part of a replay, and those exchanges.

    ``refused`` is the number of exchanges with requests that were refused because they had no credentials.
    """

    replayed: RecordedSession
    non_mcp: tuple[NonMcpAnswer, ...]
    refused: int


def _divided(session: RecordedSession) -> _DividedSession:
    with_messages = {
        entry.exchange
        for entry in session.messages
        if entry.sender == CLIENT and not isinstance(entry.message, Malformed)
    }
    with_request = {entry.exchange for entry in session.messages if isinstance(entry.message, Request)}
    non_mcp: dict[int, NonMcpAnswer] = {}
    refused: set[int] = set()
    for number, exchange in session.exchanges.items():
        if not exchange.request.endpoint and number not in with_messages:
            body = b"".join(entry.raw for entry in _server_messages(session, number))
            non_mcp[number] = NonMcpAnswer(exchange, body)
        elif exchange.status == _UNAUTHORIZED and not exchange.is_altered:
            refused.add(number)
    left_out = non_mcp.keys() | refused
    replayed = _without_exchanges(session, left_out) if left_out else session
    return _DividedSession(replayed, tuple(non_mcp.values()), len(refused & with_request))


def one_after_another(sources: Sequence[ReplaySource]) -> ReplaySource:
    """Join several stdio recordings into one session, so that one replay answers the requests of all of them.

    A client may start a server twice: first to find out which protocol revisions the server supports, then to
    use the server.
    """
    joined = RecordedSession()
    for session in (replay_source.unnamed for replay_source in sources):
        offset, last_ns = len(joined.messages), max((entry.at_ns for entry in joined.messages), default=0)
        last_batch = max((entry.batch for entry in joined.messages), default=0)
        joined.messages += [
            replace(
                entry,
                index=offset + entry.index,
                at_ns=last_ns + entry.at_ns,
                answers=None if entry.answers is None else offset + entry.answers,
                names=None if entry.names is None else offset + entry.names,
                # A batch has the number of its frame, and every recording numbers its frames from 1.
                batch=last_batch + entry.batch if entry.batch else 0,
            )
            for entry in session.messages
        ]
        joined.server_left = session.server_left
    notes = tuple(note for replay_source in sources for note in replay_source.notes)
    return ReplaySource(joined, (), (), all(replay_source.complete for replay_source in sources), notes)


def merged(sessions: Sequence[RecordedSession]) -> RecordedSession:
    """Join several sessions of one recording, with their messages in recorded order."""
    filled = [session for session in sessions if session.messages or session.exchanges]
    if len(filled) == 1:
        return filled[0]
    merged_entries = [(entry, session) for session in filled for entry in session.messages]
    merged_entries.sort(key=lambda pair: (pair[0].seq, pair[0].index))
    joined = RecordedSession(filled[-1].name if filled else "")
    joined.server_left = any(session.server_left for session in filled)
    for session in filled:
        joined.exchanges |= session.exchanges
    new_index = {(id(session), entry.index): index for index, (entry, session) in enumerate(merged_entries)}
    joined.messages = [
        replace(
            entry,
            index=index,
            answers=None if entry.answers is None else new_index[id(session), entry.answers],
            names=None if entry.names is None else new_index[id(session), entry.names],
        )
        for index, (entry, session) in enumerate(merged_entries)
    ]
    return joined


def _has_begun(session: RecordedSession) -> bool:
    """Whether a session with this id began: a request succeeded, or the client sent the id.

    Some servers issue an id with every response to a request without one, even if they refuse the request.
    """
    return bool(session.name) and any(
        exchange.status < 400 or any(name.lower() == SESSION_ID for name, _ in exchange.request.headers)
        for exchange in session.exchanges.values()
    )


def _count_unanswered(session: RecordedSession) -> int:
    """Return how many requests of the client have no recorded response."""
    answered = {entry.answers for entry in session.messages}
    return sum(
        isinstance(entry.message, Request)
        and entry.sender == CLIENT
        and entry.method != LISTEN
        and entry.index not in answered
        for entry in session.messages
    )


def _without_exchanges(session: RecordedSession, left_out: Set[int]) -> RecordedSession:
    """Return a copy of a session without these exchanges and their messages."""
    kept = [entry for entry in session.messages if entry.exchange not in left_out]
    new_index = {entry.index: index for index, entry in enumerate(kept)}
    messages = [
        replace(
            entry,
            index=index,
            answers=None if entry.answers is None else new_index.get(entry.answers),
            names=None if entry.names is None else new_index.get(entry.names),
        )
        for index, entry in enumerate(kept)
    ]
    remaining = {number: exchange for number, exchange in session.exchanges.items() if number not in left_out}
    return RecordedSession(session.name, messages, remaining, session.server_left)


def _server_messages(session: RecordedSession, exchange: int) -> list[SessionMessage]:
    return [entry for entry in session.messages if entry.exchange == exchange and entry.sender == SERVER]


def sessions_of(source: ReplaySource) -> list[RecordedSession]:
    """Return the sessions of a recording, in the order of their first messages.

    Messages without a session id are a session of their own if a request is among them; otherwise they belong
    to the first session.
    """
    unnamed = source.unnamed
    if not source.sessions:
        return [unnamed] if unnamed.messages else []
    if not unnamed.messages:
        return list(source.sessions)
    if not any(isinstance(entry.message, Request) for entry in unnamed.messages):
        return [merged([unnamed, source.sessions[0]]), *source.sessions[1:]]
    return sorted((unnamed, *source.sessions), key=lambda session: session.messages[0].seq)
