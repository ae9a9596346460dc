"""A client with FastMCP, as users write one: ``fastmcp_client.py CALLS``. See ``python_sdk.py``."""

# It runs with packages that are not there where it is type-checked.
# pyright: basic, reportMissingImports=false

import asyncio
import os
import shlex
import sys
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StdioTransport

CALLS = int(sys.argv[1])
SERVER = os.environ["MCPPROXY_SERVER"]


async def sample(messages: Any, params: Any, context: Any) -> str:
    return "yes"


async def elicit(message: Any, response_type: Any, params: Any, context: Any) -> Any:
    from fastmcp.client.elicitation import ElicitResult

    return ElicitResult(action="decline")


async def main() -> None:
    command, *arguments = shlex.split(SERVER)
    reached = SERVER if SERVER.startswith("http") else StdioTransport(command, arguments, keep_alive=False)
    answers: Any = {
        "sampling_handler": sample,
        "elicitation_handler": elicit,
        "roots": ["file:///srv/example"],
    }
    async with Client(reached, timeout=6, **answers) as client:
        offered = client.initialize_result.capabilities if client.initialize_result else None
        if offered is None or offered.tools is not None:
            tools = await client.list_tools()
            calls = [client.call_tool(tool.name, {"text": "hello"}) for tool in tools for _ in range(CALLS)]
            await asyncio.gather(*calls)
        if offered is not None and offered.resources is not None:
            for resource in (await client.list_resources())[:1]:
                await client.read_resource(resource.uri)
        if offered is not None and offered.prompts is not None:
            for prompt in (await client.list_prompts())[:1]:
                await client.get_prompt(prompt.name, {one.name: "x" for one in prompt.arguments or []})


asyncio.run(main())
