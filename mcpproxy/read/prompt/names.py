"""Match the tools in a prompt with tools on the wire, although hosts join, change and cut their names.

The tools on the wire are those that servers listed.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from re import escape
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import slotted
from mcpproxy.model.tool_names import (
    HEAD,
    is_alike,
    is_cut,
    is_followed,
    is_hashed,
    is_named_so,
    is_prefixed,
    offered_keys,
    plain,
    plain_full_name,
    sought_keys,
    written,
)
from mcpproxy.model.turns import OfferedTool
from mcpproxy.read.prompt.changes import changes, common_length
from mcpproxy.read.prompt.wire import WireServer, WireTool
from mcpproxy.read.view.runs import Certainty


@slotted(frozen=True)
class Match:
    """A tool on the wire, and the same tool in the prompt, ``None`` if it is not there.

    ``certainty`` is how sure that is, and ``why`` the reason in words, empty if there is none to give.
    """

    tool: WireTool
    offered: OfferedTool | None
    certainty: Certainty
    why: str
    taken_by: WireTool | None = None
    """Another tool, which has the name in the prompt that ``tool`` would have; ``None`` if there is none."""

    @property
    def prefix(self) -> str | None:
        """What the prompt has before the tool's own name; ``None`` if it does not have that name."""
        full_name = written(self.offered) if self.offered is not None else ""
        return full_name.removesuffix(self.tool.name) if full_name.endswith(self.tool.name) else None


def common_prefix(matches: Sequence[Match]) -> str:
    """Return what a host puts before the names of a server's tools; empty if there is no common prefix.

    At least two tools must have it, and more than half of those in the prompt.
    """
    counted = Counter(match.prefix for match in matches if match.prefix is not None)
    prefix, count = counted.most_common(1)[0] if counted else ("", 0)
    in_prompt = sum(1 for match in matches if match.offered is not None)
    return prefix if count > 1 and 2 * count > in_prompt else ""


def matched(servers: Sequence[WireServer], offered: Iterable[OfferedTool]) -> list[Match]:
    """Return a match for each tool of the servers, by server. ``offered`` are the tools in the prompts.

    The surest way (``WAYS``) is tried first for all tools, so that a tool with a similar name does not take
    the place of one with the exact name. If several fit, the one with the most similar description and
    schema is taken, and among equals the one that was listed first. A server that was started again has
    its tools in both recordings: both match the same tool in the prompts.
    """
    prefixes = {server.number: _prefixes(server) for server in servers}
    tools = [tool for server in servers for tool in server.tools]
    free = {written(tool): tool for tool in offered}
    likely: list[set[str]] = [set() for _ in tools]
    sought: dict[str, list[set[str]]] = defaultdict(list)
    for tool, candidates in zip(tools, likely, strict=True):
        for key in sought_keys(tool.name, prefixes[tool.server]):
            sought[key].append(candidates)
    for name, offered_tool in free.items():
        for key in offered_keys(offered_tool):
            for candidates in sought.get(key, ()):
                candidates.add(name)
    found: dict[int, Match] = {}
    for fits, certainty, why in WAYS:
        pairs = [
            (_likeness(tool, free[name]), -index, name)
            for index, tool in enumerate(tools)
            if index not in found
            for name in likely[index]
            if name in free and fits(tool.name, prefixes[tool.server], free[name])
        ]
        for _, negative_index, name in sorted(pairs, reverse=True):
            index = -negative_index
            if index not in found and name in free:
                found[index] = Match(tools[index], free.pop(name), certainty, why)
    unmatched = _UnmatchedTools(found.values(), free)
    by_server: dict[int, list[Match]] = {server.number: [] for server in servers}
    sessions = {server.number: _other_sessions(server, servers) for server in servers}
    for index, tool in enumerate(tools):
        match = (
            found.get(index)
            or unmatched.match_of_another_session(tool, sessions[tool.server])
            or unmatched.missing_match(tool)
        )
        by_server[tool.server].append(match)
    return [match for matches in by_server.values() for match in _certain_by_prefix(matches)]


def named_in(text: str, name: str, server: WireServer) -> Certainty | None:
    """Return how sure it is that a text names a tool; ``None`` if it does not, or only within a longer word.

    A name of letters alone may be an ordinary word: it is a guess unless the server's name precedes it.
    """
    if name not in text or not pattern(f"{_BEGIN}{escape(name)}{_END}").search(text):
        return None
    if not name.isalpha():
        return Certainty.CERTAIN
    servers = "|".join(prefix.replace("_", _GAP) for prefix in _prefixes(server))
    after_server = servers and pattern(f"{_BEGIN}(?i:{servers}){_GAP}{name}{_END}").search(text)
    return Certainty.CERTAIN if after_server else Certainty.GUESS


def _other_sessions(server: WireServer, servers: Iterable[WireServer]) -> frozenset[int]:
    """Return the numbers of the other recordings of the same server, which was started again."""
    began, ended = server.open_ns
    return frozenset(
        other.number
        for other in servers
        if (other.label, other.name) == (server.label, server.name)
        and (other.open_ns[1] < began or ended < other.open_ns[0])
    )


class _UnmatchedTools:
    """Finds what became of the tools that no way of naming has matched.

    ``found`` are the matches of the other tools, in their order. ``free`` are the tools in the prompt that
    were not matched, by their names.
    """

    def __init__(self, found: Iterable[Match], free: dict[str, OfferedTool]) -> None:
        self._named: Final[dict[str, list[Match]]] = defaultdict(list)
        self._owners: Final[dict[str, tuple[int, Match]]] = {}
        """The ``plain`` name of a tool -> the first match of a tool with that name, and its index."""
        self._cut: Final[dict[int, list[tuple[int, Match, str]]]] = defaultdict(list)
        """The number of a server -> index, match, and the rest of the name, for each name that was cut."""
        self._numbered: Final[dict[str, list[OfferedTool]]] = defaultdict(list)
        """The plain full name of a tool without a final number -> the unmatched tools with that name."""
        for at, match in enumerate(found):
            self._named[match.tool.name].append(match)
            self._owners.setdefault(plain(match.tool.name), (at, match))
            if match.why == _CUT and (rest := _rest_of(match)) is not None:
                self._cut[match.tool.server].append((at, match, rest))
        for tool in reversed(free.values()):
            self._numbered[_FINAL_NUMBER.sub("", plain_full_name(tool))].append(tool)

    def match_of_another_session(self, tool: WireTool, sessions: AbstractSet[int]) -> Match | None:
        """Return the match of the same tool in another session of its server, or ``None``."""
        same = (match for match in self._named.get(tool.name, ()) if match.tool.server in sessions)
        match = next(same, None)
        return match and Match(tool, match.offered, match.certainty, match.why)

    def missing_match(self, tool: WireTool) -> Match:
        """Return the match of a tool that no way of naming has found.

        Another tool may have its name. The prompt then lacks this tool, or has it with a number added.
        """
        owner = self._owner(tool)
        if owner is None or owner.offered is None:
            return Match(tool, None, Certainty.CERTAIN, "")
        if numbered := self._numbered.get(plain_full_name(owner.offered)):
            return Match(tool, numbered.pop(), Certainty.GUESS, "the name of another one, and a number")
        return Match(tool, None, Certainty.CERTAIN, "", owner.tool)

    def _owner(self, tool: WireTool) -> Match | None:
        """Return the first match whose name in the prompt would also fit ``tool``; ``None`` if none does."""
        name = plain(tool.name)
        before, owner = self._owners.get(name, (None, None))
        for at, match, rest in self._cut.get(tool.server, ()):
            if before is not None and before < at:
                break
            if _is_rest_of(name, rest):
                return match
        return owner


def _rest_of(match: Match) -> str | None:
    """Return the rest of a name that was cut, with what the host appended; ``None`` if that is unknown."""
    own = plain(match.tool.name)
    full_name = plain_full_name(match.offered) if match.offered is not None else ""
    rest = full_name[max(f"_{full_name}".find(f"_{own[:HEAD]}"), 0) :]
    return rest if _is_rest_of(own, rest) else None


def _is_rest_of(name: str, rest: str) -> bool:
    """Whether ``rest`` is ``name`` without its end, or without its middle, which ``_`` may replace.

    A rest with a hash does not count: the hash distinguishes it from other names that were cut.
    """
    end = rest[common_length(name, rest) :]
    return len(rest) < len(name) and name.endswith(end.removeprefix("_"))


def _certain_by_prefix(matches: Sequence[Match]) -> list[Match]:
    """Return the matches of a server, certain for tools with the prefix that most of its tools have."""
    bare = plain(common_prefix(matches))
    return [
        Match(match.tool, match.offered, Certainty.CERTAIN, "named as the other tools of the server")
        if bare and match.offered and plain(written(match.offered)) == f"{bare}_{plain(match.tool.name)}"
        else match
        for match in matches
    ]


def _prefixes(server: WireServer) -> frozenset[str]:
    """Return the ``plain`` names that a host may put before the names of a server's tools.

    They are its label, the last part of its label, and its own name.
    """
    label = server.label.rpartition(".")[2]
    return frozenset(plain(name) for name in (server.label, label, server.name) if plain(name))


_BEGIN: Final = r"(?<![A-Za-z0-9])"
_END: Final = r"(?![A-Za-z0-9])"
_GAP: Final = r"[^A-Za-z0-9\s]+"
"""The characters that hosts put between the name of a server and the name of a tool."""

_FINAL_NUMBER: Final = pattern(r"_?\d{1,3}$")
_CUT: Final = "a long name that was cut"

WAYS: Final = (
    (is_named_so, Certainty.CERTAIN, "the same name"),
    (is_prefixed, Certainty.CERTAIN, "the name of the server before it"),
    (is_followed, Certainty.CERTAIN, "the name of the server after it"),
    (is_alike, Certainty.LIKELY, "a name that ends so"),
    (is_hashed, Certainty.LIKELY, "a name that ends so, and a hash"),
    (is_cut, Certainty.GUESS, _CUT),
)
"""The ways to find a tool in a prompt, the surest first: a test, its certainty, and the reason in words."""


def _likeness(tool: WireTool, offered: OfferedTool) -> tuple[bool, bool, int, int]:
    """Return a sort key: the more a tool and an offered one have in common, the greater it is."""
    on_wire, in_prompt = tool.description or "", offered.description or ""
    alike = next(changes(tool.schema, offered.schema), None) is None
    return on_wire == in_prompt, alike, common_length(on_wire, in_prompt), len(tool.name)
