"""Pins: tools that a user has approved, and whether a server still offers them unchanged.

A server is identified by the name it gives itself: in the handshake or, in the revisions without one, in the
``_meta`` of its results. If only one server has pins, a server without a name is taken for that one. Nothing
is reported about what was not seen: an incomplete list does not show that a tool is missing, and a server
whose handshake was not seen is not identified.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/tools#security-considerations
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from mcpproxy.base.slotted import field, slotted
from mcpproxy.checks.engine.context import MessageContext, Violation, member
from mcpproxy.checks.engine.rows import Check, RuleFamily, StateUpdate
from mcpproxy.checks.server.definitions import changes, definition, describe_difference, digest
from mcpproxy.checks.server.listings import MAX_ITEMS, Page, listed, page
from mcpproxy.checks.stateless.servers import MAX_CALLERS, SERVER_INFO_KEY
from mcpproxy.protocol.jsonrpc import ABSENT, Absent, JSONObject, Response
from mcpproxy.protocol.wording import shown
from mcpproxy.session.frame import SERVER
from mcpproxy.session.history import History, keep_latest
from mcpproxy.session.masked_values import holds_mask

TOOLS: Final = "tools/list"
OPENINGS: Final = ("initialize", "server/discover")
"""The methods whose result holds the server's instructions."""


@slotted(frozen=True)
class Approved:
    """What is approved of one server.

    ``revisions`` are those in which the approved state was seen. ``instructions`` is ``None`` if the server
    gave none, and absent if that is not known. ``tools`` maps names to definitions, as ``definition`` makes
    them.
    """

    revisions: tuple[str, ...]
    instructions: "str | Absent | None"
    tools: Mapping[str, JSONObject]


Pins: TypeAlias = Mapping[str, Approved]
"""What is approved, by server name; the name is empty for a server that gives none."""


@slotted(frozen=True)
class SeenTools:
    """The part of one answer of a server that can be pinned.

    ``server`` is ``None`` if its name was not seen. ``whole`` says that ``tools`` are the last page of a list
    of which no page is missing.
    """

    server: str | None
    seq: int
    revisions: tuple[str, ...]
    instructions: "str | Absent | None" = ABSENT
    tools: tuple[JSONObject, ...] | None = None
    whole: bool = False


@slotted()
class NamesByCaller:
    """The name of each caller's server; ``None`` if it is masked."""

    known: dict[str, str | None] = field(default_factory=dict[str, str | None])


@slotted()
class ReportedPins:
    """The changes that were already reported and are not reported again in the same session."""

    reported: set[tuple[str, ...]] = field(default_factory=set[tuple[str, ...]])


@slotted()
class Definitions:
    """Each tool as last listed: its pinned fields, the frame, and the revisions that may apply.

    The keys are the caller, the parameters of the list (see ``ListWalk.asked``) and the name.
    """

    tools: dict[tuple[str, str, str], tuple[JSONObject, int, tuple[str, ...]]] = field(
        default_factory=dict[tuple[str, str, str], tuple[JSONObject, int, tuple[str, ...]]]
    )


def collector(receive: Callable[[SeenTools], None]) -> RuleFamily:
    """Make a family that has no checks and calls ``receive`` with all that can be pinned.

    It needs the state that ``tools.FAMILY`` records.
    """

    def collect(context: MessageContext[Response], history: History) -> None:
        asked, message = context.answers, context.message
        name, revisions = _server(context, history), context.candidates
        if asked is not None and asked.method in OPENINGS:
            receive(SeenTools(name, context.seq, revisions, _instructions(message)))
        elif (found := page(context, history)) is not None:
            tools = tuple(tool for _, _, tool in found.named)
            whole = found.next is None and found.walk.whole and not history.has_gap
            receive(SeenTools(name, context.seq, revisions, tools=tools, whole=whole))

    return RuleFamily(
        updates=(
            StateUpdate(remember_name, (Response,), sender=SERVER),
            # This must run before the family of the lists records the page.
            StateUpdate(collect, (Response,), (*OPENINGS, TOOLS), sender=SERVER),
        )
    )


KeyedViolations: TypeAlias = Iterator[tuple[tuple[str, ...], Violation]]
"""Violations, each with a key that identifies the change within the session."""


def pin_checks(pins: Pins | None) -> RuleFamily:
    """Make a family that checks servers against ``pins`` and reports each change once per session.

    Without pins its checks report nothing.
    """

    def changed_tool(context: MessageContext, history: History) -> Iterator[Violation]:
        """Report a tool that has changed since it was pinned, or is not pinned (PIN-001, PIN-002)."""
        return _unreported(_changed_tools(pins, context, history), history)

    def vanished_tool(context: MessageContext, history: History) -> Iterator[Violation]:
        """Report a pinned tool that is no longer listed (PIN-003)."""
        return _unreported(_vanished_tools(pins, context, history), history)

    def changed_instructions(context: MessageContext, history: History) -> Iterator[Violation]:
        """Report instructions that have changed since they were pinned (PIN-004)."""
        return _unreported(_changed_instructions(pins, context, history), history)

    def remember_reported(context: MessageContext, history: History) -> None:
        """Record the changes that were reported."""
        reported = history.across_requests(ReportedPins).reported
        for changed in (_changed_tools, _vanished_tools, _changed_instructions):
            for key, _ in changed(pins, context, history):
                if len(reported) < MAX_ITEMS:
                    reported.add((history.caller, *key))

    return RuleFamily(
        checks=(
            Check(("PIN-001", "PIN-002"), changed_tool, (Response,), (TOOLS,), sender=SERVER),
            Check(("PIN-003",), vanished_tool, (Response,), (TOOLS,), sender=SERVER),
            Check(("PIN-004",), changed_instructions, (Response,), OPENINGS, sender=SERVER),
        ),
        updates=(
            StateUpdate(remember_name, (Response,), sender=SERVER),
            StateUpdate(remember_reported, (Response,), (*OPENINGS, TOOLS), sender=SERVER),
        )
        if pins is not None
        else (),
    )


def _changed_tools(pins: Pins | None, context: MessageContext, history: History) -> KeyedViolations:
    found = page(context, history)
    if pins is None or found is None:
        return
    server = _server(context, history)
    approved = _approved(pins, server, context, history)
    if approved is None:
        if server and server not in pins:
            problem = f"server {shown(server)} is not pinned, and lists tools"
            yield (
                ("server", server),
                Violation("PIN-002", "X-009", problem, pointer=context.at + "/result/tools"),
            )
        return
    for index, name, tool in found.named:
        at, now = f"{context.at}/result/tools/{index}", definition(tool)
        if (was := approved.tools.get(name)) is not None:
            for change in changes(was, now, context.candidates, approved.revisions):
                problem = f"server has changed the {change.field} of tool {shown(name)} since it was pinned: "
                key = ("tool", name, change.field, digest(now.get(change.field)))
                yield key, Violation("PIN-001", "X-007", problem + change.what, pointer=at + change.pointer)
        else:
            problem = f"server lists tool {shown(name)}, which is not pinned"
            yield ("new", name), Violation("PIN-002", "X-008", problem, pointer=at + "/name")


def _vanished_tools(pins: Pins | None, context: MessageContext, history: History) -> KeyedViolations:
    found = page(context, history)
    if pins is None or found is None or not _is_whole(found, history):
        return
    approved = _approved(pins, _server(context, history), context, history)
    names = found.names()
    if approved is None or (history.masked and holds_mask([*names])):
        return
    for name in sorted(approved.tools.keys() - set(names)):
        problem = f"server does not list tool {shown(name)}, which is pinned"
        yield ("gone", name), Violation("PIN-003", "X-010", problem, pointer=context.at + "/result/tools")


def _changed_instructions(pins: Pins | None, context: MessageContext, history: History) -> KeyedViolations:
    asked, message = context.answers, context.message
    if pins is None or asked is None or asked.method not in OPENINGS or not isinstance(message, Response):
        return
    approved = _approved(pins, _server(context, history), context, history)
    now = _instructions(message)
    if approved is None or approved.instructions is ABSENT or approved.instructions == now:
        return
    was = ABSENT if approved.instructions is None else approved.instructions
    _, what = describe_difference(was, ABSENT if now is None else now)
    problem = f"server has changed its instructions since they were pinned: {what}"
    pointer = "/result" if now is None else "/result/instructions"
    yield ("instructions", digest(now)), Violation("PIN-004", "X-011", problem, pointer=context.at + pointer)


def _unreported(violations: KeyedViolations, history: History) -> Iterator[Violation]:
    """Yield the violations not reported before. Past the limit of what is remembered, all are reported."""
    earlier, now = history.across_requests(ReportedPins).reported, set[tuple[str, ...]]()
    for change, violation in violations:
        key = (history.caller, *change)
        if key not in earlier and key not in now:
            now.add(key)
            yield violation


# Within one session


def redefined_tool(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a tool whose definition changes within a session (PIN-005)."""
    found = page(context, history)
    if found is None:
        return
    before, caller = history.across_requests(Definitions).tools, history.caller
    counts = Counter(name for _, name, _ in found.named)
    for index, name, tool in found.named:
        was, seq, then = before.get((caller, found.walk.asked, name), (None, 0, ()))
        if was is None or name in found.walk.items or counts[name] > 1:
            continue
        if history.masked and holds_mask(was):
            continue
        at, now = f"{context.at}/result/tools/{index}", definition(tool)
        announced = "" if listed(history, TOOLS).changed_seq > seq else ", and announced no change"
        for change in changes(was, now, context.candidates, then):
            problem = (
                f"server has changed the {change.field} of tool {shown(name)} in mid-session{announced}: "
            )
            yield Violation(
                "PIN-005", "X-012", problem + change.what, pointer=at + change.pointer, related=(seq,)
            )


def remember_definitions(context: MessageContext, history: History) -> None:
    """Record how each tool is defined on this page, unless its list has two tools of that name."""
    found = page(context, history)
    if found is None:
        return
    known, tools = listed(history, TOOLS), history.across_requests(Definitions).tools
    # The page is already recorded with its walk.
    walk = known.latest if found.next is None else known.under_way.get(found.next)
    walk = walk if walk is not None and walk.seq == context.seq else found.walk
    counts = Counter(name for _, name, _ in found.named)
    for _, name, tool in found.named:
        key = (history.caller, walk.asked, name)
        if name in walk.repeated or counts[name] > 1:
            tools.pop(key, None)
        else:
            keep_latest(tools, key, (definition(tool), context.seq, context.candidates), MAX_ITEMS)


# Which server it is


def remember_name(context: MessageContext, history: History) -> None:
    """Record the name that the server gives itself."""
    name = _own_name(context, history)
    if not isinstance(name, Absent):
        keep_latest(history.across_requests(NamesByCaller).known, history.caller, name, MAX_CALLERS)


def _server(context: MessageContext, history: History) -> str | None:
    """Return the name of the server that answers; empty if it gives none, ``None`` if it is not known."""
    name = _own_name(context, history)
    if isinstance(name, Absent):
        nameless = "" if context.stateless and not history.has_gap else None
        return history.across_requests(NamesByCaller).known.get(history.caller, nameless)
    return name


def _own_name(context: MessageContext, history: History) -> "str | Absent | None":
    """Return the name in an answer: ``None`` if it is masked, absent if the answer has no place for one."""
    asked, message = context.answers, context.message
    if asked is None or not isinstance(message, Response):
        return ABSENT
    if asked.method == "initialize":
        name = member(message.result, "serverInfo", "name")
        name = name if isinstance(name, str) else ""
    else:
        name = member(message.result, "_meta", SERVER_INFO_KEY, "name") if context.stateless else None
    if not isinstance(name, str):
        return ABSENT
    return None if history.masked and holds_mask(name) else name


def _approved(pins: Pins, server: str | None, context: MessageContext, history: History) -> Approved | None:
    """Return what is approved of a server; ``None`` if it is not identified or not pinned."""
    if server == "" and "" not in pins and len(pins) == 1:
        return next(iter(pins.values()))
    return None if server is None else pins.get(server)


def _instructions(message: Response) -> str | None:
    found = member(message.result, "instructions")
    return found if isinstance(found, str) and found else None


def _is_whole(found: Page, history: History) -> bool:
    return found.next is None and found.walk.whole and not history.has_gap and not history.in_both_eras


FAMILY: Final = RuleFamily(
    checks=(
        *pin_checks(None).checks,
        Check(("PIN-005",), redefined_tool, (Response,), (TOOLS,), sender=SERVER),
    ),
    updates=(StateUpdate(remember_definitions, (Response,), (TOOLS,), sender=SERVER),),
)
