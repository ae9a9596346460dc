"""How much of a list a host reads: some read the first page only, although the server says more follow."""

from typing import Final, TypeAlias

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.checks.engine.context import MessageContext
from mcpproxy.judge.checks.hosts.facts import Client, client_of
from mcpproxy.judge.checks.server.listings import LISTS, Page, page
from mcpproxy.judge.session.history import History, keep_latest

MAX_WALKS: Final = 64
"""How many readings of lists are remembered per session."""

NOUNS: Final = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "templates",
}


@slotted(eq=False)
class ReadPages:
    """A client's reading of one list, whose last page has not come.

    ``counts`` is the number of its items after each page, ``seq`` the frame of the latest page, which came on
    the connection with this number. ``candidates`` are the revisions that may apply.
    """

    method: str
    client: Client | None
    candidates: tuple[str, ...]
    seq: int
    connection: int = 0
    counts: list[int] = field(default_factory=list[int])


WalkKey: TypeAlias = tuple[str, str, int]


@slotted()
class UnfinishedReadings:
    """The readings of lists whose last page has not come, by caller, method and first frame."""

    readings: dict[WalkKey, ReadPages] = field(default_factory=dict[WalkKey, ReadPages])


def unread(context: MessageContext, history: History, pages: int) -> tuple[str, str] | None:
    """Return what a host that reads ``pages`` pages does not get of a list, if its last page is this one.

    Returns:
        The method of the list, and a clause; ``None`` if it gets all, or if not all pages were seen.
    """
    this = page(context, history)
    if this is None or this.next_cursor is not None or not this.walk.is_whole:
        return None
    earlier = history.across_requests(UnfinishedReadings).readings.get(_key(context, history, this))
    if earlier is None or len(earlier.counts) < pages:
        return None
    total = len(this.names_so_far())
    lost = total - earlier.counts[pages - 1]
    if not lost:
        return None
    verb = "does" if lost == 1 else "do"
    return earlier.method, f"{lost:,} of your {total:,} {NOUNS[earlier.method]} {verb} not exist for it"


def left_unread(reading: ReadPages, pages: int) -> str:
    """Return the same for a list whose last page was never seen; empty if the host reads what was seen."""
    if len(reading.counts) < pages:
        return ""
    number, nouns = reading.counts[pages - 1], NOUNS[reading.method]
    first = f"your first {number:,} {nouns}" if number > 1 else f"your first {nouns.removesuffix('s')}"
    return f"what comes after {first if number else 'your first page'} does not exist for it"


def remember_reading(context: MessageContext, history: History) -> None:
    """Record how many items were read so far, and forget a list whose last page has come."""
    this = page(context, history)
    if this is None or context.answers is None:
        return
    readings, key = history.across_requests(UnfinishedReadings).readings, _key(context, history, this)
    if this.next_cursor is None or not this.walk.is_whole:
        readings.pop(key, None)
        return
    reading = readings.get(key)
    if reading is None:
        client = client_of(context, history)
        reading = ReadPages(context.answers.method, client, context.candidates, context.seq)
        keep_latest(readings, key, reading, MAX_WALKS)
    reading.seq, reading.connection = context.seq, context.frame.connection
    reading.counts.append(len(this.names_so_far()))


def _key(context: MessageContext, history: History, this: Page) -> WalkKey:
    method = context.answers.method if context.answers is not None else ""
    return history.caller, method, this.walk.first_seq


PAGED: Final = tuple(LISTS)
