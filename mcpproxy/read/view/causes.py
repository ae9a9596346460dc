"""Explain why a call failed or has no answer: in a sentence or two, and in a few words for a list."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.secret_values import HIDDEN, mask_secrets
from mcpproxy.base.slotted import slotted
from mcpproxy.base.style import count, duration
from mcpproxy.base.telling_line import TRACEBACK, telling_line
from mcpproxy.base.visible import visible
from mcpproxy.judge.session.exchanges import Fields
from mcpproxy.judge.session.frame import (
    CLIENT,
    SERVER,
    ExchangeEnd,
    Frame,
    Gap,
    Note,
    ResponseHead,
    Stderr,
    other,
)
from mcpproxy.judge.session.outcomes import UNSUCCESSFUL, WORDS, Kind, Outcome, state_words
from mcpproxy.judge.session.redirects import location_of
from mcpproxy.protocol.jsonrpc import ABSENT, JSON, ErrorResponse, Malformed, Notification, Response
from mcpproxy.protocol.mcp_in_acp import WRAPPERS, outcome_in
from mcpproxy.protocol.message_parts import answers_in, member, singles, value_of
from mcpproxy.protocol.wording import kind, shown
from mcpproxy.read.reports.transcripts.preview import preview
from mcpproxy.read.view.call_reader import id_text
from mcpproxy.read.view.calls import Call, Part, Role
from mcpproxy.read.view.index.seen import FirstEnd
from mcpproxy.read.view.rows.stray_rows import names_id

LOST: Final = UNSUCCESSFUL
"""The outcomes of calls that got no successful result."""

_LONG_NS: Final = 5_000_000_000
"""A call that waited so long may have hit its client's timeout, which progress could have extended."""
_MOST_BYTES: Final = 64 << 10
"""How many bytes of the end of stderr are searched for the line that names the error."""
_REASON_CHARACTERS: Final = 240
"""How many characters of a reason, a body or a line are shown."""


@slotted(frozen=True)
class HowEnded:
    """How a recording ended, in words (``text``); the event that began the end; whether it still runs."""

    text: str
    first: FirstEnd | None
    running: bool

    def words(self, call: Call) -> str:
        """Return how the recording ended for a call without an answer: who left first, and what followed.

        Empty while it runs.
        """
        first = self.first
        if self.running or first is None or first.by == SERVER or first.at_ns < call.started_ns:
            return "" if self.running else self.text
        left = "the client left" if first.by == CLIENT else f"{visible(first.by)} came"
        left += f" after {duration(first.at_ns - call.started_ns)}"
        return f"{left}, then {self.text}" if self.text else left


def error_words(call: Call) -> str:
    """Return the error that a call ended with, ``error -32602: no such tool``; empty if it has none."""
    words = _ERROR_WORDS.get(call.outcome)
    return words(call).rstrip(": ") if words else ""


def declined_words(call: Call) -> str:
    """Return how a call was declined, ``declined -32601: no such method``; empty if it was not."""
    if call.outcome is not Outcome.DECLINED:
        return ""
    is_status = call.result.startswith(str(call.error_code))
    return f"{state_words(call.outcome, None if is_status else call.error_code)}: {call.result}".rstrip(": ")


def cause_of(call: Call, parts: Sequence[Part], stray: Part | None, ended: HowEnded) -> str:
    """Return sentences that say why a call failed or has no answer; empty for other calls without ``stray``.

    They are also empty while the answer may be in a part of the recording that has not been read. ``parts``
    are the records of the call. ``stray`` is the record of another row that came instead of the answer, or
    before it (``rows.stray_rows``).
    """
    if _is_unread(call):
        return ""
    sentences = [] if stray is None else [_stray_sentence(call, stray)]
    match call.outcome:
        case Outcome.UNANSWERED if _wrong_id_answer(stray) is None:
            sentences += _wait_sentence(call, stray, ended)
            sentences += [*_exchange_sentence(call, parts), *_progress_sentence(call, parts)]
        case Outcome.CANCELLED:
            sentences.append(_cancellation_sentences(call, parts))
        case Outcome.UNREADABLE:
            sentences.append(f"Its answer could not be read: {_unreadable_words(parts, are_all=True)}")
        case _ if words := error_words(call):
            sentences.append(words)
        case _:
            pass
    if more := said_beyond(call, parts):
        sentences.append(f"Its {more}")
    if call.outcome in LOST and (line := _error_on_stderr(call, parts, more)):
        sentences.append(f"On stderr: {line}")
    elif line := _last_on_stderr(call, parts):
        sentences.append(f"Last on stderr: {line}")
    return " ".join(text if text.endswith((".", "…")) else f"{text}." for text in sentences)


def brief_cause(call: Call, latest: Sequence[Part], stray: Part | None, ended: HowEnded) -> str:
    """Return why a call was unsuccessful, in a few words for its row, which also shows outcome and result.

    It is empty for any other call, and if ``cause_of`` is empty. ``latest`` are some of the last records of
    the call, without its request; the other parameters are those of ``cause_of``.
    """
    if call.outcome not in LOST or _is_unread(call):
        return ""
    clauses = [] if stray is None or call.result else [_stray_words(call, stray)]
    if call.outcome is Outcome.CANCELLED and not call.result:
        clauses += [reason for part in latest if (reason := _cancel_reason(part))]
    elif call.outcome is Outcome.UNANSWERED and _wrong_id_answer(stray) is None:
        words = ended.words(call).removeprefix("the ")
        clauses += _exchange_sentence(call, latest) or filter(None, [words])
    elif call.outcome is Outcome.UNREADABLE:
        return _unreadable_words(latest, are_all=False)
    more = said_beyond(call, latest)
    line = _error_on_stderr(call, latest, more)
    if call.result or more:
        return "; ".join(filter(None, (*clauses, more, line and f"stderr: {line}")))
    if not line and (last := _last_on_stderr(call, latest)):
        return "; ".join((*clauses, f"stderr: {last}"))
    return ": ".join(filter(None, ("; ".join(clauses), line)))


def said_beyond(call: Call, parts: Sequence[Part]) -> str:
    """Return what an error has beyond the result of its call, on one line; empty for other calls.

    It is the ``data: …`` of a JSON-RPC error, or the ``body: …`` of an HTTP error that is no message.
    """
    name = text = ""
    for part in parts:
        if not isinstance(frame := part.record, Frame) or frame.sender == call.sender:
            continue
        if call.outcome is Outcome.RPC_ERROR and (part.seq == call.answer or part.role is Role.GIVEN):
            name, text = "data", _data_of(frame, call)
        elif call.outcome is Outcome.HTTP_ERROR and part.role is Role.BODY:
            name, text = "body", text or _without_prefix(_body_of(frame).removeprefix("HTTP "), call.result)
    return f"{name}: {text}" if text and text not in call.result else ""


def _data_of(frame: Frame, call: Call) -> str:
    """Return the ``data`` of the error in a frame; in a batch, of that with the call's id; empty if none."""
    errors = [single for single in singles(frame.message) if isinstance(single, ErrorResponse)]
    if len(errors) > 1:
        errors = [error for error in errors if id_text(error.value.get("id")) == call.id]
    if not errors and call.method in WRAPPERS:  # its result may carry the error
        return _on_one_line(member(outcome_in(member(value_of(frame.message), "result")), "error", "data"))
    return _on_one_line(member(errors[0].error, "data")) if errors else ""


def _without_prefix(text: str, known: str) -> str:
    """Return ``text`` without ``known`` at its beginning, even if repeated: a page's title, its heading."""
    while known and text.startswith(known) and not text[len(known) : len(known) + 1].isalnum():
        text = text[len(known) :].lstrip(" .:;|-")
    return text


def _body_of(frame: Frame) -> str:
    """Return a body that is no message, on one line; empty if it is a message or a piece of a longer body.

    Of an HTML page, only the visible text is returned.
    """
    if frame.continues or not isinstance(frame.message, Malformed):
        return ""
    if frame.message.value is not ABSENT:
        return _on_one_line(frame.message.value)
    text = frame.raw[:_MOST_BYTES].decode("utf-8", "replace")
    return _on_one_line(_MARKUP.sub(" ", text) if text.lstrip()[:1] == "<" else text)


def _on_one_line(value: JSON) -> str:
    """Return the beginning of a JSON value on one line, without secrets; of a traceback, the error.

    Return an empty text for ``null`` and empty values.
    """
    if value in (None, "", {}, []):
        return ""
    if not isinstance(value, str):
        text = preview(value, _REASON_CHARACTERS)
    elif TRACEBACK.search(value, 0, _MOST_BYTES):
        text = telling_line(value[-_MOST_BYTES:].split("\n"))
    else:
        text = " ".join(value[:_MOST_BYTES].split())
    return _shortened(visible(mask_secrets(text[: 2 * _REASON_CHARACTERS], lambda _: HIDDEN)))


def _is_unread(call: Call) -> bool:
    return call.outcome is Outcome.UNANSWERED and call.waited_ns is None


def stderr_lines(part: Part, most_bytes: int = 0) -> list[str]:
    """Return the lines of stderr in a part, safe to show, without blanks at their ends.

    With ``most_bytes``, only that many bytes at the end of the part are read. Another part has no lines.
    """
    if not isinstance(part.record, Stderr):
        return []
    text = part.record.raw[-most_bytes:].decode("utf-8", "backslashreplace")
    return [visible(line.rstrip()) for line in text.split("\n")]


def stderr_preview(part: Part, most_lines: int) -> list[str]:
    """Return the last lines of a part of stderr, or only its summary line if that comes before them."""
    last = stderr_lines(part, _MOST_BYTES)[-most_lines:]
    has_summary = part.lines <= most_lines or part.summary in " ".join(map(str.strip, last))
    return last if has_summary else [part.summary]


def _error_on_stderr(call: Call, parts: Sequence[Part], more: str) -> str:
    """Return the last line on stderr that names an error; empty if there is none.

    It is also empty if the result of the call or ``more``, the other words of the answer, has that line.
    """
    line = telling_line(
        [line for part in parts for line in stderr_lines(part, _MOST_BYTES)],
        only_errors=True,
        known=call.result,
    )
    return "" if line in more else _shortened(line)


def _last_on_stderr(call: Call, parts: Sequence[Part]) -> str:
    """Return the last line on stderr during a call without an answer: a hint at what the server did.

    It is empty for any other call.
    """
    if call.outcome not in (Outcome.UNANSWERED, Outcome.CANCELLED):
        return ""
    lines = (line.strip() for part in reversed(parts) for line in reversed(stderr_lines(part, _MOST_BYTES)))
    return _shortened(next(filter(None, lines), ""))


def _shortened(text: str) -> str:
    return text if len(text) <= _REASON_CHARACTERS else f"{text[:_REASON_CHARACTERS]}…"


_MARKUP: Final = pattern(r"<(style|script)\b.*?(?:</\1[^>]*>?|\Z)|<[^>]*>?", re.IGNORECASE | re.DOTALL)
"""Matches the parts of a page that a browser does not show."""

_ERROR_WORDS: Final[Mapping[Outcome, Callable[[Call], str]]] = {
    Outcome.TOOL_ERROR: lambda call: f"{WORDS[call.outcome]}: {call.result}",
    Outcome.RPC_ERROR: lambda call: f"{_error_name(call)}: {call.result}",
    Outcome.HTTP_ERROR: lambda call: f"HTTP {call.result}",
    Outcome.REFUSED: lambda call: f"{WORDS[call.outcome]}: {call.result.removeprefix('mcpproxy: ')}",
}


def _error_name(call: Call) -> str:
    words = state_words(call.outcome, call.error_code)
    return f"{words} without an integer code" if call.error_code is None else words


def _wrong_id_answer(stray: Part | None) -> Response | ErrorResponse | None:
    """Return the answer in ``stray`` that has a wrong id; ``None`` if ``stray`` is no such answer."""
    if stray is None or not isinstance(stray.record, Frame) or stray.record.is_undelivered or stray.lines > 1:
        return None
    return next(iter(answers_in(stray.record.message)), None)


def _multiline_words(call: Call, stray: Part) -> tuple[str, str]:
    """Return a noun for output that was printed over several lines, and a clause on its fate.

    The noun is "answer", "message" or "JSON". Both are empty if the output is on one line.
    """
    if stray.lines == 1 or not isinstance(frame := stray.record, Frame):
        return "", ""
    spread = f"over {count(stray.lines, 'line')}"
    messages = singles(frame.message)
    if value_of(frame.message) is ABSENT:
        what = "answer" if names_id(frame.raw, call.id) else "message"
        return what, f"begun {spread} and not finished"
    if all(isinstance(single, Malformed) for single in messages):
        return "JSON", f"printed {spread} and is no message: {_body_of(frame)}"
    is_answer = any(id_text(answer.value.get("id")) == call.id for answer in answers_in(frame.message))
    fate = f"printed {spread}, so no {other(frame.sender)} could read it"
    return ("answer", fate) if is_answer else ("message", f"{fate}: {stray.summary}")


def _stray_sentence(call: Call, stray: Part) -> str:
    """Return a sentence on output of the peer that came instead of the answer, or before it."""
    assert isinstance(stray.record, Frame)
    peer, frame, where = stray.record.sender, stray.record, f"(row {stray.row})"
    what, fate = _multiline_words(call, stray)
    if what:
        named = {"answer": "The answer", "message": f"A message of the {peer}", "JSON": f"JSON of the {peer}"}
        return f"{named[what]} {where} was {fate}"
    if (answer := _wrong_id_answer(stray)) is not None:
        id = answer.value.get("id")
        is_other_kind = isinstance(id, str) != call.id.startswith('"')
        named = f"{visible(shown(id))}{f', {kind(id)}' if is_other_kind else ''}"
        return (
            f"The {peer} answered after {duration(stray.at_ns - call.started_ns)} with the id {named} {where}"
        )
    if frame.is_undelivered:
        return f"No line feed ends the answer {where}, and many clients wait for it"
    if not frame.terminated:
        bytes_sent = count(len(frame.raw), "byte")
        return f"The last line of the {peer} was cut after {bytes_sent} {where}: {stray.summary}"
    return f"The {peer} wrote what is not a message while the call was open {where}: {stray.summary}"


def _stray_words(call: Call, stray: Part) -> str:
    """Return what ``_stray_sentence`` says in a few words."""
    assert isinstance(stray.record, Frame)
    where = f"(row {stray.row})"
    what, fate = _multiline_words(call, stray)
    if what:
        return f"{what} {where} {fate}"
    if (answer := _wrong_id_answer(stray)) is not None:
        return f"answered with the id {visible(shown(answer.value.get('id')))} {where}"
    if stray.record.is_undelivered:
        return f"no line feed ends the answer {where}"
    return (
        f"not a message {where}: {stray.summary}"
        if stray.record.terminated
        else f"the last line was cut {where}"
    )


def _wait_sentence(call: Call, stray: Part | None, ended: HowEnded) -> list[str]:
    is_lost = stray is not None and isinstance(stray.record, Frame) and stray.record.is_undelivered
    is_lost = is_lost or (stray is not None and _multiline_words(call, stray)[0] == "answer")
    what = "other answer" if is_lost else "answer"
    waited = duration(call.waited_ns or 0)
    if ended.running and not call.closed:
        return [f"There has been no {what} for {waited}"]
    lasted = f"There was no {what}{f' in {waited},' if call.waited_ns else ''} until the"
    if call.closed:
        return [f"{lasted} HTTP exchange ended"]
    words = ended.words(call)
    return [f"{lasted} recording ended{f': {words}' if words else ''}"]


def _exchange_sentence(call: Call, parts: Sequence[Part]) -> list[str]:
    """Return a sentence on what the HTTP exchange had instead of the answer; none if that may still come."""
    records = [part.record for part in parts]
    end = next((record for record in reversed(records) if isinstance(record, ExchangeEnd)), None)
    has_half_event = any(isinstance(record, Frame) and record.is_unfinished_event for record in records)
    heads = [record for record in records if isinstance(record, ResponseHead)]
    heads = [head for head in heads if end is not None and head.exchange == end.exchange]
    if end is not None and end.cut:
        if not heads:
            by, done = "closed the connection", "connection was closed"
            where = " before an answer began"
        else:
            by, done = "cut the HTTP answer short", "HTTP answer was cut short"
            where = ", within an event, which clients discard" if has_half_event else ""
        return [f"The {end.by} {by}{where}" if end.by else f"The {done}{where}"]
    if has_half_event:
        return ["No blank line ends the last event, so clients discard what it says"]
    if end is None or not call.closed:
        return []
    bodies = [record for record in records if isinstance(record, Frame) and record.exchange == end.exchange]
    return [
        _complete_answer_sentence(heads[-1], bodies)
        if heads
        else "Its HTTP answer ended without its response"
    ]


def _complete_answer_sentence(head: ResponseHead, frames: Sequence[Frame]) -> str:
    """Return a sentence on a complete HTTP answer without the response. ``frames`` are in its exchange."""
    if (location := location_of(head)) is not None:
        return f"It was answered with HTTP {head.status} to {visible(location[:_REASON_CHARACTERS])}"
    fields = Fields(head.headers)
    sent = [frame for frame in frames if frame.sender == SERVER]
    is_stream = fields.is_event_stream
    if fields.media_type and not is_stream and any(isinstance(frame.message, Malformed) for frame in sent):
        sentence = f"Its answer was {visible(fields.media_type)}, not JSON-RPC"
        return ": ".join(filter(None, (sentence, *map(_body_of, sent[:1]))))
    status = visible(f"{head.status} {head.reason}".strip())
    return f"It was answered with HTTP {status}, without its response"


def _unreadable_words(parts: Sequence[Part], *, are_all: bool) -> str:
    """Return why an answer could not be read. ``are_all`` is true if ``parts`` are all records of the call.

    Recordings of earlier releases have no note about it among these records, but the head names the coding.
    """
    for part in parts:
        if isinstance(part.record, Note | Gap):
            return part.summary
    heads = [part.record for part in parts if isinstance(part.record, ResponseHead)]
    coding = Fields(heads[-1].headers).get("content-encoding") if heads else None
    if coding:
        return f"the content coding {visible(coding)} was not undone"
    end = next((part.record for part in reversed(parts) if isinstance(part.record, ExchangeEnd)), None)
    pieces = [
        part.record for part in parts if isinstance(part.record, Frame) and part.record.sender == SERVER
    ]
    if end is None or not end.cut or not pieces or (pieces[-1].terminated and not pieces[-1].continues):
        return "it is in pieces"
    size = sum(len(piece.raw) for piece in pieces if piece.exchange == end.exchange)
    return f"it was cut{f' at {size:,} bytes' if are_all else ''}{f' by the {end.by}' if end.by else ''}"


def _progress_sentence(call: Call, parts: Sequence[Part]) -> list[str]:
    """Return a sentence on the last progress of a call, or on why there could be none; else nothing.

    There could be none if the request has no progress token. That is said of a ``tools/call`` that waited for
    ``_LONG_NS`` or longer.
    """
    if call.progress:
        return [f"The last progress: {call.progress}"]
    if call.kind is not Kind.REQUEST or call.method != "tools/call" or (call.waited_ns or 0) < _LONG_NS:
        return []
    request = next((part.record for part in parts if part.role is Role.REQUEST), None)
    if not isinstance(request, Frame) or b"progressToken" in request.raw:
        return []
    return ["The request has no progressToken, so no progress could show that the server works on it"]


def _cancellation_sentences(call: Call, parts: Sequence[Part]) -> str:
    by, why = call.sender, ""
    for part in parts:
        if part.role is Role.CANCEL and isinstance(part.record, Frame):
            by, why = part.record.sender, _cancel_reason(part)
            break
    waited = "" if call.waited_ns is None else f" after {duration(call.waited_ns)}"
    came = f" The last progress: {call.progress}." if call.progress else ""
    late = " An answer came later" if call.answer else ""
    return f"The {by} cancelled the call{waited}{f': {why}' if why else ''}.{came}{late}"


def _cancel_reason(part: Part) -> str:
    """Return the reason in a cancellation; empty if it has none, or if the part is no cancellation."""
    message = part.record.message if part.role is Role.CANCEL and isinstance(part.record, Frame) else None
    params: Any = message.params if isinstance(message, Notification) else None
    reason = member(params, "reason")
    return visible(reason[:_REASON_CHARACTERS]) if isinstance(reason, str) else ""
