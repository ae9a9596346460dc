"""The messages of a live session in which a recorded client is replayed, and its open requests."""

from dataclasses import dataclass
from typing import Final

from mcpproxy.judge.session.frame import Headers, RequestHead, Sender, SseEvent
from mcpproxy.judge.session.unanswered_requests import UnansweredRequests
from mcpproxy.peers.replay.recording import Exchange, RecordedSession, SessionMessage
from mcpproxy.protocol.jsonrpc import Single


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """An open request of the client, as recorded and as sent.

    ``is_page`` is true for a request for a further page of a list, which the recorded server did not have;
    ``recorded`` is then the recorded request for an earlier page.
    """

    recorded: SessionMessage
    live: SessionMessage
    is_page: bool = False


class LiveTranscript:
    """The live session so far. ``open`` are the client's unanswered requests."""

    def __init__(self, recorded: RecordedSession) -> None:
        self.session: Final = RecordedSession(recorded.name)
        self.open: Final[UnansweredRequests[OpenRequest]] = UnansweredRequests()
        self._last_exchange = max(recorded.exchanges, default=0)
        self._ids = 0

    def add(
        self,
        sender: Sender,
        message: Single,
        raw: bytes,
        now_ns: int,
        exchange: int = 0,
        event: SseEvent | None = None,
        answers: OpenRequest | None = None,
    ) -> SessionMessage:
        """Add a message to the session, and return it as an entry of the session.

        ``now_ns`` is when it was sent or came, ``exchange`` and ``event`` are the HTTP exchange and the SSE
        event that it is in, and ``answers`` is the request that it answers.
        """
        index = len(self.session.messages)
        answered_index = answers.live.index if answers else None
        entry = SessionMessage(
            index,
            index + 1,
            sender,
            message,
            raw,
            at_ns=now_ns,
            answers=answered_index,
            exchange=exchange,
            event=event,
        )
        self.session.messages.append(entry)
        return entry

    def open_exchange(self, number: int, request: RequestHead) -> None:
        """Add an HTTP exchange, whose request has the head of a recorded one."""
        self.session.exchanges[number] = Exchange(number, request, len(self.session.messages))

    def drop_exchange(self, number: int) -> None:
        """Remove an exchange whose request is not sent."""
        self.session.exchanges.pop(number, None)

    def set_head(self, number: int, status: int, headers: Headers) -> None:
        """Set the status and headers of a response."""
        if exchange := self.session.exchanges.get(number):
            exchange.status, exchange.headers = status, headers

    def new_exchange(self, recorded: Exchange | None) -> int:
        """Add an exchange that was not recorded, with the head of ``recorded``; return its number.

        ``recorded`` is ``None`` if the client was recorded on stdio; then the number is 0.
        """
        if recorded is None:
            return 0
        self._last_exchange += 1
        self.open_exchange(self._last_exchange, recorded.request)
        return self._last_exchange

    def unused_id(self) -> str:
        """Return a new id, of a form that recorded requests do not usually have."""
        self._ids += 1
        return f"replayed-{self._ids}"

    def take_unanswered(self, exchange: int) -> list[OpenRequest]:
        """Remove and return the open requests of an exchange that has ended."""
        return self.open.take_if(lambda open_request: open_request.live.exchange == exchange)
