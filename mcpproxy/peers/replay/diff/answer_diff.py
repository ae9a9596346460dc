"""The differences between two responses to the same request."""

from collections.abc import Iterator
from typing import Final

from mcpproxy.peers.replay.diff.comparison import Change, change_from
from mcpproxy.peers.replay.diff.values import DiffRules, differences
from mcpproxy.peers.replay.recording import SessionMessage
from mcpproxy.protocol.jsonrpc import JSON, Absent, ErrorResponse, JSONObject, Response
from mcpproxy.protocol.message_parts import or_none
from mcpproxy.protocol.wording import shown

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
"""Paths of values in a result that a server generates anew each time; only their presence is compared."""


def answer_changes(
    expected_answer: SessionMessage, found_answer: SessionMessage, rules: DiffRules
) -> Iterator[Change]:
    """Yield the changes from the expected response to the found one.

    If the two are of different kinds (result, tool error, error, or results of different ``resultType``),
    only the change of kind is reported.
    """
    match expected_answer.message, found_answer.message:
        case Response(result=expected), Response(result=found):
            if status_change := _status_change(expected, found):
                yield status_change
                return
            for difference in differences(normalised(expected), normalised(found), rules, "/result"):
                yield change_from(difference)
        case ErrorResponse(error=expected), ErrorResponse(error=found):
            for difference in differences(or_none(expected), or_none(found), rules, "/error"):
                yield change_from(difference)
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
    """Return a copy of a result or params in which a fixed word replaces every generated value."""
    if not isinstance(value, dict):
        return value
    copy = dict(value)
    for *outer_names, name in _GENERATED:
        parent: JSON = copy
        for outer_name in outer_names:
            child = parent.get(outer_name) if isinstance(parent, dict) else None
            if isinstance(parent, dict) and isinstance(child, dict):
                parent[outer_name] = child = dict(child)
            parent = child
        if isinstance(parent, dict) and isinstance(parent.get(name), str):
            parent[name] = "(there)"
    return copy


def _status_change(expected: JSON, found: JSON) -> Change | None:
    """Return the change if the results are of different kinds, so that their members are not compared.

    Otherwise return ``None``.
    """
    if not isinstance(expected, dict) or not isinstance(found, dict):
        return None
    was_error, is_error = expected.get("isError") is True, found.get("isError") is True
    if was_error != is_error:
        old_kind = "a tool error" if was_error else "a result"
        new_kind = "a tool error" if is_error else "a result"
        text = f"is {new_kind}, was {old_kind}{_first_text(found if is_error else expected)}"
        return Change("status", text, "/result/isError", was_error, is_error)
    old_type, new_type = expected.get("resultType", "complete"), found.get("resultType", "complete")
    if old_type != new_type:
        text = f"is a result of type {shown(new_type)}, was one of type {shown(old_type)}"
        return Change("status", text, "/result/resultType", old_type, new_type)
    return None


def _first_text(result: JSONObject) -> str:
    """Return the first text in a result, in parentheses; empty if it has none."""
    content = result.get("content")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and isinstance(text := part.get("text"), str):
            return f" ({shown(text)})"
    return ""


def _error_text(error: "JSON | Absent") -> str:
    if not isinstance(error, dict):
        return ""
    return f" ({shown(error.get('code'))} {shown(error.get('message'))})"
