"""What a server says to a request, and the request while nothing has been said to it."""

import asyncio
from dataclasses import dataclass, field

from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, JSONObject, RequestId, Response
from mcpproxy.protocol.wording import shown
from mcpproxy.session.frame import Frame
from mcpproxy.validate.wire import RequestEnded, ServerLost


@dataclass(frozen=True, slots=True)
class Answer:
    """What was said to a request: the message, the frame that brought it, and the number of the request's."""

    message: Response | ErrorResponse
    frame: Frame
    request_frame: int

    @property
    def frames(self) -> tuple[int, int]:
        """The numbers of the frames of both, for evidence."""
        return (self.request_frame, self.frame.seq)

    @property
    def result(self) -> JSON:
        """The result; ``None`` for an error."""
        return self.message.result if isinstance(self.message, Response) else None

    @property
    def members(self) -> JSONObject:
        """The result if it is an object, else an empty one."""
        return self.result if isinstance(self.result, dict) else {}

    @property
    def is_error(self) -> bool:
        """Whether it is an error of JSON-RPC."""
        return isinstance(self.message, ErrorResponse)

    @property
    def error(self) -> JSONObject:
        """The error if it is one and an object, else an empty one."""
        found = self.message.error if isinstance(self.message, ErrorResponse) else None
        return found if isinstance(found, dict) else {}

    @property
    def code(self) -> JSON:
        """The code of the error, ``None`` if there is none."""
        return self.error.get("code")

    @property
    def refusal(self) -> str:
        """The code and the message of the error, for people."""
        return f"{shown(self.code)}, {shown(self.error.get('message'))}"

    @property
    def outcome(self) -> str:
        """What became of the request, in a few words."""
        return f"refused with {shown(self.code)}" if self.is_error else "answered with a result"


@dataclass(eq=False, slots=True)
class Pending:
    """A request under way. ``seq`` is the number of its frame, 0 until it was sent.

    ``before`` is how many frames that belong to no request had come when it began. A bare frame among the
    ``news`` is an answer under an id that nobody used.
    """

    id: RequestId
    method: str
    seq: int = 0
    before: int = 0
    news: "asyncio.Queue[Answer | RequestEnded | ServerLost | Frame]" = field(
        default_factory=lambda: asyncio.Queue()
    )
