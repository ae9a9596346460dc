"""Requests with unusual headers or metadata, and the answers to them.

Over HTTP each is a separate exchange with just the given headers; on stdio there are no headers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, cast

from mcpproxy.protocol.jsonrpc import JSON, Batch, ErrorResponse, JSONObject, Request, Response, parse
from mcpproxy.protocol.revisions import STATEFUL
from mcpproxy.protocol.wording import shown
from mcpproxy.session.frame import Frame
from mcpproxy.validate.client import Client
from mcpproxy.validate.connection import dumps
from mcpproxy.validate.errors import HttpStatusError, Skipped, ValidateError
from mcpproxy.validate.outcome import Conclusion
from mcpproxy.validate.probe_context import ProbeContext

if TYPE_CHECKING:  # brings the HTTP library, which stdio does not need
    from mcpproxy.validate.transports.exchange import ClientExchange
    from mcpproxy.validate.transports.http_wire import HttpWire

Headers = Sequence[tuple[str, str]]

SPECIFICATION: Final = "https://modelcontextprotocol.io/specification"

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
"""Host names of this machine in URLs."""


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """The answer to one request: the HTTP ``status`` (0 on stdio), and the response if there is one."""

    frames: tuple[int, ...]
    status: int = 0
    answer: Response | ErrorResponse | None = None

    @property
    def is_served(self) -> bool:
        """Whether it has a result."""
        return isinstance(self.answer, Response)

    @property
    def code(self) -> JSON:
        """The code of the error, ``None`` if there is none."""
        error = self.answer.error if isinstance(self.answer, ErrorResponse) else None
        return error.get("code") if isinstance(error, dict) else None

    @property
    def result(self) -> JSONObject:
        """The result if it is an object, else an empty one."""
        found = self.answer.result if isinstance(self.answer, Response) else None
        return found if isinstance(found, dict) else {}

    @property
    def outcome(self) -> str:
        """A clause for the user: ``refused with 400 and -32020``."""
        if self.is_served:
            return f"served with {self.status}" if self.status else "served"
        both = [str(self.status)] if self.status else []
        both += [shown(self.code)] if self.code is not None else []
        return f"refused with {' and '.join(both)}" if both else "not answered"


def streamable(context: ProbeContext, client: Client | None = None) -> "HttpWire":
    """The wire of the shared session, or of ``client``, if it is Streamable HTTP.

    Raises:
        Skipped: the transport is stdio or HTTP+SSE.
    """
    wire = (client or context.client).wire
    if wire.transport != "http":
        raise Skipped("only over HTTP")
    found = cast("HttpWire", wire)
    if found.is_http_sse:
        raise Skipped("the server speaks HTTP+SSE, which does not have this")
    return found


def with_headers(headers: Headers, *names: str, **values: str) -> list[tuple[str, str]]:
    """The headers without ``names``, and with ``values`` set (``_`` in a name stands for a hyphen)."""
    new = {name.replace("_", "-"): value for name, value in values.items()}
    gone = {name.lower() for name in (*names, *new)}
    return [(name, value) for name, value in headers if name.lower() not in gone] + list(new.items())


async def post(
    context: ProbeContext,
    raw: bytes,
    headers: Headers,
    *,
    method: str = "POST",
    url: str = "",
    until_head: bool = False,
    is_anonymous: bool = False,
) -> "ClientExchange":
    """Run one exchange with these headers, until there is a response or its end.

    Raises:
        GoneError, TimedOutError: there was neither.
    """
    return await context.http.exchange(
        method,
        headers,
        raw,
        url=url,
        timeout_s=context.options.timeout_s,
        until_head=until_head,
        is_enough=None
        if until_head or not isinstance(parse(raw), Request)
        else lambda exchange: bool(responses_in(exchange.frames)),
        is_anonymous=is_anonymous,
    )


def raw_answer(exchange: "ClientExchange") -> RawAnswer:
    """The answer in an exchange."""
    found = responses_in(exchange.frames)
    return RawAnswer(exchange.evidence, exchange.status, found[0] if found else None)


async def ask(context: ProbeContext, message: JSONObject, headers: Headers | None = None) -> RawAnswer:
    """Send a request in the shared session; over HTTP with ``headers``, by default correct ones.

    Raises:
        ValidateError: there was no answer.
    """
    raw = dumps(message)
    if context.client.wire.transport == "http" and not context.http_wire.is_http_sse:
        correct = context.http_wire.headers(raw)
        return raw_answer(await post(context, raw, correct if headers is None else headers))
    id = message["id"]
    assert isinstance(id, int | str)
    try:
        answer = await context.client.answer(
            await context.client.begin_raw(raw, id, str(message.get("method")))
        )
    except HttpStatusError as fault:
        return RawAnswer(fault.frames, fault.status)
    return RawAnswer(answer.frames, 0, answer.message)


def responses_in(frames: Sequence[Frame]) -> list[Response | ErrorResponse]:
    """The responses in some frames."""
    found: list[Response | ErrorResponse] = []
    for frame in frames:
        message = frame.message
        items = message.items if isinstance(message, Batch) else (message,)
        found += [item for item in items if isinstance(item, Response | ErrorResponse)]
    return found


def harmless_request(client: Client) -> JSONObject:
    """A request that every server answers: ``ping``, or ``server/discover`` in the stateless era."""
    return client.request_object(client.ping_method)


async def speaks_both_eras(context: ProbeContext) -> bool:
    """Whether a stateless server also accepts ``initialize``; it is tried once.

    Raises:
        CouldNotStartError: the server cannot be started or reached.
    """
    if context.is_dual is None:
        listed = context.server.get("supportedVersions")
        context.is_dual = isinstance(listed, list) and any(version in STATEFUL for version in listed)
        if not context.is_dual:
            async with context.new_session("handshake", revision=STATEFUL[-1]) as client:
                try:
                    await client.initialize()
                    context.is_dual = True
                except ValidateError:
                    pass
    return context.is_dual


def cited(
    status: Literal["failed", "warning"], message: str, frames: tuple[int, ...], page: str
) -> Conclusion:
    """A conclusion based on a sentence that no rule covers; ``page`` begins with the revision."""
    return Conclusion(status, message, frames, "", f"{SPECIFICATION}/{page}")
