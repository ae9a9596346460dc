"""Hold the place of a message in the recording, and the state of its HTTP exchange."""

from typing import Any

from mcpproxy.base.slotted import field, slotted


@slotted()
class ExchangeState:
    """What the index remembers of an HTTP request and its response until the exchange ends.

    ``row`` is the row of the exchange, 0 until it is known. ``lines`` are the lines that were read before it
    was known. ``requests`` are the rows of the JSON-RPC requests in the client's body. ``endpoint`` is
    whether the request went to the MCP endpoint, ``by_proxy`` whether mcpproxy answered it itself.
    ``session`` is the number of its session. ``started_ns`` is the time of the request. ``status`` and
    ``answered_ns`` are of the final response, 0 until it comes.
    """

    number: int
    session: int = 0
    row: int = 0
    method: str = ""
    target: str = ""
    endpoint: bool = True
    redirected: tuple[int, ...] = ()
    """The earlier exchanges whose redirects lead to its target."""
    started_ns: int = 0
    status: int = 0
    by_proxy: bool = False
    answer: int = 0
    """The line of the final response, or of the error with which mcpproxy refused the request."""
    answered_ns: int = 0
    stateless: bool = False
    """Whether a JSON-RPC request in it names its protocol revision, so that there is no handshake."""
    resumable: bool = False
    """Whether an event in it has an id, so that the client may receive later events in another exchange."""
    is_unread: bool = False
    """Whether something in its answer could not be read."""
    initialize: "dict[str, Any] | None" = None
    """The params of ``initialize``. The answer may name the session that they begin."""
    lines: list[int] = field(default_factory=list[int])
    requests: list[int] = field(default_factory=list[int])

    @property
    def is_early(self) -> bool:
        """Whether it was answered with an error before the body of its request, which may still come."""
        return self.status >= 400 and not self.row and bool(self.lines)

    @property
    def call(self) -> int:
        """The row of the only request that it carries; 0 if there is none, or more than one."""
        return self.requests[0] if len(self.requests) == 1 else 0


@slotted(frozen=True)
class FirstEnd:
    """The event that began the end of a session on stdio.

    ``by`` is the peer that sends nothing more, ``client`` or ``server``, or the name of a signal. ``at_ns``
    is the time since the start of the recording.
    """

    by: str
    at_ns: int


@slotted()
class Seen:
    """Where a message is in the recording, and how it was sent.

    ``client`` is whether the client sent it. ``line`` is the line of its record, ``at_ns`` its time since the
    start of the recording, ``size`` its size in bytes. ``exchange`` is the HTTP exchange that it is in.
    ``by_us`` is whether mcpproxy refused it or sent it itself.
    """

    client: bool
    line: int
    at_ns: int
    size: int
    exchange: ExchangeState | None = None
    by_us: bool = False
