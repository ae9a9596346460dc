"""The turns of a session in the Agent Client Protocol: prompts, cancels, and why the agent stopped.

A turn is the agent's work on one prompt. In version 1 the agent answers the prompt when the turn is over,
with a stop reason. In version 2 it answers the prompt immediately, and a later state update says that the
agent is idle again, with the stop reason.

A second prompt during a turn is not reported: agents may queue it, and no page forbids it.

Source: https://agentclientprotocol.com/protocol/v1/prompt-turn
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.judge.checks.acp.acp_sessions import PromptTurn, Sessions, session_id
from mcpproxy.judge.checks.engine.context import MessageContext, Violation, shortened
from mcpproxy.judge.checks.engine.rows import ACP_ONLY, ANSWERS, Check, RuleFamily, StateUpdate
from mcpproxy.judge.checks.utilities.after_cancellation import READ_NS
from mcpproxy.judge.session.frame import CLIENT, SERVER, Severity
from mcpproxy.judge.session.history import History, SentRequest
from mcpproxy.protocol import acp
from mcpproxy.protocol.error_message import REQUEST_CANCELLED
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, Notification, Request, Response
from mcpproxy.protocol.message_parts import as_object, member
from mcpproxy.protocol.wording import shown

CROSSING_NS: Final = 1_000_000_000
"""An answer sooner than this after session/cancel is not reported.

If the agent has certainly read the cancel, ``READ_NS`` counts instead.
"""

BUSY_NS: Final = 5_000_000_000
"""How long an agent may need to read session/cancel, if it has answered no request that was sent later.

An answer within this time is at most a warning.
"""


def remember_prompt(context: MessageContext, history: History) -> None:
    """Record that a turn begins."""
    id = session_id(context)
    if id is not None and context.sender == CLIENT:
        session = history.of(Sessions).add(id)
        session.is_open, turn = True, session.turn
        if not turn.busy:
            turn.prompt_seq, turn.prompt_accepted = context.seq, False
            turn.message_reported = turn.work_reported = False
        turn.busy, turn.cancel_seq = True, 0


def remember_cancel(context: MessageContext, history: History) -> None:
    """Record a session/cancel in a turn as the latest one, and as that of the turn if it is the first."""
    session = history.of(Sessions).of(session_id(context))
    if session is None or context.sender != CLIENT or not session.turn.busy:
        return
    turn = session.turn
    turn.last_cancel_seq = context.seq
    if not turn.cancel_seq:
        turn.cancel_seq, turn.cancel_ns = context.seq, context.frame.observed_at_ns


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
    """Report a cancelled turn that ended with another reason, although the agent has had time to read the
    cancel (ACP-008).
    """
    session = history.of(Sessions).of(member(request.params, "sessionId"))
    if session is None or session.turn.cancel_seq <= request.seq:
        return
    waited_ns, enough_ns = _since_cancel(session.turn, context, history)
    if waited_ns >= min(enough_ns, CROSSING_NS):
        problem = (
            f'agent ended a turn {outcome}, although the client had cancelled it; "cancelled" was expected'
        )
        related = (request.seq, session.turn.cancel_seq)
        at_most: Severity | None = None if waited_ns >= enough_ns else "warning"
        yield Violation(
            "ACP-008", "A-023", problem, pointer=context.at + pointer, related=related, at_most=at_most
        )


def _since_cancel(turn: PromptTurn, context: MessageContext, history: History) -> tuple[int, int]:
    """Return the time since the cancel, and how long the agent may need to act on it, in nanoseconds."""
    cancellation_was_read = history.client.last_answered_seq > turn.cancel_seq
    return context.frame.observed_at_ns - turn.cancel_ns, READ_NS if cancellation_was_read else BUSY_NS


def idle_state(context: MessageContext[Notification], history: History) -> Iterator[Violation]:
    """Report a missing or wrong stop reason in a state update, in version 2 (ACP-008)."""
    update = member(context.message.params, "update")
    if not _is_idle(update) or context.sender != SERVER or context.candidates != (acp.SECOND,):
        return
    session = history.of(Sessions).of(session_id(context))
    turn = session.turn if session else PromptTurn()
    reason, pointer = member(update, "stopReason"), context.at + "/params/update/stopReason"
    if reason is None:
        # An idle agent may repeat that it is idle, even if a prompt has just arrived.
        if turn.works and not history.has_gap:
            problem = "agent became idle after its work without saying why it stopped (stopReason)"
            yield Violation("ACP-008", "A-024", problem, pointer=pointer)
    elif isinstance(reason, str) and reason not in acp.STOP_REASONS and not reason.startswith("_"):
        problem = f"agent stopped with {shortened(shown(reason))}; reasons of its own start with _"
        yield Violation("ACP-008", "A-022", problem, pointer=pointer)
    elif reason != "cancelled" and turn.cancel_seq and turn.works:
        waited_ns, enough_ns = _since_cancel(turn, context, history)
        if waited_ns < min(enough_ns, CROSSING_NS):
            return
        problem = f'agent became idle with {shown(reason)} after a cancel; "cancelled" was expected'
        at_most: Severity | None = None if waited_ns >= enough_ns else "warning"
        yield Violation(
            "ACP-008", "A-023", problem, pointer=pointer, related=(turn.cancel_seq,), at_most=at_most
        )


def unreported_prompt(context: MessageContext[Notification], history: History) -> Iterator[Violation]:
    """Report the end of work on a prompt that the agent accepted and never reported, in version 2 (ACP-023).

    Work that was refused or cancelled may end before it began. And an agent that has stopped once may repeat
    its stop reason, so only the first prompt of a new session is judged.
    """
    update, session = member(context.message.params, "update"), history.of(Sessions).of(session_id(context))
    if session is None or context.candidates != (acp.SECOND,) or not _is_idle(update) or history.has_gap:
        return
    turn = session.turn
    if (
        not session.is_new
        or turn.has_stopped
        or not turn.prompt_seq
        or not turn.prompt_accepted
        or member(update, "stopReason") not in _WORK_ENDS
    ):
        return
    pointer, related = context.at + "/params/update/state", (turn.prompt_seq,)
    if not turn.message_reported:
        problem = "agent finished its work on a prompt without reporting the user's message"
        yield Violation("ACP-023", "A-056", problem, pointer=pointer, related=related)
    if not turn.work_reported:
        problem = "agent finished its work on a prompt without having said that it was running"
        yield Violation("ACP-023", "A-057", problem, pointer=pointer, related=related)


_WORK_ENDS: Final = ("end_turn", "max_tokens", "max_turn_requests")
"""Stop reasons that an agent gives only after it has worked."""


def _is_idle(update: JSON) -> bool:
    """Whether a session update says that the agent is idle."""
    return member(update, "sessionUpdate") == "state_update" and member(update, "state") == "idle"


def remember_update(context: MessageContext[Notification], history: History) -> None:
    """Record from an update whether the agent is working, and whether it has reported the prompt."""
    update, session = member(context.message.params, "update"), history.of(Sessions).of(session_id(context))
    if session is None:
        return
    turn = session.turn
    if member(update, "sessionUpdate") in ("user_message", "user_message_chunk"):
        turn.message_reported = True
    elif _is_idle(update):
        turn.busy, turn.cancel_seq, turn.idle_seq = False, 0, context.seq
        turn.works, turn.prompt_seq = False, 0
        turn.has_stopped = turn.has_stopped or member(update, "stopReason") is not None
    elif member(update, "state") in ("running", "requires_action"):
        turn.busy = turn.works = turn.work_reported = True


def remember_answered_prompt(context: MessageContext, history: History) -> None:
    """Record the answer to a prompt. It ends the turn in version 1, and in version 2 if it is an error."""
    request = context.answers
    session = history.of(Sessions).of(member(request.params, "sessionId")) if request else None
    if session is None or request is None:
        return
    turn = session.turn
    if history.negotiated == acp.FIRST or isinstance(context.message, ErrorResponse):
        turn.busy, turn.cancel_seq, turn.prompt_seq = False, 0, 0
    elif request.seq > turn.idle_seq:
        turn.busy = turn.prompt_accepted = True


_PROMPT: Final = ("session/prompt",)
_UPDATE: Final = ("session/update",)
_STATE_TEXT: Final = (b'"state_update"',)
_PROGRESS_TEXTS: Final = (b'"state_update"', b'"user_message"', b'"user_message_chunk"')

FAMILY: Final = RuleFamily(
    checks=(
        Check(("ACP-008",), stop_reason, ANSWERS, _PROMPT, ACP_ONLY),
        Check(("ACP-008",), idle_state, (Notification,), _UPDATE, ACP_ONLY, mentions=_STATE_TEXT),
        Check(
            ("ACP-023",), unreported_prompt, (Notification,), _UPDATE, ACP_ONLY, SERVER, mentions=_STATE_TEXT
        ),
    ),
    updates=(
        StateUpdate(remember_prompt, (Request,), _PROMPT, ACP_ONLY),
        StateUpdate(remember_cancel, (Notification,), ("session/cancel",), ACP_ONLY),
        StateUpdate(remember_answered_prompt, ANSWERS, _PROMPT, ACP_ONLY),
        StateUpdate(remember_update, (Notification,), _UPDATE, ACP_ONLY, SERVER, mentions=_PROGRESS_TEXTS),
    ),
)
