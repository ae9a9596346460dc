"""Read the tools of a recording: their definitions as servers listed them, and their numbers of calls."""

from collections import Counter
from collections.abc import Iterator
from typing import Final, cast

from mcpproxy.base.visible import visible
from mcpproxy.judge.session.frame import Frame
from mcpproxy.protocol.jsonrpc import JSONObject, Request, read
from mcpproxy.protocol.raw_json import elements, value_bytes
from mcpproxy.read.view.calls import ToolDefinition
from mcpproxy.read.view.index.columns import Columns
from mcpproxy.read.view.index.indexed_trace import IndexedTrace


class RecordedTools:
    """The tools in an index."""

    def __init__(self, index: IndexedTrace) -> None:
        self._columns: Final = index.columns
        self._reader: Final = index.reader
        self._listings: Final = index.scan.tool_lists
        """The rows of ``tools/list`` that have a result with tools."""

    def all(self) -> tuple[ToolDefinition, ...]:
        """Return the tools by session: first those in the last listings, then those that were only called.

        If a session listed its tools several times, the last listing counts, with all of its pages.
        """
        call_counts = _count_calls(self._columns, self._reader.names())
        listed = self._listed(call_counts)
        unlisted = [
            ToolDefinition(visible(name), session, None, 0, 0, calls, listed=False)
            for (session, name), calls in call_counts.items()
            if calls and name not in listed.get(session, {})
        ]
        return (*(tool for definitions in listed.values() for tool in definitions.values()), *unlisted)

    def definition(self, name: str | None) -> JSONObject | None:
        """Return the definition of a tool; ``None`` if no server listed it. This is faster than ``all``."""
        for tools_by_name in self._listed(Counter()).values():
            for tool in tools_by_name.values():
                if tool.name == name:
                    return cast("JSONObject", tool.definition)
        return None

    def whole_lists(self) -> frozenset[int]:
        """Return the sessions whose last listing is complete, from its first page to its last."""
        begun: set[int] = set()
        complete: set[int] = set()
        for row in self._listings:
            answer, session = self._answer_frame(row), self._columns.session[row]
            if not self._has_cursor(row):
                begun.add(session)
            raw = answer.raw if answer else b"{}"
            is_list = value_bytes(raw, ("result", "tools")) is not None
            if is_list and value_bytes(raw, ("result", "nextCursor")) is None and session in begun:
                complete.add(session)
            else:
                complete.discard(session)
        return frozenset(complete)

    def _listed(self, call_counts: Counter[tuple[int, str]]) -> dict[int, dict[str, ToolDefinition]]:
        """Return the listed tools by session and name."""
        listed: dict[int, dict[str, ToolDefinition]] = {}
        for row in self._listings:
            answer, session = self._answer_frame(row), self._columns.session[row]
            if answer is None:
                continue
            if session not in listed or not self._has_cursor(row):
                listed[session] = {}
            for name, definition, size in _definitions(answer.raw):
                calls = call_counts[session, name]
                tool = ToolDefinition(visible(name), session, definition, size, answer.seq, calls)
                listed[session][name] = tool
        return listed

    def _answer_frame(self, row: int) -> Frame | None:
        record = self._reader.record(self._columns.answer_line[row])
        return record if isinstance(record, Frame) else None

    def _has_cursor(self, row: int) -> bool:
        """Whether the request of a row asks for a further page."""
        record = self._reader.record(self._columns.first_line[row])
        message = record.message if isinstance(record, Frame) else None
        params = message.params if isinstance(message, Request) else None
        return isinstance(params, dict) and "cursor" in params


def _count_calls(columns: Columns, names_by_number: list[tuple[str, str | None]]) -> Counter[tuple[int, str]]:
    """Return how often each tool was called in each session."""
    names = {number: name for number, (method, name) in enumerate(names_by_number) if method == "tools/call"}
    counts: Counter[tuple[int, str]] = Counter()
    for (number, session), count in Counter(zip(columns.name, columns.session, strict=True)).items():
        if (name := names.get(number)) is not None:
            counts[session, name] += count
    return counts


def _definitions(raw: bytes) -> Iterator[tuple[str, JSONObject, int]]:
    """Yield name, definition and size of each tool in a result."""
    listed = value_bytes(raw, ("result", "tools"))
    for text in elements(listed) if listed and listed.startswith(b"[") else ():
        definition = read(text)
        if not isinstance(definition, dict):
            continue
        if isinstance(name := definition.get("name"), str):
            yield name, definition, len(text)
