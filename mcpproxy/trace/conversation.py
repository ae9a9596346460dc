"""Frames as a conversation: which answer belongs to which request, and how long the answer took.

The result is for display. An answer that matches no request is shown as such, and is no finding. Only
unanswered requests are kept in memory, by their sender and id. Over HTTP many sessions use the same ids: an
answer belongs to the request of its own exchange, or else to a request of its session.
"""

from typing import Final, TypeAlias

from mcpproxy.base.slotted import slotted
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
from mcpproxy.protocol.message_parts import singles
from mcpproxy.session.frame import Frame, Sender, other
from mcpproxy.trace.session_labels import SessionNames

_Scope: TypeAlias = int | str
"""Where an id identifies a request: the number of an exchange, or the name of a session (empty on stdio)."""


@slotted(frozen=True)
class Turn:
    """One message of a frame, in its place in the conversation.

    ``method`` is the method of the message or, for an answer, of the request. For an answer, ``answers`` is
    the frame number of the request, and ``latency_ns`` the time between the two. All three are ``None`` for
    an answer that matches no request. ``body`` is the params, result or error; for a value that is not a
    message, ``body`` is the value and ``flaw`` says what is wrong with it.
    """

    kind: Kind
    method: str | None = None
    id: RequestId | Absent | None = ABSENT
    answers: int | None = None
    latency_ns: int | None = None
    body: "JSON | Absent" = ABSENT
    flaw: str | None = None


@slotted(frozen=True)
class _OpenRequest:
    """A request that has no answer yet, and the scopes in which an answer may match it."""

    seq: int
    method: str
    at_ns: int
    scopes: "tuple[_Scope, ...]"


class Conversation:
    """Matches the answers of one recording to its requests. Pass all events to ``track_session`` and all
    frames to ``turns``, in order."""

    def __init__(self) -> None:
        self._open_requests: Final[dict[tuple[_Scope, Sender, RequestId], _OpenRequest]] = {}
        self._faulted: Final[dict[int, _OpenRequest]] = {}
        """Number of a fault -> the request whose answer met it."""
        self._names: Final = SessionNames()

    def track_session(self, event: object) -> str:
        """Take the next event of any kind and return the name of its session, empty if unknown.

        ``turns`` tracks its frame, too. To track a frame twice changes nothing.
        """
        return self._names.track(event)

    def turns(self, frame: Frame) -> tuple[Turn, ...]:
        """Return the messages in ``frame``: one, or all those of a batch."""
        return tuple(self._turn(frame, single) for single in singles(frame.message))

    def _turn(self, frame: Frame, message: Single) -> Turn:
        match message:
            case Request(method=method, id=id, params=params):
                if id is not None:
                    open_request = _OpenRequest(frame.seq, method, frame.observed_at_ns, self._scopes(frame))
                    for scope in open_request.scopes:
                        self._open_requests[scope, frame.sender, id] = open_request
                return Turn("request", method, id, body=params)
            case Notification(method=method, params=params):
                return Turn("notification", method, body=params)
            case Response(id=id, result=result):
                return self._answer(frame, "response", id, result)
            case ErrorResponse(id=id, error=error):
                return self._answer(frame, "error", id, error)
            case Malformed(flaw=flaw, value=value):
                return Turn("malformed", body=value, flaw=flaw.value)

    def _answer(self, frame: Frame, kind: Kind, id: RequestId | Absent | None, body: "JSON | Absent") -> Turn:
        open_request = None
        if isinstance(id, int | str):
            open_request = self._remove_answered(frame, other(frame.sender), id)
        if (fault := frame.fault) is not None:
            if open_request is not None:
                self._faulted[fault.number] = open_request
            else:  # what was given in the place of an answer
                open_request = self._faulted.get(fault.number)
        if open_request is None:
            return Turn(kind, id=id, body=body)
        latency_ns = frame.observed_at_ns - open_request.at_ns
        return Turn(kind, open_request.method, id, open_request.seq, latency_ns, body)

    def _remove_answered(self, frame: Frame, requestor: Sender, id: RequestId) -> _OpenRequest | None:
        """Remove and return the open request that ``frame`` answers."""
        for scope in self._scopes(frame):
            if (open_request := self._open_requests.get((scope, requestor, id))) is not None:
                for other_scope in open_request.scopes:
                    if self._open_requests.get((other_scope, requestor, id)) is open_request:
                        del self._open_requests[other_scope, requestor, id]
                return open_request
        return None

    def _scopes(self, frame: Frame) -> "tuple[_Scope, ...]":
        """Return the scopes in which a request and its answer can match, the narrowest first."""
        return (frame.exchange, self._names.track(frame)) if frame.exchange else ("",)
