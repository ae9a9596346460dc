"""Resources: their URIs, the results of reading them, and the notifications of changes.

``checks.basic.shapes`` checks the members of lists and read results. Some checks wait until a server is known
to be *modern*: an answer has shown that the server supports a stateless revision.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/resources
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.checks.basic.content import blocks
from mcpproxy.judge.checks.engine.context import GRACE_NS, MessageContext, Violation
from mcpproxy.judge.checks.engine.rows import Check, RuleFamily, StateUpdate
from mcpproxy.judge.checks.server.listings import LISTS, RESOURCE_LISTS, listed
from mcpproxy.judge.checks.stateless.servers import is_modern
from mcpproxy.judge.checks.stateless.subscriptions import normalized_uri, subscription_of
from mcpproxy.judge.session.frame import CLIENT, SERVER
from mcpproxy.judge.session.history import History, SentRequest, keep_latest
from mcpproxy.protocol.error_message import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
)
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, Notification, Request, Response
from mcpproxy.protocol.message_parts import as_object, member, target_of, updated_resource
from mcpproxy.protocol.methods import declares
from mcpproxy.protocol.revisions import STATELESS
from mcpproxy.protocol.wording import shown

MAX_SUBSCRIBED: Final = 4_096
"""The number of subscribed URIs that are remembered."""


# URIs

URI: Final = pattern(r"[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})*")
"""A scheme, and after it only characters that a URI may have (RFC 3986). Its parts are not checked."""

EXPRESSION: Final = pattern(
    r"\{[+#./;?&=,!@|]?[A-Za-z0-9_%.]+(?::\d{1,4}|\*)?(?:,[A-Za-z0-9_%.]+(?::\d{1,4}|\*)?)*\}"
)
"""One expression of a URI template; the text between expressions is literal."""


def listed_uris(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report an invalid URI or URI template in a list (RES-002)."""
    request = context.answers
    if request is None:
        return
    list_name, uri_name = LISTS[request.method]
    items = member(context.message.value, "result", list_name)
    fault_of = _template_fault if uri_name == "uriTemplate" else _uri_fault
    for index, item in enumerate(items if isinstance(items, list) else ()):
        if fault := fault_of(member(item, uri_name)):
            yield _invalid_uri(context, f"{uri_name} {fault}", f"/result/{list_name}/{index}/{uri_name}")


def read_uris(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report an invalid URI of a resource that is read (RES-002)."""
    contents = member(context.message.value, "result", "contents")
    for index, content in enumerate(contents if isinstance(contents, list) else ()):
        if fault := _uri_fault(member(content, "uri")):
            yield _invalid_uri(context, f"uri {fault}", f"/result/contents/{index}/uri")


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
            yield _invalid_uri(context, f"uri {fault}", pointer.removeprefix(context.at))


def _invalid_uri(context: MessageContext, fault: str, pointer: str) -> Violation:
    # A warning only: the schema of MCP names the format of URIs, but that does not forbid other strings.
    problem = f"{context.sender} sent a resource whose {fault}"
    return Violation("RES-002", "R-156", problem, pointer=context.at + pointer, at_most="warning")


def _uri_fault(uri: JSON) -> str:
    """Return what is wrong with a URI, as a clause; empty if it is valid or not a string."""
    if not isinstance(uri, str) or URI.fullmatch(uri):
        return ""
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", uri):
        return f"has no scheme: {shown(uri)}"
    valid_part = URI.match(uri)
    stray = uri[valid_part.end() : valid_part.end() + 1] if valid_part else ""
    return f"has {shown(stray)}, which must be percent-encoded: {shown(uri)}"


def _template_fault(template: JSON) -> str:
    """Return what is wrong with a URI template, as a clause; empty if it is valid or not a string."""
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
    """Report a part of a resource that has both text and blob (RES-003).

    Only an info: the schema allows it.
    """
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
"""Error messages that probably say that the resource does not exist; some may mean something else."""

NO_RESOURCE: Final = pattern(
    r"\b(unknown|no such) resource\b"
    r"|\bresource:? (\S{1,200} )?(was |is |could )?(not (be )?found|does not exist|doesn't exist)\b",
    re.IGNORECASE,
)
"""Error messages that can only mean that the resource does not exist."""


def not_found_code(context: MessageContext[ErrorResponse], history: History) -> Iterable[Violation]:
    """Report a wrong error code in the refusal to read a resource that does not exist (RES-004)."""
    message, request = context.message, context.answers
    if request is None or request.cancelled or (context.stateless and not is_modern(context, history)):
        return ()
    if history.initialize_answered and history.negotiated is None:
        return ()  # The handshake named an unknown or a stateless revision, which may have other codes.
    error = as_object(message.error)
    code, text = member(error, "code"), member(error, "message")
    expected = INVALID_PARAMS if context.stateless else RESOURCE_NOT_FOUND
    # -32601 is about the method and not the resource. ERR-004 reports -32002 in revisions that retired it.
    if (
        not isinstance(code, int)
        or code in (expected, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND)
        or not isinstance(text, str)
    ):
        return ()
    # An internal error (-32603) may have many causes, so its text has to name this one without doubt.
    if not (NO_RESOURCE if code == INTERNAL_ERROR else NOT_FOUND).search(text[:1_000]):
        return ()
    problem = (
        f"server reported a missing resource with code {shown(code)} instead of {expected}: {shown(text)}"
    )
    # A warning only: nothing but the text of the error shows that the resource does not exist.
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
    uri = target_of(request.method, request.params) if request is not None else None
    if request is None or uri is None or member(message.result, "contents") != []:
        return ()
    if not is_modern(context, history):
        return ()
    resources, templates = (listed(history, method).current for method in RESOURCE_LISTS)
    if history.has_gap or resources is None or templates is None:
        return ()
    if max(resources.seq, templates.seq) > request.seq or uri in resources.items:
        return ()
    if any(_may_expand_to(template, uri) for template in templates.items):
        return ()
    problem = f"server answered with empty contents for {shown(uri)}, which is in none of its lists"
    related = (resources.seq, templates.seq, request.seq)
    # A warning only: the server may have an empty resource that it does not list.
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


def _may_expand_to(template: str, uri: str) -> bool:
    """Whether ``template`` may expand to ``uri``, judged by the literal text before its first expression."""
    return normalized_uri(uri).startswith(normalized_uri(template.partition("{")[0]))


# Subscriptions


@slotted()
class SubscribedResources:
    """The resources to which a client subscribed with resources/subscribe, by normalized URI.

    A value is the request, and the time at which the subscription ended, 0 while it is open. ``forgot_some``
    is set once a subscription could not be read, or may have been forgotten because there were too many.
    """

    by_uri: dict[str, tuple[SentRequest, int]] = field(default_factory=dict[str, tuple[SentRequest, int]])
    forgot_some: bool = False


def remember_subscription(context: MessageContext, history: History) -> None:
    """Record that a client subscribes or unsubscribes. ``context.asked`` is the record of this request."""
    request, uri = context.asked, target_of(context.method, context.contents)
    subscribed = history.of(SubscribedResources)
    if request is None or uri is None:
        subscribed.forgot_some = True
    elif request.method == "resources/subscribe":
        keep_latest(subscribed.by_uri, normalized_uri(uri), (request, 0), MAX_SUBSCRIBED)
        subscribed.forgot_some |= len(subscribed.by_uri) == MAX_SUBSCRIBED
    elif subscription := subscribed.by_uri.get(normalized_uri(uri)):
        subscribe_request, _ = subscription
        subscribed.by_uri[normalized_uri(uri)] = (subscribe_request, context.frame.observed_at_ns)


def unsubscribed_update(context: MessageContext[Notification], history: History) -> Iterable[Violation]:
    """Report an update of a resource that the client is not subscribed to (RES-006)."""
    message = context.message
    uri = updated_resource(message)
    if uri is None or history.in_both_eras:
        return ()  # A session with a handshake and stateless requests may have both kinds of subscription.
    pointer = context.at + "/params/uri"
    if history.stateless_seq is not None:
        return _update_of_unnamed_resource(uri, pointer, context, history)
    subscribed, capabilities = history.of(SubscribedResources), history.server_capabilities
    if history.has_gap or subscribed.forgot_some:
        return ()
    if not history.client.fully_read or history.may_lack_messages:
        return ()
    if capabilities is None or not declares(capabilities, "resources.subscribe"):
        return ()  # The client could not subscribe: PROTO-009 reports it.
    now_ns = context.frame.observed_at_ns
    ended_seq = 0  # the frame that requested a subscription which has ended
    for subscribed_uri, (request, ended_ns) in subscribed.by_uri.items():
        if _may_be_part(uri, subscribed_uri) and not request.refused_by_http:
            if not ended_ns or now_ns - ended_ns < GRACE_NS:
                return ()
            ended_seq = request.seq
    problem = f"server sent an update of {shown(uri)}, to which the client "
    problem += "no longer subscribes" if ended_seq else "never subscribed"
    related = (ended_seq,) if ended_seq else ()
    return (Violation("RES-006", "R-160", problem, pointer=pointer, related=related),)


def _update_of_unnamed_resource(
    uri: str, pointer: str, context: MessageContext[Notification], history: History
) -> Iterable[Violation]:
    """Report an update of a resource that the request subscriptions/listen did not name (RES-006)."""
    subscription = subscription_of(context, history)
    if subscription is None or not subscription.wanted:
        return ()  # SUB-007 reports an update without a subscription.
    uris = subscription.wanted.get("resourceSubscriptions")
    if not isinstance(uris, list) or not uris:
        return ()  # SUB-005 reports an update on a subscription that asked for no updates.
    if any(isinstance(subscribed_uri, str) and _may_be_part(uri, subscribed_uri) for subscribed_uri in uris):
        return ()
    problem = f"server sent an update of {shown(uri)}, which the subscription does not name"
    return (
        Violation(
            "RES-006",
            "R-160",
            problem,
            pointer=pointer,
            related=(subscription.asked.seq,),
            candidates=subscription.asked.candidates,
        ),
    )


def _may_be_part(uri: str, subscribed_uri: str) -> bool:
    """Whether ``uri`` is ``subscribed_uri`` or begins with it, so that it may be a part of that resource.

    An update may be about a part of a resource. The specification does not define which URIs are parts.
    """
    return normalized_uri(uri).startswith(normalized_uri(subscribed_uri))


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
        Check(("RES-004",), not_found_code, (ErrorResponse,), ("resources/read",), sender=SERVER),
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
