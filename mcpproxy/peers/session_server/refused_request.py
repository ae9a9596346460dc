"""The error with which a server of ours refuses a request."""

from collections.abc import Mapping
from typing import Final

from mcpproxy.errors import McpProxyError
from mcpproxy.protocol.error_message import IN_PLACE_OF_PEER, NO_SESSION

METHODS: Final = {"allow": "GET, POST, DELETE"}
"""The header field of a response with the status 405."""

TRY_LATER: Final = {"retry-after": "5"}
"""The header field of a response with the status 503."""


class RefusedRequestError(McpProxyError):
    """A request that is answered with our own error. The text says why.

    ``status`` and ``fields`` are those of the response, and ``code`` is that of the JSON-RPC error.
    """

    def __init__(
        self,
        status: int,
        why: str,
        *,
        code: int = IN_PLACE_OF_PEER,
        fields: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(why)
        self.status: Final = status
        self.code: Final = code
        self.fields: Final = fields


def no_session() -> RefusedRequestError:
    """Return the refusal of a request whose session does not exist, or no longer exists.

    Source: revision 2025-11-25, basic/transports, Session Management, 3.
    """
    why = "there is no such session; begin a new one with initialize"
    return RefusedRequestError(404, why, code=NO_SESSION)
