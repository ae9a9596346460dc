"""How a conversation over HTTP is written down: a tuple of steps, each of them the client's or the server's.

    (
        opened(),                                      # the handshake, where the revision has one
        post(LIST, Accept="application/json"),         # client: a request
        answer(TOOLS),                                 # server: the whole response to it
        get(on="listening"),                           # client: another request, and its name
        stream(on="listening"),                        # server: the head of an event stream
        event(CHANGED, id="a-1", on="listening"),      # server: one event
        end(on="listening"),                           # server: the end of the stream
    )

A step of the server belongs to the exchange that is named, or else to the one opened last. The client is an
ordinary one: it sends the header fields that its revision wants and takes a connection that is free. Fields
are given by name with ``_`` for ``-``; ``None`` leaves a usual one out. In messages and in fields,
``$REVISION`` is the protocol revision and ``$SESSION`` a session id that no other conversation has.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from mcpproxy.protocol.jsonrpc import JSONObject

MCP: Final = "/mcp"

Body: TypeAlias = JSONObject | list[JSONObject] | str
"""A message, a batch of them, or text as it stands."""

Fields: TypeAlias = Mapping[str, str | None]
"""Header fields that differ from the usual ones."""


@dataclass(frozen=True, slots=True)
class Request:
    """The client asks."""

    method: str
    body: Body | None
    to: str
    on: str
    fields: Fields


@dataclass(frozen=True, slots=True)
class Response:
    """The server answers, and is through with it."""

    status: int
    body: Body | None
    on: str
    fields: Fields


@dataclass(frozen=True, slots=True)
class Stream:
    """The server begins an event stream, in chunks or, if it is not ``chunked``, until it closes."""

    chunked: bool
    on: str
    fields: Fields


@dataclass(frozen=True, slots=True)
class Event:
    """The server sends one event; ``data`` is on as many lines as its text has."""

    data: Body
    id: str | None
    name: str | None
    retry: int | None
    on: str


@dataclass(frozen=True, slots=True)
class Text:
    """The server sends something on a stream that need not be an event."""

    text: str
    on: str


@dataclass(frozen=True, slots=True)
class End:
    """The server ends a stream as HTTP wants it."""

    on: str


@dataclass(frozen=True, slots=True)
class Leave:
    """The client closes the connection of a stream that goes on."""

    on: str


@dataclass(frozen=True, slots=True)
class Break:
    """The server's connection breaks in the middle of a stream."""

    on: str


@dataclass(frozen=True, slots=True)
class Pause:
    """The client lets time pass, because the server has asked for it or because it is over its head start."""

    ms: int


@dataclass(frozen=True, slots=True)
class Handshake:
    """Initialize, its answer with a session id, the initialized notification; nothing where there is none."""

    session: str | None


Step: TypeAlias = Request | Response | Stream | Event | Text | End | Leave | Break | Pause | Handshake
Conversation: TypeAlias = tuple[Step, ...]


# What the client does


def post(body: Body, *, to: str = MCP, on: str = "", **fields: str | None) -> Request:
    return Request("POST", body, to, on, named(fields))


def put(body: Body, **fields: str | None) -> Request:
    return Request("PUT", body, MCP, "", named(fields))


def get(*, to: str = MCP, on: str = "", **fields: str | None) -> Request:
    return Request("GET", None, to, on, named(fields))


def delete(**fields: str | None) -> Request:
    return Request("DELETE", None, MCP, "", named(fields))


def leave(*, on: str = "") -> Leave:
    return Leave(on)


def pause(ms: int) -> Pause:
    return Pause(ms)


def opened(session: str | None = "$SESSION") -> Handshake:
    return Handshake(session)


# What the server does


def answer(body: Body, code: int = 200, *, on: str = "", **fields: str | None) -> Response:
    return Response(code, body, on, {"Content-Type": "application/json", **named(fields)})


def status(code: int, *, on: str = "", **fields: str | None) -> Response:
    """A response without a body."""
    return Response(code, None, on, named(fields))


def stream(*, chunked: bool = True, on: str = "", **fields: str | None) -> Stream:
    return Stream(chunked, on, named(fields))


def event(
    data: Body = "", *, id: str | None = None, name: str | None = None, retry: int | None = None, on: str = ""
) -> Event:
    return Event(data, id, name, retry, on)


def says(text: str, *, on: str = "") -> Text:
    return Text(text, on)


def end(*, on: str = "") -> End:
    return End(on)


def breaks_off(*, on: str = "") -> Break:
    return Break(on)


def named(fields: Fields) -> Fields:
    return {name.replace("_", "-"): value for name, value in fields.items()}
