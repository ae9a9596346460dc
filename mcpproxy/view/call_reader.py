"""Rows as calls: the columns of the index, and the few texts that are read from the trace for each row."""

from typing import Any, Final, cast

from mcpproxy.base.visible import visible
from mcpproxy.errors import TraceError
from mcpproxy.protocol.jsonrpc import JSON, Batch
from mcpproxy.reports.transcripts.preview import preview
from mcpproxy.session.frame import Frame, Gap, RequestHead, ResponseHead, Stderr
from mcpproxy.trace.decode import decode
from mcpproxy.trace.members import NotARecordError
from mcpproxy.trace.records import Record
from mcpproxy.trace.short_lines import Lines
from mcpproxy.view.calls import Call, Kind
from mcpproxy.view.columns import NO_CODE, OUTCOMES, SEVERITIES, TARGETS, Columns
from mcpproxy.view.digest import arguments_digest, result_digest
from mcpproxy.view.source import Source

PREVIEW_CHARACTERS: Final = 240
"""How long the previews of arguments and results are at most."""


class CallReader:
    """Makes the ``Call`` of a row. ``now_ns`` is the time until which a row without an answer has waited."""

    def __init__(self, columns: Columns, source: Source) -> None:
        self._columns: Final = columns
        self._source: Final = source

    def line(self, line: int) -> bytes:
        """Return the bytes of a line of the recording."""
        return self._source.line_at(self._columns.line_offset[line])

    def record(self, line: int) -> Record:
        """Return the record on a line.

        Raises:
            TraceError: the line is not what it was when the index was made.
        """
        try:
            return decode(self.line(line))
        except NotARecordError as fault:
            path = self._source.trace.path
            raise TraceError(path, line + 1, str(fault), "the file was changed: open it again") from None

    def name(self, row: int) -> tuple[str, str | None]:
        """Return the method and target of a row, unescaped."""
        number = self._columns.name[row]
        if number != self._columns.unnamed:
            return self._columns.names[number]
        message = self._message(self._columns.first_line[row], self._columns.elements.get(row))
        method = message.get("method")
        return method if isinstance(method, str) else "", target_in(message)

    def call(self, row: int, now_ns: int) -> Call:
        """Return a row as a call."""
        columns = self._columns
        answer_line = columns.answer_line[row]
        kind, outcome = columns.kind_of(row), OUTCOMES[columns.outcome[row]]
        asked = self.record(columns.first_line[row])
        answered = self.record(answer_line) if answer_line else None
        method, target = self.name(row)
        code = columns.code[row]
        message = _single(asked, columns.elements.get(row)) if kind in (Kind.REQUEST, Kind.ANSWER) else {}
        id = message.get("id")
        latency_ns = columns.latency_ns[row]
        waits = kind in (Kind.REQUEST, Kind.EXCHANGE) and not answer_line
        return Call(
            number=row,
            kind=kind,
            frame=_seq(asked),
            answer=_seq(answered) if answered is not None else None,
            id="" if id is None else visible(preview(id, 60)),
            session=columns.session[row],
            sender=columns.sender_of(row),
            method=visible(method),
            target=None if target is None else visible(target),
            outcome=outcome,
            error_code=None if code == NO_CODE else code,
            started_ns=columns.started_ns[row],
            latency_ns=latency_ns if answer_line else None,
            waited_ns=(latency_ns if latency_ns >= 0 else max(now_ns - columns.started_ns[row], 0))
            if waits
            else None,
            request_bytes=columns.request_bytes[row],
            answer_bytes=columns.answer_bytes[row],
            arguments="" if kind is Kind.ANSWER else arguments_preview(asked, message, method),
            result=result_preview(asked, columns.elements.get(row))
            if kind is Kind.ANSWER
            else result_preview(answered, columns.answer_elements.get(row), method),
            findings=columns.findings[row],
            severity=SEVERITIES[columns.severity[row]],
            parent=columns.parent[row],
            exchange=getattr(asked, "exchange", 0),
        )

    def _message(self, line: int, element: int | None) -> dict[str, Any]:
        return _single(self.record(line), element)


def _single(record: object, element: int | None) -> dict[str, Any]:
    """Return the object that a message is; empty for everything else."""
    if not isinstance(record, Frame):
        return {}
    message = record.message
    if isinstance(message, Batch):
        message = message.items[element or 0]
    value = getattr(message, "value", None)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _seq(record: object) -> int:
    return getattr(record, "seq", 0)


def target_in(message: dict[str, Any]) -> str | None:
    """Return the tool, prompt or resource that a request names."""
    params = message.get("params")
    if not isinstance(params, dict):
        return None
    named = cast("dict[str, Any]", params).get(TARGETS.get(message.get("method", ""), ""))
    return named if isinstance(named, str) else None


def arguments_preview(record: object, message: dict[str, Any], method: str) -> str:
    """Return what a request, or an orphan, is about, on one line."""
    match record:
        case Frame():
            value = message or getattr(record.message, "value", None)
            if isinstance(value, dict):
                members = cast("dict[str, Any]", value)
                params = members.get("params", members.get("result", members.get("error")))
                if method in _WITH_ARGUMENTS and isinstance(params, dict):
                    params = cast("dict[str, Any]", params).get("arguments", {})
                elif isinstance(params, dict):
                    named = cast("dict[str, Any]", params)
                    if digest := arguments_digest(method, named):
                        return _cut(digest)
                    params = _without(named, TARGETS.get(method, ""))  # the row shows it already
                return _shown(cast("JSON", _without(params, "_meta"))) if params else ""
            return _text(record.raw)
        case RequestHead():
            return _cut(visible(record.target.partition("?")[2]))
        case Stderr(raw=raw):
            return _text(raw)
        case Lines(raws=raws):
            return _text(b"\n".join(raws[:PREVIEW_CHARACTERS]))
        case Gap(reason=reason):
            return _cut(visible(reason))
        case _:
            return ""


def result_preview(record: object, element: int | None = None, method: str = "") -> str:
    """Return what an answer to ``method`` says, on one line: the text of the content, or the message of the
    error."""
    if isinstance(record, ResponseHead):
        return _cut(visible(f"{record.status} {record.reason}".strip()))
    message = _single(record, element)
    if "result" not in message:
        error = message.get("error")
        if isinstance(error, dict) and isinstance(text := cast("dict[str, Any]", error).get("message"), str):
            return _cut(visible(text[: 2 * PREVIEW_CHARACTERS]))
        return "" if error is None else _shown(error)
    result = message["result"]
    if isinstance(result, dict) and (digest := result_digest(method, cast("dict[str, Any]", result))):
        return _cut(digest)
    if isinstance(result, dict) and isinstance(
        content := cast("dict[str, Any]", result).get("content"), list
    ):
        if text := content_preview(cast("list[Any]", content)):
            return text
        result = cast("dict[str, Any]", result).get("structuredContent", result)
    return _shown(_without(result, "_meta"))


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
            shown.append(visible(text[: 2 * PREVIEW_CHARACTERS]))
        else:
            kind, of = block.get("type"), block.get("mimeType")
            words = [word for word in (kind, of) if isinstance(word, str)]
            shown.append(f"[{visible(' '.join(words)[:80])}]")
        length += len(shown[-1])
        if length > PREVIEW_CHARACTERS:
            break
    return _cut(" ".join(shown))


_WITH_ARGUMENTS: Final = ("tools/call", "prompts/get")


def _without(value: Any, name: str) -> Any:
    """Return ``value`` without one of its members, if it is an object."""
    if not isinstance(value, dict):
        return value
    return {each: member for each, member in cast("dict[str, Any]", value).items() if each != name}


def _shown(value: JSON) -> str:
    return _cut(visible(preview(value, PREVIEW_CHARACTERS)))


def _text(raw: bytes) -> str:
    return _cut(visible(raw[: 4 * PREVIEW_CHARACTERS].decode("utf-8", "replace")))


def _cut(text: str) -> str:
    return text if len(text) <= PREVIEW_CHARACTERS else text[: PREVIEW_CHARACTERS - 1] + "…"
