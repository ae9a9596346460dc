"""Gemini: ``POST /v1beta/models/NAME:generateContent`` and ``:streamGenerateContent``.

The JavaScript client writes camelCase and the Python one snake_case for some members, so both are read.

Source: https://ai.google.dev/api/generate-content and the types of ``@google/genai`` 2.32.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.json_values import dumps
from mcpproxy.model.turns import (
    Content,
    ModelAnswer,
    ModelCall,
    ModelRequest,
    ModelResult,
    OfferedTool,
    Usage,
)
from mcpproxy.model.values import blob, first_object, first_of, model_call, number, objects, text_of
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.message_parts import as_object

NAME: Final = "gemini"

_TEXT_MEMBERS: Final = ("output", "result", "error", "content", "return_value")
"""The members of a ``functionResponse`` into which clients put the text of a result."""


def read_request(body: JSONObject) -> ModelRequest:
    """Read a request. Clients name the model in the URL, not in the body, so ``model`` is usually empty."""
    parts = tuple(_parts(body))
    system = as_object(first_of(body, "systemInstruction", "system_instruction")) or {}
    return ModelRequest(
        NAME,
        text_of(body, "model"),
        tools=tuple(_tools(body)),
        calls=tuple(_calls(parts)),
        results=tuple(_results(parts)),
        texts=tuple(
            text_of(part, "text") for _, part in (*objects(system.get("parts")), *parts) if "text" in part
        ),
        beside=tuple(_inline_content(parts)),
    )


def read_answer(body: JSONObject, whole: bool) -> ModelAnswer:
    """Read an answer. ``whole`` is false if it comes from a stream that was cut before its end.

    Only the first candidate is read, because hosts ask for one.
    """
    candidate = first_object(body.get("candidates"))
    content = as_object(candidate.get("content")) or {}
    parts = tuple(objects(content.get("parts"), "/candidates/0/content/parts"))
    usage = as_object(body.get("usageMetadata"))
    return ModelAnswer(
        tuple(_calls(parts)),
        "".join(text_of(part, "text") for _, part in parts if part.get("thought") is not True),
        _usage(usage) if usage is not None else None,
        text_of(body, "modelVersion"),
        text_of(candidate, "finishReason"),
        whole,
    )


def fold_stream(events: Iterable[JSONObject]) -> tuple[JSONObject, bool]:
    """Merge the events of a stream. Return the body of one answer, and whether a ``finishReason`` came."""
    answer: JSONObject = {}
    parts: list[JSON] = []
    ending: JSON = None
    for event in events:
        answer.update(event)
        candidate = first_object(event.get("candidates"))
        ending = candidate.get("finishReason") or ending
        content = as_object(candidate.get("content")) or {}
        parts += [part for _, part in objects(content.get("parts"))]
    merged: JSONObject = {"content": {"parts": parts}, "finishReason": ending}
    return {**answer, "candidates": [merged]}, ending is not None


def _tools(body: JSONObject) -> Iterator[OfferedTool]:
    for pointer, group in objects(body.get("tools"), "/tools"):
        for name in ("functionDeclarations", "function_declarations"):
            for place, tool in objects(group.get(name), f"{pointer}/{name}"):
                yield OfferedTool(
                    text_of(tool, "name"),
                    place,
                    description=text_of(tool, "description") or None,
                    schema=first_of(tool, "parametersJsonSchema", "parameters_json_schema", "parameters"),
                )


def _parts(body: JSONObject) -> Iterator[tuple[str, JSONObject]]:
    for pointer, content in objects(body.get("contents"), "/contents"):
        yield from objects(content.get("parts"), f"{pointer}/parts")


def _calls(parts: Iterable[tuple[str, JSONObject]]) -> Iterator[ModelCall]:
    for pointer, part in parts:
        if (call := as_object(first_of(part, "functionCall", "function_call"))) is not None:
            yield model_call(text_of(call, "name"), call.get("args"), pointer, text_of(call, "id"))


def _results(parts: Iterable[tuple[str, JSONObject]]) -> Iterator[ModelResult]:
    for pointer, part in parts:
        answered = as_object(first_of(part, "functionResponse", "function_response"))
        if answered is not None:
            response = as_object(answered.get("response")) or {}
            content = (*_result_text(response), *_inline_content(objects(answered.get("parts"))))
            failed = "error" in response or None
            yield ModelResult(text_of(answered, "id"), text_of(answered, "name"), content, pointer, failed)


def _result_text(response: JSONObject) -> Iterator[Content]:
    """Yield the text of a result; nothing if ``response`` is empty.

    It is the only member, if that is a string in one of ``_TEXT_MEMBERS``; otherwise the object as JSON.
    """
    text = first_of(response, *_TEXT_MEMBERS) if len(response) == 1 else None
    if isinstance(text, str):
        yield Content("text", text)
    elif response:
        yield Content("text", dumps(response, compact=True))


def _inline_content(parts: Iterable[tuple[str, JSONObject]]) -> Iterator[Content]:
    for _, part in parts:
        if (data := as_object(first_of(part, "inlineData", "inline_data"))) is not None:
            yield blob(text_of(data, "data"), text_of(data, "mimeType", "mime_type"))


def _usage(usage: JSONObject) -> Usage:
    return Usage(
        number(usage, "promptTokenCount"),
        number(usage, "candidatesTokenCount"),
        number(usage, "cachedContentTokenCount"),
    )
