"""The order of messages in the Agent Client Protocol: initialize, then a session, then its prompts.

The client is an editor, the server of the connection an agent. A turn is the agent's work on one prompt. In
version 1 the agent answers the prompt when the turn is over, with a stop reason. In version 2 it answers the
prompt immediately, and a later state update says that the agent is idle again, with the stop reason.

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
"""An answer this soon after session/cancel is not reported, unless the agent has certainly read it."""

BUSY_NS: Final = 5_000_000_000
"""How long an agent may need to read session/cancel, if it has answered no request that was sent later.

An answer within this time is at most a warning.
"""

REQUEST_CANCELLED: Final = -32800

_NOT_OPENING: Final = ("session/list", "session/delete")
"""Methods whose result may contain a session id without opening that session."""


@slotted()
class AcpSession:
    """One session. ``busy`` is set during a turn, ``cancel_seq`` is the frame that cancelled that turn."""

    busy: bool = False
    cancel_seq: int = 0
    cancel_ns: int = 0


@slotted()
class Sessions:
    """The sessions of a connection, by id, oldest first.

    ``forgot_some`` is set once a session was dropped from ``open``: from then on an unknown id is not
    reported. ``initialize_failed`` is set if the latest initialize was answered with an error.
    ``sent_too_early`` is set once the client sent a session request before the handshake was complete: only
    the first such request is reported.
    """

    open: dict[str, AcpSession] = field(default_factory=dict[str, AcpSession])
    forgot_some: bool = False
    initialize_failed: bool = False
    sent_too_early: bool = False

    def add(self, id: str) -> AcpSession:
        """Return the session with this id, which is new if it was unknown; drop the oldest if need be."""
        session = self.open.setdefault(id, AcpSession())
        if len(self.open) > MAX_REMEMBERED:
            self.forgot_some = True
            del self.open[next(iter(self.open))]
        return session


def _session_id(context: MessageContext) -> str | None:
    """Return the session id in the params of a request or notification."""
    message = context.message
    id = member(message.params, "sessionId") if isinstance(message, Request | Notification) else None
    return id if isinstance(id, str) else None


# Before there is a session


def early_message(context: MessageContext[Request | Notification], history: History) -> Iterator[Violation]:
    """Report a message about sessions before initialize has succeeded (ACP-006)."""
    message, sessions = context.message, history.of(Sessions)
    if sessions.sent_too_early or history.has_gap or context.sender != CLIENT:
        return
    if not message.method.startswith("session/") or history.negotiated is not None:
        return
    initialize = history.initialize
    if initialize is None:
        problem, related = f"client sent {message.method} before initialize", ()
    elif not history.initialize_answered:
        problem, related = f"client sent {message.method} before initialize was answered", (initialize.seq,)
    elif sessions.initialize_failed:
        problem, related = f"client sent {message.method} although initialize failed", (initialize.seq,)
    else:
        return  # The result does not say which version was chosen; another rule reports that.
    yield Violation("ACP-006", "A-018", problem, pointer=context.at + "/method", related=related)


def remember_early_message(context: MessageContext, history: History) -> None:
    """Record a message about sessions before initialize has succeeded: only the first is reported."""
    message = context.message
    is_of_session = isinstance(message, Request | Notification) and message.method.startswith("session/")
    if is_of_session and context.sender == CLIENT and history.negotiated is None:
        history.of(Sessions).sent_too_early = True


def unknown_session(context: MessageContext[Request | Notification], history: History) -> Iterator[Violation]:
    """Report a session id that was not opened on this connection (ACP-007)."""
    message, sessions = context.message, history.of(Sessions)
    id = _session_id(context)
    if id is None or context.sender != CLIENT or id in sessions.open:
        return
    if sessions.forgot_some or sessions.sent_too_early or history.has_gap or history.negotiated is None:
        return
    if not history.server.fully_read:
        return
    problem = f"client sent {message.method} for session {shown(id)}, which was not opened on this connection"
    pointer = context.at + "/params/sessionId"
    if message.method == "session/prompt":
        yield Violation("ACP-007", "A-019", problem, pointer=pointer)
    else:
        yield Violation("ACP-007", "A-020", problem, pointer=pointer)


def remember_opening(context: MessageContext, history: History) -> None:
    """Record the session that session/load or session/resume opens."""
    id = _session_id(context)
    if id is not None and context.sender == CLIENT:
        history.of(Sessions).add(id)


def remember_answer(context: MessageContext, history: History) -> None:
    """Record the session that a result opens; forget a session that was closed or could not be opened."""
    request, message, sessions = context.answers, context.message, history.of(Sessions)
    if request is None or context.sender != SERVER:
        return
    if request is history.initialize:
        sessions.initialize_failed = isinstance(message, ErrorResponse)
    requested_id = member(request.params, "sessionId")
    if isinstance(message, Response):
        opened_id = member(message.result, "sessionId")
        if (
            isinstance(opened_id, str)
            and request.method.startswith("session/")
            and request.method not in _NOT_OPENING
        ):
            sessions.add(opened_id)
        if request.method == "session/close" and isinstance(requested_id, str):
            sessions.open.pop(requested_id, None)
    elif request.method in ("session/load", "session/resume") and isinstance(requested_id, str):
        session = sessions.open.get(requested_id)
        if session is not None and not session.busy and not sessions.forgot_some:
            sessions.open.pop(requested_id, None)


# Prompts and stop reasons


def remember_prompt(context: MessageContext, history: History) -> None:
    """Record that a turn begins."""
    id = _session_id(context)
    if id is not None and context.sender == CLIENT:
        session = history.of(Sessions).add(id)
        session.busy, session.cancel_seq = True, 0


def remember_cancel(context: MessageContext, history: History) -> None:
    """Record the first session/cancel of a turn."""
    id = _session_id(context)
    session = history.of(Sessions).open.get(id) if id is not None else None
    if session is not None and context.sender == CLIENT and session.busy and not session.cancel_seq:
        session.cancel_seq, session.cancel_ns = context.seq, context.frame.observed_at_ns


def stop_reason(context: MessageContext[Response | ErrorResponse], history: History) -> Iterator[Violation]:
    """Report a missing or wrong stop reason in the answer to a prompt, in version 1 (ACP-008)."""
    request, message = context.answers, context.message
    if request is None or context.sender != SERVER or context.candidates != (acp.FIRST,):
        return
    if isinstance(message, ErrorResponse):
        code = member(as_object(message.error), "code")
        if code != REQUEST_CANCELLED:
            yield from _not_cancelled(request, context, history, f"with error {shown(code)}", "/error")
        return
    reason, pointer = member(message.result, "stopReason"), "/result/stopReason"
    if not isinstance(reason, str):
        problem = "agent answered session/prompt without a stopReason"
        yield Violation("ACP-008", "A-021", problem, pointer=context.at + pointer, related=(request.seq,))
    elif reason not in acp.STOP_REASONS:
        problem = f"agent stopped a turn with {shown(reason)}, which is not a stop reason of version 1"
        yield Violation("ACP-008", "A-022", problem, pointer=context.at + pointer, related=(request.seq,))
    elif reason != "cancelled":
        yield from _not_cancelled(request, context, history, f"with {shown(reason)}", pointer)


def _not_cancelled(
    request: SentRequest, context: MessageContext, history: History, outcome: str, pointer: str
) -> Iterator[Violation]:
    """Report a cancelled turn that ended with another reason, after the agent read the cancel (ACP-008)."""
    id = member(request.params, "sessionId")
    session = history.of(Sessions).open.get(id) if isinstance(id, str) else None
    if session is None or session.cancel_seq <= request.seq:
        return
    waited_ns, enough_ns = _since_cancel(session, context, history)
    if waited_ns >= min(enough_ns, CROSSING_NS):
        problem = (
            f'agent ended a turn {outcome}, although the client had cancelled it; "cancelled" was expected'
        )
        related = (request.seq, session.cancel_seq)
        at_most: Severity | None = None if waited_ns >= enough_ns else "warning"
        yield Violation(
            "ACP-008", "A-023", problem, pointer=context.at + pointer, related=related, at_most=at_most
        )


def _since_cancel(session: AcpSession, context: MessageContext, history: History) -> tuple[int, int]:
    """Return the time since the turn was cancelled, and the time that the agent may need to act on that."""
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
    reason, pointer = member(update, "stopReason"), context.at + "/params/update/stopReason"
    if reason is None:
        if session is not None and session.busy and not history.has_gap:
            problem = "agent became idle after its work without saying why it stopped (stopReason)"
            yield Violation("ACP-008", "A-024", problem, pointer=pointer)
    elif isinstance(reason, str) and reason not in acp.STOP_REASONS and not reason.startswith("_"):
        problem = f"agent stopped with {shortened(shown(reason))}; reasons of its own start with _"
        yield Violation("ACP-008", "A-022", problem, pointer=pointer)
    elif reason != "cancelled" and session is not None and session.cancel_seq and session.busy:
        waited_ns, enough_ns = _since_cancel(session, context, history)
        if waited_ns < min(enough_ns, CROSSING_NS):
            return
        problem = f'agent became idle with {shown(reason)} after a cancel; "cancelled" was expected'
        at_most: Severity | None = None if waited_ns >= enough_ns else "warning"
        yield Violation(
            "ACP-008", "A-023", problem, pointer=pointer, related=(session.cancel_seq,), at_most=at_most
        )


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
    request = context.answers
    id = member(request.params, "sessionId") if request else None
    session = history.of(Sessions).open.get(id) if isinstance(id, str) else None
    if session is not None and (
        history.negotiated == acp.FIRST or isinstance(context.message, ErrorResponse)
    ):
        session.busy, session.cancel_seq = False, 0


_PROMPT: Final = ("session/prompt",)

FAMILY: Final = RuleFamily(
    checks=(
        Check(("ACP-006",), early_message, (Request,), (), ACP_ONLY),
        Check(("ACP-006",), early_message, (Notification,), (), ACP_ONLY),
        Check(("ACP-007",), unknown_session, (Request,), acp.USES_SESSION, ACP_ONLY),
        Check(("ACP-007",), unknown_session, (Notification,), ("session/cancel",), ACP_ONLY),
        Check(("ACP-008",), stop_reason, ANSWERS, _PROMPT, ACP_ONLY),
        Check(("ACP-008",), idle_state, (Notification,), ("session/update",), ACP_ONLY),
    ),
    updates=(
        StateUpdate(remember_early_message, (Request, Notification), (), ACP_ONLY),
        StateUpdate(remember_opening, (Request,), ("session/load", "session/resume"), ACP_ONLY),
        StateUpdate(remember_prompt, (Request,), _PROMPT, ACP_ONLY),
        StateUpdate(remember_cancel, (Notification,), ("session/cancel",), ACP_ONLY),
        StateUpdate(remember_answer, ANSWERS, (), ACP_ONLY),
        StateUpdate(remember_turn_end, ANSWERS, _PROMPT, ACP_ONLY),
        StateUpdate(remember_update, (Notification,), ("session/update",), ACP_ONLY),
    ),
)
