"""One recording as rows of the four tables, without the content of messages."""

import json
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final, cast

import orjson

from mcpproxy.fleet.columns.columns_arrow import Array, Table, pa, pc
from mcpproxy.fleet.columns.columns_frames import MESSAGE_KINDS, FrameScan
from mcpproxy.fleet.columns.columns_schema import FINDINGS, FRAMES, RECORDINGS, TABLES, TOOLS
from mcpproxy.opening import open_trace
from mcpproxy.trace.encode import finding_object, more_object
from mcpproxy.trace.records import CloseRecord
from mcpproxy.view.calls import SessionSummary
from mcpproxy.view.folder import unix_ns
from mcpproxy.view.index.columns import KINDS, NO_CODE, OUTCOMES
from mcpproxy.view.index.indexed_trace import IndexedTrace
from mcpproxy.view.recorded_findings import RecordedFindings
from mcpproxy.view.stats import tokens
from mcpproxy.view.summaries import summaries
from mcpproxy.view.tools import tools

_CALL_TOOL: Final = "tools/call"
_ARROW_TYPES: Final = {
    "B": pa.uint8(), "H": pa.uint16(), "I": pa.uint32(), "i": pa.int32(), "q": pa.int64(),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RecordingColumns:
    """The rows of one recording. ``date`` (of its start, ISO 8601) and ``server`` name their folders."""

    date: str
    server: str
    tables: Mapping[str, Table]


def read(path: str, name: str, result: bytes | None = None) -> RecordingColumns:
    """Return the recording at ``path`` as rows. ``name`` is its name in the fleet.

    With ``result``, what ``check --out`` wrote for it, the findings are those; otherwise those that were
    recorded with it.

    Raises:
        TraceError: it cannot be read.
    """
    scan = FrameScan()
    index = IndexedTrace(open_trace(path), scan=scan)
    try:
        index.read()
        index.refuse_damage()
        scan.finish()
        return _Reader(index, scan, name, result).columns()
    finally:
        index.source.close()


class _Reader:
    def __init__(self, index: IndexedTrace, scan: FrameScan, name: str, result: bytes | None) -> None:
        self._index: Final = index
        self._scan: Final = scan
        self._name: Final = name
        self._header: Final = index.trace.header
        self._started_us: Final = unix_ns(self._header.started_at) // 1000
        recorded = RecordedFindings(index).with_rows()
        self._sessions: Final = summaries(scan.columns, scan.sessions, recorded, scan.last_ns)
        self._by_number: Final = {session.number: session for session in self._sessions}
        if result is None:
            self._judged_by = self._header.mcpproxy
            self._findings = [(finding_object(finding), row) for finding, row in recorded]
            tally = scan.last.tally if scan.last else None
            self._more = [more_object(repeated) for repeated in (tally.more if tally else ())]
        else:
            record: dict[str, Any] = orjson.loads(result)
            self._judged_by = record["rules"]
            self._findings = [(found, self._row_of(found)) for found in record.get("findings", ())]
            self._more = record.get("more", [])

    def columns(self) -> RecordingColumns:
        first = self._first_session()
        date = datetime.fromtimestamp(self._started_us / 1e6, UTC).date().isoformat()
        server = _text(self._header.label) or (first.server if first else "") or "unknown"
        tables = {
            "recordings": self._recordings(first),
            "frames": self._frames(),
            "findings": self._finding_rows(),
            "tools": self._tools(),
        }
        assert tables.keys() == TABLES.keys()
        return RecordingColumns(date, server, tables)

    def _first_session(self) -> SessionSummary | None:
        named = (session for session in self._sessions if session.server or session.client)
        return next(named, self._sessions[0] if self._sessions else None)

    def _row_of(self, finding: Mapping[str, Any]) -> int:
        return self._scan.columns.row_of(finding["frame"]) if finding["frame"] else 0

    # recordings

    def _recordings(self, first: SessionSummary | None) -> Table:
        header, scan = self._header, self._scan
        notes = self._index.notes()
        last = scan.last
        close = last.close if isinstance(last, CloseRecord) else None
        severities = self._severities()
        row = {
            "recording": self._name,
            "label": _text(header.label),
            "transport": header.transport,
            "client": first.client if first else "",
            "client_version": first.client_version if first else "",
            "server_name": first.server if first else "",
            "server_version": first.server_version if first else "",
            "protocol": first.protocol if first else "",
            "revision": first.revision if first else "",
            "started": self._started_us,
            "duration_ns": scan.last_ns,
            "ending": close.ending if close else "running" if self._index.running else "cut",
            "exit_code": _fitting(close.exit_code) if close else None,
            "complete": not notes,
            "notes": notes,
            "frames": sum(scan.frames.values()),
            "bytes": self._index.source.size,
            "errors": severities["error"],
            "warnings": severities["warning"],
            "infos": severities["info"],
            "judged_by": self._judged_by,
            "mcpproxy": header.mcpproxy,
            "sessions": [
                {
                    "session": session.number,
                    "client": session.client,
                    "client_version": session.client_version,
                    "server": session.server,
                    "server_version": session.server_version,
                    "protocol": session.protocol,
                    "revision": session.revision,
                    "calls": session.rows,
                    "errors": session.errors,
                }
                for session in self._sessions
            ],
        }
        return pa.Table.from_pylist([row], RECORDINGS)

    def _severities(self) -> dict[str, int]:
        counts = {"error": 0, "warning": 0, "info": 0}
        for finding, _ in self._findings:
            counts[cast("str", finding["severity"])] += 1
        for repeated in self._more:
            counts[cast("str", repeated["severity"])] += cast("int", repeated["count"])
        return counts

    # frames

    def _frames(self) -> Table:
        scan, columns = self._scan, self._scan.columns
        call = _arrow(scan.of_call)
        kind = _arrow(scan.of_kind)
        is_request = pc.equal(kind, MESSAGE_KINDS.index("request"))
        row_kinds = pc.bit_wise_and(_arrow(columns.kind), 0x7F)
        is_request = pc.and_(is_request, pc.equal(pc.take(row_kinds, call), _ROW_REQUEST))
        answered = pc.and_(is_request, pc.greater(pc.take(_arrow(columns.answer_line), call), 0))
        code = pc.take(_arrow(columns.code), call)
        has_code = pc.and_(is_request, pc.not_equal(code, NO_CODE))
        first_seq = pc.take(_arrow(scan.first_seq), call)
        methods, tool_names = self._names()
        name = _arrow(scan.of_name)
        arrays = {
            "recording": _words(_zeros(len(call)), [self._name]),
            "frame": _arrow(scan.of_seq),
            "time": _times(self._started_us, _arrow(scan.of_time_ns)),
            "sender": _words(_arrow(scan.is_of_client), ["server", "client"]),
            "kind": _words(kind, list(MESSAGE_KINDS)),
            "method": _words(pc.take(methods[0], name), methods[1]),
            "tool": _words(pc.take(tool_names[0], name), tool_names[1]),
            "session": pc.take(_arrow(columns.session), call),
            "call": _where(pc.greater(first_seq, 0), first_seq),
            "outcome": _words(_where(is_request, pc.take(_arrow(columns.outcome), call)), list(OUTCOMES)),
            "error_code": _where(has_code, code),
            "latency_ns": _where(answered, pc.take(_arrow(columns.latency_ns), call)),
            "bytes": _arrow(scan.of_bytes),
            "answer_bytes": _where(answered, pc.take(_arrow(columns.answer_bytes), call)),
            "exchange": _where(pc.greater(_arrow(scan.of_exchange), 0), _arrow(scan.of_exchange)),
        }
        cast_arrays = [pc.cast(arrays[field.name], field.type) for field in FRAMES]
        return pa.Table.from_arrays(cast_arrays, schema=FRAMES)

    def _names(self) -> tuple[tuple[Array, list[str]], tuple[Array, list[str]]]:
        """Return the words of methods and of tools, each with the number of the word of every name."""
        methods: dict[str, int] = {}
        tool_names: dict[str, int] = {}
        method_of: list[int | None] = []
        tool_of: list[int | None] = []
        for method, target in self._scan.columns.names:
            method_of.append(methods.setdefault(_text(method), len(methods)) if method else None)
            is_tool = method == _CALL_TOOL and target is not None
            tool_of.append(tool_names.setdefault(_text(target), len(tool_names)) if is_tool else None)
        return (
            (pa.array(method_of, pa.int32()), list(methods) or [""]),
            (pa.array(tool_of, pa.int32()), list(tool_names) or [""]),
        )

    # findings

    def _finding_rows(self) -> Table:
        rows = [self._finding(found, row) for found, row in self._findings]
        rows += [self._finding(repeated, 0) for repeated in self._more]
        return pa.Table.from_pylist(rows, FINDINGS)

    def _finding(self, found: Mapping[str, Any], row: int) -> dict[str, object]:
        columns = self._scan.columns
        method, target = columns.names[columns.name[row]] if row else ("", None)
        session = self._by_number.get(columns.session[row]) or self._first_session()
        return {
            "recording": self._name,
            "time": self._started_us + columns.started_ns[row] // 1000,
            "rule": found["rule"],
            "severity": found["severity"],
            "blame": found["blame"],
            "count": found.get("count", 1),
            "frame": found.get("frame") or None,
            "method": _text(method) if method else None,
            "tool": _text(target) if method == _CALL_TOOL else None,
            "session": columns.session[row],
            "client": session.client if session else "",
            "client_version": session.client_version if session else "",
            "server_version": session.server_version if session else "",
            "revision": found.get("revision") or (session.revision if session else ""),
            "requirement": found["requirement"],
            "fingerprint": found.get("fingerprint"),
            "judged_by": self._judged_by,
        }

    # tools

    def _tools(self) -> Table:
        rows = [
            {
                "recording": self._name,
                "time": self._started_us,
                "session": tool.session,
                "server_version": self._version_of(tool.session),
                "tool": tool.name,
                "listed": tool.listed,
                "sha256": _digest(tool.definition) if tool.listed else None,
                "bytes": tool.size,
                "tokens": tokens(tool.size),
                "calls": tool.calls,
            }
            for tool in tools(self._scan.columns, self._index.reader, self._scan.tool_lists)
        ]
        return pa.Table.from_pylist(rows, TOOLS)

    def _version_of(self, session: int) -> str:
        known = self._by_number.get(session)
        return known.server_version if known else ""


_ROW_REQUEST: Final = next(index for index, kind in enumerate(KINDS) if kind == "request")


def _arrow(values: "array[int]") -> Array:
    """Return a column of the index without copying it."""
    kind = _ARROW_TYPES[values.typecode]
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _zeros(count: int) -> Array:
    return pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(bytes(4 * count))])


def _words(numbers: Array, words: list[str]) -> Array:
    return pa.DictionaryArray.from_arrays(pc.cast(numbers, pa.int32()), pa.array(words, pa.string()))


def _where(condition: Array, values: Array) -> Array:
    return pc.if_else(condition, values, pa.scalar(None, values.type))


def _times(started_us: int, elapsed_ns: Array) -> Array:
    return pc.add(pc.divide(elapsed_ns, 1000), started_us)


def _text(value: str | None) -> str:
    """Return a text that a file can hold: a peer may send half of a surrogate pair."""
    return (value or "").encode("utf-8", "backslashreplace").decode()


def _digest(definition: object) -> str:
    """Return a digest of a definition; the order of its members and its layout do not matter."""
    return sha256(json.dumps(definition, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _fitting(code: int | None) -> int | None:
    return code if code is None or -(1 << 31) <= code < 1 << 31 else None
