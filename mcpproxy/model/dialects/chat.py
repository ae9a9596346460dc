"""OpenAI Chat Completions: ``POST /v1/chat/completions``, and the interfaces compatible with it.

Source: https://platform.openai.com/docs/api-reference/chat and the types of ``openai`` 6.49
(``resources/chat/completions/completions.d.ts``).
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.model.turns import (
    Content,
    ModelAnswer,
    ModelCall,
    ModelRequest,
    ModelResult,
    OfferedTool,
    Usage,
)
from mcpproxy.model.values import blob, data_url, first_object, model_call, number, objects, text_of
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.message_parts import as_object, member

NAME: Final = "chat"


def read_request(body: JSONObject) -> ModelRequest:
    """Read a request."""
    messages = tuple(objects(body.get("messages"), "/messages"))
    said = tuple(
        piece
        for _, message in messages
        if message.get("role") != "tool"
        for piece in _pieces(message.get("content"))
    )
    return ModelRequest(
        NAME,
        text_of(body, "model"),
        tools=tuple(_tools(body)),
        calls=tuple(call for pointer, message in messages for call in _calls(pointer, message)),
        results=tuple(
            _result(pointer, message) for pointer, message in messages if message.get("role") == "tool"
        ),
        texts=tuple(piece.text for piece in said if piece.kind == "text"),
        beside=tuple(piece for piece in said if piece.kind != "text"),
    )


def read_answer(body: JSONObject, whole: bool) -> ModelAnswer:
    """Read an answer. ``whole`` is false if it comes from a stream that was cut before its end.

    Only the first choice is read, because hosts ask for one.
    """
    choice = first_object(body.get("choices"))
    message = as_object(choice.get("message")) or {}
    usage = as_object(body.get("usage"))
    return ModelAnswer(
        tuple(_calls("/choices/0/message", message)),
        text_of(message, "content"),
        _usage(usage) if usage is not None else None,
        text_of(body, "model"),
        text_of(choice, "finish_reason"),
        whole,
    )


def fold_stream(events: Iterable[JSONObject]) -> tuple[JSONObject, bool]:
    """Merge the chunks of a stream. Return the body of one answer, and whether a ``finish_reason`` came."""
    answer: JSONObject = {}
    calls: dict[int, tuple[JSONObject, list[str]]] = {}
    texts: list[str] = []
    ending: JSON = None
    for chunk in events:
        answer.update({name: chunk[name] for name in ("id", "model", "usage") if chunk.get(name) is not None})
        choice = first_object(chunk.get("choices"))
        ending = choice.get("finish_reason") or ending
        delta = as_object(choice.get("delta")) or {}
        texts.append(text_of(delta, "content"))
        for _, piece in objects(delta.get("tool_calls")):
            function = as_object(piece.get("function")) or {}
            call, arguments = calls.setdefault(number(piece, "index"), ({}, []))
            if id := text_of(piece, "id"):
                call["id"] = id
            if name := text_of(function, "name"):
                call["name"] = name
            arguments.append(text_of(function, "arguments"))
    made: list[JSON] = [
        {
            "id": text_of(call, "id"),
            "function": {"name": text_of(call, "name"), "arguments": "".join(arguments)},
        }
        for _, (call, arguments) in sorted(calls.items())
    ]
    message: JSONObject = {"content": "".join(texts), "tool_calls": made}
    return {**answer, "choices": [{"message": message, "finish_reason": ending}]}, ending is not None


def _tools(body: JSONObject) -> Iterator[OfferedTool]:
    for pointer, tool in objects(body.get("tools"), "/tools"):
        if (function := as_object(tool.get("function"))) is not None:
            yield OfferedTool(
                text_of(function, "name"),
                f"{pointer}/function",
                description=text_of(function, "description") or None,
                schema=function.get("parameters"),
            )


def _calls(pointer: str, message: JSONObject) -> Iterator[ModelCall]:
    for place, call in objects(message.get("tool_calls"), f"{pointer}/tool_calls"):
        function = as_object(call.get("function")) or {}
        yield model_call(text_of(function, "name"), function.get("arguments"), place, text_of(call, "id"))


def _result(pointer: str, message: JSONObject) -> ModelResult:
    content = tuple(_pieces(message.get("content")))
    return ModelResult(text_of(message, "tool_call_id"), text_of(message, "name"), content, pointer)


def _pieces(content: JSON) -> Iterator[Content]:
    if isinstance(content, str):
        yield Content("text", content)
    for _, part in objects(content):
        match part.get("type"):
            case "text":
                yield Content("text", text_of(part, "text"))
            case "image_url":
                url = member(part, "image_url", "url")
                yield data_url(url, "image") if isinstance(url, str) else Content("image")
            case "input_audio":
                audio = as_object(part.get("input_audio")) or {}
                yield blob(text_of(audio, "data"), f"audio/{text_of(audio, 'format')}")
            case "file":
                file = as_object(part.get("file")) or {}
                yield data_url(text_of(file, "file_data", "file_id"), "file")
            case _:
                yield Content("other")


def _usage(usage: JSONObject) -> Usage:
    details = as_object(usage.get("prompt_tokens_details")) or {}
    return Usage(
        number(usage, "prompt_tokens"), number(usage, "completion_tokens"), number(details, "cached_tokens")
    )
