"""Report findings as JSON: one object per run. Members may be added, but never renamed."""

import json
from collections.abc import Iterator

from mcpproxy.read.reports.baseline import as_object
from mcpproxy.read.reports.judged_traces import JudgedTrace, JudgedTraces, host_members
from mcpproxy.read.reports.located import Located
from mcpproxy.record.trace.encode import finding_object, more_object


def lines(verdict: JudgedTraces) -> Iterator[str]:
    """Yield the run as one indented JSON object."""
    yield json.dumps(
        {
            "traces": [trace_object(trace) for trace in verdict.traces],
            "unreadable": [
                {"path": unjudged.path, "reason": unjudged.reason} for unjudged in verdict.unjudged
            ],
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
            **_hosts(verdict),
            **_baseline(verdict),
        },
        indent=2,
    )


def _hosts(verdict: JudgedTraces) -> dict[str, object]:
    """Return the member about the hosts, if the user named any."""
    if not verdict.hosts:
        return {}
    from mcpproxy.read.reports.host_matrix import as_objects, rows_of_run

    return {"hosts": as_objects(rows_of_run(verdict))}


def _baseline(verdict: JudgedTraces) -> dict[str, object]:
    """Return the member about the baseline, if there is one. Findings that are not in it are new."""
    if verdict.fixed is None:
        return {}
    return {
        "baseline": {
            "known": verdict.known,
            "new": verdict.counts.total(),
            "fixed": len(verdict.fixed),
            "fixed_findings": [as_object(entry) for entry in verdict.fixed],
        }
    }


def trace_object(trace: JudgedTrace) -> dict[str, object]:
    """Return the object of a trace. Findings that a baseline accepts are in its member ``known``."""
    return {
        "path": trace.path,
        "complete": trace.complete,
        "revision": trace.revision,
        "frames": trace.frames,
        "findings": _findings(trace),
        "notes": list(trace.notes),
        **({"running": True} if trace.running else {}),
        **({"not_begun": trace.not_begun} if trace.not_begun else {}),
        **({"not_judged": trace.not_judged} if trace.not_judged else {}),
        **({"more": [more_object(entry) for entry in trace.more]} if trace.more else {}),
        **({"known": [_located(entry) for entry in trace.known]} if trace.known else {}),
    }


def _findings(trace: JudgedTrace) -> list[dict[str, object]]:
    if trace.located:
        return [_located(located) for located in trace.located if not located.is_known]
    return [finding_object(finding) | host_members(finding) for finding in trace.findings]


def _located(located: Located) -> dict[str, object]:
    """Return a finding, its fingerprint and its place: ``file`` and ``line`` of the frame's record.

    ``line`` is ``null`` if it is unknown. ``why`` is given if a baseline accepts the finding.
    """
    place: dict[str, object] = {
        "file": located.path,
        "line": located.line or None,
        "fingerprint": located.fingerprint,
    }
    finding = finding_object(located.finding) | host_members(located.finding)
    return finding | place | ({"why": located.why} if located.is_known else {})
