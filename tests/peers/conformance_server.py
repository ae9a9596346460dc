"""A server for the official conformance suite, built with the Python SDK 2.x.

It speaks over HTTP on a port that it prints, or with the argument ``stdio`` on stdio.

The suite calls tools, resources and prompts by fixed names and checks the results. Those that the SDK
supports are here. The server speaks 2025-11-25 with sessions and 2026-07-28 without.
"""

# It runs with another version of the SDK than it is type-checked with.
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false, reportPrivateImportUsage=false

import asyncio
import base64
import json
import socket
import sys
from itertools import count
from typing import Annotated, Any

import uvicorn
from mcp import types
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, ListRoots, Resolve, Sample
from mcp.server.streamable_http import EventMessage, EventStore
from pydantic import BaseModel, Field

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
SILENCE = base64.b64encode(
    b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0@\x1f\0\0@\x1f\0\0\1\0\x08\0data\0\0\0\0"
)

server = MCPServer("conformance", version="1.0.0")


class Events(EventStore):
    """Stores all events of all streams in order, for clients that resume a stream."""

    def __init__(self) -> None:
        self._events: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str | None:
        last = int(last_event_id)
        if not 0 < last <= len(self._events):
            return None
        wanted, _ = self._events[last - 1]
        for number, (stream, message) in zip(count(last + 1), self._events[last:]):
            if stream == wanted and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return wanted


def text(words: str, uri: str = "test://mixed") -> types.EmbeddedResource:
    contents = types.TextResourceContents(uri=uri, mime_type="text/plain", text=words)
    return types.EmbeddedResource(type="resource", resource=contents)


IMAGE = types.ImageContent(type="image", data=PIXEL, mime_type="image/png")


@server.tool()
def test_simple_text() -> str:
    """Some text."""
    return "Plain words."


@server.tool(structured_output=False)
def test_image_content() -> Any:
    """An image."""
    return [IMAGE]


@server.tool(structured_output=False)
def test_audio_content() -> Any:
    """A sound."""
    return [types.AudioContent(type="audio", data=SILENCE.decode(), mime_type="audio/wav")]


@server.tool(structured_output=False)
def test_embedded_resource() -> Any:
    """A resource within the result."""
    return [text("Words within.", "test://embedded-resource")]


@server.tool(structured_output=False)
def test_multiple_content_types() -> Any:
    """Words, an image and a resource."""
    return [types.TextContent(type="text", text="Three things:"), IMAGE, text("{}")]


@server.tool()
def test_error_handling() -> str:
    """Fails."""
    raise ValueError("on purpose")


@server.tool()
async def test_tool_with_logging(ctx: Context) -> str:
    """Logs three messages."""
    for words in ("begun", "under way", "done"):
        await ctx.info(words)
    return "Logged."


@server.tool()
async def test_logging_tool(ctx: Context) -> str:
    """Logs a message, which the client sees only if it asked for logs."""
    await ctx.info("seen?")
    return "Logged."


@server.tool()
async def test_tool_with_progress(ctx: Context) -> str:
    """Tells its progress three times."""
    for part in (0, 50, 100):
        await ctx.report_progress(part, 100, f"{part} %")
    return "Arrived."


@server.tool()
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Has the client's model answer."""
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=prompt))
    answer = await ctx.session.create_message([message], max_tokens=100)
    return f"The model says: {getattr(answer.content, 'text', '?')}"


class Answer(BaseModel):
    response: str = Field(description="What to say")


class Defaults(BaseModel):
    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: str = Field("active", json_schema_extra={"enum": ["active", "inactive", "pending"]})
    verified: bool = True


def titled(*names: str) -> Any:
    return [{"const": name, "title": name.title()} for name in names]


NAMES: Any = ["option1", "option2", "option3"]


class Enums(BaseModel):
    untitledSingle: str = Field(json_schema_extra={"enum": NAMES})  # noqa: N815 # the suite's names
    titledSingle: str = Field(json_schema_extra={"oneOf": titled(*NAMES)})  # noqa: N815
    legacyEnum: str = Field(json_schema_extra={"enum": NAMES, "enumNames": ["One", "Two", "Three"]})  # noqa: N815
    untitledMulti: list[str] = Field(json_schema_extra={"items": {"type": "string", "enum": NAMES}})  # noqa: N815
    titledMulti: list[str] = Field(json_schema_extra={"items": {"anyOf": titled(*NAMES)}})  # noqa: N815


async def ask(ctx: Context, message: str, form: type[BaseModel]) -> str:
    answer: Any = await ctx.elicit(message, form)
    content = answer.data.model_dump_json() if answer.action == "accept" else "{}"
    return f"action={answer.action}, content={content}"


@server.tool()
async def test_elicitation(message: str, ctx: Context) -> str:
    """Asks the client's user."""
    return await ask(ctx, message, Answer)


@server.tool()
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Asks with defaults."""
    return await ask(ctx, "Who are you?", Defaults)


@server.tool()
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Asks for choices."""
    return await ask(ctx, "Which?", Enums)


@server.tool()
async def test_reconnection(ctx: Context) -> str:
    """Closes its stream before it answers, so that the client has to come back."""
    await ctx.close_sse_stream()
    return "Welcome back."


class Name(BaseModel):
    name: str


def ask_name() -> Any:
    return Elicit("What is your name?", Name)


def ask_model() -> Any:
    question = types.TextContent(type="text", text="What is the capital of France?")
    return Sample([types.SamplingMessage(role="user", content=question)], max_tokens=100)


def ask_roots() -> Any:
    return ListRoots()


class Colour(BaseModel):
    colour: str


def ask_colour(named: Annotated[Name, Resolve(ask_name)]) -> Any:
    return Elicit(f"Which colour, {named.name}?", Colour)


@server.tool()
async def test_streaming_elicitation(named: Annotated[Name, Resolve(ask_name)]) -> str:
    """Asks for a name."""
    return f"Hello, {named.name}."


@server.tool()
async def test_missing_capability(answer: Annotated[Any, Resolve(ask_model)]) -> str:
    """Cannot do without the client's model."""
    return str(answer)


@server.tool()
async def test_input_required_result_elicitation(named: Annotated[Name, Resolve(ask_name)]) -> str:
    """Asks for a name."""
    return f"Hello, {named.name}."


@server.tool()
async def test_input_required_result_request_state(named: Annotated[Name, Resolve(ask_name)]) -> str:
    """Asks for a name and knows it again."""
    return f"state-ok: {named.name}"


@server.tool()
async def test_input_required_result_tampered_state(named: Annotated[Name, Resolve(ask_name)]) -> str:
    """Asks for a name, and takes no state but its own."""
    return named.name


@server.tool()
async def test_input_required_result_sampling(
    answer: Annotated[types.CreateMessageResult, Resolve(ask_model)],
) -> str:
    """Has the client's model answer."""
    return str(answer.content)


@server.tool()
async def test_input_required_result_list_roots(
    roots: Annotated[types.ListRootsResult, Resolve(ask_roots)],
) -> str:
    """Asks for the client's roots."""
    return str(len(roots.roots))


@server.tool()
async def test_input_required_result_multiple_inputs(
    named: Annotated[Name, Resolve(ask_name)],
    answer: Annotated[types.CreateMessageResult, Resolve(ask_model)],
    roots: Annotated[types.ListRootsResult, Resolve(ask_roots)],
) -> str:
    """Asks for three things at once."""
    return f"{named.name}: {answer.content}, {len(roots.roots)}"


@server.tool()
async def test_input_required_result_multi_round(
    named: Annotated[Name, Resolve(ask_name)], chosen: Annotated[Colour, Resolve(ask_colour)]
) -> str:
    """Asks, and asks again."""
    return f"{named.name}: {chosen.colour}"


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    """Words."""
    return "Words that stay."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """An image."""
    return base64.b64decode(PIXEL)


@server.resource("test://watched-resource", mime_type="text/plain")
def watched() -> str:
    """Words that may change."""
    return "Words for now."


@server.resource("test://template/{id}/data", mime_type="application/json")
def template(id: str) -> str:
    """Data of an id."""
    return json.dumps({"id": id, "data": f"Data for ID: {id}"})


def said(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


@server.prompt()
def test_simple_prompt() -> str:
    """Words."""
    return "Plain words."


@server.prompt()
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """Words with two of the client's."""
    return f"arg1='{arg1}', arg2='{arg2}'"


@server.prompt()
def test_prompt_with_embedded_resource(resourceUri: str) -> Any:  # noqa: N803 # the suite's name
    """A resource and words."""
    return [said(text("Words within.", resourceUri)), said({"type": "text", "text": "Read this."})]


@server.prompt()
def test_prompt_with_image() -> Any:
    """An image and words."""
    return [said(IMAGE), said({"type": "text", "text": "Look at this."})]


@server.completion()
async def complete(ref: Any, argument: Any, context: Any) -> types.Completion:
    """Nothing to suggest."""
    return types.Completion(values=[], total=0, has_more=False)


async def accept(ctx: Any, params: Any) -> types.EmptyResult:
    """What the older revision may ask for, and nothing follows from here."""
    return types.EmptyResult()


for method, params in (
    ("logging/setLevel", types.SetLevelRequestParams),
    ("resources/subscribe", types.SubscribeRequestParams),
    ("resources/unsubscribe", types.UnsubscribeRequestParams),
):
    # The SDK offers these on its lower level only.
    server._lowlevel_server.add_request_handler(method, params, accept)


async def serve() -> None:
    """Over HTTP on loopback, until ended."""
    listener = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"port {listener.getsockname()[1]}\n")
    sys.stdout.flush()
    app = server.streamable_http_app(event_store=Events(), retry_interval=100)
    await uvicorn.Server(uvicorn.Config(app, log_level="error")).serve([listener])


if __name__ == "__main__":
    if "stdio" in sys.argv:
        server.run()
    else:
        asyncio.run(serve())
