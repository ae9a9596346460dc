"""The order of messages in the Agent Client Protocol: initialize, then a session, then its prompts.

In version 1 the agent answers a prompt when the turn is over, and gives the stop reason. In version 2 it
answers immediately, and a later state update says that the agent is idle again and why.

Source: https://agentclientprotocol.com/protocol/v1/session-setup
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.checks.engine.context import MessageContext, Violation, as_object, member, shortened
from mcpproxy.checks.engine.rows import ACP_ONLY, ANSWERS, Check, RuleFamily, StateUpdate
from mcpproxy.checks.utilities.cancellation import READ_NS
from mcpproxy.protocol import acp
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, Notification, Request, Response
from mcpproxy.protocol.wording import shown
from mcpproxy.session.frame import CLIENT, SERVER, Severity
from mcpproxy.session.history import History, SentRequest

MAX_REMEMBERED: Final = 4096
"""The number of sessions that are remembered."""

CROSSING_NS: Final = 1_000_000_000
"""An answer this soon after a cancel may have been sent before the agent read the cancel."""

BUSY_NS: Final = 5_000_000_000
"""Until this long after a cancel, a busy agent may not have read it."""

REQUEST_CANCELLED: Final = -32800

_NOT_OPENING: Final = ("session/list", "session/delete")
"""Methods whose result opens no session, although it may name one."""


@slotted()
class AcpSession:
    """One session. ``busy``: the agent works on it. ``cancel_seq``: the frame that cancelled that work."""

    busy: bool = False
    cancel_seq: int = 0
    cancel_ns: int = 0


@slotted()
class Sessions:
    """The sessions of a connection, by id, oldest first.

    ``forgot_some`` is set once a session had to be dropped: from then on an unknown id is not reported.
    ``refused`` says that the latest initialize was answered with an error. ``hasty`` is set once the client
    sent a request before the handshake was complete, which is reported once.
    """

    open: dict[str, AcpSession] = field(default_factory=dict[str, AcpSession])
    forgot_some: bool = False
    refused: bool = False
    hasty: bool = False

    def add(self, id: str) -> AcpSession:
        session = self.open.setdefault(id, AcpSession())
        if len(self.open) > MAX_REMEMBERED:
            self.forgot_some = True
            del self.open[next(iter(self.open))]
        return session


def _session_id(context: MessageContext) -> str | None:
    message = context.message
    found = member(message.params, "sessionId") if isinstance(message, Request | Notification) else None
    return found if isinstance(found, str) else None


# Before there is a session


def hasty_request(context: MessageContext[Request | Notification], history: History) -> Iterator[Violation]:
    """Report a message about sessions before initialize has succeeded (ACP-006)."""
    message, sessions = context.message, history.of(Sessions)
    if sessions.hasty or history.has_gap or context.sender != CLIENT:
        return
    if not message.method.startswith("session/") or history.negotiated is not None:
        return
    initialize = history.initialize
    if initialize is None:
        problem, related = f"client sent {message.method} before initialize", ()
    elif not history.initialize_answered:
        problem, related = f"client sent {message.method} before initialize was answered", (initialize.seq,)
    elif sessions.refused:
        problem, related = f"client sent {message.method} although initialize failed", (initialize.seq,)
    else:
        return  # The agent did not say which version it chose.
    yield Violation("ACP-006", "A-018", problem, pointer=context.at + "/method", related=related)


def remember_haste(context: MessageContext, history: History) -> None:
    """Record that ``hasty_request`` has reported, because it reports only once."""
    early = context.sender == CLIENT and history.negotiated is None
    if early and isinstance(context.message, Request) and context.message.method != "initialize":
        history.of(Sessions).hasty = (
            context.message.method.startswith("session/") or history.of(Sessions).hasty
        )


def unknown_session(context: MessageContext[Request | Notification], history: History) -> Iterator[Violation]:
    """Report a session id that was not opened on this connection (ACP-007)."""
    message, sessions = context.message, history.of(Sessions)
    id = _session_id(context)
    if id is None or context.sender != CLIENT or id in sessions.open:
        return
    if sessions.forgot_some or sessions.hasty or history.has_gap or history.negotiated is None:
        return
    if not history.server.fully_read:
        return
    problem = f"client sent {message.method} for session {shown(id)}, which was not opened on this connection"
    at = context.at + "/params/sessionId"
    if message.method == "session/prompt":
        yield Violation("ACP-007", "A-019", problem, pointer=at)
    else:
        yield Violation("ACP-007", "A-020", problem, pointer=at)


def remember_opening(context: MessageContext, history: History) -> None:
    """Record the session that a request opens by its id."""
    id = _session_id(context)
    if id is not None and context.sender == CLIENT:
        history.of(Sessions).add(id)


def remember_answer(context: MessageContext, history: History) -> None:
    """Record the session that a result opens, and forget one that was closed or refused."""
    asked, message, sessions = context.answers, context.message, history.of(Sessions)
    if asked is None or context.sender != SERVER:
        return
    if asked is history.initialize:
        sessions.refused = isinstance(message, ErrorResponse)
    named = member(asked.params, "sessionId")
    if isinstance(message, Response):
        opened = member(message.result, "sessionId")
        if (
            isinstance(opened, str)
            and asked.method.startswith("session/")
            and asked.method not in _NOT_OPENING
        ):
            sessions.add(opened)
        if asked.method == "session/close" and isinstance(named, str):
            sessions.open.pop(named, None)
    elif asked.method in ("session/load", "session/resume") and isinstance(named, str):
        session = sessions.open.get(named)
        if session is not None and not session.busy and not sessions.forgot_some:
            sessions.open.pop(named, None)


# Prompts and stop reasons


def remember_prompt(context: MessageContext, history: History) -> None:
    """Record that the agent starts to work on a session."""
    id = _session_id(context)
    if id is not None and context.sender == CLIENT:
        session = history.of(Sessions).add(id)
        session.busy, session.cancel_seq = True, 0


def remember_cancel(context: MessageContext, history: History) -> None:
    """Record a cancel. Only the first cancel of a turn counts."""
    id = _session_id(context)
    session = history.of(Sessions).open.get(id) if id is not None else None
    if session is not None and context.sender == CLIENT and session.busy and not session.cancel_seq:
        session.cancel_seq, session.cancel_ns = context.seq, context.frame.observed_at_ns


def stop_reason(context: MessageContext[Response | ErrorResponse], history: History) -> Iterator[Violation]:
    """Report a missing or wrong stop reason in the answer to a prompt, in version 1 (ACP-008)."""
    asked, message = context.answers, context.message
    if asked is None or context.sender != SERVER or context.candidates != (acp.FIRST,):
        return
    if isinstance(message, ErrorResponse):
        code = member(as_object(message.error), "code")
        if code != REQUEST_CANCELLED:
            yield from _not_cancelled(asked, context, history, f"with error {shown(code)}", "/error")
        return
    reason, at = member(message.result, "stopReason"), "/result/stopReason"
    if not isinstance(reason, str):
        problem = "agent answered session/prompt without a stopReason"
        yield Violation("ACP-008", "A-021", problem, pointer=context.at + at, related=(asked.seq,))
    elif reason not in acp.STOP_REASONS:
        problem = f"agent stopped a turn with {shown(reason)}, which is not a stop reason of version 1"
        yield Violation("ACP-008", "A-022", problem, pointer=context.at + at, related=(asked.seq,))
    elif reason != "cancelled":
        yield from _not_cancelled(asked, context, history, f"with {shown(reason)}", at)


def _not_cancelled(
    asked: SentRequest, context: MessageContext, history: History, how: str, pointer: str
) -> Iterator[Violation]:
    """Report a cancelled turn that did not end as cancelled, once the agent has read the cancel."""
    id = member(asked.params, "sessionId")
    session = history.of(Sessions).open.get(id) if isinstance(id, str) else None
    if session is None or session.cancel_seq <= asked.seq:
        return
    waited_ns, enough_ns = _since_cancel(session, context, history)
    if waited_ns >= min(enough_ns, CROSSING_NS):
        problem = f'agent ended a turn {how}, although the client had cancelled it; "cancelled" was expected'
        related = (asked.seq, session.cancel_seq)
        level: Severity | None = None if waited_ns >= enough_ns else "warning"
        yield Violation(
            "ACP-008", "A-023", problem, pointer=context.at + pointer, related=related, at_most=level
        )


def _since_cancel(session: AcpSession, context: MessageContext, history: History) -> tuple[int, int]:
    """How long ago the work was cancelled, and after how long the agent certainly knows."""
    cancellation_was_read = history.client.last_answered_seq > session.cancel_seq
    return context.frame.observed_at_ns - session.cancel_ns, READ_NS if cancellation_was_read else BUSY_NS


def idle_state(context: MessageContext[Notification], history: History) -> Iterator[Violation]:
    """Report a missing or wrong stop reason in a state update, in version 2 (ACP-008)."""
    message = context.message
    update, id = member(message.params, "update"), _session_id(context)
    if member(update, "sessionUpdate") != "state_update" or context.sender != SERVER:
        return
    if context.candidates != (acp.SECOND,) or member(update, "state") != "idle":
        return
    session = history.of(Sessions).open.get(id) if id is not None else None
    reason, at = member(update, "stopReason"), context.at + "/params/update/stopReason"
    if reason is None:
        if session is not None and session.busy and not history.has_gap:
            problem = "agent became idle after its work without saying why it stopped (stopReason)"
            yield Violation("ACP-008", "A-024", problem, pointer=at)
    elif isinstance(reason, str) and reason not in acp.STOP_REASONS and not reason.startswith("_"):
        problem = f"agent stopped with {shortened(shown(reason))}; reasons of its own start with _"
        yield Violation("ACP-008", "A-022", problem, pointer=at)
    elif reason != "cancelled" and session is not None and session.cancel_seq and session.busy:
        waited_ns, enough_ns = _since_cancel(session, context, history)
        if waited_ns < min(enough_ns, CROSSING_NS):
            return
        problem = f'agent became idle with {shown(reason)} after a cancel; "cancelled" was expected'
        level: Severity | None = None if waited_ns >= enough_ns else "warning"
        yield Violation("ACP-008", "A-023", problem, pointer=at, related=(session.cancel_seq,), at_most=level)


def remember_update(context: MessageContext[Notification], history: History) -> None:
    """Record whether the agent is working, according to its state updates."""
    update, id = member(context.message.params, "update"), _session_id(context)
    session = history.of(Sessions).open.get(id) if id is not None else None
    if session is None or member(update, "sessionUpdate") != "state_update":
        return
    state: JSON = member(update, "state")
    if state == "idle":
        session.busy, session.cancel_seq = False, 0
    elif state in ("running", "requires_action"):
        session.busy = True


def remember_turn_end(context: MessageContext, history: History) -> None:
    """Record the end of a turn: in version 1 any answer to its prompt, in version 2 an error."""
    asked = context.answers
    id = member(asked.params, "sessionId") if asked else None
    session = history.of(Sessions).open.get(id) if isinstance(id, str) else None
    if session is not None and (
        history.negotiated == acp.FIRST or isinstance(context.message, ErrorResponse)
    ):
        session.busy, session.cancel_seq = False, 0


_PROMPT: Final = ("session/prompt",)

FAMILY: Final = RuleFamily(
    checks=(
        Check(("ACP-006",), hasty_request, (Request,), (), ACP_ONLY),
        Check(("ACP-006",), hasty_request, (Notification,), (), ACP_ONLY),
        Check(("ACP-007",), unknown_session, (Request,), acp.USES_SESSION, ACP_ONLY),
        Check(("ACP-007",), unknown_session, (Notification,), ("session/cancel",), ACP_ONLY),
        Check(("ACP-008",), stop_reason, ANSWERS, _PROMPT, ACP_ONLY),
        Check(("ACP-008",), idle_state, (Notification,), ("session/update",), ACP_ONLY),
    ),
    updates=(
        StateUpdate(remember_haste, (Request,), (), ACP_ONLY),
        StateUpdate(remember_opening, (Request,), ("session/load", "session/resume"), ACP_ONLY),
        StateUpdate(remember_prompt, (Request,), _PROMPT, ACP_ONLY),
        StateUpdate(remember_cancel, (Notification,), ("session/cancel",), ACP_ONLY),
        StateUpdate(remember_answer, ANSWERS, (), ACP_ONLY),
        StateUpdate(remember_turn_end, ANSWERS, _PROMPT, ACP_ONLY),
        StateUpdate(remember_update, (Notification,), ("session/update",), ACP_ONLY),
    ),
)
