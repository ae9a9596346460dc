"""Read parts of parsed messages: the messages of a frame (a line, body or event; several if it is a batch),
their ids and targets, the members of a value."""

import json
from collections.abc import Iterator
from typing import Final, TypeAlias, cast

import orjson

from mcpproxy.base.patterns import pattern
from mcpproxy.protocol.jsonrpc import (
    JSON,
    Absent,
    Batch,
    ErrorResponse,
    JSONObject,
    Malformed,
    Message,
    Notification,
    Request,
    RequestId,
    Response,
    Single,
)
from mcpproxy.protocol.mcp_in_acp import MESSAGE, WRAPPERS

WellFormed: TypeAlias = Request | Notification | Response | ErrorResponse
"""A JSON-RPC message that is not malformed."""

Key: TypeAlias = tuple[type, int | str]
"""A request id with its JSON type: the number 1 and the string "1" are two ids."""

TARGETS: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "resources/subscribe": "uri",
    "resources/unsubscribe": "uri",
    "resources/directory/read": "uri",
    "skills/get": "uri",
    **dict.fromkeys(WRAPPERS, "method"),
}
"""Method -> the member of its params that names its target: a tool, prompt, resource or skill, or the method
of the message that it carries.

The id of a task is not a target: a server issues a new id for each task, so it would group nothing.
"""

_LEADING_ID: Final = pattern(
    rb'\s*+\{\s*+(?:"jsonrpc"\s*+:\s*+"2\.0"\s*+,\s*+)?"id"\s*+:\s*+(-?\d{1,18}|"[^"\\]{0,200}")\s*+,\s*+"result"'
)
"""The beginning of a response whose id, a short one without escapes, is right before the result."""


def target_of(method: str, params: "JSON | Absent") -> str | None:
    """Return the tool, prompt, resource or skill that a request of ``method`` names; ``None`` without one.

    For a request that carries another message, return that message's method and target:
    ``tools/call search``.
    """
    name = TARGETS.get(method)
    target = params.get(name) if name is not None and isinstance(params, dict) else None
    if not isinstance(target, str):
        return None
    # The only wrapper that counts inside another is ``mcp/message`` in a message of an ACP proxy. So the
    # recursion ends soon.
    if method in WRAPPERS and (target == MESSAGE or target not in WRAPPERS) and method != target:
        inner_target = target_of(target, member(params, "params"))
        return target if inner_target is None else f"{target} {inner_target}"
    return target


def cursor_of(params: "JSON | Absent") -> str | None:
    """Return the cursor in the params of a request; ``None`` if there is none, or it is not a string."""
    cursor = member(params, "cursor")
    return cursor if isinstance(cursor, str) else None


def number_of(value: JSON) -> float | None:
    """Return ``value`` if it is a number, otherwise ``None``."""
    return value if type(value) is int or type(value) is float else None


def updated_resource(message: Single) -> str | None:
    """Return the URI in a notification that a resource was updated; ``None`` for other messages."""
    if isinstance(message, Notification) and message.method == "notifications/resources/updated":
        return target_of("resources/subscribe", message.params)  # its params name it in the same member
    return None


def singles(message: Message) -> tuple[Single, ...]:
    """Return the messages of a frame: those of a batch, or the one message."""
    return message.items if isinstance(message, Batch) else (message,)


def well_formed(message: Message) -> tuple[WellFormed, ...]:
    """Return the messages of a frame that are not malformed."""
    return tuple(single for single in singles(message) if not isinstance(single, Malformed))


def as_key(id: object) -> Key | None:
    """Return an id with its JSON type; ``None`` for a value that is not an id."""
    return (type(id), id) if isinstance(id, int | str) and not isinstance(id, bool) else None


def key_of(single: Request | Response | ErrorResponse) -> Key | None:
    """Return the id of a request or of an answer; ``None`` if it has none."""
    return as_key(single.id)


def answers_in(message: Message) -> tuple[Response | ErrorResponse, ...]:
    """Return the messages of a frame that answer a request."""
    return tuple(single for single in singles(message) if isinstance(single, Response | ErrorResponse))


def answered_ids(message: Message) -> Iterator[Key]:
    """Yield the ids that the messages of a frame answer."""
    for answer in answers_in(message):
        if (key := key_of(answer)) is not None:
            yield key


def error_of(message: Message | None) -> JSON:
    """Return the error of an answer; ``None`` for other messages, and for an answer without an error."""
    return or_none(message.error) if isinstance(message, ErrorResponse) else None


def leading_result_id(raw: bytes) -> RequestId | None:
    """Return the id of a result from its first bytes alone; ``None`` if they do not match ``_LEADING_ID``."""
    match = _LEADING_ID.match(raw)
    return cast("RequestId", orjson.loads(match[1])) if match else None


def value_of(message: Message) -> "JSON | Absent":
    """Return the JSON value of a frame, for a batch an array; ``ABSENT`` if it was not parsed."""
    if isinstance(message, Batch):
        return [cast("JSON", item.value) for item in singles(message)]  # items of an array have a value
    return message.value


def member(value: "JSON | Absent", *names: str) -> JSON:
    """Return the member at the path ``names`` (at least one name); ``None`` if a member on it is missing."""
    for name in names:
        if type(value) is not dict:
            return None
        value = value.get(name)
    return value  # pyright: ignore[reportReturnType] # an absent value is not an object


def or_none(value: "JSON | Absent") -> JSON:
    """Return ``value``, or ``None`` if it is absent."""
    return None if isinstance(value, Absent) else value


def text_member(value: "JSON | Absent", *names: str) -> str | None:
    """Return the string at the path ``names``; ``None`` if there is something else or nothing."""
    text = member(value, *names)
    return text if isinstance(text, str) else None


def as_object(value: object) -> JSONObject | None:
    """Return ``value`` if it is a JSON object, otherwise ``None``."""
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]


def object_in(raw: bytes) -> JSONObject | None:
    """Return the object that the module ``json`` reads in ``raw``; ``None`` if it reads none."""
    try:
        return as_object(json.loads(raw))
    except (ValueError, RecursionError):
        return None


def objects_in(value: JSON) -> list[JSONObject]:
    """Return the objects of an array; an empty list for any other value."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
