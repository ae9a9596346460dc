"""What a request or an answer of a well-known method says, in fewer words than its JSON.

For the handshake that is who takes part, and for a list the names in it. Methods without an entry here, and
messages that do not have the usual members, are shown as JSON.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from mcpproxy.base.style import count
from mcpproxy.base.visible import visible

_NAMES: Final = 240
"""How many characters of the names in a list are shown."""


def arguments_digest(method: str, params: Mapping[str, Any]) -> str:
    """Return what a request of ``method`` is about; empty to show its params as JSON."""
    return _digest(_ARGUMENTS, method, params)


def result_digest(method: str, result: Mapping[str, Any]) -> str:
    """Return what an answer to ``method`` says; empty to show it as JSON."""
    return _digest(_RESULTS, method, result)


_Digest = Callable[[Mapping[str, Any]], str]


def _digest(known: Mapping[str, _Digest], method: str, members: Mapping[str, Any]) -> str:
    found = known.get(method)
    return visible(found(members)) if found else ""


def _peer(member: str) -> _Digest:
    """Return a function for a message of the handshake, which names its sender in ``member``."""

    def digest(members: Mapping[str, Any]) -> str:
        about = members.get(member)
        if not isinstance(about, dict):
            return ""
        info = cast("dict[str, Any]", about)
        words = (info.get("name"), info.get("version"), members.get("protocolVersion"))
        name, version, revision = (word[:80] if isinstance(word, str) else "" for word in words)
        if not name:
            return ""
        return ", ".join(filter(None, (f"{name} {version}".strip(), revision)))

    return digest


def _listed(member: str, noun: str, key: str = "name") -> _Digest:
    """Return a function for the answer that lists ``noun`` in ``member``."""

    def digest(members: Mapping[str, Any]) -> str:
        items = members.get(member)
        if not isinstance(items, list):
            return ""
        names: list[str] = []
        length = 0
        for item in cast("list[Any]", items):
            name = cast("dict[str, Any]", item).get(key) if isinstance(item, dict) else None
            if not isinstance(name, str) or length > _NAMES:
                continue
            names.append(name[:80])
            length += len(names[-1])
        more = ", more follow" if "nextCursor" in members else ""
        number = count(len(cast("list[Any]", items)), noun)
        return f"{number}{more}: {', '.join(names)}" if names else number + more

    return digest


_ARGUMENTS: Final[Mapping[str, _Digest]] = {"initialize": _peer("clientInfo")}
_RESULTS: Final[Mapping[str, _Digest]] = {
    "initialize": _peer("serverInfo"),
    "tools/list": _listed("tools", "tool"),
    "prompts/list": _listed("prompts", "prompt"),
    "resources/list": _listed("resources", "resource", "uri"),
    "resources/templates/list": _listed("resourceTemplates", "template", "uriTemplate"),
    "roots/list": _listed("roots", "root", "uri"),
}
