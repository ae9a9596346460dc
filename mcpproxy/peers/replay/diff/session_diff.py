"""Compare what the servers of two sessions sent.

A response is compared with the response to the same request in the other session. Lists are compared by the
names of their entries. Requests and notifications of the server are compared method by method: equal messages
are paired first, and the others in order.

Values that differ in every run are not compared: ``_meta``, progress tokens and the version in
``serverInfo``. Of cursors, request states, session ids, and the ids and times of tasks only the presence is
compared.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from typing import Final

import orjson

from mcpproxy.base.style import duration
from mcpproxy.judge.session.frame import CLIENT, SERVER
from mcpproxy.peers.replay.diff import listing_diff
from mcpproxy.peers.replay.diff.answer_diff import answer_changes, normalised
from mcpproxy.peers.replay.diff.comparison import Change, ComparedItem, change_from, verdict_on
from mcpproxy.peers.replay.diff.listing_diff import PagedListing
from mcpproxy.peers.replay.diff.values import DiffRules, differences
from mcpproxy.peers.replay.recording import RecordedSession, SessionMessage
from mcpproxy.peers.replay.server.matching import Matcher
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, Notification, Request
from mcpproxy.protocol.message_parts import or_none, target_of
from mcpproxy.protocol.methods import OPENINGS
from mcpproxy.protocol.wording import shown, unquoted

VOLATILE: Final = (
    "/params/_meta/**",
    "/result/_meta/**",
    "/params/progressToken",
    "/result/serverInfo/version",
)
"""JSON Pointers, as in ``DiffRules``, of members that differ in every run."""

_SLOWER_NS: Final = 500_000_000
_SLOWER_TIMES: Final = 2
"""A response counts as slower if it takes at least ``_SLOWER_NS`` longer and ``_SLOWER_TIMES`` as long."""

_MAX_CANDIDATES: Final = 50
"""How many messages of the second session a message is compared with, to find an equivalent message."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """Which requests (by index) and HTTP exchanges (by number) of two sessions correspond.

    ``unsent`` maps each request that was not sent again to the reason.
    """

    requests: Mapping[int, int] = field(default_factory=dict[int, int])
    exchanges: Mapping[int, int] = field(default_factory=dict[int, int])
    unsent: Mapping[int, str] = field(default_factory=dict[int, str])


def pair_requests(expected: RecordedSession, found: RecordedSession, rules: DiffRules) -> Pairing:
    """Pair the requests of two sessions that have the same method and params; repeated requests in order.

    They are compared as by ``Matcher`` by default; values that ``rules`` ignore need not be the same, either.
    """
    matcher = Matcher((entry for entry in found.messages if _is_client_request(entry)), ignore=rules.ignore)
    requests: dict[int, int] = {}
    exchanges: dict[int, int] = {}
    for entry in expected.messages:
        if (
            _is_client_request(entry)
            and isinstance(entry.message, Request)
            and (counterpart := matcher.take(entry.message))
        ):
            requests[entry.index] = counterpart.index
            if entry.exchange and counterpart.exchange:
                exchanges[entry.exchange] = counterpart.exchange
    return Pairing(requests, exchanges)


def compare_sessions(
    expected: RecordedSession,
    found: RecordedSession,
    pairing: Pairing,
    rules: DiffRules,
    ignored_methods: Sequence[str] = (),
) -> list[ComparedItem]:
    """Return every item of two sessions, except messages whose method is in ``ignored_methods``.

    An HTTP exchange without a request of JSON-RPC is an item only if its status changed.
    """
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
        self._cancelled_requests: Final = _cancelled_requests(expected)
        # The errors without an id that count as responses: (``id()`` of the session, index of the error).
        self._answers_without_id: Final[set[tuple[int, int]]] = set()

    def items(self, ignored_methods: frozenset[str]) -> list[ComparedItem]:
        """Return all items: first those of the expected session in order, then the new ones in order."""
        expected_items, new_items = self._client_requests(ignored_methods)
        for indexed_items in (
            self._unsolicited(_server_requests, ignored_methods),
            self._unsolicited(_server_notifications, ignored_methods),
            self._unmatched_lines(),
            self._changed_exchanges(ignored_methods),
        ):
            for index, item in indexed_items:
                items = new_items if item.frame is None else expected_items
                items.append((index, item))
        expected_items.sort(key=lambda pair: pair[0])
        new_items.sort(key=lambda pair: pair[0])
        return [item for _, item in (*expected_items, *new_items)]

    def _client_requests(
        self, ignored_methods: frozenset[str]
    ) -> tuple[list[tuple[int, ComparedItem]], list[tuple[int, ComparedItem]]]:
        """Return the items of the expected requests of the client, and of new ones, each with its index."""
        expected_items: list[tuple[int, ComparedItem]] = []
        expected, found = listing_diff.listings(self._expected), listing_diff.listings(self._found)
        expected_by_first = {listing.first.index: listing for listing in expected}
        found_by_first = {listing.first.index: listing for listing in found}
        expected_pages, found_pages = (
            listing_diff.request_indices(expected),
            listing_diff.request_indices(found),
        )
        paired = set(self._pairing.requests.values())
        for entry in self._expected.messages:
            if not _is_client_request(entry) or entry.method in ignored_methods:
                continue
            counterpart_index = self._pairing.requests.get(entry.index)
            counterpart = None if counterpart_index is None else self._found.messages[counterpart_index]
            listing = expected_by_first.get(entry.index)
            found_listing = None if counterpart is None else found_by_first.get(counterpart.index)
            if listing and found_listing and counterpart:
                expected_items.append((entry.index, self._compare_listings(listing, found_listing)))
            elif entry.index in expected_pages and listing is None:
                continue  # a further page: the listing is one item, at its first page
            else:
                expected_items.append((entry.index, self._compare_answers(entry, counterpart)))
        new_items = [
            (
                entry.index,
                ComparedItem(described(entry), "new", None, entry.seq, remark="was not asked before"),
            )
            for entry in self._found.messages
            if _is_client_request(entry)
            and entry.index not in paired
            and entry.method not in ignored_methods
            and (entry.index not in found_pages or entry.index in found_by_first)
        ]
        return expected_items, new_items

    def _compare_listings(self, expected: PagedListing, found: PagedListing) -> ComparedItem:
        changes = tuple(listing_diff.changes(expected, found, self._rules))
        return ComparedItem(
            described(expected.first), verdict_on(changes), expected.first.seq, found.first.seq, changes
        )

    def _compare_answers(self, entry: SessionMessage, counterpart: SessionMessage | None) -> ComparedItem:
        what = described(entry)
        expected = self._answer_of(self._expected, entry)
        if counterpart is None:
            reason = self._pairing.unsent.get(entry.index, "is not asked any more")
            return ComparedItem(what, "missing", entry.seq, remark=reason)
        found = self._answer_of(self._found, counterpart)
        changes: list[Change] = []
        if expected is not None and found is not None:
            changes = list(answer_changes(expected, found, self._rules))
        if not any(change.kind == "status" for change in changes):
            changes += self._status_changes(entry, counterpart)
        is_cancelled = entry.index in self._cancelled_requests
        if expected is not None and found is None and not changes and not is_cancelled:
            return ComparedItem(what, "missing", entry.seq, counterpart.seq, remark="no answer")
        if expected is None and found is not None and not changes and not is_cancelled:
            return ComparedItem(what, "new", entry.seq, counterpart.seq, remark="was not answered before")
        # The first request also waits for the server to start, so its latency is not compared.
        is_first = entry.method in OPENINGS
        remark = "" if is_first else _slower_remark(self._expected, self._found, expected, found)
        return ComparedItem(what, verdict_on(changes), entry.seq, counterpart.seq, tuple(changes), remark)

    def _answer_of(self, session: RecordedSession, request: SessionMessage) -> SessionMessage | None:
        """Return the response to a request, or ``None``; over HTTP it may be an error without an id."""
        if (answer := session.answer_to(request)) or not request.exchange:
            return answer
        for entry in session.messages[request.index :]:
            if entry.exchange == request.exchange and _is_anonymous_error(entry):
                self._answers_without_id.add((id(session), entry.index))
                return entry
        return None

    def _status_changes(self, entry: SessionMessage, counterpart: SessionMessage) -> Iterator[Change]:
        """Yield a change if the HTTP status of the response to a request changed."""
        expected = self._expected.exchanges.get(entry.exchange)
        found = self._found.exchanges.get(counterpart.exchange)
        old_status, new_status = expected.status if expected else 0, found.status if found else 0
        if old_status and new_status and old_status != new_status:
            text = f"HTTP status is {new_status}, was {old_status}"
            yield Change("status", text, "", old_status, new_status)

    def _unsolicited(
        self, selected: Callable[[RecordedSession], Iterator[SessionMessage]], ignored_methods: frozenset[str]
    ) -> Iterator[tuple[int, ComparedItem]]:
        """Yield the items of the messages that ``selected`` returns for each session, method by method."""
        expected, found = _by_method(selected(self._expected)), _by_method(selected(self._found))
        for method in {**expected, **found}:
            if method in ignored_methods:
                continue
            pairs = _aligned(expected.get(method, []), found.get(method, []), self._have_equal_params)
            for entry, counterpart in pairs:
                what = f"the server's {unquoted(method)}"
                if entry is None and counterpart is not None:
                    yield counterpart.index, ComparedItem(what, "new", None, counterpart.seq)
                elif entry is not None and counterpart is None:
                    yield entry.index, ComparedItem(what, "missing", entry.seq, remark="did not come")
                elif entry is not None and counterpart is not None:
                    params, other_params = _compared_params(entry), _compared_params(counterpart)
                    changes = tuple(map(change_from, differences(params, other_params, self._rules)))
                    yield (
                        entry.index,
                        ComparedItem(what, verdict_on(changes), entry.seq, counterpart.seq, changes),
                    )

    def _unmatched_lines(self) -> Iterator[tuple[int, ComparedItem]]:
        """Yield the items of lines that are not messages, and of responses without a request."""
        expected = self._lines_without_request(self._expected)
        found = self._lines_without_request(self._found)
        for entry, counterpart in _aligned(expected, found, self._have_equal_texts):
            what = "a line of the server that is neither a message nor an answer"
            if entry is None and counterpart is not None:
                yield (
                    counterpart.index,
                    ComparedItem(what, "new", None, counterpart.seq, remark=shown(_text(counterpart))),
                )
            elif entry is not None and counterpart is not None and self._have_equal_texts(entry, counterpart):
                yield entry.index, ComparedItem(what, "same", entry.seq, counterpart.seq)
            elif entry is not None:  # two different lines are two items: one is missing, one is new
                yield entry.index, ComparedItem(what, "missing", entry.seq, remark=shown(_text(entry)))
                if counterpart is not None:
                    yield (
                        counterpart.index,
                        ComparedItem(what, "new", None, counterpart.seq, remark=shown(_text(counterpart))),
                    )

    def _have_equal_params(self, entry: SessionMessage, counterpart: SessionMessage) -> bool:
        return (
            next(differences(_compared_params(entry), _compared_params(counterpart), self._rules), None)
            is None
        )

    def _have_equal_texts(self, entry: SessionMessage, counterpart: SessionMessage) -> bool:
        return self._rules.equal_texts(_text(entry), _text(counterpart))

    def _lines_without_request(self, session: RecordedSession) -> list[SessionMessage]:
        """Return the lines of the server that are not messages, and its responses without a request."""
        refused = {exchange.number for exchange in session.exchanges.values() if exchange.status >= 300}
        return [
            entry
            for entry in session.messages
            if entry.sender == SERVER
            and entry.method is None
            and entry.answers is None
            and entry.raw.strip()
            and entry.exchange not in refused  # of a refusal only the status is compared, not the body
            and (entry.event is None or entry.event.name in (None, "message"))
            and (id(session), entry.index) not in self._answers_without_id
        ]

    def _changed_exchanges(self, ignored_methods: frozenset[str]) -> Iterator[tuple[int, ComparedItem]]:
        """Yield the items of HTTP exchanges without a JSON-RPC request whose HTTP status changed."""
        if not any(exchange.status for exchange in self._found.exchanges.values()):
            return  # the found session was on stdio
        client_messages: defaultdict[int, list[SessionMessage]] = defaultdict(list)
        for entry in self._expected.messages:
            if entry.sender == CLIENT:
                client_messages[entry.exchange].append(entry)
        for number, found_number in self._pairing.exchanges.items():
            expected, found = self._expected.exchanges.get(number), self._found.exchanges.get(found_number)
            entries = client_messages[number]
            if not expected or not found or not expected.status or expected.status == found.status:
                continue
            if any(map(_is_client_request, entries)):
                continue
            methods = [self._method_of(entry) for entry in entries]
            if methods and ignored_methods.issuperset(methods):
                continue
            what = f"HTTP {expected.request.method}"
            if methods and methods[0]:
                method = unquoted(methods[0])
                what += f" {method}" if entries[0].method else f" with the answer to {method}"
            text = f"HTTP status is {found.status or 'missing'}, was {expected.status}"
            change = Change("status", text, "", expected.status, found.status)
            seq, found_seq = expected.request.seq, found.request.seq
            yield expected.opened, ComparedItem(what, "changed", seq, found_seq, (change,))

    def _method_of(self, entry: SessionMessage) -> str:
        """Return the method of a message, or of the request that a response answers; empty if unknown."""
        if entry.method is None and entry.answers is not None:
            entry = self._expected.messages[entry.answers]
        return entry.method or ""


def described(entry: SessionMessage) -> str:
    """Return a short description of a request or notification: ``tools/call "echo"``.

    For other messages it is ``a message``.
    """
    message = entry.message
    if not isinstance(message, Request | Notification):
        return "a message"
    method, target = unquoted(message.method), target_of(message.method, message.params)
    return method if target is None else f"{method} {shown(target)}"


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
    """Return the params of a message as an object with the member ``params``, without generated values."""
    message = entry.message
    params = message.params if isinstance(message, Request | Notification) else None
    return {"params": normalised(or_none(params))}


def _text(entry: SessionMessage) -> str:
    return entry.raw.decode("utf-8", "backslashreplace")


def _slower_remark(
    expected: RecordedSession,
    found: RecordedSession,
    expected_answer: SessionMessage | None,
    found_answer: SessionMessage | None,
) -> str:
    """Return a remark if the found response is much slower than the expected one; else an empty text."""
    expected_ns = expected.latency_ns(expected_answer) if expected_answer else None
    found_ns = found.latency_ns(found_answer) if found_answer else None
    if expected_ns is None or found_ns is None:
        return ""
    if found_ns - expected_ns < _SLOWER_NS or found_ns < _SLOWER_TIMES * expected_ns:
        return ""
    return f"slower: {duration(found_ns)}, was {duration(expected_ns)}"


def _by_method(entries: Iterator[SessionMessage]) -> dict[str, list[SessionMessage]]:
    by_method: defaultdict[str, list[SessionMessage]] = defaultdict(list)
    for entry in entries:
        by_method[entry.method or ""].append(entry)
    return dict(by_method)


def _aligned(
    expected: Sequence[SessionMessage],
    found: Sequence[SessionMessage],
    are_equivalent: Callable[[SessionMessage, SessionMessage], bool],
) -> Iterator[tuple[SessionMessage | None, SessionMessage | None]]:
    """Pair the messages of two lists.

    First messages with equal fingerprints are paired, then messages for which ``are_equivalent`` is true,
    then the others in order. At the end of the longer list, messages are paired with ``None``.
    """
    by_fingerprint: defaultdict[bytes, deque[SessionMessage]] = defaultdict(deque)
    for entry in found:
        by_fingerprint[_fingerprint(entry)].append(entry)
    without_equal: list[SessionMessage] = []
    paired: set[int] = set()
    for entry in expected:
        equal = by_fingerprint.get(_fingerprint(entry))
        if equal:
            counterpart = equal.popleft()
            paired.add(counterpart.index)
            yield entry, counterpart
        else:
            without_equal.append(entry)
    unpaired = {entry.index: entry for entry in found if entry.index not in paired}
    different: list[SessionMessage] = []
    for entry in without_equal:
        candidates = islice(unpaired.values(), _MAX_CANDIDATES)
        counterpart = next((candidate for candidate in candidates if are_equivalent(entry, candidate)), None)
        if counterpart is None:
            different.append(entry)
        else:
            del unpaired[counterpart.index]
            yield entry, counterpart
    yield from zip_longest(different, unpaired.values())


def _fingerprint(entry: SessionMessage) -> bytes:
    """Return a key for a message. Messages with equal keys are equivalent; the reverse is not certain."""
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


def _cancelled_requests(session: RecordedSession) -> set[int]:
    """Return the indices of the requests that the client cancelled; a server need not answer them."""
    return {
        entry.names
        for entry in session.messages
        if entry.sender == CLIENT and entry.method == "notifications/cancelled" and entry.names is not None
    }
