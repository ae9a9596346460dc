"""Classify a message before any check sees it.

This finds the request that it answers, the revisions by which it may be judged, its step in the handshake,
and its facts (see ``checks.engine.rows``), without which most checks cannot find anything. Nothing here
changes the history.
"""

from typing import Final

from mcpproxy.checks.basic.lifecycle import input_of
from mcpproxy.checks.engine.context import MessageContext, member
from mcpproxy.checks.engine.rows import (
    AUGMENTED,
    IRREGULAR,
    NOTED,
    OUT_OF_ORDER,
    REPEATED_NAMES,
    REUSED_ID,
    UNDECLARED,
    UNFAMILIAR,
    UNMATCHED_ID,
    Fact,
)
from mcpproxy.protocol import acp
from mcpproxy.protocol.jsonrpc import (
    ABSENT,
    JSON,
    ErrorResponse,
    Notification,
    Request,
    RequestId,
    Response,
    Single,
)
from mcpproxy.protocol.jsontext import compact_json, may_repeat
from mcpproxy.protocol.lifecycle import QUIET, TRANSITIONS, State
from mcpproxy.protocol.revisions import (
    CAPABILITIES_KEY,
    REVISIONS,
    STATEFUL,
    STATELESS,
    VERSION_KEY,
    is_later,
)
from mcpproxy.session.frame import CLIENT, Frame
from mcpproxy.session.history import History, SentRequest, Side

_ERA_METHODS: Final = ("initialize", "server/discover")
"""Requests whose method alone shows whether the session is stateful or stateless."""


def context_of(frame: Frame, message: Single, at: str, history: History) -> MessageContext:
    """Return the context of ``message``, which is at the JSON Pointer ``at`` of ``frame``."""
    # Positional: a keyword here costs 0.3 µs a message.
    context = MessageContext(frame, frame.sender, message, history.candidates, None, False, at)
    # Every message comes through here. Comparing types is faster than ``isinstance`` or ``match``.
    if type(message) is Request:
        _read_request(context, message, history)
    elif type(message) is Response:
        _read_answer(context, message, history)
        result = context.contents = message.result
        if isinstance(result, dict) and "task" in result:
            context.known |= AUGMENTED
        if not message.regular:
            context.known |= IRREGULAR
    elif type(message) is Notification:
        _read_notification(context, message, history)
    elif type(message) is ErrorResponse:
        _read_answer(context, message, history)
        context.known |= IRREGULAR
    else:
        return context
    if message.repeats and not at and may_repeat(frame.raw, message.value):
        context.known |= REPEATED_NAMES
    return context


def is_acp(frame: Frame, message: Request | Notification) -> bool:
    """Whether the first message of a session shows that it speaks ACP."""
    if message.method == "initialize":
        return frame.sender == CLIENT and acp.is_initialize(message.params)
    return acp.is_acp_method(message.method, frame.sender)


def _read_request(context: MessageContext, message: Request, history: History) -> None:
    method, params, sender = message.method, message.params, context.sender
    context.method, context.contents = method, params
    known = 0 if message.regular else IRREGULAR
    meta = params.get("_meta", ABSENT) if type(params) is dict else ABSENT
    is_marked = meta is not ABSENT or method in _ERA_METHODS
    # Most clients send the same ``_meta`` in every request: comparing it costs less than judging it again.
    usual = history.familiar_meta
    if (
        usual is not None
        and type(meta) is dict
        and sender == CLIENT
        and method != "initialize"
        and compact_json(meta) == usual
    ):
        context.stateless, context.candidates = True, history.familiar_candidates
    elif is_marked or history.stateless_seq is not None or history.stateless_memories is not None:
        _set_revisions(context, message, history)
        known |= UNFAMILIAR
    side = history.client if sender == CLIENT else history.server
    if message.id is not None and message.id in side.used_ids:
        known |= REUSED_ID
    augmented = type(params) is dict and "task" in params
    if augmented:
        known |= AUGMENTED
    sender_and_method = (sender, method)
    if sender_and_method in history.unmet_needs and (
        augmented or sender_and_method not in history.unmet_for_tasks_only
    ):
        known |= UNDECLARED
    if history.state not in QUIET or method == "initialize":
        known |= _step(context, history)
    context.known = known


def _read_notification(context: MessageContext, message: Notification, history: History) -> None:
    method = context.method = message.method
    context.contents = message.params
    if history.in_both_eras:
        context.candidates = REVISIONS  # A notification names no request, so it may belong to either era.
    known = UNFAMILIAR if message.regular else UNFAMILIAR | IRREGULAR
    if (context.sender, method) in history.unmet_needs:
        known |= UNDECLARED
    if method == "notifications/initialized":
        known |= _step(context, history)
    context.known = known


def _read_answer(context: MessageContext, message: Response | ErrorResponse, history: History) -> None:
    id = message.id
    asked = None
    if id is not None and id is not ABSENT:
        asker = history.server if context.sender == CLIENT else history.client
        asked = asker.pending.get(id) or _request_meant(context, message, id, asker, history)
    if asked is None:
        context.known = UNMATCHED_ID
        return
    context.answers, context.method, context.stateless = asked, asked.method, asked.stateless
    known = 0 if asked.id == message.id else UNMATCHED_ID
    if asked.has_familiar_meta:
        context.candidates = asked.candidates
    else:
        context.candidates = _answer_revisions(asked, message, history)
        known |= UNFAMILIAR
    if asked.method in history.unserved_methods:
        known |= UNDECLARED
    if isinstance(asked.params, dict) and "task" in asked.params:
        known |= AUGMENTED
    if asked.check_memory is not None:
        known |= NOTED
    if asked is history.initialize:
        known |= _step(context, history)
    context.known = known


def _step(context: MessageContext, history: History) -> Fact:
    """Set the handshake step of the message; return the fact for a step that may break a requirement."""
    happened = context.happened = input_of(context, history) if history.protocol == "mcp" else None
    if happened is None:
        return 0
    breaks = TRANSITIONS[history.state][happened].breaks
    return 0 if breaks is None and history.state is not State.EAGER else OUT_OF_ORDER


# Revisions


def _set_revisions(context: MessageContext, message: Request, history: History) -> None:
    if message.method == "initialize":
        is_mcp = history.protocol == "mcp"
        context.candidates = STATEFUL if is_mcp else acp.named(member(message.params, "protocolVersion"))
        return
    if context.sender != CLIENT or history.protocol == "acp":
        return
    meta = message.params.get("_meta") if isinstance(message.params, dict) else None
    version = meta.get(VERSION_KEY) if isinstance(meta, dict) else None
    marked = version is not None or (isinstance(meta, dict) and CAPABILITIES_KEY in meta)
    if marked or message.method == "server/discover" or history.stateless_memories is not None:
        context.stateless = True  # Marked as stateless in its ``_meta``, or over HTTP in its headers alone.
        context.candidates = _stateless_candidates(version, history)
    elif history.stateless_seq is not None and history.stateful_seq is None:
        context.candidates = REVISIONS


def _stateless_candidates(version: JSON, history: History) -> tuple[str, ...]:
    """Return the candidate revisions of a stateless request that names ``version``.

    The rules of a version later than all known revisions are not known. Once the server has listed such a
    version as supported, requests that name it are not judged.
    """
    if not isinstance(version, str):
        return STATELESS
    settled = version in STATELESS or (is_later(version) and version in history.supported_versions)
    return (version,) if settled else STATELESS


def _answer_revisions(
    asked: SentRequest, message: Response | ErrorResponse, history: History
) -> tuple[str, ...]:
    if asked is history.initialize and isinstance(message, Response):
        version = member(message.result, "protocolVersion")
        if history.protocol == "acp":
            return acp.named(version)
        return (str(version),) if version in STATEFUL else STATEFUL
    if history.protocol == "acp":
        return history.candidates
    if asked.stateless and isinstance(message, Response) and asked.method != "server/discover":
        version = member(asked.params, "_meta", VERSION_KEY)
        if isinstance(version, str) and is_later(version):
            return (version,)  # It was answered in a revision whose rules are not known here.
    if asked.stateless or asked.early:
        return asked.candidates
    return history.candidates


# Requests


def _request_meant(
    context: MessageContext, message: Response | ErrorResponse, id: RequestId, asker: Side, history: History
) -> SentRequest | None:
    """Return the request meant by an answer with an unknown id: its id may have the wrong JSON type."""
    if asker.used_ids.first_use(id) is not None:
        return None
    asked = asker.pending.get(_retyped(id))
    if asked is None and _answers_initialize(context, message, history):
        return history.initialize
    return asked


def _answers_initialize(context: MessageContext, message: Response | ErrorResponse, history: History) -> bool:
    """Whether a result with an unknown id has the members of the initialize result that is still missing."""
    if context.sender == CLIENT or history.initialize is None or history.initialize_answered:
        return False
    result = message.result if isinstance(message, Response) else None
    info = "serverInfo" if history.protocol == "mcp" else "protocolVersion"
    return isinstance(result, dict) and "protocolVersion" in result and info in result


def _retyped(id: RequestId) -> RequestId:
    """Return the same id as the other JSON type, for an answer that changed the type."""
    if isinstance(id, int):
        return str(id)
    return int(id) if id.removeprefix("-").isdecimal() and len(id) < 20 else id
