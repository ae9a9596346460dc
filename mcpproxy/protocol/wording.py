"""How findings describe JSON values: their place, their kind, their content."""

import json
from typing import Final

from mcpproxy.protocol.jsonrpc import JSON

_SHOWN: Final = 60
"""Characters of a peer's value that a sentence repeats at most."""


def token(name: str | int) -> str:
    """``name`` as a JSON Pointer goes on with it (RFC 6901): ``a/b`` becomes ``/a~1b``."""
    if isinstance(name, int):
        return f"/{name}"
    return "/" + _writable(name).replace("~", "~0").replace("/", "~1")


def kind(value: JSON) -> str:
    """What ``value`` is, with its article: ``a string``, ``an object``, ``null``, ``true``."""
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
    """``noun`` behind "a" or "an": ``a tools/list result``, ``an elicitation/create result``."""
    return f"{'an' if noun[:1].lower() in 'aeio' and noun else 'a'} {noun}"


def shown(value: JSON) -> str:
    """A scalar as JSON writes it, cut to a readable length; of anything else its kind."""
    if isinstance(value, dict | list):
        return kind(value)
    text = json.dumps(value, ensure_ascii=False) if not isinstance(value, int) else _digits(value)
    return _writable(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")


def seconds(duration_ns: int) -> str:
    """A duration in seconds, with one decimal below one second."""
    return f"{duration_ns / 1e9:.{0 if duration_ns >= 1_000_000_000 else 1}f} s"


def _digits(value: int) -> str:
    if isinstance(value, bool):
        return kind(value)
    # int() and str() refuse thousands of digits, and a peer may send them.
    return str(value) if value.bit_length() < 1024 else "a very large number"


def _writable(text: str) -> str:
    # JSON can say half of a surrogate pair, UTF-8 cannot, and what we say is written down.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
