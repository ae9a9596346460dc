"""Read the values of ``--rotate SIZE|DURATION``, ``--max-size SIZE`` and ``--reserve SIZE``."""

import re

from mcpproxy.cli.arguments import UsageError

_UNIT_BYTES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_UNIT_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400}
_MIN_ROTATION_BYTES = 64 << 10
_SIZE_PATTERN = r"([1-9][0-9]{0,9})(?:([kmgt])(?:i?b)?)"


def rotation_member(text: str, command: str) -> str:
    """Return ``100M`` or ``12h`` as JSON for the journal's START record; ``null`` without a rotation.

    Raises:
        UsageError: ``text`` is neither a size of at least 64 KiB nor a duration.
    """
    if not text:
        return "null"
    if match := re.fullmatch(r"([1-9][0-9]{0,9})(s|min|h|d)", text.strip().lower()):
        return f'{{"ns":{int(match[1]) * _UNIT_SECONDS[match[2]] * 1_000_000_000}}}'
    if (size := _size(text)) >= _MIN_ROTATION_BYTES:
        return f'{{"bytes":{size}}}'
    raise UsageError(
        command,
        f"--rotate {text} is neither a size of at least 64k nor a duration",
        "for example 100M, 90min or 1d",
    )


def size_bytes(text: str, option: str, command: str, least: int) -> int:
    """Return the size that an option names, in bytes. If ``least`` is 0, ``0`` is a size, too.

    Raises:
        UsageError: ``text`` is not a size, or is below ``least`` bytes.
    """
    if text.strip() == "0" and not least:
        return 0
    if (size := _size(text)) >= max(least, 1):
        return size
    what = f"size of at least {least >> 20}M" if least else "size"
    raise UsageError(command, f"{option} {text} is not a {what}", "for example 500M or 2G")


def _size(text: str) -> int:
    """Return a size such as ``100M`` in bytes; 0 if ``text`` is not a size."""
    match = re.fullmatch(_SIZE_PATTERN, text.strip().lower())
    return int(match[1]) * _UNIT_BYTES[match[2]] if match else 0
