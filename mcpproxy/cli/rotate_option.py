"""``--rotate SIZE|DURATION``: convert the value to the member ``rotate`` of the journal's START record."""

import re

from mcpproxy.cli.arguments import UsageError

_BYTES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400}
_MIN_BYTES = 64 << 10


def rotation_member(text: str, command: str) -> str:
    """Return ``100M`` or ``12h`` as JSON for the START record; ``null`` if no rotation was requested.

    Raises:
        UsageError: ``text`` is neither a size nor a duration.
    """
    if not text:
        return "null"
    match = re.fullmatch(r"([1-9][0-9]{0,9})(?:([kmg])(?:i?b)?|(s|min|h|d))", text.strip().lower())
    if match is not None:
        number, bytes_unit, seconds_unit = int(match[1]), match[2], match[3]
        if seconds_unit:
            return f'{{"ns":{number * _SECONDS[seconds_unit] * 1_000_000_000}}}'
        if number * _BYTES[bytes_unit] >= _MIN_BYTES:
            return f'{{"bytes":{number * _BYTES[bytes_unit]}}}'
    raise UsageError(
        command,
        f"--rotate {text} is neither a size of at least 64k nor a duration",
        "for example 100M, 90min or 1d",
    )
