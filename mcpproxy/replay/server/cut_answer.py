"""An answer over HTTP whose connection is closed before the answer is complete, as a fault did when it was
recorded."""

import asyncio
from typing import Final, cast

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

_TRANSPORT: Final = "mcpproxy.transport"


class CutAnswer(Response):
    """An answer without its end; with the status 0 nothing is sent. Its app has to be ``closable``."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del receive  # the request has been read
        if self.status_code:
            body = bytes(self.body)
            headers = [(name, value) for name, value in self.raw_headers if name != b"content-length"]
            headers.append((b"content-length", b"%d" % (len(body) + 1)))
            await send({"type": "http.response.start", "status": self.status_code, "headers": headers})
            await send({"type": "http.response.body", "body": body, "more_body": True})
        transport = cast("asyncio.Transport | None", scope.get(_TRANSPORT))
        if transport is not None:
            transport.close()
            await asyncio.sleep(0)  # so that uvicorn notices, and sends no answer of its own


def closable(app: ASGIApp) -> ASGIApp:
    """Return ``app`` with what ``CutAnswer`` needs: ASGI itself has no way to close a connection."""

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        # uvicorn's ``send`` is a method of the request, which knows its connection.
        scope[_TRANSPORT] = getattr(getattr(send, "__self__", None), "transport", None)
        await app(scope, receive, send)

    return wrapped
