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
from mcpproxy.replay.diff.values import EXACT, Difference, DiffRules, differences
from mcpproxy.replay.recording import SessionMessage
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

    recorded: SessionMessage
    differences: tuple[Difference, ...]


class Matcher:
    """The requests of one recorded session, each to be taken once, equal ones in order."""

    def __init__(
        self, requests: Iterable[SessionMessage], level: Level = "default", ignore: Sequence[str] = ()
    ) -> None:
        self._level: Final[Level] = level
        always = ("/params/_meta/progressToken",) if level == "strict" else ("/params/_meta/**",)
        self._precise: Final = DiffRules((*always, *ignore))
        self._rules: Final = self._precise if level == "strict" else DiffRules((*always, *OPAQUE, *ignore))
        self._of_method: Final[defaultdict[str, list[SessionMessage]]] = defaultdict(list)
        self._exactly: Final[defaultdict[Key, deque[SessionMessage]]] = defaultdict(deque)
        self._alike: Final[defaultdict[Key, deque[SessionMessage]]] = defaultdict(deque)
        self._last: Final[dict[Key, SessionMessage]] = {}
        self._masked: Final[defaultdict[str, list[tuple[SessionMessage, DiffRules]]]] = defaultdict(list)
        self._taken: Final[set[int]] = set()
        self._all: Final[list[SessionMessage]] = []
        for entry in requests:
            self._add(entry)

    def take(self, request: Request) -> SessionMessage | None:
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

    def last(self, request: Request) -> SessionMessage | None:
        """The last equal one, taken or not."""
        return self._last.get(self._key(request.method, self._essence(request)))

    def nearest(self, request: Request) -> Nearest | None:
        """What is most like ``request``: the fewest differences, then one that is still free, then the first.

        Where the method was never recorded, that is the next request that is free.
        """
        value = self._essence(request)
        candidates = self._of_method.get(request.method)
        if not candidates:
            candidates = [entry for entry in self._all if entry.index not in self._taken][:1] or self._all[
                -1:
            ]
        best: tuple[int, bool, int] | None = None
        nearest: Nearest | None = None
        for entry in candidates[:_MOST_CANDIDATES]:
            found = self._differences(entry, value)
            rank = (len(found), entry.index in self._taken, entry.index)
            if best is None or rank < best:
                best, nearest = rank, Nearest(entry, found)
        return nearest

    @property
    def count(self) -> int:
        """How many requests there are."""
        return len(self._all)

    @property
    def taken(self) -> int:
        """How many of them were taken."""
        return len(self._taken)

    def _add(self, entry: SessionMessage) -> None:
        request = entry.message
        if not isinstance(request, Request):
            return
        value = self._essence(request)
        self._all.append(entry)
        self._of_method[request.method].append(entry)
        if masked := tuple(pointer for pointer, _, one in _leaves(value) if _is_mask(one)):
            rules = DiffRules((*self._rules.ignore, *masked))
            self._masked[request.method].append((entry, rules))
        self._exactly[_flat(value, self._precise, ())].append(entry)
        key = self._key(request.method, value)
        self._alike[key].append(entry)
        self._last[key] = entry

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

    def _first(self, among: deque[SessionMessage] | None) -> SessionMessage | None:
        while among and among[0].index in self._taken:
            among.popleft()
        return among[0] if among else None

    def _closest(self, among: deque[SessionMessage] | None, value: JSONObject) -> SessionMessage | None:
        if self._first(among) is None or among is None:
            return None
        free = islice((entry for entry in among if entry.index not in self._taken), _MOST_CANDIDATES)
        return min(free, key=lambda entry: len(self._differences(entry, value)))

    def _behind_masks(self, method: str, value: JSONObject) -> SessionMessage | None:
        for entry, rules in self._masked.get(method, ()):
            if entry.index not in self._taken and not self._differences(entry, value, rules):
                return entry
        return None

    def _differences(
        self, entry: SessionMessage, value: JSONObject, rules: DiffRules | None = None
    ) -> tuple[Difference, ...]:
        assert isinstance(entry.message, Request)
        found = differences(self._essence(entry.message), value, rules or self._rules)
        return tuple(islice(found, _MOST_DIFFERENCES))


def _is_mask(value: JSON) -> bool:
    return isinstance(value, str) and holds_mask(value)


def _flat(value: JSON, rules: DiffRules, opaque: tuple[str, ...]) -> Key:
    """``value`` as something hashable that is equal where no difference counts."""
    return tuple(sorted(_leaves(value, rules, DiffRules(opaque)), key=itemgetter(0)))


def _leaves(
    value: JSON, rules: DiffRules = EXACT, hidden: DiffRules = EXACT
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
