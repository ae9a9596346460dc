"""The web application of the admin port: ``/healthz``, ``/readyz`` and ``/metrics``."""

from collections.abc import Collection

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mcpproxy.base.authority import is_loopback, split_authority
from mcpproxy.record.admin.metrics import Metrics


def make_app(metrics: Metrics) -> Starlette:
    """Return the application that serves ``metrics``."""

    async def healthz(request: Request) -> Response:
        """Answer 200. The answer itself shows that the recorder runs."""
        del request
        return PlainTextResponse("ok\n")

    async def readyz(request: Request) -> Response:
        """Answer 200 if the trace can be written, else 503 with the reason."""
        del request
        if metrics.trouble:
            return PlainTextResponse(f"{metrics.trouble}\n", 503)
        return PlainTextResponse("ok\n")

    async def metrics_text(request: Request) -> Response:
        del request
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/metrics", metrics_text),
        ]
    )


def guarded(app: ASGIApp, names: Collection[str]) -> ASGIApp:
    """Return ``app`` behind a guard: if Host is no loopback name and not in ``names``, the answer is 403. A
    request without Host passes."""

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        hosts = [value for name, value in scope.get("headers", ()) if name == b"host"]
        if scope["type"] == "http" and not all(_is_known_host(host, names) for host in hosts):
            reason = "Host is not a name of this machine (DNS rebinding?)\n"
            await PlainTextResponse(reason, 403)(scope, receive, send)
            return
        await app(scope, receive, send)

    return guard


def _is_known_host(authority: bytes, names: Collection[str]) -> bool:
    try:
        host, _ = split_authority(authority)
    except ValueError:
        return False
    return is_loopback(host) or host in names
