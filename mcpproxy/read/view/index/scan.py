"""Make the index in one pass over a recording: lines in, rows out. Nothing is judged.

Each line is parsed once, and only numbers about it are kept. A usual record (a frame with one message) is
read from the parsed line directly; the decoder of the trace reads all other records.

Messages that are neither requests nor answers belong to a call if the traffic shows to which call:

- over HTTP, all messages in an exchange that one call opened belong to that call;
- progress belongs to the call with its token, and a cancellation to the call that it names;
- messages of a subscription belong to the request that opened the subscription;
- in ACP, updates and requests of an agent belong to the prompt that is open in their session;
- lines that a server on stdio wrote to stderr just after the answer of a failed call, and before the next
  message, belong to that call. Stdout and stderr are two pipes, so lines that the server wrote before its
  answer may be read after it;
- on stdio, everything else from the server belongs to the only open request of the client.

If two requests of the client are open, a log message may belong to either, so it is a row of its own.
"""

from collections.abc import Iterable
from typing import Any, Final, cast

import orjson

from mcpproxy.judge.session.frame import (
    CLIENT,
    NOT_DECODED,
    SERVER,
    Eof,
    FaultMark,
    Frame,
    Sender,
    Signal,
)
from mcpproxy.judge.session.outcomes import Kind, Outcome
from mcpproxy.protocol.jsonrpc import Batch
from mcpproxy.protocol.message_parts import leading_result_id
from mcpproxy.read.view.index.columns import KINDS, LARGEST, OUTCOMES, Columns
from mcpproxy.read.view.index.scan_exchanges import ExchangeScan, session_name
from mcpproxy.read.view.index.seen import FirstEnd, Seen
from mcpproxy.record.trace.decode import decode
from mcpproxy.record.trace.members import NotARecordError
from mcpproxy.record.trace.records import CloseRecord, Continued
from mcpproxy.record.trace.repeated_bodies import Shortened
from mcpproxy.record.trace.short_lines import Lines

LATE_STDERR_NS: Final = 50_000_000
"""How long after the error of a call lines on stderr still belong to the call."""

_MESSAGE: Final = b'"message":'
_AROUND_MESSAGE: Final = len(_MESSAGE) + len(b"}\n")

_NOT_A_MESSAGE: Final = KINDS.index(Kind.NOT_A_MESSAGE)
_STDERR: Final = KINDS.index(Kind.STDERR)
_GAP: Final = KINDS.index(Kind.GAP)
_UNANSWERED: Final = OUTCOMES.index(Outcome.UNANSWERED)


class Scan(ExchangeScan):
    """Reads lines into ``columns``.

    ``feed`` must be given every line of the recording once, the header first. In the other methods, ``at`` is
    the number of a line.
    """

    def __init__(self, columns: Columns) -> None:
        super().__init__(columns)
        self.end_offset = 0
        """The offset at which the next line begins."""
        self.finding_lines: Final[list[int]] = []
        """Lines of recorded findings."""
        self.odd_lines: Final[list[int]] = []
        """Lines whose frames are not recorded as JSON: as text, in base64, or many in one record."""
        self.missing_lines: Final[list[int]] = []
        """Lines about missing data: gaps, and notes about bodies that could not be read."""
        self.frames: Final[dict[Sender, int]] = {CLIENT: 0, SERVER: 0}
        self.first_end: FirstEnd | None = None
        """The first end of a stream, or the first signal to mcpproxy; ``None`` if there was none."""
        self.last: CloseRecord | Continued | None = None
        """The record that ends the recording, or the latest that names its next file."""
        self._pieces: Final[dict[tuple[int, bool], int]] = {}
        """(Exchange, whether the client sent it) -> row of a message whose last piece has not been read."""
        self._rows_of_faults: Final[dict[int, tuple[int, Sender]]] = {}
        """Number of a fault -> the row of the message to which it was applied, and the sender of that.

        A fault is what mcpproxy did to a message because the user asked for it.
        """
        self._stderr_row = 0
        """The row of the last lines on stderr that belong to no call."""

    def feed(self, lines: Iterable[bytes]) -> int:
        """Add the next lines, and return their number.

        Raises:
            NotARecordError: a line is not a record. The lines before it are in the columns.
        """
        columns = self.columns
        before = columns.lines
        put_offset, put_row = columns.line_offset.append, columns.line_row.append
        for line in lines:
            try:
                row = self._add_line(line, len(columns.line_row))
            except (KeyError, TypeError, AttributeError, OverflowError, orjson.JSONDecodeError):
                decode(line)  # raises an error that names the fault
                raise NotARecordError("a record with a number that is too large") from None
            put_offset(self.end_offset)
            put_row(row)
            self.end_offset += len(line)
        return columns.lines - before

    def _add_line(self, line: bytes, at: int) -> int:
        """Add one line, whose number is ``at``.

        Return the row that it belongs to; 0 if it belongs to none. ``feed`` handles the errors.
        """
        try:
            members: dict[str, Any] = orjson.loads(line)
            kind = members["type"]
        except (orjson.JSONDecodeError, TypeError, KeyError):
            if line.isspace():
                return 0
            return self._add_frame(decode(line), at)
        if type(members.get("t", 0)) is not int:
            raise TypeError("a time that is no number")  # ``feed`` raises the final error
        if kind == "frame":
            message = members.get("message")
            is_whole = "continues" not in members and "eol" not in members
            if type(message) is not dict or not is_whole or "fault" in members or self._pieces:
                if message is None:
                    self.odd_lines.append(at)
                return self._add_frame(decode(line), at)
            client, at_ns, seq = members["from"] == CLIENT, members["t"], members["seq"]
            columns = self.columns
            if seq == len(columns.line_of_seq):
                columns.line_of_seq.append(at)
            else:
                columns.put_seq(seq, at)
            self.frames[CLIENT if client else SERVER] += 1
            self.last_ns = at_ns
            size = len(line) - line.find(_MESSAGE) - _AROUND_MESSAGE
            exchange = self._exchange_of(members) if "exchange" in members else None
            by_us = "by" in members or "refused" in members
            seen = Seen(client, at, at_ns, size, exchange, by_us)
            row = self._add_message(cast("dict[str, Any]", message), seen, line)
            if exchange is None:
                return row
            if (event := members.get("event")) and event["id"] is not None:
                exchange.resumable = True
            return self._row_in_exchange(exchange, row, at, client=client)
        return self._add_other_record(kind, members, line, at)

    # Frames of unusual form

    def _add_frame(self, frame: object, at: int) -> int:
        """Add a frame that the decoder has read, such as a batch, a text, or a piece of a message.

        Return its row; 0 if it has none, or if ``frame`` is no frame.
        """
        frame = frame.frame if isinstance(frame, Shortened) else frame
        if not isinstance(frame, Frame):
            return 0
        self.columns.put_seq(frame.seq, at)
        self.frames[frame.sender] += 1
        self.last_ns = frame.observed_at_ns
        client, message, exchange = frame.sender == CLIENT, frame.message, None
        if frame.exchange:
            exchange = self._exchanges.get(frame.exchange) or self._open_exchange(frame.exchange)
            exchange.resumable |= frame.event is not None and frame.event.id is not None
            if frame.event is not None and frame.event.name == "endpoint":
                self._is_http_sse = True
                self._name_session(exchange, self._session_number(session_name(frame)))
        by_us = frame.by_proxy or frame.refused
        seen = Seen(client, at, frame.observed_at_ns, len(frame.raw), exchange, by_us)
        place = (frame.exchange, client)
        if by_us and (fault := frame.fault) is not None and not self._is_our_answer(frame, fault):
            row, _ = self._rows_of_faults.get(fault.number, (0, frame.sender))
        elif frame.continues or place in self._pieces:
            row = self._add_piece(frame, seen, place)
        elif frame.is_undelivered:
            row = self._add_orphan(_NOT_A_MESSAGE, seen)
        elif isinstance(message, Batch):
            row = self._add_batch(message, frame.raw, seen)
        else:
            row = self._add_value(getattr(message, "value", None), seen, frame.raw)
        if frame.fault is not None and not by_us:
            self._rows_of_faults[frame.fault.number] = row, frame.sender
        if frame.fault is not None and row:
            self.columns.faults.setdefault(row, []).append(at)
            self.touch(row)
        return row if exchange is None else self._row_in_exchange(exchange, row, at, client=client)

    def _is_our_answer(self, frame: Frame, fault: FaultMark) -> bool:
        """Whether a frame by mcpproxy answers a request that still waits for an answer."""
        row, sender = self._rows_of_faults.get(fault.number, (0, frame.sender))
        is_of_request = self.columns.kind_of(row) is Kind.REQUEST and self.columns.sender_of(row) == sender
        return is_of_request and self.columns.outcome[row] == _UNANSWERED and frame.answers_instead(sender)

    def _add_value(self, value: object, seen: Seen, raw: bytes) -> int:
        """Add the JSON value of a frame. If it is not an object, the frame is not a message."""
        if isinstance(value, dict):
            return self._add_message(cast("dict[str, Any]", value), seen, raw)
        return self._add_orphan(_NOT_A_MESSAGE, seen)

    def _add_piece(self, frame: Frame, seen: Seen, place: tuple[int, bool]) -> int:
        """Add a piece of a message that is too long for one record; all pieces belong to one row."""
        if row := self._pieces.get(place, 0):
            columns = self.columns
            is_answer = columns.kind_of(row) is Kind.REQUEST
            sizes = columns.answer_bytes if is_answer else columns.request_bytes
            sizes[row] = min(sizes[row] + seen.size, LARGEST)
            self.touch(row)
        elif (id := leading_result_id(frame.raw)) is not None:
            row = self._add_answer({"result": None}, id, seen)
        else:
            if seen.exchange is not None and not seen.client:
                seen.exchange.is_unread = True
            row = self._add_orphan(_NOT_A_MESSAGE, seen)
        if frame.continues:
            self._pieces[place] = row
        else:
            self._pieces.pop(place, None)
        return row

    def _add_batch(self, batch: Batch, text: bytes, seen: Seen) -> int:
        """Add each message of a batch. The line belongs to the row of the first message."""
        from mcpproxy.protocol.raw_json import elements  # imported here: few recordings have batches

        first, columns = 0, self.columns
        for index, (item, raw) in enumerate(zip(batch.items, elements(text), strict=True)):
            before = columns.rows
            item_seen = Seen(seen.client, seen.line, seen.at_ns, len(raw), seen.exchange, seen.by_us)
            row = self._add_value(getattr(item, "value", None), item_seen, raw)
            if row > before:
                columns.elements[row] = index
            elif columns.answer_line[row] == seen.line:
                columns.answer_elements[row] = index
            first = first or row
        return first

    # Records other than frames

    def _add_other_record(self, kind: object, members: dict[str, Any], line: bytes, at: int) -> int:
        match kind:
            case "finding":
                self.finding_lines.append(at)
            case "request":
                return self._add_request_head(members, line, at)
            case "response":
                return self._add_response_head(members, line, at)
            case "end":
                return self._end_exchange(members, at)
            case "encoded":
                exchange = self._exchanges.get(members["exchange"])
                return self._row_in_exchange(exchange, exchange.row, at, client=True) if exchange else 0
            case "stderr":
                return self._add_stderr(members["t"], len(line), at)
            case "lines":
                return self._add_short_lines(decode(line), at)
            case "gap":
                self.missing_lines.append(at)
                if "exchange" in members:
                    return self._mark_unreadable(members["exchange"], at)
                return self._add_orphan(_GAP, Seen(True, at, members["t"], 0))
            case "close" | "continued":
                record = decode(line)
                if isinstance(record, CloseRecord | Continued):
                    self.last = record
                self.last_ns = members["t"]
            case "note":
                self.last_ns = members.get("t", self.last_ns)
                if members["what"] == NOT_DECODED:
                    self.missing_lines.append(at)
                    return self._mark_unreadable(members.get("exchange", 0), at)
            case "eof" | "signal":
                self.last_ns = members.get("t", self.last_ns)
                record = decode(line)
                if isinstance(record, Eof | Signal) and self.first_end is None:
                    by = record.sender if isinstance(record, Eof) else record.name
                    self.first_end = FirstEnd(by, record.observed_at_ns)
            case "header" | "opaque":
                self.last_ns = members.get("t", self.last_ns)
            case _:
                decode(line)
        return 0

    def _add_stderr(self, at_ns: int, size: int, at: int) -> int:
        self.last_ns = at_ns
        if row := self._just_failed_row(at_ns):
            self.touch(row)
            return row
        if row := self._certain_parent(None, self._session_number("")):
            return row
        if self._stderr_row and self._stderr_row == self.columns.rows:  # no row was added since
            sizes = self.columns.request_bytes
            sizes[self._stderr_row] = min(sizes[self._stderr_row] + size, LARGEST)
            self.touch(self._stderr_row)
        else:
            self._stderr_row = self._add_orphan(_STDERR, Seen(False, at, at_ns, size))
        return self._stderr_row

    def _just_failed_row(self, at_ns: int) -> int:
        """Return the row of the call whose error came just before ``at_ns``, as the last message; else 0."""
        row, columns = self._just_failed, self.columns
        answered_ns = columns.started_ns[row] + columns.latency_ns[row]
        return row if at_ns - answered_ns <= LATE_STDERR_NS else 0

    def _add_short_lines(self, run: object, at: int) -> int:
        """Add a record of many lines, too short for messages or of stderr; return its row, or 0."""
        if not isinstance(run, Lines):
            return 0
        size = sum(map(len, run.raws))
        if run.source == "stderr":
            return self._add_stderr(run.at_ns, size, at)
        self.odd_lines.append(at)
        for seq in range(run.seq, run.seq + len(run.raws)):
            self.columns.put_seq(seq, at)
        self.frames[run.source] += len(run.raws)
        self.last_ns = run.at_ns
        return self._add_orphan(_NOT_A_MESSAGE, Seen(run.source == CLIENT, at, run.at_ns, size))
