"""Sends something other than a valid request, returns the reaction, and checks that the server still runs.

The server need not answer, and no fixed wait would show that it will not. So on stdio, and with HTTP+SSE, we
send a ping after it: the frames before the response to the ping are the reaction. With Streamable HTTP the
end of the exchange ends the wait.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from mcpproxy.judge.session.frame import Frame
from mcpproxy.peers.validate.answers import Pending
from mcpproxy.peers.validate.client import Client
from mcpproxy.peers.validate.errors import GoneError, HttpStatusError, TimedOutError, UnansweredError
from mcpproxy.peers.validate.probe_context import ProbeContext
from mcpproxy.protocol.jsonrpc import ErrorResponse, Response
from mcpproxy.protocol.message_parts import answers_in, member

JSON_RPC: Final = "https://www.jsonrpc.org/specification#error_object"
"""Where JSON-RPC defines its codes."""


@dataclass(frozen=True, slots=True)
class Reaction:
    """The reaction to what was sent: ``answers`` with their frames, and the status of Streamable HTTP.

    ``sent`` is the number of the sent frame. ``status`` is 0 with other transports.
    """

    sent: int
    answers: tuple[tuple[Response | ErrorResponse, Frame], ...] = ()
    status: int = 0

    @property
    def frames(self) -> tuple[int, ...]:
        """The numbers of the sent frame and of the answers, for evidence."""
        return (self.sent, *dict.fromkeys(frame.seq for _, frame in self.answers))

    @property
    def codes(self) -> tuple[object, ...]:
        """The codes of the errors among the answers."""
        return tuple(
            member(message.error, "code") for message, _ in self.answers if isinstance(message, ErrorResponse)
        )

    @property
    def has_result(self) -> bool:
        """Whether a result is among the answers."""
        return any(isinstance(message, Response) for message, _ in self.answers)

    @property
    def outcome(self) -> str:
        """A clause for the user, such as ``refused with -32700`` or ``kept silent``."""
        if self.codes:
            return f"refused with {', '.join(str(code) for code in self.codes)}"
        if self.has_result:
            return "answered with a result"
        return f"answered with HTTP status {self.status}" if self.status else "kept silent"


async def reaction(context: ProbeContext, raw: bytes, what: str) -> Reaction:
    """Send ``raw`` in the shared session and return the reaction, without late answers to earlier requests.

    ``what`` describes ``raw`` for the user.

    Raises:
        ValidateError: the server does not answer any more.
    """
    client = context.client
    if client.wire.transport == "http" and not context.http_wire.is_http_sse:
        return await _react_over_http(context, raw, what)
    received_before, earlier_ids = len(client.received), client.used_ids()
    # If only one request is open, the client takes a response with an unknown id as a wrong answer to that
    # request. So that the ping is not the only open request, the client expects an answer to another request,
    # which is never sent.
    unsent_request = client.expect(client.new_id())
    try:
        sent = await client.send(raw)
        ping_frame = await check_alive(client, what, sent)
    finally:
        client.forget(unsent_request)
    answers = _answers([frame for frame in client.received[received_before:] if frame.seq != ping_frame])
    return Reaction(
        sent, tuple((message, frame) for message, frame in answers if message.id not in earlier_ids)
    )


async def check_alive(client: Client, what: str, *frames: int) -> int:
    """Check that the server still answers a ping; return the number of the frame with the response.

    ``what`` describes for the user what was sent before; ``frames`` are the numbers of its frames.

    Raises:
        ValidateError: the server does not answer any more.
    """
    try:
        answer = await client.ping()
    except (UnansweredError, HttpStatusError) as fault:
        evidence = (*frames, *fault.frames)
        error_type = TimedOutError if isinstance(fault, TimedOutError) else GoneError
        raise error_type(f"after {what}: {fault}", evidence, client.ping_method) from None
    return answer.frame.seq


def response_frame(client: Client, pending: Pending) -> Frame | None:
    """Return the frame with the response to a request; ``None`` if it has not arrived."""
    for frame in client.received:
        if frame.seq > pending.seq and any(answer.id == pending.id for answer in answers_in(frame.message)):
            return frame
    return None


async def _react_over_http(context: ProbeContext, raw: bytes, what: str) -> Reaction:
    wire = context.http_wire
    exchange = await wire.post(raw, wire.headers(raw))
    try:
        async with asyncio.timeout(context.options.timeout_s):
            await exchange.ended.wait()
    except TimeoutError:
        seconds = f"{context.options.timeout_s:g} s"
        raise TimedOutError(f"the answer to {what} did not end within {seconds}", exchange.evidence) from None
    await check_alive(context.client, what, exchange.seq)
    return Reaction(exchange.seq, _answers(exchange.frames), exchange.status)


def _answers(frames: list[Frame]) -> tuple[tuple[Response | ErrorResponse, Frame], ...]:
    """Return the responses in ``frames``, each with its frame."""
    return tuple((answer, frame) for frame in frames for answer in answers_in(frame.message))
