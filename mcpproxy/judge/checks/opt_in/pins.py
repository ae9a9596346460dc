"""Pins: the tools and instructions of a server that a user has approved, and whether they have changed.

A server is identified by the name that it gives in the handshake or, in the stateless revisions, in the
``_meta`` of its results. Over HTTP without session ids, nothing shows to which handshake a list belongs; its
server is then identified by the one name that was given at the same URL in answer to requests with equal
headers. If only one server has pins, they also apply to a server without a name. Only what was seen is
judged: an incomplete list does not show that a tool is missing, and a server whose handshake was not seen is
not identified.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/tools#security-considerations
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.once import Keyed, remember, unreported
from mcpproxy.judge.checks.engine.rows import Check, RuleFamily, StateUpdate
from mcpproxy.judge.checks.server.definitions import changes, definition, describe_difference, digest
from mcpproxy.judge.checks.server.listings import MAX_ITEMS, Page, listed, page
from mcpproxy.judge.checks.stateless.servers import MAX_CALLERS
from mcpproxy.judge.session.frame import SERVER
from mcpproxy.judge.session.history import History, keep_latest
from mcpproxy.judge.session.masked_values import holds_mask
from mcpproxy.protocol.jsonrpc import ABSENT, Absent, JSONObject, Response
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.meta_keys import SERVER_INFO_KEY
from mcpproxy.protocol.methods import OPENINGS
from mcpproxy.protocol.wording import shown

TOOLS: Final = "tools/list"


@slotted(frozen=True)
class Approved:
    """The approved tools and instructions of one server.

    ``revisions`` are the protocol revisions that it used. ``instructions`` is ``None`` if the server
    gave none, and ``ABSENT`` if they are unknown. ``tools`` maps names to definitions: the fields of a tool
    that are compared, as the function ``definition`` returns them.
    """

    revisions: tuple[str, ...]
    instructions: "str | Absent | None"
    tools: Mapping[str, JSONObject]


Pins: TypeAlias = Mapping[str, Approved]
"""The approved tools and instructions of each server, by its name; the name is empty if it gives none."""


@slotted(frozen=True)
class SeenTools:
    """The instructions or the tools in one answer of a server, for a user to pin.

    ``server`` is the server's name, ``None`` if the name was not seen. In the answer to an opening
    (see ``OPENINGS``) ``tools`` is ``None``; in a page of tools ``instructions`` is ``ABSENT``.
    ``ends_whole_list`` is set if ``tools`` are the last page of a list, and all its pages were seen.
    """

    server: str | None
    seq: int
    revisions: tuple[str, ...]
    instructions: "str | Absent | None" = ABSENT
    tools: tuple[JSONObject, ...] | None = None
    ends_whole_list: bool = False


@slotted()
class NamesByCaller:
    """The name of each caller's server (see ``History.caller``); ``None`` if the name is masked."""

    names: dict[str, str | None] = field(default_factory=dict[str, str | None])


@slotted()
class NameAtEndpoint:
    """The one server name that was given at a URL in answer to requests with equal headers.

    ``ABSENT`` if none was given, ``None`` if several were or if the name is masked.
    """

    name: "str | Absent | None" = ABSENT


@slotted()
class Definitions:
    """Each tool as it was last listed: its definition, the frame, and the revisions that may apply.

    The key is the caller, the parameters of the list (see ``ListWalk.list_params``) and the name of the tool.
    """

    tools: dict[tuple[str, str, str], tuple[JSONObject, int, tuple[str, ...]]] = field(
        default_factory=dict[tuple[str, str, str], tuple[JSONObject, int, tuple[str, ...]]]
    )


def collector(receive: Callable[[SeenTools], None]) -> RuleFamily:
    """Make a family without checks that calls ``receive`` with everything that can be pinned.

    The family needs the state that ``checks.server.tools.FAMILY`` records.
    """

    def collect(context: MessageContext[Response], history: History) -> None:
        """Pass on the instructions or tools in the answer."""
        request, message = context.answers, context.message
        server, revisions = _server_name(context, history), context.candidates
        if request is not None and request.method in OPENINGS:
            receive(SeenTools(server, context.seq, revisions, _instructions(message)))
        elif (tools_page := page(context, history)) is not None:
            tools = tuple(tool for _, _, tool in tools_page.items)
            is_whole = _ends_whole_list(tools_page, history)
            receive(SeenTools(server, context.seq, revisions, tools=tools, ends_whole_list=is_whole))

    return RuleFamily(
        updates=(
            StateUpdate(remember_name, (Response,), sender=SERVER),
            # This update must run before ``checks.server.tools.FAMILY`` adds the page to its list.
            StateUpdate(collect, (Response,), (*OPENINGS, TOOLS), sender=SERVER),
        )
    )


def pin_checks(pins: Pins | None) -> RuleFamily:
    """Make a family that checks servers against ``pins`` and reports each change once per session.

    Without pins its checks report nothing.
    """

    def changed_tool(context: MessageContext, history: History) -> Iterator[Violation]:
        """Report a tool that has changed since it was pinned, or a tool or server without a pin (PIN-001,
        PIN-002).
        """
        return unreported("PIN", _changed_tools(pins, context, history), history)

    def vanished_tool(context: MessageContext, history: History) -> Iterator[Violation]:
        """Report a pinned tool that is no longer listed (PIN-003)."""
        return unreported("PIN", _vanished_tools(pins, context, history), history)

    def changed_instructions(context: MessageContext, history: History) -> Iterator[Violation]:
        """Report instructions that have changed since they were pinned (PIN-004)."""
        return unreported("PIN", _changed_instructions(pins, context, history), history)

    def remember_reported(context: MessageContext, history: History) -> None:
        """Record the changes that were reported."""
        for violations_of in (_changed_tools, _vanished_tools, _changed_instructions):
            remember("PIN", violations_of(pins, context, history), history)

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


def _changed_tools(pins: Pins | None, context: MessageContext, history: History) -> Keyed:
    """Yield a violation for each tool on this page that is not pinned or differs from its pin (PIN-001,
    PIN-002). If the server itself is not pinned, yield one violation for the server instead (PIN-002).
    """
    tools_page = page(context, history)
    if pins is None or tools_page is None:
        return
    server = _server_name(context, history)
    approved = _approved(pins, server)
    if approved is None:
        if server and server not in pins:
            problem = f"server {shown(server)} is not pinned, and lists tools"
            yield (
                ("server", server),
                Violation("PIN-002", "X-009", problem, pointer=context.at + "/result/tools"),
            )
        return
    for index, name, tool in tools_page.items:
        pointer, current = f"{context.at}/result/tools/{index}", definition(tool)
        if (pinned := approved.tools.get(name)) is not None:
            for change in changes(pinned, current, context.candidates, approved.revisions):
                problem = f"server has changed the {change.field} of tool {shown(name)} since it was pinned: "
                key = ("tool", name, change.field, digest(current.get(change.field)))
                yield (
                    key,
                    Violation("PIN-001", "X-007", problem + change.what, pointer=pointer + change.pointer),
                )
        else:
            problem = f"server lists tool {shown(name)}, which is not pinned"
            yield ("new", name), Violation("PIN-002", "X-008", problem, pointer=pointer + "/name")


def _vanished_tools(pins: Pins | None, context: MessageContext, history: History) -> Keyed:
    """Yield the violations of pinned tools that a whole list lacks (PIN-003)."""
    tools_page = page(context, history)
    if pins is None or tools_page is None or not _ends_whole_list(tools_page, history):
        return
    approved = _approved(pins, _server_name(context, history))
    names = tools_page.names_so_far()
    if approved is None or (history.masked and holds_mask([*names])):
        return
    for name in sorted(approved.tools.keys() - set(names)):
        problem = f"server does not list tool {shown(name)}, which is pinned"
        yield ("gone", name), Violation("PIN-003", "X-010", problem, pointer=context.at + "/result/tools")


def _changed_instructions(pins: Pins | None, context: MessageContext, history: History) -> Keyed:
    """Yield the violation of instructions that differ from the pinned ones (PIN-004)."""
    request, message = context.answers, context.message
    if pins is None or request is None or request.method not in OPENINGS or not isinstance(message, Response):
        return
    approved = _approved(pins, _server_name(context, history))
    current = _instructions(message)
    if approved is None or approved.instructions is ABSENT or approved.instructions == current:
        return
    # Here ``None`` stands for no instructions; ``describe_difference`` expects ``ABSENT`` for no value.
    pinned = ABSENT if approved.instructions is None else approved.instructions
    _, difference = describe_difference(pinned, ABSENT if current is None else current)
    problem = f"server has changed its instructions since they were pinned: {difference}"
    pointer = "/result" if current is None else "/result/instructions"
    yield (
        ("instructions", digest(current)),
        Violation("PIN-004", "X-011", problem, pointer=context.at + pointer),
    )


# Within one session


def redefined_tool(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a tool whose definition changes within a session (PIN-005)."""
    tools_page = page(context, history)
    if tools_page is None:
        return
    earlier_definitions, caller = history.across_requests(Definitions).tools, history.caller
    counts = Counter(name for _, name, _ in tools_page.items)
    for index, name, tool in tools_page.items:
        earlier, seq, earlier_revisions = earlier_definitions.get(
            (caller, tools_page.walk.list_params, name), (None, 0, ())
        )
        if earlier is None or name in tools_page.walk.items or counts[name] > 1:
            continue  # A name that is listed twice does not identify a tool.
        if history.masked and holds_mask(earlier):
            continue
        pointer, current = f"{context.at}/result/tools/{index}", definition(tool)
        announced = "" if listed(history, TOOLS).changed_seq > seq else ", and announced no change"
        for change in changes(earlier, current, context.candidates, earlier_revisions):
            problem = (
                f"server has changed the {change.field} of tool {shown(name)} in mid-session{announced}: "
            )
            yield Violation(
                "PIN-005", "X-012", problem + change.what, pointer=pointer + change.pointer, related=(seq,)
            )


def remember_definitions(context: MessageContext, history: History) -> None:
    """Record the definition of each tool on this page. Forget a tool whose name is listed twice."""
    tools_page = page(context, history)
    if tools_page is None:
        return
    tool_list, definitions = listed(history, TOOLS), history.across_requests(Definitions).tools
    # ``checks.server.tools.FAMILY`` has already added this page to its walk (see ``checks.server.listings``).
    cursor = tools_page.next_cursor
    walk = tool_list.latest if cursor is None else tool_list.under_way.get(cursor)
    walk = walk if walk is not None and walk.seq == context.seq else tools_page.walk
    counts = Counter(name for _, name, _ in tools_page.items)
    for _, name, tool in tools_page.items:
        key = (history.caller, walk.list_params, name)
        if name in walk.repeated or counts[name] > 1:
            definitions.pop(key, None)
        else:
            keep_latest(definitions, key, (definition(tool), context.seq, context.candidates), MAX_ITEMS)


# Which server it is


def remember_name(context: MessageContext, history: History) -> None:
    """Record the name that the server gives itself."""
    name = _own_name(context, history)
    if not isinstance(name, Absent):
        keep_latest(history.across_requests(NamesByCaller).names, history.caller, name, MAX_CALLERS)
        known = history.across_sessions(NameAtEndpoint)
        known.name = name if isinstance(known.name, Absent) or known.name == name else None


def _server_name(context: MessageContext, history: History) -> str | None:
    """Return the name of the server that answers; empty if it gives none, ``None`` if it is unknown."""
    name = _own_name(context, history)
    if isinstance(name, Absent):
        name = history.across_requests(NamesByCaller).names.get(history.caller, ABSENT)
    if isinstance(name, Absent):
        name = history.across_sessions(NameAtEndpoint).name
    if isinstance(name, Absent):
        # A stateless server may give no name. A stateful server gives its name in the handshake only.
        return "" if context.stateless and not history.has_gap else None
    return name


def _own_name(context: MessageContext, history: History) -> "str | Absent | None":
    """Return the server's name in an answer: ``None`` if it is masked, ``ABSENT`` if the answer has none.

    A result of initialize always gives a name, which is empty if the member is missing.
    """
    request, message = context.answers, context.message
    if request is None or not isinstance(message, Response):
        return ABSENT
    if request.method == "initialize":
        name = member(message.result, "serverInfo", "name")
        name = name if isinstance(name, str) else ""
    else:
        name = member(message.result, "_meta", SERVER_INFO_KEY, "name") if context.stateless else None
    if not isinstance(name, str):
        return ABSENT
    return None if history.masked and holds_mask(name) else name


def _approved(pins: Pins, server: str | None) -> Approved | None:
    """Return the approved tools and instructions of a server; ``None`` if it is unknown or not pinned."""
    if server == "" and "" not in pins and len(pins) == 1:
        return next(iter(pins.values()))
    return None if server is None else pins.get(server)


def _instructions(message: Response) -> str | None:
    """Return the instructions in a result; ``None`` if there are none or they are empty."""
    instructions = member(message.result, "instructions")
    return instructions if isinstance(instructions, str) and instructions else None


def _ends_whole_list(page: Page, history: History) -> bool:
    """Whether ``page`` is the last page of a list, and all pages of the list were seen.

    False if the session has used both eras: a handshake, and stateless requests.
    """
    if page.next_cursor is not None or not page.walk.is_whole or history.in_both_eras:
        return False
    is_only_page = not page.walk.seq
    return is_only_page or not history.has_gap


FAMILY: Final = RuleFamily(
    checks=(
        *pin_checks(None).checks,
        Check(("PIN-005",), redefined_tool, (Response,), (TOOLS,), sender=SERVER),
    ),
    updates=(StateUpdate(remember_definitions, (Response,), (TOOLS,), sender=SERVER),),
)
