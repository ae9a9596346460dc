"""Classify a message before any check sees it.

The result is a ``MessageContext``: the request that the message answers, the revisions by which it may be
judged, its step in the handshake, and its facts. A fact is a condition without which certain checks cannot
find anything (see ``checks.engine.rows``). Nothing here changes the history.
"""

from typing import Final

from mcpproxy.judge.checks.basic.lifecycle import input_of
from mcpproxy.judge.checks.engine.context import MessageContext
from mcpproxy.judge.checks.engine.rows import (
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
from mcpproxy.judge.session.frame import CLIENT, SERVER, Frame
from mcpproxy.judge.session.history import History, SentRequest, Side
from mcpproxy.protocol import acp
from mcpproxy.protocol.jsonrpc import (
    ABSENT,
    JSON,
    Absent,
    ErrorResponse,
    JSONObject,
    Notification,
    Request,
    RequestId,
    Response,
    Single,
    with_other_type,
)
from mcpproxy.protocol.jsontext import compact_json, may_repeat
from mcpproxy.protocol.lifecycle import QUIET, TRANSITIONS, State
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.meta_keys import CAPABILITIES_KEY, VERSION_KEY
from mcpproxy.protocol.methods import OPENINGS
from mcpproxy.protocol.revisions import REVISIONS, STATEFUL, STATELESS, is_later

_NO_MEMBERS: Final[JSONObject] = {}


def context_of(frame: Frame, message: Single, pointer: str, history: History) -> MessageContext:
    """Return the context of ``message``, which is at the JSON Pointer ``pointer`` of ``frame``."""
    # Positional: a keyword here costs 0.3 µs a message.
    context = MessageContext(frame, frame.sender, message, history.candidates, None, False, pointer)
    # This runs for every message, and comparing types is faster than ``isinstance`` or ``match``.
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
    if message.repeats and not pointer and may_repeat(frame.raw, message.value):
        context.known |= REPEATED_NAMES
    return context


def is_acp(frame: Frame, message: Single, history: History) -> bool:
    """Whether ``message``, one of the first of a session, shows that the session uses ACP.

    After an ``initialize`` that has neither the version nor the members of a protocol, its result or the
    methods of later messages show it.
    """
    initialize = history.initialize
    if initialize is not None and acp.looks_like_mcp(initialize.params):
        return False  # one of ACP with these members would have been recognised by its version
    if isinstance(message, Request | Notification):
        if message.method == "initialize":
            return frame.sender == CLIENT and acp.is_initialize(message.params)
        return acp.is_acp_method(message.method, frame.sender)
    if not isinstance(message, Response) or initialize is None or message.id != initialize.id:
        return False
    return frame.sender == SERVER and acp.is_initialize_result(message.result)


def _read_request(context: MessageContext, message: Request, history: History) -> None:
    """Complete the context of a request."""
    method, params, sender = message.method, message.params, context.sender
    context.method, context.contents = method, params
    facts = 0 if message.regular else IRREGULAR
    members = params if type(params) is dict else _NO_MEMBERS
    meta = members.get("_meta", ABSENT)
    is_marked = meta is not ABSENT or method in OPENINGS
    # Most clients send the same ``_meta`` in every request. Comparing it costs less than judging it again.
    familiar_meta = history.familiar_meta
    if (
        familiar_meta is not None
        and type(meta) is dict
        and sender == CLIENT
        and method != "initialize"
        and compact_json(meta) == familiar_meta
    ):
        context.stateless, context.candidates = True, history.familiar_candidates
    elif is_marked or history.stateless_seq is not None or history.only_stateless:
        _set_revisions(context, message, history)
        facts |= UNFAMILIAR
    side = history.client if sender == CLIENT else history.server
    if message.id is not None and side.used_ids.first_use(message.id) is not None:
        facts |= REUSED_ID
    is_augmented = "task" in members
    if is_augmented:
        facts |= AUGMENTED
    sender_and_method = (sender, method)
    if sender_and_method in history.unmet_needs and (
        is_augmented or sender_and_method not in history.unmet_for_tasks_only
    ):
        facts |= UNDECLARED
    if history.state not in QUIET or method == "initialize":
        facts |= _set_step(context, history)
    context.known = facts


def _read_notification(context: MessageContext, message: Notification, history: History) -> None:
    """Complete the context of a notification."""
    method = context.method = message.method
    context.contents = message.params
    if history.in_both_eras:
        context.candidates = REVISIONS  # A notification does not show which era it belongs to.
    facts = UNFAMILIAR if message.regular else UNFAMILIAR | IRREGULAR
    if (context.sender, method) in history.unmet_needs:
        facts |= UNDECLARED
    if method == "notifications/initialized":
        facts |= _set_step(context, history)
    context.known = facts


def _read_answer(context: MessageContext, message: Response | ErrorResponse, history: History) -> None:
    """Complete the context of an answer, except its contents."""
    id = message.id
    request = None
    if id is not None and id is not ABSENT:
        requestor = history.server if context.sender == CLIENT else history.client
        request = requestor.pending.get(id) or _intended_request(context, message, id, requestor, history)
    if request is None:
        context.known = UNMATCHED_ID
        return
    context.answers, context.method, context.stateless = request, request.method, request.stateless
    facts = 0 if request.id == message.id else UNMATCHED_ID
    if request.has_familiar_meta:
        context.candidates = request.candidates
    else:
        facts |= UNFAMILIAR
        if request.stateless or request.early or request is history.initialize:
            context.candidates = _answer_revisions(request, message, history)
    if request.method in history.unserved_methods:
        facts |= UNDECLARED
    if isinstance(request.params, dict) and "task" in request.params:
        facts |= AUGMENTED
    if request.check_memory is not None:
        facts |= NOTED
    if request is history.initialize:
        facts |= _set_step(context, history)
    context.known = facts


def _set_step(context: MessageContext, history: History) -> Fact:
    """Set the handshake step of the message; return ``OUT_OF_ORDER`` if it may break a requirement, or 0."""
    step = context.happened = input_of(context, history) if history.protocol == "mcp" else None
    if step is None:
        return 0
    breaks = TRANSITIONS[history.state][step].breaks
    # In EAGER, notifications/initialized may show that an earlier request was sent too early.
    return 0 if breaks is None and history.state is not State.EAGER else OUT_OF_ORDER


# Revisions


def _set_revisions(context: MessageContext, message: Request, history: History) -> None:
    """Set the revisions of a request, and whether it is stateless."""
    if message.method == "initialize":
        is_mcp = history.protocol == "mcp"
        context.candidates = (
            STATEFUL if is_mcp else acp.possible_versions(member(message.params, "protocolVersion"))
        )
        return
    if context.sender != CLIENT or history.protocol == "acp":
        return
    meta = message.params.get("_meta") if isinstance(message.params, dict) else None
    version = meta.get(VERSION_KEY) if isinstance(meta, dict) else None
    is_marked = version is not None or (isinstance(meta, dict) and CAPABILITIES_KEY in meta)
    if is_marked or message.method == "server/discover" or history.only_stateless:
        # The ``_meta``, the method or the session (``only_stateless``) shows that the request is stateless.
        context.stateless = True
        context.candidates = _stateless_candidates(version, history)
    elif history.stateless_seq is not None and history.stateful_seq is None:
        context.candidates = REVISIONS  # Earlier requests were stateless; this one does not show its era.


def _stateless_candidates(version: JSON, history: History) -> tuple[str, ...]:
    """Return the candidate revisions of a stateless request that names ``version``.

    A known stateless version is the only candidate. So is a version later than all known revisions once the
    server has listed it: no rule applies to it, so requests that name it are not judged. For any other
    ``version``, all stateless revisions are candidates.
    """
    if not isinstance(version, str):
        return STATELESS
    is_settled = version in STATELESS or (is_later(version) and version in history.supported_versions)
    return (version,) if is_settled else STATELESS


def _answer_revisions(
    request: SentRequest, message: Response | ErrorResponse, history: History
) -> tuple[str, ...]:
    """Return the candidate revisions of the answer to an early, stateless or initialize ``request``."""
    if request is history.initialize and isinstance(message, Response):
        version = member(message.result, "protocolVersion")
        if history.protocol == "acp":
            return acp.possible_versions(version)
        return (str(version),) if version in STATEFUL else STATEFUL
    if history.protocol == "acp":
        return history.candidates
    if request.stateless and isinstance(message, Response) and request.method != "server/discover":
        version = member(request.params, "_meta", VERSION_KEY)
        if isinstance(version, str) and is_later(version):
            return (version,)  # The server supports this later version, whose rules are unknown here.
    return request.candidates


# Requests


def _intended_request(
    context: MessageContext,
    message: Response | ErrorResponse,
    id: RequestId,
    requestor: Side,
    history: History,
) -> SentRequest | None:
    """Return the request that an answer with an unknown id is meant for; ``None`` if that is not clear.

    Its id may have the wrong JSON type, or the answer may be the awaited result of initialize.
    """
    if requestor.used_ids.first_use(id) is not None:
        return None
    retyped_id = with_other_type(id)
    request = None if retyped_id is None else requestor.pending.get(retyped_id)
    if request is None and _answers_initialize(context, message, history):
        return history.initialize
    return request


def _answers_initialize(context: MessageContext, message: Response | ErrorResponse, history: History) -> bool:
    """Whether an answer with an unknown id has the members of the initialize result, which is awaited."""
    if context.sender == CLIENT or history.initialize is None or history.initialize_answered:
        return False
    result = message.result if isinstance(message, Response) else None
    info = "serverInfo" if history.protocol == "mcp" else "protocolVersion"
    return isinstance(result, dict) and "protocolVersion" in result and info in result


def asked_in(params: "JSON | Absent") -> str:
    """Return the revision that the params of an ``initialize`` ask for.

    A version that is missing or not a string counts as a version of ACP, which is never a candidate in an MCP
    session.
    """
    version = member(params, "protocolVersion")
    return version if isinstance(version, str) else next(iter(acp.possible_versions(version)))
