"""Put JSON-RPC messages into the index: find the request of each answer, and the call of other messages."""

from typing import Any, Final, cast

from mcpproxy.judge.session.frame import CLIENT, Frame
from mcpproxy.judge.session.outcomes import (
    ERRORS,
    UNKNOWN,
    Kind,
    Outcome,
    carried_code,
    error_outcome,
    exchange_outcome,
    latency_ns,
    outcome_from_us,
    outcome_of_result,
    status_outcome,
)
from mcpproxy.judge.session.redirects import Redirects
from mcpproxy.protocol import acp
from mcpproxy.protocol.jsonrpc import JSON, RequestId, is_answer
from mcpproxy.protocol.mcp_in_acp import WRAPPERS, Innermost, innermost
from mcpproxy.protocol.message_parts import TARGETS, target_of
from mcpproxy.protocol.meta_keys import SUBSCRIPTION_ID_KEY
from mcpproxy.read.view.index.columns import FROM_SERVER, KINDS, LARGEST, NO_CODE, OUTCOMES, Columns, code_of
from mcpproxy.read.view.index.peers import VERSION_META, SessionFacts
from mcpproxy.read.view.index.pending_requests import Key, PendingRequests
from mcpproxy.read.view.index.seen import ExchangeState, Seen
from mcpproxy.record.trace.decode import decode

_REQUEST: Final = KINDS.index(Kind.REQUEST)
_ANSWER: Final = KINDS.index(Kind.ANSWER)
_NOTIFICATION: Final = KINDS.index(Kind.NOTIFICATION)
_NOT_A_MESSAGE: Final = KINDS.index(Kind.NOT_A_MESSAGE)
_OK: Final = OUTCOMES.index(Outcome.OK)
_HTTP_ERROR: Final = OUTCOMES.index(Outcome.HTTP_ERROR)
_RPC_ERROR: Final = OUTCOMES.index(Outcome.RPC_ERROR)
_UNANSWERED: Final = OUTCOMES.index(Outcome.UNANSWERED)
_CANCELLED: Final = OUTCOMES.index(Outcome.CANCELLED)
_REFUSED: Final = OUTCOMES.index(Outcome.REFUSED)
_DECLINED: Final = OUTCOMES.index(Outcome.DECLINED)
_NONE: Final = OUTCOMES.index(Outcome.NONE)

_NUMBER_OF: Final = {outcome: number for number, outcome in enumerate(OUTCOMES)}
_HTTP_OUTCOMES: Final = (_HTTP_ERROR, _DECLINED, OUTCOMES.index(Outcome.UNREADABLE))
"""Outcomes that are known from HTTP alone. A message that answers the call replaces them."""
_FAILED: Final = frozenset(_NUMBER_OF[outcome] for outcome in ERRORS)

_PROGRESS: Final = "notifications/progress"

_MAX_SESSIONS: Final = 60_000
"""How many sessions get a number. What belongs to a further session counts for session 0."""


class MessageScan:
    """Puts messages into the columns. Ids are matched as in ``mcpproxy.record.trace.conversation``.

    In its methods, ``client`` is whether the client sent the message, ``session`` a session's number.
    """

    def __init__(self, columns: Columns) -> None:
        self.columns: Final = columns
        self.sessions: Final[list[SessionFacts]] = []
        self.tool_lists: Final[list[int]] = []
        """The rows of the requests ``tools/list`` that have a result with tools."""
        self.last_ns = 0
        """The time of the last record, in nanoseconds since the start of the recording."""
        self.first_changed = 0
        """The lowest row that was added or changed since the user of this class set it to 0."""
        self._session_numbers: Final[dict[str, int]] = {}
        self._open: Final = PendingRequests()
        self._redirects: Final = Redirects()
        self._carrying: Final[dict[int, Innermost]] = {}
        """Row of an open request that carries another message -> the innermost request in it."""
        self._prompts: Final[dict[int, int]] = {}
        """In ACP: session -> row of its last prompt."""
        self._is_acp = False
        self._just_failed = 0
        """On stdio, the row of the call whose error is the last message so far; else 0."""

    def _add_message(self, message: dict[str, Any], seen: Seen, line: bytes) -> int:
        """Add a message, and return the row that it belongs to. ``line`` is its record, or its own text."""
        self._just_failed = 0
        method = message.get("method")
        id = message.get("id")
        if type(id) is not int and type(id) is not str and id is not None:
            id = _exact_id(message, line)
        if type(method) is str:
            if "result" in message or "error" in message:
                return self._add_orphan(_NOT_A_MESSAGE, seen)
            if "id" in message and not method.startswith("notifications/"):
                return self._add_request(method, id, message.get("params"), seen)
            return self._add_notification(method, message.get("params"), seen)
        if "method" not in message and is_answer(message):
            return self._add_answer(message, id, seen)
        return self._add_orphan(_NOT_A_MESSAGE, seen)

    def _add_request(self, method: str, id: RequestId | None, params: Any, seen: Seen) -> int:
        client, exchange = seen.client, seen.exchange
        columns, session, target = self.columns, 0, None
        members = cast("dict[str, Any]", params) if type(params) is dict else {}
        if exchange is not None:
            if exchange.redirected and (row := self._repeated_in(exchange, id, client=client)):
                if seen.by_us and columns.outcome[row] == _UNANSWERED:
                    columns.outcome[row] = _REFUSED
                self._add_to_exchange(exchange, row, id, members, client=client)
                return row
            session = exchange.session
        elif not self.sessions or self._is_acp:  # MCP has only session 0 on stdio
            session = self._acp_session(params)
        if method in TARGETS:
            target = target_of(method, members)
        elif method in acp.INITIALIZE:
            self._take_initialize(members, session)
            if exchange is not None:
                exchange.initialize = members
        row = columns.add(
            _REQUEST if client else _REQUEST | FROM_SERVER,
            seen.line,
            seen.at_ns,
            columns.number_of(method, target),
            min(seen.size, LARGEST),
            session,
            _REFUSED if seen.by_us else _UNANSWERED,
            0 if client else self._certain_parent(exchange, session),
        )
        if not self.first_changed:
            self.first_changed = row
        if method in WRAPPERS and id is not None:
            self._carrying[row] = innermost(method, members)
        if exchange is not None:
            if client and exchange.status >= 400:  # its body came after the HTTP error that answers it
                columns.started_ns[row] = exchange.started_ns or seen.at_ns
            self._add_to_exchange(exchange, row, id, members, client=client)
        elif id is not None:
            self._open.add_single(row, client, id)
        if "_meta" in members and type(meta := members["_meta"]) is dict:
            self._take_request_meta(cast("dict[str, Any]", meta), row, session, seen)
        if self._is_acp and method == "session/prompt" and client:
            self._prompts[session] = row
        return row

    def take_status(self, exchange: ExchangeState, row: int) -> None:
        """End a row by the status of its exchange, if the status determines the outcome."""
        columns, status = self.columns, exchange.status
        is_exchange = columns.kind_of(row) is Kind.EXCHANGE
        # A status below 400 does not determine how a JSON-RPC request ended; its answer does.
        if columns.outcome[row] != _UNANSWERED or (status < 400 and not is_exchange):
            return
        if is_exchange:
            outcome = exchange_outcome(exchange.method, status, by_proxy=exchange.by_proxy)
        else:
            outcome = status_outcome(Innermost(columns.method(row)), status, by_proxy=exchange.by_proxy)
        columns.outcome[row] = _NUMBER_OF[outcome]
        columns.code[row] = status
        columns.answer_line[row] = exchange.answer
        columns.latency_ns[row] = self._took_ns(row, exchange.answered_ns)
        self.touch(row)

    def _took_ns(self, row: int, answered_ns: int) -> int:
        """Return the latency of a row; -1 if it is not known."""
        took_ns = latency_ns(self.columns.started_ns[row], answered_ns)
        return -1 if took_ns is None else took_ns

    def _repeated_in(self, exchange: ExchangeState, id: RequestId | None, *, client: bool) -> int:
        """Return the row of the redirected request that an exchange repeats, which waits again; 0 if none."""
        if not client or id is None:
            return 0
        keys = tuple((number, id) for number in exchange.redirected)
        if row := self._open.find(client, keys):
            self._open.close_row(row, client)
            self.columns.latency_ns[row] = -1  # the request waits again
            self.touch(row)
        return row

    def _add_to_exchange(
        self, exchange: ExchangeState, row: int, id: RequestId | None, params: dict[str, Any], *, client: bool
    ) -> None:
        """Add the request of a row to its exchange, whose status may already have ended it."""
        if id is not None:
            self._open.add(row, client, self._keys_in(exchange, id))
        if type(meta := params.get("_meta")) is dict and VERSION_META in meta:
            exchange.stateless = True
        if client:
            exchange.requests.append(row)
            if exchange.status >= 400:
                self.take_status(exchange, row)

    def _keys_in(self, exchange: ExchangeState, id: RequestId) -> tuple[Key, Key]:
        return (exchange.number, id), (self.sessions[exchange.session].name, id)

    def _take_request_meta(self, meta: dict[str, Any], row: int, session: int, seen: Seen) -> None:
        token = meta.get("progressToken")
        if type(token) is int or type(token) is str:
            self._open.add_token(row, (seen.client, session, token))
        if VERSION_META in meta:
            self.sessions[session].take_meta(meta)

    def _add_answer(self, message: dict[str, Any], id: RequestId | None, seen: Seen) -> int:
        """Add a response or an error. Return the row of its request, or a new row if there is none.

        Return 0 for an answer that came before the body of its HTTP request.
        """
        client, exchange, columns = seen.client, seen.exchange, self.columns
        if exchange is not None:
            row = self._close_answered(exchange, id, client=not client)
        else:
            row = 0 if id is None else self._open.close(id, not client)
        if not row:
            if not client and exchange is not None and exchange.is_early:
                exchange.answer = seen.line if seen.by_us else exchange.answer
                return 0
            return self._add_orphan(_ANSWER, seen)
        columns.answer_line[row] = seen.line
        columns.answer_bytes[row] = min(seen.size, LARGEST)
        columns.latency_ns[row] = self._took_ns(row, seen.at_ns)
        if row < self.first_changed or not self.first_changed:
            self.first_changed = row
        if row in self._open.token_of:
            self._open.pop_token(row)
        if "result" in message and "error" not in message:
            outcome = self._take_result(message["result"], row, client=client)
        else:
            outcome = self._take_error(message.get("error"), row)
        self._carrying.pop(row, None)
        if exchange is None and not client and outcome in _FAILED:
            self._just_failed = row
        # Refused: the request was withheld.
        if seen.by_us and columns.outcome[row] in (_UNANSWERED, _REFUSED):
            columns.outcome[row] = _NUMBER_OF[outcome_from_us(OUTCOMES[outcome])]
        elif columns.outcome[row] == _UNANSWERED:
            columns.outcome[row] = outcome
        elif columns.outcome[row] in _HTTP_OUTCOMES:
            columns.outcome[row] = outcome
            if "error" not in message:
                columns.code[row] = NO_CODE
        return row

    def _take_error(self, error: Any, row: int) -> int:
        """Return the outcome of a JSON-RPC error, and store its code."""
        columns, members = self.columns, cast("dict[str, Any]", error) if type(error) is dict else {}
        columns.code[row] = code_of(members.get("code"))
        # If the HTTP status was an error other than a decline, so is the error in the body.
        request = UNKNOWN if columns.outcome[row] == _HTTP_ERROR else self._innermost_request(row)
        return _NUMBER_OF[error_outcome(members, request)]

    def _innermost_request(self, row: int) -> Innermost:
        """Return the request of a row, or the innermost request that it carries."""
        return self._carrying.get(row) or Innermost(self.columns.method(row))

    def _take_result(self, result: Any, row: int, *, client: bool) -> int:
        """Return the outcome of a result. If the server sent it, also store its facts about the session."""
        columns = self.columns
        if type(result) is not dict:
            return _NUMBER_OF[outcome_of_result(result)]
        carried = self._carrying.get(row, UNKNOWN) if "error" in result or "result" in result else UNKNOWN
        outcome = _NUMBER_OF[outcome_of_result(cast("JSON", result), carried)]
        if carried.is_carried and outcome in (_RPC_ERROR, _DECLINED):
            columns.code[row] = code_of(carried_code(cast("JSON", result)))
        if outcome == _OK and "tools" in result and not client and columns.method(row) == "tools/list":
            self.tool_lists.append(row)
        if not client and ("protocolVersion" in result or "_meta" in result or "sessionId" in result):
            self.sessions[columns.session[row]].take_result(cast("dict[str, Any]", result))
            if self._is_acp and "sessionId" in result:
                columns.session[row] = self._acp_session(result)
        return outcome

    def _close_answered(self, exchange: ExchangeState, id: RequestId | None, *, client: bool) -> int:
        """Close the request that an answer in an exchange is for, and return its row; 0 if there is none.

        ``client`` is whether the client sent the request.
        """
        if id is None:
            # An error for a request that the server could not read has no id, but it is in the same exchange.
            row = exchange.call if client else 0
            row = row if self.columns.outcome[row] in (_UNANSWERED, *_HTTP_OUTCOMES, _REFUSED) else 0
        else:
            row = self._open.find(client, self._keys_in(exchange, id))
        self._open.close_row(row, client)
        return row

    def _add_notification(self, method: str, params: Any, seen: Seen) -> int:
        client, exchange = seen.client, seen.exchange
        members = cast("dict[str, Any]", params) if type(params) is dict else {}
        session = exchange.session if exchange is not None else self._acp_session(params)
        row = self._named_by(method, members, client, session, exchange)
        if not row and not client:
            row = self._certain_parent(exchange, session)
        if row:
            if method == _PROGRESS and self.columns.outcome[row] == _UNANSWERED:
                self.columns.progress[row] = seen.line
            if not (self._is_acp and method == "session/update" and _begins_or_ends_tool_call(members)):
                return row
        return self._add_orphan(_NOTIFICATION, seen, method, session, row, target_of(method, members))

    def _named_by(
        self, method: str, params: dict[str, Any], client: bool, session: int, exchange: ExchangeState | None
    ) -> int:
        """Return the row of the call that a notification refers to by a token or id; 0 if there is none.

        A cancellation ends the call.
        """
        if method == _PROGRESS:
            token = params.get("progressToken")
            if type(token) is int or type(token) is str:
                if row := self._open.with_token((not client, session, token)):
                    self.touch(row)
                return row
        elif method in ("notifications/cancelled", "$/cancel_request"):
            return self._cancel_request(params.get("requestId"), client, exchange)
        elif self._is_acp and method == "session/cancel":
            if row := self._prompts.get(session, 0):
                self._set_cancelled(row)
            return row
        elif type(meta := params.get("_meta")) is dict and SUBSCRIPTION_ID_KEY in meta:
            id = cast("dict[str, Any]", meta)[SUBSCRIPTION_ID_KEY]
            if type(id) is int or type(id) is str:
                return self._open.by_key[not client].get(self._key_of(id, exchange), 0)
        return 0

    def _key_of(self, id: RequestId, exchange: ExchangeState | None) -> Key:
        """Return the key by which a message in another exchange refers to a request."""
        return id if exchange is None else self._keys_in(exchange, id)[1]

    def _cancel_request(self, id: Any, client: bool, exchange: ExchangeState | None) -> int:
        if type(id) is not int and type(id) is not str:
            return 0
        if row := self._open.give_up(self._key_of(id, exchange), client):
            self._set_cancelled(row)
        return row

    def _set_cancelled(self, row: int) -> None:
        if self.columns.outcome[row] == _UNANSWERED:
            self.columns.outcome[row] = _CANCELLED
            self.columns.latency_ns[row] = max(self.last_ns - self.columns.started_ns[row], 0)
            self.touch(row)

    def _certain_parent(self, exchange: ExchangeState | None, session: int) -> int:
        """Return the row of the only call that a record of the server can belong to; 0 if uncertain."""
        if exchange is not None:
            return exchange.call
        if self._is_acp:
            row = self._prompts.get(session, 0)
            return 0 if self.columns.answer_line[row] else row
        waiting = self._open.by_key[True]
        return next(iter(waiting.values())) if len(waiting) == 1 else 0

    def _add_orphan(
        self,
        kind: int,
        seen: Seen,
        method: str = "",
        session: int | None = None,
        parent: int = 0,
        target: str | None = None,
    ) -> int:
        """Add a row for a record that is not part of a request, and return its number.

        What is not a message has no row of its own within an exchange that has a row. ``parent`` is the row
        of the call during which the record was sent.
        """
        exchange = seen.exchange
        is_of_exchange = exchange is not None and (exchange.row or (exchange.is_early and not seen.client))
        if exchange is not None and is_of_exchange and kind == _NOT_A_MESSAGE:
            return exchange.row  # for example the plain text of an HTTP error
        if session is None:
            session = exchange.session if exchange is not None else self._session_number("")
        columns = self.columns
        name = columns.number_of(method, target)
        kind |= 0 if seen.client else FROM_SERVER
        row = columns.add(kind, seen.line, seen.at_ns, name, min(seen.size, LARGEST), session, _NONE, parent)
        self.touch(row)
        return row

    def touch(self, row: int) -> None:
        """Mark a row as new or changed."""
        if row < self.first_changed or not self.first_changed:
            self.first_changed = row

    # Sessions

    def _session_number(self, name: str) -> int:
        """Return the number of the session ``name``; add the session if it is new.

        Return 0 for a new one beyond ``_MAX_SESSIONS``.
        """
        number = self._session_numbers.get(name)
        if number is None:
            if type(name) is not str:
                raise TypeError("a session whose name is no text")  # ``Scan.feed`` raises the final error
            if len(self.sessions) >= _MAX_SESSIONS:
                return 0
            number = self._session_numbers[name] = len(self.sessions)
            self.sessions.append(SessionFacts(name, "acp" if self._is_acp else "mcp"))
        return number

    def _acp_session(self, params: Any) -> int:
        """Return the number of the session of a message on stdio. In ACP the params name the session."""
        return self._session_number(acp.session_in(params) if self._is_acp else "")

    def _take_initialize(self, params: dict[str, Any], session: int) -> None:
        if acp.is_initialize(params):
            self._is_acp = True
            for facts in self.sessions:
                facts.protocol = "acp"
        self.sessions[session].take_initialize(params)


def _begins_or_ends_tool_call(params: dict[str, Any]) -> bool:
    """Whether an ACP update announces a tool call or its end. Such an update is a row of its own."""
    update: Any = params.get("update")
    if type(update) is not dict:
        return False
    members = cast("dict[str, Any]", update)
    kind = members.get("sessionUpdate")
    is_end = members.get("status") in ("completed", "failed")
    return kind == "tool_call" or (kind == "tool_call_update" and is_end)


def _exact_id(message: dict[str, Any], line: bytes) -> RequestId | None:
    """Return the id of a message whose parsed id is neither a string nor an integer; ``None`` if unusable.

    The fast parser reads an integer of more than 64 bits as a float, so the message is parsed again.
    """
    if "id" not in message:
        return None
    frame = decode(line) if line.startswith(b'{"type"') else Frame(0, CLIENT, line)
    single = frame.message if isinstance(frame, Frame) else None
    id = getattr(single, "id", None)
    return id if type(id) is int or type(id) is str else None
