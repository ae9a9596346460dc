"""Writes the answers of OpenAI Responses.

Source: https://platform.openai.com/docs/api-reference/responses and /responses-streaming.
"""

from collections.abc import Iterator
from itertools import count
from typing import Final

from mcpproxy.peers.scripted_model.answers.chat import error
from mcpproxy.peers.scripted_model.answers.pieces import (
    ANSWERED_TOKENS,
    ASKED_TOKENS,
    CREATED,
    json_text,
    named_events,
    pieces,
)
from mcpproxy.peers.scripted_model.scripted_answer import ScriptedAnswer
from mcpproxy.protocol.jsonrpc import JSON, JSONObject

__all__ = ["body", "error", "stream"]

_USAGE: Final[JSONObject] = {
    "input_tokens": ASKED_TOKENS,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": ANSWERED_TOKENS,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": ASKED_TOKENS + ANSWERED_TOKENS,
}


def body(answer: ScriptedAnswer, model: str) -> JSONObject:
    """Return an answer as one JSON object."""
    return _response(answer, model, "completed", [*_items(answer)])


def stream(answer: ScriptedAnswer, model: str, options: JSONObject) -> Iterator[bytes]:
    """Yield an answer as numbered events."""
    del options
    numbers = count()
    events = _events(answer, model)
    return named_events({**event, "sequence_number": next(numbers)} for event in events)


def _events(answer: ScriptedAnswer, model: str) -> Iterator[JSONObject]:
    begun = _response(answer, model, "in_progress", [])
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(_items(answer)):
        at: JSONObject = {"output_index": index}
        is_text = item["type"] == "message"
        empty: JSONObject = {"content": []} if is_text else {"arguments": ""}
        added: JSONObject = {**item, **empty, "status": "in_progress"}
        yield {"type": "response.output_item.added", **at, "item": added}
        at["item_id"] = item["id"]
        yield from _text_events(answer.text, at) if is_text else _call_events(item, at)
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": body(answer, model)}


def _text_events(text: str, at: JSONObject) -> Iterator[JSONObject]:
    at = {**at, "content_index": 0}
    yield {"type": "response.content_part.added", **at, "part": _part("")}
    for piece in pieces(text):
        yield {"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **at, "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", **at, "part": _part(text)}


def _call_events(item: JSONObject, at: JSONObject) -> Iterator[JSONObject]:
    arguments = str(item["arguments"])
    for piece in pieces(arguments):
        yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
    done: JSONObject = {"name": item["name"], "arguments": arguments}
    yield {"type": "response.function_call_arguments.done", **at, **done}


def _items(answer: ScriptedAnswer) -> Iterator[JSONObject]:
    if answer.text:
        yield {
            "id": f"msg_{answer.number}",
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [_part(answer.text)],
        }
    for call in answer.calls:
        item: JSONObject = {
            "id": f"fc_{call.id}",
            "type": "function_call",
            "status": "completed",
            "call_id": f"call_{call.id}",
            "name": call.name,
            "arguments": json_text(call.arguments),
        }
        yield {**item, "namespace": call.namespace} if call.namespace else item


def _part(text: str) -> JSONObject:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _response(answer: ScriptedAnswer, model: str, status: str, output: list[JSON]) -> JSONObject:
    return {
        "id": f"resp_{answer.number}",
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": _USAGE if status == "completed" else None,
    }
