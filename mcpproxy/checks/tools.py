"""The tools a server lists, the schemas it gives them, and whether its lists hold together.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from mcpproxy.checks.breach import Breach, Passing, member
from mcpproxy.checks.listings import (
    CHANGES,
    LISTS,
    Listed,
    Lists,
    Page,
    Walk,
    calls_answered,
    listed,
    page,
    remember_call,
    remember_change,
    remember_page,
)
from mcpproxy.checks.table import ANSWERS, Decider, EventDecider, Family, Note
from mcpproxy.protocol.jsonrpc import JSON, JSONObject, Request, Response
from mcpproxy.protocol.jsonschema import FlawKind, flaws
from mcpproxy.protocol.patterns import pattern
from mcpproxy.protocol.revisions import STATELESS, is_stateless, since
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
    "no-properties": ("SCHEMA-003", "R-132"),
    "dialect": ("PROTO-004", "R-136"),
}
"""The rule and requirement that each kind of flaw breaks in an inputSchema."""

OUTPUT: Final[Mapping[FlawKind, tuple[str, str]]] = {
    **INPUT,
    "not-an-object": ("PROTO-004", "R-137"),
    "missing-root-type": ("PROTO-004", "R-137"),
    "root-type-not-object": ("PROTO-004", "R-137"),
}

DIALECTS: Final = since("2025-11-25")
"""The revisions that hold a tool's schemas to JSON Schema throughout; before, only the root is MCP's."""


def tool_name(passing: Passing, history: History) -> Iterator[Breach]:
    """PROTO-003"""
    for pointer, tool in _tools(passing):
        if not isinstance(tool, dict):
            said = f"{passing.sender} listed a tool that is {kind(tool)}, not an object"
        elif "name" not in tool:
            said = f"{passing.sender} listed a tool without a name"
        elif not isinstance(tool["name"], str):
            said = f"{passing.sender} listed a tool whose name is {kind(tool['name'])}, not a string"
        else:
            continue
        yield Breach("PROTO-003", "R-127", said, pointer if not isinstance(tool, dict) else pointer + "/name")


def tool_schemas(passing: Passing, history: History) -> Iterator[Breach]:
    """PROTO-004, SCHEMA-001, SCHEMA-002, SCHEMA-003, SCHEMA-004, SCHEMA-005"""
    for pointer, tool in _tools(passing):
        if isinstance(tool, dict):
            yield from _schema(passing, tool, "inputSchema", pointer)
            if "outputSchema" in tool and all(r in OUTPUT_SCHEMA for r in passing.candidates):
                yield from _schema(passing, tool, "outputSchema", pointer)


def _schema(passing: Passing, tool: JSONObject, name: str, at: str) -> Iterator[Breach]:
    of = f"the {name} of tool {shown(tool.get('name'))}"
    if name not in tool:
        yield Breach(
            "PROTO-004",
            "R-128",
            f"{passing.sender} listed tool {shown(tool.get('name'))} without an {name}",
            at,
        )
        return
    stateless = is_stateless(passing.candidates)
    table = INPUT if name == "inputSchema" else OUTPUT
    for flaw in flaws(tool[name], object_root=name == "inputSchema" or not stateless):
        if flaw.kind == "boolean-property" and stateless:
            continue
        where = (
            f"{flaw.pointer.removeprefix('/')} "
            if flaw.pointer
            else (f"{flaw.keyword} " if flaw.keyword else "")
        )
        said = f"in {of}, {where}{flaw.what}" if where else f"{of} {flaw.what}"
        at_most: Severity | None = None
        deep = flaw.pointer.count("/") > (2 if flaw.kind == "property-not-schema" else 1)
        nested = deep and not all(r in DIALECTS for r in passing.candidates)
        if flaw.kind == "boolean-property" or nested:
            at_most = "warning"
        yield Breach(*table[flaw.kind], said, f"{at}/{name}{flaw.pointer}", at_most=at_most)


def _tools(passing: Passing) -> Iterator[tuple[str, JSON]]:
    """Each tool of a tools/list result or a sampling request, with its JSON Pointer."""
    match passing.message:
        case Response(result=dict() as result):
            listed, part = result.get("tools"), "result"
        case Request(params=dict() as params):
            listed, part = member(params, "tools"), "params"
        case _:
            return
    if isinstance(listed, list):
        for index, tool in enumerate(listed):
            yield f"{passing.at}/{part}/tools/{index}", tool


# What they are called

NAME: Final = pattern(r"[A-Za-z0-9_.-]{1,128}")


def tool_names(passing: Passing, history: History) -> Iterable[Breach]:
    """TOOL-009, TOOL-010"""
    found = page(passing, history)
    return _tool_names(passing, found) if found is not None else ()


def _tool_names(passing: Passing, found: Page) -> Iterator[Breach]:
    here: dict[str, int] = {}
    for index, name, tool in found.named:
        pointer = f"{passing.at}/result/tools/{index}/name"
        before = found.walk.items.get(name)
        if name in here:
            said = f"server listed two tools called {shown(name)} on one page"
            yield Breach("TOOL-009", "R-146", said, pointer)
        elif before is not None and found.walk.whole:
            # The same tool again: the list may have moved on while it was read.
            moved: Severity | None = "info" if before.value == tool else None
            said = f"server listed {shown(name)} again on a later page of the same list"
            yield Breach("TOOL-009", "R-146", said, pointer, (before.seq,), at_most=moved)
        elif not NAME.fullmatch(name):
            yield Breach("TOOL-010", "R-147", f"server listed a tool {_misnamed(name)}", pointer)
        here[name] = index


def _misnamed(name: str) -> str:
    if not name:
        return "whose name is empty"
    if stray := re.search(r"[^A-Za-z0-9_.-]", name):
        return f"called {shown(name)}; {shown(stray[0])} should not be in a name"
    return f"called {shown(name)}, which is {len(name)} characters long; it should be 128 at most"


# How one list goes with the one before

SOON_NS: Final = 5_000_000_000
"""Within so little time a list hardly changes by itself; later than that no announcement is still due."""


def list_order(passing: Passing, history: History) -> Iterator[Breach]:
    """TOOL-012"""
    for known, walk, names in _whole(passing, history):
        before = known.latest
        if before is None or not before.like(walk) or names == list(before.items):
            continue
        if len(names) == len(before.items) and names and before.items.keys() == set(names):
            first = next(name for name, was in zip(names, before.items, strict=True) if name != was)
            said = f"server listed the same tools in another order; {shown(first)} has moved"
            yield Breach("TOOL-012", "R-149", said, passing.at + "/result/tools", (before.seq,))


def list_independence(passing: Passing, history: History) -> Iterator[Breach]:
    """TOOL-013"""
    for known, walk, names in _whole(passing, history):
        if walk.changes != known.changes:
            continue
        what = _of_connection(passing, known, walk, names) or _after_call(
            passing, history, known, walk, names
        )
        if what is not None:
            said, related = what
            method = passing.answers.method if passing.answers else ""
            pointer = f"{passing.at}/result/{LISTS[method][0]}"
            yield Breach("TOOL-013", "R-150", said, pointer, related, at_most="warning")


def _of_connection(
    passing: Passing, known: Listed, walk: Walk, names: list[str]
) -> tuple[str, tuple[int, ...]] | None:
    """One list here, another there, and here the first one again."""
    mine, latest = known.by_connection.get(walk.connection), known.latest
    if mine is None or latest is None or latest.connection == walk.connection or not latest.like(walk):
        return None
    if not mine.like(walk) or mine.items.keys() != set(names) or not latest.difference(mine):
        return None
    if {mine.changes, latest.changes} != {known.changes}:
        return None
    said = f"server lists {shown(latest.difference(mine))} on one connection and not on another"
    return said, (mine.seq, latest.seq)


def _after_call(
    passing: Passing, history: History, known: Listed, walk: Walk, names: list[str]
) -> tuple[str, tuple[int, ...]] | None:
    """Another list right after a tool was called."""
    before, now_ns = known.latest, passing.frame.observed_at_ns
    if before is None or not before.like(walk) or before.changes != known.changes:
        return None
    other = next(iter(before.items.keys() ^ set(names)), None)
    if other is None or calls_answered(history) == known.called or now_ns - before.at_ns > SOON_NS:
        return None
    verb = "no longer lists" if other in before.items else "suddenly lists"
    return f"server {verb} {shown(other)} right after a tool was called", (before.seq,)


def _whole(passing: Passing, history: History) -> Iterator[tuple[Listed, Walk, list[str]]]:
    """The list that a last page completes, if every page of it was seen."""
    found, asked = page(passing, history), passing.answers
    if found is None or asked is None or found.next is not None or not found.walk.whole:
        return
    if not history.blind and not history.in_both_eras:
        yield listed(history, asked.method), found.walk, found.names()


def silent_change(event: Signal | Close, history: History) -> Iterator[Breach]:
    """TOOL-011"""
    if not isinstance(event, Close) or event.ending == "cut" or history.blind:
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
        said = f"server {verb} {shown(other)} and never said so, although it declared {feature}.listChanged"
        yield Breach(
            "TOOL-011", "R-148", said, f"/result/{LISTS[method][0]}", (before.seq,), SERVER, None, after.seq
        )


FAMILY: Final = Family(
    checks=(
        Decider(("PROTO-003",), tool_name, ("response",), ("tools/list",)),
        Decider(("PROTO-003",), tool_name, ("request",), ("sampling/createMessage",)),
        Decider(
            ("PROTO-004", "SCHEMA-001", "SCHEMA-002", "SCHEMA-003", "SCHEMA-004", "SCHEMA-005"),
            tool_schemas,
            ("response",),
            ("tools/list",),
        ),
        Decider(("TOOL-009", "TOOL-010"), tool_names, ("response",), ("tools/list",), sender=SERVER),
        Decider(("TOOL-012",), list_order, ("response",), ("tools/list",), sender=SERVER, within=STATELESS),
        Decider(
            ("TOOL-013",), list_independence, ("response",), tuple(LISTS), sender=SERVER, within=STATELESS
        ),
    ),
    events=(EventDecider(("TOOL-011",), silent_change),),
    notes=(
        Note(remember_page, ("response",), tuple(LISTS), sender=SERVER),
        Note(remember_change, ("notification",), tuple(CHANGES), sender=SERVER),
        Note(remember_call, ANSWERS, ("tools/call",), sender=SERVER, within=STATELESS),
    ),
)
