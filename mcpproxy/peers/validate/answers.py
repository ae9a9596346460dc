"""The response to a request, and a request that waits for one."""

import asyncio
from dataclasses import dataclass, field

from mcpproxy.judge.session.frame import Frame
from mcpproxy.peers.validate.transports.wire import RequestEnded, ServerLost
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, JSONObject, RequestId, Response
from mcpproxy.protocol.message_parts import as_object, error_of
from mcpproxy.protocol.wording import shown


@dataclass(frozen=True, slots=True)
class Answer:
    """The response to a request: the message, its frame as recorded, and the frame number of the request."""

    message: Response | ErrorResponse
    frame: Frame
    request_frame: int

    @property
    def frames(self) -> tuple[int, int]:
        """The frame numbers of the request and the response, for evidence."""
        return (self.request_frame, self.frame.seq)

    @property
    def result(self) -> JSON:
        """The result; ``None`` for an error."""
        return self.message.result if isinstance(self.message, Response) else None

    @property
    def members(self) -> JSONObject:
        """The result if it is an object, else an empty object."""
        return self.result if isinstance(self.result, dict) else {}

    @property
    def is_error(self) -> bool:
        """Whether the response is a JSON-RPC error."""
        return isinstance(self.message, ErrorResponse)

    @property
    def error(self) -> JSONObject:
        """The error of an error response if it is an object, else an empty object."""
        return as_object(error_of(self.message)) or {}

    @property
    def code(self) -> JSON:
        """The code of the error; ``None`` if there is no code."""
        return self.error.get("code")

    @property
    def refusal(self) -> str:
        """The code and the message of the error, as text."""
        return f"{shown(self.code)}, {shown(self.error.get('message'))}"

    @property
    def outcome(self) -> str:
        """A short description: ``refused with -32602`` or ``answered with a result``."""
        return f"refused with {shown(self.code)}" if self.is_error else "answered with a result"


@dataclass(eq=False, slots=True)
class Pending:
    """A request that waits for its response. ``seq`` is its frame number, 0 until it is sent.

    ``unsolicited_before`` is the number of ``RpcConnection.unsolicited`` frames received before the request.
    ``events`` receives what ends the wait: an ``Answer``, the reason why there is no response, or, as a
    ``Frame``, a response with an id that no request had.
    """

    id: RequestId
    method: str
    seq: int = 0
    unsolicited_before: int = 0
    events: "asyncio.Queue[Answer | RequestEnded | ServerLost | Frame]" = field(
        default_factory=lambda: asyncio.Queue()
    )
