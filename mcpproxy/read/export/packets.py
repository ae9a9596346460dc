"""Make packets of recorded bytes: TCP segments, and messages for Wireshark's dissectors.

Addresses and ports are not in a recording. The client is one of 192.0.2.0/24 and the server is 198.51.100.1,
which are addresses for documentation, so nobody takes them for real ones. The server's port is 80, by which
Wireshark recognises HTTP.
"""

import struct
from collections.abc import Iterator
from typing import Final

from mcpproxy.judge.session.frame import CLIENT, Sender, other
from mcpproxy.read.export.pcapng_blocks import MAX_PACKET_BYTES

JSON_TEXT: Final = "json"
TEXT: Final = "data-text-lines"
"""The names of two dissectors of Wireshark."""

_SERVER_ADDRESS: Final = bytes((198, 51, 100, 1))
_SERVER_PORT: Final = 80
_FIRST_PORT: Final = 49_152
_PORTS: Final = 65_536 - _FIRST_PORT
"""The first of the client's ports, and how many there are: each connection has one."""
_IP_AND_TCP_BYTES: Final = 40
_MAX_SEGMENT_BYTES: Final = 65_535 - _IP_AND_TCP_BYTES
_TCP: Final = 6
"""The number of TCP among the protocols of IP."""

# Flags in the header of a segment.
_PSH_ACK: Final = 0x18
_ACK: Final = 0x10
_FIN_ACK: Final = 0x11

# Tags before a message of ``LINK_EXPORTED_PDU``, as Wireshark numbers them.
_TAG_DISSECTOR: Final = 12
_TAG_SOURCE_ADDRESS: Final = 20
_TAG_DESTINATION_ADDRESS: Final = 21
_TAG_PROTOCOL_COLUMN: Final = 33
_MAX_MESSAGE_BYTES: Final = MAX_PACKET_BYTES - 256  # the rest is for the tags


class TcpConnection:
    """The two directions of a connection. Each packet acknowledges everything that was sent before it.

    ``number``, that of the connection in the recording, gives the client's address and port.
    """

    def __init__(self, number: int) -> None:
        self._client: Final = _client_address(number // _PORTS)
        self._port: Final = _FIRST_PORT + number % _PORTS
        self._next: Final[dict[Sender, int]] = {"client": 1, "server": 1}

    def segments(self, sender: Sender, data: bytes) -> Iterator[bytes]:
        """Yield the packets that carry ``data``, at least one."""
        for start in range(0, len(data) or 1, _MAX_SEGMENT_BYTES):
            part = data[start : start + _MAX_SEGMENT_BYTES]
            yield self._packet(sender, _PSH_ACK if part else _ACK, part)
            self.skip(sender, len(part))

    def end(self, sender: Sender) -> bytes:
        """Return the packet with which ``sender`` ends its direction."""
        packet = self._packet(sender, _FIN_ACK, b"")
        self.skip(sender, 1)
        return packet

    def skip(self, sender: Sender, size: int) -> None:
        """Advance the sequence number of ``sender`` by ``size`` bytes."""
        self._next[sender] = (self._next[sender] + size) & 0xFFFF_FFFF

    def _packet(self, sender: Sender, flags: int, data: bytes) -> bytes:
        addresses, ports = (self._client, _SERVER_ADDRESS), (self._port, _SERVER_PORT)
        if sender != CLIENT:
            addresses, ports = addresses[::-1], ports[::-1]
        numbers = (self._next[sender], self._next[other(sender)])
        segment = struct.pack("!HHIIBBHHH", *ports, *numbers, 5 << 4, flags, 65_535, 0, 0) + data
        pseudo = b"".join(addresses) + struct.pack("!HH", _TCP, len(segment))
        segment = segment[:16] + _checksum(pseudo + segment) + segment[18:]
        header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(segment), 0, 0, 64, _TCP, 0) + b"".join(addresses)
        return header[:10] + _checksum(header) + header[12:] + segment


def message_packets(sender: Sender | None, dissector: str, protocol: str, data: bytes) -> Iterator[bytes]:
    """Yield the packets of a message for one of Wireshark's dissectors.

    A message that is too long for one packet has several, which are shown as plain text. ``protocol`` is the
    text for Wireshark's column of that name. ``sender`` is ``None`` if neither peer sent the message.
    """
    if len(data) > _MAX_MESSAGE_BYTES:
        dissector = TEXT
    tags = _tag(_TAG_DISSECTOR, dissector.encode()) + _tag(_TAG_PROTOCOL_COLUMN, protocol.encode())
    if sender:
        addresses = (_client_address(0), _SERVER_ADDRESS)
        source, destination = addresses if sender == CLIENT else addresses[::-1]
        tags += _tag(_TAG_SOURCE_ADDRESS, source) + _tag(_TAG_DESTINATION_ADDRESS, destination)
    tags += bytes(4)
    for start in range(0, len(data) or 1, _MAX_MESSAGE_BYTES):
        yield tags + data[start : start + _MAX_MESSAGE_BYTES]


def _tag(number: int, value: bytes) -> bytes:
    value += bytes(-len(value) % 4)
    return struct.pack("!HH", number, len(value)) + value


def _client_address(block: int) -> bytes:
    """Return the client's address for a block of ``_PORTS`` connections."""
    return bytes((192, 0, 2, 1 + block % 254))


def _checksum(data: bytes) -> bytes:
    """Return the checksum of RFC 1071, a sum of words: it is a remainder, because 2**16 is 1 modulo 65535."""
    words = int.from_bytes(data + bytes(len(data) % 2))
    return struct.pack("!H", 0xFFFF - words % 0xFFFF)
