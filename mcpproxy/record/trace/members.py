"""Read the members of a record's JSON object with type checks, and write a record as one line of JSON."""

import binascii
import json
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, Final, TypeVar, cast

import orjson

from mcpproxy.errors import McpProxyError
from mcpproxy.protocol.jsonrpc import JSON, JSONObject, integer

_MISSING: Final = object()

T = TypeVar("T")


class NotARecordError(McpProxyError, ValueError):
    """A line is not a record of a trace, or a record of a journal is not valid; the text says what is
    wrong."""


def object_line(value: Mapping[str, object]) -> bytes:
    """Return ``value`` as one compact line of JSON, including the line feed."""
    try:
        return orjson.dumps(value) + b"\n"
    except TypeError:  # a lone surrogate (from a command argument that is not UTF-8), or a very long number
        return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"


def read_object(text: bytes) -> JSONObject:
    """Parse a line as a JSON object.

    Raises:
        NotARecordError: the line is not a JSON object, or orjson cannot read it and a member is an integer
            of more than 64 bits.
    """
    value: JSON
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            # Unlike orjson, json reads lone surrogates and long numbers.
            value = cast("JSON", json.loads(text.decode("utf-8"), parse_int=integer))
        except (ValueError, RecursionError):
            raise NotARecordError("not a trace record") from None
        # A number of a peer, inside a member, may have any length. The members themselves hold times and
        # counts of mcpproxy, which fit into 64 bits.
        if isinstance(value, dict) and any(
            type(item) is int and item.bit_length() > 64 for item in value.values()
        ):
            raise NotARecordError("a record with a number that is too large") from None
    if not isinstance(value, dict):
        raise NotARecordError("not a trace record")
    return value


def member(members: JSONObject, name: str, kind: type[T], default: object = _MISSING) -> T:
    """Return the member ``name``, which must be of type ``kind``, or ``default`` if it is absent.

    Raises:
        NotARecordError: the member has another type, or is absent without a default.
    """
    value = members.get(name, default)
    if type(value) is not kind:
        raise NotARecordError(
            f"a record without {name}" if value is _MISSING else f"a record with a bad {name}"
        )
    return value


def members_reader(**kinds: type[Any]) -> Callable[[JSONObject], tuple[Any, ...]]:
    """Return a function that reads these members in this order, and raises the same errors as ``member``.

    For frequent records: the function takes a quarter of the time of separate calls of ``member``.
    """
    take, types = itemgetter(*kinds), tuple(kinds.values())

    def read(members: JSONObject) -> tuple[Any, ...]:
        try:
            values: tuple[Any, ...] = take(members)
            if tuple(map(type, values)) == types:
                return values
        except KeyError:
            pass
        return tuple(member(members, name, kind) for name, kind in kinds.items())

    return read


def optional_member(members: JSONObject, name: str, kind: type[T]) -> T | None:
    """Like ``member``, for a member that may be null or absent; ``None`` then."""
    return None if members.get(name) is None else member(members, name, kind)


def list_member(members: JSONObject, name: str, kind: type[T]) -> list[T]:
    """Like ``member``, for a list of ``kind``; empty if absent."""
    items = cast("list[JSON]", member(members, name, list, []))
    if any(type(item) is not kind for item in items):
        raise NotARecordError(f"a record with a bad {name}")
    return cast("list[T]", items)


def one_of(members: JSONObject, name: str, choices: tuple[str, ...]) -> str:
    """Like ``member``, for a string that must be one of ``choices``."""
    value = member(members, name, str)
    if value not in choices:
        raise NotARecordError(f"a record with a bad {name}")
    return value


def text_or_base64(raw: bytes) -> bytes:
    """Return ``raw`` as a member ``text`` or, if it is not UTF-8 or JSON would make it much longer,
    ``base64``."""
    try:
        text = orjson.dumps(raw.decode("utf-8"))
    except UnicodeDecodeError:
        text = None
    # A control character needs six bytes as JSON text; base64 needs four for every three bytes.
    if text is None or len(text) > 5 * len(raw) // 2 + _SHORT_TEXT_BYTES:
        return b'"base64":"%b"' % binascii.b2a_base64(raw, newline=False)
    return b'"text":' + text


_SHORT_TEXT_BYTES: Final = 32
"""How many more bytes than 2.5 times the raw bytes the text may have, so that short lines stay readable."""


def text_or_base64_of(members: JSONObject) -> bytes:
    """Return the bytes that ``text_or_base64`` wrote.

    Raises:
        NotARecordError: the object has no such member, or it is damaged.
    """
    try:
        if "base64" in members:
            return binascii.a2b_base64(member(members, "base64", str), strict_mode=True)
        return member(members, "text", str).encode("utf-8")
    except ValueError as fault:
        if isinstance(fault, NotARecordError):
            raise
        raise NotARecordError("damaged text") from None


def bytes_of(value: JSON) -> bytes:
    """Return the bytes of a string, or of an object with the member ``base64``.

    Raises:
        NotARecordError: the value is neither, or is damaged.
    """
    match value:
        case str():
            try:
                return value.encode("utf-8")
            except UnicodeEncodeError:  # a lone surrogate, whose bytes are written as base64
                raise NotARecordError("a record with a bad event") from None
        case {"base64": str(text)}:
            return unbase64(text)
        case _:
            raise NotARecordError("a record with a bad event")


def unbase64(text: str) -> bytes:
    """Return the bytes that base64 stands for.

    Raises:
        NotARecordError: the text is damaged.
    """
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise NotARecordError("damaged text") from None
