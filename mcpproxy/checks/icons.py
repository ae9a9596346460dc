"""Icons: where their pictures come from. Their form is judged with that of what they stand in.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/index#icons
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.checks.breach import Breach, Passing, as_object, member
from mcpproxy.checks.described import described
from mcpproxy.checks.table import Decider, Family
from mcpproxy.protocol.jsonrpc import JSONObject, Request, Response
from mcpproxy.protocol.patterns import pattern
from mcpproxy.protocol.revisions import since
from mcpproxy.protocol.wording import shown, token
from mcpproxy.session.history import History

ICONS: Final = since("2025-11-25")
"""The revisions that have icons."""

CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"

_FETCHABLE: Final = pattern(r"(https?|data):", re.IGNORECASE)


def icons_of_listed(passing: Passing, history: History) -> Iterable[Breach]:
    """ICON-001, those of a server that answers a stateless request included"""
    if b'"icons"' not in passing.frame.raw:
        return ()  # Most lists have none, and may be long.
    result = member(passing.message.value, "result")
    speaker = as_object(member(result, "_meta", SERVER_INFO)) if passing.stateless else None
    speakers = [(f"{passing.at}/result/_meta{token(SERVER_INFO)}", speaker)] if speaker else []
    holders = (*speakers, *described(passing))
    return [breach for pointer, holder in holders for breach in _unfetchable(passing, holder, pointer)]


def icons_of_peers(passing: Passing, history: History) -> Iterable[Breach]:
    """ICON-001 for who is speaking in a handshake"""
    message = passing.message
    if isinstance(message, Response):
        speaker, pointer = as_object(member(message.result, "serverInfo")), "/result/serverInfo"
        candidates = passing.candidates
    else:
        assert isinstance(message, Request)
        speaker, pointer = as_object(member(message.params, "clientInfo")), "/params/clientInfo"
        # What the client asks for is what it goes by, whatever will be agreed on.
        candidates = (str(member(message.params, "protocolVersion")),)
    if speaker is None or candidates[0] not in ICONS:
        return ()
    return _unfetchable(passing, speaker, passing.at + pointer, candidates)


def icons_of_clients(passing: Passing, history: History) -> Iterable[Breach]:
    """ICON-001 for who is asking in a stateless request"""
    if not passing.stateless or b'"icons"' not in passing.frame.raw:
        return ()
    speaker = as_object(member(passing.message.value, "params", "_meta", CLIENT_INFO))
    at = f"{passing.at}/params/_meta{token(CLIENT_INFO)}"
    return _unfetchable(passing, speaker, at) if speaker else ()


def _unfetchable(
    passing: Passing, holder: JSONObject, at: str, candidates: tuple[str, ...] | None = None
) -> Iterator[Breach]:
    icons = holder.get("icons")
    for index, icon in enumerate(icons if isinstance(icons, list) else []):
        src = member(icon, "src")
        if isinstance(src, str) and not _FETCHABLE.match(src):
            said = (
                f"{passing.sender} gave {shown(holder.get('name'))} an icon from {shown(src)}; "
                "clients take http, https and data URIs alone"
            )
            where = f"{at}/icons/{index}/src"
            # What is written is that clients refuse it, not that nobody may offer it.
            yield Breach("ICON-001", "R-204", said, where, at_most="warning", candidates=candidates)


MENTIONED: Final = (b'"icons"',)

FAMILY: Final = Family(
    checks=(
        Decider(("ICON-001",), icons_of_listed, ("response",), mentions=MENTIONED),
        Decider(("ICON-001",), icons_of_clients, ("request",), members=("_meta",), mentions=MENTIONED),
        Decider(("ICON-001",), icons_of_peers, ("request", "response"), ("initialize",)),
    ),
)
