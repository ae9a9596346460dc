"""A client with the Python SDK, as users write one: it lists the tools, calls the first, and leaves."""

import asyncio
import os
import shlex

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

SERVER = os.environ["MCPPROXY_SERVER"]


async def use(session: ClientSession) -> None:
    started = await session.initialize()
    if started.capabilities.tools is None:
        return
    tools = (await session.list_tools()).tools
    if tools:
        await session.call_tool(tools[0].name, {})


async def main() -> None:
    if SERVER.startswith("http"):
        async with streamable_http_client(SERVER) as streams, ClientSession(*streams[:2]) as session:
            await use(session)
        return
    command, *arguments = shlex.split(SERVER)
    parameters = StdioServerParameters(command=command, args=arguments)
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        await use(session)


asyncio.run(main())
