"""Make the JSON members of a call that the page and the agents' tools have in common."""

from typing import TypedDict, overload

from mcpproxy.judge.session.frame import Sender, Severity
from mcpproxy.judge.session.outcomes import Kind, Outcome
from mcpproxy.read.view.calls import Call


class CallMembers(TypedDict):
    """The common JSON members of a call; ``view.calls.Call`` explains them.

    The number of the row and the time of the request are not among them: their names differ.
    """

    kind: Kind
    frame: int
    answer: int | None
    id: str
    session: int
    sender: Sender
    method: str
    target: str | None
    outcome: Outcome
    error_code: int | None
    latency_ms: float | None
    waited_ms: float | None
    closed: bool
    request_bytes: int
    answer_bytes: int
    arguments: str
    result: str
    progress: str
    cause: str
    intervention: str
    findings: int
    severity: Severity | None
    parent: int


def call_members(call: Call) -> CallMembers:
    """Return the members of a call."""
    return {
        "kind": call.kind,
        "frame": call.frame,
        "answer": call.answer,
        "id": call.id,
        "session": call.session,
        "sender": call.sender,
        "method": call.method,
        "target": call.target,
        "outcome": call.outcome,
        "error_code": call.error_code,
        "latency_ms": milliseconds(call.latency_ns),
        "waited_ms": milliseconds(call.waited_ns),
        "closed": call.closed,
        "request_bytes": call.request_bytes,
        "answer_bytes": call.answer_bytes,
        "arguments": call.arguments,
        "result": call.result,
        "progress": call.progress,
        "cause": call.cause,
        "intervention": call.intervention,
        "findings": call.findings,
        "severity": call.severity,
        "parent": call.parent,
    }


@overload
def milliseconds(time_ns: int) -> float: ...
@overload
def milliseconds(time_ns: int | None) -> float | None: ...
def milliseconds(time_ns: int | None) -> float | None:
    """Return a time in milliseconds, rounded to the microsecond; ``None`` if there is none."""
    return None if time_ns is None else round(time_ns / 1e6, 3)
