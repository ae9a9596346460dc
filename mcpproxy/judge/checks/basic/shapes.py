"""The shapes of params and results: required members, and the JSON types of all members.

A missing or mistyped member is reported under the rule that covers it (``COVERED_BY``), or under RPC-023 if
no rule does. The members in ``CHECKED_ELSEWHERE`` are skipped, because other checks report them.

Source: the schema of each protocol revision.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.judge.checks.engine.context import MessageContext, Violation, shortened
from mcpproxy.judge.checks.engine.rows import ASKS, MISSHAPEN, Check, RuleFamily
from mcpproxy.judge.checks.stateless.rounds import MAY_ASK_FOR_INPUT
from mcpproxy.judge.session.history import History
from mcpproxy.protocol.jsonrpc import JSON, Absent, Notification, Request, Response
from mcpproxy.protocol.revisions import is_shape_known
from mcpproxy.protocol.shapes.lookup import Part, ShapeViolation, violations
from mcpproxy.protocol.wording import with_article

CHECKED_ELSEWHERE: Final = pattern(
    r"""
      .*/_meta/io\.modelcontextprotocol~1(protocolVersion|clientCapabilities)
    | /result/(resultType|ttlMs|cacheScope)
    | initialize/(params|result)/(protocolVersion|instructions|capabilities.*)
    | initialize/(params|result)/(client|server)Info(/(name|version))?
    | tools/list/result/tools/\d+(/name|/(input|output)Schema.*)?
    | sampling/createMessage/params/tools/\d+/name
    | [a-z/]+/list/result/nextCursor
    | .*/_meta/progressToken
    | notifications/cancelled/params(/requestId)?
    | server/discover/params(/_meta)?
    """,
    re.VERBOSE,
)
"""Members that other checks report: a JSON Pointer, alone or after the method of the message."""

# Patterns for requests to the client (_SAMPLING, _ELICITATION) and for their results (_SAMPLED, _ELICITED):
# as separate messages, or in the stateless revisions inside other messages (see ``checks.basic.embedded``).
_SAMPLING: Final = r"(sampling/createMessage|.*/inputRequests/[^/]+)/params"
_SAMPLED: Final = r"(sampling/createMessage/result|.*/inputResponses/[^/]+)"
_ELICITATION: Final = r"(elicitation/create|.*/inputRequests/[^/]+)/params"
_CONTENT: Final = (
    r"(tools/call/result|.*/messages/\d+|sampling/createMessage/result|.*/inputResponses/[^/]+)"
    r"(/content(/\d+)?)+"
)
_ELICITED: Final = r"(elicitation/create/result|.*/inputResponses/[^/]+)"

_TASK: Final = (
    r"((tools/call|sampling/createMessage|elicitation/create)/result/task|tasks/(get|cancel)/result"
    r"|tasks/list/result/tasks/\d+|notifications/tasks/status/params)"
)

COVERED_BY: Final = (
    ("LOG-001", "R-166", r"notifications/message/params(/level|/data)?"),
    ("LOG-001", "R-166", r"logging/setLevel/params(/level)?"),
    ("LOG-001", "R-166", r".*/params/_meta/io\.modelcontextprotocol~1logLevel"),
    ("SAMP-001", "R-174", r"sampling/createMessage/params"),
    ("SAMP-001", "R-174", _SAMPLING + r"/messages(/\d+(/role|/content)?)?"),
    ("SAMP-001", "R-174", _SAMPLING + r"/(systemPrompt|includeContext|temperature|maxTokens|metadata|tools)"),
    ("SAMP-001", "R-174", _SAMPLING + r"/(modelPreferences|stopSequences|toolChoice)(/.*)?"),
    ("SAMP-001", "R-174", _SAMPLED + r"/(role|content|model|stopReason)"),
    ("ELIC-001", "R-180", r"elicitation/create/params"),
    (
        "ELIC-001",
        "R-180",
        _ELICITATION + r"/(message|requestedSchema(/(\$schema|type|properties|required.*))?)",
    ),
    ("ELIC-003", "R-182", _ELICITATION + r"/requestedSchema/properties/[^/]+/format"),
    ("ELIC-002", "R-181", _ELICITATION + r"/requestedSchema/properties/.+"),
    ("ELIC-004", "R-183", _ELICITATION + r"/(mode|url|elicitationId)"),
    ("ELIC-005", "R-184", _ELICITED + r"/action"),
    ("DISC-002", "R-222", r"server/discover/result/(supportedVersions(/\d+)?|capabilities)"),
    ("PROTO-001", "R-051", r"server/discover/result/capabilities/.+"),
    ("PROTO-001", "R-051", r".*/params/_meta/io\.modelcontextprotocol~1clientCapabilities/.+"),
    ("MRTR-002", "R-254", r".*/result/(inputRequests|requestState)"),
    ("MRTR-003", "R-255", r".*/result/inputRequests/[^/]+(/method)?"),
    ("MRTR-008", "R-260", r".*/params/inputResponses(/[^/]+)?"),
    ("TOOL-003", "R-140", r"tools/call/result/structuredContent"),
    ("TOOL-005", "R-142", r"tools/call/result/(content|isError)"),
    ("PROM-002", "R-162", r"prompts/get/result/messages(/\d+(/(role|content))?)?"),
    ("CONT-001", "R-151", _CONTENT + r"/type"),
    ("CONT-004", "R-154", r"(?!tools/list).*/annotations(/(audience(/\d+)?|priority|lastModified))?"),
    ("CONT-002", "R-152", _CONTENT + r"(/(text|data|mimeType|uri|name|title|description|size))?"),
    ("CONT-002", "R-152", _CONTENT + r"/(id|input|toolUseId|isError|structuredContent)"),
    ("CONT-002", "R-152", _CONTENT + r"/resource(/(uri|mimeType|text|blob))?"),
    ("RES-001", "R-155", r"resources/list/result/resources/\d+(/(uri|name))?"),
    ("RES-001", "R-155", r"resources/templates/list/result/resourceTemplates/\d+(/(uriTemplate|name))?"),
    ("RES-001", "R-155", r"prompts/list/result/prompts/\d+(/name|/arguments/\d+(/name)?)?"),
    ("RES-003", "R-157", r"resources/read/result/contents(/\d+(/(uri|text|blob))?)?"),
    ("PROM-001", "R-161", r"prompts/get/params/arguments(/.*)?"),
    ("COMP-002", "R-165", r"completion/complete/params(/(ref|argument|context)(/.*)?)?"),
    ("SUB-001", "R-243", r"subscriptions/listen/params/notifications.*"),
    ("SUB-009", "R-251", r"subscriptions/listen/result/_meta(/io\.modelcontextprotocol~1subscriptionId)?"),
    ("TASK-005", "R-194", _TASK + r"/taskId"),
    ("TASK-007", "R-196", _TASK + r"/(createdAt|lastUpdatedAt|ttl)"),
    ("PROG-006", "R-121", r"notifications/progress/params/(progress|total|message)"),
    ("ICON-001", "R-204", r".*/icons(/\d+(/(src|mimeType|theme|sizes(/\d+)?))?)?"),
    ("META-001", "R-205", r".*/_meta"),
)
"""Rule, requirement, and a pattern of method and JSON Pointer. The first pattern that matches counts."""


def message_shape(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report params and results that do not have the shape that the revision defines (RPC-023, LOG-001,
    SAMP-001, ELIC-001, ELIC-002, ELIC-003, ELIC-004, ELIC-005, SUB-001, SUB-009, TASK-005, TASK-007,
    TOOL-003, TOOL-005, PROG-006, ICON-001, META-001, CONT-001, CONT-002, CONT-004, RES-001, RES-003,
    PROM-001, PROM-002, COMP-002, DISC-002, MRTR-002, MRTR-003, MRTR-008, PROTO-001).
    """
    message = context.message
    if not is_shape_known(context.candidates):
        return ()
    if isinstance(message, Request | Notification):
        return _check_shape(context, message.method, "params", message.params)
    if (
        isinstance(message, Response)
        and context.answers is not None
        and not _asks_where_not_allowed(context, message)
    ):
        return _check_shape(context, context.answers.method, "result", message.result)
    return ()


def _asks_where_not_allowed(context: MessageContext, message: Response) -> bool:
    """Whether a result asks for input although the results of its method may not.

    Its members are then not those of the method's result, so only MRTR-001 reports the result.
    """
    result, request = message.result, context.answers
    asks_for_input = isinstance(result, dict) and result.get("resultType") == "input_required"
    return asks_for_input and request is not None and request.method not in MAY_ASK_FOR_INPUT


def _check_shape(
    context: MessageContext, method: str, part: Part, value: "JSON | Absent"
) -> Iterable[Violation]:
    """Report the faults of params or of a result that are faults in all revisions that may apply."""
    revision, *other_revisions = context.candidates
    faults = violations(value, (method, part), revision)
    for other_revision in other_revisions:
        other_faults = violations(value, (method, part), other_revision)
        pointers = {fault.pointer for fault in other_faults}
        faults = [fault for fault in faults if fault.pointer in pointers]
    return _shape_violations(faults, context, method, part) if faults else ()


def _shape_violations(
    faults: Iterable[ShapeViolation], context: MessageContext, method: str, part: Part
) -> Iterator[Violation]:
    for fault in faults:
        pointer = fault.pointer
        if pointer == f"/{part}" and fault.kind != "missing":
            continue  # RPC-010 and RPC-016 report params and results that are not objects.
        if CHECKED_ELSEWHERE.fullmatch(pointer) or CHECKED_ELSEWHERE.fullmatch(method + pointer):
            continue
        what = with_article(f"{method} result") if part == "result" else shortened(method)
        problem = f"{context.sender} sent {what} in which {pointer.lstrip('/')} {fault.clause}"
        rule, requirement = _covering_rule(method + pointer)
        yield Violation(rule, requirement, problem, pointer=context.at + pointer)


def _covering_rule(member: str) -> tuple[str, str]:
    """Return the rule and requirement that cover a member, given as its method and JSON Pointer."""
    for rule, requirement, member_pattern in COVERED_BY:
        if re.fullmatch(member_pattern, member):
            return rule, requirement
    return ("RPC-023", "R-027")


FAMILY: Final = RuleFamily(
    checks=(
        Check(
            ("RPC-023", *sorted({rule for rule, _, _ in COVERED_BY})),
            message_shape,
            (*ASKS, Response),
            given=MISSHAPEN,
        ),
    ),
)
