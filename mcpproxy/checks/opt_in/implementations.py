"""Which implementation spoke which revision, and whether the user's file of version ranges allows it.

A peer names itself in the handshake or, in the revisions without one, in the ``_meta`` of requests and
results. The revision it speaks is known once the server has answered.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#initialization
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from mcpproxy.base.slotted import field, slotted
from mcpproxy.checks.engine.context import MessageContext, Violation, as_object, member, shortened
from mcpproxy.checks.engine.rows import Check, RuleFamily, StateUpdate
from mcpproxy.protocol.jsonrpc import JSON, Response
from mcpproxy.session.frame import CLIENT, SERVER, Sender
from mcpproxy.session.history import History

CLIENT_KEY: Final = "io.modelcontextprotocol/clientInfo"
SERVER_KEY: Final = "io.modelcontextprotocol/serverInfo"

ANY: Final = "any"
"""Used in place of a revision: applies to every revision."""

MAX_REMEMBERED: Final = 1_000
"""The number of implementations remembered per session, which is more than any session has."""


@slotted(frozen=True)
class SpokenRevision:
    """An implementation and the revision that it spoke; ``pointer`` is its place, empty for a client."""

    role: Sender
    name: str
    version: str
    revision: str
    pointer: str


Range: TypeAlias = Callable[[str], str]
"""Says what is wrong with a version, as the end of a sentence; empty if it is within the range."""

Ranges: TypeAlias = Mapping[str, Mapping[str, Range]]
"""Revision (or ``any``) -> name of the implementation -> the versions allowed."""


@slotted()
class CheckedImplementations:
    """The implementations of this session that were already checked."""

    known: set[SpokenRevision] = field(default_factory=set[SpokenRevision])


def implementations(context: MessageContext) -> Iterator[SpokenRevision]:
    """Yield the implementations whose revision this answer shows."""
    message, asked = context.message, context.answers
    if not isinstance(message, Response) or asked is None or len(context.candidates) != 1:
        return
    [revision] = context.candidates
    if asked.method == "initialize":
        client, server = member(asked.params, "clientInfo"), member(message.result, "serverInfo")
        where = "/result/serverInfo"
    elif asked.stateless:
        client, server = (
            member(asked.params, "_meta", CLIENT_KEY),
            member(message.result, "_meta", SERVER_KEY),
        )
        where = "/result/_meta"
    else:
        return
    yield from _named(CLIENT, client, revision, "")
    yield from _named(SERVER, server, revision, context.at + where)


def collector(receive: Callable[[SpokenRevision], None]) -> RuleFamily:
    """Make a family that has no checks and calls ``receive`` with each implementation it sees."""

    def collect(context: MessageContext, history: History) -> None:
        for one in implementations(context):
            receive(one)

    return RuleFamily(updates=(StateUpdate(collect, ("response",)),))


def range_checks(ranges: Ranges) -> RuleFamily:
    """Make a family that checks implementations against ``ranges`` and reports each once per session."""

    def version_outside_range(context: MessageContext, history: History) -> Iterator[Violation]:
        """Report an implementation whose version is outside its range (VER-001)."""
        if not ranges:
            return
        checked = history.of(CheckedImplementations).known
        for one in implementations(context):
            if one in checked or len(checked) >= MAX_REMEMBERED:
                continue
            for table in (one.revision, ANY):
                allowed = ranges.get(table, {}).get(one.name)
                if allowed is not None and (fault := allowed(one.version)):
                    problem = f"{one.role} is {shortened(one.name)} {shortened(one.version)}, {fault}"
                    frame = context.answers.seq if one.role == CLIENT and context.answers else None
                    yield Violation(
                        "VER-001", "X-006", problem, pointer=one.pointer or None, blame=one.role, frame=frame
                    )

    def remember(context: MessageContext, history: History) -> None:
        checked = history.of(CheckedImplementations).known
        for one in implementations(context):
            if len(checked) < MAX_REMEMBERED:
                checked.add(one)

    return RuleFamily(
        checks=(Check(("VER-001",), version_outside_range, ("response",)),),
        updates=(StateUpdate(remember, ("response",)),) if ranges else (),
    )


def _named(role: Sender, info: JSON, revision: str, pointer: str) -> Iterator[SpokenRevision]:
    found = as_object(info)
    name, version = member(found, "name"), member(found, "version")
    if isinstance(name, str) and isinstance(version, str):
        yield SpokenRevision(role, name, version, revision, pointer)


FAMILY: Final = range_checks({})
