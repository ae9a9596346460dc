"""The messages of a live session in which a recorded client is replayed, and its open requests."""

from dataclasses import dataclass
from typing import Final

from mcpproxy.protocol.jsonrpc import Single
from mcpproxy.replay.recording import Exchange, RecordedSession, SessionMessage, TypedId
from mcpproxy.session.frame import Headers, RequestHead, Sender, SseEvent


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """An open request, as recorded and as sent. ``is_page``: it asks for a further page of a list."""

    recorded: SessionMessage
    live: SessionMessage
    is_page: bool = False


class LiveTranscript:
    """The live session so far. ``open`` holds the client's unanswered requests."""

    def __init__(self, recorded: RecordedSession) -> None:
        self.session: Final = RecordedSession(recorded.name)
        self.open: Final[dict[TypedId, OpenRequest]] = {}
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
        """Add one message."""
        index = len(self.session.messages)
        place = answers.live.index if answers else None
        entry = SessionMessage(
            index,
            index + 1,
            sender,
            message,
            raw,
            at_ns=now_ns,
            answers=place,
            batch=0,
            exchange=exchange,
            event=event,
        )
        self.session.messages.append(entry)
        return entry

    def open_exchange(self, number: int, request: RequestHead) -> None:
        """Add an HTTP exchange that repeats a recorded request."""
        self.session.exchanges[number] = Exchange(number, request, len(self.session.messages))

    def drop_exchange(self, number: int) -> None:
        """Remove an exchange whose request is not sent."""
        self.session.exchanges.pop(number, None)

    def head(self, number: int, status: int, headers: Headers) -> None:
        """Set the status and headers of a response."""
        if exchange := self.session.exchanges.get(number):
            exchange.status, exchange.headers = status, headers

    def new_exchange(self, like: Exchange | None) -> int:
        """Add an exchange that was not recorded; return its number, or 0 on stdio."""
        if like is None:
            return 0
        self._last_exchange += 1
        self.open_exchange(self._last_exchange, like.request)
        return self._last_exchange

    def unused_id(self) -> str:
        """Return an id that no recorded request has."""
        self._ids += 1
        return f"replayed-{self._ids}"

    def take_unanswered(self, exchange: int) -> list[OpenRequest]:
        """Remove and return the open requests of an exchange that has ended."""
        gone = [key for key, asked in self.open.items() if asked.live.exchange == exchange]
        return [self.open.pop(key) for key in gone]
