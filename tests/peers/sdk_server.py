"""A server built with the Python SDK, 1.x or 2.x, whichever environment runs it.

It speaks on stdio, or with the argument ``http`` over HTTP on a port that it prints on stdout.

It offers tools (plain, structured, failing, with progress, with requests to the client), a resource, a
resource template, and a prompt with completion.
"""

# It runs with another version of the SDK than it is type-checked with.
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportRedeclaration=false

import asyncio
import socket
import sys
from typing import Annotated, Any

import uvicorn
from mcp.types import Completion, SamplingMessage, TextContent
from pydantic import BaseModel

try:
    from mcp.server.mcpserver import Context, MCPServer
    from mcp.server.mcpserver.resolve import Elicit, Resolve
except ImportError:  # the 1.x line
    from mcp.server.fastmcp import Context
    from mcp.server.fastmcp import FastMCP as MCPServer

    Resolve = None

server = MCPServer("example", instructions="Ask it anything.")


class Sum(BaseModel):
    total: int
    terms: list[int]


class Colour(BaseModel):
    colour: str


@server.tool()
def echo(text: str) -> str:
    """Give the text back."""
    return text


@server.tool()
def add(terms: list[int]) -> Sum:
    """Add whole numbers."""
    return Sum(total=sum(terms), terms=terms)


@server.tool()
def fail(reason: str) -> str:
    """Fail for the reason given."""
    raise ValueError(reason)


@server.tool()
async def count(up_to: int, ctx: Context) -> str:
    """Count, telling how far it has got."""
    for number in range(1, up_to + 1):
        await ctx.report_progress(number, up_to, f"{number} of {up_to}")
    return "done"


@server.tool()
async def ask_model(question: str, ctx: Context) -> str:
    """Have the client's model answer."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text=question))
    answer = await ctx.session.create_message([message], max_tokens=10)
    return getattr(answer.content, "text", "?")


if Resolve is None:

    @server.tool()
    async def ask_user(ctx: Context) -> str:
        """Have the client's user choose a colour."""
        answer: Any = await ctx.elicit("Which colour?", Colour)
        return f"chosen: {answer.data.colour}"

else:

    def ask_for_colour() -> Any:
        return Elicit("Which colour?", Colour)

    # The SDK turns this into a request of the server's, or, where the revision knows none, into a
    # result that asks for input and a second call that carries it.
    @server.tool()
    async def ask_user(chosen: Annotated[Colour, Resolve(ask_for_colour)]) -> str:
        """Have the client's user choose a colour."""
        return f"chosen: {chosen.colour}"


@server.resource("example://motto", mime_type="text/plain")
def motto() -> str:
    """What it lives by."""
    return "Say what you saw. Täglich."


@server.resource("example://numbers/{number}", mime_type="text/plain")
def number(number: str) -> str:
    """A number, in words of one figure."""
    return number


@server.prompt()
def review(language: str) -> str:
    """Ask for a review."""
    return f"Please review this {language} code."


@server.completion()
async def complete(ref: Any, argument: Any, context: Any) -> Completion:
    """Languages that begin with what was typed."""
    known = ["ada", "algol", "python"]
    return Completion(values=[name for name in known if name.startswith(argument.value)])


async def serve() -> None:
    """Over HTTP on loopback, until ended."""
    listener = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"port {listener.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(server.streamable_http_app(), log_level="error")
    await uvicorn.Server(config).serve([listener])


if __name__ == "__main__":
    if "http" in sys.argv:
        asyncio.run(serve())
    else:
        server.run()
