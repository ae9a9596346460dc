"""Tool calls that an agent reports in version 1: it announces each before it updates it.

Once it has answered that a turn (its work on one prompt) is cancelled, it reports no more of the tool calls
in that turn. Version 2 has no announcement (the first update of a tool call creates it), and its agents may
continue to work after they said that they are idle. So nothing here applies to version 2.

Source: https://agentclientprotocol.com/protocol/v1/tool-calls
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.judge.checks.acp.acp_sessions import AcpSession, Sessions, all_was_seen, session_id
from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.rows import ACP_ONLY, Check, RuleFamily, StateUpdate
from mcpproxy.judge.session.frame import SERVER
from mcpproxy.judge.session.history import History, keep_latest
from mcpproxy.protocol import acp
from mcpproxy.protocol.jsonrpc import JSON, Notification, Request, Response
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.wording import shown

MAX_CALLS: Final = 4096
"""How many tool calls of a session are remembered."""

_ENDED: Final = ("completed", "failed", "cancelled")


def tool_call_update(context: MessageContext[Notification], history: History) -> Iterator[Violation]:
    """Report an update of a tool call that was never announced (ACP-016) or that was cancelled (ACP-017)."""
    session, update = history.of(Sessions).of(session_id(context)), member(context.message.params, "update")
    id = member(update, "toolCallId")
    if session is None or member(update, "sessionUpdate") != "tool_call_update" or not isinstance(id, str):
        return
    calls, pointer = session.calls, context.at + "/params/update/toolCallId"
    # A session that is not new may have tool calls from before it was opened here.
    if session.is_new and id not in calls.known and not calls.forgot_some and all_was_seen(history):
        problem = f"agent updated tool call {shown(id)}, which it had not announced"
        yield Violation("ACP-016", "A-043", problem, pointer=pointer)
    if id in calls.cancelled:
        problem = f"agent updated tool call {shown(id)} after it had answered that the turn was cancelled"
        yield Violation("ACP-017", "A-044", problem, pointer=pointer)


def remember_tool_call(context: MessageContext[Notification], history: History) -> None:
    """Record that a tool call exists, and whether it has ended."""
    session = history.of(Sessions).of(session_id(context))
    if session is not None:
        _remember_call(session, member(context.message.params, "update"))


def remember_permission(context: MessageContext[Request], history: History) -> None:
    """Record the tool call for which the agent asks permission: the client knows it from then on."""
    session = history.of(Sessions).of(session_id(context))
    if session is not None:
        _remember_call(session, member(context.message.params, "toolCall"))


def _remember_call(session: AcpSession, call: JSON) -> None:
    """Record a tool call, and whether its status says that it has ended."""
    id, calls = member(call, "toolCallId"), session.calls
    if not isinstance(id, str):
        return
    is_known = id in calls.known
    calls.known[id] = None
    if len(calls.known) > MAX_CALLS:
        calls.forgot_some = True
        del calls.known[next(iter(calls.known))]
    calls.cancelled.pop(id, None)
    if member(call, "status") in _ENDED:
        calls.unfinished.pop(id, None)
    elif session.turn.busy and not is_known:
        keep_latest(calls.unfinished, id, None, MAX_CALLS)


def remember_turn_end(context: MessageContext[Response], history: History) -> None:
    """Record which tool calls had not ended when the agent confirmed that the turn was cancelled."""
    request = context.answers
    session = history.of(Sessions).of(member(request.params, "sessionId")) if request else None
    if session is None or request is None or history.negotiated != acp.FIRST:
        return
    calls = session.calls
    # If the agent ended the turn without a cancel of the client, its tools may still be at work.
    was_cancelled = session.turn.last_cancel_seq > request.seq
    if was_cancelled and member(context.message.result, "stopReason") == "cancelled":
        calls.cancelled = calls.unfinished
    calls.unfinished = {}


def remember_new_turn(context: MessageContext[Request], history: History) -> None:
    """Forget cancelled tool calls: in a new turn or a replay the agent may report them again."""
    session = history.of(Sessions).of(session_id(context))
    if session is not None:
        session.calls.cancelled = {}


_PROMPT: Final = ("session/prompt",)
_REPEATS: Final = ("session/prompt", "session/load", "session/resume")
"""Requests after which the agent may report cancelled tool calls again."""
_UPDATE: Final = ("session/update",)
_PERMISSION: Final = ("session/request_permission",)
_VERSION_1: Final = (acp.FIRST,)
_CALL: Final = (b'"toolCallId"',)

FAMILY: Final = RuleFamily(
    checks=(
        Check(
            ("ACP-016", "ACP-017"),
            tool_call_update,
            (Notification,),
            _UPDATE,
            ACP_ONLY,
            SERVER,
            _VERSION_1,
            mentions=_CALL,
        ),
    ),
    updates=(
        StateUpdate(
            remember_tool_call, (Notification,), _UPDATE, ACP_ONLY, SERVER, _VERSION_1, mentions=_CALL
        ),
        StateUpdate(remember_permission, (Request,), _PERMISSION, ACP_ONLY, SERVER, _VERSION_1),
        StateUpdate(remember_turn_end, (Response,), _PROMPT, ACP_ONLY, SERVER, _VERSION_1),
        StateUpdate(remember_new_turn, (Request,), _REPEATS, ACP_ONLY),
    ),
)
