"""The tools that a server lists: their schemas, their names, and the consistency of the lists.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.checks.engine.context import MessageContext, Violation, member
from mcpproxy.checks.engine.rows import ANSWERS, Check, EventCheck, RuleFamily, StateUpdate
from mcpproxy.checks.server.listings import (
    CHANGES,
    LISTS,
    Lists,
    ListState,
    ListWalk,
    Page,
    calls_answered,
    listed,
    page,
    remember_call,
    remember_change,
    remember_page,
)
from mcpproxy.protocol.jsonrpc import JSON, JSONObject, Notification, Request, Response
from mcpproxy.protocol.revisions import STATELESS, is_stateless, since
from mcpproxy.protocol.schema.soundness import FlawKind, flaws
from mcpproxy.protocol.wording import kind, shown
from mcpproxy.session.frame import SERVER, Close, Severity, Signal
from mcpproxy.session.history import History

OUTPUT_SCHEMA: Final = since("2025-06-18")
"""The revisions in which a tool may have an outputSchema."""

INPUT: Final[Mapping[FlawKind, tuple[str, str]]] = {
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
}
"""The rule and requirement for each kind of flaw in an inputSchema; ``OUTPUT`` is for an outputSchema."""

OUTPUT: Final[Mapping[FlawKind, tuple[str, str]]] = {
    **INPUT,
    "not-an-object": ("PROTO-004", "R-137"),
    "missing-root-type": ("PROTO-004", "R-137"),
    "root-type-not-object": ("PROTO-004", "R-137"),
}

DIALECTS: Final = since("2025-11-25")
"""The revisions that require full JSON Schema for a tool's schemas; earlier ones define only the root."""


def tool_name(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a tool without a string name (PROTO-003)."""
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
    """Report flaws of input and output schemas (PROTO-004, SCHEMA-001, SCHEMA-002, SCHEMA-003, SCHEMA-004,
    SCHEMA-005).
    """
    for pointer, tool in _tools(context):
        if isinstance(tool, dict):
            vague: list[tuple[str, str]] = []
            yield from _schema(context, tool, "inputSchema", pointer, vague)
            if "outputSchema" in tool and all(r in OUTPUT_SCHEMA for r in context.candidates):
                yield from _schema(context, tool, "outputSchema", pointer, vague)
            if vague:
                yield _takes_anything(context, tool, vague, pointer)


def _takes_anything(
    context: MessageContext, tool: JSONObject, vague: list[tuple[str, str]], base_pointer: str
) -> Violation:
    """One finding for all schemas of objects without properties that a tool has, by schema and pointer."""
    name, pointer = vague[0]
    place = _place(pointer.removesuffix("/properties"))
    if name == "inputSchema":
        what = f"whose parameter {shown(place)} takes any object" if place else "which takes any object"
    else:
        what = (
            f"whose output may have any object as {shown(place)}" if place else "whose output is any object"
        )
    more = f" (and {len(vague) - 1} more)" if len(vague) > 1 else ""
    said = f"{context.sender} listed tool {shown(tool.get('name'))}, {what}{more}"
    return Violation("SCHEMA-003", "R-132", said, pointer=f"{base_pointer}/{name}{pointer}")


def _place(pointer: str) -> str:
    """A place in a schema as the place in its values: ``filter.tags[]``; else the pointer itself."""
    steps, place = iter(pointer.split("/")[1:]), ""
    for step in steps:
        if step == "properties":
            place += "." + next(steps, "").replace("~1", "/").replace("~0", "~")
        elif step == "items":
            place += "[]"
        else:
            return pointer
    return place.removeprefix(".")


def _schema(
    context: MessageContext, tool: JSONObject, name: str, pointer: str, vague: list[tuple[str, str]]
) -> Iterator[Violation]:
    of = f"the {name} of tool {shown(tool.get('name'))}"
    if name not in tool:
        yield Violation(
            "PROTO-004",
            "R-128",
            f"{context.sender} listed tool {shown(tool.get('name'))} without an {name}",
            pointer=pointer,
        )
        return
    stateless = is_stateless(context.candidates)
    table = INPUT if name == "inputSchema" else OUTPUT
    for flaw in flaws(tool[name], object_root=name == "inputSchema" or not stateless):
        if flaw.kind == "boolean-property" and stateless:
            continue
        if flaw.kind == "no-properties":
            vague.append((name, flaw.pointer))
            continue
        where = (
            f"{flaw.pointer.removeprefix('/')} "
            if flaw.pointer
            else (f"{flaw.keyword} " if flaw.keyword else "")
        )
        problem = f"in {of}, {where}{flaw.what}" if where else f"{of} {flaw.what}"
        at_most: Severity | None = None
        deep = flaw.pointer.count("/") > (2 if flaw.kind == "property-not-schema" else 1)
        nested = deep and not all(r in DIALECTS for r in context.candidates)
        if flaw.kind == "boolean-property" or nested:
            at_most = "warning"
        yield Violation(
            *table[flaw.kind], problem, pointer=f"{pointer}/{name}{flaw.pointer}", at_most=at_most
        )


def _tools(context: MessageContext) -> Iterator[tuple[str, JSON]]:
    """Yield each tool of a tools/list result or a sampling request, with its JSON Pointer."""
    match context.message:
        case Response(result=dict() as result):
            listed, part = result.get("tools"), "result"
        case Request(params=dict() as params):
            listed, part = member(params, "tools"), "params"
        case _:
            return
    if isinstance(listed, list):
        for index, tool in enumerate(listed):
            yield f"{context.at}/{part}/tools/{index}", tool


# Names

NAME: Final = pattern(r"[A-Za-z0-9_.-]{1,128}")


def tool_names(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report duplicate tool names and names of an unusual form (TOOL-009, TOOL-010)."""
    found = page(context, history)
    return _tool_names(context, found) if found is not None else ()


def _tool_names(context: MessageContext, found: Page) -> Iterator[Violation]:
    here: dict[str, int] = {}
    for index, name, tool in found.named:
        pointer = f"{context.at}/result/tools/{index}/name"
        before = found.walk.items.get(name)
        if name in here:
            problem = f"server listed two tools called {shown(name)} on one page"
            yield Violation("TOOL-009", "R-146", problem, pointer=pointer)
        elif before is not None and found.walk.whole:
            # If it is the same tool, the list may have changed while it was read.
            at_most: Severity | None = "info" if before.value == tool else None
            problem = f"server listed {shown(name)} again on a later page of the same list"
            yield Violation(
                "TOOL-009", "R-146", problem, pointer=pointer, related=(before.seq,), at_most=at_most
            )
        elif not NAME.fullmatch(name):
            yield Violation("TOOL-010", "R-147", f"server listed a tool {_name_fault(name)}", pointer=pointer)
        here[name] = index


def _name_fault(name: str) -> str:
    if not name:
        return "whose name is empty"
    if stray := re.search(r"[^A-Za-z0-9_.-]", name):
        return f"called {shown(name)}; {shown(stray[0])} should not be in a name"
    return f"called {shown(name)}, which is {len(name)} characters long; it should be 128 at most"


# Successive lists

SOON_NS: Final = 5_000_000_000
"""A list rarely changes by itself within this time, and an announcement of a change takes no longer."""


def list_order(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report the same tools in a different order (TOOL-012)."""
    for known, walk, names in _whole(context, history):
        before = known.latest
        if before is None or not before.like(walk) or names == list(before.items):
            continue
        if len(names) == len(before.items) and names and before.items.keys() == set(names):
            first = next(name for name, was in zip(names, before.items, strict=True) if name != was)
            problem = f"server listed the same tools in another order; {shown(first)} has moved"
            yield Violation(
                "TOOL-012", "R-149", problem, pointer=context.at + "/result/tools", related=(before.seq,)
            )


def list_independence(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a list that depends on the connection or on an earlier tool call (TOOL-013)."""
    for known, walk, names in _whole(context, history):
        if walk.changes != known.changes:
            continue
        what = _by_connection(context, known, walk, names) or _after_call(
            context, history, known, walk, names
        )
        if what is not None:
            problem, related = what
            method = context.answers.method if context.answers else ""
            pointer = f"{context.at}/result/{LISTS[method][0]}"
            yield Violation("TOOL-013", "R-150", problem, pointer=pointer, related=related, at_most="warning")


def _by_connection(
    context: MessageContext, known: ListState, walk: ListWalk, names: list[str]
) -> tuple[str, tuple[int, ...]] | None:
    """Describe a list that differs from another connection's, but not from the earlier one on its own."""
    mine, latest = known.by_connection.get(walk.connection), known.latest
    if mine is None or latest is None or latest.connection == walk.connection or not latest.like(walk):
        return None
    if not mine.like(walk) or mine.items.keys() != set(names) or not latest.difference(mine):
        return None
    if {mine.changes, latest.changes} != {known.changes}:
        return None
    problem = f"server lists {shown(latest.difference(mine))} on one connection and not on another"
    return problem, (mine.seq, latest.seq)


def _after_call(
    context: MessageContext, history: History, known: ListState, walk: ListWalk, names: list[str]
) -> tuple[str, tuple[int, ...]] | None:
    """Describe a list that changed right after a tool was called."""
    before, now_ns = known.latest, context.frame.observed_at_ns
    if before is None or not before.like(walk) or before.changes != known.changes:
        return None
    other = next(iter(before.items.keys() ^ set(names)), None)
    if other is None or calls_answered(history) == known.called or now_ns - before.at_ns > SOON_NS:
        return None
    verb = "no longer lists" if other in before.items else "suddenly lists"
    return f"server {verb} {shown(other)} right after a tool was called", (before.seq,)


def _whole(context: MessageContext, history: History) -> Iterator[tuple[ListState, ListWalk, list[str]]]:
    """Yield the list that a last page completes, if every page of it was seen."""
    found, request = page(context, history), context.answers
    if found is None or request is None or found.next is not None or not found.walk.whole:
        return
    if not history.has_gap and not history.in_both_eras:
        yield listed(history, request.method), found.walk, found.names()


def silent_change(event: Signal | Close, history: History) -> Iterator[Violation]:
    """Report a list that changed without the notification that the server declared (TOOL-011)."""
    if not isinstance(event, Close) or event.ending == "cut" or history.has_gap:
        return
    for (_, method), known in history.of(Lists).known.items():
        if known.silent is None:
            continue
        before, after = known.silent
        if event.observed_at_ns - after.at_ns < SOON_NS:
            continue
        other = after.difference(before)
        verb = "no longer lists" if other in before.items else "now lists"
        feature = method.removesuffix("/list")
        problem = (
            f"server {verb} {shown(other)} without announcing it, although it declared {feature}.listChanged"
        )
        yield Violation(
            "TOOL-011",
            "R-148",
            problem,
            pointer=f"/result/{LISTS[method][0]}",
            related=(before.seq,),
            blame=SERVER,
            at_most=None,
            frame=after.seq,
        )


FAMILY: Final = RuleFamily(
    checks=(
        Check(("PROTO-003",), tool_name, (Response,), ("tools/list",)),
        Check(("PROTO-003",), tool_name, (Request,), ("sampling/createMessage",)),
        Check(
            ("PROTO-004", "SCHEMA-001", "SCHEMA-002", "SCHEMA-003", "SCHEMA-004", "SCHEMA-005"),
            tool_schemas,
            (Response,),
            ("tools/list",),
        ),
        Check(("TOOL-009", "TOOL-010"), tool_names, (Response,), ("tools/list",), sender=SERVER),
        Check(("TOOL-012",), list_order, (Response,), ("tools/list",), sender=SERVER, within=STATELESS),
        Check(("TOOL-013",), list_independence, (Response,), tuple(LISTS), sender=SERVER, within=STATELESS),
    ),
    events=(EventCheck(("TOOL-011",), silent_change),),
    updates=(
        StateUpdate(remember_page, (Response,), tuple(LISTS), sender=SERVER),
        StateUpdate(remember_change, (Notification,), tuple(CHANGES), sender=SERVER),
        StateUpdate(remember_call, ANSWERS, ("tools/call",), sender=SERVER, within=STATELESS),
    ),
)
