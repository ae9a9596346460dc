"""Finds out which eras a server supports: that of the revisions with a handshake, and that of the others."""

import asyncio
from typing import Literal

from mcpproxy.peers.validate.client import Client
from mcpproxy.peers.validate.defaults import UNKNOWN_METHOD
from mcpproxy.peers.validate.errors import (
    HttpStatusError,
    MovedError,
    TimedOutError,
    ValidateError,
)
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.protocol.revisions import STATELESS

Opening = Literal["yes", "no", "silent", "unclear"]
"""Whether a server supports an era; ``silent``: it does not, and gave no answer in time.

``unclear``: the result of ``server/discover`` names no revision of the era, and the server answers even
unknown methods with a result. Then the result of ``server/discover`` may mean nothing.
"""


async def try_era(client: Client) -> Opening:
    """Try to open a session in the era of the client's revision, and return the outcome.

    It is ``yes`` if ``server/discover`` (stateless) or ``initialize`` (handshake) gets a valid result.

    Raises:
        MovedError: the server redirects to another URL of its origin.
    """
    try:
        await (_discover(client) if client.is_stateless else client.initialize())
    except ValidateError as fault:
        raise_if_moved(fault)
        return "silent" if isinstance(fault, TimedOutError) else "no"
    if client.is_stateless and not _names_era(client.server) and await _serves_unknown_methods(client):
        return "unclear"
    return "yes"


def raise_if_moved(fault: ValidateError) -> None:
    """Raise an error if the server redirects the first request, which failed with ``fault``.

    Raises:
        MovedError: the server redirects to another URL of its origin.
    """
    if isinstance(fault, HttpStatusError) and fault.moved_to:
        raise MovedError(f"{fault}; {fault.advice}", fault.frames, fault.moved_to) from None


def _names_era(discovery: JSONObject) -> bool:
    """Whether a result of ``server/discover`` names a revision without a handshake."""
    versions = discovery.get("supportedVersions")
    return isinstance(versions, list) and any(version in STATELESS for version in versions)


async def _serves_unknown_methods(client: Client) -> bool:
    """Whether the server answers even an unknown method with a result."""
    try:
        return not (await client.request(UNKNOWN_METHOD)).is_error
    except ValidateError:
        return False


async def _discover(client: Client) -> None:
    """Send ``server/discover``, and ``initialize`` too if there is no answer in time.

    Without an answer, the server may be one with a handshake that ignores unknown methods, or it may still be
    starting. So the wait for the first of the two answers is not limited to ``timeout_s``: ``client`` gives a
    process that has not answered yet more time (``start_s``). A response to ``initialize`` shows that the
    server has started; ``server/discover`` must then be answered within ``timeout_s``.
    """
    discovery = asyncio.create_task(client.discover())
    handshake: asyncio.Task[object] | None = None
    try:
        await asyncio.wait({discovery}, timeout=client.timeout_s)
        if not discovery.done() and not client.has_answered:
            pending = await client.begin_older_initialize()
            handshake = asyncio.create_task(client.wait_for_answer(pending))
            await asyncio.wait({discovery, handshake}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({discovery}, timeout=client.timeout_s)
        if not discovery.done():
            raise TimedOutError("no answer to server/discover")
        await discovery
    finally:
        tasks = [task for task in (discovery, handshake) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
