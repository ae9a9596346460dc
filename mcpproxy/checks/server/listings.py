"""What a server has listed: tools, prompts, resources and templates, page by page.

A *walk* reads the pages of a list from the first on. The cursor in the request for a page shows which walk it
continues. A walk has seen the whole list only if it saw every page and no change was announced in between.
Such an announcement discards what is known of the list's items. Several walks may run at the same time, and
callers with other credentials may see other lists.

All memory here is bounded, and what was dropped counts as unknown. ``tools.FAMILY`` has the rows that call
the ``remember_*`` functions.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/pagination
"""

from collections.abc import Mapping
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.checks.engine.context import MessageContext, as_object, member
from mcpproxy.checks.stateless.servers import server
from mcpproxy.protocol.jsonrpc import ABSENT, JSON, Absent, JSONObject, Notification, Response
from mcpproxy.protocol.methods import declares
from mcpproxy.protocol.revisions import CAPABILITIES_KEY, VERSION_KEY
from mcpproxy.protocol.schema.contracts import Contract, Mismatch, contract
from mcpproxy.session.history import History, get_or_make, keep_latest
from mcpproxy.session.subscriptions import Subscriptions

LISTS: Final[Mapping[str, tuple[str, str]]] = {
    "tools/list": ("tools", "name"),
    "prompts/list": ("prompts", "name"),
    "resources/list": ("resources", "uri"),
    "resources/templates/list": ("resourceTemplates", "uriTemplate"),
}
"""Each list method: the member that holds the list, and the member that identifies its items."""

CHANGES: Final[Mapping[str, tuple[str, ...]]] = {
    "notifications/tools/list_changed": ("tools/list",),
    "notifications/prompts/list_changed": ("prompts/list",),
    "notifications/resources/list_changed": ("resources/list", "resources/templates/list"),
}
"""The lists that each announcement is about."""

MAX_ITEMS: Final = 10_000
MAX_WALKS: Final = 8
MAX_LISTS: Final = 256
"""The number of items of a list, of unfinished walks of a list, and of lists that are remembered."""

_FOREVER: Final = 1 << 63


@slotted(eq=False)
class ListedItem:
    """One listed item: the item, the number of its frame, and the time until which it is valid."""

    value: JSONObject
    seq: int
    fresh_until_ns: int
    _contracts: dict[tuple[str, str], Contract | None] = field(
        default_factory=dict[tuple[str, str], Contract | None]
    )
    _latest: tuple[str, JSON, tuple[Mismatch, ...]] = ("", None, ())

    def breaks(
        self, name: str, value: JSON, revision: str, text: bytes | None = None
    ) -> tuple[Mismatch, ...]:
        """Return where ``value`` (parsed from ``text``) breaks the schema in the item's member ``name``."""
        latest_name, latest_value, latest = self._latest
        if latest_value is value and latest_name == name:
            return latest
        schema = self._contracts.get((name, revision), ABSENT)
        if schema is ABSENT:
            schema = self._contracts[name, revision] = contract(self.value.get(name), revision)
        found = schema.breaks(value, text) if schema is not None else ()
        # Cached, because both the check of a call and its state update ask for it.
        self._latest = (name, value, found)
        return found

    def forget(self) -> None:
        """Drop the cached value."""
        self._latest = ("", None, ())


@slotted(eq=False)
class ListWalk:
    """A list, as far as its pages have arrived.

    ``whole`` says that no page is missing so far. ``changes`` is the number of changes announced before the
    walk began. ``asked`` is the part of the request, other than the caller, that the list may depend on.
    """

    first_seq: int
    changes: int
    connection: int
    asked: str
    whole: bool
    seq: int = 0
    at_ns: int = 0
    items: dict[str, ListedItem] = field(default_factory=dict[str, ListedItem])
    repeated: set[str] = field(default_factory=set[str])

    def like(self, other: "ListWalk") -> bool:
        """Whether both lists were requested in the same way, so that they can be compared."""
        return self.asked == other.asked

    def difference(self, other: "ListWalk") -> str:
        """Return a name that is in only one of the two lists; empty if there is none."""
        return next(iter(self.items.keys() ^ other.items.keys()), "")


@slotted()
class Page:
    """One page of a list: its walk, its items, and the cursor of the next page, ``None`` on the last one."""

    walk: ListWalk
    named: list[tuple[int, str, JSONObject]]  # index, name, item
    next: str | None

    def names(self) -> list[str]:
        """All items that the walk has seen, including this page, in order."""
        return list(dict.fromkeys([*self.walk.items, *(name for _, name, _ in self.named)]))


@slotted()
class ListState:
    """What is known of one list.

    ``items`` are the latest items by name, ``under_way`` the unfinished walks by the cursor that continues
    them. ``latest`` is the latest whole list and ``before`` the one before that. ``changes`` is the number of
    announced changes, ``changed_seq`` the frame of the latest. ``called`` is the number of tool calls that
    were answered when ``latest`` arrived. ``silent`` are two successive lists that differ although no change
    was announced.
    """

    items: dict[str, ListedItem] = field(default_factory=dict[str, ListedItem])
    under_way: dict[str, ListWalk] = field(default_factory=dict[str, ListWalk])
    latest: ListWalk | None = None
    before: ListWalk | None = None
    by_connection: dict[int, ListWalk] = field(default_factory=dict[int, ListWalk])
    changes: int = 0
    changed_seq: int = 0
    called: int = 0
    silent: tuple[ListWalk, ListWalk] | None = None

    @property
    def whole(self) -> ListWalk | None:
        """The latest whole list, unless a change was announced since."""
        latest = self.latest
        return latest if latest is not None and latest.changes == self.changes else None


@slotted()
class Lists:
    """The lists by caller and method, and the number of answered tool calls by caller."""

    known: dict[tuple[str, str], ListState] = field(default_factory=dict[tuple[str, str], ListState])
    calls: dict[str, int] = field(default_factory=dict[str, int])


def listed(history: History, method: str) -> ListState:
    """Return what this session, or the caller of a stateless request, knows of the list of ``method``."""
    return get_or_make(history.across_requests(Lists).known, (history.caller, method), ListState, MAX_LISTS)


def page(context: MessageContext, history: History) -> Page | None:
    """Return the page in a response; ``None`` if it has none, or if its request is not known."""
    if isinstance(context.page, Page):
        return context.page
    message, request = context.message, context.answers
    if request is None or request.method not in LISTS or not isinstance(message, Response):
        return None
    part, key = LISTS[request.method]
    found, cursor = member(message.result, part), _cursor(request.params)
    if not isinstance(found, list) or request.cancelled:
        return None
    known = listed(history, request.method)
    walk = known.under_way.get(cursor) if cursor is not None else None
    if walk is None or walk.changes != known.changes:
        whole = cursor is None and request.seq > known.changed_seq
        walk = ListWalk(request.seq, known.changes, context.frame.connection, _asked(request.params), whole)
    named = [
        (index, name, item)
        for index, item in enumerate(found)
        if isinstance(item, dict) and isinstance(name := item.get(key), str)
    ]
    after = member(message.result, "nextCursor")
    made = context.page = Page(walk, named, after if isinstance(after, str) else None)
    return made


def _cursor(params: "JSON | Absent") -> str | None:
    cursor = member(params, "cursor")
    return cursor if isinstance(cursor, str) else None


def _asked(params: "JSON | Absent") -> str:
    """Return the part of a request that the list may depend on: all but the cursor and most of ``_meta``."""
    if not isinstance(params, dict):
        return ""
    relevant = {name: value for name, value in params.items() if name not in ("cursor", "_meta")}
    for name in (VERSION_KEY, CAPABILITIES_KEY, "io.modelcontextprotocol/clientInfo"):
        relevant[name] = member(params, "_meta", name)
    return repr(relevant)


# What is recorded


def remember_page(context: MessageContext, history: History) -> None:
    """Record the items of a page and, with the last page, the whole list."""
    found, request = page(context, history), context.answers
    if found is None or request is None:
        return
    known, walk = listed(history, request.method), found.walk
    if (cursor := _cursor(request.params)) is not None:
        known.under_way.pop(cursor, None)
    fresh_until_ns = _fresh_until_ns(context)
    for _, name, value in found.named:
        if name in walk.items:
            walk.repeated.add(name)
        walk.items[name] = ListedItem(value, context.seq, fresh_until_ns)
    walk.seq, walk.at_ns = context.seq, context.frame.observed_at_ns
    walk.whole &= len(walk.items) <= MAX_ITEMS and not history.has_gap
    if request.seq > known.changed_seq:  # otherwise it may have been built before the change
        for _, name, _ in found.named:
            keep_latest(known.items, name, walk.items[name], MAX_ITEMS)
        for name in walk.repeated:
            known.items.pop(name, None)
    if found.next is not None:
        keep_latest(known.under_way, found.next, walk, MAX_WALKS)
    elif walk.whole:
        _remember_whole(context, history, known, walk)


def _remember_whole(context: MessageContext, history: History, known: ListState, walk: ListWalk) -> None:
    known.before, known.latest = known.latest, walk
    known.called = calls_answered(history)
    keep_latest(known.by_connection, walk.connection, walk, MAX_WALKS)
    # A name that several items have is ambiguous.
    known.items = {name: item for name, item in walk.items.items() if name not in walk.repeated}
    before = known.before
    if before is not None and before.changes == walk.changes and before.like(walk):
        method = context.answers.method if context.answers else ""
        if walk.difference(before) and _announces(context, history, method, before):
            known.silent = known.silent or (before, walk)


def _announces(context: MessageContext, history: History, method: str, before: ListWalk) -> bool:
    """Whether the server declared that it announces changes, and could do so on stdio."""
    if history.over_http or history.in_both_eras or method not in _ANNOUNCED:
        return False
    feature, flag = _ANNOUNCED[method]
    if not context.stateless:
        declared = history.server_capabilities
        return declared is not None and declares(declared, f"{feature}.listChanged")
    declared = server(history).listed
    if declared is None or not declares(declared.capabilities, f"{feature}.listChanged"):
        return False
    return any(
        member(s.acknowledged, flag) is True
        and s.asked.seq < before.first_seq
        and s.cancelled_ns is None
        and not s.ended_seq
        for s in history.of(Subscriptions).by_id.values()
    )


_ANNOUNCED: Final[Mapping[str, tuple[str, str]]] = {
    "tools/list": ("tools", "toolsListChanged"),
    "prompts/list": ("prompts", "promptsListChanged"),
    "resources/list": ("resources", "resourcesListChanged"),
}


def _fresh_until_ns(context: MessageContext) -> int:
    """Return the time until which a list is valid: without ``ttlMs``, until a change is announced."""
    if not context.stateless:
        return _FOREVER
    ttl_ms = member(as_object(context.message.value), "result", "ttlMs")
    fresh_ns = int(ttl_ms * 1_000_000) if isinstance(ttl_ms, int | float) and 0 < ttl_ms < 1e12 else 0
    return context.frame.observed_at_ns + fresh_ns


def remember_change(context: MessageContext[Notification], history: History) -> None:
    """Discard what is known of a list whose change is announced."""
    message = context.message
    for method in CHANGES[message.method]:
        known = listed(history, method)
        known.items.clear()
        known.changes += 1
        known.changed_seq = context.seq
        known.silent = None


def remember_call(context: MessageContext, history: History) -> None:
    """Count an answered tool call."""
    calls, caller = history.across_requests(Lists).calls, history.caller
    if len(calls) == 1 and caller in calls:
        calls[caller] += 1
    else:
        keep_latest(calls, caller, calls.get(caller, 0) + 1, MAX_LISTS)


def calls_answered(history: History) -> int:
    """Return the number of tool calls answered so far in this session, or for this caller."""
    return history.across_requests(Lists).calls.get(history.caller, 0)
