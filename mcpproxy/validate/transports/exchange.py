"""One HTTP exchange of our client: its state so far, and events to wait for."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from mcpproxy.framing.sse import SseFramer
from mcpproxy.session.frame import Frame

Headers = Sequence[tuple[str, str]]

_RETRY_S: Final = 1.0


class Listener(Protocol):
    """The MCP session that receives the frames of an exchange."""

    session_id: str

    def on_frame(self, frame: Frame) -> None:
        """The server sent ``frame``."""
        ...


@dataclass(eq=False, slots=True)
class ClientExchange:
    """One exchange as it is recorded. ``number`` and ``status`` are 0 until they are known.

    ``seq`` is the frame number of our message, or of the request head if there is no body. ``frames`` are the
    server's frames, ``heads`` the numbers of both heads. ``failure`` says why the exchange did not complete.
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
    """The URL for messages from an ``endpoint`` event, which only HTTP+SSE has."""
    started: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the head of the response arrives or the exchange fails."""
    progressed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set with every frame of the server and at the end; ``wait_until`` clears it."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    is_request_recorded: bool = False
    """Whether the body of our request was recorded, so that it was written as a whole."""
    written: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when our request has been written."""
    _early_frames: list[Frame] = field(default_factory=list[Frame])
    _framer: SseFramer = field(default_factory=SseFramer)

    def header(self, name: str) -> str | None:
        """The value of the first header of that name."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    @property
    def media_type(self) -> str:
        """The media type of the response, such as ``application/json``."""
        return (self.header("content-type") or "").partition(";")[0].strip().lower()

    @property
    def is_stream(self) -> bool:
        """Whether the response is an event stream."""
        return self.media_type == "text/event-stream"

    @property
    def body(self) -> bytes:
        """The body of the response: its frames joined."""
        return b"".join(frame.raw for frame in self.frames)

    def begin(self, status: int, headers: Headers) -> None:
        """Take the head of the response, with the credentials that the recording masks."""
        self.status, self.headers = status, headers
        if self.wire is not None and (id := self.header("mcp-session-id")):
            self.wire.session_id = id
        self.started.set()
        early_frames, self._early_frames = self._early_frames, []
        for frame in early_frames:
            self.on_frame(frame)

    def on_frame(self, frame: Frame) -> None:
        """Take a frame of the server; frames before the head wait until it arrives."""
        if not self.started.is_set():
            self._early_frames.append(frame)
        elif self.wire is not None:
            self.wire.on_frame(frame)

    def read(self, chunk: bytes) -> None:
        """Take a chunk of the body, for the ``endpoint`` event: the recording masks the session id in it."""
        if self.endpoint or not self.is_stream:
            return
        for block in self._framer.feed(chunk, 0):
            if block.event == "endpoint" and block.data and block.complete:
                self.endpoint = block.data.decode("utf-8", "replace").strip()
                self.progressed.set()

    async def wait_until(self, is_enough: Callable[[], bool]) -> None:
        """Wait until ``is_enough``, or until the exchange has ended."""
        while not is_enough() and not self.ended.is_set():
            self.progressed.clear()
            await self.progressed.wait()

    @property
    def evidence(self) -> tuple[int, ...]:
        """The numbers of all its heads and frames, for evidence."""
        return tuple(sorted({*self.heads, *([self.seq] if self.seq else []), *(f.seq for f in self.frames)}))
