"""Anthropic Messages: ``POST /v1/messages``.

Source: https://docs.anthropic.com/en/api/messages and the types of ``@anthropic-ai/sdk`` 1.14
(``resources/messages/messages.d.ts``).
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
from mcpproxy.model.values import blob, model_call, number, objects, text_of
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.message_parts import as_object

NAME: Final = "anthropic"


def read_request(body: JSONObject) -> ModelRequest:
    """Read a request."""
    blocks = tuple(_blocks(body))
    return ModelRequest(
        NAME,
        text_of(body, "model"),
        tools=tuple(_tool(pointer, tool) for pointer, tool in objects(body.get("tools"), "/tools")),
        calls=tuple(_calls(blocks)),
        results=tuple(
            _result(pointer, block) for pointer, block in blocks if block.get("type") == "tool_result"
        ),
        texts=tuple(_texts(body)),
        beside=tuple(_content(block) for _, block in blocks if block.get("type") in ("image", "document")),
    )


def read_answer(body: JSONObject, whole: bool) -> ModelAnswer:
    """Read an answer. ``whole`` is false if it comes from a stream that was cut before its end."""
    blocks = tuple(objects(body.get("content"), "/content"))
    usage = as_object(body.get("usage"))
    return ModelAnswer(
        tuple(_calls(blocks)),
        "".join(text_of(block, "text") for _, block in blocks if block.get("type") == "text"),
        _usage(usage) if usage is not None else None,
        text_of(body, "model"),
        text_of(body, "stop_reason"),
        whole,
    )


def fold_stream(events: Iterable[JSONObject]) -> tuple[JSONObject, bool]:
    """Merge the events of a stream. Return the body of one answer, and whether ``message_stop`` came."""
    message: JSONObject = {}
    blocks: dict[int, JSONObject] = {}
    partial: dict[int, list[str]] = {}
    is_whole = False
    for event in events:
        index = number(event, "index")
        delta = as_object(event.get("delta")) or {}
        match event.get("type"):
            case "message_start":
                message = dict(as_object(event.get("message")) or {})
            case "content_block_start":
                blocks[index] = dict(as_object(event.get("content_block")) or {})
            case "content_block_delta" if index in blocks:
                if delta.get("type") == "text_delta":
                    blocks[index]["text"] = text_of(blocks[index], "text") + text_of(delta, "text")
                elif delta.get("type") == "input_json_delta":
                    partial.setdefault(index, []).append(text_of(delta, "partial_json"))
            case "message_delta":
                message["stop_reason"] = delta.get("stop_reason")
                newer_usage = as_object(event.get("usage")) or {}
                message["usage"] = {**(as_object(message.get("usage")) or {}), **newer_usage}
            case "message_stop":
                is_whole = True
            case _:
                pass
    for index, pieces in partial.items():
        if text := "".join(pieces):
            blocks[index]["input"] = text
    content: list[JSON] = [blocks[index] for index in sorted(blocks)]
    return {**message, "content": content}, is_whole


def _tool(pointer: str, tool: JSONObject) -> OfferedTool:
    return OfferedTool(
        text_of(tool, "name"),
        pointer,
        description=text_of(tool, "description") or None,
        schema=tool.get("input_schema"),
        deferred=tool.get("defer_loading") is True,
    )


def _blocks(body: JSONObject) -> Iterator[tuple[str, JSONObject]]:
    for pointer, message in objects(body.get("messages"), "/messages"):
        yield from objects(message.get("content"), f"{pointer}/content")


def _calls(blocks: Iterable[tuple[str, JSONObject]]) -> Iterator[ModelCall]:
    for pointer, block in blocks:
        if block.get("type") == "tool_use":
            yield model_call(text_of(block, "name"), block.get("input"), pointer, text_of(block, "id"))


def _result(pointer: str, block: JSONObject) -> ModelResult:
    content = block.get("content")
    pieces = (
        (Content("text", content),)
        if isinstance(content, str)
        else tuple(_content(piece) for _, piece in objects(content))
    )
    return ModelResult(text_of(block, "tool_use_id"), "", pieces, pointer, block.get("is_error") is True)


def _content(block: JSONObject) -> Content:
    source = as_object(block.get("source")) or {}
    match block.get("type"):
        case "text":
            return Content("text", text_of(block, "text"))
        case "document" if source.get("type") == "text":
            return Content("text", text_of(source, "data"))
        case "document" if source.get("type") == "content":
            return Content("text", _inner_text(source))
        case "search_result":
            return Content("text", _inner_text(block))
        case "image" | "document" if source.get("type") == "base64":
            return blob(text_of(source, "data"), text_of(source, "media_type"))
        case "image" | "document":
            return Content("reference", text_of(source, "url", "file_id"))
        case "tool_reference":
            return Content("reference", text_of(block, "tool_name"))
        case _:
            return Content("other")


def _inner_text(holder: JSONObject) -> str:
    """Return the text of a document or a search result whose content is a text or a list of texts."""
    content = holder.get("content")
    return (
        content
        if isinstance(content, str)
        else "".join(text_of(part, "text") for _, part in objects(content))
    )


def _texts(body: JSONObject) -> Iterator[str]:
    """Yield the texts of ``system`` and of all messages, of any role: Claude Code uses ``system``, too."""
    for holder, name in (
        (body, "system"),
        *((message, "content") for _, message in objects(body.get("messages"))),
    ):
        content = holder.get(name)
        if isinstance(content, str):
            yield content
        yield from (text_of(block, "text") for _, block in objects(content) if block.get("type") == "text")


def _usage(usage: JSONObject) -> Usage:
    cached = number(usage, "cache_read_input_tokens")
    sent = number(usage, "input_tokens") + number(usage, "cache_creation_input_tokens") + cached
    return Usage(sent, number(usage, "output_tokens"), cached)
