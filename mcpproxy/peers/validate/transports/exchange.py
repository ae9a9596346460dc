"""One HTTP exchange of our client: its state so far, and events to wait for."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, Self

from mcpproxy.base.named_url import LONGEST_URL
from mcpproxy.judge.session.frame import Frame
from mcpproxy.peers.client.http_session import SessionExchange
from mcpproxy.peers.client.remote_server import Headers, HttpResponse
from mcpproxy.protocol.jsonrpc import ErrorResponse, Response
from mcpproxy.protocol.message_parts import answers_in
from mcpproxy.record.framing.sse import SseFramer


class Listener(Protocol):
    """The MCP session to which an exchange belongs, and which receives its frames."""

    def note_head(self, exchange: "ClientExchange", response: HttpResponse) -> None:
        """Note the head of a response."""
        ...

    def use_endpoint(self, reference: bytes) -> None:
        """Post to the URL that the server of HTTP+SSE names, absolute or relative to ours.

        Raises:
            RemoteError: nothing may be sent there.
        """
        ...

    def on_frame(self, exchange: "ClientExchange", frame: Frame) -> None:
        """Process a frame that the server sent."""
        ...


@dataclass(eq=False, slots=True)
class ClientExchange(SessionExchange):
    """One exchange as it is recorded. ``number`` and ``status`` are 0 until they are known.

    ``wire`` is the MCP session to which the exchange belongs, if any. ``seq`` is the frame number of our
    message, or of the request head if there is no body. ``headers`` are those of the response, ``frames`` the
    server's frames, and ``heads`` the numbers of the two heads. ``is_cut`` says whether the exchange was cut
    off.
    """

    wire: "Listener | None" = None
    number: int = 0
    seq: int = 0
    headers: Headers = ()
    frames: list[Frame] = field(default_factory=list[Frame])
    heads: list[int] = field(default_factory=list[int])
    is_cut: bool = False
    received: int = 0
    """How many bytes of the body have come, before decoding, and ``FRAME_BYTES`` of memory for each frame."""
    excess: str = ""
    """Why no more of the response is read, as a clause; empty while it is read."""
    endpoint: bytes = b""
    """With HTTP+SSE, the URL for our messages, as the server's ``endpoint`` event names it."""
    started: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the head of the response arrives or the exchange fails."""
    progressed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set with the head, with every frame of the server and at the end; ``wait_until`` clears it."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    is_request_recorded: bool = False
    """Whether the body of our request was recorded, which happens just before its last part is written."""
    written: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when our request has been written."""
    awaited: asyncio.Event | None = None
    """If given, the response is processed only after it: the sender must first know its request's number."""
    _early_frames: list[Frame] = field(default_factory=list[Frame])
    _framer: SseFramer = field(default_factory=lambda: SseFramer(4 * LONGEST_URL))

    def header(self, name: str) -> str:
        """Return a header field, empty if there is none; ``name`` is in lower case."""
        return next((value for key, value in self.headers if key == name), "")

    @property
    def media_type(self) -> str:
        """The media type of the response, such as ``application/json``."""
        return self.header("content-type").partition(";")[0].strip().lower()

    @property
    def answers(self) -> list[Response | ErrorResponse]:
        """The answers to requests in its frames."""
        return [answer for frame in self.frames for answer in answers_in(frame.message)]

    @property
    def body(self) -> bytes:
        """The body of the response: its frames joined."""
        return b"".join(frame.raw for frame in self.frames)

    def begin_resumption(self) -> Self:
        """Return a new exchange that resumes this one. It has its own frames."""
        return type(self)(
            self.wire,
            message=self.message,
            unanswered=self.unanswered,
            cursor=self.cursor,
            resumptions=self.resumptions,
        )

    def begin(self, response: HttpResponse) -> None:
        """Process the head of the response. Unlike in the recording, credentials are not masked in it."""
        self.status, self.headers, self.is_stream = response.status, response.headers, response.is_stream
        if self.wire is not None:
            self.wire.note_head(self, response)
        self.started.set()
        early_frames, self._early_frames = self._early_frames, []
        for frame in early_frames:
            self.on_frame(frame)
        self.progressed.set()

    def on_frame(self, frame: Frame) -> None:
        """Process a frame of the server. Frames that are recorded before ``begin`` wait until then."""
        if not self.started.is_set():
            self._early_frames.append(frame)
        elif self.wire is not None:
            self.wire.on_frame(self, frame)

    def find_endpoint(self, chunk: bytes) -> None:
        """Look for an ``endpoint`` event in a chunk of the body.

        The recorded event cannot be used, because the session id in it is masked.

        Raises:
            RemoteError: it names a URL to which nothing may be sent.
        """
        if self.endpoint or not self.is_stream:
            return
        for block in self._framer.feed(chunk, 0):
            if block.event == "endpoint" and block.data and block.complete:
                self.endpoint = block.data
                if self.wire is not None:
                    self.wire.use_endpoint(block.data)
                self.progressed.set()

    async def wait_until(self, is_enough: Callable[[], bool]) -> None:
        """Wait until ``is_enough`` returns true and all frames are processed, or the exchange has ended."""
        while not (self.started.is_set() and is_enough()) and not self.ended.is_set():
            self.progressed.clear()
            await self.progressed.wait()

    @property
    def evidence(self) -> tuple[int, ...]:
        """The numbers of all its heads and frames, for evidence."""
        frames = (frame.seq for frame in self.frames)
        return tuple(sorted({*self.heads, *([self.seq] if self.seq else []), *frames}))
