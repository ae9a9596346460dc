"""Find output on stdio that is no message and came instead of the answer to a request, or before it.

A row is a call, or a record that is not part of one. If a message is printed over several lines, each line is
a row of its own and no message. Here these lines are joined into one part again.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from mcpproxy.judge.session.frame import Frame
from mcpproxy.judge.session.outcomes import Kind
from mcpproxy.judge.session.pretty_printed import SplitMessage
from mcpproxy.protocol.jsontext import unclosed
from mcpproxy.read.view.calls import Part
from mcpproxy.read.view.details import CallParts, frame_summary
from mcpproxy.read.view.index.columns import FROM_SERVER, KINDS, Columns

_NEAR_ROWS: Final = 16
"""How many rows after the request are searched; a message over several lines counts as one."""
_MOST_ROWS: Final = 4096
_MOST_ATTEMPTS: Final = 4
"""How many rows are read for one call to join lines, and how often joined lines are parsed."""
_MOST_SEARCHED_BYTES: Final = 64 << 10
"""How many bytes of output are searched for an id."""
_NOT_A_MESSAGE: Final = KINDS.index(Kind.NOT_A_MESSAGE)


def stray_output(columns: Columns, parts: CallParts, row: int, id: str) -> Part | None:
    """Return the first output without a message that the receiver of the request in ``row`` wrote after it.

    Output that came after the answer, or after the cancellation of the request, does not count. Output that
    names the ``id`` of the request precedes any other, which may be a log. Lines that together form one JSON
    value are joined into one part, and ``lines`` is their number. Return ``None`` if there is no such output.
    """
    kind = _NOT_A_MESSAGE | (~columns.kind[row] & FROM_SERVER)
    is_before = _before_end_of_call(columns, row)
    first_output: Part | None = None
    number, rows_left = row + 1, _MOST_ROWS
    for _ in range(_NEAR_ROWS):
        if number >= len(columns.kind):
            break
        if columns.kind[number] != kind or not is_before(number):
            number += 1
            continue
        first = parts.first(number)
        joined, end = _join_lines(columns, parts, number, number + rows_left)
        rows_left -= end - number
        number = end if joined else number + 1
        part = joined or first
        if isinstance(part.record, Frame) and names_id(part.record.raw, id):
            return part
        first_output = first_output or part
    return first_output


def names_id(raw: bytes, id: str) -> bool:
    """Whether a member ``id`` in the beginning of these bytes has the value whose JSON is ``id``."""
    pattern = rb'"id"\s*:\s*%b(?![\w.])' % re.escape(id.encode())
    return bool(id) and re.compile(pattern).search(raw, 0, _MOST_SEARCHED_BYTES) is not None


def _before_end_of_call(columns: Columns, row: int) -> Callable[[int], bool]:
    """Return a function that tells whether a row began before the end of the call in ``row``."""
    if answer := columns.answer_line[row]:
        return lambda number: columns.first_line[number] < answer
    if (took_ns := columns.latency_ns[row]) >= 0:
        until_ns = columns.started_ns[row] + took_ns
        return lambda number: columns.started_ns[number] <= until_ns
    return lambda _: True


def _join_lines(columns: Columns, parts: CallParts, row: int, end: int) -> tuple[Part | None, int]:
    """Return the JSON value that begins in ``row`` and continues in the next rows, and the next unread row.

    That row is at most ``end``. The value is ``None`` if none begins in ``row``. A value that does not end is
    returned only if it begins like a message.
    """
    kind, held = columns.kind[row], SplitMessage()
    begin: Part | None = None
    indent = 0  # of the first line
    number = row
    while number < min(end, len(columns.kind)):
        is_other_peer = bool((columns.kind[number] ^ kind) & FROM_SERVER)
        if columns.kind[number] != kind and not is_other_peer:
            break
        for part in () if is_other_peer else parts.begin(number):
            frame = part.record
            if not isinstance(frame, Frame):
                continue
            if not held.hold(frame):
                if begin is not None:
                    return _unfinished_part(begin, held), number
                continue
            if begin is None:
                begin, indent = part, _indent(frame.raw)
            is_closed = held.attempts < _MOST_ATTEMPTS and _indent(frame.raw) == indent
            if is_closed and held.whole() is not None:
                return _joined_part(begin, held), number + 1
        number += 1
        if begin is None:
            break
    return begin and _unfinished_part(begin, held), number


def _unfinished_part(begin: Part, held: SplitMessage) -> Part | None:
    """Return the held lines as one part; ``None`` unless they look like the beginning of a message."""
    text = b"\n".join(frame.raw for frame in held.frames)
    is_begun = len(held.frames) > 1 and b'"jsonrpc"' in text and unclosed(text)
    return _joined_part(begin, held) if is_begun else None


def _joined_part(begin: Part, held: SplitMessage) -> Part:
    first, *_, last = frames = held.frames
    raw = b"\n".join(frame.raw for frame in frames)
    frame = replace(first, raw=raw, terminated=last.terminated)
    return replace(begin, record=frame, summary=frame_summary(frame), lines=len(frames))


def _indent(raw: bytes) -> int:
    return len(raw) - len(raw.lstrip())
