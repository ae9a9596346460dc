"""Match a live request with a recorded request, by method and params.

There are three levels. ``strict`` compares everything except the progress token. ``default`` does not compare
``_meta`` and the params of ``initialize``, and treats members of ``params`` that are null or ``{}`` as
absent; of a cursor, a request state and the answers to input requests it compares only whether they are
present. ``loose`` compares only the method and the name in the params (a tool, a prompt, a URI), and takes
the recorded request with the fewest differences.

A masked value in the recording matches any value.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Final, Literal, TypeAlias

from mcpproxy.judge.session.masked_values import holds_mask
from mcpproxy.peers.replay.diff.values import EXACT, Difference, DiffRules, differences
from mcpproxy.peers.replay.recording import SessionMessage
from mcpproxy.protocol.jsonrpc import JSON, JSONObject, Request
from mcpproxy.protocol.message_parts import TARGETS
from mcpproxy.protocol.wording import token

Level: TypeAlias = Literal["strict", "default", "loose"]

LEVELS: Final[tuple[Level, ...]] = ("strict", "default", "loose")

OPAQUE: Final = ("/params/cursor", "/params/requestState", "/params/inputResponses/*")
"""JSON Pointers to values that the server issued or the client generated. Only ``strict`` compares them."""

_NAMES: Final = (*dict.fromkeys(TARGETS.values()), "ref", "taskId")
"""The members of params that name a tool, prompt, resource or task; ``loose`` compares only these."""
_MAX_DIFFERENCES: Final = 20
"""How many differences between two requests are counted at most."""
_MAX_CANDIDATES: Final = 500
"""How many recorded requests a live request is compared with at most."""

Key: TypeAlias = tuple[object, ...]
"""A hashable form of the compared part of a request."""


@dataclass(frozen=True, slots=True)
class Nearest:
    """The recorded request most similar to a live request, and the differences between the two."""

    recorded: SessionMessage
    differences: tuple[Difference, ...]


class Matcher:
    """The requests of one recorded session. Each can be taken once; equal requests are taken in order.

    ``ignore`` are JSON Pointers to values that are not compared, as in ``DiffRules``.
    """

    def __init__(
        self, requests: Iterable[SessionMessage], level: Level = "default", ignore: Sequence[str] = ()
    ) -> None:
        self._level: Final[Level] = level
        volatile = ("/params/_meta/progressToken",) if level == "strict" else ("/params/_meta/**",)
        self._exact_rules: Final = DiffRules((*volatile, *ignore))
        self._rules: Final = (
            self._exact_rules if level == "strict" else DiffRules((*volatile, *OPAQUE, *ignore))
        )
        self._by_method: Final[defaultdict[str, list[SessionMessage]]] = defaultdict(list)
        # The requests by all their values, and by those values that this level compares.
        self._by_exact_key: Final[defaultdict[Key, deque[SessionMessage]]] = defaultdict(deque)
        self._by_key: Final[defaultdict[Key, deque[SessionMessage]]] = defaultdict(deque)
        self._last_by_key: Final[dict[Key, SessionMessage]] = {}
        # Method -> requests with masked values, each with rules that ignore these values.
        self._masked_requests: Final[defaultdict[str, list[tuple[SessionMessage, DiffRules]]]] = defaultdict(
            list
        )
        self._taken_indices: Final[set[int]] = set()
        self._all_requests: Final[list[SessionMessage]] = []
        for entry in requests:
            self._add_request(entry)

    def take(self, request: Request) -> SessionMessage | None:
        """Take the recorded request that matches best; of equal requests, the first not taken yet.

        Return ``None`` if no request that was not taken matches.
        """
        value = self._compared_part(request)
        entry = self._first_untaken(self._by_exact_key.get(_hashable_key(value, self._exact_rules, ())))
        if entry is None:
            candidates = self._by_key.get(self._key(request.method, value))
            entry = (
                self._closest_untaken(candidates, value)
                if self._level == "loose"
                else self._first_untaken(candidates)
            )
        if entry is None:
            entry = self._first_equal_but_masked(request.method, value)
        if entry is not None:
            self._taken_indices.add(entry.index)
        return entry

    def last(self, request: Request) -> SessionMessage | None:
        """Return the last recorded request that equals ``request`` at this level, taken or not.

        Return ``None`` if there is none.
        """
        return self._last_by_key.get(self._key(request.method, self._compared_part(request)))

    def nearest(self, request: Request) -> Nearest | None:
        """Return the recorded request with the fewest differences, preferably one that was not taken.

        If the method was never recorded, return the next request of any method that was not taken, or else
        the last request. Return ``None`` if there are no requests.
        """
        value = self._compared_part(request)
        candidates = self._by_method.get(request.method)
        if not candidates:
            untaken = [entry for entry in self._all_requests if entry.index not in self._taken_indices]
            candidates = untaken[:1] or self._all_requests[-1:]
        best: tuple[int, bool, int] | None = None
        nearest: Nearest | None = None
        for entry in candidates[:_MAX_CANDIDATES]:
            differing = self._differences(entry, value)
            rank = (len(differing), entry.index in self._taken_indices, entry.index)
            if best is None or rank < best:
                best, nearest = rank, Nearest(entry, differing)
        return nearest

    @property
    def count(self) -> int:
        """How many requests there are."""
        return len(self._all_requests)

    @property
    def taken(self) -> int:
        """How many requests were taken."""
        return len(self._taken_indices)

    def _add_request(self, entry: SessionMessage) -> None:
        request = entry.message
        if not isinstance(request, Request):
            return
        value = self._compared_part(request)
        self._all_requests.append(entry)
        self._by_method[request.method].append(entry)
        if masked := tuple(pointer for pointer, _, leaf in _leaves(value) if _is_mask(leaf)):
            rules = DiffRules((*self._rules.ignore, *masked))
            self._masked_requests[request.method].append((entry, rules))
        self._by_exact_key[_hashable_key(value, self._exact_rules, ())].append(entry)
        key = self._key(request.method, value)
        self._by_key[key].append(entry)
        self._last_by_key[key] = entry

    def _compared_part(self, request: Request) -> JSONObject:
        """Return the part of a request that is compared."""
        params = request.params
        compared_part: JSONObject = {"method": request.method}
        if not isinstance(params, dict):
            return compared_part
        compared_params: JSONObject = dict(params)
        if self._level != "strict":
            # For an empty member, client libraries send nothing, null or an empty object.
            compared_params = {
                name: member for name, member in params.items() if member is not None and member != {}
            }
            if request.method == "initialize":
                compared_params = {}
        if compared_params:
            compared_part["params"] = compared_params
        return compared_part

    def _key(self, method: str, value: JSONObject) -> Key:
        """Return a key that is equal for requests that are equal at this level."""
        if self._level == "loose":
            params = value.get("params")
            named: JSONObject = {}
            if isinstance(params, dict):
                named = {name: params[name] for name in _NAMES if name in params}
            return _hashable_key({"method": method, "params": named}, self._rules, ())
        return _hashable_key(value, self._exact_rules, () if self._level == "strict" else OPAQUE)

    def _first_untaken(self, candidates: deque[SessionMessage] | None) -> SessionMessage | None:
        """Return the first candidate that was not taken."""
        while candidates and candidates[0].index in self._taken_indices:
            candidates.popleft()
        return candidates[0] if candidates else None

    def _closest_untaken(
        self, candidates: deque[SessionMessage] | None, value: JSONObject
    ) -> SessionMessage | None:
        """Return the candidate that was not taken and has the fewest differences."""
        if self._first_untaken(candidates) is None or candidates is None:
            return None
        untaken = islice(
            (entry for entry in candidates if entry.index not in self._taken_indices), _MAX_CANDIDATES
        )
        return min(untaken, key=lambda entry: len(self._differences(entry, value)))

    def _first_equal_but_masked(self, method: str, value: JSONObject) -> SessionMessage | None:
        """Return the first request that was not taken and differs only where the recording is masked."""
        for entry, rules in self._masked_requests.get(method, ()):
            if entry.index not in self._taken_indices and not self._differences(entry, value, rules):
                return entry
        return None

    def _differences(
        self, entry: SessionMessage, value: JSONObject, rules: DiffRules | None = None
    ) -> tuple[Difference, ...]:
        assert isinstance(entry.message, Request)
        all_differences = differences(self._compared_part(entry.message), value, rules or self._rules)
        return tuple(islice(all_differences, _MAX_DIFFERENCES))


def _is_mask(value: JSON) -> bool:
    return isinstance(value, str) and holds_mask(value)


def _hashable_key(value: JSON, rules: DiffRules, opaque: tuple[str, ...]) -> Key:
    """Return ``value`` as a hashable key, equal for values without a difference that counts."""
    return tuple(sorted(_leaves(value, rules, DiffRules(opaque)), key=itemgetter(0)))


def _leaves(
    value: JSON, rules: DiffRules = EXACT, hidden: DiffRules = EXACT
) -> Iterator[tuple[str, str, str | int | float | bool | None]]:
    """Yield every scalar and every empty container: its pointer, its kind and its value.

    At a pointer that ``rules`` ignores, nothing is yielded. At a pointer that ``hidden`` ignores, the kind is
    ``hidden`` and the value is left out.
    """
    stack: list[tuple[str, JSON]] = [("", value)]
    while stack:
        pointer, item = stack.pop()
        if rules.ignores(pointer):
            continue
        if hidden.ignores(pointer):
            yield pointer, "hidden", None
        elif isinstance(item, dict):
            if not item:
                yield pointer, "object", None
            stack += [(pointer + token(name), child) for name, child in item.items()]
        elif isinstance(item, list):
            if not item:
                yield pointer, "array", None
            stack += [(f"{pointer}/{index}", child) for index, child in enumerate(item)]
        else:
            # In Python True equals 1, in JSON it does not: the kind tells them apart.
            yield pointer, "literal" if isinstance(item, bool) else "value", item
