"""The tools of a recording: their definitions as the servers listed them, and how often they were called."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import cast

from mcpproxy.base.visible import visible
from mcpproxy.protocol.jsonrpc import JSONObject, Request, read
from mcpproxy.protocol.raw_json import elements, value_bytes
from mcpproxy.session.frame import Frame
from mcpproxy.view.call_reader import CallReader
from mcpproxy.view.calls import ToolDefinition
from mcpproxy.view.index.columns import Columns


def tools(columns: Columns, reader: CallReader, listings: Iterable[int]) -> tuple[ToolDefinition, ...]:
    """Return the tools that were listed or called, by session. ``listings`` are rows of ``tools/list``.

    If a session listed its tools several times, the last listing counts, with all of its pages.
    """
    call_counts = _called(columns, reader.names())
    listed = _listed(columns, reader, listings, call_counts)
    unlisted = [
        ToolDefinition(visible(name), session, None, 0, 0, calls, listed=False)
        for (session, name), calls in call_counts.items()
        if calls and name not in listed.get(session, {})
    ]
    return (*(tool for definitions in listed.values() for tool in definitions.values()), *unlisted)


def definition(
    columns: Columns, reader: CallReader, listings: Iterable[int], name: str | None
) -> JSONObject | None:
    """Return the definition of a tool; ``None`` if it was not listed. Calls are not counted here."""
    for tools_by_name in _listed(columns, reader, listings, Counter()).values():
        for tool in tools_by_name.values():
            if tool.name == name:
                return cast("JSONObject", tool.definition)
    return None


def _listed(
    columns: Columns, reader: CallReader, listings: Iterable[int], call_counts: Counter[tuple[int, str]]
) -> dict[int, dict[str, ToolDefinition]]:
    """Return the listed tools by session and name."""
    listed: dict[int, dict[str, ToolDefinition]] = {}
    for row in listings:
        answer = reader.record(columns.answer_line[row])
        session = columns.session[row]
        if not isinstance(answer, Frame):
            continue
        if session not in listed or not _has_cursor(reader.record(columns.first_line[row])):
            listed[session] = {}
        for name, definition, size in _definitions(answer.raw):
            calls = call_counts[session, name]
            tool = ToolDefinition(visible(name), session, definition, size, answer.seq, calls)
            listed[session][name] = tool
    return listed


def whole_lists(columns: Columns, reader: CallReader, listings: Iterable[int]) -> frozenset[int]:
    """Return the sessions whose last listing was seen from its first page to its last one."""
    begun: set[int] = set()
    whole: set[int] = set()
    for row in listings:
        answer = reader.record(columns.answer_line[row])
        session = columns.session[row]
        if not _has_cursor(reader.record(columns.first_line[row])):
            begun.add(session)
        raw = answer.raw if isinstance(answer, Frame) else b"{}"
        is_list = value_bytes(raw, ("result", "tools")) is not None
        if is_list and value_bytes(raw, ("result", "nextCursor")) is None and session in begun:
            whole.add(session)
        else:
            whole.discard(session)
    return frozenset(whole)


def _called(columns: Columns, names_by_number: list[tuple[str, str | None]]) -> Counter[tuple[int, str]]:
    """Return how often each tool was called in each session."""
    names = {number: name for number, (method, name) in enumerate(names_by_number) if method == "tools/call"}
    called: Counter[tuple[int, str]] = Counter()
    for (number, session), count in Counter(zip(columns.name, columns.session, strict=True)).items():
        if (name := names.get(number)) is not None:
            called[session, name] += count
    return called


def _has_cursor(record: object) -> bool:
    """Whether a request asks for a further page."""
    message = record.message if isinstance(record, Frame) else None
    params = message.params if isinstance(message, Request) else None
    return isinstance(params, dict) and "cursor" in params


def _definitions(raw: bytes) -> Iterator[tuple[str, JSONObject, int]]:
    """Yield name, definition and size of each tool in a result."""
    listed = value_bytes(raw, ("result", "tools"))
    for text in elements(listed) if listed and listed.startswith(b"[") else ():
        definition = read(text)
        if not isinstance(definition, dict):
            continue
        if isinstance(name := definition.get("name"), str):
            yield name, definition, len(text)
