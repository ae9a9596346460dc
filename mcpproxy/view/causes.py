"""Why a call failed, or has no answer, in a sentence or two."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.style import duration
from mcpproxy.base.visible import visible
from mcpproxy.protocol.jsonrpc import Notification
from mcpproxy.protocol.message_parts import member
from mcpproxy.session.frame import ExchangeEnd, Frame, Stderr
from mcpproxy.session.outcomes import WORDS, Kind, Outcome, state_words
from mcpproxy.view.calls import Call, Part, Role

_LONG_NS: Final = 5_000_000_000
"""A call that waited so long may have met a limit of its client, which progress could have moved."""
_MOST_LINES: Final = 200
_MOST_BYTES: Final = 64 << 10
"""How much of the end of stderr is searched for the line that says what went wrong."""
_REASON_CHARACTERS: Final = 240


def error_words(call: Call) -> str:
    """Return the error that a call ended with, ``error -32602: no such tool``; empty if it has none."""
    words = _ERRORS.get(call.outcome)
    return words(call).rstrip(": ") if words else ""


def cause_of(call: Call, parts: Sequence[Part], *, ended: str, running: bool) -> str:
    """Return why a call failed or has no answer; empty for any other call.

    It is empty, too, while the answer may be in a part of the recording that was not read yet. ``parts`` are
    the records of the call, ``ended`` says in words how the recording ended.
    """
    match call.outcome:
        case Outcome.NO_ANSWER if call.waited_ns is not None:
            said = [*_waited(call, ended, running=running), *_cut(parts), *_progress(call, parts)]
        case Outcome.CANCELLED:
            said = [_cancelled(call, parts)]
        case _ if words := error_words(call):
            said = [words]
        case _:
            return ""
    on_stderr = [line for part in parts for line in stderr_lines(part, _MOST_BYTES)]
    line = telling_line(on_stderr, only_errors=True)
    if line and line not in call.result and not (call.result and call.result in line):
        short = line if len(line) <= _REASON_CHARACTERS else f"{line[:_REASON_CHARACTERS]}…"
        said.append(f"On stderr: {short}")
    return " ".join(text if text.endswith((".", "…")) else f"{text}." for text in said)


def stderr_lines(part: Part, most_bytes: int = 0) -> list[str]:
    """Return the lines on stderr that a part holds, safe to show, without blanks at their ends.

    With ``most_bytes``, they are those in so many bytes of its end.
    """
    if not isinstance(part.record, Stderr):
        return []
    text = part.record.raw[-most_bytes:].decode("utf-8", "backslashreplace")
    return [visible(line.rstrip()) for line in text.split("\n")]


def telling_line(lines: Sequence[str], *, only_errors: bool = False) -> str:
    """Return the last line that names an error; if there is none, the last one that is not blank."""
    last = [stripped for line in lines[-_MOST_LINES:] if (stripped := line.strip())]
    named = next((line for line in reversed(last) if _NAMES_AN_ERROR.search(line)), "")
    return named or ("" if only_errors or not last else last[-1])


_NAMES_AN_ERROR: Final = pattern(
    r"\b\w*(?:error|exception|panic|panicked|fatal|failed|failure|errno)\b", re.IGNORECASE
)

_ERRORS: Final[Mapping[Outcome, Callable[[Call], str]]] = {
    Outcome.TOOL_ERROR: lambda call: f"{WORDS[call.outcome]}: {call.result}",
    Outcome.RPC_ERROR: lambda call: f"{_error(call)}: {call.result}",
    Outcome.HTTP_ERROR: lambda call: f"HTTP {call.result}",
    Outcome.REFUSED: lambda call: f"{WORDS[call.outcome]}: {call.result.removeprefix('mcpproxy: ')}",
}


def _error(call: Call) -> str:
    words = state_words(call.outcome, call.error_code)
    return f"{words} without an integer code" if call.error_code is None else words


def _waited(call: Call, ended: str, *, running: bool) -> list[str]:
    waited = duration(call.waited_ns or 0)
    if running:
        return [f"There is no answer for {waited}"]
    return [f"There was no answer in {waited}, until the recording ended{f': {ended}' if ended else ''}"]


def _cut(parts: Sequence[Part]) -> list[str]:
    """Say that the HTTP answer was cut, or that an event which holds an answer never ended."""
    for part in parts:
        if isinstance(part.record, Frame) and part.record.is_unfinished_event:
            return ["No blank line ends the last event, so clients discard what it says"]
    ends = [part.record for part in parts if isinstance(part.record, ExchangeEnd) and part.record.cut]
    return [f"Its HTTP answer was cut short by the {end.by}" if end.by else "Its HTTP answer was cut short"
            for end in ends[-1:]]  # fmt: skip


def _progress(call: Call, parts: Sequence[Part]) -> list[str]:
    """Say how far the call came, or that it could not say so."""
    if call.progress:
        return [f"The last progress: {call.progress}"]
    if call.kind is not Kind.REQUEST or call.method != "tools/call" or (call.waited_ns or 0) < _LONG_NS:
        return []
    request = next((part.record for part in parts if part.role is Role.REQUEST), None)
    if not isinstance(request, Frame) or b"progressToken" in request.raw:
        return []
    return ["The request has no progressToken, so no progress could show that the server works on it"]


def _cancelled(call: Call, parts: Sequence[Part]) -> str:
    for part in parts:
        if part.role is Role.CANCEL and isinstance(part.record, Frame):
            by = part.record.sender
            why = _reason(part.record)
            break
    else:
        by, why = call.sender, ""
    waited = "" if call.waited_ns is None else f" after {duration(call.waited_ns)}"
    late = " An answer came later" if call.answer else ""
    return f"The {by} cancelled the call{waited}{f': {why}' if why else ''}.{late}"


def _reason(frame: Frame) -> str:
    params: Any = frame.message.params if isinstance(frame.message, Notification) else None
    reason = member(params, "reason")
    return visible(reason[:_REASON_CHARACTERS]) if isinstance(reason, str) else ""
