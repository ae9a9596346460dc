"""Frames (lines, bodies, events of a stream) as a conversation: which answer belongs to which request, and
how long the answer took.

The result is for display. An answer that matches no request is shown as such, and is no finding (violation of
a rule). Only unanswered requests, and those whose answers met a fault, are kept in memory. Over HTTP an
answer belongs to the request of its own exchange, or else to a request of its session.
"""

from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.judge.session.frame import Frame, other
from mcpproxy.judge.session.outcomes import latency_ns
from mcpproxy.judge.session.unanswered_requests import ONE_SESSION, Scope, UnansweredRequests
from mcpproxy.protocol.jsonrpc import (
    ABSENT,
    JSON,
    Absent,
    ErrorResponse,
    Kind,
    Malformed,
    Notification,
    Request,
    RequestId,
    Response,
    Single,
)
from mcpproxy.protocol.message_parts import singles, target_of
from mcpproxy.record.trace.session_labels import SessionNames


@slotted(frozen=True)
class Turn:
    """One message of a frame, in its place in the conversation.

    ``method`` is the method of the message or, for an answer, of the request; ``target`` is the tool, prompt
    or resource that the request is about. For an answer, ``answers`` is the frame number of the request, and
    ``latency_ns`` the time between the two. All four are ``None`` for an answer that matches no request.
    ``latency_ns`` is also ``None`` in a recording without times.
    An answer in an SSE event that was cut off names its request, too, although no client accepts it.
    ``body`` is the params, result or error; for a value that is not a message, ``body`` is the value and
    ``flaw`` says what is wrong with it.
    """

    kind: Kind
    method: str | None = None
    id: RequestId | Absent | None = ABSENT
    answers: int | None = None
    latency_ns: int | None = None
    body: "JSON | Absent" = ABSENT
    flaw: str | None = None
    target: str | None = None


@slotted(frozen=True)
class _OpenRequest:
    """A request that has no answer yet."""

    seq: int
    method: str
    at_ns: int
    target: str | None
    exchange: int


class Conversation:
    """Matches the answers of one recording to its requests. Pass all events to ``track_session`` and all
    frames to ``turns``, in order."""

    def __init__(self) -> None:
        self._unanswered: Final[UnansweredRequests[_OpenRequest]] = UnansweredRequests()
        self._faulted: Final[dict[int, _OpenRequest]] = {}
        """The number of a fault (a change of the traffic that the user asked for) -> the request whose answer
        met it."""
        self._names: Final = SessionNames()

    def track_session(self, event: object) -> str:
        """Take the next event of any kind and return the name of its session, empty if unknown.

        ``turns`` tracks its frame, too. Tracking a frame twice changes nothing.
        """
        return self._names.track(event)

    def turns(self, frame: Frame) -> tuple[Turn, ...]:
        """Return the messages in ``frame``: one, or all those of a batch."""
        # First, because an endpoint event, which is no message, names its session.
        scopes = self._scopes(frame)
        return tuple(self._turn_of(frame, single, scopes) for single in singles(frame.message))

    def _turn_of(self, frame: Frame, message: Single, scopes: tuple[Scope, ...]) -> Turn:
        match message:
            case Request(method=method, id=id, params=params):
                target = target_of(method, params)
                open_request = _OpenRequest(frame.seq, method, frame.observed_at_ns, target, frame.exchange)
                self._unanswered.add(frame.sender, id, open_request, scopes)
                return Turn("request", method, id, body=params, target=target)
            case Notification(method=method, params=params):
                return Turn("notification", method, body=params)
            case Response(id=id, result=result):
                return self._turn_of_answer(frame, "response", id, result, scopes)
            case ErrorResponse(id=id, error=error):
                return self._turn_of_answer(frame, "error", id, error, scopes)
            case Malformed(flaw=flaw, value=value):
                return Turn("malformed", body=value, flaw=flaw.value)

    def _turn_of_answer(
        self,
        frame: Frame,
        kind: Kind,
        id: RequestId | Absent | None,
        body: "JSON | Absent",
        scopes: tuple[Scope, ...],
    ) -> Turn:
        take = self._unanswered.find if frame.is_undelivered else self._unanswered.take
        open_request = take(other(frame.sender), id, scopes)
        if open_request is None and frame.by_proxy and frame.exchange:
            # An answer of mcpproxy in the server's place has no id. It is about the request of its exchange.
            posted = self._unanswered.take_if(lambda request: request.exchange == frame.exchange)
            open_request = posted[0] if len(posted) == 1 else None
        if (fault := frame.fault) is not None:
            if open_request is not None:
                self._faulted[fault.number] = open_request
            else:  # this answer was given in place of another one, which met the fault
                open_request = self._faulted.get(fault.number)
        if open_request is None:
            return Turn(kind, id=id, body=body)
        took_ns = latency_ns(open_request.at_ns, frame.observed_at_ns)
        seq, target = open_request.seq, open_request.target
        return Turn(kind, open_request.method, id, seq, took_ns, body, target=target)

    def _scopes(self, frame: Frame) -> tuple[Scope, ...]:
        """Return the scopes in which a request and its answer can match, the narrowest first."""
        return (frame.exchange, self._names.track(frame)) if frame.exchange else ONE_SESSION
