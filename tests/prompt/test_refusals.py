"""PROMPT-005: what services really answer, in each dialect, leads to server, tool and place."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from mcpproxy.read.opening import open_trace
from mcpproxy.read.prompt.run import read_run
from mcpproxy.read.prompt.words import refusal_words
from tests.prompt.hosts import PREFIX, findings, found, served
from tests.prompt.sides import BASE, LATER_ON, tool
from tests.view.logins import Recorded

SCHEMA: Final = {
    "type": "object",
    "properties": {"at": {"anyOf": [{"const": "now"}]}, "tags": {"type": "array"}},
}
OWN: Final = tuple(f"tool{number}" for number in range(40))
"""More tools than one digit counts. Before them, the host offers one of its own."""

Offered = Mapping[str, Any]


def _chat(name: str) -> Offered:
    return {
        "type": "function",
        "function": {"name": name, "description": f"Says {name}.", "parameters": SCHEMA},
    }


def _anthropic(name: str) -> Offered:
    return {"name": name, "description": f"Says {name}.", "input_schema": SCHEMA}


def _responses(name: str) -> Offered:
    return {"type": "function", "name": name, "description": f"Says {name}.", "parameters": SCHEMA}


NAMES: Final = ("shell", *(f"{PREFIX}{name}" for name in OWN))

REQUESTS: Final[Mapping[str, tuple[str, Any]]] = {
    "anthropic": ("/v1/messages", {"messages": [], "tools": [_anthropic(name) for name in NAMES]}),
    "chat": ("/v1/chat/completions", {"messages": [], "tools": [_chat(name) for name in NAMES]}),
    "responses": ("/v1/responses", {"input": [], "tools": [_responses(name) for name in NAMES]}),
    "gemini": (
        "/v1beta/models/gemini-2.5-pro:generateContent",
        {"contents": [], "tools": [{"functionDeclarations": [_responses(name) for name in NAMES]}]},
    ),
}


def said_by_anthropic(message: str) -> Any:
    error = {"type": "invalid_request_error", "message": message}
    return {"type": "error", "error": error, "request_id": "req_011CSyXbQdirmj8DykGY2bXQ"}


def said_by_openai(message: str, param: str | None = None, code: str | None = None) -> Any:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def said_by_gemini(message: str) -> Any:
    return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}


def passed_on(body: Any) -> Any:
    """As a gateway tells what the service behind it said."""
    raw = {"raw": json.dumps(body, indent=2), "provider_name": "OpenAI"}
    return {"error": {"message": "Provider returned error", "code": 400, "metadata": raw}, "user_id": "u"}


INVALID: Final = (
    "JSON schema is invalid. It must match JSON Schema draft 2020-12 (https://json-schema.org/draft/2020-12)."
)
UNION: Final = (
    "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level."
)
TOO_LONG: Final = (
    "string too long. Expected a string with maximum length 64, but got a string with length 65 instead."
)
WITHIN: Final = "/inputSchema/properties"

Expected = tuple[int, str, str]
"""The number of the server's tool, who is named, and the place in the tool."""

REFUSALS: Final[Mapping[str, tuple[str, Any, Expected]]] = {
    "anthropic by index": (
        "anthropic",
        said_by_anthropic(f"tools.31.custom.input_schema: {INVALID}"),
        (30, "server", "/inputSchema"),
    ),
    "anthropic, another kind of tool": (
        "anthropic",
        said_by_anthropic(
            "tools.13.FrontendRemoteMcpToolDefinition.name: String should have at most 64 characters"
        ),
        (12, "client", "/name"),
    ),
    "chat by name": (
        "chat",
        said_by_openai(
            f"Invalid schema for function '{PREFIX}tool7': In context=('properties', 'tags'), array schema"
            " missing items."
        ),
        (7, "server", f"{WITHIN}/tags"),
    ),
    "chat by both": (
        "chat",
        said_by_openai(
            f"Invalid schema for function '{PREFIX}tool7': In context=('properties', 'at', 'anyOf', '0'),"
            " schema must have a 'type' key.",
            "tools[8].function.parameters",
            "invalid_function_parameters",
        ),
        (7, "server", f"{WITHIN}/at/anyOf/0"),
    ),
    "chat by index": (
        "chat",
        said_by_openai(f"Invalid 'tools[31].function.name': {TOO_LONG}", "tools[31].function.name"),
        (30, "client", "/name"),
    ),
    "responses by name": (
        "responses",
        said_by_openai(f"Invalid schema for function '{PREFIX}tool7': {UNION}"),
        (7, "server", "/inputSchema"),
    ),
    "responses by both": (
        "responses",
        said_by_openai(
            f"Invalid schema for function '{PREFIX}tool30': In context=('properties', 'tags'), array schema"
            " missing items.",
            "tools[31].parameters",
        ),
        (30, "server", f"{WITHIN}/tags"),
    ),
    "responses behind a gateway": (
        "responses",
        passed_on(
            said_by_openai(
                f"Invalid schema for function '{PREFIX}tool30': In context=(), object schema missing"
                " properties.",
                "tools[31].parameters",
            )
        ),
        (30, "server", "/inputSchema"),
    ),
    "gemini by index": (
        "gemini",
        said_by_gemini(
            "* GenerateContentRequest.tools[0].function_declarations[31].parameters.properties[tags].items:"
            " missing field.\n"
        ),
        (30, "server", f"{WITHIN}/tags"),
    ),
    "gemini, a field that it does not know": (
        "gemini",
        said_by_gemini(
            'Invalid JSON payload received. Unknown name "const" at \'tools[0].function_declarations[31]'
            ".parameters.properties[0].value.any_of[0]': Cannot find field."
        ),
        (30, "server", WITHIN),
    ),
    "gemini, its name": (
        "gemini",
        said_by_gemini(
            "* GenerateContentRequest.tools[0].function_declarations[31].name: Invalid function name. Must"
            " start with a letter or an underscore."
        ),
        (30, "client", "/name"),
    ),
}


@pytest.fixture
def run(tmp_path: Path) -> Callable[[str, Any], tuple[str, str]]:
    """Write a request that is refused, and the session of the server whose tools it has."""

    def write(dialect: str, refusal: Any) -> tuple[str, str]:
        target, body = REQUESTS[dialect]
        said = Recorded(tmp_path / "m.jsonl", label="model", upstream=BASE, started_at=LATER_ON)
        said.ask("POST", BASE + target, (400, {}, refusal), body=body).login()
        tools = [tool(name, f"Says {PREFIX}{name}.", SCHEMA) for name in OWN]
        return str(said.path), served(tmp_path, tools)

    return write


@pytest.mark.parametrize(("dialect", "refusal", "expected"), REFUSALS.values(), ids=REFUSALS)
def test_words_of_a_service_lead_to_the_tool(
    dialect: str, refusal: Any, expected: Expected, run: Callable[[str, Any], tuple[str, str]]
) -> None:
    number, blame, within = expected
    assert found(*run(dialect, refusal)) == [
        ("PROMPT-005", "warning", blame, f"/result/tools/{number}{within}")
    ]


def test_a_refusal_that_names_many_tools(run: Callable[[str, Any], tuple[str, str]]) -> None:
    place = "* GenerateContentRequest.tools[0].function_declarations[{}].parameters.properties[{}].items"
    each = [(28, "tags"), (28, "at"), (29, "tags"), (31, "tags")]
    model, server = run(
        "gemini", said_by_gemini("".join(f"{place.format(*one)}: missing field.\n" for one in each))
    )
    (*first, last) = findings(model, server)
    assert [one.finding.pointer for one in (*first, last)] == [
        f"/result/tools/{number}{WITHIN}/tags" for number in (27, 28, 30)
    ]
    assert "function_declarations[31" in last.finding.message
    report = read_run(open_trace(model), [server])
    (refused,) = report.refusals
    _, *meant = refusal_words(refused, report)
    assert meant == [
        f"that is the tool tool{number} of weather, at parameters.properties[tags].items"
        for number in (27, 28, 30)
    ]


def test_a_word_of_the_message_is_not_the_tool_that_it_names(tmp_path: Path) -> None:
    names = ("properties", "at")
    body = {"messages": [], "tools": [_chat(name) for name in names]}
    message = (
        "Invalid schema for function 'at': In context=('properties', 'tags'), array schema missing items."
    )
    said = Recorded(tmp_path / "m.jsonl", label="model", upstream=BASE, started_at=LATER_ON)
    said.ask("POST", f"{BASE}/v1/chat/completions", (400, {}, said_by_openai(message)), body=body).login()
    server = served(tmp_path, [tool(name, f"Says {name}.", SCHEMA) for name in names])
    ((_, _, _, pointer),) = found(str(said.path), server)
    assert pointer == f"/result/tools/1{WITHIN}/tags"
