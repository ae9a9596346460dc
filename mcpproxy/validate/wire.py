"""What a client talks through, whatever carries it: the part that stdio and HTTP have in common."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from mcpproxy.session.frame import Frame
from mcpproxy.validate.session_recording import SessionRecording


@dataclass(frozen=True, slots=True)
class FrameReceived:
    """A message of the server's, or what should have been one."""

    frame: Frame


@dataclass(frozen=True, slots=True)
class RequestEnded:
    """Nothing more will come for what was sent in frame ``seq``; over HTTP, with the ``status``."""

    seq: int
    status: int
    why: str


@dataclass(frozen=True, slots=True)
class ServerLost:
    """Nothing more will come at all. ``why`` is a clause about the server: "it ended with exit code 3"."""

    why: str


WireEvent = FrameReceived | RequestEnded | ServerLost
EventHandler = Callable[[WireEvent], None]


class Wire(Protocol):
    """One session's way to the server. ``transport`` is how findings and reports call it.

    ``on_event`` is set by who wants to know what comes; it is called from the event loop. ``version`` is the
    revision that was settled, for a transport that repeats it.
    """

    recording: SessionRecording
    transport: str
    on_event: EventHandler
    version: str

    async def open(self) -> None:
        """Start the server, or get ready to reach it.

        Raises:
            CouldNotStartError: there is none.
        """
        ...

    async def fall_back(self, timeout_s: float) -> bool:
        """Go over to an older form of the transport, if the server has one; whether it has."""
        ...

    async def send(self, raw: bytes) -> int:
        """Send one message, or what stands for one; the number of its frame.

        Raises:
            GoneError: nobody is there to take it.
        """
        ...

    async def open_stream(self) -> None:
        """Be there for what the server says of its own, where that needs more than to have sent something."""
        ...

    async def close(self) -> None:
        """End the session in the order that the transport asks for; nothing of it is left afterwards."""
        ...
