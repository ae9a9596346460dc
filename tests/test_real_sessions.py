"""Real clients talk to real servers, once directly and once through mcpproxy: nothing may differ.

And what mcpproxy says about such a session has to be deserved: see ``DESERVED``.
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from mcpproxy import Report
from tests.peers.sessions import EVERY_PAIR, PAIRS, Sessions

NOT_DECLARED: Final = (
    "Our scripts subscribe and set a log level without looking at what the server declared, and these "
    "servers declare neither: only capabilities that were negotiated are to be used "
    "(2025-11-25, basic/lifecycle, Operation)."
)
REMOVED: Final = (
    "Our script pings, subscribes and sets a log level whatever the revision, and the Python SDK lets it: "
    "2026-07-28 has none of these requests any more (2026-07-28, changelog, Major changes 4 and 5)."
)
UNKNOWN_TOOL: Final = (
    "These servers answer a call of an unknown tool with a result whose isError is true: it is an error of "
    "the protocol (2025-11-25, server/tools, Error Handling)."
)
NO_RESOURCE: Final = (
    "These servers say with another code than -32002 that there is no such resource "
    "(2025-11-25, server/resources, Error Handling)."
)
DESERVED: Final[dict[str, dict[tuple[str, str], str]]] = {
    "PROTO-009": {
        ("python 1", "python 1"): NOT_DECLARED,
        ("python 2 auto", "python 1"): NOT_DECLARED,
        ("typescript 2 auto", "python 1"): NOT_DECLARED,
        ("python 1", "python 2"): NOT_DECLARED,
        ("typescript 1", "python 2"): NOT_DECLARED,
    },
    "STAT-008": {("python 2 auto", "python 2"): REMOVED},
    "TOOL-006": dict.fromkeys(EVERY_PAIR, UNKNOWN_TOOL),
    "RES-004": dict.fromkeys(EVERY_PAIR, NO_RESOURCE),
}
"""Rule -> (client, server) -> the sentence on which an error or a warning rests that this pair deserves."""


@pytest.mark.parametrize(("client", "server"), PAIRS, ids=[" - ".join(pair) for pair in PAIRS])
def test_a_real_session_is_the_same_and_found_clean(sessions: Sessions, client: str, server: str) -> None:
    session = sessions.stdio(client, server)

    assert json.loads(session.through) == json.loads(session.directly)
    # The 2.x TypeScript client asks a first process of the server for its era, then starts another.
    assert len(session.traces) == (2 if client == "typescript 2 auto" else 1)
    reports = session.reports()
    assert [report.complete for report in reports] == [True] * len(reports)
    assert [report.frames for report in reports] == [frames(trace) for trace in session.traces]
    assert undeserved(client, server, reports) == []
    assert_every_answer_was_seen(session.trace)


def records(trace: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in trace.read_bytes().splitlines()]


def frames(trace: Path) -> int:
    return sum(record["type"] == "frame" for record in records(trace))


def undeserved(client: str, server: str, reports: list[Report]) -> list[str]:
    return [
        f"{finding.rule} ({finding.severity}, {finding.blame}) frame {finding.frame}: {finding.message}"
        for report in reports
        for finding in report.findings
        if finding.severity != "info" and (client, server) not in DESERVED.get(finding.rule, {})
    ]


def assert_every_answer_was_seen(trace: Path) -> None:
    """Every request in the trace has its response, after it; and there are many of them."""
    waiting: dict[tuple[str, object], int] = {}
    answered = 0
    for record in records(trace):
        if record["type"] != "frame":
            continue
        message, sender = record["message"], record["from"]
        if "method" in message and "id" in message:
            waiting[sender, message["id"]] = record["seq"]
        elif "id" in message:
            receiver = "server" if sender == "client" else "client"
            assert waiting.pop((receiver, message["id"])) < record["seq"]
            answered += 1
    assert waiting == {}
    assert answered > 30
