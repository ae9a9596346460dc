"""An MCP client that probes a server and judges the session with the same rules as the proxy.

    async with connected_stdio(["python", "server.py"]) as client:
        await client.connect()
        result = await client.call("echo", {"text": "hi"})
        assert not client.wire.recording.findings

``connected_stdio`` and ``connected_http`` yield a ``Client`` whose session is not open yet. On stdio its
server has been started. All messages are recorded.
"""

import os
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager

from mcpproxy.base.upstream.settings import USUAL, UpstreamSettings
from mcpproxy.judge.ruleset import ruleset
from mcpproxy.peers.validate.client import Client
from mcpproxy.peers.validate.connection import START_S, TIMEOUT_S
from mcpproxy.peers.validate.probe_context import ProbeContext, ValidateOptions
from mcpproxy.peers.validate.recordings import Recordings, Target
from mcpproxy.protocol.revisions import STATEFUL

__all__ = ["Client", "connected_http", "connected_stdio"]


@asynccontextmanager
async def connected_stdio(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str = "",
    revision: str = STATEFUL[-1],
    timeout_s: float = TIMEOUT_S,
    start_s: float = START_S,
    trace: str = "",
    title: str = "",
) -> AsyncGenerator[Client]:
    """Yield a client of the server that ``command`` runs in ``cwd``, by default the current folder.

    ``env`` is added to our environment. At the end, the server and every process that it started are ended.
    ``timeout_s`` limits the wait for each response; the first response may take ``start_s`` if that is
    longer. Both are in seconds. ``revision`` is the protocol revision that the client asks for. The session
    is recorded in the file ``trace``, by default in a temporary file that is deleted at the end; ``title`` is
    its label.

    Raises:
        CouldNotStartError: the command cannot be started.
        McpProxyError: the recording cannot be written.
    """
    options = ValidateOptions(timeout_s=timeout_s, start_s=start_s)
    async with _connected(Target(tuple(command), env or {}, cwd), revision, options, trace, title) as client:
        yield client


@asynccontextmanager
async def connected_http(
    url: str,
    *,
    headers: Sequence[tuple[str, str]] = (),
    upstream: UpstreamSettings = USUAL,
    revision: str = STATEFUL[-1],
    timeout_s: float = TIMEOUT_S,
    trace: str = "",
    title: str = "",
) -> AsyncGenerator[Client]:
    """Yield a client of the server at ``url``, which gets nothing before the first message.

    ``headers`` are sent with every request, and ``upstream`` says how the server is reached; the other
    arguments are as for ``connected_stdio``.

    Raises:
        McpProxyError: the URL is malformed, or the recording cannot be written.
    """
    options = ValidateOptions(timeout_s=timeout_s)
    target = Target(url=url, headers=headers, upstream=upstream)
    async with _connected(target, revision, options, trace, title) as client:
        yield client


@asynccontextmanager
async def _connected(
    target: Target, revision: str, options: ValidateOptions, trace: str, title: str
) -> AsyncGenerator[Client]:
    with tempfile.TemporaryDirectory(prefix="mcpproxy-") as folder:
        recordings = Recordings(
            ruleset.load(), trace or os.path.join(folder, "session.jsonl"), "client", title
        )
        context = ProbeContext(target, options, recordings, revision)
        try:
            yield await context.start()
        finally:
            await context.close()
