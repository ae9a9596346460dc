"""What the admin port answers: ``/healthz``, ``/readyz``, ``/metrics``."""

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from mcpproxy.admin.metrics import Metrics


def make_app(metrics: Metrics) -> Starlette:
    """The application over the figures of one recording."""

    async def healthz(request: Request) -> Response:
        """The recorder lives."""
        del request
        return PlainTextResponse("ok\n")

    async def readyz(request: Request) -> Response:
        """It can write what passes; 503 says why not."""
        del request
        if metrics.trouble:
            return PlainTextResponse(f"{metrics.trouble}\n", 503)
        return PlainTextResponse("ok\n")

    async def figures(request: Request) -> Response:
        del request
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/metrics", figures),
        ]
    )
