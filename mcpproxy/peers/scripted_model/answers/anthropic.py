"""Writes the answers of Anthropic Messages.

Source: https://docs.anthropic.com/en/api/messages, /messages-streaming and /errors.
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.peers.scripted_model.answers.pieces import (
    ANSWERED_TOKENS,
    ASKED_TOKENS,
    json_text,
    named_events,
    pieces,
)
from mcpproxy.peers.scripted_model.scripted_answer import ScriptedAnswer
from mcpproxy.protocol.jsonrpc import JSON, JSONObject

_USAGE: Final[JSONObject] = {
    "input_tokens": ASKED_TOKENS,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "output_tokens": ANSWERED_TOKENS,
}

_ERROR_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
"""HTTP status of an error -> its type in the body."""


def body(answer: ScriptedAnswer, model: str) -> JSONObject:
    """Return an answer as one JSON object."""
    blocks: list[JSON] = [*_blocks(answer)]
    return {**_message(answer, model, blocks), "stop_reason": _ending(answer), "usage": _USAGE}


def stream(answer: ScriptedAnswer, model: str, options: JSONObject) -> Iterator[bytes]:
    """Yield an answer as events."""
    del options
    return named_events(_events(answer, model))


def error(status: int, message: str) -> JSONObject:
    """Return the body of an error."""
    kind = _ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_scripted"}


def _events(answer: ScriptedAnswer, model: str) -> Iterator[JSONObject]:
    begun: JSONObject = {**_USAGE, "output_tokens": 1}
    yield {"type": "message_start", "message": {**_message(answer, model, []), "usage": begun}}
    for index, block in enumerate(_blocks(answer)):
        at: JSONObject = {"index": index}
        is_text = block["type"] == "text"
        empty: JSONObject = {**block, "text": ""} if is_text else {**block, "input": {}}
        yield {"type": "content_block_start", **at, "content_block": empty}
        if index == 0:
            yield {"type": "ping"}
        whole = answer.text if is_text else json_text(block["input"])
        kind, name = ("text_delta", "text") if is_text else ("input_json_delta", "partial_json")
        for piece in pieces(whole):
            yield {"type": "content_block_delta", **at, "delta": {"type": kind, name: piece}}
        yield {"type": "content_block_stop", **at}
    ending: JSONObject = {"stop_reason": _ending(answer), "stop_sequence": None}
    yield {"type": "message_delta", "delta": ending, "usage": {"output_tokens": ANSWERED_TOKENS}}
    yield {"type": "message_stop"}


def _message(answer: ScriptedAnswer, model: str, blocks: list[JSON]) -> JSONObject:
    return {
        "id": f"msg_{answer.number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks,
        "stop_reason": None,
        "stop_sequence": None,
    }


def _blocks(answer: ScriptedAnswer) -> Iterator[JSONObject]:
    if answer.text:
        yield {"type": "text", "text": answer.text}
    for call in answer.calls:
        yield {"type": "tool_use", "id": f"toolu_{call.id}", "name": call.name, "input": call.arguments}


def _ending(answer: ScriptedAnswer) -> str:
    return "tool_use" if answer.calls else "end_turn"
