"""The interface of a transport to a server under test, which stdio and HTTP share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from mcpproxy.judge.session.frame import Frame
from mcpproxy.peers.client.refusals import HttpRefusal
from mcpproxy.peers.validate.session_recording import SessionRecording
from mcpproxy.protocol.mirrors import Mirrors


@dataclass(frozen=True, slots=True)
class FrameReceived:
    """The server sent a frame."""

    frame: Frame


@dataclass(frozen=True, slots=True)
class RequestEnded:
    """The HTTP exchange of our frame ``seq`` has ended with ``status``; no more responses will come.

    ``status`` is 0 if no response came. ``why`` says how the exchange failed; it is empty if it did not fail.
    With a status from 300 on, ``refusal`` describes the response. ``explanation`` is what the body says is
    wrong (see ``explanation_in``); it is empty for a stream.
    """

    seq: int
    status: int
    why: str
    refusal: HttpRefusal | None = None
    explanation: str = ""


@dataclass(frozen=True, slots=True)
class ServerLost:
    """The server is gone. ``why`` is the reason as a clause, such as "it ended with exit code 3"."""

    why: str


WireEvent = FrameReceived | RequestEnded | ServerLost
EventHandler = Callable[[WireEvent], None]


def ignore_event(event: WireEvent) -> None:
    """Do nothing: the handler of events until a connection sets another one."""


class Wire(Protocol):
    """The transport of one session. ``transport`` is its name in findings and reports.

    ``on_event`` is called from the event loop with every event. ``version`` is the negotiated revision, which
    HTTP repeats in a header.
    """

    recording: SessionRecording
    transport: str
    on_event: EventHandler
    version: str

    @property
    def mirrors(self) -> dict[str, Mirrors]:
        """By name of a listed tool: the arguments that a call over HTTP repeats in headers."""
        ...

    async def open(self) -> None:
        """Start the server; over HTTP, only open the stream of HTTP+SSE if a session fell back to it before.

        Raises:
            CouldNotStartError: the server cannot be started.
            GoneError: an earlier session fell back to HTTP+SSE, and the server opens no stream for this one.
            ForeignEndpointError: that stream names an endpoint to which nothing may be sent.
        """
        ...

    async def fall_back(self, status: int, timeout_s: float) -> bool:
        """Switch to HTTP+SSE if the server supports only that. Return whether it was done; false on stdio.

        ``status`` is the HTTP status of the answer to ``initialize``. ``timeout_s`` limits the wait for the
        stream of HTTP+SSE.

        Raises:
            ForeignEndpointError: the server names an endpoint to which nothing may be sent.
        """
        ...

    async def send(self, raw: bytes) -> int:
        """Send one message, valid or not, and return the number of its frame.

        Raises:
            GoneError: the server is gone.
        """
        ...

    async def open_stream(self) -> None:
        """Open a stream for unsolicited server messages, if the transport needs one."""
        ...

    async def close(self) -> None:
        """End the session in the order that the transport requires, and close everything."""
        ...
