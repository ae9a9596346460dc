"""Split chunks into lines: which lines a stream has, for every split into chunks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.record.framing.lines import Line, LineFramer

# What a stream says -> the lines of it. The time of each is left out here.
STREAMS: dict[str, tuple[bytes, list[tuple[bytes, bool, bool]]]] = {
    "nothing": (b"", []),
    "one line": (b"a\n", [(b"a", True, False)]),
    "two lines": (b"a\nbc\n", [(b"a", True, False), (b"bc", True, False)]),
    "a last line without its line feed": (b"a\nb", [(b"a", True, False), (b"b", False, False)]),
    "blank lines": (b"\n\na\n", [(b"", True, False), (b"", True, False), (b"a", True, False)]),
    "a carriage return stays": (b"a\r\n\rb\n", [(b"a\r", True, False), (b"\rb", True, False)]),
    "other separators are text": (
        b"a\x0bb\x0c\x85\xe2\x80\xa8\n",
        [(b"a\x0bb\x0c\x85\xe2\x80\xa8", True, False)],
    ),
    "NUL and invalid UTF-8": (b"\x00\xff\n", [(b"\x00\xff", True, False)]),
    "a line of just the limit": (b"12345678\n", [(b"12345678", True, False)]),
    "a last line of just the limit": (b"12345678", [(b"12345678", False, False)]),
    "one byte too long": (b"123456789\n", [(b"12345678", False, True), (b"9", True, False)]),
    "twice the limit": (b"1234567812345678\n", [(b"12345678", False, True), (b"12345678", True, False)]),
    "too long and never ended": (b"1234567812", [(b"12345678", False, True), (b"12", False, False)]),
    "too long between others": (
        b"a\n1234567890\nb\n",
        [(b"a", True, False), (b"12345678", False, True), (b"90", True, False), (b"b", True, False)],
    ),
}


def frame(chunks: list[bytes], limit: int = 8) -> list[Line]:
    """The lines of a stream that comes in ``chunks``, each a tick after the one before."""
    framer = LineFramer(limit)
    return [line for at_ns, chunk in enumerate(chunks) for line in framer.feed(chunk, at_ns)] + framer.end()


def untimed(lines: list[Line]) -> list[tuple[bytes, bool, bool]]:
    return [(raw, terminated, continues) for raw, _, terminated, continues in lines]


@pytest.mark.parametrize(("stream", "expected"), STREAMS.values(), ids=STREAMS)
def test_a_stream_gives_its_lines(stream: bytes, expected: list[tuple[bytes, bool, bool]]) -> None:
    assert untimed(frame([stream])) == expected


@pytest.mark.parametrize(("stream", "expected"), STREAMS.values(), ids=STREAMS)
def test_byte_by_byte_it_gives_the_same(stream: bytes, expected: list[tuple[bytes, bool, bool]]) -> None:
    assert untimed(frame([bytes([byte]) for byte in stream])) == expected


CHUNKS = st.lists(st.lists(st.sampled_from([b"\n", b"\r", b"a", b"bcd", b"\xff"])).map(b"".join))


@given(CHUNKS)
def test_every_split_gives_the_same(chunks: list[bytes]) -> None:
    assert untimed(frame(chunks)) == untimed(frame([b"".join(chunks)]))


@given(CHUNKS, st.integers(1, 9))
def test_the_bytes_can_be_put_together_again(chunks: list[bytes], limit: int) -> None:
    lines = frame(chunks, limit)
    assert b"".join(raw + b"\n" * terminated for raw, _, terminated, _ in lines) == b"".join(chunks)
    assert all(0 < len(raw) <= limit or terminated for raw, _, terminated, _ in lines)
    assert all(len(raw) == limit for raw, _, _, continues in lines if continues)


@pytest.mark.parametrize("limit", [4, 1 << 20], ids=["in pieces", "whole"])
@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([b"a\nb\n"], [0, 0]),
        ([b"a", b"b\n"], [1]),
        ([b"a", b"\n"], [0]),
        ([b"a", b" \r", b"\nb\n"], [0, 2]),
        ([b"a", b" ", b"b", b"\n"], [2]),
        ([b" ", b"\n"], [0]),
        ([b" ", b"a", b"\n", b"\n"], [1, 3]),
        ([b"a", b"\nb", b"\n"], [0, 1]),
    ],
)
def test_a_line_has_the_time_of_its_last_byte_other_than_white_space(
    chunks: list[bytes], expected: list[int], limit: int
) -> None:
    assert [at_ns for _, at_ns, terminated, _ in frame(chunks, limit) if terminated] == expected


def test_a_last_line_has_the_time_of_its_last_byte() -> None:
    assert frame([b"a\n", b"b", b"c", b""]) == [(b"a", 0, True, False), (b"bc", 2, False, False)]


def test_what_is_held_is_the_line_that_is_not_over() -> None:
    framer = LineFramer()
    framer.feed(b"a\nb", 1)
    framer.feed(b"c", 2)
    assert (framer.held, framer.held_bytes, framer.held_at_ns) == (b"bc", 2, 2)
    framer.feed(b"\n", 3)
    assert (framer.held, framer.held_bytes) == (b"", 0)


def test_a_stream_that_went_on_without_us_ends_in_a_piece() -> None:
    framer = LineFramer()
    framer.feed(b"half", 1)
    assert framer.end(continues=True) == [(b"half", 1, False, True)]
    assert framer.end(continues=True) == []


def test_a_long_line_is_held_in_the_chunks_it_came_in() -> None:
    """Joining at every chunk would cost a 32 MiB line 8 GiB of copying."""
    framer = LineFramer()
    chunk = bytes(64 << 10).replace(b"\0", b"x")
    for at_ns in range(512):
        assert framer.feed(chunk, at_ns) == []
    [(raw, at_ns, terminated, continues)] = framer.feed(b"\n", 512)
    assert (len(raw), at_ns, terminated, continues) == (32 << 20, 511, True, False)
