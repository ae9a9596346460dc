"""The blocks of a pcapng file: a section header, interfaces, packets. Numbers are little-endian.

Source: https://ietf-opsawg-wg.github.io/draft-ietf-opsawg-pcap/draft-ietf-opsawg-pcapng.html
"""

import struct
from collections.abc import Iterable
from typing import Final

from mcpproxy import __version__

LINK_RAW_IP: Final = 101
LINK_EXPORTED_PDU: Final = 252
"""Wireshark's own link type: a message, and before it the name of the dissector that understands it."""

MAX_PACKET_BYTES: Final = 262_144
"""Wireshark opens no file with a longer packet."""

_MAX_COMMENT_BYTES: Final = 8_192
"""A longer comment is cut to this length, and an ellipsis follows."""

# Types of blocks.
_SECTION_HEADER: Final = 0x0A0D0D0A
_INTERFACE: Final = 1
_ENHANCED_PACKET: Final = 6
# Codes of options.
_COMMENT: Final = 1
_USER_APPLICATION: Final = 4
_INTERFACE_NAME: Final = 2
_TIME_RESOLUTION: Final = 9

_UNKNOWN_LENGTH: Final = 0xFFFF_FFFF_FFFF_FFFF
_LATEST_NS: Final = (1 << 63) - 1


def section_header(comments: Iterable[str]) -> bytes:
    """Return the first block of a file."""
    fixed = struct.pack("<IHHQ", 0x1A2B3C4D, 1, 0, _UNKNOWN_LENGTH)
    options = [*map(_comment, comments), _option(_USER_APPLICATION, f"mcpproxy {__version__}".encode())]
    return _block(_SECTION_HEADER, fixed, options)


def interface(name: str, link_type: int) -> bytes:
    """Return the block of an interface, whose packets have times in nanoseconds."""
    fixed = struct.pack("<HHI", link_type, 0, MAX_PACKET_BYTES)
    return _block(
        _INTERFACE, fixed, [_option(_INTERFACE_NAME, name.encode()), _option(_TIME_RESOLUTION, b"\t")]
    )


def packet(interface: int, unix_ns: int, data: bytes, comments: Iterable[str] = ()) -> bytes:
    """Return the block of a packet. ``interface`` counts from 0, in the order of the interfaces' blocks.

    ``unix_ns`` is its time in nanoseconds since 1970; a time before 1970 becomes 0, and a time after
    ``_LATEST_NS`` becomes that.
    """
    unix_ns = min(max(unix_ns, 0), _LATEST_NS)
    size = len(data)
    fixed = struct.pack("<IIIII", interface, unix_ns >> 32, unix_ns & 0xFFFF_FFFF, size, size)
    return _block(_ENHANCED_PACKET, fixed + _padded(data), [_comment(comment) for comment in comments])


def _comment(text: str) -> bytes:
    content = text.encode("utf-8", "replace")
    if len(content) > _MAX_COMMENT_BYTES:
        content = content[:_MAX_COMMENT_BYTES].decode("utf-8", "ignore").encode() + "…".encode()
    return _option(_COMMENT, content)


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + _padded(value)


def _block(kind: int, fixed: bytes, options: list[bytes]) -> bytes:
    body = fixed + (b"".join(options) + bytes(4) if options else b"")
    size = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + size + body + size


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
