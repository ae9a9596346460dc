"""Requests with unusual headers or metadata, and the answers to them.

Over HTTP each request is an exchange with the given headers, beside those of the user. On stdio and with
HTTP+SSE, ``ask`` sends its request in the shared session instead, without the given headers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, cast

from mcpproxy.peers.validate.client import Client
from mcpproxy.peers.validate.connection import dumps
from mcpproxy.peers.validate.errors import HttpStatusError, Skipped, ValidateError
from mcpproxy.peers.validate.outcome import Conclusion
from mcpproxy.peers.validate.probe_context import ProbeContext
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, JSONObject, Request, Response, parse
from mcpproxy.protocol.message_parts import error_of, member
from mcpproxy.protocol.revisions import STATEFUL
from mcpproxy.protocol.wording import shown

if TYPE_CHECKING:  # ``http_wire`` imports the HTTP library, which stdio does not need
    from mcpproxy.peers.validate.transports.exchange import ClientExchange
    from mcpproxy.peers.validate.transports.http_wire import HttpWire

Headers = Sequence[tuple[str, str]]

SPECIFICATION: Final = "https://modelcontextprotocol.io/specification"


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """The answer to one request: the HTTP ``status``, and the response if there is one.

    ``status`` is 0 if the response came on stdio or on the stream of HTTP+SSE.
    """

    frames: tuple[int, ...]
    status: int = 0
    answer: Response | ErrorResponse | None = None

    @property
    def is_served(self) -> bool:
        """Whether the response is a result."""
        return isinstance(self.answer, Response)

    @property
    def code(self) -> JSON:
        """The code of the error, ``None`` if there is none."""
        return member(error_of(self.answer), "code")

    @property
    def result(self) -> JSONObject:
        """The result if it is an object, else an empty object."""
        result = self.answer.result if isinstance(self.answer, Response) else None
        return result if isinstance(result, dict) else {}

    @property
    def outcome(self) -> str:
        """A clause for the user, such as ``refused with 400 and -32020``, ``served`` or ``not answered``."""
        if self.is_served:
            return f"served with {self.status}" if self.status else "served"
        numbers = [str(self.status)] if self.status else []
        numbers += [shown(self.code)] if self.code is not None else []
        return f"refused with {' and '.join(numbers)}" if numbers else "not answered"

    def instead_of(self, expected: str) -> str:
        """Return a clause for a request not refused with ``expected``: ``served, not refused with 404``."""
        is_refused = self.outcome.startswith("refused")
        return f"{self.outcome}, not {'' if is_refused else 'refused '}with {expected}"


def streamable(context: ProbeContext, client: Client | None = None) -> "HttpWire":
    """Return the connection of ``client``, by default of the shared session, if it is Streamable HTTP.

    Raises:
        Skipped: the transport is stdio or HTTP+SSE, or there is no session.
    """
    wire = (client or context.client).wire
    if wire.transport != "http":
        raise Skipped("only over HTTP")
    http_wire = cast("HttpWire", wire)
    if http_wire.is_http_sse:
        raise Skipped("the server speaks HTTP+SSE, which does not have this")
    return http_wire


def with_headers(headers: Headers, *names: str, **values: str) -> list[tuple[str, str]]:
    """Return the headers without ``names``, and with ``values`` set (``_`` in a name stands for a hyphen)."""
    new = {name.replace("_", "-"): value for name, value in values.items()}
    replaced = {name.lower() for name in (*names, *new)}
    return [(name, value) for name, value in headers if name.lower() not in replaced] + list(new.items())


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
    """Run one exchange with these headers to its end; if ``raw`` is a request, only until its response.

    An empty ``url`` is that of the endpoint. With ``until_head`` it runs only until the head of the HTTP
    response has arrived. ``is_anonymous`` leaves out the user's headers, and so the credentials in them.

    Raises:
        Skipped: the server is tested over stdio.
        UnansweredError: the server cannot be reached, closed the connection, sent too much, or did not answer
            in time.
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
        else lambda exchange: bool(exchange.answers),
        is_anonymous=is_anonymous,
    )


def raw_answer(exchange: "ClientExchange") -> RawAnswer:
    """Return the first answer in an exchange, with the HTTP status."""
    return RawAnswer(exchange.evidence, exchange.status, next(iter(exchange.answers), None))


async def ask(context: ProbeContext, message: JSONObject, headers: Headers | None = None) -> RawAnswer:
    """Send a request in the shared session; over Streamable HTTP with ``headers``, by default correct ones.

    Raises:
        Skipped: there is no session.
        ValidateError: there was no answer.
    """
    raw = dumps(message)
    if context.client.wire.transport == "http" and not context.http_wire.is_http_sse:
        correct = context.http_wire.headers(raw)
        return raw_answer(await post(context, raw, correct if headers is None else headers))
    id = message["id"]
    assert isinstance(id, int | str)
    try:
        answer = await context.client.wait_for_answer(
            await context.client.begin_raw(raw, id, str(message.get("method")))
        )
    except HttpStatusError as fault:
        return RawAnswer(fault.frames, fault.status)
    return RawAnswer(answer.frames, 0, answer.message)


def harmless_request(client: Client) -> JSONObject:
    """Return a request that every server answers: ``ping``, or ``server/discover`` without a handshake."""
    return client.request_object(client.ping_method)


async def speaks_both_eras(context: ProbeContext) -> bool:
    """Whether a stateless server also has a handshake: it lists such a revision or accepts ``initialize``.

    This is tried only once.

    Raises:
        CouldNotStartError: the server cannot be started.
    """
    if context.is_dual is None:
        versions = context.server.get("supportedVersions")
        context.is_dual = isinstance(versions, list) and any(version in STATEFUL for version in versions)
        if not context.is_dual:
            async with context.new_session("handshake", revision=STATEFUL[-1]) as client:
                try:
                    await client.initialize()
                    context.is_dual = True
                except ValidateError:
                    pass
    return context.is_dual


def missing_method(context: ProbeContext, message: str, frames: tuple[int, ...]) -> Conclusion:
    """Return the conclusion about a method that a stateless server lacks and does not refuse as it should."""
    return context.violation("ERR-002/R-218" if context.target.url else "ERR-002/D-008", message, frames)


def cited(
    status: Literal["failed", "warning"], message: str, frames: tuple[int, ...], page: str
) -> Conclusion:
    """Return a conclusion that cites a sentence of the specification that no rule covers.

    ``page`` is the path of the page and begins with the revision.
    """
    return Conclusion(status, message, frames, "", f"{SPECIFICATION}/{page}")
