"""The one pass over a recording that makes the index: lines in, rows out. It judges nothing.

Each line is parsed once, and nothing but numbers is kept of it. A usual record (a frame with one message) is
read from the parsed line as it is; every other one goes through the decoder of the trace. Ids are matched as
``mcpproxy.trace.conversation`` matches them.

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
from mcpproxy.protocol import acp
from mcpproxy.protocol.jsonrpc import Batch, RequestId
from mcpproxy.protocol.raw_json import elements
from mcpproxy.session.frame import CLIENT, SERVER, Frame, Sender
from mcpproxy.trace.decode import decode
from mcpproxy.trace.members import NotARecordError
from mcpproxy.trace.records import CloseRecord, Continued
from mcpproxy.trace.session_labels import SessionNames
from mcpproxy.view.calls import Kind, Outcome
from mcpproxy.view.columns import FROM_SERVER, KINDS, LARGEST, OUTCOMES, TARGETS, Columns, code_of
from mcpproxy.view.exchange_state import ExchangeState
from mcpproxy.view.peers import VERSION_META, SessionFacts

_MESSAGE: Final = b'"message":'
_AROUND_MESSAGE: Final = len(_MESSAGE) + len(b"}\n")

_REQUEST: Final = KINDS.index(Kind.REQUEST)
_ANSWER: Final = KINDS.index(Kind.ANSWER)
_NOTIFICATION: Final = KINDS.index(Kind.NOTIFICATION)
_NOT_A_MESSAGE: Final = KINDS.index(Kind.NOT_A_MESSAGE)
_EXCHANGE: Final = KINDS.index(Kind.EXCHANGE)
_STDERR: Final = KINDS.index(Kind.STDERR)
_GAP: Final = KINDS.index(Kind.GAP)

_OK: Final = OUTCOMES.index(Outcome.OK)
_TOOL_ERROR: Final = OUTCOMES.index(Outcome.TOOL_ERROR)
_RPC_ERROR: Final = OUTCOMES.index(Outcome.RPC_ERROR)
_HTTP_ERROR: Final = OUTCOMES.index(Outcome.HTTP_ERROR)
_INPUT_REQUIRED: Final = OUTCOMES.index(Outcome.INPUT_REQUIRED)
_NO_ANSWER: Final = OUTCOMES.index(Outcome.NO_ANSWER)
_CANCELLED: Final = OUTCOMES.index(Outcome.CANCELLED)
_REFUSED: Final = OUTCOMES.index(Outcome.REFUSED)
_NONE: Final = OUTCOMES.index(Outcome.NONE)

_SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"

_LEADING_ID: Final = pattern(
    rb'\s*+\{\s*+(?:"jsonrpc"\s*+:\s*+"2\.0"\s*+,\s*+)?"id"\s*+:\s*+(-?\d{1,18}|"[^"\\]{0,200}")\s*+,\s*+"result"'
)
"""The beginning of a result whose id comes first."""

_MAX_SESSIONS: Final = 60_000
_LONGEST_SESSION_ID: Final = 256

_Key = int | str | tuple[int | str, RequestId]
"""What a request is found by: on stdio its id, over HTTP the id with its exchange, and with its session."""


class Scan:
    """Reads lines into ``columns``. Feed it every line of the recording once, the header first."""

    def __init__(self, columns: Columns, *, http: bool) -> None:
        self.columns: Final = columns
        self.http: Final = http
        self.end_offset = 0
        """Where the next line begins."""
        self.sessions: Final[list[SessionFacts]] = []
        self.finding_lines: Final[list[int]] = []
        self.tool_lists: Final[list[int]] = []
        """Rows of ``tools/list`` that were answered."""
        self.odd_lines: Final[list[int]] = []
        """Lines of frames that are not embedded as they were: as text, in base64, many in one record."""
        self.gap_lines: Final[list[int]] = []
        self.frames: Final[dict[Sender, int]] = {CLIENT: 0, SERVER: 0}
        self.last: CloseRecord | Continued | None = None
        self.last_ns = 0
        self.first_changed = 0
        """The lowest row that was added or changed since this was last set to 0."""
        self._session_numbers: Final[dict[str, int]] = {}
        self._open: Final[tuple[dict[_Key, int], dict[_Key, int]]] = ({}, {})
        """Of the server and of the client: key -> row of the request that waits for its answer."""
        self._given_up: Final[tuple[dict[_Key, int], dict[_Key, int]]] = ({}, {})
        """The same for requests that were cancelled."""
        self._keys: Final[dict[int, tuple[_Key, ...]]] = {}
        """Over HTTP: row -> its keys."""
        self._tokens: Final[dict[tuple[bool, int, RequestId], int]] = {}
        self._token_of: Final[dict[int, tuple[bool, int, RequestId]]] = {}
        self._prompts: Final[dict[int, int]] = {}
        """In ACP: session -> row of its open prompt."""
        self._exchanges: Final[dict[int, ExchangeState]] = {}
        self._pieces: Final[dict[tuple[int, bool], int]] = {}
        """The row of a message that is recorded in pieces, by exchange and side."""
        self._stderr_row = 0
        self._is_acp = False

    def feed(self, lines: Iterable[bytes]) -> None:
        """Take the next lines.

        Raises:
            NotARecordError: a line is not a record. The lines before it are in the columns.
        """
        columns = self.columns
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
            row = self._message(
                cast("dict[str, Any]", message), client, at, at_ns, size, exchange, by_us, line
            )
            return row if exchange is None else self._in_exchange(exchange, row, at, client=client)
        return self._other(kind, members, line, at)

    # Messages

    def _message(
        self,
        message: dict[str, Any],
        client: bool,
        at: int,
        at_ns: int,
        size: int,
        exchange: ExchangeState | None,
        by_us: bool,
        line: bytes = b"",
    ) -> int:
        """Take one message, and return its row."""
        method = message.get("method")
        id = message.get("id")
        if type(id) is not int and type(id) is not str and id is not None:
            id = _exact_id(message, line)
        if type(method) is str:
            if "result" in message or "error" in message:
                return self._orphan(_NOT_A_MESSAGE, client, at, at_ns, size, exchange)
            if "id" in message and not method.startswith("notifications/"):
                return self._request(
                    method, id, message.get("params"), client, at, at_ns, size, exchange, by_us
                )
            return self._notification(method, message.get("params"), client, at, at_ns, size, exchange)
        if "method" not in message and ("result" in message or "error" in message or "id" in message):
            return self._answer(message, id, client, at, at_ns, size, exchange, by_us)
        return self._orphan(_NOT_A_MESSAGE, client, at, at_ns, size, exchange)

    def _request(
        self,
        method: str,
        id: RequestId | None,
        params: Any,
        client: bool,
        at: int,
        at_ns: int,
        size: int,
        exchange: ExchangeState | None,
        by_us: bool,
    ) -> int:
        columns, session, target, meta = self.columns, 0, None, None
        if exchange is not None:
            session = exchange.session
        elif not self.sessions or self._is_acp:
            session = self._acp_session(params)
        if type(params) is dict:
            members = cast("dict[str, Any]", params)
            if method in TARGETS:
                named = members.get(TARGETS[method])
                target = named if type(named) is str else None
            elif method == "initialize":
                self._initialize(members, session)
            meta = members.get("_meta")
        parent = 0 if client else self._parent(exchange, session)
        row = columns.add(
            _REQUEST if client else _REQUEST | FROM_SERVER,
            at,
            at_ns,
            columns.number_of(method, target),
            min(size, LARGEST),
            session,
            _REFUSED if by_us else _NO_ANSWER,
            parent,
        )
        if not self.first_changed:
            self.first_changed = row
        if id is not None:
            if exchange is None:
                self._open[client][id] = row
            else:
                keys = self._keys[row] = (exchange.number, id), (self.sessions[session].name, id)
                for key in keys:
                    self._open[client][key] = row
        if exchange is not None and client:
            exchange.requests.append(row)
        if type(meta) is dict:
            self._request_meta(cast("dict[str, Any]", meta), row, client, session, exchange)
        if self._is_acp and method == "session/prompt" and client:
            self._prompts[session] = row
        return row

    def _request_meta(
        self, meta: dict[str, Any], row: int, client: bool, session: int, exchange: ExchangeState | None
    ) -> None:
        token = meta.get("progressToken")
        if type(token) is int or type(token) is str:
            key = self._token_of[row] = (client, session, token)
            self._tokens[key] = row
        if VERSION_META in meta:
            if exchange is not None:
                exchange.stateless = True
            self.sessions[session].take_meta(meta)

    def _answer(
        self,
        message: dict[str, Any],
        id: RequestId | None,
        client: bool,
        at: int,
        at_ns: int,
        size: int,
        exchange: ExchangeState | None,
        by_us: bool,
    ) -> int:
        """Take a response or an error, and return the row of its request, or its own."""
        row = self._answered(id, not client, exchange)
        if not row:
            return self._orphan(_ANSWER, client, at, at_ns, size, exchange)
        columns = self.columns
        columns.answer_line[row] = at
        columns.answer_bytes[row] = min(size, LARGEST)
        columns.latency_ns[row] = at_ns - columns.started_ns[row]
        if row < self.first_changed or not self.first_changed:
            self.first_changed = row
        if row in self._token_of:
            self._tokens.pop(self._token_of.pop(row), None)
        outcome = _OK
        if "error" in message or "result" not in message:
            error = message.get("error")
            outcome = _RPC_ERROR
            columns.code[row] = code_of(error.get("code") if type(error) is dict else None)
        elif type(result := message["result"]) is dict:
            if "isError" in result and result["isError"] is True:
                outcome = _TOOL_ERROR
            elif "resultType" in result and result["resultType"] == "input_required":
                outcome = _INPUT_REQUIRED
            elif "tools" in result and not client and columns.names[columns.name[row]][0] == "tools/list":
                self.tool_lists.append(row)
            if not client and ("protocolVersion" in result or "_meta" in result or "sessionId" in result):
                self._result_facts(cast("dict[str, Any]", result), row)
        if columns.outcome[row] == _NO_ANSWER:
            columns.outcome[row] = _REFUSED if by_us else outcome
        elif columns.outcome[row] == _HTTP_ERROR:
            columns.outcome[row] = outcome
        return row

    def _answered(self, id: RequestId | None, client: bool, exchange: ExchangeState | None) -> int:
        """Return the row of the open request with this id, and close it; 0 if there is none."""
        if exchange is None:
            if id is None:
                return 0
            return self._open[client].pop(id, 0) or self._given_up[client].pop(id, 0)
        if id is None:
            # The answer to a request that could not be read names no id. Its exchange says whose it is.
            row = exchange.call if client else 0
            row = row if self.columns.outcome[row] in (_NO_ANSWER, _HTTP_ERROR) else 0
        else:
            scopes = (exchange.number, id), (self.sessions[exchange.session].name, id)
            tables = (self._open[client], self._given_up[client])
            row = next((found[key] for found in tables for key in scopes if key in found), 0)
        self._close_request(row, client)
        return row

    def _close_request(self, row: int, client: bool) -> None:
        for key in self._keys.pop(row, ()):
            for found in (self._open[client], self._given_up[client]):
                if found.get(key) == row:
                    del found[key]

    def _notification(
        self,
        method: str,
        params: Any,
        client: bool,
        at: int,
        at_ns: int,
        size: int,
        exchange: ExchangeState | None,
    ) -> int:
        members = cast("dict[str, Any]", params) if type(params) is dict else {}
        session = exchange.session if exchange is not None else self._acp_session(params)
        row = self._named_by(method, members, client, session, exchange)
        if not row and not client:
            row = self._parent(exchange, session)
        if row:
            return row
        return self._orphan(_NOTIFICATION, client, at, at_ns, size, exchange, method, session)

    def _named_by(
        self, method: str, params: dict[str, Any], client: bool, session: int, exchange: ExchangeState | None
    ) -> int:
        """Return the row of the call that a notification names."""
        if method == "notifications/progress":
            token = params.get("progressToken")
            if type(token) is int or type(token) is str:
                return self._tokens.get((not client, session, token), 0)
        elif method in ("notifications/cancelled", "$/cancel_request"):
            return self._cancel(params.get("requestId"), client, exchange, session)
        elif self._is_acp and method == "session/cancel":
            if row := self._prompts.get(session, 0):
                self._set_cancelled(row)
            return row
        elif type(meta := params.get("_meta")) is dict and _SUBSCRIPTION in meta:
            id = cast("dict[str, Any]", meta)[_SUBSCRIPTION]
            if type(id) is int or type(id) is str:
                key = id if exchange is None else (self.sessions[session].name, id)
                return self._open[not client].get(key, 0)
        return 0

    def _cancel(self, id: Any, client: bool, exchange: ExchangeState | None, session: int) -> int:
        if type(id) is not int and type(id) is not str:
            return 0
        key: _Key = id if exchange is None else (self.sessions[session].name, id)
        row = self._open[client].pop(key, 0)
        if row:
            self._given_up[client][key] = row
            self._set_cancelled(row)
        return row

    def _set_cancelled(self, row: int) -> None:
        if self.columns.outcome[row] == _NO_ANSWER:
            self.columns.outcome[row] = _CANCELLED
            self.columns.latency_ns[row] = self.last_ns - self.columns.started_ns[row]
            self.touch(row)

    def _parent(self, exchange: ExchangeState | None, session: int) -> int:
        """Return the call that something of the server belongs to, 0 if that is not certain."""
        if exchange is not None:
            return exchange.call
        if self._is_acp:
            return self._prompts.get(session, 0) if self._is_unanswered(self._prompts.get(session, 0)) else 0
        waiting = self._open[True]
        return next(iter(waiting.values())) if len(waiting) == 1 else 0

    def _is_unanswered(self, row: int) -> bool:
        return bool(row) and not self.columns.answer_line[row]

    def _orphan(
        self,
        kind: int,
        client: bool,
        at: int,
        at_ns: int,
        size: int,
        exchange: ExchangeState | None,
        method: str = "",
        session: int | None = None,
    ) -> int:
        """Add a row for something that belongs to no call, and return its number."""
        if exchange is not None and exchange.row and kind == _NOT_A_MESSAGE:
            return exchange.row  # the text of an error, for example
        if session is None:
            session = exchange.session if exchange is not None else self._session("")
        columns = self.columns
        name = columns.number_of(method, None)
        side = 0 if client else FROM_SERVER
        row = columns.add(kind | side, at, at_ns, name, min(size, LARGEST), session, _NONE)
        self.touch(row)
        return row

    def touch(self, row: int) -> None:
        """Note that a row is new or has changed."""
        if row < self.first_changed or not self.first_changed:
            self.first_changed = row

    # Frames of unusual form

    def _frame_object(self, frame: object, at: int) -> int:
        """Take a frame that the trace's decoder has read: a batch, a text, a piece of a message."""
        if not isinstance(frame, Frame):
            return 0
        self.columns.put_seq(frame.seq, at)
        self.frames[frame.sender] += 1
        self.last_ns = frame.observed_at_ns
        client, message, size = frame.sender == CLIENT, frame.message, len(frame.raw)
        exchange = (
            self._exchanges.get(frame.exchange) or self._open_exchange(frame) if frame.exchange else None
        )
        if exchange is not None and frame.event is not None and frame.event.name == "endpoint":
            exchange.is_sse_transport = True
            self._name_session(exchange, self._session(SessionNames().of(frame)))
        place = (frame.exchange, client)
        by_us = frame.by_proxy or frame.refused
        if frame.continues or place in self._pieces:
            row = self._piece(frame, place, at, exchange)
        elif isinstance(message, Batch):
            row = self._batch(message, frame, at, exchange, by_us)
        elif isinstance(value := getattr(message, "value", None), dict):
            value = cast("dict[str, Any]", value)
            row = self._message(value, client, at, frame.observed_at_ns, size, exchange, by_us, frame.raw)
        else:
            row = self._orphan(_NOT_A_MESSAGE, client, at, frame.observed_at_ns, size, exchange)
        return row if exchange is None else self._in_exchange(exchange, row, at, client=client)

    def _piece(self, frame: Frame, place: tuple[int, bool], at: int, exchange: ExchangeState | None) -> int:
        """Take a piece of a message that is too long to be judged; all pieces belong to one row."""
        row = self._pieces.get(place, 0)
        client, size = frame.sender == CLIENT, len(frame.raw)
        if row:
            columns = self.columns
            sizes = columns.answer_bytes if columns.kind_of(row) is Kind.REQUEST else columns.request_bytes
            sizes[row] = min(sizes[row] + size, LARGEST)
        else:
            row = self._first_piece(frame, at, exchange)
        if frame.continues:
            self._pieces[place] = row
        else:
            self._pieces.pop(place, None)
        return row

    def _first_piece(self, frame: Frame, at: int, exchange: ExchangeState | None) -> int:
        """Return the row of a message of which this is the beginning.

        An answer usually begins with its id. Without it, the call would seem to have none.
        """
        client, size = frame.sender == CLIENT, len(frame.raw)
        if found := _LEADING_ID.match(frame.raw):
            id = cast("RequestId", orjson.loads(found[1]))
            answer: dict[str, Any] = {"id": id, "result": None}
            return self._answer(answer, id, client, at, frame.observed_at_ns, size, exchange, by_us=False)
        return self._orphan(_NOT_A_MESSAGE, client, at, frame.observed_at_ns, size, exchange)

    def _batch(self, batch: Batch, frame: Frame, at: int, exchange: ExchangeState | None, by_us: bool) -> int:
        """Take each message of a batch; the line belongs to the row of the first."""
        client, first, columns = frame.sender == CLIENT, 0, self.columns
        for index, (item, raw) in enumerate(zip(batch.items, elements(frame.raw), strict=True)):
            before, value = columns.rows, getattr(item, "value", None)
            if isinstance(value, dict):
                value = cast("dict[str, Any]", value)
                row = self._message(value, client, at, frame.observed_at_ns, len(raw), exchange, by_us, raw)
            else:
                row = self._orphan(_NOT_A_MESSAGE, client, at, frame.observed_at_ns, len(raw), exchange)
            if row > before:
                columns.elements[row] = index
            elif columns.answer_line[row] == at:
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
                return self._short_lines(members, at)
            case "gap":
                self.gap_lines.append(at)
                return self._orphan(_GAP, True, at, members["t"], 0, None)
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
            self._stderr_row = self._orphan(_STDERR, False, at, at_ns, size, None)
        return self._stderr_row

    def _short_lines(self, members: dict[str, Any], at: int) -> int:
        """Take many short lines in one record; none of them can be a message."""
        at_ns, count, source = members["t"], members["count"], members["from"]
        if source == "stderr":
            return self._stderr(at_ns, count, at)
        self.odd_lines.append(at)
        for seq in range(members["seq"], members["seq"] + count):
            self.columns.put_seq(seq, at)
        self.frames[CLIENT if source == CLIENT else SERVER] += count
        self.last_ns = at_ns
        return self._orphan(_NOT_A_MESSAGE, source == CLIENT, at, at_ns, count, None)

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
        """Note that a line of an exchange belongs to ``row``, if that is known; return the row of the line."""
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
            columns.latency_ns[row] = at_ns - columns.started_ns[row]
            self.touch(row)
        return exchange.row

    def _end(self, members: dict[str, Any], at: int) -> int:
        self.last_ns = members["t"]
        exchange = self._exchanges.pop(members["exchange"], None)
        if exchange is None:
            return 0
        if not exchange.row:
            self._add_exchange_row(exchange, exchange.lines[0] if exchange.lines else at)
        columns = self.columns
        for row in exchange.requests:
            if columns.outcome[row] == _NO_ANSWER and members.get("cut") and members.get("by") == CLIENT:
                if exchange.stateless:  # there, closing the stream cancels the request
                    self._set_cancelled(row)
        return exchange.row

    def _exchange_of(self, members: dict[str, Any]) -> ExchangeState:
        """Return the exchange of a frame."""
        number = members["exchange"]
        exchange = self._exchanges.get(number)
        if exchange is None:
            exchange = self._exchanges[number] = ExchangeState(number, self._session(""))
        if "session" in members:
            self._name_session(exchange, self._session(members["session"]))
        return exchange

    def _open_exchange(self, frame: Frame) -> ExchangeState:
        exchange = self._exchanges[frame.exchange] = ExchangeState(frame.exchange, self._session(""))
        return exchange

    # Sessions

    def _session(self, name: str) -> int:
        """Return the number of a session, which is added if it is new."""
        number = self._session_numbers.get(name)
        if number is None:
            if len(self.sessions) > _MAX_SESSIONS:
                return 0
            number = self._session_numbers[name] = len(self.sessions)
            self.sessions.append(SessionFacts(name, "acp" if self._is_acp else "mcp"))
        return number

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

    def _acp_session(self, params: Any) -> int:
        """Return the session of a message on stdio: in ACP its params name it."""
        if self._is_acp and type(params) is dict:
            name = cast("dict[str, Any]", params).get("sessionId")
            if type(name) is str and len(name) <= _LONGEST_SESSION_ID:
                return self._session(name)
        return self._session("")

    def _initialize(self, params: dict[str, Any], session: int) -> None:
        if acp.is_initialize(params):
            self._is_acp = True
            for each in self.sessions:
                each.protocol = "acp"
        self.sessions[session].take_initialize(params)

    def _result_facts(self, result: dict[str, Any], row: int) -> None:
        """Learn from a result of the server: its name, the agreed revision, the id of a new ACP session."""
        columns = self.columns
        self.sessions[columns.session[row]].take_result(result)
        if self._is_acp and "sessionId" in result:
            columns.session[row] = self._acp_session(result)


def _exact_id(message: dict[str, Any], line: bytes) -> RequestId | None:
    """Return an id that is neither a text nor an integer as it was parsed: it may be a large integer."""
    if "id" not in message:
        return None
    frame = decode(line) if line.startswith(b'{"type"') else Frame(0, CLIENT, line)
    single = frame.message if isinstance(frame, Frame) else None
    id = getattr(single, "id", None)
    return id if type(id) is int or type(id) is str else None
