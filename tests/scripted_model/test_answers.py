"""What is on the wire: the order of events, errors, and requests that are none of a conversation."""

import gzip
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import httpx
import pytest

from mcpproxy.model.dialect import DIALECTS
from mcpproxy.peers.scripted_model.answers.writers import WRITERS
from mcpproxy.peers.scripted_model.model_script import script_of
from mcpproxy.peers.scripted_model.model_server import ModelServer
from mcpproxy.peers.scripted_model.scripted_answer import ScriptedAnswer, ScriptedCall

ANSWER: Final = ScriptedAnswer("a_000", "Wait.", (ScriptedCall("a_000_00", "plain", "mcp__w", {"n": None}),))

ORDER: Final[Mapping[str, list[str]]] = {
    "anthropic": [
        "message_start",
        *("content_block_start", "ping", "content_block_delta", "content_block_stop"),
        *("content_block_start", "content_block_delta", "content_block_stop"),
        "message_delta",
        "message_stop",
    ],
    "responses": [
        *("response.created", "response.in_progress"),
        *("response.output_item.added", "response.content_part.added", "response.output_text.delta"),
        *("response.output_text.done", "response.content_part.done", "response.output_item.done"),
        *("response.output_item.added", "response.function_call_arguments.delta"),
        *("response.function_call_arguments.done", "response.output_item.done"),
        "response.completed",
    ],
}


def events(raw: bytes) -> Iterator[tuple[str, Any]]:
    """The events of a stream, each with its name."""
    assert raw.endswith(b"\n\n")
    for event in raw.decode().removesuffix("\n\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in event.split("\n"))
        data = fields["data"]
        yield fields.get("event", ""), None if data == "[DONE]" else json.loads(data)


@pytest.mark.parametrize("dialect", ORDER)
def test_events_are_named_and_in_order(dialect: str) -> None:
    said = list(events(b"".join(WRITERS[dialect].stream(ANSWER, "m", {}))))
    assert [name for name, _ in said] == ORDER[dialect]
    assert [data["type"] for _, data in said] == ORDER[dialect]
    if dialect == "responses":
        assert [data["sequence_number"] for _, data in said] == list(range(len(said)))


def test_the_chunks_of_a_chat_end_with_the_reason_the_usage_and_a_mark() -> None:
    options: Any = {"stream_options": {"include_usage": True}}
    *said, usage, mark = (data for _, data in events(b"".join(WRITERS["chat"].stream(ANSWER, "m", options))))
    choices = [chunk["choices"][0] for chunk in said]
    assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + ["tool_calls"]
    assert (usage["choices"], usage["usage"]["total_tokens"], mark) == ([], 110, None)


@pytest.mark.parametrize("dialect", WRITERS)
def test_what_is_written_is_read_alike(dialect: str) -> None:
    reader, writer = DIALECTS[dialect], WRITERS[dialect]
    streamed = (data for _, data in events(b"".join(writer.stream(ANSWER, "m", {"alt": "sse"}))) if data)
    folded, is_whole = reader.fold_stream(streamed)
    assert is_whole
    for body in (folded, writer.body(ANSWER, "m")):
        read = reader.read_answer(body, True)
        (call,) = read.calls
        namespace = "mcp__w" if dialect == "responses" else ""
        assert (read.text, call.name, call.namespace, call.arguments) == (
            *("Wait.", "plain", namespace),
            {"n": None},
        )
        assert call.id.endswith("a_000_00")


@pytest.fixture
def model() -> Iterator[httpx.Client]:
    server = ModelServer(script_of([{"say": "Hello, hello, hello, hello."}] * 9))
    server.start()
    with httpx.Client(base_url=server.url) as client:
        yield client
    server.end()


TOOLS: Final = [{"functionDeclarations": [{"name": "f"}]}]


def asking(text: str) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": [{"text": text}]}], "tools": TOOLS}


def test_a_stream_of_gemini_without_events_is_one_array(model: httpx.Client) -> None:
    told = model.post("/v1beta/models/gemini-2.5-pro:streamGenerateContent", json=asking("array"))
    assert told.headers["content-type"] == "application/json"
    pieces: list[Any] = told.json()
    parts = [piece["candidates"][0]["content"]["parts"][0]["text"] for piece in pieces]
    assert (len(parts), "".join(parts)) == (2, "Hello, hello, hello, hello.")
    assert {piece["modelVersion"] for piece in pieces} == {"gemini-2.5-pro"}


def test_a_compressed_request_is_read(model: httpx.Client) -> None:
    body = gzip.compress(json.dumps({"model": "m", "messages": []}).encode())
    told = model.post("/v1/chat/completions", content=body, headers={"content-encoding": "gzip"})
    assert told.json()["choices"][0]["message"]["content"] == "ok"


@pytest.mark.parametrize("base", ["", "/v1", "/openai/deployments/d"])
def test_a_base_url_may_have_any_path(model: httpx.Client, base: str) -> None:
    assert model.post(f"{base}/chat/completions", json={"model": "m", "messages": []}).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("HEAD", "/", {}, 200),
        ("GET", "/favicon.ico", {}, 404),
        ("POST", "/api/event_logging/batch", {}, 404),
        ("GET", "/v1/responses", {"connection": "upgrade", "upgrade": "websocket"}, 426),
        ("GET", "/v1/models", {"host": "evil.example"}, 403),
        ("GET", "/v1/models", {"host": "["}, 400),
        ("GET", "/v1/models", {"origin": "https://evil.example"}, 403),
        ("GET", "/v1/models/any", {}, 200),
    ],
)
def test_other_requests(
    model: httpx.Client, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    assert model.request(method, path, headers=headers).status_code == status


@pytest.mark.parametrize("body", [b"", b"{nope", b"[]"])
def test_a_request_whose_body_is_no_object_is_told_so(model: httpx.Client, body: bytes) -> None:
    answer = model.post("/v1/messages", content=body)
    assert (answer.status_code, "the body is no JSON object" in answer.text) == (400, True)
