"""Findings as JSON: one object per run. The member names are a promise; add, never rename."""

import json
from collections.abc import Iterator

from mcpproxy.reports.verdict import JudgedTrace, Verdict
from mcpproxy.trace.format import finding_object


def lines(verdict: Verdict) -> Iterator[str]:
    """The run as one indented JSON object."""
    yield json.dumps(
        {
            "traces": [trace_object(trace) for trace in verdict.traces],
            "unreadable": [{"path": u.path, "reason": u.reason} for u in verdict.unjudged],
            "summary": {
                "traces": len(verdict.traces),
                "incomplete": sum(not trace.complete for trace in verdict.traces),
                "unreadable": len(verdict.unjudged),
                "frames": verdict.frames,
                "error": verdict.counts["error"],
                "warning": verdict.counts["warning"],
                "info": verdict.counts["info"],
                "strict": verdict.strict,
                "exit_code": verdict.exit_code,
            },
        },
        indent=2,
    )


def trace_object(trace: JudgedTrace) -> dict[str, object]:
    """One trace with its findings."""
    return {
        "path": trace.path,
        "complete": trace.complete,
        "revision": trace.revision,
        "frames": trace.frames,
        "findings": [finding_object(finding) for finding in trace.findings],
        "notes": list(trace.notes),
    }
