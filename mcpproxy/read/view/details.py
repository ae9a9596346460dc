"""Find the records that belong to a call, each with its role.

A row is a call, which is a request with its answer, or a record that is not part of a request.
"""

import re
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any, Final, cast

from mcpproxy.base.style import count
from mcpproxy.base.telling_line import telling_line
from mcpproxy.judge.session.exchanges import Fields
from mcpproxy.judge.session.frame import (
    ExchangeEnd,
    Frame,
    Gap,
    Note,
    RequestHead,
    ResponseHead,
    Stderr,
)  # fmt: skip
from mcpproxy.judge.session.outcomes import Kind
from mcpproxy.protocol.jsonrpc import (
    Batch,
    ErrorResponse,
    Malformed,
    Message,
    Notification,
    Request,
    Response,
    Single,
)
from mcpproxy.protocol.message_parts import singles
from mcpproxy.read.view.call_reader import CallReader, arguments_preview, result_preview, shortened
from mcpproxy.read.view.calls import Call, Part, Role
from mcpproxy.read.view.index.columns import Columns
from mcpproxy.read.view.interventions import MOST_FRAMES, given_instead, interventions
from mcpproxy.record.trace.records import Record
from mcpproxy.record.trace.short_lines import Lines

_PROGRESS: Final = "notifications/progress"
_NOTIFICATION_ROLES: Final = {
    _PROGRESS: Role.PROGRESS,
    "notifications/message": Role.LOG,
    "notifications/cancelled": Role.CANCEL,
    "$/cancel_request": Role.CANCEL,
    "session/cancel": Role.CANCEL,
}


_LINES_BEFORE: Final = 4096
"""How many lines before a row's first line are searched: the head of its HTTP request comes earlier."""

_NEAR_LINES: Final = 1 << 14
_LATEST: Final = 200
"""For a row in a list, ``_NEAR_LINES`` lines are searched for a call's records, and the last ``_LATEST`` of
them are read. There can be many: if a tool fails, the SDK for Python logs 50 lines after the tool's own
error."""

_LATE_LINES: Final = 256
"""How many lines after an answer are searched for lines on stderr that belong to its call."""


class CallParts:
    """Finds the records of calls, each with its role. The columns are searched for each call."""

    def __init__(self, columns: Columns, reader: CallReader) -> None:
        self._columns: Final = columns
        self._reader: Final = reader

    def inner_rows(self, row: int) -> list[int]:
        """Return the rows of the requests and updates that were sent during a call, which come after it."""
        return places(self._columns.parent, row, row)

    def parts(self, row: int, inner: list[int], limit: int | None, known: str = "") -> tuple[list[Part], int]:
        """Return the parts that belong to ``row`` or to one of the rows ``inner``, in order.

        If there are more than ``limit``, those in the middle are left out; the second value counts these
        lines and parts. With ``None`` all are returned.
        ``known`` is the text of the result, which summaries of stderr do not repeat.
        """
        start = max(self._columns.first_line[row] - _LINES_BEFORE, 0)
        lines = sorted(line for number in (row, *inner) for line in self._lines_of_row(number, start))
        left_out = _leave_out_middle(lines, limit)
        parts = [part for line in lines for part in self._parts_on_line(row, line)]
        left_out += _leave_out_middle(parts, limit)  # a line has many parts if it is a run of short lines
        if not left_out:
            return list(_join_stderr(parts, known)), 0
        half = (limit or 0) // 2  # lines before and after what was left out are not successive
        return [*_join_stderr(parts[:half], known), *_join_stderr(parts[half:], known)], left_out

    def latest(self, row: int) -> list[Part]:
        """Return the last records of a row near its answer, or near its request if there is no answer.

        Request and answer themselves are left out. The time does not depend on the length of the recording.
        """
        begin, answer = self._columns.first_line[row] + 1, self._columns.answer_line[row]
        if answer:
            end = answer + _LATE_LINES
            begin = max(begin, end - _NEAR_LINES)
        else:
            end = begin + _NEAR_LINES
        near = _places_in_short_column(self._columns.line_row[begin:end], row)
        lines = [begin + place for place in near if begin + place != answer]
        return [part for line in lines[-_LATEST:] for part in self._parts_on_line(row, line)]

    def stderr(self, row: int) -> tuple[Part, int]:
        """Return the last lines of a row of stderr as one part, and the number of records before them."""
        begin, columns = self._columns.first_line[row], self._columns
        end = columns.first_line[row + 1] if row < columns.rows else columns.lines
        lines = [begin + place for place in _places_in_short_column(columns.line_row[begin:end], row)]
        parts = [part for line in lines[-_LATEST:] for part in self._parts_on_line(row, line)]
        (part,) = _join_stderr(parts, "")
        return part, max(len(lines) - _LATEST, 0)

    def answer(self, row: int) -> list[Part]:
        """Return the record that holds the answer to a row that has one."""
        return list(self._parts_on_line(row, self._columns.answer_line[row]))

    def begin(self, row: int) -> Iterator[Part]:
        """Yield the first record of a row; a record of several short lines gives a part for each."""
        return self._parts_on_line(row, self._columns.first_line[row])

    def first(self, row: int) -> Part:
        """Return the first record of a row, or the first line of a record of several short lines."""
        return next(self.begin(row))

    def _lines_of_row(self, row: int, start: int) -> list[int]:
        return places(self._columns.line_row, row, start)

    def _parts_on_line(self, row: int, line: int) -> Iterator[Part]:
        record = self._reader.record(line)
        for event in record.events() if isinstance(record, Lines) else (record,):
            yield from _parts_of_record(self._columns, row, line, event)


class SortedCallParts(CallParts):
    """Finds the records of very many calls: the columns are sorted once."""

    def __init__(self, columns: Columns, reader: CallReader) -> None:
        super().__init__(columns, reader)
        self._sorted_lines: Final = _SortedColumn(columns.line_row)
        self._sorted_parents: Final = _SortedColumn(columns.parent)

    def inner_rows(self, row: int) -> list[int]:
        """Return the rows of the requests and updates that were sent during a call."""
        return self._sorted_parents.places(row)

    def _lines_of_row(self, row: int, start: int) -> list[int]:
        return [line for line in self._sorted_lines.places(row) if line >= start]


class _SortedColumn:
    """The values of a column in order, and the position of each in the column."""

    def __init__(self, column: "array[int]") -> None:
        self._positions: Final = array("I", sorted(range(len(column)), key=column.__getitem__))
        self._values: Final = array("I", map(column.__getitem__, self._positions))

    def places(self, value: int) -> list[int]:
        """Return the positions of ``value`` in the column."""
        first = bisect_left(self._values, value)
        return self._positions[first : bisect_right(self._values, value, first)].tolist()


def places(column: "array[int]", value: int, start: int = 0) -> list[int]:
    """Return the positions of ``value`` in a column, from ``start`` on.

    A search of its bytes takes a twentieth of the time of ``array.index``.
    """
    size = column.itemsize
    search = re.compile(re.escape(value.to_bytes(size, sys.byteorder))).search
    positions: list[int] = []
    with memoryview(column) as view, view.cast("B") as data:
        offset = start * size
        while match := search(data, offset):
            position, remainder = divmod(match.start(), size)
            if remainder:  # the bytes are those of two neighbouring values
                offset = match.start() + 1
            else:
                positions.append(position)
                offset = match.end()
    return positions


def _places_in_short_column(column: "array[int]", value: int) -> list[int]:
    """Return the positions of ``value`` in a short column, for which compiling a pattern takes too long."""
    size, data = column.itemsize, column.tobytes()
    wanted = value.to_bytes(size, sys.byteorder)
    positions: list[int] = []
    offset = data.find(wanted)
    while offset >= 0:
        position, remainder = divmod(offset, size)
        if not remainder:
            positions.append(position)
        offset = data.find(wanted, offset + (1 if remainder else size))
    return positions


def _join_stderr(parts: Iterable[Part], known: str) -> Iterator[Part]:
    """Yield the parts, but successive lines on stderr as one, whose summary does not repeat ``known``."""
    for is_stderr, run in groupby(parts, lambda part: isinstance(part.record, Stderr)):
        same = list(run)
        if not is_stderr or len(same) == 1:
            yield from same
            continue
        raw = b"\n".join(part.record.raw for part in same if isinstance(part.record, Stderr))
        texts = [part.summary for part in same]
        record = Stderr(raw, same[0].at_ns)
        yield replace(same[0], record=record, summary=telling_line(texts, known=known), lines=len(same))


def progress_of(columns: Columns, reader: CallReader, row: int) -> str:
    """Return the text of the last progress notification of a row: ``1 of 2, model 1``; empty without one."""
    line = columns.progress[row]
    record = reader.record(line) if line else None
    return _progress_words(record.message) if isinstance(record, Frame) else ""


def _progress_words(message: Message) -> str:
    """Return the progress in a progress notification; empty for any other message."""
    if not isinstance(message, Notification) or message.method != _PROGRESS:
        return ""
    params = message.params
    if not isinstance(params, dict):
        return ""
    done = " of ".join(str(params[name]) for name in ("progress", "total") if name in params)
    return shortened(", ".join(filter(None, (done, str(params.get("message", ""))))))


def with_telling_line(call: Call, last: Part, left_out: int) -> Call:
    """Return a row of stderr that shows its most telling line, and before it how many lines there are.

    A row of a single line is returned as it is. ``last`` are its last lines; each of the ``left_out`` records
    before them has at least one.
    """
    if last.lines + left_out == 1:
        return call
    number = f"{'at least ' if left_out else ''}{count(last.lines + left_out, 'line')}"
    return replace(call, arguments=shortened(f"({number}) {last.summary}"))


def with_intervention(columns: Columns, reader: CallReader, call: Call, *, is_running: bool) -> Call:
    """Return a call with what mcpproxy did to its messages, and with the result that the caller got.

    The result is that of ``call``, unless mcpproxy gave the caller another one.
    """
    records = [reader.record(line) for line in columns.faults.get(call.number, ())[:MOST_FRAMES]]
    frames = [record for record in records if isinstance(record, Frame)]
    call = replace(call, intervention=interventions(frames, call.sender, is_running=is_running))
    given = given_instead(frames, call.answer)
    if given is None or call.number in columns.answer_elements:  # an edited batch may have other elements
        return call
    return replace(call, result=result_preview(given, None, call.method) or frame_summary(given))


def _leave_out_middle(items: "list[int] | list[Part]", limit: int | None) -> int:
    """Shorten a list to ``limit`` items by removing those in the middle; return how many were removed."""
    if limit is None or len(items) <= limit:
        return 0
    left_out = len(items) - limit
    del items[limit // 2 : limit // 2 + left_out]
    return left_out


def _parts_of_record(columns: Columns, row: int, line: int, record: Record) -> Iterator[Part]:
    """Yield a record of ``row``, or of an inner request, as a part; nothing if its type is not shown."""
    owner = columns.line_row[line]
    is_inner = owner != row
    match record:
        case Frame():
            role = _frame_role(columns, record, line, owner, is_inner=is_inner)
            yield Part(role, record.seq, record.observed_at_ns, owner, record, frame_summary(record))
        case RequestHead():
            words = shortened(f"{record.method} {record.target}")
            yield Part(Role.HTTP_REQUEST, record.seq, record.observed_at_ns, owner, record, words)
        case ResponseHead():
            words = shortened(f"{record.status} {record.reason}".strip())
            if Fields(record.headers).is_event_stream:
                words += ", event stream"
            yield Part(Role.HTTP_RESPONSE, record.seq, record.observed_at_ns, owner, record, words)
        case ExchangeEnd(cut=cut, by=by, observed_at_ns=at_ns):
            words = f"cut short by the {by}" if cut and by else "cut short" if cut else "the end"
            yield Part(Role.HTTP_END, None, at_ns, owner, record, words)
        case Stderr(observed_at_ns=at_ns):
            yield Part(Role.LOG, None, at_ns, owner, record, arguments_preview(record, {}, ""))
        case Gap(reason=reason, observed_at_ns=at_ns) | Note(why=reason, observed_at_ns=at_ns):
            yield Part(Role.OTHER, None, at_ns, owner, record, shortened(reason))
        case _:
            pass


def _frame_role(columns: Columns, frame: Frame, line: int, owner: int, *, is_inner: bool) -> Role:
    if line == columns.answer_line[owner]:
        return Role.INNER_ANSWER if is_inner else Role.ANSWER
    if frame.by_proxy and frame.fault is not None:
        return Role.GIVEN
    if line == columns.first_line[owner]:
        if columns.kind_of(owner) is not Kind.REQUEST:
            return Role.MESSAGE
        return Role.INNER_REQUEST if is_inner else Role.REQUEST
    if frame.is_unfinished_event:
        return Role.CUT_EVENT
    message = frame.message
    if isinstance(message, Notification):
        return _NOTIFICATION_ROLES.get(message.method, Role.MESSAGE)
    if not isinstance(message, Malformed):
        return Role.MESSAGE
    return Role.BODY if frame.exchange and not frame.event else Role.OTHER


def frame_summary(frame: Frame) -> str:
    """Return the content of a frame on one line."""
    messages = singles(frame.message)
    return f"batch of {len(messages)}" if isinstance(frame.message, Batch) else _summary_of(frame, *messages)


def _summary_of(frame: Frame, message: Single) -> str:
    match message:
        case Notification(method=method) if words := _progress_words(message):
            return f"{method} {words}"
        case Request(method=method, value=value) | Notification(method=method, value=value):
            arguments = arguments_preview(frame, cast("dict[str, Any]", value), method)
            return f"{shortened(method)} {arguments}".strip()
        case Response() | ErrorResponse():
            return result_preview(frame)
        case Malformed():
            return arguments_preview(frame, {}, "")
