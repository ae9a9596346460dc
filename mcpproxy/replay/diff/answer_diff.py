"""Two answers to the same request side by side: what about the second is not as it was."""

from collections.abc import Iterator
from typing import Final

from mcpproxy.protocol.jsonrpc import JSON, Absent, ErrorResponse, JSONObject, Response
from mcpproxy.protocol.wording import shown
from mcpproxy.replay.diff.comparison import Change, of_difference
from mcpproxy.replay.diff.values import Rules, differences
from mcpproxy.replay.recording import Said

_HANDED_OUT: Final = (
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
"""Values that a server makes up anew: it matters only that they are there."""


def answer_changes(was: Said, now: Said, rules: Rules) -> Iterator[Change]:
    """Every change from one answer to the other; a change of its kind stands alone."""
    match was.message, now.message:
        case Response(result=expected), Response(result=found):
            if status := _turned(expected, found):
                yield status
                return
            for each in differences(settled(expected), settled(found), rules, "/result"):
                yield of_difference(each)
        case ErrorResponse(error=expected), ErrorResponse(error=found):
            for each in differences(there(expected), there(found), rules, "/error"):
                yield of_difference(each)
        case Response(), ErrorResponse(error=found):
            yield Change(
                "status", f"is an error{_error_text(found)}, was a result", "/error", found=there(found)
            )
        case ErrorResponse(error=expected), Response():
            text = f"is a result, was an error{_error_text(expected)}"
            yield Change("status", text, "/error", expected=there(expected))
        case _:
            pass


def settled(value: JSON) -> JSON:
    """A result or params with a fixed word for every value that is made up anew each time."""
    if not isinstance(value, dict):
        return value
    copy = dict(value)
    for *outer, name in _HANDED_OUT:
        holder: JSON = copy
        for step in outer:
            inner = holder.get(step) if isinstance(holder, dict) else None
            if isinstance(holder, dict) and isinstance(inner, dict):
                holder[step] = inner = dict(inner)
            holder = inner
        if isinstance(holder, dict) and isinstance(holder.get(name), str):
            holder[name] = "(there)"
    return copy


def there(value: "JSON | Absent") -> JSON:
    """``None`` for what is absent."""
    return None if isinstance(value, Absent) else value


def _turned(expected: JSON, found: JSON) -> Change | None:
    """A result that has become one of another kind: then its members are not worth comparing."""
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
