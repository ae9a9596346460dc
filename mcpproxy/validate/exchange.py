"""One HTTP exchange of our client's, as far as it has come: what was said, and what is heard in return."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from mcpproxy.framing.sse import SseFramer
from mcpproxy.session.frame import Frame

Headers = Sequence[tuple[str, str]]

_RETRY_S: Final = 1.0


class Listener(Protocol):
    """The MCP session that an exchange belongs to."""

    session_id: str

    def on_frame(self, frame: Frame) -> None:
        """The server sent ``frame``."""
        ...


@dataclass(eq=False, slots=True)
class ClientExchange:
    """One exchange as the tape saw it. ``number`` and ``status`` are 0 while there is none.

    ``seq`` is the frame number of what we said, or of the request's head if that had no body; ``frames`` are
    the server's frames, ``heads`` the numbers of both heads. ``failure`` says why it did not come to its end.
    """

    wire: "Listener | None" = None
    number: int = 0
    seq: int = 0
    status: int = 0
    headers: Headers = ()
    frames: list[Frame] = field(default_factory=list[Frame])
    heads: list[int] = field(default_factory=list[int])
    last_id: str = ""
    retry_s: float = _RETRY_S
    failure: str = ""
    is_cut: bool = False
    endpoint: str = ""
    """Where an ``endpoint`` event says that messages go: the mark of HTTP+SSE."""
    started: asyncio.Event = field(default_factory=asyncio.Event)
    """Set with the head of the response, or with the failure."""
    progressed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set with every frame of the server, and with the end; who waits for more clears it."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    is_asked: bool = False
    written: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when all that we say has left us."""
    _held: list[Frame] = field(default_factory=list[Frame])
    _framer: SseFramer = field(default_factory=SseFramer)

    def header(self, name: str) -> str | None:
        """The value of the first header of that name."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    @property
    def media_type(self) -> str:
        """What the answer says that it is: ``application/json``."""
        return (self.header("content-type") or "").partition(";")[0].strip().lower()

    @property
    def is_stream(self) -> bool:
        """Whether the answer is an event stream."""
        return self.media_type == "text/event-stream"

    @property
    def body(self) -> bytes:
        """What the server said, the frames of it one after another."""
        return b"".join(frame.raw for frame in self.frames)

    def begin(self, status: int, headers: Headers) -> None:
        """The head of the answer is there, with its credentials, which the tape has not."""
        self.status, self.headers = status, headers
        if self.wire is not None and (id := self.header("mcp-session-id")):
            self.wire.session_id = id
        self.started.set()
        held, self._held = self._held, []
        for frame in held:
            self.on_frame(frame)

    def on_frame(self, frame: Frame) -> None:
        """A frame of the server; nobody hears of it before the head."""
        if not self.started.is_set():
            self._held.append(frame)
        elif self.wire is not None:
            self.wire.on_frame(frame)

    def read(self, chunk: bytes) -> None:
        """Some of the body, with the session id in an ``endpoint`` event, which the tape has not."""
        if self.endpoint or not self.is_stream:
            return
        for block in self._framer.feed(chunk, 0):
            if block.event == "endpoint" and block.data and block.complete:
                self.endpoint = block.data.decode("utf-8", "replace").strip()
                self.progressed.set()

    async def wait_until(self, is_enough: Callable[[], bool]) -> None:
        """Wait until what came is enough, or nothing more will come."""
        while not is_enough() and not self.ended.is_set():
            self.progressed.clear()
            await self.progressed.wait()

    @property
    def seen(self) -> tuple[int, ...]:
        """The numbers of all heads and frames of it, for evidence."""
        return tuple(sorted({*self.heads, *([self.seq] if self.seq else []), *(f.seq for f in self.frames)}))
