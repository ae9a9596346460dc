"""An HTTP exchange while it lasts, as the index sees it."""

from mcpproxy.base.slotted import field, slotted


@slotted()
class ExchangeState:
    """What is known of an exchange until its end.

    ``lines`` are those that wait for the row that the exchange belongs to; ``row`` is that row, 0 until it is
    known. ``requests`` are the rows of the requests in the client's body.
    """

    number: int
    session: int = 0
    row: int = 0
    method: str = ""
    target: str = ""
    endpoint: bool = True
    started_ns: int = 0
    status: int = 0
    by_proxy: bool = False
    stateless: bool = False
    """Whether its request names the revision itself."""
    lines: list[int] = field(default_factory=list[int])
    requests: list[int] = field(default_factory=list[int])

    @property
    def call(self) -> int:
        """The row of the only request that it carries; 0 if there is none, or more than one."""
        return self.requests[0] if len(self.requests) == 1 else 0
