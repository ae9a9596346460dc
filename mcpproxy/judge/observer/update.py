"""Add a message to the history of its session, after all checks have judged the message.

A family of checks may keep further state, which its own updates change (``StateUpdate`` in
``checks.engine.rows``).
"""

from typing import Final

from mcpproxy.judge.checks.basic.capabilities import unmet_needs, unserved_methods
from mcpproxy.judge.checks.engine.context import MessageContext
from mcpproxy.judge.checks.engine.rows import CANCELLED, REPEATED_NAMES, UNFAMILIAR
from mcpproxy.judge.session.frame import CLIENT
from mcpproxy.judge.session.history import History, SentRequest, Side, keep_latest
from mcpproxy.protocol import acp
from mcpproxy.protocol.jsonrpc import (
    ABSENT,
    ErrorResponse,
    JSONObject,
    Malformed,
    Notification,
    Request,
    Response,
    request_id,
)
from mcpproxy.protocol.jsontext import repeated_names
from mcpproxy.protocol.lifecycle import TRANSITIONS, Input, State
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.revisions import ACP, STATEFUL, stateless_of

_MOST_NOTIFIED: Final = 8
"""The number of methods of notifications that are remembered."""

_LONGEST_METHOD: Final = 128
"""In characters: a longer method of a notification is not remembered."""

_EARLY_STATES: Final = frozenset({State.IDLE, State.INITIALIZING, State.FAILED, State.UNKNOWN})
"""The states in which a request is early: the result of initialize has not come, or messages are missing.

``SKIPPED`` is not among them, because a client without a handshake does not wait for that result."""


def remember(context: MessageContext, history: History, size: int) -> None:
    """Add the message of ``context`` to the history; the message takes about ``size`` bytes of memory."""
    message, step = context.message, context.happened
    side = history.client if context.sender == CLIENT else history.server
    side.notified_seq = 0  # set below if the message is a notification
    if type(message) is Request:
        _remember_request(context, message, side, history, size)
    elif context.answers is not None:
        _remember_answer(context, context.answers, history)
    elif type(message) is ErrorResponse and (message.id is None or message.id is ABSENT):
        asker = history.server if context.sender == CLIENT else history.client
        asker.refused_seq = context.frame.seq
    elif type(message) is Notification:
        side.notified_seq = context.frame.seq
        side.sent_invalid |= not message.regular
        if len(message.method) <= _LONGEST_METHOD:
            keep_latest(side.latest_notifications, message.method, context.frame.seq, _MOST_NOTIFIED)
        if "id" in message.value:
            side.note_unread(context.frame.raw)  # The other side may answer it with that id.
        if message.method == "notifications/cancelled":
            _remember_cancellation(context, message, history)
        elif step is Input.INITIALIZED and not history.initialized:
            history.initialized, history.initialized_seq = True, context.seq
    elif type(message) is Malformed:
        side.sent_invalid = True
    if step is not None:
        history.state = TRANSITIONS[history.state][step].to
    # The client should send notifications/initialized next. Before that it may only send pings.
    is_due = not history.initialized and history.negotiated is not None
    if is_due and history.instead_of_initialized_seq is None:
        kind = type(message)
        is_operation = kind is Notification or (kind is Request and context.method != "ping")
        if context.sender == CLIENT and is_operation and not context.stateless:
            history.instead_of_initialized_seq = context.seq


def _remember_request(
    context: MessageContext, message: Request, side: Side, history: History, size: int
) -> None:
    """Record that a request waits for its answer, that its id is used, and which revision it shows."""
    frame, id = context.frame, message.id
    if context.stateless:
        # Without a handshake the session may use each of the revisions that its requests name.
        if history.stateful_seq is None and context.candidates != history.candidates:
            named_revisions = stateless_of(context.candidates)
            earlier = history.candidates if history.stateless_seq is not None else ()
            history.candidates = stateless_of((*earlier, *named_revisions))
        if history.stateless_seq is None:
            history.stateless_seq = frame.seq
        history.stateless_revision = context.candidates[0] if len(context.candidates) == 1 else None
    if id is None:
        side.sent_unreadable = True  # The answer to a request without a usable id cannot be recognised.
        return
    method = message.method
    if context.known & REPEATED_NAMES and "/method" in repeated_names(frame.raw, message.value):
        method = ""  # The receiver may have read the other method, so the answer may be to either.
    # Positional: keywords here cost 0.3 µs a request.
    request = context.asked = SentRequest(
        frame.seq,
        context.sender,
        id,
        method,
        message.params,
        frame.observed_at_ns,
        context.candidates,
        context.stateless,
        history.state in _EARLY_STATES,
    )
    if context.stateless and not context.known & UNFAMILIAR:
        request.has_familiar_meta = True
    request.weight = size
    same_id_request = side.pending.get(id)
    if same_id_request is not None:
        request.answers_due += same_id_request.answers_due
        if same_id_request.method != method:
            request.method = ""  # The next answer may be to either request.
    side.pending[id] = request
    side.used_ids.add(id, frame.seq)
    if context.happened is Input.CLIENT_REQUEST and history.state is State.NEGOTIATED:
        # This is a violation, unless notifications/initialized is on its way and the request overtook it.
        history.request_before_initialized = request
    if message.method in acp.INITIALIZE and context.sender == CLIENT:
        _remember_initialize(message, request, history)


def _remember_initialize(message: Request, request: SentRequest, history: History) -> None:
    """Record an initialize request and the client's capabilities.

    Once a version is negotiated, record only the frame, if no initialize was seen before.
    """
    if history.negotiated is None:
        history.candidates = STATEFUL if history.protocol == "mcp" else ACP
        history.initialize_answered = False
        history.initialize = request
        capabilities = member(message.params, "capabilities")
        history.client_capabilities = capabilities if isinstance(capabilities, dict) else None
    if history.stateful_seq is None:
        history.stateful_seq = request.seq


def _remember_answer(context: MessageContext, request: SentRequest, history: History) -> None:
    """Record that ``request`` is answered; if it is initialize, also the version and the capabilities."""
    message, frame = context.message, context.frame
    side = history.client if request.sender == CLIENT else history.server
    if request.seq > side.last_answered_seq:
        side.last_answered_seq = request.seq
    request.answered_seq, request.answered_ns = frame.seq, frame.observed_at_ns
    request.answers_due -= 1
    if request.answers_due == 0:
        side.pending.pop(request.id, None)
    history.answered_requests.append(request)
    if request is history.initialize:
        history.initialize_answered = True
        if isinstance(message, Response) and isinstance(message.result, dict):
            _record_negotiation(message.result, history)


def _record_negotiation(result: JSONObject, history: History) -> None:
    """Record the version and the capabilities in the result of initialize."""
    version, capabilities = result.get("protocolVersion"), result.get("capabilities")
    if history.protocol == "acp":
        history.candidates = acp.possible_versions(version)
        history.negotiated = history.candidates[0] if len(history.candidates) == 1 else None
        return
    history.server_capabilities = capabilities if isinstance(capabilities, dict) else None
    if isinstance(version, str) and version in STATEFUL:
        history.negotiated = version
        history.candidates = (version,)
        history.unmet_needs = unmet_needs(history, version)
        history.unserved_methods = unserved_methods(history.unmet_needs)
        # For these methods, only a request that makes a task needs the capability.
        history.unmet_for_tasks_only = frozenset(
            method
            for method, needs in history.unmet_needs.items()
            if all(need.condition == "task" for need in needs)
        )


def _remember_cancellation(context: MessageContext, message: Notification, history: History) -> None:
    id = request_id(member(message.params, "requestId"))
    side = history.client if context.sender == CLIENT else history.server
    if id is not None and (request := side.pending.get(id)):
        request.cancelled = True
        history.facts |= CANCELLED
