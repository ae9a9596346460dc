"""Writes the answers of OpenAI Chat Completions, and the errors of both interfaces of OpenAI.

Source: https://platform.openai.com/docs/api-reference/chat, /chat-streaming and /docs/guides/error-codes.
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.peers.scripted_model.answers.pieces import (
    ANSWERED_TOKENS,
    ASKED_TOKENS,
    CREATED,
    json_text,
    nameless_events,
    pieces,
)
from mcpproxy.peers.scripted_model.scripted_answer import ScriptedAnswer, ScriptedCall
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.message_parts import member

_USAGE: Final[JSONObject] = {
    "prompt_tokens": ASKED_TOKENS,
    "completion_tokens": ANSWERED_TOKENS,
    "total_tokens": ASKED_TOKENS + ANSWERED_TOKENS,
}

_ERROR_CODES: Final = {
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}
"""HTTP status of an error -> its type and its code in the body."""


def body(answer: ScriptedAnswer, model: str) -> JSONObject:
    """Return an answer as one JSON object."""
    message: JSONObject = {"role": "assistant", "content": answer.text or None, "refusal": None}
    if answer.calls:
        message["tool_calls"] = [_call(call, json_text(call.arguments)) for call in answer.calls]
    choice: JSONObject = {"index": 0, "message": message, "logprobs": None, "finish_reason": _ending(answer)}
    return {**_head(answer, model, "chat.completion"), "choices": [choice], "usage": _USAGE}


def stream(answer: ScriptedAnswer, model: str, options: JSONObject) -> Iterator[bytes]:
    """Yield an answer as chunks. The last one has the usage if the request asks for it."""
    yield from nameless_events(_chunks(answer, model, options))
    yield b"data: [DONE]\n\n"


def error(status: int, message: str) -> JSONObject:
    """Return the body of an error."""
    default = ("server_error", None) if status >= 500 else ("invalid_request_error", None)
    kind, code = _ERROR_CODES.get(status, default)
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _chunks(answer: ScriptedAnswer, model: str, options: JSONObject) -> Iterator[JSONObject]:
    head = _head(answer, model, "chat.completion.chunk")

    def chunk(delta: JSONObject, ending: JSON = None) -> JSONObject:
        choice: JSONObject = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": ending}
        return {**head, "choices": [choice]}

    yield chunk({"role": "assistant", "content": "" if answer.text else None})
    yield from (chunk({"content": piece}) for piece in pieces(answer.text))
    for index, call in enumerate(answer.calls):
        yield chunk({"tool_calls": [{"index": index, **_call(call, "")}]})
        for piece in pieces(json_text(call.arguments)):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, _ending(answer))
    if member(options, "stream_options", "include_usage") is True:
        yield {**head, "choices": [], "usage": _USAGE}


def _head(answer: ScriptedAnswer, model: str, kind: str) -> JSONObject:
    return {"id": f"chatcmpl-{answer.number}", "object": kind, "created": CREATED, "model": model}


def _call(call: ScriptedCall, arguments: str) -> JSONObject:
    function: JSONObject = {"name": call.name, "arguments": arguments}
    return {"id": f"call_{call.id}", "type": "function", "function": function}


def _ending(answer: ScriptedAnswer) -> str:
    return "tool_calls" if answer.calls else "stop"
