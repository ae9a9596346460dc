"""Icons: the URIs of their images, which clients only use if the scheme is http, https or data.

``shapes`` checks which members an icon has.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/index#icons
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.judge.checks.basic.listed_objects import listed_objects
from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.rows import Check, RuleFamily
from mcpproxy.judge.session.history import History
from mcpproxy.protocol.jsonrpc import JSONObject, Request, Response
from mcpproxy.protocol.message_parts import as_object, member
from mcpproxy.protocol.meta_keys import CLIENT_INFO_KEY, SERVER_INFO_KEY
from mcpproxy.protocol.revisions import since
from mcpproxy.protocol.wording import shown, token

ICONS: Final = since("2025-11-25")
"""The revisions that have icons."""

_USABLE_URI: Final = pattern(r"(https?|data):", re.IGNORECASE)


def icons_in_results(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report an unusable icon of what a result lists, or of a stateless server itself (ICON-001)."""
    if b'"icons"' not in context.frame.raw:
        return ()  # Most lists have no icons, and may be long.
    result = member(context.message.value, "result")
    server_info = as_object(member(result, "_meta", SERVER_INFO_KEY)) if context.stateless else None
    servers = [(f"{context.at}/result/_meta{token(SERVER_INFO_KEY)}", server_info)] if server_info else []
    return [
        violation
        for pointer, owner in (*servers, *listed_objects(context))
        for violation in _unusable_icons(context, owner, pointer)
    ]


def icons_in_handshake(context: MessageContext[Request | Response], history: History) -> Iterable[Violation]:
    """Report an unusable icon in the client or server info of a handshake (ICON-001).

    Nothing is reported if the revision of the client or server info has no icons.
    """
    message = context.message
    if isinstance(message, Response):
        implementation, pointer = as_object(member(message.result, "serverInfo")), "/result/serverInfo"
        candidates = context.candidates
    else:
        implementation, pointer = as_object(member(message.params, "clientInfo")), "/params/clientInfo"
        # The client info follows the revision that the client requests, whatever is negotiated later.
        candidates = (str(member(message.params, "protocolVersion")),)
    if implementation is None or candidates[0] not in ICONS:
        return ()
    return _unusable_icons(context, implementation, context.at + pointer, candidates)


def icons_in_requests(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report an unusable icon in the client info of a stateless request (ICON-001)."""
    if not context.stateless or b'"icons"' not in context.frame.raw:
        return ()
    implementation = as_object(member(context.message.value, "params", "_meta", CLIENT_INFO_KEY))
    pointer = f"{context.at}/params/_meta{token(CLIENT_INFO_KEY)}"
    return _unusable_icons(context, implementation, pointer) if implementation else ()


def _unusable_icons(
    context: MessageContext, owner: JSONObject, pointer: str, candidates: tuple[str, ...] | None = None
) -> Iterator[Violation]:
    icons = owner.get("icons")
    for index, icon in enumerate(icons if isinstance(icons, list) else []):
        src = member(icon, "src")
        if isinstance(src, str) and not _USABLE_URI.match(src):
            problem = (
                f"{context.sender} gave {shown(owner.get('name'))} an icon from {shown(src)}; "
                "clients only accept http, https and data URIs"
            )
            where = f"{pointer}/icons/{index}/src"
            # A warning only: the specification tells clients to refuse such a URI, not servers to avoid it.
            yield Violation(
                "ICON-001", "R-204", problem, pointer=where, at_most="warning", candidates=candidates
            )


MENTIONED: Final = (b'"icons"',)

FAMILY: Final = RuleFamily(
    checks=(
        Check(("ICON-001",), icons_in_results, (Response,), mentions=MENTIONED),
        Check(("ICON-001",), icons_in_requests, (Request,), members=("_meta",), mentions=MENTIONED),
        Check(("ICON-001",), icons_in_handshake, (Request, Response), ("initialize",)),
    ),
)
