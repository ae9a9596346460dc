"""Limits of hosts on the number of tools that all servers of a run have together.

A *run* is one process of a client, with all servers that it uses. A recording has one server, so it shows the
tools of that server only. ``read.view.runs`` finds the recordings of one run.
"""

from collections.abc import Callable, Iterator, Sequence

from mcpproxy.base.slotted import slotted
from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.rows import RuleFamily, StateUpdate
from mcpproxy.judge.checks.hosts.facts import Client, HostChoice, client_of
from mcpproxy.judge.checks.hosts.family import FactMet
from mcpproxy.judge.checks.server.listings import page
from mcpproxy.judge.session.frame import SERVER
from mcpproxy.judge.session.history import History
from mcpproxy.protocol.jsonrpc import Response

TOO_MANY = "HOST-005"
"""The rule about the number of tools."""


@slotted(frozen=True)
class ListedTools:
    """A list of tools that was read to its end: the number of tools, and the frame of the last page.

    ``pointer`` is the JSON Pointer of the tools in that frame, ``revisions`` are the revisions that may
    apply, and ``client`` is the client that read the list, ``None`` if it is unknown.
    """

    number: int
    seq: int
    pointer: str
    revisions: tuple[str, ...]
    client: Client | None


def collector(receive: Callable[[ListedTools], None]) -> RuleFamily:
    """Return a family without checks that calls ``receive`` with each list of tools that was read fully."""

    def collect(context: MessageContext[Response], history: History) -> None:
        tools_page = page(context, history)
        if tools_page is not None and tools_page.next_cursor is None and tools_page.walk.is_whole:
            number, at = len(tools_page.names_so_far()), f"{context.at}/result/tools"
            client = client_of(context, history)
            receive(ListedTools(number, context.seq, at, context.candidates, client))

    return RuleFamily(updates=(StateUpdate(collect, (Response,), ("tools/list",), sender=SERVER),))


def too_many_together(
    choice: HostChoice, listed: Sequence[ListedTools], doubt: str
) -> Iterator[tuple[ListedTools, Violation]]:
    """Yield a violation for each limit that the servers exceed together, but none of them alone (HOST-005).

    ``listed`` has one list of each server; each violation comes with the longest list. ``doubt`` is added to
    the text if the servers may not be those of one run, and is empty if they certainly are.
    """
    longest, total = max(listed, key=lambda tools: tools.number), sum(tools.number for tools in listed)
    for judged in choice.hosts(longest.client):
        for fact in judged.facts:
            if fact.kind != "tool-count" or fact.settings["over"] != "run":
                continue
            if longest.number <= fact.settings["limit"] < total:
                servers = f"the {len(listed)} servers of this run"
                met = f"you list {longest.number:,} of the {total:,} tools of {servers}"
                fact_met = FactMet(judged, fact, longest.pointer, met + doubt, "")
                yield longest, fact_met.violation(candidates=longest.revisions, is_doubtful=bool(doubt))
