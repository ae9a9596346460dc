"""What of a recording a server can be replayed from, and what is left out, said in sentences.

Left out are exchanges beside the MCP endpoint (metadata, tokens: they are served as they are, not as
messages), and requests that were turned away for want of credentials: a replay asks for none.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mcpproxy.protocol.jsonrpc import Malformed, Request
from mcpproxy.replay.recording import Exchange, Recording, Said, Session
from mcpproxy.session.frame import CLIENT, SERVER

_UNAUTHORIZED: Final = 401


@dataclass(frozen=True, slots=True)
class Beside:
    """An answer at another path than the MCP endpoint: a page of metadata, say."""

    exchange: Exchange
    body: bytes


@dataclass(frozen=True, slots=True)
class Material:
    """What a server is replayed from.

    ``unnamed`` holds what came without a session id, ``sessions`` the named ones; on stdio there is only the
    former. ``notes`` say what cannot be replayed.
    """

    unnamed: Session
    sessions: tuple[Session, ...]
    beside: tuple[Beside, ...]
    complete: bool
    notes: tuple[str, ...]

    @property
    def is_stateful(self) -> bool:
        """Whether any session begins with ``initialize``."""
        return any(
            said.method == "initialize"
            for session in (self.unnamed, *self.sessions)
            for said in session.messages
        )

    def as_one(self) -> Session:
        """The first session, with what came before it had an id."""
        return merged([self.unnamed, *self.sessions[:1]])


def material(recording: Recording) -> Material:
    """What of ``recording`` can be replayed."""
    beside: list[Beside] = []
    refused = 0
    sessions: list[Session] = []
    for session in recording.sessions:
        left_out: set[int] = set()
        speaking = {
            said.exchange
            for said in session.messages
            if said.sender == CLIENT and not isinstance(said.message, Malformed)
        }
        for number, exchange in session.exchanges.items():
            if not exchange.request.endpoint and number not in speaking:
                body = b"".join(said.raw for said in _of_server(session, number))
                beside.append(Beside(exchange, body))
                left_out.add(number)
            elif exchange.status == _UNAUTHORIZED:
                refused += any(
                    said.exchange == number and isinstance(said.message, Request) for said in session.messages
                )
                left_out.add(number)
        sessions.append(_without(session, left_out) if left_out else session)
    notes = list(recording.notes)
    if refused:
        notes.append(f"{refused} requests were refused for want of credentials; they are left out")
    hidden = [one for one in beside if b"masked(len=" in one.body]
    if hidden:
        notes.append(f"{len(hidden)} answers hold masked credentials; they are not given again")
    shown = tuple(one for one in beside if one not in hidden)
    if not recording.complete:
        open_requests = sum(_unanswered(session) for session in sessions)
        if open_requests:
            notes.append(
                f"{open_requests} of the client's requests have no answer in it; asked again, they are a miss"
            )
    named = tuple(session for session in sessions if session.messages and _has_begun(session))
    unnamed = replace(merged([session for session in sessions if not _has_begun(session)]), name="")
    return Material(unnamed, named, shown, recording.complete, tuple(notes))


def one_after_another(materials: Sequence[Material]) -> Material:
    """What several recordings on stdio hold, as if one server process had said all of it.

    A client may start the command twice: once to ask for the server's era, once to work.
    """
    one = Session()
    for session in (material.unnamed for material in materials):
        behind, last_ns = len(one.messages), max((said.at_ns for said in one.messages), default=0)
        one.messages += [
            replace(
                said,
                index=behind + said.index,
                at_ns=last_ns + said.at_ns,
                answers=None if said.answers is None else behind + said.answers,
            )
            for said in session.messages
        ]
        one.server_left = session.server_left
    notes = tuple(note for material in materials for note in material.notes)
    return Material(one, (), (), all(material.complete for material in materials), notes)


def merged(sessions: Sequence[Session]) -> Session:
    """Several sessions as one, their messages in the order in which they passed."""
    filled = [session for session in sessions if session.messages or session.exchanges]
    if len(filled) == 1:
        return filled[0]
    of = [(said, session) for session in filled for said in session.messages]
    of.sort(key=lambda pair: (pair[0].seq, pair[0].index))
    one = Session(filled[-1].name if filled else "")
    one.server_left = any(session.server_left for session in filled)
    for session in filled:
        one.exchanges |= session.exchanges
    place = {(id(session), said.index): index for index, (said, session) in enumerate(of)}
    one.messages = [
        replace(
            said,
            index=index,
            answers=None if said.answers is None else place[id(session), said.answers],
        )
        for index, (said, session) in enumerate(of)
    ]
    return one


def _has_begun(session: Session) -> bool:
    """Whether it has an id that means something.

    Some servers give one to every request that has none, and refuse all of them but ``initialize`` then.
    """
    return bool(session.name) and any(
        exchange.status < 400 or any(name.lower() == "mcp-session-id" for name, _ in exchange.request.headers)
        for exchange in session.exchanges.values()
    )


def _unanswered(session: Session) -> int:
    answered = {said.answers for said in session.messages}
    return sum(
        isinstance(said.message, Request)
        and said.sender == CLIENT
        and said.method != "subscriptions/listen"
        and said.index not in answered
        for said in session.messages
    )


def _without(session: Session, exchanges: Iterable[int]) -> Session:
    gone = set(exchanges)
    kept = [said for said in session.messages if said.exchange not in gone]
    place = {said.index: index for index, said in enumerate(kept)}
    messages = [
        replace(said, index=index, answers=None if said.answers is None else place.get(said.answers))
        for index, said in enumerate(kept)
    ]
    left = {number: exchange for number, exchange in session.exchanges.items() if number not in gone}
    return Session(session.name, messages, left, session.server_left)


def _of_server(session: Session, exchange: int) -> list[Said]:
    return [said for said in session.messages if said.exchange == exchange and said.sender == SERVER]
