"""One recording as rows of the tables, without the content of messages."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final, cast

import orjson

from mcpproxy.base.json_values import dumps
from mcpproxy.judge.session.frame import WORST_FIRST
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.read.opening import open_trace
from mcpproxy.read.view.calls import SessionSummary
from mcpproxy.read.view.index.indexed_trace import IndexedTrace
from mcpproxy.read.view.recorded_findings import RecordedFindings
from mcpproxy.read.view.stats import tokens
from mcpproxy.read.view.summaries import summaries
from mcpproxy.read.view.tools import RecordedTools
from mcpproxy.record.trace.encode import finding_object, more_object
from mcpproxy.record.trace.records import CloseRecord
from mcpproxy.send.fleet.columns.frame_batch import CALL_TOOL, text
from mcpproxy.send.fleet.columns.frame_scan import FrameScan
from mcpproxy.send.fleet.columns.model_rows import ModelRows


@dataclass(frozen=True, slots=True)
class RecordingRows:
    """The rows of one recording. ``date`` (of its start, ISO 8601) and ``server`` name their folders.

    ``server`` is the label of the recording, or else the name that the server gave, or ``unknown``. ``scan``
    has the frames, with times since ``started_us`` (Unix time, microseconds). ``rows`` has the rows of the
    other tables: name of the table -> rows.
    """

    date: str
    server: str
    started_us: int
    scan: FrameScan
    rows: Mapping[str, Sequence[Mapping[str, object]]]


def read(path: str, name: str, result: bytes | None = None) -> RecordingRows:
    """Return the recording at ``path`` as rows. ``name`` is its name in the fleet.

    The findings are those of ``result``, which ``check --out`` wrote, or else those in the recording.

    Raises:
        TraceError: it cannot be read.
    """
    scan = FrameScan()
    index = IndexedTrace(open_trace(path), scan=scan)
    try:
        index.read()
        index.refuse_damage()
        scan.finish()
        return _Reader(index, scan, name, result).rows()
    finally:
        index.source.close()


class _Reader:
    """Turns a recording whose index is complete into rows."""

    def __init__(self, index: IndexedTrace, scan: FrameScan, name: str, result: bytes | None) -> None:
        self._index: Final = index
        self._scan: Final = scan
        self._name: Final = name
        self._header: Final = index.trace.header
        self._started_us: Final = self._header.started_unix_ns // 1000
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
            self._findings = [(finding, self._row_of(finding)) for finding in record.get("findings", ())]
            self._more = record.get("more", [])

    def rows(self) -> RecordingRows:
        first = self._first_session()
        date = datetime.fromtimestamp(self._started_us / 1e6, UTC).date().isoformat()
        server = text(self._header.label) or (first.server if first else "") or "unknown"
        rows: dict[str, Sequence[Mapping[str, object]]] = {
            "recordings": [self._recording_row(first)],
            "findings": self._finding_rows(),
            "tools": self._tool_rows(),
        }
        if self._header.model:
            model = ModelRows(self._index.trace, self._name, self._started_us)
            rows |= {"turns": model.turns, "tools": [self._offered_tool_row(*tool) for tool in model.tools()]}
        return RecordingRows(date, server, self._started_us, self._scan, rows)

    def _first_session(self) -> SessionSummary | None:
        """Return the first session in which a peer gave its name, else the first; ``None`` for none."""
        named = (session for session in self._sessions if session.server or session.client)
        return next(named, self._sessions[0] if self._sessions else None)

    def _row_of(self, finding: Mapping[str, Any]) -> int:
        return self._scan.columns.row_of(finding["frame"]) if finding["frame"] else 0

    # recordings

    def _recording_row(self, first: SessionSummary | None) -> dict[str, object]:
        header, scan = self._header, self._scan
        notes = self._index.notes()
        last = scan.last
        close = last.close if isinstance(last, CloseRecord) else None
        severities = self._severities()
        return {
            "recording": self._name,
            "label": text(header.label),
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
                    "calls": session.calls.total,
                    "errors": session.calls.failed,
                }
                for session in self._sessions
            ],
        }

    def _severities(self) -> dict[str, int]:
        counts: dict[str, int] = dict.fromkeys(WORST_FIRST, 0)
        for finding, _ in self._findings:
            counts[cast("str", finding["severity"])] += 1
        for repeated in self._more:
            counts[cast("str", repeated["severity"])] += cast("int", repeated["count"])
        return counts

    # findings

    def _finding_rows(self) -> list[dict[str, object]]:
        rows = [self._finding_row(finding, row) for finding, row in self._findings]
        return rows + [self._finding_row(repeated, 0) for repeated in self._more]

    def _finding_row(self, finding: Mapping[str, Any], row: int) -> dict[str, object]:
        columns = self._scan.columns
        method, target = columns.names[columns.name[row]] if row else ("", None)
        session = self._by_number.get(columns.session[row]) or self._first_session()
        return {
            "recording": self._name,
            "time": self._started_us + columns.started_ns[row] // 1000,
            "rule": finding["rule"],
            "severity": finding["severity"],
            "blame": finding["blame"],
            "count": finding.get("count", 1),
            "frame": finding.get("frame") or None,
            "method": text(method) if method else None,
            "tool": text(target) if method == CALL_TOOL else None,
            "session": columns.session[row],
            "client": session.client if session else "",
            "client_version": session.client_version if session else "",
            "server_version": session.server_version if session else "",
            "revision": finding.get("revision") or (session.revision if session else ""),
            "requirement": finding["requirement"],
            "fingerprint": finding.get("fingerprint"),
            "judged_by": self._judged_by,
        }

    # tools

    def _tool_rows(self) -> list[dict[str, object]]:
        return [
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
            for tool in RecordedTools(self._index).all()
        ]

    def _offered_tool_row(self, name: str, definition: JSONObject, calls: int) -> dict[str, object]:
        size = len(dumps(definition, compact=True))
        return {
            "recording": self._name,
            "time": self._started_us,
            "session": 0,
            "server_version": "",
            "tool": name,
            "listed": True,
            "sha256": _digest(definition),
            "bytes": size,
            "tokens": tokens(size),
            "calls": calls,
        }

    def _version_of(self, session: int) -> str:
        known = self._by_number.get(session)
        return known.server_version if known else ""


def _digest(definition: object) -> str:
    """Return a digest of a definition; the order of its members and its layout do not matter."""
    return sha256(json.dumps(definition, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _fitting(code: int | None) -> int | None:
    """Return ``code`` if it fits its column, else ``None``."""
    return code if code is None or -(1 << 31) <= code < 1 << 31 else None
