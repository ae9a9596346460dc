"""Roots: the directories and files that a client lists for its server.

Source: https://modelcontextprotocol.io/specification/2025-11-25/client/roots
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.judge.checks.basic.embedded import INPUT_RESPONSES, REPLY_CARRIERS, Reply, check_replies
from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.rows import Check, EventCheck, RuleFamily, StateUpdate
from mcpproxy.judge.session.frame import CLIENT, Close, Signal
from mcpproxy.judge.session.history import History
from mcpproxy.protocol.jsonrpc import JSON, Notification, Request, Response
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.revisions import STATELESS
from mcpproxy.protocol.wording import shown

ROOTS: Final = ("roots/list",)


@slotted()
class Roots:
    """The roots that the client listed last, and whether it has announced a change.

    ``answered_seq`` is the frame of the result with these roots, ``asked_seq`` the frame of its request.
    ``announced_seq`` is the frame of the latest notifications/roots/list_changed. If two successive results
    differ although the client promised to announce changes, ``unannounced`` has the frames of both results
    until a notification comes.
    """

    uris: frozenset[str] | None = None
    asked_seq: int = 0
    answered_seq: int = 0
    announced_seq: int = 0
    unannounced: tuple[int, int] | None = None


def outside_file_system(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a root whose URI does not begin with ``file://`` (ROOT-001)."""
    return check_replies(context, history, "roots/list", (_outside_roots,))


def _outside_roots(reply: Reply, context: MessageContext, history: History) -> Iterator[Violation]:
    for index, uri in enumerate(_uris(reply.result)):
        if isinstance(uri, str) and not uri.lower().startswith("file://"):
            problem = f"client listed the root {shown(uri)}, whose URI does not begin with file://"
            yield Violation("ROOT-001", "R-172", problem, pointer=f"{reply.at}/roots/{index}/uri")


def unannounced_change(event: Signal | Close, history: History) -> Iterator[Violation]:
    """Report roots that changed without the notification that the client promised in its capabilities
    (ROOT-002).

    The notification may come after the answer that shows the change, so this is judged at the end.
    """
    roots = history.of(Roots)
    if isinstance(event, Close) and roots.unannounced and not history.has_gap and history.client.fully_read:
        earlier_seq, later_seq = roots.unannounced
        problem = "client listed other roots than before, but never sent notifications/roots/list_changed"
        yield Violation(
            "ROOT-002",
            "R-173",
            problem,
            pointer="/result/roots",
            related=(earlier_seq,),
            blame="client",
            frame=later_seq,
        )


def remember_list(context: MessageContext[Response], history: History) -> None:
    """Record the roots that the client listed, and whether they changed without a promised notification."""
    message, request = context.message, context.answers
    if context.sender != CLIENT or request is None:
        return
    roots, uris = history.of(Roots), frozenset(uri for uri in _uris(message.result) if isinstance(uri, str))
    changed = roots.uris is not None and uris != roots.uris
    # A notification that came after the previous roots/list may announce the change that this result shows.
    is_announced = roots.announced_seq > roots.asked_seq
    promises_notification = member(history.client_capabilities, "roots", "listChanged") is True
    if changed and promises_notification and not is_announced and not history.may_lack_messages:
        roots.unannounced = (roots.answered_seq, context.seq)
    roots.uris, roots.asked_seq, roots.answered_seq = uris, request.seq, context.seq


def remember_change(context: MessageContext, history: History) -> None:
    """Record that the client announced a change of its roots."""
    roots = history.of(Roots)
    roots.announced_seq, roots.unannounced = context.seq, None


def _uris(result: JSON) -> list[JSON]:
    """Return the URI of each root in a result of roots/list."""
    roots = member(result, "roots")
    return [member(root, "uri") for root in roots] if isinstance(roots, list) else []


_LIST_RULES: Final = ("ROOT-001",)

FAMILY: Final = RuleFamily(
    checks=(
        Check(_LIST_RULES, outside_file_system, (Response,), ROOTS),
        Check(
            _LIST_RULES,
            outside_file_system,
            (Request,),
            REPLY_CARRIERS,
            within=STATELESS,
            members=INPUT_RESPONSES,
        ),
    ),
    events=(EventCheck(("ROOT-002",), unannounced_change),),
    updates=(
        StateUpdate(remember_list, (Response,), ROOTS),
        StateUpdate(remember_change, (Notification,), ("notifications/roots/list_changed",)),
    ),
)
