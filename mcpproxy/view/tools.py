"""The tools of a recording: their definitions as the servers listed them, and how often they were called."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, cast

import orjson

from mcpproxy.base.visible import visible
from mcpproxy.protocol.raw_json import elements, value_bytes
from mcpproxy.session.frame import Frame
from mcpproxy.view.call_reader import CallReader
from mcpproxy.view.calls import ToolDefinition
from mcpproxy.view.columns import Columns


def tools(columns: Columns, reader: CallReader, listings: Iterable[int]) -> tuple[ToolDefinition, ...]:
    """Return the tools that were listed or called, by session. ``listings`` are rows of ``tools/list``."""
    called: Counter[tuple[int, str]] = Counter()
    named = {
        number: target for number, (method, target) in enumerate(columns.names) if method == "tools/call"
    }
    for (name, session), count in Counter(zip(columns.name, columns.session, strict=True)).items():
        if (target := named.get(name)) is not None:
            called[session, target] += count
    found: dict[tuple[int, str], ToolDefinition] = {}
    for row in listings:
        record = reader.record(columns.answer_line[row])
        if not isinstance(record, Frame):
            continue
        session = columns.session[row]
        listed = value_bytes(record.raw, ("result", "tools"))
        for raw in elements(listed) if listed and listed.startswith(b"[") else ():
            definition: Any = orjson.loads(raw)
            name = cast("dict[str, Any]", definition).get("name") if isinstance(definition, dict) else None
            if isinstance(name, str):
                found[session, name] = ToolDefinition(
                    visible(name),
                    session,
                    definition,
                    len(raw),
                    record.seq,
                    called.pop((session, name), 0)
                    or (found[session, name].calls if (session, name) in found else 0),
                )
    for (session, name), count in called.items():
        found[session, name] = ToolDefinition(visible(name), session, None, 0, 0, count, listed=False)
    return tuple(found.values())
