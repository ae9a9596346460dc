"""The directories and files that a client tells its server of.

Source: https://modelcontextprotocol.io/specification/2025-11-25/client/roots
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.checks.breach import Breach, Passing, member
from mcpproxy.checks.embedded import BRINGING, REPLY_CARRIERS, Reply, judge_replies
from mcpproxy.checks.table import Decider, EventDecider, Family, Note
from mcpproxy.protocol.jsonrpc import JSON, Response
from mcpproxy.protocol.revisions import STATELESS
from mcpproxy.protocol.slotted import slotted
from mcpproxy.protocol.wording import shown
from mcpproxy.session.frame import CLIENT, Close, Signal
from mcpproxy.session.history import History

ROOTS: Final = ("roots/list",)


@slotted()
class Roots:
    """The roots that the client listed last, and whether it has told of their change.

    ``asked_seq`` and ``seq`` are the frames of that roots/list and its answer, ``announced_seq`` that of
    the latest notification. ``unannounced`` are the two answers of a change nobody has told of so far.
    """

    uris: frozenset[str] | None = None
    asked_seq: int = 0
    seq: int = 0
    announced_seq: int = 0
    unannounced: tuple[int, int] | None = None


def outside_file_system(passing: Passing, history: History) -> Iterable[Breach]:
    """ROOT-001"""
    return judge_replies(passing, history, "roots/list", (_outside,))


def _outside(reply: Reply, passing: Passing, history: History) -> Iterator[Breach]:
    for index, uri in enumerate(_uris(reply.result)):
        if isinstance(uri, str) and not uri.lower().startswith("file://"):
            said = f"client listed the root {shown(uri)}, whose URI does not begin with file://"
            yield Breach("ROOT-001", "R-172", said, f"{reply.at}/roots/{index}/uri")


def unannounced_change(event: Signal | Close, history: History) -> Iterator[Breach]:
    """ROOT-002

    A notification may cross the answer that already shows the change, so this waits for the end.
    """
    roots = history.of(Roots)
    if isinstance(event, Close) and roots.unannounced and not history.blind and history.client.was_read:
        first, second = roots.unannounced
        said = "client listed other roots than before, but never sent notifications/roots/list_changed"
        yield Breach("ROOT-002", "R-173", said, "/result/roots", (first,), blame="client", frame=second)


def _note_list(passing: Passing, history: History) -> None:
    message, asked = passing.message, passing.answers
    if passing.sender != CLIENT or asked is None or not isinstance(message, Response):
        return
    roots, uris = history.of(Roots), frozenset(uri for uri in _uris(message.result) if isinstance(uri, str))
    changed = roots.uris is not None and uris != roots.uris
    # A client may tell of the change before it answers the request that was made before it.
    announced = roots.announced_seq > roots.asked_seq
    promised = member(history.client_capabilities, "roots", "listChanged") is True
    if changed and promised and not announced and not history.scattered:
        roots.unannounced = (roots.seq, passing.seq)
    roots.uris, roots.asked_seq, roots.seq = uris, asked.seq, passing.seq


def _note_change(passing: Passing, history: History) -> None:
    roots = history.of(Roots)
    roots.announced_seq, roots.unannounced = passing.seq, None


def _uris(result: JSON) -> list[JSON]:
    listed = member(result, "roots")
    return [member(root, "uri") for root in listed] if isinstance(listed, list) else []


_LIST: Final = ("ROOT-001",)

FAMILY: Final = Family(
    checks=(
        Decider(_LIST, outside_file_system, ("response",), ROOTS),
        Decider(_LIST, outside_file_system, ("request",), REPLY_CARRIERS, within=STATELESS, members=BRINGING),
    ),
    events=(EventDecider(("ROOT-002",), unannounced_change),),
    notes=(
        Note(_note_list, ("response",), ROOTS),
        Note(_note_change, ("notification",), ("notifications/roots/list_changed",)),
    ),
)
