"""Which implementation uses which protocol revision, and whether the user's version ranges allow that.

An implementation is the software of a peer, with a name and a version. A peer names its implementation in
the handshake or, in the stateless revisions, in the ``_meta`` of requests and results. The revision that it
uses is known once the server has answered.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#initialization
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from mcpproxy.base.slotted import slotted
from mcpproxy.judge.checks.engine.context import MessageContext, Violation, shortened
from mcpproxy.judge.checks.engine.once import Keyed, remember, unreported
from mcpproxy.judge.checks.engine.rows import Check, RuleFamily, StateUpdate
from mcpproxy.judge.session.frame import CLIENT, SERVER, Sender
from mcpproxy.judge.session.history import History
from mcpproxy.protocol.jsonrpc import JSON, Response
from mcpproxy.protocol.message_parts import as_object, member
from mcpproxy.protocol.meta_keys import CLIENT_INFO_KEY, SERVER_INFO_KEY

ANY: Final = "any"
"""Used in place of a revision: applies to every revision."""


@slotted(frozen=True)
class SpokenRevision:
    """An implementation and the revision that it uses. ``version`` is ``None`` if it names none.

    ``pointer`` is the JSON Pointer of the member of the answer that names a server. For a client it is empty,
    because the client's name is in the request.
    """

    role: Sender
    name: str
    version: str | None
    revision: str
    pointer: str


Range: TypeAlias = Callable[[str], str]
"""Says what is wrong with a version, as the end of a sentence; empty if it is within the range."""

Ranges: TypeAlias = Mapping[str, Mapping[str, Range]]
"""By revision (or ``any``) and by name of the implementation: the versions that are allowed."""


def implementations(context: MessageContext) -> Iterator[SpokenRevision]:
    """Yield the implementations whose revision this answer shows."""
    message, request = context.message, context.answers
    if not isinstance(message, Response) or request is None or len(context.candidates) != 1:
        return
    [revision] = context.candidates
    if request.method == "initialize":
        client, server = member(request.params, "clientInfo"), member(message.result, "serverInfo")
        server_pointer = "/result/serverInfo"
    elif request.stateless:
        client, server = (
            member(request.params, "_meta", CLIENT_INFO_KEY),
            member(message.result, "_meta", SERVER_INFO_KEY),
        )
        server_pointer = "/result/_meta"
    else:
        return
    yield from _implementation_in(CLIENT, client, revision, "")
    yield from _implementation_in(SERVER, server, revision, context.at + server_pointer)


def collector(receive: Callable[[SpokenRevision], None]) -> RuleFamily:
    """Make a family that has no checks and calls ``receive`` with each implementation it sees."""

    def collect(context: MessageContext, history: History) -> None:
        for implementation in implementations(context):
            receive(implementation)

    return RuleFamily(updates=(StateUpdate(collect, (Response,)),))


def range_checks(ranges: Ranges) -> RuleFamily:
    """Make a family that checks implementations against ``ranges`` and reports each once per session.

    Without ranges its check reports nothing.
    """

    def version_outside_range(context: MessageContext, history: History) -> Iterator[Violation]:
        """Report an implementation whose version is outside its range (VER-001)."""
        return unreported("VER", _outside_range(ranges, context), history)

    def remember_reported(context: MessageContext, history: History) -> None:
        """Record the findings as reported."""
        remember("VER", _outside_range(ranges, context), history)

    return RuleFamily(
        checks=(Check(("VER-001",), version_outside_range, (Response,)),),
        updates=(StateUpdate(remember_reported, (Response,)),) if ranges else (),
    )


def _outside_range(ranges: Ranges, context: MessageContext) -> Keyed:
    """Yield a violation for each implementation in this answer whose version is outside its range."""
    for implementation in implementations(context) if ranges else ():
        role, name, version = implementation.role, implementation.name, implementation.version
        if version is None:
            continue
        for revision in (implementation.revision, ANY):
            version_range = ranges.get(revision, {}).get(name)
            if version_range is not None and (fault := version_range(version)):
                problem = f"{role} is {shortened(name)} {shortened(version)}, {fault}"
                yield (
                    (role, name, version, revision),
                    Violation(
                        "VER-001",
                        "X-006",
                        problem,
                        pointer=implementation.pointer or None,
                        blame=role,
                        frame=context.answers.seq if role == CLIENT and context.answers else None,
                    ),
                )


def _implementation_in(role: Sender, info: JSON, revision: str, pointer: str) -> Iterator[SpokenRevision]:
    """Yield the implementation that ``info`` names."""
    info_object = as_object(info)
    name, version = member(info_object, "name"), member(info_object, "version")
    if isinstance(name, str):
        yield SpokenRevision(role, name, version if isinstance(version, str) else None, revision, pointer)


FAMILY: Final = range_checks({})
