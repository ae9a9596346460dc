"""Compares what the servers of two sessions did.

Responses are compared with the responses to the same requests, lists by name, and the server's own requests
and notifications method by method: equal ones are paired first, the others in order.

Values that differ in every run do not count: ``_meta``, progress tokens and the version in ``serverInfo``. Of
cursors, request states and task ids only the presence counts.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from typing import Final

import orjson

from mcpproxy.base.style import duration
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, Notification, Request
from mcpproxy.protocol.wording import shown, unquoted
from mcpproxy.replay.diff import listing_diff
from mcpproxy.replay.diff.answer_diff import answer_changes, normalised, or_none
from mcpproxy.replay.diff.comparison import Change, ComparedItem, change_from, verdict_on
from mcpproxy.replay.diff.listing_diff import PagedListing
from mcpproxy.replay.diff.values import DiffRules, differences
from mcpproxy.replay.recording import RecordedSession, SessionMessage
from mcpproxy.replay.server.matching import Matcher
from mcpproxy.session.frame import CLIENT, SERVER

VOLATILE: Final = (
    "/params/_meta/**",
    "/result/_meta/**",
    "/params/progressToken",
    "/result/serverInfo/version",
)
"""Members that differ in every run."""

_SLOWER_NS: Final = 500_000_000
_SLOWER_TIMES: Final = 2
"""An answer is slower if it takes at least this much longer, and at least this many times as long."""

_CANDIDATES: Final = 50
"""How many messages without a partner are compared with each other one, to find an equivalent one."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """Which requests (by index) and HTTP exchanges (by number) of two sessions correspond.

    ``unsent`` holds the requests that were not sent again, with the reason.
    """

    requests: Mapping[int, int] = field(default_factory=dict[int, int])
    exchanges: Mapping[int, int] = field(default_factory=dict[int, int])
    unsent: Mapping[int, str] = field(default_factory=dict[int, str])


def pair_requests(expected: RecordedSession, found: RecordedSession, rules: DiffRules) -> Pairing:
    """Pair the requests of two sessions by method and params, equal ones in order."""
    matcher = Matcher((entry for entry in found.messages if _is_client_request(entry)), ignore=rules.ignore)
    requests: dict[int, int] = {}
    exchanges: dict[int, int] = {}
    for entry in expected.messages:
        if (
            _is_client_request(entry)
            and isinstance(entry.message, Request)
            and (twin := matcher.take(entry.message))
        ):
            requests[entry.index] = twin.index
            if entry.exchange and twin.exchange:
                exchanges[entry.exchange] = twin.exchange
    return Pairing(requests, exchanges)


def compare_sessions(
    expected: RecordedSession,
    found: RecordedSession,
    pairing: Pairing,
    rules: DiffRules,
    ignored_methods: Sequence[str] = (),
) -> list[ComparedItem]:
    """Return every item of two sessions, without the methods in ``ignored_methods``."""
    return _SessionComparison(expected, found, pairing, rules).items(frozenset(ignored_methods))


class _SessionComparison:
    """Compares the session ``found`` with the session ``expected``."""

    def __init__(
        self, expected: RecordedSession, found: RecordedSession, pairing: Pairing, rules: DiffRules
    ) -> None:
        self._expected: Final = expected
        self._found: Final = found
        self._pairing: Final = pairing
        self._rules: Final = DiffRules(ignore=(*VOLATILE, *rules.ignore), alike=rules.alike)
        self._cancelled: Final = _cancelled(expected)
        # The errors without an id that were taken as answers: session and index of each.
        self._answers_without_id: Final[set[tuple[int, int]]] = set()

    def items(self, ignored_methods: frozenset[str]) -> list[ComparedItem]:
        known_items, new_items = self._client_requests(ignored_methods)
        for more in (
            self._unsolicited(_server_requests, ignored_methods),
            self._unsolicited(_server_notifications, ignored_methods),
            self._unmatched_lines(),
            self._exchanges(ignored_methods),
        ):
            for index, item in more:
                items = new_items if item.frame is None else known_items
                items.append((index, item))
        known_items.sort(key=lambda pair: pair[0])
        new_items.sort(key=lambda pair: pair[0])
        return [item for _, item in (*known_items, *new_items)]

    def _client_requests(
        self, ignored_methods: frozenset[str]
    ) -> tuple[list[tuple[int, ComparedItem]], list[tuple[int, ComparedItem]]]:
        known_items: list[tuple[int, ComparedItem]] = []
        expected, found = listing_diff.listings(self._expected), listing_diff.listings(self._found)
        expected_by_first = {listing.first.index: listing for listing in expected}
        found_by_first = {listing.first.index: listing for listing in found}
        expected_pages, found_pages = listing_diff.pages(expected), listing_diff.pages(found)
        taken = set(self._pairing.requests.values())
        for entry in self._expected.messages:
            if not _is_client_request(entry) or entry.method in ignored_methods:
                continue
            twin_index = self._pairing.requests.get(entry.index)
            twin = None if twin_index is None else self._found.messages[twin_index]
            listing = expected_by_first.get(entry.index)
            found_listing = None if twin is None else found_by_first.get(twin.index)
            if listing and found_listing and twin:
                known_items.append((entry.index, self._compare_listings(listing, found_listing)))
            elif entry.index in expected_pages and listing is None:
                continue
            else:
                known_items.append((entry.index, self._compare_answers(entry, twin)))
        new_items = [
            (
                entry.index,
                ComparedItem(described(entry), "new", None, entry.seq, remark="was not asked before"),
            )
            for entry in self._found.messages
            if _is_client_request(entry)
            and entry.index not in taken
            and entry.method not in ignored_methods
            and (entry.index not in found_pages or entry.index in found_by_first)
        ]
        return known_items, new_items

    def _compare_listings(self, expected: PagedListing, found: PagedListing) -> ComparedItem:
        changes = tuple(listing_diff.changes(expected, found, self._rules))
        return ComparedItem(
            described(expected.first), verdict_on(changes), expected.first.seq, found.first.seq, changes
        )

    def _compare_answers(self, entry: SessionMessage, twin: SessionMessage | None) -> ComparedItem:
        what = described(entry)
        expected = self._answer(self._expected, entry)
        if twin is None:
            reason = self._pairing.unsent.get(entry.index, "is not asked any more")
            return ComparedItem(what, "missing", entry.seq, remark=reason)
        found = self._answer(self._found, twin)
        changes: list[Change] = []
        if expected is not None and found is not None:
            changes = list(answer_changes(expected, found, self._rules))
        if not any(change.kind == "status" for change in changes):
            changes += self._status_changes(entry, twin)
        is_cancelled = entry.index in self._cancelled
        if expected is not None and found is None and not changes and not is_cancelled:
            return ComparedItem(what, "missing", entry.seq, twin.seq, remark="no answer")
        if expected is None and found is not None and not changes and not is_cancelled:
            return ComparedItem(what, "new", entry.seq, twin.seq, remark="was not answered before")
        is_first = entry.method in ("initialize", "server/discover")  # it waits for the server to start
        remark = "" if is_first else _slower(self._expected, self._found, expected, found)
        return ComparedItem(what, verdict_on(changes), entry.seq, twin.seq, tuple(changes), remark)

    def _answer(self, session: RecordedSession, request: SessionMessage) -> SessionMessage | None:
        """Return the response to a request; over HTTP also an error without id in the same exchange."""
        if (answer := session.answers_to(request)) or not request.exchange:
            return answer
        for entry in session.messages[request.index :]:
            if entry.exchange == request.exchange and _is_anonymous_error(entry):
                self._answers_without_id.add((id(session), entry.index))
                return entry
        return None

    def _status_changes(self, entry: SessionMessage, twin: SessionMessage) -> Iterator[Change]:
        was = self._expected.exchanges.get(entry.exchange)
        now = self._found.exchanges.get(twin.exchange)
        if was and now and was.status and now.status and was.status != now.status:
            text = f"HTTP status is {now.status}, was {was.status}"
            yield Change("status", text, "", was.status, now.status)

    def _unsolicited(
        self, choose: Callable[[RecordedSession], Iterator[SessionMessage]], ignored_methods: frozenset[str]
    ) -> Iterator[tuple[int, ComparedItem]]:
        """Yield the servers' own requests and notifications, method by method."""
        expected, found = _by_method(choose(self._expected)), _by_method(choose(self._found))
        for method in {**expected, **found}:
            if method in ignored_methods:
                continue
            pairs = _aligned(expected.get(method, []), found.get(method, []), self._have_equal_params)
            for entry, twin in pairs:
                what = f"the server's {unquoted(method)}"
                if entry is None and twin is not None:
                    yield twin.index, ComparedItem(what, "new", None, twin.seq)
                elif entry is not None and twin is None:
                    yield entry.index, ComparedItem(what, "missing", entry.seq, remark="did not come")
                elif entry is not None and twin is not None:
                    differing = differences(_compared_params(entry), _compared_params(twin), self._rules)
                    changes = tuple(change_from(each) for each in differing)
                    yield entry.index, ComparedItem(what, verdict_on(changes), entry.seq, twin.seq, changes)

    def _unmatched_lines(self) -> Iterator[tuple[int, ComparedItem]]:
        """Yield lines that are not messages, and responses without a request."""
        expected = self._lines_without_request(self._expected)
        found = self._lines_without_request(self._found)
        for entry, twin in _aligned(expected, found, self._have_equal_texts):
            what = "a line of the server that is neither a message nor an answer"
            if entry is None and twin is not None:
                yield twin.index, ComparedItem(what, "new", None, twin.seq, remark=shown(_text(twin)))
            elif entry is not None and twin is not None and self._have_equal_texts(entry, twin):
                yield entry.index, ComparedItem(what, "same", entry.seq, twin.seq)
            elif entry is not None:
                yield entry.index, ComparedItem(what, "missing", entry.seq, remark=shown(_text(entry)))
                if twin is not None:
                    yield twin.index, ComparedItem(what, "new", None, twin.seq, remark=shown(_text(twin)))

    def _have_equal_params(self, entry: SessionMessage, twin: SessionMessage) -> bool:
        return next(differences(_compared_params(entry), _compared_params(twin), self._rules), None) is None

    def _have_equal_texts(self, entry: SessionMessage, twin: SessionMessage) -> bool:
        return self._rules.equal_texts(_text(entry), _text(twin))

    def _lines_without_request(self, session: RecordedSession) -> list[SessionMessage]:
        refused = {exchange.number for exchange in session.exchanges.values() if exchange.status >= 300}
        return [
            entry
            for entry in session.messages
            if entry.sender == SERVER
            and entry.method is None
            and entry.answers is None
            and entry.raw.strip()
            and entry.exchange not in refused  # the body of a refusal: its status is compared
            and (entry.event is None or entry.event.name in (None, "message"))
            and (id(session), entry.index) not in self._answers_without_id
        ]

    def _exchanges(self, ignored_methods: frozenset[str]) -> Iterator[tuple[int, ComparedItem]]:
        """Yield HTTP exchanges without a request, where their status differs."""
        if not any(exchange.status for exchange in self._found.exchanges.values()):
            return  # the live session was on stdio
        client_messages: defaultdict[int, list[SessionMessage]] = defaultdict(list)
        for entry in self._expected.messages:
            if entry.sender == CLIENT:
                client_messages[entry.exchange].append(entry)
        for number, other in self._pairing.exchanges.items():
            was, now = self._expected.exchanges.get(number), self._found.exchanges.get(other)
            entries = client_messages[number]
            if (
                not was
                or not now
                or not was.status
                or was.status == now.status
                or any(map(_is_client_request, entries))
            ):
                continue
            methods = [self._method_of(entry) for entry in entries]
            if methods and ignored_methods.issuperset(methods):
                continue
            what = f"HTTP {was.request.method}"
            if methods and methods[0]:
                method = unquoted(methods[0])
                what += f" {method}" if entries[0].method else f" with the answer to {method}"
            text = f"HTTP status is {now.status or 'missing'}, was {was.status}"
            change = Change("status", text, "", was.status, now.status)
            yield was.opened, ComparedItem(what, "changed", was.request.seq, now.request.seq, (change,))

    def _method_of(self, entry: SessionMessage) -> str:
        """Return the method of a message, or of the request that a response answers; empty if unknown."""
        if entry.method is None and entry.answers is not None:
            entry = self._expected.messages[entry.answers]
        return entry.method or ""


def described(entry: SessionMessage) -> str:
    """Return a short description of a request: ``tools/call "echo"``."""
    message = entry.message
    if not isinstance(message, Request | Notification):
        return "a message"
    params = message.params if isinstance(message.params, dict) else {}
    name = params.get("name", params.get("uri"))
    method = unquoted(message.method)
    return f"{method} {shown(name)}" if isinstance(name, str) else method


def _is_client_request(entry: SessionMessage) -> bool:
    return entry.sender == CLIENT and isinstance(entry.message, Request)


def _server_requests(session: RecordedSession) -> Iterator[SessionMessage]:
    for entry in session.messages:
        if entry.sender == SERVER and isinstance(entry.message, Request) and entry.method != "ping":
            yield entry


def _server_notifications(session: RecordedSession) -> Iterator[SessionMessage]:
    return (
        entry
        for entry in session.messages
        if entry.sender == SERVER and isinstance(entry.message, Notification)
    )


def _is_anonymous_error(entry: SessionMessage) -> bool:
    message = entry.message
    return (
        entry.sender == SERVER
        and isinstance(message, ErrorResponse)
        and not isinstance(message.id, int | str)
    )


def _compared_params(entry: SessionMessage) -> JSON:
    message = entry.message
    params = message.params if isinstance(message, Request | Notification) else None
    return {"params": normalised(or_none(params))}


def _text(entry: SessionMessage) -> str:
    return entry.raw.decode("utf-8", "backslashreplace")


def _slower(
    expected: RecordedSession, found: RecordedSession, was: SessionMessage | None, now: SessionMessage | None
) -> str:
    before_ns = expected.latency_ns(was) if was else None
    after_ns = found.latency_ns(now) if now else None
    if before_ns is None or after_ns is None:
        return ""
    if after_ns - before_ns < _SLOWER_NS or after_ns < _SLOWER_TIMES * before_ns:
        return ""
    return f"slower: {duration(after_ns)}, was {duration(before_ns)}"


def _by_method(entries: Iterator[SessionMessage]) -> dict[str, list[SessionMessage]]:
    found: defaultdict[str, list[SessionMessage]] = defaultdict(list)
    for entry in entries:
        found[entry.method or ""].append(entry)
    return dict(found)


def _aligned(
    expected: Sequence[SessionMessage],
    found: Sequence[SessionMessage],
    is_same: Callable[[SessionMessage, SessionMessage], bool],
) -> Iterator[tuple[SessionMessage | None, SessionMessage | None]]:
    """Pair messages: equal ones, then equivalent ones, then the others in order; the rest have no partner."""
    waiting: defaultdict[bytes, deque[SessionMessage]] = defaultdict(deque)
    for entry in found:
        waiting[_fingerprint(entry)].append(entry)
    rest: list[SessionMessage] = []
    taken: set[int] = set()
    for entry in expected:
        equal = waiting.get(_fingerprint(entry))
        if equal:
            twin = equal.popleft()
            taken.add(twin.index)
            yield entry, twin
        else:
            rest.append(entry)
    others = {entry.index: entry for entry in found if entry.index not in taken}
    unlike: list[SessionMessage] = []
    for entry in rest:
        twin = next((each for each in islice(others.values(), _CANDIDATES) if is_same(entry, each)), None)
        if twin is None:
            unlike.append(entry)
        else:
            del others[twin.index]
            yield entry, twin
    yield from zip_longest(unlike, others.values())


def _fingerprint(entry: SessionMessage) -> bytes:
    """Return a key: equal keys mean equivalent messages, but equivalent messages may have different keys."""
    if entry.method is None:
        return entry.raw
    compared_params = _compared_params(entry)
    params = compared_params["params"] if isinstance(compared_params, dict) else None
    if isinstance(params, dict):
        params = {name: value for name, value in params.items() if name not in ("_meta", "progressToken")}
    try:
        return orjson.dumps(params, option=orjson.OPT_SORT_KEYS)
    except (TypeError, orjson.JSONEncodeError):
        return entry.raw


def _cancelled(session: RecordedSession) -> set[int]:
    """Return the requests that the client cancelled: a response to them may or may not come."""
    last: dict[tuple[type, object], int] = {}
    found: set[int] = set()
    for entry in session.messages:
        message = entry.message
        if entry.sender != CLIENT:
            continue
        if isinstance(message, Request) and message.id is not None:
            last[type(message.id), message.id] = entry.index
        elif entry.method == "notifications/cancelled" and isinstance(message, Notification):
            id = message.params.get("requestId") if isinstance(message.params, dict) else None
            if (index := last.get((type(id), id))) is not None:
                found.add(index)
    return found
