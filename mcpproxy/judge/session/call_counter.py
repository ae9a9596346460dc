"""Count the calls of a recording, and how they ended, while its events pass.

A call is a request of either peer. A recorder (the process that writes a recording) cannot keep all calls, so
this module keeps only calls that may still get an answer; the others are only counted. The result equals that
of the index of the complete recording (``read.view.summaries.call_outcomes``).
"""

from typing import Final, TypeAlias

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.session.frame import (
    CLIENT,
    SERVER,
    ExchangeEnd,
    FaultMark,
    Frame,
    Gap,
    Note,
    RequestHead,
    ResponseHead,
    Sender,
)
from mcpproxy.judge.session.outcomes import (
    PROBE,
    UNKNOWN,
    CallCounts,
    Outcome,
    count_calls,
    outcome_from_us,
    outcome_of,
    status_outcome,
    unread_outcome,
)
from mcpproxy.judge.session.redirects import Redirects, location_of
from mcpproxy.protocol import acp
from mcpproxy.protocol.jsonrpc import (
    Absent,
    Batch,
    ErrorResponse,
    Message,
    Notification,
    Request,
    RequestId,
    Response,
)
from mcpproxy.protocol.mcp_in_acp import WRAPPERS, Innermost, innermost
from mcpproxy.protocol.message_parts import as_object, leading_result_id, member, singles
from mcpproxy.protocol.meta_keys import VERSION_KEY

MAX_OPEN: Final = 1 << 16
"""The number of requests that are kept until their answers come. Above it, those with an outcome are
forgotten; if more than half as many are then left, the count is given up."""

_UNREAD_RESULT: Final = Response({}, None, None)
"""Stands for a result that was recorded in pieces, of which the first shows the id."""

_OK: Final = Outcome.OK
_UNANSWERED: Final = Outcome.UNANSWERED
_SPECIAL_METHODS: Final = WRAPPERS.union((PROBE,))
"""Methods for which the outcome also depends on the innermost method: that of the message in a wrapper."""
_BY_HTTP: Final = (Outcome.HTTP_ERROR, Outcome.DECLINED, Outcome.UNREADABLE)
"""Outcomes that HTTP alone may show. A JSON-RPC message that answers the call replaces them."""

_ANSWERS: Final = (Response, ErrorResponse)

_Key: TypeAlias = RequestId | tuple[int | str, RequestId]
"""The id of a request; over HTTP the id with the number of the exchange, or with the name of the session."""


class _Call:
    """A request. It has no ``__init__``, because that would triple the time to make it."""

    outcome: Outcome = _UNANSWERED
    sender: Sender = CLIENT
    """The sender of the request; it is set only if the request met a fault (see ``FaultMark``)."""
    asked: Innermost = UNKNOWN
    """The innermost method of the request; it is set only for ``_SPECIAL_METHODS``."""


@slotted(eq=False)
class _Exchange:
    """An HTTP exchange. ``calls`` are the client's requests in it.

    ``is_other`` is set if the exchange does not carry messages: it is not a POST to the endpoint or to where
    a redirect leads, or it was answered before its body was sent. ``is_unread`` is set if a part of the
    response could not be read.
    """

    target: str = ""
    redirected: tuple[int, ...] = ()
    """The earlier exchanges whose redirects lead to the target of this one."""
    calls: list[_Call] = field(default_factory=list[_Call])
    is_stateless: bool = False
    error: ResponseHead | None = None
    """The HTTP error that ends the calls. The request with the calls may be recorded after it."""
    has_body: bool = False
    is_other: bool = False
    status: int = 0
    is_unread: bool = False


class CallCounter:
    """Counts the calls of one recording. Call ``count_event`` once for each event, in order."""

    def __init__(self) -> None:
        self._total = 0
        self._ended: Final = dict.fromkeys(Outcome, 0)
        """By outcome: the number of calls, without those that succeeded or are unanswered."""
        self._succeeded = 0
        self._open: Final[tuple[dict[_Key, _Call], dict[_Key, _Call]]] = ({}, {})
        """The requests of the server (at index 0) and of the client (1) that may still get an answer."""
        self._exchanges: Final[dict[int, _Exchange]] = {}
        self._in_pieces: Final[set[tuple[int, str]]] = set()
        """(Exchange, sender) of each message whose last piece has not come yet."""
        self._faulted: Final[dict[_Key, _Call]] = {}
        """By number of a fault: the call whose request met the fault."""
        self._redirects: Final = Redirects()
        self._prompts: Final[dict[str, _Call]] = {}
        """In ACP, by session: the call of its latest prompt."""
        self._is_acp = False
        self._is_lost = False

    @property
    def counts(self) -> CallCounts | None:
        """The numbers so far; ``None`` if calls were missed, or too many were open."""
        return None if self._is_lost else count_calls(self.outcomes)

    @property
    def outcomes(self) -> dict[Outcome, int]:
        """By outcome: the number of calls so far."""
        unanswered = self._total - self._succeeded - sum(self._ended.values())
        return self._ended | {_OK: self._succeeded, _UNANSWERED: unanswered}

    def lose_count(self) -> None:
        """Note that a part of the recording is missing, so that ``counts`` is ``None`` from now on."""
        self._is_lost = True

    def count_event(self, event: object, session: str = "") -> None:
        """Count the calls in an event of any kind. Over HTTP ``session`` is the name of its session."""
        match event:
            case Frame():
                self.count_frame(event, session)
            case RequestHead(method=method, endpoint=endpoint, exchange=number, target=target):
                redirected = self._redirects.to(target)
                is_other = method != "POST" or not (endpoint or redirected)
                self._exchanges[number] = _Exchange(target, redirected, is_other=is_other)
            case ResponseHead(exchange=number) if event.status >= 200 and number in self._exchanges:
                self._apply_status(self._exchanges[number], event)
            case Note(exchange=number) | Gap(exchange=number) if number in self._exchanges:
                self._exchanges[number].is_unread = True
            case ExchangeEnd(exchange=number) if exchange := self._exchanges.pop(number, None):
                for call in exchange.calls if exchange.is_unread else ():
                    self._end_unread_call(call, exchange.status)
                if exchange.is_stateless and event.cut and event.by == CLIENT:
                    for call in exchange.calls:  # closing the stream cancels the request
                        self._cancel_call(call)
            case _:
                pass

    def count_frame(self, frame: Frame, session: str = "") -> None:
        """Count the calls in a frame of any transport."""
        is_touched = frame.by_proxy or frame.refused or frame.fault is not None
        if frame.exchange or is_touched or frame.continues or not frame.terminated or self._in_pieces:
            self._count_special_frame(frame, session)
        else:
            self._count_message(frame.parsed or frame.message, frame, None, session)

    def _count_special_frame(self, frame: Frame, session: str) -> None:
        """Count the calls in a frame over HTTP, touched by mcpproxy, unterminated, or while pieces come."""
        exchange = None
        if frame.exchange:
            exchange = self._exchanges.setdefault(frame.exchange, _Exchange())
            exchange.has_body |= frame.sender == CLIENT
        is_ours = frame.by_proxy or frame.refused
        if is_ours and frame.fault is not None and not self._is_our_answer(frame, frame.fault):
            return  # a frame that mcpproxy sent in place of a message
        if frame.continues or (frame.exchange, frame.sender) in self._in_pieces:
            self._count_piece(frame, exchange, session)
            return
        if frame.is_undelivered:
            return
        call = self._count_message(frame.message, frame, exchange, session)
        if frame.fault is not None and not is_ours:
            self._note_fault(frame.fault, frame.sender, call)

    def _note_fault(self, fault: FaultMark, sender: Sender, call: _Call | None) -> None:
        """Note the call whose message met a fault; ``None`` if the message belongs to no call."""
        if call is None or call.outcome is not _UNANSWERED:
            self._faulted.pop(fault.number, None)
            return
        call.sender = sender
        self._faulted[fault.number] = call
        if len(self._faulted) > MAX_OPEN:
            self._forget_ended_calls(self._faulted)

    def _is_our_answer(self, frame: Frame, fault: FaultMark) -> bool:
        """Whether a frame of mcpproxy is its answer to a request that met a fault and is unanswered."""
        call = self._faulted.get(fault.number)
        return call is not None and call.outcome is _UNANSWERED and frame.answers_instead(call.sender)

    def _count_piece(self, frame: Frame, exchange: _Exchange | None, session: str) -> None:
        """Count a piece of a message that is too long for one record. The first piece may show its id."""
        place = (frame.exchange, frame.sender)
        if place not in self._in_pieces:
            if (id := leading_result_id(frame.raw)) is not None:
                self._count_answer(_UNREAD_RESULT, id, frame, exchange, session)
            elif exchange is not None and frame.sender == SERVER:
                exchange.is_unread = True
        if frame.continues:
            self._in_pieces.add(place)
        else:
            self._in_pieces.discard(place)

    def _count_message(
        self, message: Message, frame: Frame, exchange: _Exchange | None, session: str
    ) -> _Call | None:
        """Count the messages of a frame. Return the call that the first requests or answers, or ``None``."""
        if isinstance(message, Request):
            return self._count_request(message, frame, exchange, session)
        if isinstance(message, _ANSWERS):
            return self._count_answer(message, message.id, frame, exchange, session)
        if isinstance(message, Notification):
            self._count_notification(message, frame, exchange, session)
        elif isinstance(message, Batch):
            calls = [self._count_message(item, frame, exchange, session) for item in singles(message)]
            return calls[0] if calls else None
        return None

    def _count_request(
        self, request: Request, frame: Frame, exchange: _Exchange | None, session: str
    ) -> _Call:
        """Count a request, unless it repeats a redirected request. Return its call."""
        from_client = frame.sender == CLIENT
        repeated = self._repeated_call(exchange, request.id) if exchange and from_client else None
        if repeated is not None:
            call = repeated
        else:
            call = _Call()
            self._total += 1
            if request.method in _SPECIAL_METHODS:
                call.asked = innermost(request.method, request.params)
        if frame.by_proxy or frame.refused:
            self._end_call(call, Outcome.REFUSED)
        open_calls = self._open[from_client]
        if exchange is None:
            if request.id is not None:
                open_calls[request.id] = call
            if request.method in acp.INITIALIZE and acp.is_initialize(as_object(request.params) or {}):
                self._is_acp = True
            elif self._is_acp and request.method == "session/prompt" and from_client:
                self._prompts[acp.session_in(request.params)] = call
                if len(self._prompts) > MAX_OPEN:
                    self._prompts.clear()
                    self._is_lost = True
        else:
            if request.id is not None:
                open_calls[frame.exchange, request.id] = open_calls[session, request.id] = call
            if from_client:
                exchange.calls.append(call)
                if exchange.error is not None:
                    self._end_by_status(call, exchange.error)
            if VERSION_KEY in (as_object(member(request.params, "_meta")) or ()):
                exchange.is_stateless = True
        if len(open_calls) > MAX_OPEN:
            self._forget_ended_calls(open_calls)
        return call

    def _repeated_call(self, exchange: _Exchange, id: RequestId | None) -> _Call | None:
        """Return the redirected call that an exchange repeats; ``None`` if there is none."""
        if id is None:
            return None
        keys, open_calls = ((number, id) for number in exchange.redirected), self._open[True]
        return next((call for key in keys if (call := open_calls.pop(key, None))), None)

    def _forget_ended_calls(self, open_calls: dict[_Key, _Call]) -> None:
        """Forget the calls that have an outcome. If too many are left, forget all, and give up the count."""
        for key in [key for key, call in open_calls.items() if call.outcome is not _UNANSWERED]:
            del open_calls[key]
        if len(open_calls) > MAX_OPEN // 2:
            open_calls.clear()
            self._is_lost = True

    def _count_answer(
        self,
        answer: Response | ErrorResponse,
        id: RequestId | Absent | None,
        frame: Frame,
        exchange: _Exchange | None,
        session: str,
    ) -> _Call | None:
        """End the call that an answer belongs to, and return the call; ``None`` if it is unknown."""
        from_client = frame.sender != CLIENT  # whether the request is the client's
        open_calls = self._open[from_client]
        if not isinstance(id, int | str):
            # An error for a request that the server could not read has no id, but it is in the same exchange.
            calls = exchange.calls if exchange is not None and from_client else ()
            call = calls[0] if len(calls) == 1 else None
        elif exchange is None:
            call = open_calls.pop(id, None)
        else:
            call = open_calls.pop((frame.exchange, id), None) or open_calls.get((session, id))
            if call is not None and open_calls.get((session, id)) is call:
                del open_calls[session, id]
        from_us = frame.by_proxy or frame.refused
        if call is not None and (
            call.outcome is _UNANSWERED
            or call.outcome in _BY_HTTP
            or (from_us and call.outcome is Outcome.REFUSED)  # its request was withheld
        ):
            is_ours = from_us and call.outcome not in _BY_HTTP
            is_failure = call.outcome is Outcome.HTTP_ERROR  # its status rules out a mere decline
            outcome = outcome_of(answer, UNKNOWN if is_failure else call.asked)
            self._end_call(call, outcome_from_us(outcome) if is_ours else outcome)
        return call

    def _count_notification(
        self, message: Notification, frame: Frame, exchange: _Exchange | None, session: str
    ) -> None:
        """End the call that a notification cancels, if it cancels one."""
        if message.method in ("notifications/cancelled", "$/cancel_request"):
            id = member(message.params, "requestId")
            if type(id) is int or type(id) is str:
                key = id if exchange is None else (session, id)
                self._cancel_call(self._open[frame.sender == CLIENT].get(key))
        elif self._is_acp and message.method == "session/cancel":
            self._cancel_call(self._prompts.get(acp.session_in(message.params)))

    def _apply_status(self, exchange: _Exchange, head: ResponseHead) -> None:
        """Note a redirect. An HTTP error ends the calls; a message in its body may replace their outcome."""
        exchange.status = head.status
        exchange.is_other |= not exchange.has_body
        if exchange.calls and (location := location_of(head)) is not None:
            self._redirects.add(head.exchange, exchange.target, location)
        if head.status < 400:
            return
        exchange.error = head
        for call in () if exchange.is_other else exchange.calls:
            self._end_by_status(call, head)

    def _end_by_status(self, call: _Call, error: ResponseHead) -> None:
        if call.outcome is _UNANSWERED:
            self._end_call(call, status_outcome(call.asked, error.status, by_proxy=error.by_proxy))

    def _end_unread_call(self, call: _Call, status: int) -> None:
        outcome = unread_outcome(status)
        if call.outcome is _UNANSWERED and outcome is not _UNANSWERED:
            self._end_call(call, outcome)

    def _cancel_call(self, call: _Call | None) -> None:
        if call is not None and call.outcome is _UNANSWERED:
            self._end_call(call, Outcome.CANCELLED)

    def _end_call(self, call: _Call, outcome: Outcome) -> None:
        if call.outcome is not _UNANSWERED:
            self._ended[call.outcome] -= 1
        if outcome is _OK:  # the usual case, which is faster without looking up the outcome
            self._succeeded += 1
        else:
            self._ended[outcome] += 1
        call.outcome = outcome
