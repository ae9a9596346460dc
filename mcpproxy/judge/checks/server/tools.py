"""The tools that a server lists: their schemas, their names, and the consistency of these and other lists.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.rows import ANSWERS, Check, EventCheck, RuleFamily, StateUpdate
from mcpproxy.judge.checks.server.listings import (
    CHANGES,
    LISTS,
    OUTPUT_SCHEMA,
    SOON_NS,
    Lists,
    ListState,
    ListWalk,
    Page,
    answered_calls,
    listed,
    page,
    remember_call,
    remember_change,
    remember_page,
)
from mcpproxy.judge.session.frame import SERVER, Close, Severity, Signal
from mcpproxy.judge.session.history import History
from mcpproxy.protocol.jsonrpc import JSON, JSONObject, Notification, Request, Response
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.revisions import STATELESS, is_stateless, since
from mcpproxy.protocol.schema.soundness import FlawKind, flaws
from mcpproxy.protocol.wording import kind, pointer_steps, shown

INPUT_REQUIREMENTS: Final[Mapping[FlawKind, tuple[str, str]]] = {
    "not-an-object": ("PROTO-004", "R-128"),
    "missing-root-type": ("SCHEMA-001", "R-129"),
    "root-type-not-object": ("SCHEMA-002", "R-130"),
    "bad-type-name": ("SCHEMA-002", "R-131"),
    "properties-not-object": ("PROTO-004", "R-133"),
    "property-not-schema": ("PROTO-004", "R-133"),
    "boolean-property": ("PROTO-004", "R-133"),
    "required-not-strings": ("SCHEMA-004", "R-134"),
    "required-unknown-property": ("SCHEMA-005", "R-135"),
    "required-forbidden-property": ("SCHEMA-005", "R-135"),
    "dialect": ("PROTO-004", "R-136"),
    "dangling-reference": ("SCHEMA-007", "R-284"),
}
"""The rule and requirement that each kind of flaw in an inputSchema breaks."""

OUTPUT_REQUIREMENTS: Final[Mapping[FlawKind, tuple[str, str]]] = {
    **INPUT_REQUIREMENTS,
    "not-an-object": ("PROTO-004", "R-137"),
    "missing-root-type": ("PROTO-004", "R-137"),
    "root-type-not-object": ("PROTO-004", "R-137"),
}
"""The rule and requirement that each kind of flaw in an outputSchema breaks."""

WITH_FULL_SCHEMA: Final = since("2025-11-25")
"""The revisions in which a tool's schemas are JSON Schema at any depth; earlier ones define only the root."""


def missing_name(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a tool that is not an object or has no string as its name (PROTO-003)."""
    for pointer, tool in _tools(context):
        if not isinstance(tool, dict):
            problem = f"{context.sender} listed a tool that is {kind(tool)}, not an object"
        elif "name" not in tool:
            problem = f"{context.sender} listed a tool without a name"
        elif not isinstance(tool["name"], str):
            problem = f"{context.sender} listed a tool whose name is {kind(tool['name'])}, not a string"
        else:
            continue
        yield Violation(
            "PROTO-003",
            "R-127",
            problem,
            pointer=pointer if not isinstance(tool, dict) else pointer + "/name",
        )


def tool_schemas(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report flaws in the schemas of a tool (PROTO-004, SCHEMA-001, SCHEMA-002, SCHEMA-003, SCHEMA-004,
    SCHEMA-005, SCHEMA-007).
    """
    for pointer, tool in _tools(context):
        if isinstance(tool, dict):
            without_properties: list[tuple[str, str]] = []
            yield from _schema_flaws(context, tool, "inputSchema", pointer, without_properties)
            if "outputSchema" in tool and all(r in OUTPUT_SCHEMA for r in context.candidates):
                yield from _schema_flaws(context, tool, "outputSchema", pointer, without_properties)
            if without_properties:
                yield _any_object_violation(context, tool, without_properties, pointer)


def _any_object_violation(
    context: MessageContext, tool: JSONObject, without_properties: list[tuple[str, str]], tool_pointer: str
) -> Violation:
    """Return one violation for all objects without properties in a tool's schemas.

    ``without_properties`` has the name of the schema and the JSON Pointer in it for each such object.
    """
    schema_name, pointer = without_properties[0]
    path = _value_path(pointer.removesuffix("/properties"))
    if schema_name == "inputSchema":
        what = f"whose parameter {shown(path)} takes any object" if path else "which takes any object"
    else:
        what = f"whose output may have any object as {shown(path)}" if path else "whose output is any object"
    more = f" (and {len(without_properties) - 1} more)" if len(without_properties) > 1 else ""
    problem = f"{context.sender} listed tool {shown(tool.get('name'))}, {what}{more}"
    return Violation("SCHEMA-003", "R-132", problem, pointer=f"{tool_pointer}/{schema_name}{pointer}")


def _value_path(pointer: str) -> str:
    """Return the path, in a value, of the part that a subschema is about, such as ``filter.tags[]``.

    ``pointer`` is the JSON Pointer of the subschema. A pointer that contains other keywords than
    ``properties`` and ``items`` is returned unchanged.
    """
    steps, path = iter(pointer_steps(pointer)), ""
    for step in steps:
        if step == "properties":
            path += "." + next(steps, "")
        elif step == "items":
            path += "[]"
        else:
            return pointer
    return path.removeprefix(".")


def _schema_flaws(
    context: MessageContext,
    tool: JSONObject,
    schema_name: str,
    pointer: str,
    without_properties: list[tuple[str, str]],
) -> Iterator[Violation]:
    """Report the flaws of one schema of a tool.

    Objects without properties are added to ``without_properties`` instead.
    """
    schema_of_tool = f"the {schema_name} of tool {shown(tool.get('name'))}"
    if schema_name not in tool:
        yield Violation(
            "PROTO-004",
            "R-128",
            f"{context.sender} listed tool {shown(tool.get('name'))} without an {schema_name}",
            pointer=pointer,
        )
        return
    stateless = is_stateless(context.candidates)
    requirements = INPUT_REQUIREMENTS if schema_name == "inputSchema" else OUTPUT_REQUIREMENTS
    for flaw in flaws(tool[schema_name], object_root=schema_name == "inputSchema" or not stateless):
        if flaw.kind == "boolean-property" and stateless:
            continue  # In the stateless revisions a boolean is a valid schema.
        if flaw.kind == "no-properties":
            without_properties.append((schema_name, flaw.pointer))
            continue
        where = (
            f"{flaw.pointer.removeprefix('/')} "
            if flaw.pointer
            else (f"{flaw.keyword} " if flaw.keyword else "")
        )
        problem = f"in {schema_of_tool}, {where}{flaw.what}" if where else f"{schema_of_tool} {flaw.what}"
        at_most: Severity | None = None
        # A pointer into the root has one step (/required), or two for a property (/properties/a).
        is_nested = flaw.pointer.count("/") > (2 if flaw.kind == "property-not-schema" else 1)
        # The revisions without full JSON Schema say nothing about nested schemas.
        is_unspecified = is_nested and not all(r in WITH_FULL_SCHEMA for r in context.candidates)
        if flaw.kind == "boolean-property" or is_unspecified:
            at_most = "warning"
        yield Violation(
            *requirements[flaw.kind],
            problem,
            pointer=f"{pointer}/{schema_name}{flaw.pointer}",
            at_most=at_most,
        )


def _tools(context: MessageContext) -> Iterator[tuple[str, JSON]]:
    """Yield each tool of a tools/list result or a sampling request, with its JSON Pointer."""
    match context.message:
        case Response(result=dict() as result):
            tools, part = result.get("tools"), "result"
        case Request(params=dict() as params):
            tools, part = member(params, "tools"), "params"
        case _:
            return
    if isinstance(tools, list):
        for index, tool in enumerate(tools):
            yield f"{context.at}/{part}/tools/{index}", tool


# Names

NAME: Final = pattern(r"[A-Za-z0-9_.-]{1,128}")
"""The form that the name of a tool should have."""

WITH_NAME_FORM: Final = since("2025-11-25")
"""The revisions that define this form."""

API_NAME: Final = pattern(r"[A-Za-z0-9_-]{1,64}")
"""The form of a function's name that all APIs of models accept.

OpenAI and Anthropic accept no dot, OpenAI and Gemini no more than 64 characters.
"""

SHOWN_NAMES: Final = 3
"""How many names a finding lists."""


def listed_names(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report duplicate tool names and names of an unusual form (TOOL-009, TOOL-010)."""
    tools_page = page(context, history)
    return _listed_names(context, tools_page) if tools_page is not None else ()


def _listed_names(context: MessageContext, tools_page: Page) -> Iterator[Violation]:
    names_on_page: set[str] = set()
    for index, name, tool in tools_page.items:
        pointer = f"{context.at}/result/tools/{index}/name"
        earlier = tools_page.walk.items.get(name)
        if name in names_on_page:
            problem = f"server listed two tools called {shown(name)} on one page"
            yield Violation("TOOL-009", "R-146", problem, pointer=pointer)
        elif earlier is not None and tools_page.walk.is_whole:
            # An equal tool may have moved to a later page, because the list changed while it was read.
            at_most: Severity | None = "info" if earlier.value == tool else None
            problem = f"server listed {shown(name)} again on a later page of the same list"
            yield Violation(
                "TOOL-009", "R-146", problem, pointer=pointer, related=(earlier.seq,), at_most=at_most
            )
        elif not NAME.fullmatch(name):
            yield Violation("TOOL-010", "R-147", f"server listed a tool {_name_fault(name)}", pointer=pointer)
        names_on_page.add(name)


def refused_names(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report names that MCP allows and APIs of models refuse, once for a whole list (TOOL-014).

    TOOL-010 reports a name that MCP does not allow. A list without a new refused name is not reported again.
    """
    tools_page = page(context, history)
    if tools_page is None or tools_page.next_cursor is not None:
        return ()
    # If all revisions that may apply define a form, TOOL-010 reports the names that do not have it.
    has_form = all(revision in WITH_NAME_FORM for revision in context.candidates)
    refused = [
        name
        for name in tools_page.names_so_far()
        if not API_NAME.fullmatch(name) and (NAME.fullmatch(name) or not has_form)
    ]
    latest = listed(history, "tools/list").latest
    if not refused or (latest is not None and latest.items.keys() >= set(refused)):
        return ()
    tools = "a tool under a name" if len(refused) == 1 else f"{len(refused)} tools under names"
    names = ", ".join(shown(name) for name in refused[:SHOWN_NAMES])
    problem = (
        f"server listed {tools} that the protocol allows and APIs of models refuse, "
        f'which take 1 to 64 letters, digits, "_" and "-": {names}'
        f"{', …' if len(refused) > SHOWN_NAMES else ''}"
    )
    return (Violation("TOOL-014", "R-280", problem, pointer=context.at + "/result/tools"),)


def _name_fault(name: str) -> str:
    """Return what is unusual about a tool name, as a phrase that follows "a tool"."""
    if not name:
        return "whose name is empty"
    if stray := re.search(r"[^A-Za-z0-9_.-]", name):
        return f"called {shown(name)}; {shown(stray[0])} should not be in a name"
    return f"called {shown(name)}, which is {len(name)} characters long; it should be 128 at most"


# Successive lists

REPORTED_ROUNDS: Final = (5, 50, 500, 5_000)
"""An announcement is reported after these numbers of announced readings in a row without a change."""


def changed_order(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a list with the same tools as the one before, in a different order (TOOL-012)."""
    for state, walk, names in _completed_list(context, history):
        previous = state.latest
        if previous is None or not previous.is_comparable(walk) or names == list(previous.items):
            continue
        if len(names) == len(previous.items) and names and previous.items.keys() == set(names):
            moved = next(name for name, old in zip(names, previous.items, strict=True) if name != old)
            problem = f"server listed the same tools in another order; {shown(moved)} has moved"
            yield Violation(
                "TOOL-012", "R-149", problem, pointer=context.at + "/result/tools", related=(previous.seq,)
            )


def dependent_list(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a list that depends on the connection or on an earlier tool call (TOOL-013)."""
    for state, walk, names in _completed_list(context, history):
        if walk.changes != state.changes:
            continue
        fault = _connection_fault(state, walk, names) or _call_fault(context, history, state, walk, names)
        if fault is not None:
            problem, related = fault
            method = context.answers.method if context.answers else ""
            pointer = f"{context.at}/result/{LISTS[method][0]}"
            yield Violation("TOOL-013", "R-150", problem, pointer=pointer, related=related, at_most="warning")


def _connection_fault(
    state: ListState, walk: ListWalk, names: list[str]
) -> tuple[str, tuple[int, ...]] | None:
    """Return a text and the related frames if two connections see different lists; otherwise ``None``.

    This connection must have got the same list before and after the other connection got another one. So the
    difference depends on the connection and not on the time.
    """
    earlier, latest = state.by_connection.get(walk.connection), state.latest
    if earlier is None or latest is None or latest.connection == walk.connection:
        return None
    if not latest.is_comparable(walk) or not earlier.is_comparable(walk):
        return None
    if earlier.items.keys() != set(names) or not latest.difference(earlier):
        return None
    if {earlier.changes, latest.changes} != {state.changes}:
        return None
    problem = f"server lists {shown(latest.difference(earlier))} on one connection and not on another"
    return problem, (earlier.seq, latest.seq)


def _call_fault(
    context: MessageContext, history: History, state: ListState, walk: ListWalk, names: list[str]
) -> tuple[str, tuple[int, ...]] | None:
    """Return a text and the related frames if the list changed after a tool call; otherwise ``None``.

    The call was answered between two readings of the list that are at most ``SOON_NS`` apart.
    """
    previous, now_ns = state.latest, context.frame.observed_at_ns
    if previous is None or not previous.is_comparable(walk) or previous.changes != state.changes:
        return None
    name = next(iter(previous.items.keys() ^ set(names)), None)
    was_tool_called = answered_calls(history) != state.calls_before_latest
    if name is None or not was_tool_called or now_ns - previous.observed_ns > SOON_NS:
        return None
    verb = "no longer lists" if name in previous.items else "suddenly lists"
    return f"server {verb} {shown(name)} right after a tool was called", (previous.seq,)


def _completed_list(
    context: MessageContext, history: History
) -> Iterator[tuple[ListState, ListWalk, list[str]]]:
    """Yield the list that the last page in this message completes, if every page of the list was seen.

    Nothing is yielded for a session that has used both eras, a handshake and stateless requests.

    The tuple has the state of the list before this page, the walk (the client's reading of the list, see
    ``ListWalk``), and the names of all items.
    """
    last_page, request = page(context, history), context.answers
    if last_page is None or request is None:
        return
    if last_page.next_cursor is not None or not last_page.walk.is_whole:
        return
    if not history.has_gap and not history.in_both_eras:
        yield listed(history, request.method), last_page.walk, last_page.names_so_far()


def silent_change(event: Signal | Close, history: History) -> Iterator[Violation]:
    """Report a list that changed without the notification that the server declared (TOOL-011)."""
    if not isinstance(event, Close) or event.ending == "cut" or history.has_gap:
        return
    for (_, method), state in history.of(Lists).states.items():
        if state.unannounced_change is None:
            continue
        before, after = state.unannounced_change
        if event.observed_at_ns - after.observed_ns < SOON_NS:
            continue
        name = after.difference(before)
        verb = "no longer lists" if name in before.items else "now lists"
        feature = method.removesuffix("/list")
        problem = (
            f"server {verb} {shown(name)} without announcing it, although it declared {feature}.listChanged"
        )
        yield Violation(
            "TOOL-011",
            "R-148",
            problem,
            pointer=f"/result/{LISTS[method][0]}",
            related=(before.seq,),
            blame=SERVER,
            frame=after.seq,
        )


def idle_announcement(context: MessageContext[Notification], history: History) -> Iterator[Violation]:
    """Report a change that is announced after each reading of a list that stays the same (TOOL-015).

    An announcement may be about several lists, and then all of them must have been read and be the same.
    """
    methods = CHANGES[context.message.method]
    states = [listed(history, method) for method in methods]
    rounds = min(state.idle_changes for state in states)
    latest = states[0].current
    if rounds not in REPORTED_ROUNDS or latest is None or any(state.current is None for state in states):
        return
    if context.frame.observed_at_ns - latest.observed_ns <= SOON_NS:
        problem = (
            f"server announced a change of its {LISTS[methods[0]][0]} right after {methods[0]}, "
            f"as it did {rounds} times in a row without a change"
        )
        yield Violation("TOOL-015", "R-281", problem, pointer=context.at + "/method", related=(latest.seq,))


FAMILY: Final = RuleFamily(
    checks=(
        Check(("PROTO-003",), missing_name, (Response,), ("tools/list",)),
        Check(("PROTO-003",), missing_name, (Request,), ("sampling/createMessage",)),
        Check(
            (
                *("PROTO-004", "SCHEMA-001", "SCHEMA-002", "SCHEMA-003", "SCHEMA-004", "SCHEMA-005"),
                "SCHEMA-007",
            ),
            tool_schemas,
            (Response,),
            ("tools/list",),
        ),
        Check(("TOOL-009", "TOOL-010"), listed_names, (Response,), ("tools/list",), sender=SERVER),
        Check(("TOOL-014",), refused_names, (Response,), ("tools/list",), sender=SERVER),
        Check(("TOOL-015",), idle_announcement, (Notification,), tuple(CHANGES), sender=SERVER),
        Check(("TOOL-012",), changed_order, (Response,), ("tools/list",), sender=SERVER, within=STATELESS),
        Check(("TOOL-013",), dependent_list, (Response,), tuple(LISTS), sender=SERVER, within=STATELESS),
    ),
    events=(EventCheck(("TOOL-011",), silent_change),),
    updates=(
        StateUpdate(remember_page, (Response,), tuple(LISTS), sender=SERVER),
        StateUpdate(remember_change, (Notification,), tuple(CHANGES), sender=SERVER),
        StateUpdate(remember_call, ANSWERS, ("tools/call",), sender=SERVER, within=STATELESS),
    ),
)
