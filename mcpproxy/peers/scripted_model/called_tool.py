"""Finds the tool that a script calls among those that a host offers.

The script has the name that the server gives the tool; hosts add prefixes, replace characters, and cut names.
"""

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

_NameTest = Callable[[str, AbstractSet[str], OfferedTool], bool]

_TESTS: Final[tuple[_NameTest, ...]] = (is_alike, is_hashed, keeps_both_ends)
_TESTS_WITH_SERVER: Final[tuple[_NameTest, ...]] = (is_prefixed, is_named_so, *_TESTS)
"""The tests of a name that find a tool, the surest first. Those of ``_TESTS_WITH_SERVER`` are for a call for
which the script names the server. A tool with exactly the name (``is_named_so``) may be the host's own, so
only they contain that test."""


class NotOfferedError(McpProxyError):
    """The host offers no such tool, or several; the text is for the report."""


def called_tool(call: ScriptCall, offered: Iterable[OfferedTool]) -> OfferedTool:
    """Return the tool that a call means.

    Raises:
        NotOfferedError: no tool fits, or several do.
    """
    tools = {written(tool): tool for tool in offered}
    prefixes = frozenset({plain(call.server)} if call.server else ())
    for fits in _TESTS_WITH_SERVER if call.server else _TESTS:
        if candidates := [tool for tool in tools.values() if fits(call.tool, prefixes, tool)]:
            return _meant_tool(call, candidates)
    raise NotOfferedError(f"{call.tool} is not offered; the host offers {', '.join(sorted(tools))}")


def _meant_tool(call: ScriptCall, candidates: list[OfferedTool]) -> OfferedTool:
    """Return the tool that a call means, of those with fitting names.

    Of ``mcp__files__read`` and ``mcp__files__fast_read``, ``read`` means the first: both have its prefix, so
    they are tools of one server. ``mcp__files_old__read`` is a tool of another server.

    Raises:
        NotOfferedError: the tools may be of several servers.
    """
    shortest = min(candidates, key=lambda tool: len(plain_full_name(tool)))
    prefix = _prefix(plain(call.tool), written(shortest))
    if len(candidates) == 1 or (prefix and all(written(tool).startswith(prefix) for tool in candidates)):
        return shortest
    names = ", ".join(sorted(map(written, candidates)))
    raise NotOfferedError(f'several tools may be {call.tool}: {names}; say which with "server"')


def _prefix(name: str, whole_name: str) -> str:
    """Return the part of ``whole_name`` before ``name`` at its end; all of it if it ends otherwise."""
    ends = range(len(whole_name), -1, -1)
    return next((whole_name[:at] for at in ends if plain(whole_name[at:]) == name), whole_name)
