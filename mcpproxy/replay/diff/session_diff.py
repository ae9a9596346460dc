"""Two sessions side by side: what the server of the one did, and what that of the other did.

Answers are compared with answers to the same request, lists by name, and what a server said of its own
accord with what it said then: equal ones first, the others of the same method in order.

What differs each time counts for nothing: ``_meta`` of a message, progress tokens, the version in
``serverInfo``; and of cursors, request states and names of tasks only whether they are there.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from typing import Final

import orjson

from mcpproxy.base.style import duration
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, Notification, Request
from mcpproxy.protocol.wording import shown
from mcpproxy.replay.diff import listing_diff
from mcpproxy.replay.diff.answer_diff import answer_changes, settled, there
from mcpproxy.replay.diff.comparison import Change, Item, judged, of_difference
from mcpproxy.replay.diff.listing_diff import Listing
from mcpproxy.replay.diff.values import Rules, differences
from mcpproxy.replay.recording import Said, Session
from mcpproxy.replay.server.matching import Matcher
from mcpproxy.session.frame import CLIENT, SERVER

VOLATILE: Final = (
    "/params/_meta/**",
    "/result/_meta/**",
    "/params/progressToken",
    "/result/serverInfo/version",
)
"""What differs each time, in every message."""

_SLOWER_NS: Final = 500_000_000
_SLOWER_TIMES: Final = 2
_CANDIDATES: Final = 50


@dataclass(frozen=True, slots=True)
class Pairing:
    """What of two sessions belongs together: places of requests, and numbers of HTTP exchanges.

    ``unasked`` are requests that were not sent again, with the reason.
    """

    requests: Mapping[int, int] = field(default_factory=dict[int, int])
    exchanges: Mapping[int, int] = field(default_factory=dict[int, int])
    unasked: Mapping[int, str] = field(default_factory=dict[int, str])


def paired(expected: Session, found: Session, rules: Rules) -> Pairing:
    """Which requests of two recordings are the same: by method and params, equal ones in order."""
    matcher = Matcher((said for said in found.messages if _is_asked(said)), ignore=rules.ignore)
    requests: dict[int, int] = {}
    exchanges: dict[int, int] = {}
    for said in expected.messages:
        if _is_asked(said) and isinstance(said.message, Request) and (twin := matcher.take(said.message)):
            requests[said.index] = twin.index
            if said.exchange and twin.exchange:
                exchanges[said.exchange] = twin.exchange
    return Pairing(requests, exchanges)


def contrast(
    expected: Session, found: Session, pairing: Pairing, rules: Rules, leaves_out: Sequence[str] = ()
) -> list[Item]:
    """Every item of two sessions; ``leaves_out`` are methods that do not count."""
    return _Contrast(expected, found, pairing, rules).items(frozenset(leaves_out))


class _Contrast:
    def __init__(self, expected: Session, found: Session, pairing: Pairing, rules: Rules) -> None:
        self._expected: Final = expected
        self._found: Final = found
        self._pairing: Final = pairing
        self._rules: Final = Rules((*VOLATILE, *rules.ignore), rules.alike)
        self._cancelled: Final = _cancelled(expected)
        self._answered_by_status: Final[set[tuple[int, int]]] = set()

    def items(self, leaves_out: frozenset[str]) -> list[Item]:
        there, new = self._asked(leaves_out)
        for more in (
            self._own(_server_requests, leaves_out),
            self._own(_server_notifications, leaves_out),
            self._stray(),
            self._exchanges(leaves_out),
        ):
            for place, item in more:
                there.append((place, item)) if item.frame is not None else new.append((place, item))
        there.sort(key=lambda pair: pair[0])
        new.sort(key=lambda pair: pair[0])
        return [item for _, item in (*there, *new)]

    def _asked(self, leaves_out: frozenset[str]) -> tuple[list[tuple[int, Item]], list[tuple[int, Item]]]:
        there: list[tuple[int, Item]] = []
        were, are = listing_diff.listings(self._expected), listing_diff.listings(self._found)
        were_first = {listing.first.index: listing for listing in were}
        are_first = {listing.first.index: listing for listing in are}
        pages, found_pages = listing_diff.pages(were), listing_diff.pages(are)
        taken = set(self._pairing.requests.values())
        for said in self._expected.messages:
            if not _is_asked(said) or said.method in leaves_out:
                continue
            twin_place = self._pairing.requests.get(said.index)
            twin = None if twin_place is None else self._found.messages[twin_place]
            listing = were_first.get(said.index)
            found_listing = None if twin is None else are_first.get(twin.index)
            if listing and found_listing and twin:
                there.append((said.index, self._listed(listing, found_listing)))
            elif said.index in pages and listing is None:
                continue
            else:
                there.append((said.index, self._answered(said, twin)))
        new = [
            (said.index, Item(named(said), "new", None, said.seq, remark="was not asked before"))
            for said in self._found.messages
            if _is_asked(said)
            and said.index not in taken
            and said.method not in leaves_out
            and (said.index not in found_pages or said.index in are_first)
        ]
        return there, new

    def _listed(self, expected: Listing, found: Listing) -> Item:
        changes = tuple(listing_diff.changes(expected, found, self._rules))
        return Item(named(expected.first), judged(changes), expected.first.seq, found.first.seq, changes)

    def _answered(self, said: Said, twin: Said | None) -> Item:
        what = named(said)
        was = self._answer(self._expected, said)
        if twin is None:
            reason = self._pairing.unasked.get(said.index, "is not asked any more")
            return Item(what, "missing", said.seq, remark=reason)
        answer = self._answer(self._found, twin)
        changes: list[Change] = []
        if was is not None and answer is not None:
            changes = list(answer_changes(was, answer, self._rules))
        if not any(change.kind == "status" for change in changes):
            changes += self._status_changes(said, twin)
        is_cancelled = said.index in self._cancelled
        if was is not None and answer is None and not changes and not is_cancelled:
            return Item(what, "missing", said.seq, twin.seq, remark="no answer")
        if was is None and answer is not None and not changes and not is_cancelled:
            return Item(what, "new", said.seq, twin.seq, remark="was not answered before")
        is_first = said.method in ("initialize", "server/discover")  # it waits for the server to start
        remark = "" if is_first else _slower(self._expected, self._found, was, answer)
        return Item(what, judged(changes), said.seq, twin.seq, tuple(changes), remark)

    def _answer(self, session: Session, request: Said) -> Said | None:
        """The answer to a request; over HTTP also an error without an id in the same exchange."""
        if (answer := session.answers_to(request)) or not request.exchange:
            return answer
        for said in session.messages[request.index :]:
            if said.exchange == request.exchange and _is_anonymous_error(said):
                self._answered_by_status.add((id(session), said.index))
                return said
        return None

    def _status_changes(self, said: Said, twin: Said) -> Iterator[Change]:
        was = self._expected.exchanges.get(said.exchange)
        now = self._found.exchanges.get(twin.exchange)
        if was and now and was.status and now.status and was.status != now.status:
            text = f"HTTP status is {now.status}, was {was.status}"
            yield Change("status", text, "", was.status, now.status)

    def _own(
        self, choose: Callable[[Session], Iterator[Said]], leaves_out: frozenset[str]
    ) -> Iterator[tuple[int, Item]]:
        """What servers said of their own accord, method by method."""
        were, are = _by_method(choose(self._expected)), _by_method(choose(self._found))
        for method in {**were, **are}:
            if method in leaves_out:
                continue
            for said, twin in _aligned(were.get(method, []), are.get(method, []), self._says_the_same):
                what = f"the server's {shown(method)[1:-1]}"
                if said is None and twin is not None:
                    yield twin.index, Item(what, "new", None, twin.seq)
                elif said is not None and twin is None:
                    yield said.index, Item(what, "missing", said.seq, remark="did not come")
                elif said is not None and twin is not None:
                    found = differences(_essence(said), _essence(twin), self._rules)
                    changes = tuple(of_difference(each) for each in found)
                    yield said.index, Item(what, judged(changes), said.seq, twin.seq, changes)

    def _stray(self) -> Iterator[tuple[int, Item]]:
        """Lines that are no message, and answers to nothing."""
        were, are = self._strays(self._expected), self._strays(self._found)
        for said, twin in _aligned(were, are, self._reads_the_same):
            what = "a line of the server's that answers nothing and is no message"
            if said is None and twin is not None:
                yield twin.index, Item(what, "new", None, twin.seq, remark=shown(_text(twin)))
            elif said is not None and twin is not None and self._reads_the_same(said, twin):
                yield said.index, Item(what, "same", said.seq, twin.seq)
            elif said is not None:
                yield said.index, Item(what, "missing", said.seq, remark=shown(_text(said)))
                if twin is not None:
                    yield twin.index, Item(what, "new", None, twin.seq, remark=shown(_text(twin)))

    def _says_the_same(self, said: Said, twin: Said) -> bool:
        return next(differences(_essence(said), _essence(twin), self._rules), None) is None

    def _reads_the_same(self, said: Said, twin: Said) -> bool:
        return self._rules.equal_texts(_text(said), _text(twin))

    def _strays(self, session: Session) -> list[Said]:
        refused = {exchange.number for exchange in session.exchanges.values() if exchange.status >= 300}
        return [
            said
            for said in session.messages
            if said.sender == SERVER
            and said.method is None
            and said.answers is None
            and said.raw.strip()
            and said.exchange not in refused  # the body of a refusal: its status is compared
            and (said.event is None or said.event.name in (None, "message"))
            and (id(session), said.index) not in self._answered_by_status
        ]

    def _exchanges(self, leaves_out: frozenset[str]) -> Iterator[tuple[int, Item]]:
        """HTTP exchanges in which nothing was asked: they count where their status is another."""
        if not any(exchange.status for exchange in self._found.exchanges.values()):
            return  # played on stdio
        said_in: defaultdict[int, list[Said]] = defaultdict(list)
        for said in self._expected.messages:
            if said.sender == CLIENT:
                said_in[said.exchange].append(said)
        for number, other in self._pairing.exchanges.items():
            was, now = self._expected.exchanges.get(number), self._found.exchanges.get(other)
            saids = said_in[number]
            if not was or not now or not was.status or was.status == now.status or any(map(_is_asked, saids)):
                continue
            methods = [self._method_of(said) for said in saids]
            if methods and leaves_out.issuperset(methods):
                continue
            what = f"HTTP {was.request.method}"
            if methods and methods[0]:
                method = shown(methods[0])[1:-1]
                what += f" {method}" if saids[0].method else f" with the answer to {method}"
            text = f"HTTP status is {now.status or 'missing'}, was {was.status}"
            change = Change("status", text, "", was.status, now.status)
            yield was.opened, Item(what, "changed", was.request.seq, now.request.seq, (change,))

    def _method_of(self, said: Said) -> str:
        """The method of a message, or for an answer that of what it answers; empty if that is not known."""
        if said.method is None and said.answers is not None:
            said = self._expected.messages[said.answers]
        return said.method or ""


def named(said: Said) -> str:
    """What a request is, in few words: ``tools/call "echo"``."""
    message = said.message
    if not isinstance(message, Request | Notification):
        return "a message"
    params = message.params if isinstance(message.params, dict) else {}
    name = params.get("name", params.get("uri"))
    method = shown(message.method)[1:-1]
    return f"{method} {shown(name)}" if isinstance(name, str) else method


def _is_asked(said: Said) -> bool:
    return said.sender == CLIENT and isinstance(said.message, Request)


def _server_requests(session: Session) -> Iterator[Said]:
    for said in session.messages:
        if said.sender == SERVER and isinstance(said.message, Request) and said.method != "ping":
            yield said


def _server_notifications(session: Session) -> Iterator[Said]:
    return (
        said for said in session.messages if said.sender == SERVER and isinstance(said.message, Notification)
    )


def _is_anonymous_error(said: Said) -> bool:
    message = said.message
    return (
        said.sender == SERVER and isinstance(message, ErrorResponse) and not isinstance(message.id, int | str)
    )


def _essence(said: Said) -> JSON:
    message = said.message
    params = message.params if isinstance(message, Request | Notification) else None
    return {"params": settled(there(params))}


def _text(said: Said) -> str:
    return said.raw.decode("utf-8", "backslashreplace")


def _slower(expected: Session, found: Session, was: Said | None, now: Said | None) -> str:
    before_ns = expected.latency_ns(was) if was else None
    after_ns = found.latency_ns(now) if now else None
    if before_ns is None or after_ns is None:
        return ""
    if after_ns - before_ns < _SLOWER_NS or after_ns < _SLOWER_TIMES * before_ns:
        return ""
    return f"slower: {duration(after_ns)}, was {duration(before_ns)}"


def _by_method(saids: Iterator[Said]) -> dict[str, list[Said]]:
    found: defaultdict[str, list[Said]] = defaultdict(list)
    for said in saids:
        found[said.method or ""].append(said)
    return dict(found)


def _aligned(
    were: Sequence[Said], are: Sequence[Said], is_same: Callable[[Said, Said], bool]
) -> Iterator[tuple[Said | None, Said | None]]:
    """Equal ones together, and those that are the same; then the others in order, and what is left over."""
    waiting: defaultdict[bytes, deque[Said]] = defaultdict(deque)
    for said in are:
        waiting[_fingerprint(said)].append(said)
    rest: list[Said] = []
    taken: set[int] = set()
    for said in were:
        equal = waiting.get(_fingerprint(said))
        if equal:
            twin = equal.popleft()
            taken.add(twin.index)
            yield said, twin
        else:
            rest.append(said)
    others = {said.index: said for said in are if said.index not in taken}
    unlike: list[Said] = []
    for said in rest:
        twin = next((each for each in islice(others.values(), _CANDIDATES) if is_same(said, each)), None)
        if twin is None:
            unlike.append(said)
        else:
            del others[twin.index]
            yield said, twin
    yield from zip_longest(unlike, others.values())


def _fingerprint(said: Said) -> bytes:
    """Equal for messages that differ in nothing that counts; unequal ones may still turn out the same."""
    if said.method is None:
        return said.raw
    essence = _essence(said)
    params = essence["params"] if isinstance(essence, dict) else None
    if isinstance(params, dict):
        params = {name: value for name, value in params.items() if name not in ("_meta", "progressToken")}
    try:
        return orjson.dumps(params, option=orjson.OPT_SORT_KEYS)
    except (TypeError, orjson.JSONEncodeError):
        return said.raw


def _cancelled(session: Session) -> set[int]:
    """The requests that the client took back: an answer to them may come or not."""
    last: dict[tuple[type, object], int] = {}
    found: set[int] = set()
    for said in session.messages:
        message = said.message
        if said.sender != CLIENT:
            continue
        if isinstance(message, Request) and message.id is not None:
            last[type(message.id), message.id] = said.index
        elif said.method == "notifications/cancelled" and isinstance(message, Notification):
            id = message.params.get("requestId") if isinstance(message.params, dict) else None
            if (place := last.get((type(id), id))) is not None:
                found.add(place)
    return found
