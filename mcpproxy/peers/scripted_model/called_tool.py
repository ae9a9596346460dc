"""Which of the tools that a host offers is the one that the script calls by its name on the wire."""

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import Final

from mcpproxy.errors import McpProxyError
from mcpproxy.model.tool_names import (
    is_alike,
    is_hashed,
    is_named_so,
    is_prefixed,
    keeps_both_ends,
    plain,
    plain_full_name,
    written,
)
from mcpproxy.model.turns import OfferedTool
from mcpproxy.peers.scripted_model.model_script import ScriptCall

_Way = Callable[[str, AbstractSet[str], OfferedTool], bool]

_WAYS: Final[tuple[_Way, ...]] = (is_alike, is_hashed, keeps_both_ends)
_WAYS_OF_A_SERVER: Final[tuple[_Way, ...]] = (is_prefixed, is_named_so, *_WAYS)
"""How a tool is found, the surest way first. A tool that merely has the name may be the host's own;
that is a way of its own only where the script says which server's tool it means."""


class NotOfferedError(McpProxyError):
    """The host offers no such tool, or several; the text is for the report."""


def called_tool(call: ScriptCall, offered: Iterable[OfferedTool]) -> OfferedTool:
    """Return the tool that a call means.

    Raises:
        NotOfferedError: no tool fits, or several do.
    """
    tools = {written(tool): tool for tool in offered}
    prefixes = frozenset({plain(call.server)} if call.server else ())
    for fits in _WAYS_OF_A_SERVER if call.server else _WAYS:
        if found := [tool for tool in tools.values() if fits(call.tool, prefixes, tool)]:
            return _one(call, found)
    raise NotOfferedError(f"{call.tool} is not offered; the host offers {', '.join(sorted(tools))}")


def _one(call: ScriptCall, found: list[OfferedTool]) -> OfferedTool:
    """Return the one that is meant.

    Of ``mcp__files__read`` and ``mcp__files__fast_read`` that is the first: what stands before ``read`` there
    is the beginning of the other, so both are of one server. ``mcp__files_old__read`` is of another one.
    """
    shortest = min(found, key=lambda tool: len(plain_full_name(tool)))
    prefix = _before(plain(call.tool), written(shortest))
    if len(found) == 1 or (prefix and all(written(tool).startswith(prefix) for tool in found)):
        return shortest
    names = ", ".join(sorted(map(written, found)))
    raise NotOfferedError(f'several tools may be {call.tool}: {names}; say which with "server"')


def _before(name: str, whole_name: str) -> str:
    """Return what stands before ``name`` at the end of a written name; all of it if it ends otherwise."""
    ends = range(len(whole_name), -1, -1)
    return next((whole_name[:at] for at in ends if plain(whole_name[at:]) == name), whole_name)
