"""Which recorded request a live one is: by method and params, volatile parts aside.

Three levels. ``strict``: everything but the progress token decides. ``default``: ``_meta`` does not, nor
what a client says of itself in ``initialize``; a cursor, a request state and the answers to input requests
decide by being there, not by their value. ``loose``: the method and what it names (a tool, a prompt, a
URI) decide, and of several the one with the fewest differences is taken.

A value that the recording masks may be anything.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Final, Literal, TypeAlias

from mcpproxy.protocol.jsonrpc import JSON, JSONObject, Request
from mcpproxy.protocol.wording import token
from mcpproxy.replay.diff.values import EXACT, Difference, Rules, differences
from mcpproxy.replay.recording import Said
from mcpproxy.session.masked_values import holds_mask

Level: TypeAlias = Literal["strict", "default", "loose"]

LEVELS: Final[tuple[Level, ...]] = ("strict", "default", "loose")

OPAQUE: Final = ("/params/cursor", "/params/requestState", "/params/inputResponses/*")
"""What a client hands back or makes up: below ``strict`` it decides by being there."""

_NAMES: Final = ("name", "uri", "ref", "taskId")
_MOST_DIFFERENCES: Final = 20
_MOST_CANDIDATES: Final = 500

Key: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Nearest:
    """The recorded request that a missed one is most like, and where the two differ."""

    said: Said
    differences: tuple[Difference, ...]


class Matcher:
    """The requests of one recorded session, each to be taken once, equal ones in order."""

    def __init__(
        self, requests: Iterable[Said], level: Level = "default", ignore: Sequence[str] = ()
    ) -> None:
        self._level: Final[Level] = level
        always = ("/params/_meta/progressToken",) if level == "strict" else ("/params/_meta/**",)
        self._precise: Final = Rules((*always, *ignore))
        self._rules: Final = self._precise if level == "strict" else Rules((*always, *OPAQUE, *ignore))
        self._of_method: Final[defaultdict[str, list[Said]]] = defaultdict(list)
        self._exactly: Final[defaultdict[Key, deque[Said]]] = defaultdict(deque)
        self._alike: Final[defaultdict[Key, deque[Said]]] = defaultdict(deque)
        self._last: Final[dict[Key, Said]] = {}
        self._masked: Final[defaultdict[str, list[tuple[Said, Rules]]]] = defaultdict(list)
        self._taken: Final[set[int]] = set()
        self._all: Final[list[Said]] = []
        for said in requests:
            self._add(said)

    def take(self, request: Request) -> Said | None:
        """The first equal one that was not taken yet; it counts as taken from now on."""
        value = self._essence(request)
        found = self._first(self._exactly.get(_flat(value, self._precise, ())))
        if found is None:
            alike = self._alike.get(self._key(request.method, value))
            found = self._closest(alike, value) if self._level == "loose" else self._first(alike)
        if found is None:
            found = self._behind_masks(request.method, value)
        if found is not None:
            self._taken.add(found.index)
        return found

    def last(self, request: Request) -> Said | None:
        """The last equal one, taken or not."""
        return self._last.get(self._key(request.method, self._essence(request)))

    def nearest(self, request: Request) -> Nearest | None:
        """What is most like ``request``: the fewest differences, then one that is still free, then the first.

        Where the method was never recorded, that is the next request that is free.
        """
        value = self._essence(request)
        candidates = self._of_method.get(request.method)
        if not candidates:
            candidates = [said for said in self._all if said.index not in self._taken][:1] or self._all[-1:]
        best: tuple[int, bool, int] | None = None
        nearest: Nearest | None = None
        for said in candidates[:_MOST_CANDIDATES]:
            found = self._differences(said, value)
            rank = (len(found), said.index in self._taken, said.index)
            if best is None or rank < best:
                best, nearest = rank, Nearest(said, found)
        return nearest

    @property
    def count(self) -> int:
        """How many requests there are."""
        return len(self._all)

    @property
    def taken(self) -> int:
        """How many of them were taken."""
        return len(self._taken)

    def _add(self, said: Said) -> None:
        request = said.message
        if not isinstance(request, Request):
            return
        value = self._essence(request)
        self._all.append(said)
        self._of_method[request.method].append(said)
        if masked := tuple(pointer for pointer, _, one in _leaves(value) if _is_mask(one)):
            rules = Rules((*self._rules.ignore, *masked))
            self._masked[request.method].append((said, rules))
        self._exactly[_flat(value, self._precise, ())].append(said)
        key = self._key(request.method, value)
        self._alike[key].append(said)
        self._last[key] = said

    def _essence(self, request: Request) -> JSONObject:
        """The part of a request that may decide."""
        params = request.params
        essence: JSONObject = {"method": request.method}
        if not isinstance(params, dict):
            return essence
        decides: JSONObject = dict(params)
        if self._level != "strict":
            # To send nothing, null or an empty object is a matter of the client's library.
            decides = {name: one for name, one in params.items() if one is not None and one != {}}
            if request.method == "initialize":
                decides = {}
        if decides:
            essence["params"] = decides
        return essence

    def _key(self, method: str, value: JSONObject) -> Key:
        if self._level == "loose":
            params = value.get("params")
            named: JSONObject = {}
            if isinstance(params, dict):
                named = {name: params[name] for name in _NAMES if name in params}
            return _flat({"method": method, "params": named}, self._rules, ())
        return _flat(value, self._precise, () if self._level == "strict" else OPAQUE)

    def _first(self, among: deque[Said] | None) -> Said | None:
        while among and among[0].index in self._taken:
            among.popleft()
        return among[0] if among else None

    def _closest(self, among: deque[Said] | None, value: JSONObject) -> Said | None:
        if self._first(among) is None or among is None:
            return None
        free = islice((said for said in among if said.index not in self._taken), _MOST_CANDIDATES)
        return min(free, key=lambda said: len(self._differences(said, value)))

    def _behind_masks(self, method: str, value: JSONObject) -> Said | None:
        for said, rules in self._masked.get(method, ()):
            if said.index not in self._taken and not self._differences(said, value, rules):
                return said
        return None

    def _differences(
        self, said: Said, value: JSONObject, rules: Rules | None = None
    ) -> tuple[Difference, ...]:
        assert isinstance(said.message, Request)
        found = differences(self._essence(said.message), value, rules or self._rules)
        return tuple(islice(found, _MOST_DIFFERENCES))


def _is_mask(value: JSON) -> bool:
    return isinstance(value, str) and holds_mask(value)


def _flat(value: JSON, rules: Rules, opaque: tuple[str, ...]) -> Key:
    """``value`` as something hashable that is equal where no difference counts."""
    return tuple(sorted(_leaves(value, rules, Rules(opaque)), key=itemgetter(0)))


def _leaves(
    value: JSON, rules: Rules = EXACT, hidden: Rules = EXACT
) -> Iterator[tuple[str, str, str | int | float | bool | None]]:
    """Every scalar and every empty container, with its pointer; what ``hidden`` names without its value."""
    stack: list[tuple[str, JSON]] = [("", value)]
    while stack:
        pointer, one = stack.pop()
        if rules.ignores(pointer):
            continue
        if hidden.ignores(pointer):
            yield pointer, "hidden", None
        elif isinstance(one, dict):
            if not one:
                yield pointer, "object", None
            stack += [(pointer + token(name), each) for name, each in one.items()]
        elif isinstance(one, list):
            if not one:
                yield pointer, "array", None
            stack += [(f"{pointer}/{index}", each) for index, each in enumerate(one)]
        else:
            # True == 1 in Python, but not in JSON.
            yield pointer, "literal" if isinstance(one, bool) else "value", one
