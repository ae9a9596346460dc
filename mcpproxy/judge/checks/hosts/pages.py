"""How much of a list hosts (programs with an MCP client) read: some stop although more pages follow."""

from typing import Final, TypeAlias

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.checks.engine.context import MessageContext
from mcpproxy.judge.checks.hosts.facts import Client, client_of
from mcpproxy.judge.checks.server.listings import LISTS, Page, page
from mcpproxy.judge.session.history import History, keep_latest

MAX_WALKS: Final = 64
"""How many unfinished readings of lists are remembered per session.

All stateless requests over HTTP share this number.
"""

NOUNS: Final = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "templates",
}
"""By method of a list: the word for its items."""


@slotted(eq=False)
class ReadPages:
    """A client's reading of one list, whose last page has not come.

    ``counts`` has the number of items read after each page. ``seq`` is the frame of the latest page,
    ``connection`` the number of the connection on which it came. ``candidates`` are the revisions that may
    apply.
    """

    method: str
    client: Client | None
    candidates: tuple[str, ...]
    seq: int
    connection: int = 0
    counts: list[int] = field(default_factory=list[int])


WalkKey: TypeAlias = tuple[str, str, int]
"""The caller (see ``History.caller``), the method of the list, the frame of the first request for it."""


@slotted()
class UnfinishedReadings:
    """The readings of lists whose last page has not come."""

    readings: dict[WalkKey, ReadPages] = field(default_factory=dict[WalkKey, ReadPages])


def lost_items(context: MessageContext, history: History, pages: int) -> tuple[str, str] | None:
    """Return which items of a list a host does not get if it reads only ``pages`` pages.

    Returns:
        The method of the list, and a clause about the items; ``None`` if the host gets all items, if this is
        not the last page, or if not all pages were seen.
    """
    list_page = page(context, history)
    if list_page is None or list_page.next_cursor is not None or not list_page.walk.is_whole:
        return None
    earlier = history.across_requests(UnfinishedReadings).readings.get(_walk_key(context, history, list_page))
    if earlier is None or len(earlier.counts) < pages:
        return None
    total = len(list_page.names_so_far())
    lost = total - earlier.counts[pages - 1]
    if not lost:
        return None
    verb = "does" if lost == 1 else "do"
    return earlier.method, f"{lost:,} of your {total:,} {NOUNS[earlier.method]} {verb} not exist for it"


def left_unread(reading: ReadPages, pages: int) -> str:
    """Return a clause about what a host that reads ``pages`` pages does not get of an unfinished list.

    It is empty if the host reads more pages than were seen.
    """
    if len(reading.counts) < pages:
        return ""
    number, nouns = reading.counts[pages - 1], NOUNS[reading.method]
    first = f"your first {number:,} {nouns}" if number > 1 else f"your first {nouns.removesuffix('s')}"
    return f"what comes after {first if number else 'your first page'} does not exist for it"


def remember_reading(context: MessageContext, history: History) -> None:
    """Record how many items were read so far; forget a reading that is finished or lacks a page."""
    list_page = page(context, history)
    if list_page is None or context.answers is None:
        return
    readings = history.across_requests(UnfinishedReadings).readings
    key = _walk_key(context, history, list_page)
    if list_page.next_cursor is None or not list_page.walk.is_whole:
        readings.pop(key, None)
        return
    reading = readings.get(key)
    if reading is None:
        client = client_of(context, history)
        reading = ReadPages(context.answers.method, client, context.candidates, context.seq)
        keep_latest(readings, key, reading, MAX_WALKS)
    reading.seq, reading.connection = context.seq, context.frame.connection
    reading.counts.append(len(list_page.names_so_far()))


def _walk_key(context: MessageContext, history: History, list_page: Page) -> WalkKey:
    method = context.answers.method if context.answers is not None else ""
    return history.caller, method, list_page.walk.first_seq


PAGED: Final = tuple(LISTS)
"""The methods whose results are pages."""
