"""The JSON values that the server sends to the page. ``static/types.js`` describes them for the browser.

Texts of the view are safe to show. The text of a record is sent as it was recorded; the page shows its hidden
characters as escapes.
"""

import os
from collections.abc import Iterable
from typing import Final

from mcpproxy.checks.opt_in.pins import Pins
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.session.frame import Frame, RequestHead, ResponseHead
from mcpproxy.view.calls import Call, Detail, FoundRule, Part, RuleFindings, SessionSummary
from mcpproxy.view.folder import RecordingEntry
from mcpproxy.view.runs import ClientRun
from mcpproxy.view.stats import ESTIMATE, CallStatistics, statistics, tokens
from mcpproxy.view.view import View

WINDOW: Final = 500
"""The most rows in one answer."""

_FINDINGS_PER_RULE: Final = 20

TEXT_LIMIT: Final = 200_000
"""How many characters of a record are sent with its call.

The page asks for the whole record if it needs it.
"""


def call(row: Call) -> JSONObject:
    """Return one row of the list."""
    return {
        "number": row.number,
        "kind": row.kind,
        "frame": row.frame,
        "answer": row.answer,
        "id": row.id,
        "session": row.session,
        "sender": row.sender,
        "method": row.method,
        "target": row.target,
        "outcome": row.outcome,
        "error_code": row.error_code,
        "started_ms": row.started_ns / 1e6,
        "latency_ms": milliseconds(row.latency_ns),
        "waited_ms": milliseconds(row.waited_ns),
        "request_bytes": row.request_bytes,
        "answer_bytes": row.answer_bytes,
        "arguments": row.arguments,
        "result": row.result,
        "findings": row.findings,
        "severity": row.severity,
        "parent": row.parent,
    }


def detail(call_detail: Detail) -> JSONObject:
    """Return a call with its records and findings."""
    return {
        "call": call(call_detail.call),
        "parts": [part(item) for item in call_detail.parts],
        "findings": [finding(item) for item in call_detail.findings],
        "inner": list(call_detail.inner),
    }


def part(call_part: Part) -> JSONObject:
    """Return one record of a call."""
    record = call_part.record
    text: str | None = None
    fields: list[tuple[str, str]] = []
    sender = ""
    if isinstance(record, Frame):
        sender = record.sender
        text = record.raw.decode("utf-8", "backslashreplace")
        if event := record.event:
            retry = None if event.retry is None else str(event.retry)
            sse_fields = (("event", event.name), ("id", event.id), ("retry", retry))
            fields = [(name, value) for name, value in sse_fields if value is not None]
    elif isinstance(record, RequestHead):
        sender = "client"
        fields = [(f"{record.method} {record.target}", ""), *record.headers]
    elif isinstance(record, ResponseHead):
        sender = "server"
        fields = [(f"{record.status} {record.reason}", ""), *record.headers]
    return {
        "role": call_part.role,
        "seq": call_part.seq,
        "at_ms": call_part.at_ns / 1e6,
        "row": call_part.row,
        "sender": sender,
        "summary": call_part.summary,
        "text": None if text is None else text[:TEXT_LIMIT],
        "length": 0 if text is None else len(text),
        "fields": [list(pair) for pair in fields],
    }


def finding(found_rule: FoundRule) -> JSONObject:
    """Return one finding with the texts of its rule."""
    finding = found_rule.finding
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "frame": finding.frame,
        "row": found_rule.row,
        "message": finding.message,
        "broken_by": finding.blame,
        "pointer": finding.pointer or "",
        "name": found_rule.name,
        "summary": found_rule.summary,
        "sentence": found_rule.sentence,
        "instead": found_rule.instead,
        "link": found_rule.link,
    }


def session(summary: SessionSummary) -> JSONObject:
    """Return one session of a recording."""
    return {
        "number": summary.number,
        "name": summary.name,
        "protocol": summary.protocol,
        "client": f"{summary.client} {summary.client_version}".strip(),
        "server": f"{summary.server} {summary.server_version}".strip(),
        "revision": summary.revision,
        "rows": summary.rows,
        "errors": summary.errors,
        "unanswered": summary.unanswered,
        "findings": summary.findings,
    }


def rule(group: RuleFindings, sent_findings: list[FoundRule]) -> JSONObject:
    """Return the findings of one rule, of which only ``sent_findings`` are sent."""
    first = sent_findings[0] if sent_findings else None
    return {
        "rule": group.rule,
        "name": group.name,
        "severity": group.severity,
        "summary": group.summary,
        "count": group.count,
        "sentence": first.sentence if first else "",
        "instead": first.instead if first else "",
        "link": first.link if first else "",
        "findings": [finding(found_rule) for found_rule in sent_findings],
    }


def milliseconds(time_ns: int | None) -> float | None:
    """Return a time in milliseconds."""
    return None if time_ns is None else time_ns / 1e6


def recording(id: str, entry: RecordingEntry) -> JSONObject:
    """Return one recording of the folder; ``id`` is its id in the addresses of the page."""
    return {
        "id": id,
        "path": entry.path,
        "label": entry.label or os.path.basename(entry.path),
        "client": entry.client,
        "server": entry.server,
        "transport": entry.transport,
        "started_at": entry.started_at,
        "started_ms": entry.started_ns / 1e6,
        "duration_ms": milliseconds(entry.duration_ns),
        "running": entry.running,
        "state": entry.state,
        "ended": entry.ended,
        "findings": None if entry.findings is None else sum(entry.findings.values()),
    }


def run(client_run: ClientRun, ids: Iterable[str]) -> JSONObject:
    """Return a run; ``ids`` are the ids of its recordings."""
    return {
        "title": f"{client_run.client or 'one client'}, {len(client_run.entries)} servers",
        "certainty": client_run.certainty,
        "why": client_run.why,
        "recordings": list(ids),
    }


def tools(view: View, pins: Pins | None = None) -> JSONObject:
    """Return the tools, each with its use and about how many tokens its definition takes.

    With ``pins`` each has a ``drift``: how it differs from its pin.
    """
    found = view.tools()
    drift, gone = view.drift(pins) if pins else ({}, ())
    return {
        "gone": [{"server": each.server, "name": each.name} for each in gone],
        "tokens": sum(tokens(tool.size) for tool in found),
        "token_estimate": ESTIMATE,
        "tools": [
            {
                "name": tool.name,
                "definition": tool.definition,
                "size": tool.size,
                "tokens": tokens(tool.size),
                "calls": tool.calls,
                "listed": tool.listed,
                "drift": {"state": each.state, "lines": list(each.lines)}
                if (each := drift.get((tool.session, tool.name)))
                else None,
            }
            for tool in definitions
        ],
    }


def stats(view: View) -> JSONObject:
    """Return the counts, latencies and sizes of the calls of each method and tool."""
    result = statistics([view])
    return {
        "token_estimate": ESTIMATE,
        "never_used": [tool.name for tool in result.never_used],
        "rows": [
            {
                "method": row.method,
                "target": row.name,
                "sender": row.sender,
                "count": row.count,
                "errors": row.errors,
                "unanswered": row.unanswered,
                "p50_ms": milliseconds(row.p50_ns),
                "p95_ms": milliseconds(row.p95_ns),
                "max_ms": milliseconds(row.max_ns),
                "bytes_in": row.bytes_in,
                "bytes_out": row.bytes_out,
                "tokens": row.result_tokens,
                "filter": _filter(row),
            }
            for row in result.calls
        ],
    }


def _filter(row: CallStatistics) -> str:
    """Return the filter that shows the calls of one row of the statistics."""
    terms = [f"method:{quoted(row.method)}", f"from:{row.sender}", "kind:request"]
    return " ".join(terms if row.name is None else [*terms, f"target:{quoted(row.name)}"])


def quoted(text: str) -> str:
    """Return a value of a filter that means exactly this text."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def summary(view: View, entry: JSONObject) -> JSONObject:
    """Return the facts of a recording, its sessions, and notes on what is missing from it.

    ``entry`` is what ``recording`` returned.
    """
    sessions = view.sessions
    return {
        "recording": entry,
        "running": view.running,
        "rows": view.count(),
        "errors": sum(session.errors for session in sessions),
        "findings": sum(group.count for group in view.findings_by_rule()),
        "notes": [*view.notes, *([view.not_judged] if view.not_judged else [])],
        "sessions": [session(session_summary) for session_summary in sessions],
        "target": " ".join(view.header.command) or view.header.upstream,
        "may_send": False,
        "not_sent_because": "",
    }


def findings(view: View) -> list[JSON]:
    """Return the findings, grouped by rule. Of each rule the first ``_FINDINGS_PER_RULE`` are sent."""
    sent_of_rule: dict[str, list[FoundRule]] = {}
    for found_rule in view.findings():
        group = sent_of_rule.setdefault(found_rule.finding.rule, [])
        if len(group) < _FINDINGS_PER_RULE:
            group.append(found_rule)
    return [rule(group, sent_of_rule.get(group.rule, [])) for group in view.findings_by_rule()]
