"""Runs a plan against a server with the Python SDK, and prints the results as a line with a JSON document.

It runs in an environment that has one version of the SDK (1.x or 2.x):

    python sdk_client.py {legacy|auto} PLAN -- {COMMAND [ARG...] | URL} [++ {COMMAND [ARG...] | URL}]...

A command is a server on stdio. A URL is a server over Streamable HTTP or, if its path is ``/sse``, over
HTTP+SSE. With several servers the plan is run against each, one after the other, by a client of its own, and
there is a line with a document for each. Where that of a session is ``{"failed": ...}``, the exit code is 1.

``PLAN`` is the JSON text of a list of steps (see ``plans.py``). ``auto``, which needs 2.x, asks the server
for its era first. If the environment sets ``PEER_REVISION``, the handshake requests that revision instead of
the latest one of the SDK. The document has no times, process ids, paths or session ids, so that the results
with and without a proxy can be compared.
"""

# It runs with another version of the SDK than it is type-checked with.
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false, reportPrivateImportUsage=false

import asyncio
import json
import os
import re
import sys
import traceback
from contextlib import AsyncExitStack
from typing import Any

import mcp.client.session
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

try:
    from mcp import Client
except ImportError:  # the 1.x line
    Client = None

if REVISION := os.environ.get("PEER_REVISION"):
    # Neither 1.x nor 2.x has an argument for it. 1.x reads the first name, 2.x the second.
    types.LATEST_PROTOCOL_VERSION = REVISION
    mcp.client.session.LATEST_HANDSHAKE_VERSION = REVISION

DEADLINE_S = float(os.environ.get("PEER_DEADLINE_S", "60"))
# 2.x asks for the era and, after ten seconds without an answer, takes the server for an old one. No argument
# changes that, and a server that starts on a busy machine may need longer.
mcp.client.session.DISCOVER_TIMEOUT_SECONDS = DEADLINE_S
PASSING = re.compile(
    r"\d{1,2}:\d{2}:\d{2}(\s?[AP]M)?|\d{4}-\d\d-\d\dT[\d:.]+Z?"  # times
    r"|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # session ids
)


class Host:
    """The callbacks of a host application: they answer requests of the server and log its notifications."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.progress: list[list[Any]] = []
        self._news = asyncio.Event()

    def _note(self) -> None:
        self._news.set()

    async def sample(self, context: Any, params: Any) -> Any:
        self.asked.append("sampling/createMessage")
        self._note()
        answer = types.TextContent(type="text", text="four")
        return types.CreateMessageResult(role="assistant", content=answer, model="none")

    async def elicit(self, context: Any, params: Any) -> Any:
        self.asked.append("elicitation/create")
        self._note()
        wanted = getattr(params, "requestedSchema", None) or getattr(params, "requested_schema", {})
        known = {"name": "Ada", "check": True, "integer": 7, "colour": "green"}
        content = {name: value for name, value in known.items() if name in wanted.get("properties", {})}
        return types.ElicitResult(action="accept", content=content)

    async def roots(self, context: Any) -> Any:
        self.asked.append("roots/list")
        self._note()
        return types.ListRootsResult(roots=[types.Root(uri="file:///srv/example", name="example")])

    async def hear(self, message: Any) -> None:
        if isinstance(message, Exception):
            self.heard.append({"exception": f"{type(message).__name__}: {message}"})
        elif hasattr(message, "responder") or hasattr(message, "request_id"):
            return  # 1.x passes requests here too; the callback that answers one logs it
        else:
            self.heard.append(plain(getattr(message, "root", message)))
        self._note()

    async def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append([progress, total, message])

    async def wait_until(self, method: str) -> None:
        """Wait until the server has sent a request or notification with ``method``."""
        while method not in self.asked and all(method != message.get("method") for message in self.heard):
            self._news.clear()
            await self._news.wait()


def plain(value: Any) -> Any:
    """Return ``value`` as JSON with the names of the protocol; times and session ids are replaced."""
    text = json.dumps(value.model_dump(mode="json", by_alias=True, exclude_none=True), ensure_ascii=False)
    return json.loads(PASSING.sub("<...>", text))


async def perform(step: dict[str, Any], client: Any, host: Host) -> Any:
    """Perform one step of the plan; return its result as JSON."""
    match step:
        case {"do": "list tools"}:
            return plain(await client.list_tools())
        case {"do": "call", "tool": name, "arguments": arguments}:
            host.progress.clear()
            callback = host.on_progress if step.get("progress") else None
            result = plain(await client.call_tool(name, arguments, progress_callback=callback))
            return {"result": result, "progress": list(host.progress)}
        case {"do": "call together", "tool": name, "arguments": many}:
            calls = [client.call_tool(name, arguments) for arguments in many]
            return [plain(result) for result in await asyncio.gather(*calls)]
        case {"do": "echo often", "count": count}:
            right = 0
            for start in range(0, count, 50):
                texts = [str(number) for number in range(start, min(start + 50, count))]
                calls = [client.call_tool("echo", {"text": text}) for text in texts]
                answers = await asyncio.gather(*calls)
                right += sum(
                    answer.content[0].text == text for answer, text in zip(answers, texts, strict=True)
                )
            return {"right": right}
        case {"do": "list resources"}:
            return plain(await client.list_resources())
        case {"do": "list templates"}:
            return plain(await client.list_resource_templates())
        case {"do": "read", "uri": uri}:
            return plain(await client.read_resource(uri))
        case {"do": "subscribe", "uri": uri}:
            return plain(await client.subscribe_resource(uri))
        case {"do": "unsubscribe", "uri": uri}:
            return plain(await client.unsubscribe_resource(uri))
        case {"do": "list prompts"}:
            return plain(await client.list_prompts())
        case {"do": "get prompt", "name": name, "arguments": arguments}:
            return plain(await client.get_prompt(name, arguments))
        case {"do": "complete", "prompt": name, "argument": [argument, value]}:
            ref = types.PromptReference(type="ref/prompt", name=name)
            return plain(await client.complete(ref, {"name": argument, "value": value}))
        case {"do": "ping"}:
            return plain(await client.send_ping())
        case {"do": "log level", "level": level}:
            return plain(await client.set_logging_level(level))
        case {"do": "wait for", "method": method}:
            await host.wait_until(method)
            return None
    raise SystemExit(f"sdk_client.py: no such step: {step}")


def transport(command: list[str]) -> Any:
    """Return an asynchronous context manager that connects to the server and gives the streams."""
    match command:
        case [url] if url.startswith("http:"):
            return sse_client(url) if url.endswith("/sse") else streamable_http_client(url)
        case _:
            return stdio_client(StdioServerParameters(command=command[0], args=command[1:]))


async def session(mode: str, plan: list[dict[str, Any]], command: list[str]) -> dict[str, Any]:
    host = Host()
    callbacks: dict[str, Any] = {
        "sampling_callback": host.sample,
        "elicitation_callback": host.elicit,
        "list_roots_callback": host.roots,
        "message_handler": host.hear,
    }
    results: list[Any] = []
    async with AsyncExitStack() as stack:
        if Client is None:
            streams = await stack.enter_async_context(transport(command))
            client: Any = await stack.enter_async_context(ClientSession(*streams[:2], **callbacks))
            opening = plain(await client.initialize())
        else:
            client = await stack.enter_async_context(Client(transport(command), mode=mode, **callbacks))
            opening = {"protocolVersion": client.protocol_version, "server": plain(client.server_info)}
        for step in plan:
            try:
                outcome = {"gave": await perform(step, client, host)}
            except Exception as error:  # any exception of the SDK is a result to compare
                outcome = {"raised": f"{type(error).__name__}: {PASSING.sub('<...>', str(error))}"}
            results.append({"step": step} | outcome)
    # The order of notifications and answers varies, so notifications are sorted.
    heard = sorted(host.heard, key=lambda message: json.dumps(message, sort_keys=True))
    return {"opening": opening, "steps": results, "heard": heard, "asked": sorted(host.asked)}


async def within_time(mode: str, plan: list[dict[str, Any]], command: list[str]) -> dict[str, Any]:
    async with asyncio.timeout(DEADLINE_S):
        return await session(mode, plan, command)


def main() -> int:
    mode, plan, separator, *words = sys.argv[1:]
    assert separator == "--"
    servers: list[list[str]] = [[]]
    for word in words:
        servers.append([]) if word == "++" else servers[-1].append(word)
    code = 0
    for command in servers:
        try:
            document = asyncio.run(within_time(mode, json.loads(plan), command))
        except Exception:
            document = {"failed": traceback.format_exc()}
            code = 1
        sys.stdout.write(json.dumps(document, sort_keys=True) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
