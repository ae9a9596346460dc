"""MCP Apps, an extension: tools whose results are shown in the host by a page from the server.

A tool is *bound* to a page by ``_meta.ui.resourceUri``; the host reads the page with resources/read. The
messages between page and host never reach the server, so they are not judged.

Source: https://github.com/modelcontextprotocol/ext-apps/blob/main/specification/2026-01-26/apps.mdx
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.rows import UNFAMILIAR, Check, RuleFamily
from mcpproxy.judge.checks.server.listings import ListedItem, listed
from mcpproxy.judge.checks.server.resources import NO_RESOURCE
from mcpproxy.judge.session.frame import CLIENT, SERVER, Severity
from mcpproxy.judge.session.history import History, SentRequest
from mcpproxy.protocol.error_message import METHOD_NOT_FOUND, RESOURCE_NOT_FOUND
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, JSONObject, Request, Response
from mcpproxy.protocol.message_parts import as_object, member, target_of
from mcpproxy.protocol.meta_keys import CAPABILITIES_KEY
from mcpproxy.protocol.revisions import REVISIONS, STATELESS
from mcpproxy.protocol.shapes.lookup import violations
from mcpproxy.protocol.wording import shown, token

EXTENSION: Final = "io.modelcontextprotocol/ui"
SCHEME: Final = "ui://"
FLAT_KEY: Final = "ui/resourceUri"
"""The deprecated key in ``_meta`` that binds a tool."""

PAGE_TYPE: Final = "text/html;profile=mcp-app"
"""The media type of a page."""
_PAGE_TYPE: Final = pattern(r'text/html\s*;\s*profile\s*=\s*"?mcp-app"?', re.IGNORECASE)
"""All spellings of ``PAGE_TYPE`` (RFC 9110, section 8.3.1)."""


def bound_tool(request: SentRequest, history: History) -> ListedItem | None:
    """Return the tool that a request calls; ``None`` unless it was listed before as bound to a page."""
    name = target_of(request.method, request.params)
    tool = listed(history, "tools/list").items.get(name) if name is not None else None
    is_bound = tool is not None and tool.seq < request.seq and isinstance(_page_uri(tool.value), str)
    return tool if is_bound else None


def may_have_page(request: SentRequest, history: History) -> bool:
    """Whether the tool that a request calls is bound to a page, or may be: its listing may be missing."""
    if bound_tool(request, history) is not None:
        return True
    return (
        history.has_gap
        and target_of(request.method, request.params) not in listed(history, "tools/list").items
    )


def _page_uri(tool: JSONObject) -> JSON:
    """Return the URI of the page to which a tool is bound; ``None`` if ``_meta.ui`` has none."""
    return member(tool.get("_meta"), "ui", "resourceUri")


# What the client declares


def settings_of_client(context: MessageContext[Request], history: History) -> Iterable[Violation]:
    """Report a client that declares MCP Apps without the media types that it shows (UI-001)."""
    params = context.message.params
    path = ("_meta", CAPABILITIES_KEY) if context.stateless else ("capabilities",)
    extensions = as_object(member(params, *path, "extensions"))
    if extensions is None or EXTENSION not in extensions:
        return ()
    if isinstance(member(extensions[EXTENSION], "mimeTypes"), list):
        return ()
    problem = f"client declared {EXTENSION} without a list of mimeTypes"
    pointer = "".join(map(token, ("params", *path, "extensions", EXTENSION)))
    return (Violation("UI-001", "R-321", problem, pointer=context.at + pointer),)


def _is_declared(context: MessageContext, history: History) -> bool:
    """Whether the client may have declared MCP Apps for the request that a message answers."""
    request = context.answers
    if context.stateless:
        capabilities = member(request.params, "_meta", CAPABILITIES_KEY) if request is not None else None
    else:
        capabilities = history.client_capabilities
    return capabilities is None or member(capabilities, "extensions", EXTENSION) is not None


# What the server lists


def listed_tools(context: MessageContext[Response], history: History) -> Iterator[Violation]:
    """Report tools that are bound in a wrong way (UI-002, UI-005, UI-008) or to a client without MCP Apps
    (UI-007).
    """
    tools = member(context.message.result, "tools")
    is_declared = _is_declared(context, history)
    for index, tool in enumerate(tools if isinstance(tools, list) else ()):
        meta = as_object(member(tool, "_meta"))
        if meta is None:
            continue
        name, at = shown(member(tool, "name")), f"{context.at}/result/tools/{index}/_meta"
        ui = meta.get("ui")
        if isinstance(ui, dict) and _is_of_apps(ui):
            yield from _misshapen(ui, "McpUiToolMeta", f"tool {name}", f"{at}/ui")
        uri, pointer = member(ui, "resourceUri"), f"{at}/ui/resourceUri"
        if uri is None and isinstance(uri := meta.get(FLAT_KEY), str):
            pointer = at + token(FLAT_KEY)
            problem = f"server bound tool {name} to its page by {FLAT_KEY}, which is deprecated"
            yield Violation("UI-008", "R-328", problem, pointer=pointer)
        if not isinstance(uri, str):
            continue
        if not uri.lower().startswith(SCHEME):
            problem = f"server bound tool {name} to {shown(uri)}, whose scheme is not ui"
            yield Violation("UI-002", "R-322", problem, pointer=pointer)
        if not is_declared:
            is_declared = True  # so that this is reported once for each page of the list
            problem = f"server bound tool {name} to a page, but the client did not declare {EXTENSION}"
            yield Violation("UI-007", "R-327", problem, pointer=pointer, at_most="info")


def _is_of_apps(ui: JSONObject) -> bool:
    """Whether ``_meta.ui`` of a tool is meant for MCP Apps. Others may use the key, as it has no prefix."""
    visibility = ui.get("visibility")
    names_an_audience = isinstance(visibility, list) and ("model" in visibility or "app" in visibility)
    return "resourceUri" in ui or names_an_audience


def listed_pages(context: MessageContext[Response], history: History) -> Iterator[Violation]:
    """Report a listed or read page whose ``_meta.ui`` is misshapen (UI-005)."""
    part = "resources" if context.method == "resources/list" else "contents"
    pages = member(context.message.result, part)
    for index, page in enumerate(pages if isinstance(pages, list) else ()):
        uri, ui = member(page, "uri"), member(page, "_meta", "ui")
        if isinstance(ui, dict) and isinstance(uri, str) and uri.lower().startswith(SCHEME):
            at = f"{context.at}/result/{part}/{index}/_meta/ui"
            yield from _misshapen(ui, "McpUiResourceMeta", f"page {shown(uri)}", at)


def _misshapen(ui: JSONObject, shape: str, what: str, pointer: str) -> Iterator[Violation]:
    for fault in violations(ui, shape, REVISIONS[-1]):  # The extension has versions of its own.
        problem = f"server sent {what} in which _meta.ui{fault.pointer.replace('/', '.')} {fault.clause}"
        yield Violation("UI-005", "R-325", problem, pointer=pointer + fault.pointer)


# What the server answers


def missing_page(context: MessageContext[ErrorResponse], history: History) -> Iterable[Violation]:
    """Report a page that does not exist, although a tool is bound to it (UI-003)."""
    request, error = context.answers, as_object(context.message.error)
    code, text = member(error, "code"), member(error, "message")
    if request is None or request.cancelled:
        return ()
    is_missing = code == METHOD_NOT_FOUND or (code == RESOURCE_NOT_FOUND and not context.stateless)
    if not is_missing and not (isinstance(text, str) and NO_RESOURCE.search(text[:1_000])):
        return ()
    if (tool := _tool_of_page(context, history)) is None:
        return ()
    uri = shown(target_of(request.method, request.params))
    problem = f"server has no {uri}, although its tool {shown(tool.value.get('name'))} is bound to it"
    return (
        Violation(
            "UI-003",
            "R-323",
            problem,
            pointer=context.at + "/error",
            related=(tool.seq, request.seq),
            at_most=_severity_if_stale(tool, context),
        ),
    )


def other_type(context: MessageContext[Response], history: History) -> Iterator[Violation]:
    """Report the page of a bound tool if its media type is not that of pages (UI-004)."""
    request = context.answers
    uri = target_of(request.method, request.params) if request is not None else None
    if uri is None or not uri.lower().startswith(SCHEME):
        return
    contents = member(context.message.result, "contents")
    for index, content in enumerate(contents if isinstance(contents, list) else ()):
        media_type = member(content, "mimeType")
        if member(content, "uri") != uri or (
            isinstance(media_type, str) and _PAGE_TYPE.fullmatch(media_type.strip())
        ):
            continue
        if request is None or (tool := _tool_of_page(context, history)) is None:
            return
        given = "without a mimeType" if media_type is None else f"as {shown(media_type)}"
        yield Violation(
            "UI-004",
            "R-324",
            f"server sent the page {shown(uri)} {given}, not as {PAGE_TYPE}",
            pointer=f"{context.at}/result/contents/{index}" + ("" if media_type is None else "/mimeType"),
            related=(tool.seq, request.seq),
            at_most=_severity_if_stale(tool, context),
        )


def _tool_of_page(context: MessageContext, history: History) -> ListedItem | None:
    """Return a tool, listed before the request, that is bound to the page which the request reads.

    It is ``None`` if there is none, or if messages are missing.
    """
    request = context.answers
    uri = target_of(request.method, request.params) if request is not None else None
    if request is None or uri is None or history.has_gap:
        return None
    for tool in listed(history, "tools/list").items.values():
        if _page_uri(tool.value) == uri and tool.seq < request.seq:
            return tool
    return None


def _severity_if_stale(tool: ListedItem, context: MessageContext) -> Severity | None:
    """Return ``warning`` if the server may list the tool in another way by now, otherwise ``None``."""
    return "warning" if context.frame.observed_at_ns > tool.fresh_until_ns else None


def is_for_model(definition: JSON) -> bool:
    """Whether a tool is offered to the model, and not only to its page."""
    visibility = member(definition, "_meta", "ui", "visibility")
    return not isinstance(visibility, list) or "model" in visibility


def page_alone(context: MessageContext[Response], history: History) -> Iterable[Violation]:
    """Report an empty result of a tool that is bound to a page (UI-006).

    A tool that only its page calls needs no text for the model.
    """
    request, result = context.answers, as_object(context.message.result)
    if request is None or result is None or result.get("content") != [] or result.get("isError") is True:
        return ()
    tool = None if history.has_gap else bound_tool(request, history)
    if tool is None:
        return ()
    if not is_for_model(tool.value):
        return ()
    name = shown(tool.value.get("name"))
    problem = f"server answered {name} with empty content, so only its page shows the result"
    return (
        Violation(
            "UI-006",
            "R-326",
            problem,
            pointer=context.at + "/result/content",
            related=(tool.seq, request.seq),
            at_most=_severity_if_stale(tool, context),
        ),
    )


FAMILY: Final = RuleFamily(
    checks=(
        Check(("UI-001",), settings_of_client, (Request,), ("initialize",), sender=CLIENT),
        Check(("UI-001",), settings_of_client, (Request,), sender=CLIENT, within=STATELESS, given=UNFAMILIAR),
        Check(
            ("UI-002", "UI-005", "UI-007", "UI-008"),
            listed_tools,
            (Response,),
            ("tools/list",),
            sender=SERVER,
            mentions=(b"resourceUri", b'"visibility"'),
        ),
        Check(
            ("UI-005",),
            listed_pages,
            (Response,),
            ("resources/list", "resources/read"),
            sender=SERVER,
            mentions=(b'"ui"',),
        ),
        Check(("UI-003",), missing_page, (ErrorResponse,), ("resources/read",), sender=SERVER),
        Check(("UI-004",), other_type, (Response,), ("resources/read",), sender=SERVER, mentions=(b"ui:",)),
        Check(("UI-006",), page_alone, (Response,), ("tools/call",), sender=SERVER),
    ),
)
