"""Compare lists of tools, prompts and resources by name; all pages of one listing form one list.

The entries with their content, and the other members of the first page, are compared. The order of the
entries, and their division into pages, are not.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeAlias

from mcpproxy.judge.session.frame import CLIENT
from mcpproxy.peers.replay.diff.comparison import Change, Kind, change_from
from mcpproxy.peers.replay.diff.values import DiffRules, differences
from mcpproxy.peers.replay.recording import RecordedSession, SessionMessage
from mcpproxy.protocol.jsonrpc import JSON, JSONObject, Request, Response
from mcpproxy.protocol.message_parts import cursor_of, member
from mcpproxy.protocol.wording import shown, token


@dataclass(frozen=True, slots=True)
class ListKind:
    """A kind of list.

    ``member`` is the member of the result that holds the list, ``key`` the member of an entry that names it,
    and ``noun`` the word for an entry in messages.
    """

    member: str
    key: str
    noun: str


LISTS: Final[Mapping[str, ListKind]] = MappingProxyType(
    {
        "tools/list": ListKind("tools", "name", "tool"),
        "prompts/list": ListKind("prompts", "name", "prompt"),
        "resources/list": ListKind("resources", "uri", "resource"),
        "resources/templates/list": ListKind("resourceTemplates", "uriTemplate", "resource template"),
    }
)

_SCHEMAS: Final = ("inputSchema", "outputSchema", "arguments")
_DESCRIPTIONS: Final = ("description", "title")
"""The members of an entry whose changes are of the kind ``schema``, and of the kind ``description``."""

_Name: TypeAlias = tuple[str, int]
"""The name of an entry, and how many earlier entries have the same name."""


@dataclass(slots=True)
class PagedListing:
    """One listing: the requests for its pages and their results.

    ``first`` is the request for the first page.
    """

    first: SessionMessage
    requests: list[SessionMessage] = field(default_factory=list[SessionMessage])
    results: list[JSONObject] = field(default_factory=list[JSONObject])

    @property
    def list_kind(self) -> ListKind:
        """The kind of list that was requested."""
        return LISTS[self.first.method or ""]


def listings(session: RecordedSession) -> list[PagedListing]:
    """Return every listing of a session that got a result, in the order of their first pages."""
    all_listings: list[PagedListing] = []
    continued_by: dict[tuple[str, str], PagedListing] = {}  # (method, cursor of the next page) -> listing
    for entry in session.messages:
        message = entry.message
        if entry.sender != CLIENT or not isinstance(message, Request) or message.method not in LISTS:
            continue
        answer = session.answer_to(entry)
        if answer is None or not isinstance(answer.message, Response):
            continue
        result = answer.message.result
        if not isinstance(result, dict):
            continue
        cursor = cursor_of(message.params)
        listing = continued_by.pop((message.method, cursor), None) if cursor is not None else None
        if listing is None:
            listing = PagedListing(entry)
            all_listings.append(listing)
        listing.requests.append(entry)
        listing.results.append(result)
        next_cursor = result.get("nextCursor")
        if isinstance(next_cursor, str):
            continued_by[message.method, next_cursor] = listing
    return all_listings


def changes(expected: PagedListing, found: PagedListing, rules: DiffRules) -> Iterator[Change]:
    """Yield the changes: entries removed, added and changed, then other members of the first page."""
    list_kind = expected.list_kind
    old, new = dict(_entries(expected)), dict(_entries(found))
    for name, (pointer, value) in old.items():
        if name not in new and not rules.ignores(pointer):
            yield Change("removed", f"{list_kind.noun} {shown(name[0])} is gone", pointer, expected=value)
    for name, (pointer, value) in new.items():
        if name not in old and not rules.ignores(pointer):
            yield Change("added", f"{list_kind.noun} {shown(name[0])} is new", pointer, found=value)
    for name, (pointer, value) in old.items():
        if name in new:
            for difference in differences(value, new[name][1], rules, pointer):
                within = difference.pointer.removeprefix(pointer)
                yield change_from(
                    difference, _change_kind(within), f"{list_kind.noun} {shown(name[0])}", within
                )
    for difference in differences(_envelope(expected), _envelope(found), rules, "/result"):
        yield change_from(difference)


def request_indices(all_listings: Iterable[PagedListing]) -> set[int]:
    """Return the indices of all requests that belong to a listing."""
    return {entry.index for listing in all_listings for entry in listing.requests}


def _change_kind(pointer: str) -> Kind:
    """Return the kind of a change at ``pointer`` in an entry."""
    name = pointer[1:].partition("/")[0]
    if name in _SCHEMAS:
        return "schema"
    return "description" if name in _DESCRIPTIONS else "value"


def _entries(listing: PagedListing) -> Iterator[tuple[_Name, tuple[str, JSON]]]:
    """Yield each entry of a listing: its name, its JSON Pointer and its value."""
    list_kind = listing.list_kind
    counts: dict[str, int] = {}
    for result in listing.results:
        entries = result.get(list_kind.member)
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            key = member(entry, list_kind.key)
            name = key if isinstance(key, str) else ""
            earlier = counts.get(name, 0)
            counts[name] = earlier + 1
            yield (name, earlier), (f"/result{token(list_kind.member)}/{index}", entry)


def _envelope(listing: PagedListing) -> JSON:
    """Return the result of the first page without its entries and cursor; a malformed list is kept."""
    listed = listing.list_kind.member
    first_page = listing.results[0]
    left_out = {"nextCursor", *((listed,) if isinstance(first_page.get(listed), list) else ())}
    return {name: value for name, value in first_page.items() if name not in left_out}
