"""What is said while a recorded client is played: the live session, and which requests are open in it."""

from dataclasses import dataclass
from typing import Final, TypeAlias

from mcpproxy.protocol.jsonrpc import RequestId, Single
from mcpproxy.replay.recording import Exchange, RecordedSession, SessionMessage
from mcpproxy.session.frame import Headers, RequestHead, Sender, SseEvent

Key: TypeAlias = tuple[type, RequestId]
"""An id with its JSON type: 1 and "1" are two."""


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """An open request: as it was recorded, and as it was sent. ``is_page``: one that goes on with a list."""

    recorded: SessionMessage
    live: SessionMessage
    is_page: bool = False


class LiveTranscript:
    """The live session as it grows. ``open`` are the client's requests without an answer yet."""

    def __init__(self, recorded: RecordedSession) -> None:
        self.session: Final = RecordedSession(recorded.name)
        self.open: Final[dict[Key, OpenRequest]] = {}
        self._last_exchange = max(recorded.exchanges, default=0)
        self._ids = 0

    def keep(
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
        entry = SessionMessage(index, index + 1, sender, message, raw, now_ns, place, 0, exchange, event)
        self.session.messages.append(entry)
        return entry

    def open_exchange(self, number: int, request: RequestHead) -> None:
        """Add an HTTP exchange whose request goes like a recorded one."""
        self.session.exchanges[number] = Exchange(number, request, len(self.session.messages))

    def drop_exchange(self, number: int) -> None:
        """Its request is not sent after all."""
        self.session.exchanges.pop(number, None)

    def head(self, number: int, status: int, headers: Headers) -> None:
        """The head of an answer has come."""
        if exchange := self.session.exchanges.get(number):
            exchange.status, exchange.headers = status, headers

    def another_exchange(self, like: Exchange | None) -> int:
        """The number of an exchange that was not recorded; 0 on stdio."""
        if like is None:
            return 0
        self._last_exchange += 1
        self.open_exchange(self._last_exchange, like.request)
        return self._last_exchange

    def unused_id(self) -> str:
        """An id that no recorded request has."""
        self._ids += 1
        return f"replayed-{self._ids}"

    def closed(self, exchange: int) -> list[OpenRequest]:
        """The requests that will not be answered any more, now that their exchange is over."""
        gone = [key for key, asked in self.open.items() if asked.live.exchange == exchange]
        return [self.open.pop(key) for key in gone]
