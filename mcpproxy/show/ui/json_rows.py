"""The JSON values that the server sends to the page. ``static/types.js`` describes them for the browser.

Texts that the view has made have no hidden characters. The text of a record is sent as it was recorded, and
the page makes the hidden characters in it visible.
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
"""The most rows of findings of one rule that are sent."""

_LAST_LINES: Final = 3
"""How many lines of stderr are shown at first."""

_ROLES_WITH_METHOD: Final = (Role.PROGRESS, Role.LOG, Role.CANCEL)
"""The roles that already name the method of a message."""

TEXT_LIMIT: Final = 200_000
"""How many characters of a record are sent with a call: the last ones of stderr, else the first ones.

The page requests the whole text of a frame if needed.
"""


def call(row: Call) -> JSONObject:
    """Return a row of the page's list of calls."""
    members = cast("JSONObject", call_members(row))
    own: JSONObject = {"number": row.number, "started_ms": milliseconds(row.started_ns)}
    return {**own, **members, "worst_findings": row.worst_findings, "said": _said_beside_outcome(row)}


def _said_beside_outcome(row: Call) -> str:
    """Return the text about the result of a row, without the HTTP status, which its outcome has."""
    status = str(row.error_code)
    if row.outcome in (Outcome.HTTP_ERROR, Outcome.DECLINED) and row.said.partition(" ")[0] == status:
        return row.said.removeprefix(status).lstrip()
    return row.said


def detail(call_detail: Detail) -> JSONObject:
    """Return a call with its records and findings."""
    return {
        "call": call(call_detail.call),
        "cause": call_detail.cause,
        "cause_row": call_detail.cause_row,
        "parts": [part(record_part) for record_part in call_detail.told],
        "findings": _folded(call_detail.findings),
        "inner": list(call_detail.inner),
        "left_out": call_detail.left_out,
    }


def part(record_part: Part) -> JSONObject:
    """Return one record of a call."""
    record = record_part.record
    text: str | None = None
    fields: list[tuple[str, str]] = []
    sender, preview, summary = "", "", record_part.summary
    if isinstance(record, Frame):
        sender = record.sender
        if record_part.role in _ROLES_WITH_METHOD and isinstance(record.message, Notification):
            summary = summary.removeprefix(f"{shortened(record.message.method)} ")
        text = record.raw.decode("utf-8", "backslashreplace")
        if event := record.event:
            retry = None if event.retry is None else str(event.retry)
            given = (("event", event.name), ("id", event.id), ("retry", retry))
            fields = [(name, value) for name, value in given if value is not None]
    elif isinstance(record, Stderr):
        text = "\n".join(stderr_lines(record_part))
        preview = "\n".join(stderr_preview(record_part, _LAST_LINES))
    elif isinstance(record, RequestHead):
        sender = "client"
        fields = [(f"{record.method} {record.target}", ""), *record.headers]
    elif isinstance(record, ResponseHead):
        sender = "server"
        fields = [(f"{record.status} {record.reason}", ""), *record.headers]
    return {
        "role": record_part.role,
        "seq": record_part.seq,
        "at_ms": milliseconds(record_part.at_ns),
        "row": record_part.row,
        "sender": sender,
        "summary": summary,
        "lines": record_part.lines,
        "preview": preview,
        "text": text and (text[-TEXT_LIMIT:] if record_part.seq is None else text[:TEXT_LIMIT]),
        "length": 0 if text is None else len(text),
        "fields": [list(pair) for pair in fields],
    }


def sequence(diagram: Sequence) -> JSONObject:
    """Return a sequence diagram."""
    return {
        "participants": list(diagram.participants),
        "arrows": [
            {
                "at_ms": milliseconds(arrow.at_ns),
                "row": arrow.row,
                "sender": arrow.sender,
                "text": arrow.text,
                "outcome": arrow.outcome,
                "mermaid": arrow.mermaid,
            }
            for arrow in diagram.arrows
        ],
        "left_out": diagram.left_out,
    }


def finding(found_rule: FoundRule) -> JSONObject:
    """Return one finding, and the texts of its rule."""
    broken = found_rule.finding
    return {
        "rule": broken.rule,
        "severity": broken.severity,
        "frame": broken.frame,
        "row": found_rule.row,
        "message": broken.message,
        "broken_by": broken.blame,
        "pointer": broken.pointer or "",
        "name": found_rule.name,
        "summary": found_rule.summary,
        "sentence": found_rule.sentence,
        "instead": found_rule.instead,
        "link": found_rule.link,
        "source": broken.source,
    }


def _folded(found_rules: Iterable[FoundRule]) -> list[JSON]:
    """Return rows of findings. Findings with the same text share a row, which tells where the others are."""
    rows: list[JSON] = []
    for first, folded in fold_found(found_rules):
        others: list[JSON] = [{"frame": f.frame, "pointer": f.pointer or ""} for f in folded.others]
        rows.append({**finding(first), "more": folded.count_text, "others": others})
    return rows


def session(session_summary: SessionSummary) -> JSONObject:
    """Return one session of a recording."""
    return {
        "number": session_summary.number,
        "name": session_summary.name,
        "protocol": session_summary.protocol,
        "client": f"{session_summary.client} {session_summary.client_version}".strip(),
        "server": f"{session_summary.server} {session_summary.server_version}".strip(),
        "revision": session_summary.revision,
        "rows": session_summary.rows,
        "findings": session_summary.findings,
    }


def rule(group: RuleFindings, found_rules: list[FoundRule]) -> JSONObject:
    """Return a rule and its findings, which are ``found_rules``, in at most ``_FINDINGS_PER_RULE`` rows."""
    first = found_rules[0] if found_rules else None
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
        "findings": _folded(found_rules)[:_FINDINGS_PER_RULE],
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
    """Return the word for the most serious kind of unsuccessful calls; empty if there are none."""
    return next((word for _, word in calls.unsuccessful(running=False)), "") if calls else ""


def run(client_run: ClientRun, ids: Iterable[str]) -> JSONObject:
    """Return a run: the recordings of one client process; ``ids`` are their ids."""
    return {
        "title": f"{client_run.client or 'one client'}, {len(client_run.entries)} recordings",
        "certainty": client_run.certainty,
        "why": client_run.why,
        "recordings": list(ids),
    }


def below(folders: Iterable[FolderBelow], more: int) -> JSONObject:
    """Return the folders with recordings below that of the page; ``more`` is the number of others."""
    return {
        "folders": [
            {"path": visible(below.path), "recordings": below.recordings, "command": visible(below.command)}
            for below in folders
        ],
        "more": more,
    }


def tools(view: View, pins: Pins | None = None) -> JSONObject:
    """Return the tools, each with the number of its calls and an estimate of the tokens of its definition.

    ``pins`` are the definitions that the user has approved. With them, ``drift`` is the difference of a tool
    from its pin, and ``gone`` are the pinned tools that are not listed any more.
    """
    all_tools = view.tools.all()
    drift, gone = drift_from_pins(view.tools, view.sessions, pins) if pins else ({}, ())
    return {
        "gone": [{"server": pin.server, "name": pin.name} for pin in gone],
        "tokens": sum(tokens(tool.size) for tool in all_tools),
        "token_estimate": ESTIMATE,
        "tools": [
            {
                "name": tool.name,
                "definition": tool.definition,
                "size": tool.size,
                "tokens": tokens(tool.size),
                "calls": tool.calls,
                "listed": tool.listed,
                "drift": {"state": change.state, "lines": list(change.lines)}
                if (change := drift.get((tool.session, tool.name)))
                else None,
            }
            for tool in all_tools
        ],
    }


def stats(view: View) -> JSONObject:
    """Return the counts, latencies and sizes of the calls, for each method and tool."""
    figures = statistics([view])
    return {
        "token_estimate": ESTIMATE,
        "never_used": [tool.name for tool in figures.never_used],
        "rows": [
            {
                "method": row.method,
                "target": row.name,
                "sender": row.sender,
                "count": row.counts.total,
                "errors": row.counts.failed,
                "unanswered": row.counts.unanswered,
                "cancelled": row.counts.cancelled,
                "refused": row.counts.refused,
                "unreadable": row.counts.unreadable,
                "p50_ms": milliseconds(row.p50_ns),
                "p95_ms": milliseconds(row.p95_ns),
                "max_ms": milliseconds(row.max_ns),
                "at_least": [*row.at_least],
                "bytes_in": row.bytes_in,
                "bytes_out": row.bytes_out,
                "tokens": row.result_tokens,
                "filter": _filter_of(row),
            }
            for row in figures.calls
        ],
    }


def _filter_of(row: CallStatistics) -> str:
    """Return the filter that shows the calls of one row of the statistics."""
    terms = [f"method:{quoted(row.method)}", f"from:{row.sender}", "kind:request"]
    return " ".join(terms if row.name is None else [*terms, f"target:{quoted(row.name)}"])


def quoted(text: str) -> str:
    """Return ``text`` in quotes, as a value in a filter that matches exactly this text."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def summary(view: View, entry: JSONObject) -> JSONObject:
    """Return the facts of a recording, its sessions, and notes about missing records.

    ``entry`` is the result of ``recording`` for it. ``may_send`` says whether the page may send a call again.
    It and ``not_sent_because`` have the values for an exported page, which has no server of its own;
    ``PageApp`` replaces them in ``mcpproxy ui``.
    """
    sessions = view.sessions
    calls = sum_counts(one_session.calls for one_session in sessions)
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
        "sessions": list(map(session, sessions)),
        "target": shlex.join(view.header.command) or view.header.upstream,
        "cwd": view.header.cwd,
        "may_send": False,
        "not_sent_because": "",
    }


def findings(view: View) -> list[JSON]:
    """Return the rules that were broken, each with its findings."""
    of_rule: dict[str, list[FoundRule]] = {}
    for found_rule in view.findings.with_texts():
        of_rule.setdefault(found_rule.finding.rule, []).append(found_rule)
    return [rule(group, of_rule.get(group.rule, [])) for group in view.findings.by_rule()]
