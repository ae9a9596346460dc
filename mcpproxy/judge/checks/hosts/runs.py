"""What hosts do with the tools of all servers of a run together: most take no more than so many.

A recording has one server, so its own messages show only the tools of this one. ``view.across_servers`` finds
the recordings of a run.
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


@slotted(frozen=True)
class ListedTools:
    """A list of tools that was read to its end: how many there are, and the frame of its last page.

    ``pointer`` leads to the tools in it, ``revisions`` are those that may apply, and ``client`` has read it.
    """

    number: int
    seq: int
    pointer: str
    revisions: tuple[str, ...]
    client: Client | None


def collector(receive: Callable[[ListedTools], None]) -> RuleFamily:
    """Make a family without checks that calls ``receive`` with every list of tools that is whole."""

    def collect(context: MessageContext[Response], history: History) -> None:
        this = page(context, history)
        if this is not None and this.next_cursor is None and this.walk.is_whole:
            number, at = len(this.names_so_far()), f"{context.at}/result/tools"
            client = client_of(context, history)
            receive(ListedTools(number, context.seq, at, context.candidates, client))

    return RuleFamily(updates=(StateUpdate(collect, (Response,), ("tools/list",), sender=SERVER),))


def too_many_together(
    choice: HostChoice, listed: Sequence[ListedTools], doubt: str
) -> Iterator[tuple[ListedTools, Violation]]:
    """Yield the limits that the tools of several servers are over together, and no server alone (HOST-005).

    ``listed`` has one list of each server. Each limit is yielded with the longest of them. ``doubt`` says
    that the servers are perhaps not those of one run, and is empty if they are.
    """
    longest, total = max(listed, key=lambda each: each.number), sum(each.number for each in listed)
    for judged in choice.hosts(longest.client):
        for fact in judged.facts:
            if fact.kind != "tool-count" or fact.settings["over"] != "run":
                continue
            if longest.number <= fact.settings["limit"] < total:
                servers = f"the {len(listed)} servers of this run"
                met = f"you list {longest.number:,} of the {total:,} tools of {servers}"
                found = FactMet(judged, fact, longest.pointer, met + doubt, "")
                yield longest, found.violation(candidates=longest.revisions, is_doubtful=bool(doubt))
