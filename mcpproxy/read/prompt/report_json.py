"""The report of ``mcpproxy prompt`` as one JSON object."""

from collections.abc import Iterable

from mcpproxy.base.json_values import dumps
from mcpproxy.model.tool_names import written
from mcpproxy.model.turns import Usage
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.read.prompt.call_ways import CallWay, PieceWay
from mcpproxy.read.prompt.changes import TextChange, ValueChange
from mcpproxy.read.prompt.findings import PromptFinding
from mcpproxy.read.prompt.report import PromptReport, RefusedRequest, RefusedTool, ServerWay, ToolWay
from mcpproxy.read.view.runs import Certainty


def as_json(report: PromptReport, findings: Iterable[PromptFinding] = ()) -> str:
    """Return the report as JSON text, with its findings."""
    value: JSONObject = {
        "dialect": report.dialect,
        "model": report.model,
        "user_agent": report.user_agent or None,
        "requests": report.requests,
        "unread": report.unread,
        "usage": {"first": _usage(report.first_usage), "last": _usage(report.last_usage)},
        "servers": [_server(server) for server in report.servers],
        "others": [written(tool) for tool in report.others],
        "refusals": [_refusal(refused) for refused in report.refusals],
        "findings": [_finding(finding) for finding in findings],
    }
    return dumps(value, indent=2)


def _usage(usage: Usage | None) -> JSON:
    return {"input": usage.input, "output": usage.output, "cached": usage.cached} if usage else None


def _server(server: ServerWay) -> JSONObject:
    client, version = server.server.client
    return {
        "label": server.server.label,
        "name": server.server.name,
        "client": {"name": client, "version": version} if client else None,
        "recording": server.server.path,
        "prefix": server.prefix,
        "instructions": _text(server.instructions),
        "list_goes_on": server.server.unread is not None,
        "tools": [_tool(way) for way in server.tools],
        "calls": [_call(way) for way in server.calls],
    }


def _tool(way: ToolWay) -> JSONObject:
    offered = way.match.offered
    return {
        "name": way.match.tool.name,
        "page": way.match.tool.page,
        "frame": way.match.tool.frame,
        "in_prompt": offered is not None,
        "named": None if offered is None else {"name": offered.name, "namespace": offered.namespace or None},
        "certainty": way.match.certainty,
        "why": way.match.why or None,
        "name_taken_by": way.match.taken_by.name if way.match.taken_by is not None else None,
        "named_in_text": way.in_text is Certainty.CERTAIN,
        "since_request": way.since or None,
        "until_request": way.until or None,
        "deferred": offered is not None and offered.deferred,
        "description": _text(way.description),
        "schema": [_change(change) for change in way.schema],
    }


def _call(way: CallWay) -> JSONObject:
    return {
        "call": way.wire.number,
        "tool": way.wire.name,
        "model_call": way.model.id or None if way.model is not None else None,
        "certainty": way.certainty if way.model is not None else None,
        "arguments": [_change(change) for change in way.changed],
        "result": [_piece(piece) for piece in way.pieces] if way.result is not None else None,
        "failure_unmarked": way.is_unmarked,
    }


def _piece(way: PieceWay) -> JSONObject:
    piece = way.piece
    about: JSONObject = {"kind": piece.kind, "mime": piece.mime or None, "for_model": piece.is_for_model}
    return {**about, **_text(way.change)}


def _refusal(refused: RefusedRequest) -> JSONObject:
    return {
        "frame": refused.seq,
        "status": refused.status,
        "message": refused.message,
        "times": refused.times,
        "tools": [_refused_tool(tool) for tool in refused.tools],
    }


def _refused_tool(refused: RefusedTool) -> JSONObject:
    match = refused.match
    return {
        "named": written(refused.offered),
        "server": match.tool.server if match is not None else None,
        "tool": match.tool.name if match is not None else None,
        "within": refused.meant.within or None,
    }


def _finding(prompt_finding: PromptFinding) -> JSONObject:
    finding = prompt_finding.finding
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "blame": finding.blame,
        "message": finding.message,
        "server": prompt_finding.server,
        "frame": finding.frame,
        "pointer": finding.pointer,
        "model_frame": prompt_finding.model_frame,
        "source": finding.source,
    }


def _text(change: TextChange) -> JSONObject:
    return {"way": change.way, "size": change.size, "kept": change.kept, "has_end": change.has_end}


def _change(change: ValueChange) -> JSONObject:
    return {"what": change.what, "at": change.pointer}
