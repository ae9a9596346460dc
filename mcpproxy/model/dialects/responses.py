"""OpenAI Responses: ``POST /v1/responses``.

Source: https://platform.openai.com/docs/api-reference/responses and the types of ``openai`` 6.49
(``resources/responses/responses.d.ts``).
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
from mcpproxy.model.values import data_url, model_call, number, objects, text_of
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.message_parts import as_object

NAME: Final = "responses"

_END_TYPES: Final = ("response.completed", "response.incomplete", "response.failed")
"""The types of the events that end a stream. Each carries the response."""


def read_request(body: JSONObject) -> ModelRequest:
    """Read a request. Tools that a tool search found are in items of its input."""
    items = tuple(objects(body.get("input"), "/input"))
    said = tuple(piece for _, item in items for piece in _pieces(item.get("content")))
    found = (tool for pointer, item in items for tool in _tools(item, pointer))
    return ModelRequest(
        NAME,
        text_of(body, "model"),
        tools=(*_tools(body, ""), *found),
        calls=tuple(_calls(items)),
        results=tuple(
            _result(pointer, item) for pointer, item in items if item.get("type") == "function_call_output"
        ),
        texts=(*_texts(body), *(piece.text for piece in said if piece.kind == "text")),
        beside=tuple(piece for piece in said if piece.kind != "text"),
    )


def read_answer(body: JSONObject, whole: bool) -> ModelAnswer:
    """Read an answer. ``whole`` is false if it comes from a stream that was cut before its end."""
    items = tuple(objects(body.get("output"), "/output"))
    usage = as_object(body.get("usage"))
    return ModelAnswer(
        tuple(_calls(items)),
        "".join(piece.text for _, item in items for piece in _pieces(item.get("content"))),
        _usage(usage) if usage is not None else None,
        text_of(body, "model"),
        text_of(body, "status"),
        whole,
    )


def fold_stream(events: Iterable[JSONObject]) -> tuple[JSONObject, bool]:
    """Merge the events of a stream. Return the body of one answer, and whether one of ``_END_TYPES`` came."""
    begun: JSONObject = {}
    done: dict[int, JSON] = {}
    for event in events:
        kind = event.get("type")
        response = as_object(event.get("response"))
        if kind in _END_TYPES and response is not None:
            # One service leaves the output empty here: its items came only in earlier events.
            return {**response, "output": response.get("output") or _in_order(done)}, True
        if response is not None:
            begun = response
        elif kind == "response.output_item.done":
            done[number(event, "output_index")] = event.get("item")
    return {**begun, "output": _in_order(done)}, False


def _in_order(items: dict[int, JSON]) -> list[JSON]:
    return [items[index] for index in sorted(items)]


def _tools(holder: JSONObject, pointer: str, namespace: str = "") -> Iterator[OfferedTool]:
    """Yield the functions that a request, an input item or a namespace offers.

    Tools of other types, such as the built-in tools of the service, are left out.
    """
    for place, tool in objects(holder.get("tools"), f"{pointer}/tools"):
        name = text_of(tool, "name")
        if tool.get("type") == "namespace" and not namespace:
            yield from _tools(tool, place, name)
        elif name and tool.get("type", "function") == "function":
            yield OfferedTool(
                name,
                place,
                namespace,
                text_of(tool, "description") or None,
                tool.get("parameters"),
                tool.get("defer_loading") is True,
            )


def _calls(items: Iterable[tuple[str, JSONObject]]) -> Iterator[ModelCall]:
    for pointer, item in items:
        if item.get("type") == "function_call":
            yield model_call(
                text_of(item, "name"),
                item.get("arguments"),
                pointer,
                text_of(item, "call_id", "id"),
                text_of(item, "namespace"),
            )


def _result(pointer: str, item: JSONObject) -> ModelResult:
    return ModelResult(text_of(item, "call_id"), "", tuple(_pieces(item.get("output"))), pointer)


def _texts(body: JSONObject) -> Iterator[str]:
    """Yield the instructions, the input if it is a text, and the descriptions of namespaces.

    An absent text is yielded as an empty one. Codex makes a namespace of each server.
    """
    yield text_of(body, "instructions")
    yield text_of(body, "input")
    yield from (text_of(tool, "description") for _, tool in objects(body.get("tools")) if "tools" in tool)


def _pieces(content: JSON) -> Iterator[Content]:
    if isinstance(content, str):
        yield Content("text", content)
    for _, part in objects(content):
        match part.get("type"):
            case "input_text" | "output_text" | "text":
                yield Content("text", text_of(part, "text"))
            case "input_image":
                yield data_url(text_of(part, "image_url", "file_id"), "image")
            case "input_file":
                yield data_url(text_of(part, "file_data", "file_url", "file_id"), "file")
            case _:
                yield Content("other")


def _usage(usage: JSONObject) -> Usage:
    details = as_object(usage.get("input_tokens_details")) or {}
    return Usage(
        number(usage, "input_tokens"), number(usage, "output_tokens"), number(details, "cached_tokens")
    )
