"""What a server has listed: tools, prompts, resources and templates, page by page.

The *name* of an item is the member that identifies it in ``LISTS``; that of a resource is its URI.

A *walk* is a client's reading of one list, from the first page on. The cursor in the request for a page shows
which walk the page continues. A walk is *whole* as long as no page of it is missing. (The *latest whole walk*
of a list has also come to its last page.) Several walks may run at the same time. When the server announces a
change of a list, the known items of the list are discarded. Each caller may see another list; over HTTP,
clients with different credentials are different callers.

All memory here but the items of a walk is bounded, and an item that was dropped counts as unknown.
``tools.FAMILY`` has the rows that call the ``remember_*`` functions.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/pagination
"""

from collections.abc import Mapping
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.checks.engine.context import MessageContext
from mcpproxy.judge.checks.stateless.servers import fresh_until_ns, server_of
from mcpproxy.judge.session.history import History, get_or_make, keep_latest
from mcpproxy.judge.session.subscriptions import Subscriptions
from mcpproxy.protocol.jsonrpc import ABSENT, JSON, Absent, JSONObject, Notification, Response
from mcpproxy.protocol.message_parts import cursor_of, member
from mcpproxy.protocol.meta_keys import CAPABILITIES_KEY, CLIENT_INFO_KEY, VERSION_KEY
from mcpproxy.protocol.methods import declares
from mcpproxy.protocol.revisions import is_stateless, since
from mcpproxy.protocol.schema.contracts import Contract, Mismatch, contract, obstacle
from mcpproxy.protocol.schema.soundness import FlawKind, flaws

LISTS: Final[Mapping[str, tuple[str, str]]] = {
    "tools/list": ("tools", "name"),
    "prompts/list": ("prompts", "name"),
    "resources/list": ("resources", "uri"),
    "resources/templates/list": ("resourceTemplates", "uriTemplate"),
}
"""Each list method: the member that holds the list, and the member that identifies its items."""

RESOURCE_LISTS: Final = ("resources/list", "resources/templates/list")

CHANGES: Final[Mapping[str, tuple[str, ...]]] = {
    "notifications/tools/list_changed": ("tools/list",),
    "notifications/prompts/list_changed": ("prompts/list",),
    "notifications/resources/list_changed": RESOURCE_LISTS,
}
"""The list methods whose results each announcement is about."""

MAX_ITEMS: Final = 10_000
"""The number of items that are remembered of one list."""

MAX_WALKS: Final = 8
"""How many unfinished walks of one list are remembered.

It is also the number of connections whose latest whole walk of the list is remembered.
"""

MAX_LISTS: Final = 256
"""The number of lists that are remembered, and of callers whose tool calls are counted."""

SCHEMAS: Final = ("inputSchema", "outputSchema")
"""The members of a tool that are schemas."""

OUTPUT_SCHEMA: Final = since("2025-06-18")
"""The revisions in which a tool may have an outputSchema."""

_LEGAL: Final[frozenset[FlawKind]] = frozenset(
    {"no-properties", "required-unknown-property", "required-forbidden-property"}
)
"""The flaws that do not make a schema invalid."""

_FOREVER_NS: Final = 1 << 63
"""A time, in nanoseconds, that no recording reaches."""

SOON_NS: Final = 5_000_000_000
"""A list rarely changes by itself within this time, and an announcement of a change takes no longer."""


@slotted(eq=False)
class ListedItem:
    """One listed item: the JSON object, the number of its frame, and the time until which it is valid."""

    value: JSONObject
    seq: int
    fresh_until_ns: int
    _contracts: dict[tuple[str, str], Contract | None] = field(
        default_factory=dict[tuple[str, str], Contract | None]
    )
    _obstacles: dict[str, tuple[tuple[str, str], ...]] = field(
        default_factory=dict[str, tuple[tuple[str, str], ...]]
    )

    def mismatches(
        self, name: str, value: JSON, revision: str, text: bytes | None = None
    ) -> tuple[Mismatch, ...]:
        """Return where ``value`` does not match the schema that the item has as its member ``name``.

        The result is also empty if the item has no usable schema there. ``text`` is the JSON text from which
        ``value`` was parsed, if it is known.
        """
        schema = self._contracts.get((name, revision), ABSENT)
        if schema is ABSENT:
            schema = self._contracts[name, revision] = contract(self.value.get(name), revision)
        return schema.find_mismatches(value, text) if schema is not None else ()

    def obstacles(self, revision: str) -> tuple[tuple[str, str], ...]:
        """Return the schemas that no value can be checked against, each with the reason as a clause.

        Invalid schemas are left out, because the checks of the list report their flaws.
        """
        obstacles = self._obstacles.get(revision)
        if obstacles is None:
            names = SCHEMAS if revision in OUTPUT_SCHEMA else SCHEMAS[:1]
            by_name = [(name, self._obstacle(name, revision)) for name in names if name in self.value]
            obstacles = self._obstacles[revision] = tuple((name, why) for name, why in by_name if why)
        return obstacles

    def _obstacle(self, name: str, revision: str) -> str:
        """Return why no value can be checked against the schema ``name``.

        The result is empty if values can be checked, or if the schema is invalid.
        """
        schema = self.value[name]
        why = obstacle(schema, revision)
        object_root = name == "inputSchema" or not is_stateless((revision,))
        is_faulty = why and any(flaw.kind not in _LEGAL for flaw in flaws(schema, object_root=object_root))
        return "" if is_faulty else why


@slotted(eq=False)
class ListWalk:
    """A client's reading of one list, as far as its pages have arrived.

    ``first_seq`` is the frame of the first request, ``seq`` and ``observed_ns`` are the frame and the time of
    the latest page. ``connection`` is the number of the connection. ``is_whole`` says that no page is missing
    so far. ``changes`` is the number of changes of the list that were announced before its first page.
    ``list_params`` is the text of all params that the content of the list may depend on. ``items`` are the
    items by name, ``repeated`` the names that several items have.
    """

    first_seq: int
    changes: int
    connection: int
    list_params: str
    is_whole: bool
    seq: int = 0
    observed_ns: int = 0
    items: dict[str, ListedItem] = field(default_factory=dict[str, ListedItem])
    repeated: set[str] = field(default_factory=set[str])

    def is_comparable(self, other: "ListWalk") -> bool:
        """Whether both lists were requested with the same params, so that they should have the same items."""
        return self.list_params == other.list_params

    def is_equal(self, other: "ListWalk") -> bool:
        """Whether both lists have the same items, as far as they were read."""
        return self.items.keys() == other.items.keys() and all(
            item.value == other.items[name].value for name, item in self.items.items()
        )

    def difference(self, other: "ListWalk") -> str:
        """Return a name that is in only one of the two lists; empty if there is none."""
        return next(iter(self.items.keys() ^ other.items.keys()), "")


@slotted()
class Page:
    """One page of a list.

    ``walk`` is the walk that this page continues, at first without the items of the page: ``remember_page``
    adds them. ``items`` has the index in the page, the name, and the object of each item that has a name.
    ``next_cursor`` is ``None`` on the last page.
    """

    walk: ListWalk
    items: list[tuple[int, str, JSONObject]]
    next_cursor: str | None

    def names_so_far(self) -> list[str]:
        """Return the names of all items of the walk, including this page, in the order of the list."""
        return list(dict.fromkeys([*self.walk.items, *(name for _, name, _ in self.items)]))


@slotted()
class ListState:
    """The state of one list.

    ``items`` are the latest items by name, ``under_way`` the unfinished walks by the cursor that continues
    them. ``latest`` is the latest whole walk, ``previous`` the whole walk before it, and ``by_connection``
    the latest whole walk of each connection. ``changes`` is the number of announced changes, ``changed_seq``
    the frame of the latest announcement, ``changed_ns`` its time. ``idle_changes`` is how many whole
    walks in a row found nothing changed, although a change was announced soon after the walk before.
    ``calls_before_latest`` is the number of tool calls that were answered before ``latest`` ended.
    ``unannounced_change`` are two successive walks that differ, although no change was announced between
    them. ``unchecked`` are the called tools whose schemas were reported as unusable.
    """

    items: dict[str, ListedItem] = field(default_factory=dict[str, ListedItem])
    under_way: dict[str, ListWalk] = field(default_factory=dict[str, ListWalk])
    latest: ListWalk | None = None
    previous: ListWalk | None = None
    by_connection: dict[int, ListWalk] = field(default_factory=dict[int, ListWalk])
    changes: int = 0
    changed_seq: int = 0
    changed_ns: int = 0
    idle_changes: int = 0
    calls_before_latest: int = 0
    unannounced_change: tuple[ListWalk, ListWalk] | None = None
    unchecked: set[str] = field(default_factory=set[str])

    @property
    def current(self) -> ListWalk | None:
        """The latest whole walk; ``None`` if there is none, or if a change was announced since."""
        latest = self.latest
        return latest if latest is not None and latest.changes == self.changes else None


@slotted()
class Lists:
    """The lists by caller and method, and the number of answered tool calls by caller."""

    states: dict[tuple[str, str], ListState] = field(default_factory=dict[tuple[str, str], ListState])
    call_counts: dict[str, int] = field(default_factory=dict[str, int])


def listed(history: History, method: str) -> ListState:
    """Return the state of the list of ``method``, as the caller of the current message sees it."""
    return get_or_make(history.across_requests(Lists).states, (history.caller, method), ListState, MAX_LISTS)


def page(context: MessageContext, history: History) -> Page | None:
    """Return the page in a response; ``None`` if the response answers no known list request.

    It is also ``None`` if the request was cancelled or the list is not an array.
    """
    if isinstance(context.derived, Page):
        return context.derived
    message, request = context.message, context.answers
    if request is None or request.method not in LISTS or not isinstance(message, Response):
        return None
    list_name, name_member = LISTS[request.method]
    entries, cursor = member(message.result, list_name), cursor_of(request.params)
    if not isinstance(entries, list) or request.cancelled:
        return None
    state = listed(history, request.method)
    walk = state.under_way.get(cursor) if cursor is not None else None
    if walk is None or walk.changes != state.changes:
        walk = ListWalk(
            request.seq,
            state.changes,
            context.frame.connection,
            _list_params(request.params),
            # A page that was requested before a change may show the list from before or after the change.
            is_whole=cursor is None and request.seq > state.changed_seq,
        )
    items = [
        (index, name, entry)
        for index, entry in enumerate(entries)
        if isinstance(entry, dict) and isinstance(name := entry.get(name_member), str)
    ]
    next_cursor = member(message.result, "nextCursor")
    new_page = Page(walk, items, next_cursor if isinstance(next_cursor, str) else None)
    context.derived = new_page
    return new_page


def _list_params(params: "JSON | Absent") -> str:
    """Return the params that a list's content may depend on: all but the cursor and most of ``_meta``."""
    if not isinstance(params, dict):
        return ""
    relevant = {name: value for name, value in params.items() if name not in ("cursor", "_meta")}
    for name in (VERSION_KEY, CAPABILITIES_KEY, CLIENT_INFO_KEY):
        relevant[name] = member(params, "_meta", name)
    return repr(relevant)


# State updates


def remember_page(context: MessageContext, history: History) -> None:
    """Record the items of a page and, with the last page, the whole list."""
    new_page, request = page(context, history), context.answers
    if new_page is None or request is None:
        return
    state, walk = listed(history, request.method), new_page.walk
    if (cursor := cursor_of(request.params)) is not None:
        state.under_way.pop(cursor, None)
    valid_until_ns = _valid_until_ns(context)
    for _, name, value in new_page.items:
        if name in walk.items:
            walk.repeated.add(name)
        walk.items[name] = ListedItem(value, context.seq, valid_until_ns)
    walk.seq, walk.observed_ns = context.seq, context.frame.observed_at_ns
    walk.is_whole &= len(walk.items) <= MAX_ITEMS and not history.has_gap
    if request.seq > state.changed_seq:  # otherwise the server may have made the page before the change
        for _, name, _ in new_page.items:
            keep_latest(state.items, name, walk.items[name], MAX_ITEMS)
        for name in walk.repeated:
            state.items.pop(name, None)
    if new_page.next_cursor is not None:
        keep_latest(state.under_way, new_page.next_cursor, walk, MAX_WALKS)
    elif walk.is_whole:
        _remember_whole(context, history, state, walk)


def _remember_whole(context: MessageContext, history: History, state: ListState, walk: ListWalk) -> None:
    """Record a whole walk, and whether the list changed without a required announcement, or the reverse."""
    previous = state.latest
    state.previous, state.latest = previous, walk
    state.calls_before_latest = answered_calls(history)
    keep_latest(state.by_connection, walk.connection, walk, MAX_WALKS)
    # A name that several items have does not identify one of them.
    state.items = {name: item for name, item in walk.items.items() if name not in walk.repeated}
    if previous is not None and previous.changes < walk.changes:
        is_soon = state.changed_ns - previous.observed_ns <= SOON_NS
        is_same = previous.is_comparable(walk) and previous.is_equal(walk) and not history.masked
        state.idle_changes = state.idle_changes + 1 if is_soon and is_same else 0
    if previous is not None and previous.changes == walk.changes and previous.is_comparable(walk):
        method = context.answers.method if context.answers else ""
        if walk.difference(previous) and _must_announce(context, history, method, previous):
            state.unannounced_change = state.unannounced_change or (previous, walk)


def _must_announce(context: MessageContext, history: History, method: str, previous: ListWalk) -> bool:
    """Whether the server had to announce a change of this list to the client since ``previous``.

    A server must announce changes if it has declared that it does and, in a stateless revision, if the client
    has subscribed to changes. Over HTTP the result is false, because the announcement may come on another
    stream; and it is false if the session has used both eras, a handshake and stateless requests.
    """
    if history.over_http or history.in_both_eras or method not in _ANNOUNCED:
        return False
    feature, filter_member = _ANNOUNCED[method]
    if not context.stateless:
        declared = history.server_capabilities
        return declared is not None and declares(declared, f"{feature}.listChanged")
    discovered = server_of(history).discovered
    if discovered is None or not declares(discovered.capabilities, f"{feature}.listChanged"):
        return False
    return any(
        member(subscription.acknowledged, filter_member) is True
        and subscription.asked.seq < previous.first_seq
        and subscription.cancelled_ns is None
        and not subscription.ended_seq
        for subscription in history.of(Subscriptions).by_id.values()
    )


_ANNOUNCED: Final[Mapping[str, tuple[str, str]]] = {
    "tools/list": ("tools", "toolsListChanged"),
    "prompts/list": ("prompts", "promptsListChanged"),
    "resources/list": ("resources", "resourcesListChanged"),
}
"""The lists whose changes are announced: the capability, and the filter member of a subscription."""


def _valid_until_ns(context: MessageContext) -> int:
    """Return the time until which a list is valid. In the stateful revisions there is no limit."""
    return fresh_until_ns(context) if context.stateless else _FOREVER_NS


def remember_change(context: MessageContext[Notification], history: History) -> None:
    """Discard the items of a list whose change is announced."""
    message = context.message
    for method in CHANGES[message.method]:
        state = listed(history, method)
        state.items.clear()
        state.changes += 1
        state.changed_seq, state.changed_ns = context.seq, context.frame.observed_at_ns
        state.unannounced_change = None


def remember_call(context: MessageContext, history: History) -> None:
    """Count an answered tool call."""
    counts, caller = history.across_requests(Lists).call_counts, history.caller
    if len(counts) == 1 and caller in counts:  # faster for a single caller, as on stdio
        counts[caller] += 1
    else:
        keep_latest(counts, caller, counts.get(caller, 0) + 1, MAX_LISTS)


def answered_calls(history: History) -> int:
    """Return the number of tool calls of the current caller that were answered so far."""
    return history.across_requests(Lists).call_counts.get(history.caller, 0)
