"""Make short texts for the messages of well-known methods, to show in place of their JSON.

The text for the handshake names the peer, the text for a list the items. Methods without an entry here, and
messages that do not have the usual members, are shown as JSON.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from mcpproxy.base.style import count
from mcpproxy.base.visible import visible
from mcpproxy.protocol.message_parts import member
from mcpproxy.read.view import acp_digests

_MAX_NAMES_CHARACTERS: Final = 240
"""After more than this number of characters of names in a list, no further name is shown."""


def arguments_digest(method: str, params: Mapping[str, Any]) -> str:
    """Return the text for a request of ``method``; empty if its params are to be shown as JSON."""
    return _text_of(_ARGUMENTS, method, params)


def result_digest(method: str, result: Mapping[str, Any]) -> str:
    """Return the text for an answer to ``method``; empty if the result is to be shown as JSON."""
    return _text_of(_RESULTS, method, result)


_Digest = Callable[[Mapping[str, Any]], str]
"""Makes the text from the params or the result of a message; empty if they lack the usual members."""


def _text_of(digests: Mapping[str, _Digest], method: str, members: Mapping[str, Any]) -> str:
    digest = digests.get(method)
    return visible(digest(members)) if digest else ""


def _peer(peer_name: str) -> _Digest:
    """Return the digest of a message of the handshake that names its sender in ``peer_name``."""

    def digest(members: Mapping[str, Any]) -> str:
        implementation = members.get(peer_name)
        if not isinstance(implementation, dict):
            return ""
        info = cast("dict[str, Any]", implementation)
        words = (info.get("name"), info.get("version"), members.get("protocolVersion"))
        name, version, revision = (word[:80] if isinstance(word, str) else "" for word in words)
        if not name:
            return ""
        return ", ".join(filter(None, (f"{name} {version}".strip(), revision)))

    return digest


def _listed(list_name: str, noun: str, key: str = "name") -> _Digest:
    """Return the digest of an answer that lists items in ``list_name``; each item has its name in ``key``."""

    def digest(members: Mapping[str, Any]) -> str:
        items = members.get(list_name)
        if not isinstance(items, list):
            return ""
        names: list[str] = []
        length = 0
        for item in cast("list[Any]", items):
            name = member(item, key)
            if not isinstance(name, str) or length > _MAX_NAMES_CHARACTERS:
                continue
            names.append(name[:80])
            length += len(names[-1])
        more = ", more follow" if "nextCursor" in members else ""
        how_many = count(len(cast("list[Any]", items)), noun)
        return f"{how_many}{more}: {', '.join(names)}" if names else how_many + more

    return digest


def _skill(members: Mapping[str, Any]) -> str:
    """Return the text for an answer with the entry of a skill: its name, and its number of files."""
    entry = members.get("skill")
    name, files = member(entry, "frontmatter", "name"), member(entry, "resources")
    if not isinstance(name, str) or not isinstance(files, list | str):
        return ""
    return f"{name[:80]}: {files[:80] if isinstance(files, str) else count(len(files), 'file')}"


_ARGUMENTS: Final[Mapping[str, _Digest]] = {"initialize": _peer("clientInfo"), **acp_digests.ARGUMENTS}
_RESULTS: Final[Mapping[str, _Digest]] = {
    **acp_digests.RESULTS,
    "initialize": _peer("serverInfo"),
    "tools/list": _listed("tools", "tool"),
    "prompts/list": _listed("prompts", "prompt"),
    "resources/list": _listed("resources", "resource", "uri"),
    "resources/templates/list": _listed("resourceTemplates", "template", "uriTemplate"),
    "roots/list": _listed("roots", "root", "uri"),
    "skills/list": _listed("skills", "skill", "uri"),
    "skills/get": _skill,
    "resources/directory/read": _listed("resources", "resource", "uri"),
}
