"""Put the exchanges of HTTP into the index, and the lines of each into the rows of its calls."""

from typing import Any, Final

from mcpproxy.judge.session.frame import CLIENT, ResponseHead
from mcpproxy.judge.session.outcomes import Kind, Outcome, unread_outcome
from mcpproxy.judge.session.redirects import location_of
from mcpproxy.read.view.index.columns import KINDS, OUTCOMES, Columns
from mcpproxy.read.view.index.scan_messages import MessageScan
from mcpproxy.read.view.index.seen import ExchangeState
from mcpproxy.record.trace.decode import decode

_EXCHANGE: Final = KINDS.index(Kind.EXCHANGE)
_UNANSWERED: Final = OUTCOMES.index(Outcome.UNANSWERED)


def session_name(record: Any) -> str:
    """Return the name of the session that a record of HTTP names."""
    from mcpproxy.record.trace.session_labels import SessionNames  # Imported here: on stdio there are none.

    return SessionNames().track(record)


class ExchangeScan(MessageScan):
    """Puts exchanges into the columns. In its methods, ``at`` is the number of a line."""

    def __init__(self, columns: Columns) -> None:
        super().__init__(columns)
        self._exchanges: Final[dict[int, ExchangeState]] = {}
        """Number of an open exchange -> its state."""
        self._is_http_sse = False

    def _add_request_head(self, members: dict[str, Any], line: bytes, at: int) -> int:
        self.columns.put_seq(members["seq"], at)
        self.last_ns = members["t"]
        exchange = ExchangeState(
            members["exchange"],
            self._session_of(members, line),
            method=members["method"],
            target=members["target"],
            endpoint=members["endpoint"],
            redirected=self._redirects.to(members["target"]),
            started_ns=members["t"],
        )
        self._exchanges[exchange.number] = exchange
        if exchange.method == "POST" and (exchange.endpoint or exchange.redirected):
            exchange.lines.append(at)  # the row is known when the request's body is read
        else:
            self._add_exchange_row(exchange, at)
        return exchange.row

    def _add_exchange_row(self, exchange: ExchangeState, at: int) -> None:
        """Add a row for an exchange in which no JSON-RPC request was sent."""
        columns = self.columns
        name = columns.number_of(f"{exchange.method} {exchange.target.partition('?')[0]}", None)
        row = columns.add(_EXCHANGE, at, exchange.started_ns, name, 0, exchange.session, _UNANSWERED)
        self.touch(row)
        self._set_row(exchange, row)

    def _set_row(self, exchange: ExchangeState, row: int) -> None:
        exchange.row = row
        for line in exchange.lines:
            self.columns.line_row[line] = row
        exchange.lines.clear()

    def _row_in_exchange(self, exchange: ExchangeState, row: int, at: int, *, client: bool) -> int:
        """Return the row of a line of an exchange.

        If it is not known yet, return 0; the line waits in ``exchange.lines``.
        """
        if client and row and not exchange.row:
            self._set_row(exchange, row)
        if not row and not exchange.row:
            exchange.lines.append(at)
        return row or exchange.row

    def _add_response_head(self, members: dict[str, Any], line: bytes, at: int) -> int:
        status, at_ns = members["status"], members["t"]
        self.columns.put_seq(members["seq"], at)
        self.last_ns = at_ns
        exchange = self._exchanges.get(members["exchange"])
        if exchange is None:
            return 0
        self._name_session(exchange, self._session_of(members, line))
        if status < 200:
            return self._row_in_exchange(exchange, 0, at, client=False)
        exchange.status, exchange.by_proxy = status, "by" in members
        exchange.answer, exchange.answered_ns = at, at_ns
        if exchange.is_early:
            return self._row_in_exchange(exchange, 0, at, client=False)
        if not exchange.row:
            self._add_exchange_row(exchange, exchange.lines[0] if exchange.lines else at)
        is_row = self.columns.kind_of(exchange.row) is Kind.EXCHANGE
        for row in [exchange.row] if is_row else exchange.requests:
            self.take_status(exchange, row)
        if 300 <= status < 400 and exchange.requests:
            head = decode(line)
            if isinstance(head, ResponseHead) and (location := location_of(head)) is not None:
                self._redirects.add(exchange.number, exchange.target, location)
        return exchange.row

    def _mark_unreadable(self, number: int, at: int) -> int:
        """Mark the answer of an exchange as unreadable. Return the row of the line; 0 if it is not known."""
        exchange = self._exchanges.get(number)
        if exchange is None:
            return 0
        exchange.is_unread = True
        return self._row_in_exchange(exchange, 0, at, client=False)

    def _end_exchange(self, members: dict[str, Any], at: int) -> int:
        self.last_ns = members["t"]
        exchange = self._exchanges.pop(members["exchange"], None)
        if exchange is None:
            return 0
        if not exchange.row:
            is_early = exchange.is_early
            self._add_exchange_row(exchange, exchange.lines[0] if exchange.lines else at)
            if is_early:
                self.take_status(exchange, exchange.row)
        for row in exchange.requests if exchange.is_unread else ():
            self._end_unread(exchange, row)
        if exchange.stateless and members.get("cut") and members.get("by") == CLIENT:
            for row in exchange.requests:  # closing the stream cancels the request
                self._set_cancelled(row)
        # In HTTP+SSE, the answers are in another exchange, that of the stream.
        if not exchange.resumable and (300 <= exchange.status < 400 or not self._is_http_sse):
            for row in exchange.requests:
                self._end_waiting(row)
        return exchange.row

    def _end_unread(self, exchange: ExchangeState, row: int) -> None:
        """End a call whose answer came but could not be read."""
        columns, outcome = self.columns, OUTCOMES.index(unread_outcome(exchange.status))
        if columns.outcome[row] == _UNANSWERED and outcome != _UNANSWERED:
            columns.outcome[row], columns.answer_line[row] = outcome, exchange.answer
            columns.latency_ns[row] = max(self.last_ns - columns.started_ns[row], 0)
            self.touch(row)

    def _end_waiting(self, row: int) -> None:
        """End the waiting of a request, because its exchange ended."""
        columns = self.columns
        if columns.outcome[row] == _UNANSWERED:
            columns.latency_ns[row] = max(self.last_ns - columns.started_ns[row], 0)
            self.touch(row)

    def _exchange_of(self, members: dict[str, Any]) -> ExchangeState:
        """Return the exchange of the frame with these members."""
        number = members["exchange"]
        exchange = self._exchanges.get(number)
        if exchange is None:
            exchange = self._open_exchange(number)
        if "session" in members:
            self._name_session(exchange, self._session_number(members["session"]))
        return exchange

    def _open_exchange(self, number: int) -> ExchangeState:
        """Add an exchange whose request was not recorded, and return its state."""
        exchange = self._exchanges[number] = ExchangeState(number, self._session_number(""))
        return exchange

    def _session_of(self, members: dict[str, Any], line: bytes) -> int:
        """Return the session of the head of an HTTP message.

        A trace of ours names the session in the record. Otherwise it is taken from the header fields.
        """
        if "session" in members:
            return self._session_number(members["session"])
        return self._session_number(session_name(decode(line)) if b"session" in line.lower() else "")

    def _name_session(self, exchange: ExchangeState, session: int) -> None:
        """Move an exchange and its rows to ``session``, unless that has no name.

        The first answer in a session gives its name.
        """
        if session == exchange.session or not self.sessions[session].name:
            return
        before, exchange.session = exchange.session, session
        for row in {exchange.row, *exchange.requests} - {0}:
            self.columns.session[row] = session
            self.touch(row)
        if exchange.call and (token := self._open.pop_token(exchange.call)):
            self._open.add_token(exchange.call, (token[0], session, token[2]))
        if exchange.initialize is not None:  # it was sent before there was a session id
            self.sessions[session].take_initialize(exchange.initialize)
            self.sessions[before].forget_initialize()
