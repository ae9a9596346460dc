"""The JSON values that the server sends to the page. ``static/types.js`` describes them for the browser.

A text that the view has made is safe to show. The text of a record is sent as it was recorded, and the page
makes the hidden characters in it visible.
"""

import shlex
from collections.abc import Iterable
from typing import Final, cast

from mcpproxy.base.visible import visible
from mcpproxy.judge.checks.opt_in.pins import Pins
from mcpproxy.judge.session.frame import Frame, RequestHead, ResponseHead, Stderr
from mcpproxy.judge.session.outcomes import CallCounts, Outcome, sum_counts
from mcpproxy.protocol.jsonrpc import JSON, JSONObject, Notification
from mcpproxy.read.view.call_members import call_members, milliseconds
from mcpproxy.read.view.call_reader import shortened
from mcpproxy.read.view.calls import Call, Detail, FoundRule, Part, Role, RuleFindings, SessionSummary
from mcpproxy.read.view.causes import stderr_lines, stderr_preview
from mcpproxy.read.view.diagrams.sequence import Sequence
from mcpproxy.read.view.drift import drift as drift_from_pins
from mcpproxy.read.view.recorded_findings import fold_found
from mcpproxy.read.view.recording_entry import RecordingEntry
from mcpproxy.read.view.runs import ClientRun
from mcpproxy.read.view.stats import ESTIMATE, CallStatistics, statistics, tokens
from mcpproxy.read.view.view import View
from mcpproxy.record.trace.opened_trace import STILL_RECORDING
from mcpproxy.record.trace.recorded_folders import FolderBelow

WINDOW: Final = 500
"""The most rows in one answer."""

MOST_RECORDS: Final = 10_000
"""The most records that are sent with a call."""

_FINDINGS_PER_RULE: Final = 20
"""The most findings of one rule that are sent."""

_LAST_LINES: Final = 3
"""How many of the last lines on stderr are shown at first."""

_METHOD_IS_TOLD: Final = (Role.PROGRESS, Role.LOG, Role.CANCEL)
"""The roles that say the method of a message."""

TEXT_LIMIT: Final = 200_000
"""How many characters of a record are sent with a call. The page requests the whole text if needed."""


def call(row: Call) -> JSONObject:
    """Return one row of the list."""
    members = cast("JSONObject", call_members(row))
    own: JSONObject = {"number": row.number, "started_ms": milliseconds(row.started_ns)}
    return {**own, **members, "worst_findings": row.worst_findings, "said": _said_beside_outcome(row)}


def _said_beside_outcome(row: Call) -> str:
    """Return what a row says of its result, without the status of HTTP: its outcome has that."""
    status = str(row.error_code)
    if row.outcome in (Outcome.HTTP_ERROR, Outcome.DECLINED) and row.said.partition(" ")[0] == status:
        return row.said.removeprefix(status).lstrip()
    return row.said


def detail(found: Detail) -> JSONObject:
    """Return a call with its records and findings."""
    return {
        "call": call(found.call),
        "cause": found.cause,
        "cause_row": found.cause_row,
        "parts": [part(each) for each in found.told],
        "findings": _folded(found.findings),
        "inner": list(found.inner),
        "left_out": found.left_out,
    }


def part(found: Part) -> JSONObject:
    """Return one record of a call."""
    record = found.record
    text: str | None = None
    fields: list[tuple[str, str]] = []
    sender, preview, summary = "", "", found.summary
    if isinstance(record, Frame):
        sender = record.sender
        if found.role in _METHOD_IS_TOLD and isinstance(record.message, Notification):
            summary = summary.removeprefix(f"{shortened(record.message.method)} ")
        text = record.raw.decode("utf-8", "backslashreplace")
        if event := record.event:
            retry = None if event.retry is None else str(event.retry)
            given = (("event", event.name), ("id", event.id), ("retry", retry))
            fields = [(name, value) for name, value in given if value is not None]
    elif isinstance(record, Stderr):
        text = "\n".join(stderr_lines(found))
        preview = "\n".join(stderr_preview(found, _LAST_LINES))
    elif isinstance(record, RequestHead):
        sender = "client"
        fields = [(f"{record.method} {record.target}", ""), *record.headers]
    elif isinstance(record, ResponseHead):
        sender = "server"
        fields = [(f"{record.status} {record.reason}", ""), *record.headers]
    return {
        "role": found.role,
        "seq": found.seq,
        "at_ms": milliseconds(found.at_ns),
        "row": found.row,
        "sender": sender,
        "summary": summary,
        "lines": found.lines,
        "preview": preview,
        "text": None if text is None else text[-TEXT_LIMIT:] if found.seq is None else text[:TEXT_LIMIT],
        "length": 0 if text is None else len(text),
        "fields": [list(pair) for pair in fields],
    }


def sequence(found: Sequence) -> JSONObject:
    """Return a sequence diagram."""
    return {
        "participants": list(found.participants),
        "arrows": [
            {
                "at_ms": milliseconds(arrow.at_ns),
                "row": arrow.row,
                "sender": arrow.sender,
                "text": arrow.text,
                "outcome": arrow.outcome,
                "mermaid": arrow.mermaid,
            }
            for arrow in found.arrows
        ],
        "left_out": found.left_out,
    }


def finding(found: FoundRule) -> JSONObject:
    """Return one finding, and the texts of its rule."""
    broken = found.finding
    return {
        "rule": broken.rule,
        "severity": broken.severity,
        "frame": broken.frame,
        "row": found.row,
        "message": broken.message,
        "broken_by": broken.blame,
        "pointer": broken.pointer or "",
        "name": found.name,
        "summary": found.summary,
        "sentence": found.sentence,
        "instead": found.instead,
        "link": found.link,
        "source": broken.source,
    }


def _folded(found: Iterable[FoundRule]) -> list[JSON]:
    """Return findings, those that say the same as one, which says how many more there are and to what they
    point."""
    rows: list[JSON] = []
    for first, folded in fold_found(found):
        others: list[JSON] = [{"frame": f.frame, "pointer": f.pointer or ""} for f in folded.others]
        rows.append({**finding(first), "more": folded.count_text, "others": others})
    return rows


def session(found: SessionSummary) -> JSONObject:
    """Return one session of a recording."""
    return {
        "number": found.number,
        "name": found.name,
        "protocol": found.protocol,
        "client": f"{found.client} {found.client_version}".strip(),
        "server": f"{found.server} {found.server_version}".strip(),
        "revision": found.revision,
        "rows": found.rows,
        "findings": found.findings,
    }


def rule(group: RuleFindings, found: list[FoundRule]) -> JSONObject:
    """Return the first findings of one rule, ``_FINDINGS_PER_RULE`` at most; ``found`` are all of them."""
    first = found[0] if found else None
    return {
        "rule": group.rule,
        "name": group.name,
        "severity": group.severity,
        "summary": group.summary,
        "count": group.count,
        "sentence": first.sentence if first else "",
        "instead": first.instead if first else "",
        "link": first.link if first else "",
        "source": first.finding.source if first else "",
        "findings": _folded(found)[:_FINDINGS_PER_RULE],
    }


def recording(id: str, entry: RecordingEntry) -> JSONObject:
    """Return one recording of the folder; ``id`` is its name in the addresses of the page."""
    return {
        "id": id,
        "path": entry.path,
        "label": entry.title,
        "client": entry.client,
        "server": entry.server,
        "transport": entry.transport,
        "started_at": entry.started_at,
        "started_ms": milliseconds(entry.started_ns),
        "duration_ms": milliseconds(entry.duration_ns),
        "running": entry.running,
        "is_empty": entry.is_empty,
        "has_not_begun": entry.has_not_begun,
        "model": entry.model,
        "state": entry.state,
        "ended": entry.ended,
        "failed": entry.failures if entry.calls or entry.has_not_begun else None,
        "lost": "failed" if entry.has_not_begun else _worst_loss(entry.calls),
        "searched": entry.searched,
        "findings": None if entry.findings is None else dict(entry.findings),
    }


def _worst_loss(calls: CallCounts | None) -> str:
    return next((word for _, word in calls.unsuccessful(running=False)), "") if calls else ""


def run(found: ClientRun, ids: Iterable[str]) -> JSONObject:
    """Return a run; ``ids`` are the ids of its recordings."""
    return {
        "title": f"{found.client or 'one client'}, {len(found.entries)} recordings",
        "certainty": found.certainty,
        "why": found.why,
        "recordings": list(ids),
    }


def below(folders: Iterable[FolderBelow], more: int) -> JSONObject:
    """Return the folders below the one of the page that hold recordings; ``more`` are not among them."""
    return {
        "folders": [
            {"path": visible(each.path), "recordings": each.recordings, "command": visible(each.command)}
            for each in folders
        ],
        "more": more,
    }


def tools(view: View, pins: Pins | None = None) -> JSONObject:
    """Return the tools, each with the number of its calls, and about how many tokens its definition takes.

    ``pins`` are the definitions that the user has approved. With them, ``drift`` is how a tool differs from
    its pin, and ``gone`` are the pinned tools that are not listed any more.
    """
    found = view.tools.all()
    drift, gone = drift_from_pins(view.tools, view.sessions, pins) if pins else ({}, ())
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
            for tool in found
        ],
    }


def stats(view: View) -> JSONObject:
    """Return the counts, latencies and sizes of the calls, for each method and tool."""
    found = statistics([view])
    return {
        "token_estimate": ESTIMATE,
        "never_used": [tool.name for tool in found.never_used],
        "rows": [
            {
                "method": each.method,
                "target": each.name,
                "sender": each.sender,
                "count": each.counts.total,
                "errors": each.counts.failed,
                "unanswered": each.counts.unanswered,
                "cancelled": each.counts.cancelled,
                "refused": each.counts.refused,
                "unreadable": each.counts.unreadable,
                "p50_ms": milliseconds(each.p50_ns),
                "p95_ms": milliseconds(each.p95_ns),
                "max_ms": milliseconds(each.max_ns),
                "at_least": [*each.at_least],
                "bytes_in": each.bytes_in,
                "bytes_out": each.bytes_out,
                "tokens": each.result_tokens,
                "filter": _filter(each),
            }
            for each in found.calls
        ],
    }


def _filter(each: CallStatistics) -> str:
    """Return the filter that shows the calls of one row of the statistics."""
    terms = [f"method:{quoted(each.method)}", f"from:{each.sender}", "kind:request"]
    return " ".join(terms if each.name is None else [*terms, f"target:{quoted(each.name)}"])


def quoted(text: str) -> str:
    """Return ``text`` in quotes, as a value in a filter that matches exactly this text."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def summary(view: View, entry: JSONObject) -> JSONObject:
    """Return the facts of a recording, its sessions, and notes about missing records.

    ``entry`` is what ``recording`` returned for it. ``may_send`` says whether the page may send a call again;
    it and ``not_sent_because`` have the values for an exported page, which has no server of its own; in
    ``mcpproxy ui``, ``PageApp`` replaces them.
    """
    sessions = view.sessions
    calls = sum_counts(each.calls for each in sessions)
    notes = (note for note in view.notes if note != STILL_RECORDING)  # ``running`` says so
    return {
        "recording": entry,
        "running": view.running,
        "rows": view.count(),
        "calls": {
            name: getattr(calls, name)
            for name in ("failed", "refused", "unanswered", "unreadable", "cancelled")
        },
        "findings": {**view.findings.counts()},
        "notes": [*notes, *([view.not_judged] if view.not_judged else [])],
        "sessions": [session(each) for each in sessions],
        "target": shlex.join(view.header.command) or view.header.upstream,
        "cwd": view.header.cwd,
        "may_send": False,
        "not_sent_because": "",
    }


def findings(view: View) -> list[JSON]:
    """Return the rules that were broken, each with its findings."""
    of_rule: dict[str, list[FoundRule]] = {}
    for found in view.findings.with_texts():
        of_rule.setdefault(found.finding.rule, []).append(found)
    return [rule(group, of_rule.get(group.rule, [])) for group in view.findings.by_rule()]
