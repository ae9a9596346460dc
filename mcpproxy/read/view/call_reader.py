"""Make the ``Call`` of a row from the columns of the index and from texts in the trace.

A row is a request with its answer, or a record that is not part of a request.
"""

import json
from typing import Any, Final, Protocol, cast

from mcpproxy.base.patterns import pattern
from mcpproxy.base.style import character_start
from mcpproxy.base.visible import visible
from mcpproxy.errors import TraceError
from mcpproxy.judge.session.frame import (
    Event,
    Finding,
    Frame,
    Gap,
    RequestHead,
    ResponseHead,
    SseEvent,
    Stderr,
)
from mcpproxy.judge.session.outcomes import Kind, Outcome
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.protocol.mcp_in_acp import ERRORS, MESSAGE, WRAPPERS, inner_message, outcome_in
from mcpproxy.protocol.message_parts import TARGETS, as_object, member, singles, target_of
from mcpproxy.read.reports.transcripts.preview import SHORT_BYTES, preview
from mcpproxy.read.view.calls import Call
from mcpproxy.read.view.digest import arguments_digest, result_digest
from mcpproxy.read.view.index.columns import NO_CODE, OUTCOMES, SEVERITIES, Columns
from mcpproxy.read.view.index.source import Source
from mcpproxy.record.trace.decode import decode
from mcpproxy.record.trace.members import NotARecordError
from mcpproxy.record.trace.records import Record
from mcpproxy.record.trace.repeated_bodies import Shortened
from mcpproxy.record.trace.short_lines import Lines

PREVIEW_CHARACTERS: Final = 240
"""The greatest length of a preview of arguments or of a result."""


class Masking(Protocol):
    """Masks values in records; ``mcpproxy.read.edit.redact.Redaction`` is one."""

    def record(self, record: Event | Finding) -> Event | Finding:
        """Return the record with its values masked; the same object if there is nothing to mask."""
        ...

    def text(self, text: str) -> str:
        """Return the text with its values masked."""
        ...


class CallReader:
    """Makes the ``Call`` of a row.

    Only the beginning of a large answer is read, unless it is in a batch, so that a list of rows is shown
    quickly. With ``masking``, everything is masked, and such an answer has no preview, because masking would
    need all of it.
    """

    def __init__(self, columns: Columns, source: Source, masking: Masking | None = None) -> None:
        self._columns: Final = columns
        self._source: Final = source
        self._masking: Final = masking
        self._kept: dict[int, Record] = {}
        """Line -> record, for request and answer of the last call unless they are large: its parts are
        usually read next."""

    def line(self, line: int) -> bytes:
        """Return the bytes of a line of the recording."""
        return self._source.line_at(self._columns.line_offset[line])

    def record(self, line: int) -> Record:
        """Return the record on a line.

        Raises:
            TraceError: the line has changed since the index was made.
        """
        if line in self._kept:
            return self._kept[line]
        try:
            record = self._decode_line(line)
        except NotARecordError as fault:
            path = self._source.trace.path
            raise TraceError(path, line + 1, str(fault), "the file was changed: open it again") from None
        if self._masking and isinstance(record, Event | Finding):
            return cast("Record", self._masking.record(record))  # masking keeps the type of a record
        return record

    def _decode_line(self, line: int) -> Record:
        """Return the record on a line.

        A body that was shortened, because it repeats an earlier one, is completed.

        Raises:
            NotARecordError: the line is no record, or the body that it repeats is not there.
        """
        record = decode(self.line(line))
        shortened: list[Shortened] = []
        while isinstance(record, Shortened):
            shortened.append(record)
            record = decode(self.line(self._columns.line_with(record.base)))
        for later in reversed(shortened):
            if not isinstance(record, Frame):
                raise NotARecordError("a body that repeats what is no frame")
            record = later.whole(record.raw)
        return record

    def names(self) -> list[tuple[str, str | None]]:
        """Return the methods and targets of the index, masked; the target is ``None`` if there is none."""
        names = self._columns.names
        return [self._masked_name(name) for name in names] if self._masking else names

    def _masked_name(self, name: tuple[str, str | None]) -> tuple[str, str | None]:
        method, target = name
        if self._masking is None:
            return name
        return self._masking.text(method), None if target is None else self._masking.text(target)

    def name(self, row: int) -> tuple[str, str | None]:
        """Return the method and target of a row, masked but not escaped: they may not be safe to show."""
        number = self._columns.name[row]
        if number != self._columns.unnamed:
            return self._masked_name(self._columns.names[number])
        message = self._message_object(self._columns.first_line[row], self._columns.elements.get(row))
        method = message.get("method")
        return (method, target_of(method, message.get("params"))) if isinstance(method, str) else ("", None)

    def call(self, row: int, now_ns: int) -> Call:
        """Return a row as a call, without ``worst_findings``, ``progress``, ``cause`` and ``intervention``.

        ``now_ns`` is the time until which a request without an answer has waited.
        """
        columns = self._columns
        answer_line, latency_ns = columns.answer_line[row], columns.latency_ns[row]
        kind, outcome = columns.kind_of(row), OUTCOMES[columns.outcome[row]]
        first_line = columns.first_line[row]
        first_record = self.record(first_line)
        self._kept = {first_line: first_record} if columns.request_bytes[row] < _LARGE_BYTES else {}
        method, target = self.name(row)
        code = columns.code[row]
        message = (
            _single_object(first_record, columns.elements.get(row))
            if kind in (Kind.REQUEST, Kind.ANSWER)
            else {}
        )
        answer, result = self._answer_preview(row, answer_line, method, message.get("params"))
        id = message.get("id")
        lacks_answer = kind in (Kind.REQUEST, Kind.EXCHANGE) and not answer_line
        return Call(
            number=row,
            kind=kind,
            frame=_seq(first_record),
            answer=answer,
            id=id_text(id),
            session=columns.session[row],
            sender=columns.sender_of(row),
            method=shortened(method),
            target=None if target is None else shortened(target),
            outcome=outcome,
            error_code=None if code == NO_CODE else code,
            started_ns=columns.started_ns[row],
            latency_ns=latency_ns if answer_line and latency_ns >= 0 else None,
            waited_ns=columns.waited_ns(row, now_ns) if lacks_answer else None,
            request_bytes=columns.request_bytes[row],
            answer_bytes=columns.answer_bytes[row],
            arguments="" if kind is Kind.ANSWER else arguments_preview(first_record, message, method),
            result=_orphan_answer(first_record, columns.elements.get(row), message)
            if kind is Kind.ANSWER
            else result,
            findings=columns.findings[row],
            severity=SEVERITIES[columns.severity[row]],
            parent=columns.parent[row],
            closed=lacks_answer and outcome is Outcome.UNANSWERED and latency_ns >= 0,
            exchange=getattr(first_record, "exchange", 0),
        )

    def _answer_preview(self, row: int, line: int, method: str, params: Any) -> tuple[int | None, str]:
        """Return sequence number (``None`` without an answer) and preview of the answer to a row.

        ``params`` are those of the request.
        """
        if not line:
            return None, ""
        if self._columns.answer_bytes[row] < _LARGE_BYTES or row in self._columns.answer_elements:
            answer = self.record(line)
            if self._columns.answer_bytes[row] < _LARGE_BYTES:
                self._kept[line] = answer
            element = self._columns.answer_elements.get(row)
            return _seq(answer), result_preview(answer, element, method, params)
        head = self._source.read(self._columns.line_offset[line], _HEAD_BYTES)
        seq = _SEQ.search(head)
        return int(seq[1]) if seq else 0, "" if self._masking else beginning_preview(head)

    def _message_object(self, line: int, element: int | None) -> dict[str, Any]:
        return _single_object(self.record(line), element)


def _single_object(record: object, element: int | None) -> dict[str, Any]:
    """Return the JSON object of a message, or of one element of a batch; empty if it is not an object."""
    if not isinstance(record, Frame):
        return {}
    return as_object(singles(record.message)[element or 0].value) or {}


def _seq(record: object) -> int:
    return getattr(record, "seq", 0)


def id_text(id: JSON) -> str:
    """Return an id as JSON, for ``Call.id``, shortened if it is no integer; empty if there is none."""
    return "" if id is None else str(id) if type(id) is int else visible(preview(id, 60))


def arguments_preview(record: object, message: dict[str, Any], method: str) -> str:
    """Return the arguments of a request, or the content of any other record, on one line.

    ``message`` is the JSON object of a message; if it is empty, the object is taken from ``record``.
    """
    match record:
        case Frame():
            value = message or getattr(record.message, "value", None)
            if isinstance(value, dict):
                members = cast("dict[str, Any]", value)
                is_cut = record.event is None and record.is_undelivered
                if is_cut or members.keys().isdisjoint(_MESSAGE_MEMBERS):
                    return _text(record.raw)
                params = members.get("params", members.get("result", members.get("error")))
                method, params = inner_message(method, cast("object", params))
                if method in _WITH_ARGUMENTS and isinstance(params, dict):
                    params = cast("dict[str, Any]", params).get("arguments", {})
                elif isinstance(params, dict):
                    object_params = cast("dict[str, Any]", params)
                    if digest := arguments_digest(method, object_params):
                        return _cut(digest)
                    # The row shows the target beside the method.
                    params = _without(object_params, TARGETS.get(method, ""))
                return _shown(cast("JSON", _without(params, "_meta")), record.raw) if params else ""
            return _text(record.raw) if record.raw or record.event is None else _empty_event(record.event)
        case RequestHead():
            return shortened(record.target.partition("?")[2])
        case Stderr(raw=raw):
            return _text(raw)
        case Lines(raws=raws):
            return _text(b"\n".join(raws[:PREVIEW_CHARACTERS]))
        case Gap(reason=reason):
            return shortened(reason)
        case _:
            return ""


def _empty_event(event: SseEvent) -> str:
    """Return a description of an SSE event without data. A client that has its id can resume the stream."""
    facts = ["empty event"]
    facts += [f"id {shortened(event.id)}"] if event.id is not None else []
    facts += [f"retry after {event.retry} ms"] if event.retry is not None else []
    return _cut(", ".join(facts) + (": lets the client resume" if event.id else ""))


def result_preview(record: object, element: int | None = None, method: str = "", params: Any = None) -> str:
    """Return the text of the content of an answer to ``method``, or the message of its error, on one line.

    For the head of an HTTP response, return its status. ``params`` are the params of the request, and
    ``element`` is the place of the answer in a batch. If an ACP answer carries an answer of MCP, the text is
    of the latter. An error that is certainly of ACP, and not of MCP, is marked as such. The result is empty
    if there is neither a result nor an error.
    """
    if isinstance(record, ResponseHead):
        return _cut(visible(f"{record.status} {record.reason}".strip()))
    message, raw = _single_object(record, element), getattr(record, "raw", b"")
    whose = ""
    if method in WRAPPERS and "error" not in message:
        message = outcome_in(message.get("result"))
    elif method == MESSAGE and isinstance(member(params, "serverId"), str):
        code: Any = member(message["error"], "code")
        name = f" ({ERRORS[code]})" if type(code) is int and code in ERRORS else ""
        whose = f"of ACP{name}, not of MCP: "
    # Twice: a proxy may forward a message that carries MCP.
    method, _ = inner_message(*inner_message(method, params))
    if "error" in message or "result" not in message:
        error: Any = message.get("error")
        text: Any = member(error, "message")
        if isinstance(text, str):
            return shortened(whose + text)
        return "" if error is None else _shown(cast("JSON", error), raw)
    result: Any = message["result"]
    if isinstance(result, dict):
        members = cast("dict[str, Any]", result)
        if digest := result_digest(method, members):
            return shortened(digest)
        content = _content_of(method, members)
        if isinstance(content, list) and (text := content_preview(cast("list[Any]", content))):
            return text
        if "content" in members and "structuredContent" in members:
            result = members["structuredContent"]
    return _shown(_without(result, "_meta"), raw)


def _orphan_answer(record: object, element: int | None, message: dict[str, Any]) -> str:
    """Return the preview of an answer to no open request. Its row has no outcome, so it names errors."""
    text = result_preview(record, element)
    if "error" not in message:
        return text
    error: Any = message["error"]
    code: Any = member(error, "code")
    return _cut(f"error {code}: {text}" if type(code) is int else f"error: {text}")


def shortened(text: str) -> str:
    """Return ``text`` safe to show, on one line of at most ``PREVIEW_CHARACTERS``.

    Line feeds and indentation of JSON are removed, or the text would be little but white space.
    """
    return _cut(visible(_LAYOUT.sub("", text[: 4 * PREVIEW_CHARACTERS])))


def beginning_preview(head: bytes) -> str:
    """Return the preview of a large result. ``head`` is the beginning of its record.

    The preview is the first text in the result; without a text, the first bytes.
    """
    message_at = head.find(_MESSAGE) + len(_MESSAGE)
    if not (first_text := _FIRST_TEXT.search(head, message_at)):
        result = _RESULT.search(head, message_at)
        return _text(head[result.end() if result else message_at :])
    characters = _CHARACTERS.match(head[first_text.end() :][:_FIRST_TEXT_BYTES])
    written = characters[0].decode("utf-8", "ignore") if characters else ""
    try:
        return shortened(json.loads(f'"{written}"', strict=False))
    except ValueError:  # it has an escape that JSON does not know
        return shortened(written)


def content_preview(content: list[Any]) -> str:
    """Return the texts of a result's content, and the type of each other item, on one line."""
    shown: list[str] = []
    length = 0
    for item in content:
        if not isinstance(item, dict):
            continue
        block = cast("dict[str, Any]", item)
        text = block.get("text")
        if isinstance(text, str):
            shown.append(shortened(text))
        else:
            kind, mime_type = block.get("type", "blob" if "blob" in block else None), block.get("mimeType")
            words = [word for word in (kind, mime_type) if isinstance(word, str)]
            shown.append(f"[{visible(' '.join(words)[:80])}]")
        length += len(shown[-1])
        if length > PREVIEW_CHARACTERS:
            break
    return _cut(" ".join(shown))


def _content_of(method: str, result: dict[str, Any]) -> object:
    """Return the content blocks in an answer to ``method``."""
    if method == "resources/read":
        return result.get("contents")
    messages: Any = result.get("messages")
    if method == "prompts/get" and isinstance(messages, list):
        items = cast("list[Any]", messages)
        return [cast("dict[str, Any]", item).get("content") for item in items if isinstance(item, dict)]
    return result.get("content")


_LAYOUT: Final = pattern(
    r"(?<=[\[{])[^\S\n]*+\n\s*+|(?<!\s)[^\S\n]*+\n\s*+(?=[\]}])|(?<=,)[^\S\n]*+\n\s*(?=\s)"
)
"""The line feeds and the indentation of JSON over several lines. After a comma, one blank is kept."""
_LARGE_BYTES: Final = 256 << 10
_HEAD_BYTES: Final = 8 << 10
"""How many bytes are read of an answer of ``_LARGE_BYTES`` or more."""

_MESSAGE: Final = b'"message":'
_SEQ: Final = pattern(rb'"seq":(\d{1,18}),')
_FIRST_TEXT: Final = pattern(rb'"text"\s*+:\s*+"')
_FIRST_TEXT_BYTES: Final = 12 * (PREVIEW_CHARACTERS + 1)
"""A character takes twelve bytes at most: two escapes."""
_CHARACTERS: Final = pattern(rb'(?:[^"\\]|\\(?:u[0-9A-Fa-f]{4}|[^u]))*+')
"""Whole characters of a string in JSON."""
_RESULT: Final = pattern(rb'"(?:result|error)"\s*+:\s*+')

_MESSAGE_MEMBERS: Final = frozenset({"method", "params", "result", "error"})
"""An object without any of these members is shown as it is, because it is no message."""
_WITH_ARGUMENTS: Final = ("tools/call", "prompts/get")


def _without(value: Any, name: str) -> Any:
    """Return ``value`` without the member ``name``, if it is an object."""
    if not isinstance(value, dict):
        return value
    return {key: member for key, member in cast("dict[str, Any]", value).items() if key != name}


def _shown(value: JSON, raw: bytes) -> str:
    """Return the beginning of ``value``, a part of the message ``raw``, on one line."""
    return _cut(visible(preview(value, PREVIEW_CHARACTERS, is_short=len(raw) <= SHORT_BYTES)))


def _text(raw: bytes) -> str:
    return _cut(visible(raw[: 4 * PREVIEW_CHARACTERS].decode("utf-8", "replace")))


def _cut(text: str) -> str:
    if len(text) <= PREVIEW_CHARACTERS:
        return text
    return text[: character_start(text, PREVIEW_CHARACTERS - 1)] + "…"
