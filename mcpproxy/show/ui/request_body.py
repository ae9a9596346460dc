"""Read the body of a request up to a limit, because its sender may be anybody."""

from starlette.requests import Request

from mcpproxy.errors import McpProxyError


class BodyTooLargeError(McpProxyError):
    """The body of a request is larger than its reader allows; the text says how much that is."""


async def read_body(request: Request, most_bytes: int) -> bytes:
    """Return the body of a request.

    Raises:
        BodyTooLargeError: it has more than ``most_bytes``. The rest of it was not read.
        ClientDisconnect: the client has gone.
    """
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most_bytes:
            raise BodyTooLargeError(f"the body has more than {most_bytes >> 20} MiB")
    return bytes(body)
