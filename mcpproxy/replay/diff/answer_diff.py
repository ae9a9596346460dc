"""The differences between two responses to the same request."""

from collections.abc import Iterator
from typing import Final

from mcpproxy.protocol.jsonrpc import JSON, Absent, ErrorResponse, JSONObject, Response
from mcpproxy.protocol.wording import shown
from mcpproxy.replay.diff.comparison import Change, change_from
from mcpproxy.replay.diff.values import DiffRules, differences
from mcpproxy.replay.recording import SessionMessage

_GENERATED: Final = (
    ("nextCursor",),
    ("requestState",),
    ("taskId",),
    ("sessionId",),
    ("task", "taskId"),
    ("createdAt",),
    ("lastUpdatedAt",),
    ("task", "createdAt"),
    ("task", "lastUpdatedAt"),
)
"""Values that a server generates for each response: only their presence is compared."""


def answer_changes(was: SessionMessage, now: SessionMessage, rules: DiffRules) -> Iterator[Change]:
    """Yield the changes from one response to the other; if its kind changed, only that change."""
    match was.message, now.message:
        case Response(result=expected), Response(result=found):
            if status := _status_change(expected, found):
                yield status
                return
            for each in differences(normalised(expected), normalised(found), rules, "/result"):
                yield change_from(each)
        case ErrorResponse(error=expected), ErrorResponse(error=found):
            for each in differences(or_none(expected), or_none(found), rules, "/error"):
                yield change_from(each)
        case Response(), ErrorResponse(error=found):
            yield Change(
                "status", f"is an error{_error_text(found)}, was a result", "/error", found=or_none(found)
            )
        case ErrorResponse(error=expected), Response():
            text = f"is a result, was an error{_error_text(expected)}"
            yield Change("status", text, "/error", expected=or_none(expected))
        case _:
            pass


def normalised(value: JSON) -> JSON:
    """Return a result or params with a fixed word in place of every generated value."""
    if not isinstance(value, dict):
        return value
    copy = dict(value)
    for *outer, name in _GENERATED:
        holder: JSON = copy
        for step in outer:
            inner = holder.get(step) if isinstance(holder, dict) else None
            if isinstance(holder, dict) and isinstance(inner, dict):
                holder[step] = inner = dict(inner)
            holder = inner
        if isinstance(holder, dict) and isinstance(holder.get(name), str):
            holder[name] = "(there)"
    return copy


def or_none(value: "JSON | Absent") -> JSON:
    """Return the value, or ``None`` if it is absent."""
    return None if isinstance(value, Absent) else value


def _status_change(expected: JSON, found: JSON) -> Change | None:
    """Return the change if the results are of different kinds; their members are then not compared."""
    if not isinstance(expected, dict) or not isinstance(found, dict):
        return None
    failed, fails = expected.get("isError") is True, found.get("isError") is True
    if failed != fails:
        words = ("a tool error", "a result")
        text = f"is {words[not fails]}, was {words[not failed]}{_first_text(found if fails else expected)}"
        return Change("status", text, "/result/isError", failed, fails)
    was, now = expected.get("resultType", "complete"), found.get("resultType", "complete")
    if was != now:
        text = f"is a result of type {shown(now)}, was one of type {shown(was)}"
        return Change("status", text, "/result/resultType", was, now)
    return None


def _first_text(result: JSONObject) -> str:
    content = result.get("content")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and isinstance(text := part.get("text"), str):
            return f" ({shown(text)})"
    return ""


def _error_text(error: "JSON | Absent") -> str:
    if not isinstance(error, dict):
        return ""
    return f" ({shown(error.get('code'))} {shown(error.get('message'))})"
