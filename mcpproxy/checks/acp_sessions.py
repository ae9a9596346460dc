"""The order of things in the Agent Client Protocol: initialize, then a session, then prompts and their ends.

In version 1 a prompt is answered when its turn is over, with the reason why it stopped. In version 2 it is
answered at once, and a state update tells that the agent is idle again and why.

Source: https://agentclientprotocol.com/protocol/v1/session-setup
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.checks.breach import Breach, Passing, as_object, member, shortened
from mcpproxy.checks.table import ACP_ONLY, ANSWERS, Decider, Family, Note
from mcpproxy.protocol import acp
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, Notification, Request, Response
from mcpproxy.protocol.slotted import field, slotted
from mcpproxy.protocol.wording import shown
from mcpproxy.session.frame import CLIENT, SERVER
from mcpproxy.session.history import Asked, History

MAX_REMEMBERED: Final = 4096

CROSSING_NS: Final = 1_000_000_000
"""An answer this soon after a cancel may have been on its way before the agent read it."""

REQUEST_CANCELLED: Final = -32800

_CURSOR: Final = ("session/list", "session/delete")  # they name sessions that are not open


@slotted()
class Session:
    """One session. ``busy`` says that the agent works for it; ``cancel`` is the frame that cancelled that."""

    busy: bool = False
    cancel_seq: int = 0
    cancel_ns: int = 0


@slotted()
class Sessions:
    """The sessions of a connection, by id, oldest first.

    ``forgetful`` once one had to be dropped: then an unknown id proves nothing. ``refused`` while the
    latest initialize met an error. ``hasty`` once the client went ahead of the handshake: told once.
    """

    open: dict[str, Session] = field(default_factory=dict[str, Session])
    forgetful: bool = False
    refused: bool = False
    hasty: bool = False

    def add(self, id: str) -> Session:
        session = self.open.setdefault(id, Session())
        if len(self.open) > MAX_REMEMBERED:
            self.forgetful = True
            del self.open[next(iter(self.open))]
        return session


def _session_id(passing: Passing) -> str | None:
    message = passing.message
    found = member(message.params, "sessionId") if isinstance(message, Request | Notification) else None
    return found if isinstance(found, str) else None


# Before there is a session


def hasty_request(passing: Passing, history: History) -> Iterator[Breach]:
    """ACP-006"""
    message, sessions = passing.message, history.of(Sessions)
    assert isinstance(message, Request | Notification)
    if sessions.hasty or history.blind or passing.sender != CLIENT:
        return
    if not message.method.startswith("session/") or history.negotiated is not None:
        return
    initialize = history.initialize
    if initialize is None:
        said, related = f"client sent {message.method} before initialize", ()
    elif not history.initialize_answered:
        said, related = f"client sent {message.method} before initialize was answered", (initialize.seq,)
    elif sessions.refused:
        said, related = f"client sent {message.method} although initialize failed", (initialize.seq,)
    else:
        return  # The agent did not say which version it chose.
    yield Breach("ACP-006", "A-018", said, passing.at + "/method", related)


def note_haste(passing: Passing, history: History) -> None:
    """What ``hasty_request`` tells, it tells once."""
    early = passing.sender == CLIENT and history.negotiated is None
    if early and isinstance(passing.message, Request) and passing.message.method != "initialize":
        history.of(Sessions).hasty = (
            passing.message.method.startswith("session/") or history.of(Sessions).hasty
        )


def unknown_session(passing: Passing, history: History) -> Iterator[Breach]:
    """ACP-007"""
    message, sessions = passing.message, history.of(Sessions)
    assert isinstance(message, Request | Notification)
    id = _session_id(passing)
    if id is None or passing.sender != CLIENT or id in sessions.open:
        return
    if sessions.forgetful or sessions.hasty or history.blind or history.negotiated is None:
        return
    if not history.server.was_read:
        return
    said = f"client sent {message.method} for session {shown(id)}, which was not opened on this connection"
    at = passing.at + "/params/sessionId"
    if message.method == "session/prompt":
        yield Breach("ACP-007", "A-019", said, at)
    else:
        yield Breach("ACP-007", "A-020", said, at)


def note_opening(passing: Passing, history: History) -> None:
    """A session is open from when it is asked for by its id, or from when the agent names it."""
    id = _session_id(passing)
    if id is not None and passing.sender == CLIENT:
        history.of(Sessions).add(id)


def note_answer(passing: Passing, history: History) -> None:
    """Whatever result names a session has opened it; a refusal and a close have done the opposite."""
    asked, message, sessions = passing.answers, passing.message, history.of(Sessions)
    if asked is None or passing.sender != SERVER:
        return
    if asked is history.initialize:
        sessions.refused = isinstance(message, ErrorResponse)
    named = member(asked.params, "sessionId")
    if isinstance(message, Response):
        opened = member(message.result, "sessionId")
        if isinstance(opened, str) and asked.method.startswith("session/") and asked.method not in _CURSOR:
            sessions.add(opened)
        if asked.method == "session/close" and isinstance(named, str):
            sessions.open.pop(named, None)
    elif asked.method in ("session/load", "session/resume") and isinstance(named, str):
        session = sessions.open.get(named)
        if session is not None and not session.busy and not sessions.forgetful:
            sessions.open.pop(named, None)


# Prompts and how they end


def note_prompt(passing: Passing, history: History) -> None:
    """The agent works for this session now, and nobody has cancelled that yet."""
    id = _session_id(passing)
    if id is not None and passing.sender == CLIENT:
        session = history.of(Sessions).add(id)
        session.busy, session.cancel_seq = True, 0


def note_cancel(passing: Passing, history: History) -> None:
    """The first cancel of a turn counts."""
    id = _session_id(passing)
    session = history.of(Sessions).open.get(id) if id is not None else None
    if session is not None and passing.sender == CLIENT and session.busy and not session.cancel_seq:
        session.cancel_seq, session.cancel_ns = passing.seq, passing.frame.observed_at_ns


def stop_reason(passing: Passing, history: History) -> Iterator[Breach]:
    """ACP-008: in version 1, the answer to a prompt tells why the turn stopped"""
    asked, message = passing.answers, passing.message
    if asked is None or passing.sender != SERVER or passing.candidates != (acp.FIRST,):
        return
    if isinstance(message, ErrorResponse):
        code = member(as_object(message.error), "code")
        if code != REQUEST_CANCELLED:
            yield from _not_cancelled(asked, passing, history, f"with error {shown(code)}", "/error")
        return
    assert isinstance(message, Response)
    reason, at = member(message.result, "stopReason"), "/result/stopReason"
    if not isinstance(reason, str):
        said = "agent answered session/prompt without a stopReason"
        yield Breach("ACP-008", "A-021", said, passing.at + at, (asked.seq,))
    elif reason not in acp.STOP_REASONS:
        said = f"agent stopped a turn with {shown(reason)}, which is no stop reason of version 1"
        yield Breach("ACP-008", "A-022", said, passing.at + at, (asked.seq,))
    elif reason != "cancelled":
        yield from _not_cancelled(asked, passing, history, f"with {shown(reason)}", at)


def _not_cancelled(
    asked: Asked, passing: Passing, history: History, how: str, pointer: str
) -> Iterator[Breach]:
    """A cancelled turn ends as one. The agent may not have read the cancel yet, so it has a second."""
    id = member(asked.params, "sessionId")
    session = history.of(Sessions).open.get(id) if isinstance(id, str) else None
    if session is None or session.cancel_seq <= asked.seq:
        return
    if passing.frame.observed_at_ns - session.cancel_ns >= CROSSING_NS:
        said = f'agent ended a turn {how}, which the client had cancelled; it ends as "cancelled"'
        related = (asked.seq, session.cancel_seq)
        yield Breach("ACP-008", "A-023", said, passing.at + pointer, related, at_most="warning")


def idle_state(passing: Passing, history: History) -> Iterator[Breach]:
    """ACP-008: in version 2, a state update tells why the work stopped"""
    message = passing.message
    assert isinstance(message, Notification)
    update, id = member(message.params, "update"), _session_id(passing)
    if member(update, "sessionUpdate") != "state_update" or passing.sender != SERVER:
        return
    if passing.candidates != (acp.SECOND,) or member(update, "state") != "idle":
        return
    session = history.of(Sessions).open.get(id) if id is not None else None
    reason, at = member(update, "stopReason"), passing.at + "/params/update/stopReason"
    if reason is None:
        if session is not None and session.busy and not history.blind:
            said = "agent became idle after its work without saying why it stopped (stopReason)"
            yield Breach("ACP-008", "A-024", said, at, at_most="warning")  # the schema says SHOULD
    elif isinstance(reason, str) and reason not in acp.STOP_REASONS and not reason.startswith("_"):
        said = f"agent stopped with {shortened(shown(reason))}; reasons of its own start with _"
        yield Breach("ACP-008", "A-022", said, at, at_most="warning")
    elif reason != "cancelled" and session is not None and session.cancel_seq and session.busy:
        if passing.frame.observed_at_ns - session.cancel_ns < CROSSING_NS:
            return
        said = f'agent became idle with {shown(reason)} after the client had cancelled; say "cancelled"'
        yield Breach("ACP-008", "A-023", said, at, (session.cancel_seq,), at_most="warning")


def note_update(passing: Passing, history: History) -> None:
    """Whether the agent works, as it tells itself."""
    assert isinstance(passing.message, Notification)
    update, id = member(passing.message.params, "update"), _session_id(passing)
    session = history.of(Sessions).open.get(id) if id is not None else None
    if session is None or member(update, "sessionUpdate") != "state_update":
        return
    state: JSON = member(update, "state")
    if state == "idle":
        session.busy, session.cancel_seq = False, 0
    elif state in ("running", "requires_action"):
        session.busy = True


def note_turn_end(passing: Passing, history: History) -> None:
    """In version 1 the answer to a prompt ends its turn; in version 2 only a refused one does."""
    asked = passing.answers
    id = member(asked.params, "sessionId") if asked else None
    session = history.of(Sessions).open.get(id) if isinstance(id, str) else None
    if session is not None and (
        history.negotiated == acp.FIRST or isinstance(passing.message, ErrorResponse)
    ):
        session.busy, session.cancel_seq = False, 0


_PROMPT: Final = ("session/prompt",)

FAMILY: Final = Family(
    checks=(
        Decider(("ACP-006",), hasty_request, ("request",), (), ACP_ONLY),
        Decider(("ACP-006",), hasty_request, ("notification",), (), ACP_ONLY),
        Decider(("ACP-007",), unknown_session, ("request",), acp.USES_SESSION, ACP_ONLY),
        Decider(("ACP-007",), unknown_session, ("notification",), ("session/cancel",), ACP_ONLY),
        Decider(("ACP-008",), stop_reason, ANSWERS, _PROMPT, ACP_ONLY),
        Decider(("ACP-008",), idle_state, ("notification",), ("session/update",), ACP_ONLY),
    ),
    notes=(
        Note(note_haste, ("request",), (), ACP_ONLY),
        Note(note_opening, ("request",), ("session/load", "session/resume"), ACP_ONLY),
        Note(note_prompt, ("request",), _PROMPT, ACP_ONLY),
        Note(note_cancel, ("notification",), ("session/cancel",), ACP_ONLY),
        Note(note_answer, ANSWERS, (), ACP_ONLY),
        Note(note_turn_end, ANSWERS, _PROMPT, ACP_ONLY),
        Note(note_update, ("notification",), ("session/update",), ACP_ONLY),
    ),
)
