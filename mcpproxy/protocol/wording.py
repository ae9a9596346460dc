"""Describe JSON values in the messages of findings (violations of rules): their place, kind and content."""

import json
from typing import Final

from mcpproxy.protocol.jsonrpc import JSON

_MAX_CHARACTERS: Final = 60
"""The maximum number of characters of a peer's value that a message quotes."""

_NAME_CHARACTERS: Final = 130
"""The length of the longest name of a tool, with its quotes (2025-11-25, tools)."""


def token(name: str | int) -> str:
    """Return ``name`` as a step of a JSON Pointer (RFC 6901, section 3): ``a/b`` becomes ``/a~1b``."""
    if isinstance(name, int):
        return f"/{name}"
    return "/" + _without_surrogates(name).replace("~", "~0").replace("/", "~1")


def pointer_steps(pointer: str) -> list[str]:
    """Return the names and indices in a JSON Pointer: ``/a~1b/0`` gives ``a/b`` and ``0``."""
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def kind(value: JSON) -> str:
    """Return the kind of ``value`` with its article: ``a string``, ``an object``, ``null``, ``true``."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return "a string"
        case int() | float():
            return "a number"
        case list():
            return "an array"
        case _:
            return "an object"


def with_article(noun: str) -> str:
    """Return ``noun`` with its article: ``a tools/list result``, ``an elicitation/create result``."""
    return f"{'an' if noun[:1].lower() in 'aeio' and noun else 'a'} {noun}"


def shown(value: JSON, most: int = _MAX_CHARACTERS) -> str:
    """Return a scalar as JSON text of at most ``most`` characters; for an object or an array, its kind.

    The middle of a longer text is cut, because long names often have the same beginning. An integer of
    1024 bits or more becomes words. Lone surrogates are then written as escapes, which may exceed ``most``.
    """
    if isinstance(value, dict | list):
        return kind(value)
    text = json.dumps(value, ensure_ascii=False) if not isinstance(value, int) else _integer_text(value)
    if len(text) > most:
        end = most // 3
        text = f"{text[: most - 1 - end]}…{text[-end:]}"
    return _without_surrogates(text)


def shown_name(name: str) -> str:
    """Return a name as ``shown`` does, but uncut up to the length that a tool's name may have.

    Two names that a host confuses may differ at any place.
    """
    return shown(name, _NAME_CHARACTERS)


def seconds(duration_ns: int) -> str:
    """Return a duration as text in seconds, with one decimal if it is below 9.95 seconds."""
    return f"{duration_ns / 1e9:.{0 if duration_ns >= 9_950_000_000 else 1}f} s"


def unquoted(text: str) -> str:
    """Return ``text`` as ``shown`` does, without the quotes around it."""
    return shown(text)[1:-1]


def _integer_text(value: int) -> str:
    if isinstance(value, bool):
        return kind(value)
    # ``str`` refuses numbers with thousands of digits, which a peer may send.
    return str(value) if value.bit_length() < 1024 else "a very large number"


def _without_surrogates(text: str) -> str:
    # JSON allows lone surrogates, but UTF-8, in which findings are written, cannot encode them.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
