"""Compares lists of tools, prompts and resources by name; all pages of one listing form one list.

The position of an entry and its page do not count; the set of entries and their content do.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeAlias

from mcpproxy.protocol.jsonrpc import JSON, JSONObject, Request, Response
from mcpproxy.protocol.wording import shown, token
from mcpproxy.replay.diff.comparison import Change, Kind, change_from
from mcpproxy.replay.diff.values import DiffRules, differences
from mcpproxy.replay.recording import RecordedSession, SessionMessage
from mcpproxy.session.frame import CLIENT


@dataclass(frozen=True, slots=True)
class ListKind:
    """The member of a result with the list, the member with an entry's name, and the noun for messages."""

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

_Name: TypeAlias = tuple[str, int]
"""A name, and how many earlier entries have the same name."""


@dataclass(slots=True)
class PagedListing:
    """One listing: the requests for its pages and their results. ``first`` asks for the first page."""

    first: SessionMessage
    requests: list[SessionMessage] = field(default_factory=list[SessionMessage])
    results: list[JSONObject] = field(default_factory=list[JSONObject])

    @property
    def list_kind(self) -> ListKind:
        """What kind of list it is."""
        return LISTS[self.first.method or ""]


def listings(session: RecordedSession) -> list[PagedListing]:
    """Return every listing of a session that was answered, in the order of their first pages."""
    found: list[PagedListing] = []
    goes_on: dict[tuple[str, str], PagedListing] = {}
    for entry in session.messages:
        message = entry.message
        if entry.sender != CLIENT or not isinstance(message, Request) or message.method not in LISTS:
            continue
        answer = session.answers_to(entry)
        if answer is None or not isinstance(answer.message, Response):
            continue
        result = answer.message.result
        if not isinstance(result, dict):
            continue
        cursor = _cursor(message)
        listing = goes_on.pop((message.method, cursor), None) if cursor is not None else None
        if listing is None:
            listing = PagedListing(entry)
            found.append(listing)
        listing.requests.append(entry)
        listing.results.append(result)
        following = result.get("nextCursor")
        if isinstance(following, str):
            goes_on[message.method, following] = listing
    return found


def changes(expected: PagedListing, found: PagedListing, rules: DiffRules) -> Iterator[Change]:
    """Yield the changes between two listings: entries removed, added and changed."""
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
            for each in differences(value, new[name][1], rules, pointer):
                within = each.pointer.removeprefix(pointer)
                yield change_from(each, _kind(within), f"{list_kind.noun} {shown(name[0])}", within)
    for each in differences(_envelope(expected), _envelope(found), rules, "/result"):
        yield change_from(each)


def pages(all_listings: Iterable[PagedListing]) -> set[int]:
    """Return the places of all requests that belong to a listing."""
    return {entry.index for listing in all_listings for entry in listing.requests}


def _kind(pointer: str) -> Kind:
    member = pointer[1:].partition("/")[0]
    if member in _SCHEMAS:
        return "schema"
    return "description" if member in _DESCRIPTIONS else "value"


def _entries(listing: PagedListing) -> Iterator[tuple[_Name, tuple[str, JSON]]]:
    list_kind = listing.list_kind
    seen: dict[str, int] = {}
    for result in listing.results:
        entries = result.get(list_kind.member)
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            named = entry.get(list_kind.key) if isinstance(entry, dict) else None
            name = named if isinstance(named, str) else ""
            count = seen[name] = seen.get(name, -1) + 1
            yield (name, count), (f"/result{token(list_kind.member)}/{index}", entry)


def _envelope(listing: PagedListing) -> JSON:
    """Return the first page without its entries; a malformed list is kept."""
    list_kind = listing.list_kind
    first = listing.results[0]
    hidden = {"nextCursor", *((list_kind.member,) if isinstance(first.get(list_kind.member), list) else ())}
    return {name: value for name, value in first.items() if name not in hidden}


def _cursor(request: Request) -> str | None:
    cursor = request.params.get("cursor") if isinstance(request.params, dict) else None
    return cursor if isinstance(cursor, str) else None
