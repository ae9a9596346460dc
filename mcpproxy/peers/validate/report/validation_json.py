"""A validation as one JSON object. Member names are stable: members may be added, never renamed."""

import json
from collections.abc import Iterator, Mapping, Sequence

from mcpproxy.peers.validate.outcome import CheckResult, Validation
from mcpproxy.record.trace.encode import finding_object


def lines(validation: Validation, hosts: Sequence[Mapping[str, object]] = ()) -> Iterator[str]:
    """Yield the run as one indented JSON object. ``hosts`` has an entry for each host that the user named."""
    counts = validation.counts
    yield json.dumps(
        {
            "target": validation.target,
            "transport": validation.transport,
            "server": validation.server,
            "client": validation.client,
            "revisions": validation.revisions,
            "valid": validation.is_valid,
            "verdict": validation.verdict,
            "interrupted": validation.is_interrupted,
            "passed": counts["passed"],
            "failed": counts["failed"],
            "warnings": counts["warning"],
            "infos": counts["info"],
            "skipped": counts["skipped"],
            "known": validation.known,
            "duration_ms": round(validation.duration_ms, 1),
            "checks": [_check(check) for check in validation.checks],
            "traces": [
                {
                    "path": trace.path,
                    "frames": trace.frames,
                    "findings": [finding_object(finding) for finding in trace.findings],
                }
                for trace in validation.traces
            ],
            "notes": validation.notes,
            "faults": validation.faults,
            "untested": validation.untested or None,
            **({"hosts": list(hosts)} if hosts else {}),
        },
        indent=1,
    )


def _check(check: CheckResult) -> dict[str, object]:
    conclusion = check.conclusion
    return {
        "name": check.name,
        "category": check.category,
        "status": check.status,
        "message": conclusion.message,
        "duration_ms": round(check.duration_ms, 1),
        "rules": check.rules,
        "broken": conclusion.rule or None,
        "requirement": conclusion.requirement or None,
        "source": conclusion.source or None,
        "frames": conclusion.frames,
        "trace": check.trace or None,
        "revision": check.revision or None,
        "known": check.is_known,
    }
