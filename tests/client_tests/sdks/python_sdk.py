"""A client with the Python SDK, 1.x or 2.x, as users write one: ``python_sdk.py {1|2} CALLS``.

It offers all that a server may ask for, lists, calls each tool ``CALLS`` times at once, reads a resource,
gets a prompt, and leaves. Its server is in ``MCPPROXY_SERVER``.
"""

# It runs with another version of the SDK than it is type-checked with.
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false
# pyright: reportArgumentType=false

import asyncio
import os
import shlex
import sys
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

LINE, CALLS = sys.argv[1], int(sys.argv[2])
SERVER = os.environ["MCPPROXY_SERVER"]
PATIENCE_S = 6


async def sample(context: Any, params: Any) -> Any:
    said = types.TextContent(type="text", text="yes")
    return types.CreateMessageResult(role="assistant", content=said, model="none")


async def elicit(context: Any, params: Any) -> Any:
    return types.ElicitResult(action="decline")


async def roots(context: Any) -> Any:
    return types.ListRootsResult(roots=[types.Root(uri="file:///srv/example")])


def transport() -> Any:
    if SERVER.startswith("http"):
        return streamable_http_client(SERVER)
    command, *arguments = shlex.split(SERVER)
    return stdio_client(StdioServerParameters(command=command, args=arguments))


async def every(method: Any, member: str) -> list[Any]:
    """Return what stands on all pages of a list."""
    page = await method()
    found = list(getattr(page, member))
    while (cursor := getattr(page, "nextCursor", None) or getattr(page, "next_cursor", None)) is not None:
        page = await method(cursor=cursor)
        found += getattr(page, member)
    return found


async def use(client: Any, offered: Any) -> None:
    if offered.tools is not None:
        tools = await every(client.list_tools, "tools")
        calls = [client.call_tool(tool.name, {"text": "hello"}) for tool in tools for _ in range(CALLS)]
        await asyncio.gather(*calls)
    if offered.resources is not None:
        for resource in (await every(client.list_resources, "resources"))[:1]:
            await client.read_resource(resource.uri)
    if offered.prompts is not None:
        for prompt in (await every(client.list_prompts, "prompts"))[:1]:
            given = {argument.name: "x" for argument in prompt.arguments or []}
            await client.get_prompt(prompt.name, given)


async def main() -> None:
    answers = {"sampling_callback": sample, "elicitation_callback": elicit, "list_roots_callback": roots}
    async with AsyncExitStack() as stack:
        if LINE == "1":
            streams = await stack.enter_async_context(transport())
            patience = timedelta(seconds=PATIENCE_S)
            session = ClientSession(*streams[:2], read_timeout_seconds=patience, **answers)
            client = await stack.enter_async_context(session)
            offered = (await client.initialize()).capabilities
        else:
            from mcp import Client

            client = Client(transport(), read_timeout_seconds=PATIENCE_S, **answers)
            client = await stack.enter_async_context(client)
            offered = client.server_capabilities
        await use(client, offered)


asyncio.run(main())
