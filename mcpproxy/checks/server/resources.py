"""Resources: their names, the results of reading them, and the notifications of changes.

``mcpproxy.checks.basic.shapes`` checks the members of lists and read results.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/resources
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import field, slotted
from mcpproxy.checks.basic.content import blocks
from mcpproxy.checks.engine.context import MessageContext, Violation, as_object, member
from mcpproxy.checks.engine.rows import Check, RuleFamily, StateUpdate
from mcpproxy.checks.server.listings import LISTS, listed
from mcpproxy.checks.stateless.servers import is_modern
from mcpproxy.checks.stateless.subscriptions import belongs_to, normalized_uri
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, Notification, Request, Response
from mcpproxy.protocol.methods import declares
from mcpproxy.protocol.revisions import STATELESS
from mcpproxy.protocol.wording import shown
from mcpproxy.session.frame import CLIENT, SERVER
from mcpproxy.session.history import History, SentRequest, keep_latest

GRACE_NS: Final = 5_000_000_000
"""After a subscription ends, an update may still be under way for this long."""

MAX_SUBSCRIBED: Final = 4_096
"""The number of subscribed URIs that are remembered."""


# URIs

URI: Final = pattern(r"[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})*")

EXPRESSION: Final = pattern(
    r"\{[+#./;?&=,!@|]?[A-Za-z0-9_%.]+(?::\d{1,4}|\*)?(?:,[A-Za-z0-9_%.]+(?::\d{1,4}|\*)?)*\}"
)
"""One expression of a URI template; the text between expressions is literal."""


def listed_uris(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report an invalid URI or URI template in a list (RES-002)."""
    request = context.answers
    if request is None:
        return
    part, key = LISTS[request.method]
    found = member(context.message.value, "result", part)
    for index, item in enumerate(found if isinstance(found, list) else ()):
        fault = (_template_fault if key == "uriTemplate" else _uri_fault)(member(item, key))
        if fault:
            yield _malformed(context, f"{key} {fault}", f"/result/{part}/{index}/{key}")


def read_uris(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report an invalid URI of a resource that is read (RES-002)."""
    contents = member(context.message.value, "result", "contents")
    for index, content in enumerate(contents if isinstance(contents, list) else ()):
        if fault := _uri_fault(member(content, "uri")):
            yield _malformed(context, f"uri {fault}", f"/result/contents/{index}/uri")


def linked_uris(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report an invalid URI in a content block (RES-002)."""
    for pointer, block in blocks(context, history):
        match block:
            case {"type": "resource_link", "uri": uri}:
                fault, pointer = _uri_fault(uri), pointer + "/uri"
            case {"type": "resource", "resource": {"uri": uri}}:
                fault, pointer = _uri_fault(uri), pointer + "/resource/uri"
            case _:
                continue
        if fault:
            yield _malformed(context, f"uri {fault}", pointer.removeprefix(context.at))


def _malformed(context: MessageContext, fault: str, pointer: str) -> Violation:
    # A warning only: the schema names the URI format and does not enforce it.
    problem = f"{context.sender} sent a resource whose {fault}"
    return Violation("RES-002", "R-156", problem, pointer=context.at + pointer, at_most="warning")


def _uri_fault(uri: JSON) -> str:
    if not isinstance(uri, str) or URI.fullmatch(uri):
        return ""
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", uri):
        return f"has no scheme: {shown(uri)}"
    good = URI.match(uri)
    stray = uri[good.end() : good.end() + 1] if good else ""
    return f"has {shown(stray)}, which must be percent-encoded: {shown(uri)}"


def _template_fault(template: JSON) -> str:
    if not isinstance(template, str):
        return ""
    literal = EXPRESSION.sub("", template)
    if "{" in literal or "}" in literal:
        return f"has an invalid expression: {shown(template)}"
    if stray := re.search(r'[\x00-\x20"<>\\^`|]', literal):
        return f"has {shown(stray[0])}, which must be percent-encoded: {shown(template)}"
    return ""


# Reading


def doubled_content(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a resource part with both text and blob, which the schema allows (RES-003)."""
    contents = member(context.message.value, "result", "contents")
    for index, content in enumerate(contents if isinstance(contents, list) else ()):
        if isinstance(content, dict) and "text" in content and "blob" in content:
            problem = (
                f"server sent both text and blob for {shown(content.get('uri'))}; clients read one of them"
            )
            pointer = f"{context.at}/result/contents/{index}"
            yield Violation("RES-003", "R-157", problem, pointer=pointer, at_most="info")


NOT_FOUND: Final = pattern(
    r"\b(resource|uri)\b.*\b(not found|does not exist|doesn't exist|unknown|no such)\b"
    r"|\b(unknown|no such|missing|not found)\b.*\b(resource|uri)\b",
    re.IGNORECASE | re.DOTALL,
)
"""Messages that say that the resource does not exist."""

NO_RESOURCE: Final = pattern(
    r"\b(unknown|no such) resource\b"
    r"|\bresource:? (\S{1,200} )?(was |is |could )?(not (be )?found|does not exist|doesn't exist)\b",
    re.IGNORECASE,
)
"""Messages that can only mean that. ``NOT_FOUND`` also matches messages about other faults."""


def not_found(context: MessageContext[ErrorResponse], history: History) -> Iterable[Violation]:
    """Report an unusual error code in the refusal to read a resource that does not exist (RES-004)."""
    message, request = context.message, context.answers
    if request is None or request.cancelled or (context.stateless and not is_modern(context, history)):
        return ()
    error = as_object(message.error)
    code, text = member(error, "code"), member(error, "message")
    expected = -32602 if context.stateless else -32002
    # An unknown method is a different case. ERR-004 reports -32002 where it is retired.
    if not isinstance(code, int) or code in (expected, -32601, -32002) or not isinstance(text, str):
        return ()
    # An internal error may have many causes, so its text has to say that it is this one.
    if not (NO_RESOURCE if code == -32603 else NOT_FOUND).search(text[:1_000]):
        return ()
    problem = (
        f"server reported a missing resource with code {shown(code)} instead of {expected}: {shown(text)}"
    )
    # Only the text of the error shows that this is its meaning.
    return (
        Violation(
            "RES-004",
            "R-158",
            problem,
            pointer=context.at + "/error/code",
            related=(request.seq,),
            at_most="warning",
        ),
    )


def empty_contents(context: MessageContext[Response], history: History) -> Iterable[Violation]:
    """Report empty contents for a resource that the server does not list (RES-005)."""
    message, request = context.message, context.answers
    uri = member(request.params, "uri") if request is not None else None
    if request is None or not isinstance(uri, str) or member(message.result, "contents") != []:
        return ()
    if not is_modern(context, history):
        return ()
    resources, templates = (listed(history, method).whole for method in RESOURCE_LISTS)
    if history.has_gap or resources is None or templates is None:
        return ()
    if max(resources.seq, templates.seq) > request.seq or uri in resources.items:
        return ()
    if any(_may_name(template, uri) for template in templates.items):
        return ()
    problem = f"server answered with empty contents for {shown(uri)}, which is in none of its lists"
    related = (resources.seq, templates.seq, request.seq)
    # An empty resource that is not listed looks the same.
    return (
        Violation(
            "RES-005",
            "R-159",
            problem,
            pointer=context.at + "/result/contents",
            related=related,
            at_most="warning",
        ),
    )


def _may_name(template: str, uri: str) -> bool:
    """Whether ``template`` may expand to ``uri``, judged by the literal text before its first expression."""
    return normalized_uri(uri).startswith(normalized_uri(template.partition("{")[0]))


# Subscriptions


@slotted()
class Subscribed:
    """The resources that a stateful client subscribed to, by normalized URI.

    A value is the request and the time at which the subscription ended, 0 while it is open. ``forgot_some``
    is set once there were more subscriptions than are remembered, or one could not be read.
    """

    uris: dict[str, tuple[SentRequest, int]] = field(default_factory=dict[str, tuple[SentRequest, int]])
    forgot_some: bool = False


def remember_subscription(context: MessageContext, history: History) -> None:
    """Record that a client subscribes or unsubscribes."""
    request, uri = context.asked, member(context.message.value, "params", "uri")
    known = history.of(Subscribed)
    if request is None or not isinstance(uri, str):
        known.forgot_some = True
    elif request.method == "resources/subscribe":
        keep_latest(known.uris, normalized_uri(uri), (request, 0), MAX_SUBSCRIBED)
        known.forgot_some |= len(known.uris) == MAX_SUBSCRIBED
    elif before := known.uris.get(normalized_uri(uri)):
        known.uris[normalized_uri(uri)] = (before[0], context.frame.observed_at_ns)


def unsubscribed_update(context: MessageContext[Notification], history: History) -> Iterable[Violation]:
    """Report an update of a resource that the client is not subscribed to (RES-006)."""
    message = context.message
    uri = member(message.params, "uri")
    if not isinstance(uri, str) or history.in_both_eras:
        return ()
    pointer = context.at + "/params/uri"
    if history.stateless_seq is not None:
        found = belongs_to(context, history)
        wanted = found.wanted.get("resourceSubscriptions") if found is not None and found.wanted else None
        if found is None or not isinstance(wanted, list) or not wanted:
            return ()  # SUB-007 reports it outside a subscription, SUB-005 on one for something else.
        if any(isinstance(known, str) and _is_below(uri, known) for known in wanted):
            return ()
        problem = f"server sent an update of {shown(uri)}, which the subscription does not name"
        candidates = found.asked.candidates
        return (
            Violation(
                "RES-006",
                "R-160",
                problem,
                pointer=pointer,
                related=(found.asked.seq,),
                candidates=candidates,
            ),
        )
    known, declared = history.of(Subscribed), history.server_capabilities
    if history.has_gap or known.forgot_some or not history.client.fully_read or history.may_lack_messages:
        return ()
    if declared is None or not declares(declared, "resources.subscribe"):
        return ()  # The client could not subscribe: PROTO-009 reports it.
    now_ns = context.frame.observed_at_ns
    over = 0  # the frame that asked for a subscription which is over
    for subscribed, (request, ended_ns) in known.uris.items():
        if _is_below(uri, subscribed) and not request.refused_by_http:
            if not ended_ns or now_ns - ended_ns < GRACE_NS:
                return ()
            over = request.seq
    problem = f"server sent an update of {shown(uri)}, "
    problem += "to which the client no longer subscribes" if over else "to which the client never subscribed"
    return (Violation("RES-006", "R-160", problem, pointer=pointer, related=(over,) if over else ()),)


def _is_below(uri: str, subscribed: str) -> bool:
    """Whether ``uri`` is ``subscribed`` or begins with it.

    An update may be about a part of the resource. The specification does not define which URIs are parts.
    """
    return normalized_uri(uri).startswith(normalized_uri(subscribed))


RESOURCE_LISTS: Final = ("resources/list", "resources/templates/list")

FAMILY: Final = RuleFamily(
    checks=(
        Check(("RES-002",), listed_uris, (Response,), RESOURCE_LISTS, sender=SERVER),
        Check(("RES-002",), read_uris, (Response,), ("resources/read",), sender=SERVER),
        Check(
            ("RES-002",),
            linked_uris,
            (Response,),
            ("tools/call", "prompts/get", "tasks/result"),
            sender=SERVER,
            mentions=(b'"uri"',),
        ),
        Check(
            ("RES-003",),
            doubled_content,
            (Response,),
            ("resources/read",),
            sender=SERVER,
            mentions=(b'"blob"',),
        ),
        Check(("RES-004",), not_found, (ErrorResponse,), ("resources/read",), sender=SERVER),
        Check(
            ("RES-005",), empty_contents, (Response,), ("resources/read",), sender=SERVER, within=STATELESS
        ),
        Check(
            ("RES-006",),
            unsubscribed_update,
            (Notification,),
            ("notifications/resources/updated",),
            sender=SERVER,
        ),
    ),
    updates=(
        StateUpdate(
            remember_subscription,
            (Request,),
            ("resources/subscribe", "resources/unsubscribe"),
            sender=CLIENT,
        ),
    ),
)
