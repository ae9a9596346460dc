"""Requests and answers of a language model: what they say of tools is read alike from every dialect."""

import hashlib
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, Final

import pytest

from mcpproxy.model.dialect import DIALECTS, dialect_of
from mcpproxy.model.refusals import meant_tools, read_refusal
from mcpproxy.model.turns import Content, ModelAnswer, ModelCall, Usage
from mcpproxy.model.values import blob, data_url
from tests.model.conversations import ANSWERS, ARGUMENTS, PATHS, PICTURE, REQUESTS, SCHEMA, STREAMS, TOLD

NONSENSE: Final[list[Any]] = [{}, {"tools": 5, "messages": "x", "contents": 1}, {"tools": [None, []]}]

EACH = pytest.mark.parametrize("name", sorted(DIALECTS))


def picture() -> Content:
    raw = b64decode(PICTURE)
    return Content("image", mime="image/png", size=len(raw), digest=hashlib.sha256(raw).hexdigest())


def calls(found: tuple[ModelCall, ...]) -> list[tuple[str, str, Any]]:
    return [(call.id, call.name, call.arguments) for call in found]


@EACH
def test_a_dialect_is_known_by_its_path(name: str) -> None:
    found = dialect_of(f"/prefix{PATHS[name]}", {})
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    "path", ["/v1/messages/count_tokens", "/v1beta/models/m:countTokens", "/mcp", "/v1/models"]
)
def test_other_paths_are_no_turn(path: str) -> None:
    assert dialect_of(path, {}) is None


def test_a_path_of_ones_own_is_known_by_the_shape() -> None:
    body: Any = {"model": "m", "messages": []}
    told = [dialect_of("/llm", body), dialect_of("/llm", {**body, "anthropic_version": "vertex-2023-10-16"})]
    assert [one and one.name for one in told] == ["chat", "anthropic"]
    assert dialect_of("/llm", {"jsonrpc": "2.0"}) is None


@EACH
def test_a_request(name: str) -> None:
    request = DIALECTS[name].read_request(REQUESTS[name])
    first = request.tools[0]
    assert (request.dialect, first.name, first.description, first.schema) == (name, "forecast", TOLD, SCHEMA)
    assert calls(request.calls) == [("c1", "forecast", ARGUMENTS)]
    (result,) = request.results
    assert (result.call_id, result.content[0]) == ("c1", Content("text", "sunny"))
    assert [*result.content, *request.beside].count(picture()) == 1
    assert {"Be brief.", "Weather?"} <= set(request.texts)


@EACH
def test_a_pointer_leads_to_the_tool(name: str) -> None:
    value: Any = REQUESTS[name]
    for step in DIALECTS[name].read_request(value).tools[0].pointer.split("/")[1:]:
        value = value[int(step) if step.isdecimal() else step]
    assert value["name"] == "forecast"


def test_groups_and_tools_that_are_held_back() -> None:
    grouped = DIALECTS["responses"].read_request(REQUESTS["responses"])
    assert [(tool.namespace, tool.name) for tool in grouped.tools] == [("mcp__weather", "forecast")]
    assert "What the server says." in grouped.texts
    held = DIALECTS["anthropic"].read_request(REQUESTS["anthropic"])
    assert [(tool.name, tool.deferred) for tool in held.tools if tool.schema is not None] == [
        ("forecast", False),
        ("late", True),
    ]


@EACH
@pytest.mark.parametrize("form", ["whole", "stream"])
def test_an_answer(name: str, form: str) -> None:
    dialect = DIALECTS[name]
    answer = (
        dialect.read_answer(ANSWERS[name], True)
        if form == "whole"
        else dialect.read_answer(*dialect.fold_stream(STREAMS[name]))
    )
    assert calls(answer.calls) == [("c1", "forecast", ARGUMENTS)]
    assert (answer.text, answer.usage) == ("Let me look.", Usage(100, 5, 80))
    assert (answer.model, answer.whole) == ("m", True)
    assert answer.ending


@EACH
def test_a_stream_that_was_cut_says_so(name: str) -> None:
    answer: ModelAnswer = DIALECTS[name].read_answer(*DIALECTS[name].fold_stream(STREAMS[name][:2]))
    assert not answer.whole
    assert answer.calls == ()


@EACH
@pytest.mark.parametrize("body", NONSENSE)
def test_what_is_not_as_it_should_be_holds_nothing(name: str, body: Any) -> None:
    request = DIALECTS[name].read_request(body)
    assert (request.tools, request.calls, request.results) == ((), (), ())
    assert DIALECTS[name].read_answer(body, True).calls == ()


def test_a_stream_whose_last_event_has_no_output_has_the_items_before_it() -> None:
    *items, last = STREAMS["responses"]
    empty: Any = {**last, "response": {**last["response"], "output": []}}
    dialect = DIALECTS["responses"]
    assert calls(dialect.read_answer(*dialect.fold_stream([*items, empty])).calls) == [
        ("c1", "forecast", ARGUMENTS)
    ]


def test_a_message_of_mcp_is_no_turn() -> None:
    assert dialect_of("/messages?session_id=1", {"jsonrpc": "2.0", "method": "ping"}) is None


def test_arguments_that_are_no_json_are_kept_as_they_are() -> None:
    body: Any = {
        "choices": [{"message": {"tool_calls": [{"function": {"name": "f", "arguments": "{oops"}}]}}]
    }
    (call,) = DIALECTS["chat"].read_answer(body, True).calls
    assert (call.arguments, call.is_json) == ("{oops", False)


def test_one_picture_in_two_alphabets_is_one() -> None:
    assert blob("-_8", "image/png") == blob("+/8=", "image/png")
    assert data_url("https://x.example/a.png", "image") == Content("reference", "https://x.example/a.png")
    assert data_url("data:image/png;base64,+/8=", "image") == blob("+/8=", "image/png")
    assert blob("not base64!", "audio/wav") == Content("audio", mime="audio/wav")


REFUSALS: Final[Mapping[str, Any]] = {
    "anthropic": {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "tools.0.custom.input_schema: JSON schema is invalid",
        },
    },
    "chat": {
        "error": {
            "message": "Invalid schema.",
            "param": "tools[0].function.parameters",
            "code": "invalid_value",
        }
    },
    "responses": {
        "error": {
            "message": "Invalid 'tools[0].tools[0].parameters': no.",
            "type": "invalid_request_error",
        }
    },
    "gemini": [
        {
            "error": {
                "code": 400,
                "status": "INVALID_ARGUMENT",
                "message": "* GenerateContentRequest.tools[0].function_declarations[0].parameters: no",
            }
        }
    ],
}


@EACH
def test_a_refusal_leads_to_the_tool_that_it_means(name: str) -> None:
    refusal = read_refusal(REFUSALS[name])
    assert refusal is not None
    (meant,) = meant_tools(refusal, DIALECTS[name].read_request(REQUESTS[name]))
    assert meant.tool is not None
    assert meant.tool.name == "forecast"
    assert meant.is_placed
    assert meant.within
    assert refusal.code


def test_a_refusal_that_names_a_tool_or_none() -> None:
    request = DIALECTS["chat"].read_request(REQUESTS["chat"])

    def meant(error: Any) -> str | None:
        refusal = read_refusal({"error": error})
        each = meant_tools(refusal, request) if refusal is not None else ()
        return next((meant.tool.name for meant in each if meant.tool is not None), None)

    assert meant({"message": 'Invalid schema for function "forecast": no'}) == "forecast"
    assert meant("overloaded") is None
    assert meant({"message": "tools.99.custom: no"}) is None
    assert meant({"message": "tools: too many"}) is None
    assert read_refusal({"choices": []}) is None
