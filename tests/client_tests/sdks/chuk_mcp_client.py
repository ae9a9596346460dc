"""A client with chuk-mcp, which has a protocol stack of its own: ``chuk_client.py CALLS``.

See ``python_sdk.py``.
"""

# It runs with packages that are not there where it is type-checked.
# pyright: basic, reportMissingImports=false

import asyncio
import os
import shlex
import sys
from typing import Any

from chuk_mcp.client.client import MCPClient
from chuk_mcp.protocol.messages.tools import send_tools_call, send_tools_list
from chuk_mcp.transports.http import StreamableHTTPParameters, StreamableHTTPTransport
from chuk_mcp.transports.stdio import StdioParameters, StdioTransport

CALLS = int(sys.argv[1])
SERVER = os.environ["MCPPROXY_SERVER"]


def transport() -> Any:
    if SERVER.startswith("http"):
        return StreamableHTTPTransport(StreamableHTTPParameters(url=SERVER, timeout=6))
    command, *arguments = shlex.split(SERVER)
    return StdioTransport(StdioParameters(command=command, args=arguments))


async def main() -> None:
    async with transport() as reached:
        client = MCPClient(reached)
        await client.initialize()
        offered: Any = client.capabilities
        streams = await reached.get_streams()
        if getattr(offered, "tools", None) is not None:
            page = await send_tools_list(*streams)
            tools = list(page.tools)
            while page.nextCursor is not None:
                page = await send_tools_list(*streams, cursor=page.nextCursor)
                tools += page.tools
            for tool in tools:
                calls = (send_tools_call(*streams, tool.name, {"text": "hello"}) for _ in range(CALLS))
                await asyncio.gather(*calls)
        if getattr(offered, "resources", None) is not None:
            for resource in (await client.list_resources())[:1]:
                await client.read_resource(resource.uri)
        if getattr(offered, "prompts", None) is not None:
            for prompt in (await client.list_prompts())[:1]:
                await client.get_prompt(prompt.name)


asyncio.run(main())
