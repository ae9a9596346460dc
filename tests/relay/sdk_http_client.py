"""A client built with the Python SDK: ``python sdk_http_client.py URL`` prints what it got, a line each."""

# It runs with another version of the SDK than it is type-checked with.
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false, reportPrivateImportUsage=false

import asyncio
import sys
from typing import Any

from mcp import ClientSession

try:
    from mcp.client.streamable_http import streamable_http_client as connect
except ImportError:
    from mcp.client.streamable_http import streamablehttp_client as connect


async def main(url: str) -> None:
    seen: list[Any] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with connect(url) as streams, ClientSession(*streams[:2]) as session:
        await session.initialize()
        tools = await session.list_tools()
        seen.append([tool.name for tool in tools.tools])
        answer = await session.call_tool("echo", {"text": "grüß Gott"})
        seen.append(answer.content[0].text)
        answer = await session.call_tool("count", {"up_to": 5}, progress_callback=on_progress)
        seen.append(answer.content[0].text)
        resource = await session.read_resource("example://motto")
        seen.append(resource.contents[0].text)
    print(*seen, sep="\n")  # noqa: T201 # that is what it is for


asyncio.run(main(sys.argv[1]))
