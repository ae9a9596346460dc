"""Which tool in a prompt is which tool on the wire. Hosts put names together, replace characters and cut."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import slotted
from mcpproxy.model.turns import OfferedTool
from mcpproxy.prompt.changes import common_length
from mcpproxy.prompt.wire import WireServer, WireTool
from mcpproxy.view.runs import Certainty

_OTHERS: Final = pattern(r"[^a-z0-9]+")

_HEAD: Final = 14
_TAIL: Final = 20
"""How much of a name is left at its ends by the hosts that cut its middle."""


@slotted(frozen=True)
class Match:
    """A tool on the wire with that in the prompt, ``None`` if it is not there; how sure it is, and why."""

    tool: WireTool
    offered: OfferedTool | None
    certainty: Certainty
    why: str
    taken_by: WireTool | None = None
    """The tool that has the only name in the prompt which would fit this one."""

    @property
    def prefix(self) -> str | None:
        """What stands before the tool's own name in the prompt; ``None`` if the name is changed itself."""
        whole = written(self.offered) if self.offered is not None else ""
        return whole.removesuffix(self.tool.name) if whole.endswith(self.tool.name) else None


def written(offered: OfferedTool) -> str:
    """Return the name of a tool in a prompt, with its namespace if it is in one."""
    return f"{offered.namespace} / {offered.name}" if offered.namespace else offered.name


def common_prefix(matches: Sequence[Match]) -> str:
    """Return what a host puts before the names of a server: the prefix of more than half of its tools."""
    counted = Counter(match.prefix for match in matches if match.offered is not None)
    counted.pop(None, None)
    prefix, count = counted.most_common(1)[0] if counted else (None, 0)
    return prefix or "" if 2 * count > sum(1 for match in matches if match.offered is not None) else ""


def _missing(tool: WireTool, prefixes: frozenset[str], found: Iterable[Match]) -> Match:
    """Return the match of a tool that is not in the prompt, or only under a name that another one has."""
    taken = (match.tool for match in found if match.offered and _is_alike(tool, prefixes, match.offered))
    return Match(tool, None, Certainty.CERTAIN, "", next(taken, None))


def _made_sure(matches: Sequence[Match]) -> list[Match]:
    """Return the matches of a server. What is named as most of its tools are is certain."""
    prefix = common_prefix(matches)
    bare = plain(prefix)
    return [
        Match(match.tool, match.offered, Certainty.CERTAIN, "named as the other tools of the server")
        if match.offered is not None
        and len(matches) > 1
        and bare
        and plain(written(match.offered)) == f"{bare}_{plain(match.tool.name)}"
        else match
        for match in matches
    ]


def plain(name: str) -> str:
    """Return a name in lower case, with ``_`` in the place of everything but letters and digits."""
    return _OTHERS.sub("_", name.lower()).strip("_")


def matched(servers: Sequence[WireServer], offered: Iterable[OfferedTool]) -> list[Match]:
    """Find each tool of the servers among those that a request offers.

    The surest ways are tried first, for all tools, so that a tool whose name only looks alike does not take
    the place of one that is named exactly.
    """
    named = {server.number: _prefixes(server) for server in servers}
    tools = [tool for server in servers for tool in server.tools]
    free = list(offered)
    found: dict[int, Match] = {}
    for fits, certainty, why in _WAYS:
        for index, tool in enumerate(tools):
            if index in found:
                continue
            fitting = [one for one in free if fits(tool, named[tool.server], one)]
            if fitting:
                one = max(fitting, key=lambda one: _likeness(tool, one))
                found[index] = Match(tool, one, certainty, why)
                free.remove(one)
    by_server: dict[int, list[Match]] = {server.number: [] for server in servers}
    for index, tool in enumerate(tools):
        match = found.get(index) or _missing(tool, named[tool.server], found.values())
        by_server[tool.server].append(match)
    return [match for matches in by_server.values() for match in _made_sure(matches)]


def _prefixes(server: WireServer) -> frozenset[str]:
    """Return what a host may put before the names of a server: parts of its label, or its own name."""
    label = server.label.rpartition(".")[2]
    return frozenset(plain(name) for name in (server.label, label, server.name) if plain(name))


def _whole(one: OfferedTool) -> str:
    return plain(f"{one.namespace}_{one.name}" if one.namespace else one.name)


def _is_named_so(tool: WireTool, prefixes: frozenset[str], one: OfferedTool) -> bool:
    return one.name == tool.name and (
        not one.namespace or any(prefix in plain(one.namespace) for prefix in prefixes)
    )


def _is_prefixed(tool: WireTool, prefixes: frozenset[str], one: OfferedTool) -> bool:
    whole, name = _whole(one), plain(tool.name)
    return any(f"_{whole}".endswith(f"_{prefix}_{name}") for prefix in prefixes)


def _is_alike(tool: WireTool, prefixes: frozenset[str], one: OfferedTool) -> bool:  # noqa: ARG001 # one shape
    return f"_{_whole(one)}".endswith(f"_{plain(tool.name)}")


def _is_cut(tool: WireTool, prefixes: frozenset[str], one: OfferedTool) -> bool:  # noqa: ARG001 # one shape
    whole, name = _whole(one), plain(tool.name)
    if len(name) <= _HEAD + _TAIL:
        return False
    return f"_{name[:_HEAD]}" in f"_{whole}" or whole.endswith(name[-_TAIL:])


_WAYS: Final = (
    (_is_named_so, Certainty.CERTAIN, "the same name"),
    (_is_prefixed, Certainty.CERTAIN, "the name of the server before it"),
    (_is_alike, Certainty.LIKELY, "a name that ends so"),
    (_is_cut, Certainty.GUESS, "a long name that was cut"),
)
"""How a tool is found in a prompt, the surest way first."""


def _likeness(tool: WireTool, one: OfferedTool) -> tuple[bool, bool, int]:
    """Which of several fitting tools is the one: by what is said of it, and by its arguments."""
    told, said = tool.description or "", one.description or ""
    return tool.schema == one.schema, told == said, common_length(told, said)
