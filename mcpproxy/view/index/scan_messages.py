"""Put JSON-RPC messages into the index: find the request of each answer, and the call of other messages."""

from typing import Any, Final, TypeAlias, cast

from mcpproxy.base.slotted import field, slotted
from mcpproxy.protocol import acp
from mcpproxy.protocol.jsonrpc import RequestId
from mcpproxy.session.frame import CLIENT, Frame
from mcpproxy.trace.decode import decode
from mcpproxy.view.calls import Kind, Outcome
from mcpproxy.view.index.columns import (
    FROM_SERVER,
    KINDS,
    LARGEST,
    NO_CODE,
    OUTCOMES,
    TARGETS,
    Columns,
    code_of,
)
from mcpproxy.view.index.peers import VERSION_META, SessionFacts

_REQUEST: Final = KINDS.index(Kind.REQUEST)
_ANSWER: Final = KINDS.index(Kind.ANSWER)
_NOTIFICATION: Final = KINDS.index(Kind.NOTIFICATION)
_NOT_A_MESSAGE: Final = KINDS.index(Kind.NOT_A_MESSAGE)
_OK: Final = OUTCOMES.index(Outcome.OK)
_TOOL_ERROR: Final = OUTCOMES.index(Outcome.TOOL_ERROR)
_RPC_ERROR: Final = OUTCOMES.index(Outcome.RPC_ERROR)
_HTTP_ERROR: Final = OUTCOMES.index(Outcome.HTTP_ERROR)
_INPUT_REQUIRED: Final = OUTCOMES.index(Outcome.INPUT_REQUIRED)
_NO_ANSWER: Final = OUTCOMES.index(Outcome.NO_ANSWER)
_CANCELLED: Final = OUTCOMES.index(Outcome.CANCELLED)
_REFUSED: Final = OUTCOMES.index(Outcome.REFUSED)
_NONE: Final = OUTCOMES.index(Outcome.NONE)

_PROGRESS: Final = "notifications/progress"
_SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"

_MAX_SESSIONS: Final = 60_000
_LONGEST_SESSION_ID: Final = 256

_Key: TypeAlias = int | str | tuple[int | str, RequestId]
"""A key of an open request. On stdio it is the id. Over HTTP a request has two keys: the number of the
exchange with the id, and the name of the session with the id."""


@slotted()
class ExchangeState:
    """What the index has to remember of a request of HTTP and its response until its end.

    ``row`` is the row that the exchange belongs to, 0 until it is known. ``lines`` are the lines that were
    read before it was known. ``requests`` are the rows of the JSON-RPC requests in the client's body.
    ``endpoint`` is whether it went to the MCP endpoint, ``by_proxy`` whether mcpproxy answered it itself.
    """

    number: int
    session: int = 0
    row: int = 0
    method: str = ""
    target: str = ""
    endpoint: bool = True
    started_ns: int = 0
    status: int = 0
    by_proxy: bool = False
    stateless: bool = False
    """Whether a JSON-RPC request in it names its protocol revision, so that there is no handshake."""
    lines: list[int] = field(default_factory=list[int])
    requests: list[int] = field(default_factory=list[int])

    @property
    def call(self) -> int:
        """The row of the only request that it carries; 0 if there is none, or more than one."""
        return self.requests[0] if len(self.requests) == 1 else 0


@slotted()
class Seen:
    """Where a message is in the recording, and how it was sent.

    ``client`` is whether the client sent it. ``line`` is the line of its record, ``size`` its bytes.
    ``exchange`` is the HTTP exchange that it is in. ``by_us`` is whether mcpproxy refused it or sent it
    itself.
    """

    client: bool
    line: int
    at_ns: int
    size: int
    exchange: ExchangeState | None = None
    by_us: bool = False


class MessageScan:
    """Puts messages into the columns. Ids are matched as in ``mcpproxy.trace.conversation``."""

    def __init__(self, columns: Columns) -> None:
        self.columns: Final = columns
        self.sessions: Final[list[SessionFacts]] = []
        self.tool_lists: Final[list[int]] = []
        """The rows of the requests ``tools/list`` that have a result."""
        self.last_ns = 0
        self.first_changed = 0
        """The lowest row that was added or changed since the user of this class set it to 0."""
        self._session_numbers: Final[dict[str, int]] = {}
        self._open: Final[tuple[dict[_Key, int], dict[_Key, int]]] = ({}, {})
        """Key -> row of the open request, for requests of the server and for requests of the client."""
        self._given_up: Final[tuple[dict[_Key, int], dict[_Key, int]]] = ({}, {})
        """The same for requests that were cancelled and may still be answered."""
        self._keys: Final[dict[int, tuple[_Key, ...]]] = {}
        """Over HTTP: row of an open request -> its keys."""
        self._tokens: Final[dict[tuple[bool, int, RequestId], int]] = {}
        """(Whether the client sent it, session, progress token) -> row of the open request."""
        self._token_of: Final[dict[int, tuple[bool, int, RequestId]]] = {}
        self._prompts: Final[dict[int, int]] = {}
        """In ACP: session -> row of its open prompt."""
        self._is_acp = False

    def _message(self, message: dict[str, Any], seen: Seen, line: bytes) -> int:
        """Add a message, and return the row that it belongs to. ``line`` is its record, or its own text."""
        method = message.get("method")
        id = message.get("id")
        if type(id) is not int and type(id) is not str and id is not None:
            id = _exact_id(message, line)
        if type(method) is str:
            if "result" in message or "error" in message:
                return self._orphan(_NOT_A_MESSAGE, seen)
            if "id" in message and not method.startswith("notifications/"):
                return self._request(method, id, message.get("params"), seen)
            return self._notification(method, message.get("params"), seen)
        if "method" not in message and ("result" in message or "error" in message or "id" in message):
            return self._answer(message, id, seen)
        return self._orphan(_NOT_A_MESSAGE, seen)

    def _request(self, method: str, id: RequestId | None, params: Any, seen: Seen) -> int:
        client, exchange = seen.client, seen.exchange
        columns, session, target, meta = self.columns, 0, None, None
        if exchange is not None:
            session = exchange.session
        elif not self.sessions or self._is_acp:  # MCP has only session 0 on stdio
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
            seen.line,
            seen.at_ns,
            columns.number_of(method, target),
            min(seen.size, LARGEST),
            session,
            _REFUSED if seen.by_us else _NO_ANSWER,
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

    def _answer(self, message: dict[str, Any], id: RequestId | None, seen: Seen) -> int:
        """Add a response or an error. Return the row of its request, or a new row if there is none."""
        client = seen.client
        row = self._answered(id, not client, seen.exchange)
        if not row:
            return self._orphan(_ANSWER, seen)
        columns = self.columns
        columns.answer_line[row] = seen.line
        columns.answer_bytes[row] = min(seen.size, LARGEST)
        columns.latency_ns[row] = max(seen.at_ns - columns.started_ns[row], 0)
        if row < self.first_changed or not self.first_changed:
            self.first_changed = row
        if columns.progress:
            columns.progress.pop(row, None)
        if row in self._token_of:
            self._tokens.pop(self._token_of.pop(row), None)
        outcome = _OK
        if "error" in message or "result" not in message:
            error = message.get("error")
            outcome = _RPC_ERROR
            columns.code[row] = code_of(
                cast("dict[str, Any]", error).get("code") if type(error) is dict else None
            )
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
            columns.outcome[row] = _REFUSED if seen.by_us else outcome
        elif columns.outcome[row] == _HTTP_ERROR:  # the body of the HTTP error is a JSON-RPC answer
            columns.outcome[row] = outcome
            if outcome != _RPC_ERROR:
                columns.code[row] = NO_CODE
        return row

    def _answered(self, id: RequestId | None, client: bool, exchange: ExchangeState | None) -> int:
        """Return the row of the open request with this id, and close it; 0 if there is none.

        ``client`` is whether the client sent the request.
        """
        if exchange is None:
            if id is None:
                return 0
            return self._open[client].pop(id, 0) or self._given_up[client].pop(id, 0)
        if id is None:
            # An error for a request that the server could not read has no id, but it is in the same exchange.
            row = exchange.call if client else 0
            row = row if self.columns.outcome[row] in (_NO_ANSWER, _HTTP_ERROR) else 0
        else:
            scopes = (exchange.number, id), (self.sessions[exchange.session].name, id)
            tables = (self._open[client], self._given_up[client])
            row = next((rows[key] for rows in tables for key in scopes if key in rows), 0)
        self._close_request(row, client)
        return row

    def _close_request(self, row: int, client: bool) -> None:
        for key in self._keys.pop(row, ()):
            for rows in (self._open[client], self._given_up[client]):
                if rows.get(key) == row:
                    del rows[key]

    def _notification(self, method: str, params: Any, seen: Seen) -> int:
        client, exchange = seen.client, seen.exchange
        members = cast("dict[str, Any]", params) if type(params) is dict else {}
        session = exchange.session if exchange is not None else self._acp_session(params)
        row = self._named_by(method, members, client, session, exchange)
        if not row and not client:
            row = self._parent(exchange, session)
        if row:
            if method == _PROGRESS and self.columns.outcome[row] == _NO_ANSWER:
                self.columns.progress[row] = seen.line
            if not (self._is_acp and method == "session/update" and _begins_or_ends_tool_call(members)):
                return row
        return self._orphan(_NOTIFICATION, seen, method, session, row)

    def _named_by(
        self, method: str, params: dict[str, Any], client: bool, session: int, exchange: ExchangeState | None
    ) -> int:
        """Return the row of the call that a notification names by a token or id; 0 if it names none."""
        if method == _PROGRESS:
            token = params.get("progressToken")
            if type(token) is int or type(token) is str:
                if row := self._tokens.get((not client, session, token), 0):
                    self.touch(row)
                return row
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
            self.columns.latency_ns[row] = max(self.last_ns - self.columns.started_ns[row], 0)
            self.touch(row)

    def _parent(self, exchange: ExchangeState | None, session: int) -> int:
        """Return the row of the only call that a record of the server can belong to; 0 if it is not
        certain."""
        if exchange is not None:
            return exchange.call
        if self._is_acp:
            row = self._prompts.get(session, 0)
            return 0 if self.columns.answer_line[row] else row
        waiting = self._open[True]
        return next(iter(waiting.values())) if len(waiting) == 1 else 0

    def _orphan(
        self, kind: int, seen: Seen, method: str = "", session: int | None = None, parent: int = 0
    ) -> int:
        """Add a row for a record that is not part of a request, and return its number.

        ``parent`` is the row of the call during which it was sent.
        """
        exchange = seen.exchange
        if exchange is not None and exchange.row and kind == _NOT_A_MESSAGE:
            return exchange.row  # for example the plain text of an HTTP error
        if session is None:
            session = exchange.session if exchange is not None else self._session("")
        columns = self.columns
        name = columns.number_of(method, None)
        kind |= 0 if seen.client else FROM_SERVER
        row = columns.add(kind, seen.line, seen.at_ns, name, min(seen.size, LARGEST), session, _NONE, parent)
        self.touch(row)
        return row

    def touch(self, row: int) -> None:
        """Note that a row is new or has changed."""
        if row < self.first_changed or not self.first_changed:
            self.first_changed = row

    # Sessions

    def _session(self, name: str) -> int:
        """Return the number of the session ``name``; add the session if it is new."""
        number = self._session_numbers.get(name)
        if number is None:
            if len(self.sessions) > _MAX_SESSIONS:
                return 0
            number = self._session_numbers[name] = len(self.sessions)
            self.sessions.append(SessionFacts(name, "acp" if self._is_acp else "mcp"))
        return number

    def _acp_session(self, params: Any) -> int:
        """Return the number of the session of a message on stdio. In ACP the params name the session."""
        if self._is_acp and type(params) is dict:
            name = cast("dict[str, Any]", params).get("sessionId")
            if type(name) is str and len(name) <= _LONGEST_SESSION_ID:
                return self._session(name)
        return self._session("")

    def _initialize(self, params: dict[str, Any], session: int) -> None:
        if acp.is_initialize(params):
            self._is_acp = True
            for facts in self.sessions:
                facts.protocol = "acp"
        self.sessions[session].take_initialize(params)

    def _result_facts(self, result: dict[str, Any], row: int) -> None:
        """Take from a result of the server its name, the agreed revision, and the id of a new ACP session."""
        columns = self.columns
        self.sessions[columns.session[row]].take_result(result)
        if self._is_acp and "sessionId" in result:
            columns.session[row] = self._acp_session(result)


def _begins_or_ends_tool_call(params: dict[str, Any]) -> bool:
    """Whether an update of ACP announces a tool call or says how it ended. Such an update is a row."""
    update: Any = params.get("update")
    if type(update) is not dict:
        return False
    members = cast("dict[str, Any]", update)
    kind = members.get("sessionUpdate")
    is_end = members.get("status") in ("completed", "failed")
    return kind == "tool_call" or (kind == "tool_call_update" and is_end)


def _exact_id(message: dict[str, Any], line: bytes) -> RequestId | None:
    """Return the id of a message whose parsed id is neither a text nor an integer.

    The parser reads an integer of more than 64 bits as a float.
    """
    if "id" not in message:
        return None
    frame = decode(line) if line.startswith(b'{"type"') else Frame(0, CLIENT, line)
    single = frame.message if isinstance(frame, Frame) else None
    id = getattr(single, "id", None)
    return id if type(id) is int or type(id) is str else None
