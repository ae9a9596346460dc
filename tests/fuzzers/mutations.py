"""Ways to damage bytes: some blind, some that know JSON or the head of a journal's record."""

import re
from collections.abc import Callable
from random import Random
from typing import Final

from mcpproxy.record.relay import journal

_VALUES: Final = (
    b"null", b"true", b"-1", b"0", b"1e999", b"18446744073709551616", b"9" * 400, b'""', b'"\\ud800"', b"[]",
    b"{}", b"[[[]]]", b"[" * 2000 + b"]" * 2000, b'"../../x"', b'"\\u0000"', b'{"a":{"b":[1,2,3]}}', b"0.5",
    b'"' + b"x" * 5000 + b'"', b"NaN",
)  # fmt: skip
_NUMBERS: Final = (0, 1, 255, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
_VALUE: Final = re.compile(rb'(?<=[:\[,])\s*(?:"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null|\[\]|\{\})')


def flip(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]


def cut(data: bytes, random: Random) -> bytes:
    return data[: random.randrange(len(data))]


def drop(data: bytes, random: Random) -> bytes:
    start = random.randrange(len(data))
    return data[:start] + data[start + random.randrange(1, 200) :]


def double(data: bytes, random: Random) -> bytes:
    start = random.randrange(len(data))
    end = start + random.randrange(1, 400)
    return data[:end] + data[start:end] + data[end:]


def zeros(data: bytes, random: Random) -> bytes:
    at, size = random.randrange(len(data)), random.choice((1, 20, 4096, 300_000))
    return data[:at] + bytes(size) + (data[at + size :] if random.random() < 0.5 else b"")


def noise(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data))
    return data[:at] + random.randbytes(random.randrange(1, 64)) + data[at:]


def value(data: bytes, random: Random) -> bytes:
    """Another value in the place of one that is JSON."""
    found = list(_VALUE.finditer(data))
    if not found:
        return noise(data, random)
    one = random.choice(found)
    return data[: one.start()] + random.choice(_VALUES) + data[one.end() :]


def swap(data: bytes, random: Random) -> bytes:
    """Two lines change places."""
    lines = data.splitlines(keepends=True)
    one, other = random.randrange(len(lines)), random.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def head(data: bytes, random: Random) -> bytes:
    """Another kind, length, connection or time in the head of a journal's record, or another payload."""
    records = split(data)
    if not records:
        return flip(data, random)
    at = random.randrange(len(records))
    length, kind, connection, at_ns, payload = records[at]
    match random.randrange(6):
        case 0:
            length = random.choice(_NUMBERS) & 0xFFFFFFFF
        case 1:
            kind = random.randrange(24)
        case 2:
            connection = random.choice(_NUMBERS) & 0xFFFFFFFF
        case 3:
            at_ns = random.choice(_NUMBERS)
        case 4 if payload:
            payload = value(payload, random)
            length = len(payload)
        case _:
            records.insert(random.randrange(len(records)), records[at])
    records[at] = length, kind, connection, at_ns, payload
    return b"".join(journal.HEAD.pack(*record[:4]) + record[4] for record in records)


def split(data: bytes) -> list[tuple[int, int, int, int, bytes]]:
    """The records of a segment that is sound."""
    found: list[tuple[int, int, int, int, bytes]] = []
    at = 0
    while at + journal.HEAD.size <= len(data):
        length, kind, connection, at_ns = journal.HEAD.unpack_from(data, at)
        at += journal.HEAD.size
        found.append((length, kind, connection, at_ns, data[at : at + length]))
        at += length
    return found


BLIND: Final = (flip, cut, drop, double, zeros, noise)
JSON: Final = (*BLIND, value, value, value, value, swap)
RECORDS: Final = (*BLIND, head, head, head, head, head, head)


def damaged(data: bytes, ways: tuple[Callable[[bytes, Random], bytes], ...], random: Random) -> bytes:
    """``data`` after one to four of these ways."""
    for _ in range(random.choice((1, 1, 2, 4))):
        data = random.choice(ways)(data, random) if data else random.randbytes(8)
    return data
