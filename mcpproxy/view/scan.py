"""The one pass over a recording that makes the index: lines in, rows out. It judges nothing.

Each line is parsed once, and nothing but numbers is kept of it. A usual record (a frame with one message) is
read from the parsed line as it is; every other one goes through the decoder of the trace.

What belongs to which call, as far as the wire shows it:

- over HTTP, what an exchange carried, to the call that opened it;
- progress, to the call with its token; a cancellation, to the call that it names;
- what a subscription delivers, to the request that opened it;
- in ACP, the updates and requests of an agent, to the prompt that is open in their session;
- on stdio, whatever else the server sends while exactly one request of the client is open.

With two open requests nobody knows which of them a log message belongs to, so it is a row of its own.
"""

from collections.abc import Iterable
from typing import Any, Final, cast

import orjson

from mcpproxy.base.patterns import pattern
from mcpproxy.protocol.jsonrpc import Batch, RequestId
from mcpproxy.protocol.raw_json import elements
from mcpproxy.session.frame import CLIENT, SERVER, Frame, Sender
from mcpproxy.trace.decode import decode
from mcpproxy.trace.members import NotARecordError
from mcpproxy.trace.records import CloseRecord, Continued
from mcpproxy.trace.session_labels import SessionNames
from mcpproxy.trace.short_lines import Lines
from mcpproxy.view.calls import Kind, Outcome
from mcpproxy.view.columns import FROM_SERVER, KINDS, LARGEST, OUTCOMES, Columns
from mcpproxy.view.exchange_state import ExchangeState
from mcpproxy.view.scan_messages import MessageScan, Seen

_MESSAGE: Final = b'"message":'
_AROUND_MESSAGE: Final = len(_MESSAGE) + len(b"}\n")

_NOT_A_MESSAGE: Final = KINDS.index(Kind.NOT_A_MESSAGE)
_EXCHANGE: Final = KINDS.index(Kind.EXCHANGE)
_STDERR: Final = KINDS.index(Kind.STDERR)
_GAP: Final = KINDS.index(Kind.GAP)
_OK: Final = OUTCOMES.index(Outcome.OK)
_HTTP_ERROR: Final = OUTCOMES.index(Outcome.HTTP_ERROR)
_NO_ANSWER: Final = OUTCOMES.index(Outcome.NO_ANSWER)
_REFUSED: Final = OUTCOMES.index(Outcome.REFUSED)

_LEADING_ID: Final = pattern(
    rb'\s*+\{\s*+(?:"jsonrpc"\s*+:\s*+"2\.0"\s*+,\s*+)?"id"\s*+:\s*+(-?\d{1,18}|"[^"\\]{0,200}")\s*+,\s*+"result"'
)
"""The beginning of a result whose id comes first."""


class Scan(MessageScan):
    """Reads lines into ``columns``. Feed it every line of the recording once, the header first."""

    def __init__(self, columns: Columns) -> None:
        super().__init__(columns)
        self.end_offset = 0
        """Where the next line begins."""
        self.finding_lines: Final[list[int]] = []
        self.odd_lines: Final[list[int]] = []
        """Lines of frames that are not embedded as they were: as text, in base64, many in one record."""
        self.gap_lines: Final[list[int]] = []
        self.frames: Final[dict[Sender, int]] = {CLIENT: 0, SERVER: 0}
        self.last: CloseRecord | Continued | None = None
        self._exchanges: Final[dict[int, ExchangeState]] = {}
        self._pieces: Final[dict[tuple[int, bool], int]] = {}
        """The row of a message that is recorded in pieces, by exchange and side."""
        self._stderr_row = 0

    def feed(self, lines: Iterable[bytes]) -> int:
        """Take the next lines and return their number.

        Raises:
            NotARecordError: a line is not a record. The lines before it are in the columns.
        """
        columns = self.columns
        before = columns.lines
        put_offset, put_row = columns.line_offset.append, columns.line_row.append
        for line in lines:
            try:
                row = self._line(line, len(columns.line_row))
            except (KeyError, TypeError, OverflowError, orjson.JSONDecodeError):
                decode(line)  # says what is wrong
                raise NotARecordError("a record with a number that is too large") from None
            put_offset(self.end_offset)
            put_row(row)
            self.end_offset += len(line)
        return columns.lines - before

    def _line(self, line: bytes, at: int) -> int:
        """Take one line and return the row that it belongs to, 0 if it belongs to none."""
        try:
            members: dict[str, Any] = orjson.loads(line)
            kind = members["type"]
        except (orjson.JSONDecodeError, TypeError, KeyError):
            if line.isspace():
                return 0
            return self._frame_object(decode(line), at)
        if kind == "frame":
            message = members.get("message")
            if type(message) is not dict or "continues" in members:
                if message is None:
                    self.odd_lines.append(at)
                return self._frame_object(decode(line), at)
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
            row = self._message(cast("dict[str, Any]", message), seen, line)
            return row if exchange is None else self._in_exchange(exchange, row, at, client=client)
        return self._other(kind, members, line, at)

    # Frames of unusual form

    def _frame_object(self, frame: object, at: int) -> int:
        """Take a frame that the trace's decoder has read: a batch, a text, a piece of a message."""
        if not isinstance(frame, Frame):
            return 0
        self.columns.put_seq(frame.seq, at)
        self.frames[frame.sender] += 1
        self.last_ns = frame.observed_at_ns
        client, message, exchange = frame.sender == CLIENT, frame.message, None
        if frame.exchange:
            exchange = self._exchanges.get(frame.exchange) or self._open_exchange(frame.exchange)
            if frame.event is not None and frame.event.name == "endpoint":
                self._name_session(exchange, self._session(SessionNames().of(frame)))
        by_us = frame.by_proxy or frame.refused
        seen = Seen(client, at, frame.observed_at_ns, len(frame.raw), exchange, by_us)
        place = (frame.exchange, client)
        if frame.continues or place in self._pieces:
            row = self._piece(frame, seen, place)
        elif isinstance(message, Batch):
            row = self._batch(message, frame.raw, seen)
        else:
            row = self._value(getattr(message, "value", None), seen, frame.raw)
        return row if exchange is None else self._in_exchange(exchange, row, at, client=client)

    def _value(self, value: object, seen: Seen, raw: bytes) -> int:
        """Take the JSON value of a message, or of what is none."""
        if isinstance(value, dict):
            return self._message(cast("dict[str, Any]", value), seen, raw)
        return self._orphan(_NOT_A_MESSAGE, seen)

    def _piece(self, frame: Frame, seen: Seen, place: tuple[int, bool]) -> int:
        """Take a piece of a message that is too long to be judged; all pieces belong to one row."""
        if row := self._pieces.get(place, 0):
            columns = self.columns
            is_answer = columns.kind_of(row) is Kind.REQUEST
            sizes = columns.answer_bytes if is_answer else columns.request_bytes
            sizes[row] = min(sizes[row] + seen.size, LARGEST)
            self.touch(row)
        elif found := _LEADING_ID.match(frame.raw):
            # An answer usually begins with its id. Without it, its request would seem to have no answer.
            id = cast("RequestId", orjson.loads(found[1]))
            row = self._answer({"result": None}, id, seen)
        else:
            row = self._orphan(_NOT_A_MESSAGE, seen)
        if frame.continues:
            self._pieces[place] = row
        else:
            self._pieces.pop(place, None)
        return row

    def _batch(self, batch: Batch, text: bytes, seen: Seen) -> int:
        """Take each message of a batch; the line belongs to the row of the first."""
        first, columns = 0, self.columns
        for index, (item, raw) in enumerate(zip(batch.items, elements(text), strict=True)):
            before = columns.rows
            each = Seen(seen.client, seen.line, seen.at_ns, len(raw), seen.exchange, seen.by_us)
            row = self._value(getattr(item, "value", None), each, raw)
            if row > before:
                columns.elements[row] = index
            elif columns.answer_line[row] == seen.line:
                columns.answer_elements[row] = index
            first = first or row
        return first

    # Records other than frames

    def _other(self, kind: object, members: dict[str, Any], line: bytes, at: int) -> int:
        match kind:
            case "finding":
                self.finding_lines.append(at)
            case "request":
                return self._request_head(members, line, at)
            case "response":
                return self._response_head(members, line, at)
            case "end":
                return self._end(members, at)
            case "encoded":
                exchange = self._exchanges.get(members["exchange"])
                return self._in_exchange(exchange, exchange.row, at, client=True) if exchange else 0
            case "stderr":
                return self._stderr(members["t"], len(line), at)
            case "lines":
                return self._short_lines(decode(line), at)
            case "gap":
                self.gap_lines.append(at)
                return self._orphan(_GAP, Seen(True, at, members["t"], 0))
            case "close" | "continued":
                record = decode(line)
                if isinstance(record, CloseRecord | Continued):
                    self.last = record
                self.last_ns = members["t"]
            case "header" | "eof" | "signal" | "opaque" | "note":
                self.last_ns = members.get("t", self.last_ns)
            case _:
                decode(line)
        return 0

    def _stderr(self, at_ns: int, size: int, at: int) -> int:
        self.last_ns = at_ns
        if row := self._parent(None, self._session("")):
            return row
        if self._stderr_row and self._stderr_row == self.columns.rows:  # nothing came between
            sizes = self.columns.request_bytes
            sizes[self._stderr_row] = min(sizes[self._stderr_row] + size, LARGEST)
            self.touch(self._stderr_row)
        else:
            self._stderr_row = self._orphan(_STDERR, Seen(False, at, at_ns, size))
        return self._stderr_row

    def _short_lines(self, run: object, at: int) -> int:
        """Take many short lines in one record; none of them can be a message."""
        if not isinstance(run, Lines):
            return 0
        size = sum(map(len, run.raws))
        if run.source == "stderr":
            return self._stderr(run.at_ns, size, at)
        self.odd_lines.append(at)
        for seq in range(run.seq, run.seq + len(run.raws)):
            self.columns.put_seq(seq, at)
        self.frames[run.source] += len(run.raws)
        self.last_ns = run.at_ns
        return self._orphan(_NOT_A_MESSAGE, Seen(run.source == CLIENT, at, run.at_ns, size))

    # HTTP

    def _request_head(self, members: dict[str, Any], line: bytes, at: int) -> int:
        self.columns.put_seq(members["seq"], at)
        self.last_ns = members["t"]
        exchange = ExchangeState(
            members["exchange"],
            self._session_of(members, line),
            method=members["method"],
            target=members["target"],
            endpoint=members["endpoint"],
            started_ns=members["t"],
        )
        self._exchanges[exchange.number] = exchange
        if exchange.method == "POST" and exchange.endpoint:
            exchange.lines.append(at)  # its body says which row this is
        else:
            self._add_exchange_row(exchange, at)
        return exchange.row

    def _add_exchange_row(self, exchange: ExchangeState, at: int) -> None:
        """Make a row of an exchange whose request carries no message."""
        columns = self.columns
        name = columns.number_of(f"{exchange.method} {exchange.target.partition('?')[0]}", None)
        row = columns.add(_EXCHANGE, at, exchange.started_ns, name, 0, exchange.session, _NO_ANSWER)
        self.touch(row)
        self._set_row(exchange, row)

    def _set_row(self, exchange: ExchangeState, row: int) -> None:
        exchange.row = row
        for line in exchange.lines:
            self.columns.line_row[line] = row
        exchange.lines.clear()

    def _in_exchange(self, exchange: ExchangeState, row: int, at: int, *, client: bool) -> int:
        """Note the row of a line of an exchange, as soon as it is known, and return it."""
        if client and row and not exchange.row:
            self._set_row(exchange, row)
        if not row and not exchange.row:
            exchange.lines.append(at)
        return row or exchange.row

    def _response_head(self, members: dict[str, Any], line: bytes, at: int) -> int:
        columns, status, at_ns = self.columns, members["status"], members["t"]
        columns.put_seq(members["seq"], at)
        self.last_ns = at_ns
        exchange = self._exchanges.get(members["exchange"])
        if exchange is None:
            return 0
        self._name_session(exchange, self._session_of(members, line))
        if status < 200:
            return self._in_exchange(exchange, 0, at, client=False)
        exchange.status, exchange.by_proxy = status, "by" in members
        if not exchange.row:
            self._add_exchange_row(exchange, exchange.lines[0] if exchange.lines else at)
        row = exchange.row
        is_orphan = columns.kind[row] & ~FROM_SERVER == _EXCHANGE
        rows = [row] if is_orphan else exchange.requests
        for row in rows:
            if columns.outcome[row] != _NO_ANSWER or (status < 400 and not is_orphan):
                continue
            columns.outcome[row] = _OK if status < 400 else _HTTP_ERROR
            if exchange.by_proxy:
                columns.outcome[row] = _REFUSED
            columns.code[row] = status
            columns.answer_line[row] = at
            columns.latency_ns[row] = max(at_ns - columns.started_ns[row], 0)
            self.touch(row)
        return exchange.row

    def _end(self, members: dict[str, Any], at: int) -> int:
        self.last_ns = members["t"]
        exchange = self._exchanges.pop(members["exchange"], None)
        if exchange is None:
            return 0
        if not exchange.row:
            self._add_exchange_row(exchange, exchange.lines[0] if exchange.lines else at)
        if exchange.stateless and members.get("cut") and members.get("by") == CLIENT:
            for row in exchange.requests:  # closing the stream cancels the request
                self._set_cancelled(row)
        return exchange.row

    def _exchange_of(self, members: dict[str, Any]) -> ExchangeState:
        """Return the exchange of a frame."""
        number = members["exchange"]
        exchange = self._exchanges.get(number)
        if exchange is None:
            exchange = self._open_exchange(number)
        if "session" in members:
            self._name_session(exchange, self._session(members["session"]))
        return exchange

    def _open_exchange(self, number: int) -> ExchangeState:
        """Return the state of an exchange whose request was not recorded."""
        exchange = self._exchanges[number] = ExchangeState(number, self._session(""))
        return exchange

    def _session_of(self, members: dict[str, Any], line: bytes) -> int:
        """Return the session of a head. Its record names it, unless another program wrote the record."""
        if "session" in members:
            return self._session(members["session"])
        return self._session(SessionNames().of(decode(line)) if b"ession" in line else "")

    def _name_session(self, exchange: ExchangeState, session: int) -> None:
        """Note which session an exchange belongs to, once that is known: the first answer may say it."""
        if session == exchange.session or not self.sessions[session].name:
            return
        before, exchange.session = exchange.session, session
        for row in {exchange.row, *exchange.requests} - {0}:
            self.columns.session[row] = session
            self.touch(row)
        if exchange.call and (token := self._token_of.pop(exchange.call, None)):
            self._tokens.pop(token, None)
            key = self._token_of[exchange.call] = (token[0], session, token[2])
            self._tokens[key] = exchange.call
        old, new = self.sessions[before], self.sessions[session]
        if not old.name and not new.client:  # the initialize request had no session id yet
            new.client, new.client_version, new.revision = old.client, old.client_version, old.revision
