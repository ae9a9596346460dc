"""Add a message to the history of its session, once all checks have seen it.

A family of checks may remember more; its own updates add that (``StateUpdate`` in ``checks.engine.rows``).
"""

from typing import Final

from mcpproxy.checks.basic.capabilities import unmet_needs, unserved
from mcpproxy.checks.engine.context import MessageContext, member
from mcpproxy.checks.engine.rows import CANCELLED, UNFAMILIAR
from mcpproxy.protocol import acp
from mcpproxy.protocol.jsonrpc import (
    ABSENT,
    ErrorResponse,
    JSONObject,
    Notification,
    Request,
    Response,
    request_id,
)
from mcpproxy.protocol.lifecycle import TRANSITIONS, Input, State
from mcpproxy.protocol.revisions import ACP, STATEFUL, stateless_of
from mcpproxy.session.frame import CLIENT
from mcpproxy.session.history import History, SentRequest, Side

_EARLY: Final = frozenset({State.IDLE, State.INITIALIZING, State.FAILED, State.UNKNOWN})
"""The states in which a request is sent before the handshake is complete."""


def remember(context: MessageContext, history: History) -> None:
    """Add the message of ``context`` to the history."""
    message, step = context.message, context.happened
    kind = type(message)
    side = history.client if context.sender == CLIENT else history.server
    side.notified_seq = 0  # not 0 only while a notification is the latest that this side sent
    if type(message) is Request:
        _remember_request(context, message, side, history)
    elif context.answers is not None:
        _remember_answer(context, context.answers, history)
    elif type(message) is ErrorResponse and (message.id is None or message.id is ABSENT):
        asker = history.server if context.sender == CLIENT else history.client
        asker.refused_seq = context.frame.seq
    elif type(message) is Notification:
        side.notified_seq = context.frame.seq
        if message.method == "notifications/cancelled":
            _remember_cancellation(context, message, history)
        elif step is Input.INITIALIZED and not history.initialized:
            history.initialized, history.initialized_seq = True, context.seq
    if step is not None:
        history.state = TRANSITIONS[history.state][step].to
    # The first message that the client sends in place of notifications/initialized; it may send pings.
    if history.negotiated is not None and not history.initialized and history.unconfirmed_seq is None:
        is_operation = kind is Notification or (kind is Request and context.method != "ping")
        if context.sender == CLIENT and is_operation and not context.stateless:
            history.unconfirmed_seq = context.seq


def _remember_request(context: MessageContext, message: Request, side: Side, history: History) -> None:
    frame, id = context.frame, message.id
    if context.stateless:
        # Without a handshake the session may speak any revision that its requests name.
        if history.stateful_seq is None and context.candidates != history.candidates:
            named = stateless_of(context.candidates)
            earlier = history.candidates if history.stateless_seq is not None else ()
            history.candidates = stateless_of((*earlier, *named))
        if history.stateless_seq is None:
            history.stateless_seq = frame.seq
        history.stateless_revision = context.candidates[0] if len(context.candidates) == 1 else None
    if id is None:
        side.unreadable = True  # Its answer cannot be recognised, so nothing is concluded from such answers.
        return
    # Positional: keywords here cost 0.3 µs a request.
    sent = context.asked = SentRequest(
        frame.seq,
        context.sender,
        id,
        message.method,
        message.params,
        frame.observed_at_ns,
        context.candidates,
        context.stateless,
        history.state in _EARLY,
    )
    if context.stateless and not context.known & UNFAMILIAR:
        sent.familiar = True  # its ``_meta`` is one that was found correct before
    sent.weight = context.weight
    before = side.pending.get(id)
    if before is not None:
        sent.answers_due += before.answers_due
        if before.method != message.method:
            sent.method = ""  # an answer may be to either request
    side.pending[id] = sent
    side.used.add(id, frame.seq)
    if context.happened is Input.CLIENT_REQUEST and history.state is State.NEGOTIATED:
        history.eager = sent  # a violation, unless it only overtook notifications/initialized
    if message.method == "initialize" and context.sender == CLIENT:
        _remember_initialize(message, sent, history)


def _remember_initialize(message: Request, sent: SentRequest, history: History) -> None:
    if history.negotiated is None:
        history.candidates = STATEFUL if history.protocol == "mcp" else ACP
        history.initialize_answered = False
        history.initialize = sent
        declared = member(message.params, "capabilities")
        history.client_capabilities = declared if isinstance(declared, dict) else None
    if history.stateful_seq is None:
        history.stateful_seq = sent.seq


def _remember_answer(context: MessageContext, asked: SentRequest, history: History) -> None:
    message, frame = context.message, context.frame
    side = history.client if asked.sender == CLIENT else history.server
    if asked.seq > side.last_answered_seq:
        side.last_answered_seq = asked.seq
    asked.answered_seq, asked.answered_ns = frame.seq, frame.observed_at_ns
    asked.answers_due -= 1
    if asked.answers_due == 0:
        side.pending.pop(asked.id, None)
    history.answered.append(asked)
    if asked is history.initialize:
        history.initialize_answered = True
        if isinstance(message, Response) and isinstance(message.result, dict):
            _negotiate(message.result, history)


def _negotiate(result: JSONObject, history: History) -> None:
    version, declared = result.get("protocolVersion"), result.get("capabilities")
    if history.protocol == "acp":
        history.candidates = acp.named(version)
        history.negotiated = history.candidates[0] if len(history.candidates) == 1 else None
        return
    history.server_capabilities = declared if isinstance(declared, dict) else None
    if isinstance(version, str) and version in STATEFUL:
        history.negotiated = version
        history.candidates = (version,)
        # Methods that need an undeclared capability; for those in ``unmet_for_tasks`` only tasks need it.
        history.unmet = unmet_needs(history, version)
        history.unserved = unserved(history.unmet)
        history.unmet_for_tasks = frozenset(
            method
            for method, needs in history.unmet.items()
            if all(need.condition == "task" for need in needs)
        )


def _remember_cancellation(context: MessageContext, message: Notification, history: History) -> None:
    id = request_id(member(message.params, "requestId"))
    side = history.client if context.sender == CLIENT else history.server
    if id is not None and (asked := side.pending.get(id)):
        asked.cancelled = True
        history.facts |= CANCELLED
