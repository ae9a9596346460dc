"""Writes the answers of Gemini.

Source: https://ai.google.dev/api/generate-content and https://ai.google.dev/gemini-api/docs/troubleshooting.
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.base.json_values import dumps
from mcpproxy.peers.scripted_model.answers.pieces import (
    ANSWERED_TOKENS,
    ASKED_TOKENS,
    nameless_events,
    pieces,
)
from mcpproxy.peers.scripted_model.scripted_answer import ScriptedAnswer
from mcpproxy.protocol.jsonrpc import JSON, JSONObject

_USAGE: Final[JSONObject] = {
    "promptTokenCount": ASKED_TOKENS,
    "candidatesTokenCount": ANSWERED_TOKENS,
    "totalTokenCount": ASKED_TOKENS + ANSWERED_TOKENS,
}

_STATUSES: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
"""HTTP status of an error -> its status in the body."""


def body(answer: ScriptedAnswer, model: str) -> JSONObject:
    """Return an answer as one JSON object."""
    text: list[JSON] = [{"text": answer.text}] if answer.text else []
    return _response(answer, model, [*text, *_calls(answer)], is_last=True)


def stream(answer: ScriptedAnswer, model: str, options: JSONObject) -> Iterator[bytes]:
    """Yield an answer as pieces of text and then the calls.

    ``options`` has the members of the request and of its query. With ``alt=sse`` the pieces are events,
    otherwise the elements of one JSON array.
    """
    parts: list[list[JSON]] = [[{"text": piece}] for piece in pieces(answer.text)]
    parts += [[call] for call in _calls(answer)]
    last = len(parts) - 1
    events = (_response(answer, model, part, is_last=at == last) for at, part in enumerate(parts))
    return nameless_events(events) if options.get("alt") == "sse" else _array(events)


def error(status: int, message: str) -> JSONObject:
    """Return the body of an error."""
    kind = _STATUSES.get(status, "INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
    return {"error": {"code": status, "message": message, "status": kind}}


def _calls(answer: ScriptedAnswer) -> list[JSON]:
    return [
        {"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}} for call in answer.calls
    ]


def _response(answer: ScriptedAnswer, model: str, parts: list[JSON], *, is_last: bool) -> JSONObject:
    candidate: JSONObject = {"content": {"role": "model", "parts": parts}, "index": 0}
    if is_last:
        candidate["finishReason"] = "STOP"
    return {
        "candidates": [candidate],
        "usageMetadata": _USAGE,
        "modelVersion": model,
        "responseId": answer.number,
    }


def _array(events: Iterator[JSONObject]) -> Iterator[bytes]:
    before = b"["
    for event in events:
        yield before + dumps(event, compact=True).encode()
        before = b",\r\n"
    yield b"]"
