"""Which tool in a prompt is which tool on the wire. Hosts put names together, replace characters and cut."""

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
    sought_keys,
    whole,
    written,
)
from mcpproxy.model.turns import OfferedTool
from mcpproxy.read.prompt.changes import changes, common_length
from mcpproxy.read.prompt.wire import WireServer, WireTool
from mcpproxy.read.view.runs import Certainty


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


def common_prefix(matches: Sequence[Match]) -> str:
    """Return what a host puts before the names of a server: the prefix of most of its tools, and of two."""
    counted = Counter(match.prefix for match in matches if match.prefix is not None)
    prefix, count = counted.most_common(1)[0] if counted else ("", 0)
    there = sum(1 for match in matches if match.offered is not None)
    return prefix if count > 1 and 2 * count > there else ""


def matched(servers: Sequence[WireServer], offered: Iterable[OfferedTool]) -> list[Match]:
    """Find each tool of the servers among those that a request offers.

    The surest ways are tried first, for all tools, so that a tool whose name only looks alike does not take
    the place of one that is named exactly. Of several that fit, those that say the same belong together, and
    of these the one that was listed first. A server that was started again has its tools in both recordings.
    """
    named = {server.number: _prefixes(server) for server in servers}
    tools = [tool for server in servers for tool in server.tools]
    free = {written(one): one for one in offered}
    likely: list[set[str]] = [set() for _ in tools]
    sought: dict[str, list[set[str]]] = defaultdict(list)
    for tool, those in zip(tools, likely, strict=True):
        for key in sought_keys(tool.name, named[tool.server]):
            sought[key].append(those)
    for name, one in free.items():
        for key in offered_keys(one):
            for those in sought.get(key, ()):
                those.add(name)
    found: dict[int, Match] = {}
    for fits, certainty, why in WAYS:
        pairs = [
            (_likeness(tool, free[name]), -at, name)
            for at, tool in enumerate(tools)
            if at not in found
            for name in likely[at]
            if name in free and fits(tool.name, named[tool.server], free[name])
        ]
        for _, before, name in sorted(pairs, reverse=True):
            at = -before
            if at not in found and name in free:
                found[at] = Match(tools[at], free.pop(name), certainty, why)
    others = _Others(found.values(), free)
    by_server: dict[int, list[Match]] = {server.number: [] for server in servers}
    sessions = {server.number: _sessions(server, servers) for server in servers}
    for at, tool in enumerate(tools):
        match = (
            found.get(at) or others.of_another_session(tool, sessions[tool.server]) or others.of_none(tool)
        )
        by_server[tool.server].append(match)
    return [match for matches in by_server.values() for match in _made_sure(matches)]


def named_in(text: str, name: str, server: WireServer) -> Certainty | None:
    """Return how sure it is that a text names a tool; ``None`` if it does not, or only in a longer word.

    A name that may be an ordinary word is a guess where it does not stand behind that of its server.
    """
    if name not in text or not pattern(f"{_BEGIN}{escape(name)}{_END}").search(text):
        return None
    if not name.isalpha():
        return Certainty.CERTAIN
    servers = "|".join(prefix.replace("_", _GAP) for prefix in _prefixes(server))
    behind = servers and pattern(f"{_BEGIN}(?i:{servers}){_GAP}{name}{_END}").search(text)
    return Certainty.CERTAIN if behind else Certainty.GUESS


def _sessions(server: WireServer, servers: Iterable[WireServer]) -> frozenset[int]:
    """Return the numbers of the recordings of the same server before it was started again, and after."""
    began, ended = server.open_ns
    return frozenset(
        one.number
        for one in servers
        if (one.label, one.name) == (server.label, server.name)
        and (one.open_ns[1] < began or ended < one.open_ns[0])
    )


class _Others:
    """Finds what became of tools that are under none of their names in a prompt, among those that are.

    ``found`` are the matches of these, in their order, and ``free`` what is offered besides, by its name.
    """

    def __init__(self, found: Iterable[Match], free: dict[str, OfferedTool]) -> None:
        self._named: Final[dict[str, list[Match]]] = defaultdict(list)
        self._owners: Final[dict[str, tuple[int, Match]]] = {}
        """The ``plain`` name of a tool -> the first match of one with it, and its place."""
        self._cut: Final[dict[int, list[tuple[int, Match, str]]]] = defaultdict(list)
        """The number of a server -> the matches by a name that was cut, and what is left of it there."""
        self._numbered: Final[dict[str, list[OfferedTool]]] = defaultdict(list)
        for at, match in enumerate(found):
            self._named[match.tool.name].append(match)
            self._owners.setdefault(plain(match.tool.name), (at, match))
            if match.why == _CUT and (left := _left_of(match)) is not None:
                self._cut[match.tool.server].append((at, match, left))
        for one in reversed(free.values()):
            self._numbered[_NUMBER.sub("", whole(one))].append(one)

    def of_another_session(self, tool: WireTool, sessions: AbstractSet[int]) -> Match | None:
        """Return the match of a tool by that in another recording of its server."""
        same = (match for match in self._named.get(tool.name, ()) if match.tool.server in sessions)
        match = next(same, None)
        return match and Match(tool, match.offered, match.certainty, match.why)

    def of_none(self, tool: WireTool) -> Match:
        """Return the match of a tool that is not in the prompt, or only under a name that another one has, or
        under that and a number."""
        owner = self._owner(tool)
        if owner is None or owner.offered is None:
            return Match(tool, None, Certainty.CERTAIN, "")
        if numbered := self._numbered.get(whole(owner.offered)):
            return Match(tool, numbered.pop(), Certainty.GUESS, "the name of another one, and a number")
        return Match(tool, None, Certainty.CERTAIN, "", owner.tool)

    def _owner(self, tool: WireTool) -> Match | None:
        """Return the first match of which the host made what it makes of the name of ``tool``, too."""
        name = plain(tool.name)
        before, owner = self._owners.get(name, (None, None))
        for at, match, left in self._cut.get(tool.server, ()):
            if before is not None and before < at:
                break
            if _is_left_of(name, left):
                return match
        return owner


def _left_of(match: Match) -> str | None:
    """Return what a cut left of a name, with what the host put behind it; ``None`` if that is not known."""
    own, there = plain(match.tool.name), whole(match.offered) if match.offered is not None else ""
    left = there[max(f"_{there}".find(f"_{own[:HEAD]}"), 0) :]
    return left if _is_left_of(own, left) else None


def _is_left_of(name: str, left: str) -> bool:
    """Whether ``left`` is a name without its middle, with or without a mark in its place, or its end.

    A hash behind it is that of one name alone.
    """
    end = left[common_length(name, left) :]
    return len(left) < len(name) and name.endswith(end.removeprefix("_"))


def _made_sure(matches: Sequence[Match]) -> list[Match]:
    """Return the matches of a server. What is named as most of its tools are is certain."""
    bare = plain(common_prefix(matches))
    return [
        Match(match.tool, match.offered, Certainty.CERTAIN, "named as the other tools of the server")
        if bare and match.offered and plain(written(match.offered)) == f"{bare}_{plain(match.tool.name)}"
        else match
        for match in matches
    ]


def _prefixes(server: WireServer) -> frozenset[str]:
    """Return what a host may put before the names of a server: parts of its label, or its own name."""
    label = server.label.rpartition(".")[2]
    return frozenset(plain(name) for name in (server.label, label, server.name) if plain(name))


_BEGIN: Final = r"(?<![A-Za-z0-9])"
_END: Final = r"(?![A-Za-z0-9])"
_GAP: Final = r"[^A-Za-z0-9\s]+"
"""What hosts put between a server's name and a tool's."""

_NUMBER: Final = pattern(r"_?\d{1,3}$")
_CUT: Final = "a long name that was cut"

WAYS: Final = (
    (is_named_so, Certainty.CERTAIN, "the same name"),
    (is_prefixed, Certainty.CERTAIN, "the name of the server before it"),
    (is_followed, Certainty.CERTAIN, "the name of the server after it"),
    (is_alike, Certainty.LIKELY, "a name that ends so"),
    (is_hashed, Certainty.LIKELY, "a name that ends so, and a hash"),
    (is_cut, Certainty.GUESS, _CUT),
)
"""How a tool is found in a prompt, the surest way first."""


def _likeness(tool: WireTool, one: OfferedTool) -> tuple[bool, bool, int, int]:
    """Which of several fitting pairs are the ones: by what is said of them, and by their arguments."""
    told, said = tool.description or "", one.description or ""
    alike = next(changes(tool.schema, one.schema), None) is None
    return told == said, alike, common_length(told, said), len(tool.name)
