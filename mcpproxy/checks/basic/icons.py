"""Icons: where their images come from. ``shapes`` checks the members of an icon.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/index#icons
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.checks.basic.described import described
from mcpproxy.checks.engine.context import MessageContext, Violation, as_object, member
from mcpproxy.checks.engine.rows import Check, RuleFamily
from mcpproxy.protocol.jsonrpc import JSONObject, Request, Response
from mcpproxy.protocol.revisions import since
from mcpproxy.protocol.wording import shown, token
from mcpproxy.session.history import History

ICONS: Final = since("2025-11-25")
"""The revisions that have icons."""

CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"

_FETCHABLE: Final = pattern(r"(https?|data):", re.IGNORECASE)


def icons_of_listed(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report an icon with an unusable source in a result, or in the ``serverInfo`` of its ``_meta``
    (ICON-001).
    """
    if b'"icons"' not in context.frame.raw:
        return ()  # Most lists have no icons, and may be long.
    result = member(context.message.value, "result")
    speaker = as_object(member(result, "_meta", SERVER_INFO)) if context.stateless else None
    speakers = [(f"{context.at}/result/_meta{token(SERVER_INFO)}", speaker)] if speaker else []
    holders = (*speakers, *described(context))
    return [violation for pointer, holder in holders for violation in _unfetchable(context, holder, pointer)]


def icons_of_peers(context: MessageContext[Request | Response], history: History) -> Iterable[Violation]:
    """Report an icon with an unusable source in the client or server info of a handshake (ICON-001)."""
    message = context.message
    if isinstance(message, Response):
        speaker, pointer = as_object(member(message.result, "serverInfo")), "/result/serverInfo"
        candidates = context.candidates
    else:
        speaker, pointer = as_object(member(message.params, "clientInfo")), "/params/clientInfo"
        # The revision that the client requests applies to it, whatever is negotiated later.
        candidates = (str(member(message.params, "protocolVersion")),)
    if speaker is None or candidates[0] not in ICONS:
        return ()
    return _unfetchable(context, speaker, context.at + pointer, candidates)


def icons_of_clients(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report an icon with an unusable source in the client info of a stateless request (ICON-001)."""
    if not context.stateless or b'"icons"' not in context.frame.raw:
        return ()
    speaker = as_object(member(context.message.value, "params", "_meta", CLIENT_INFO))
    pointer = f"{context.at}/params/_meta{token(CLIENT_INFO)}"
    return _unfetchable(context, speaker, pointer) if speaker else ()


def _unfetchable(
    context: MessageContext, holder: JSONObject, pointer: str, candidates: tuple[str, ...] | None = None
) -> Iterator[Violation]:
    icons = holder.get("icons")
    for index, icon in enumerate(icons if isinstance(icons, list) else []):
        src = member(icon, "src")
        if isinstance(src, str) and not _FETCHABLE.match(src):
            problem = (
                f"{context.sender} gave {shown(holder.get('name'))} an icon from {shown(src)}; "
                "clients only accept http, https and data URIs"
            )
            where = f"{pointer}/icons/{index}/src"
            # The specification says that clients refuse such a source, not that a server must not offer it.
            yield Violation(
                "ICON-001", "R-204", problem, pointer=where, at_most="warning", candidates=candidates
            )


MENTIONED: Final = (b'"icons"',)

FAMILY: Final = RuleFamily(
    checks=(
        Check(("ICON-001",), icons_of_listed, (Response,), mentions=MENTIONED),
        Check(("ICON-001",), icons_of_clients, (Request,), members=("_meta",), mentions=MENTIONED),
        Check(("ICON-001",), icons_of_peers, (Request, Response), ("initialize",)),
    ),
)
