"""Split chunks into events: which blocks a stream has, for every split into chunks."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcpproxy.record.framing.sse import SseBlock, SseFramer

LIMIT = 24


def block(
    raw: bytes,
    data: bytes | None = None,
    event: str | None = None,
    id: str | None = None,
    *,
    retry: int | None = None,
    comments: tuple[str, ...] = (),
    data_span: tuple[int, int] | None = None,
    complete: bool = True,
) -> SseBlock:
    """A block whose time does not matter."""
    return SseBlock(raw, 0, data, event, id, retry, comments, data_span, complete)


STREAMS: dict[str, tuple[SseBlock, ...]] = {
    "nothing": (),
    "one event": (block(b"data: {}\n\n", b"{}", data_span=(6, 8)),),
    "an event with everything": (
        block(
            b": hello\nid: 7\nevent: message\nretry: 1500\ndata: {}\n\n",
            data=b"{}",
            event="message",
            id="7",
            retry=1500,
            comments=("hello",),
            data_span=(47, 49),
        ),
    ),
    "the id before the event name": (
        block(b"id: 1\r\nevent: m\r\ndata: x\r\n\r\n", b"x", "m", "1", data_span=(23, 24)),
    ),
    "the id after the event name": (
        block(b"event: m\nid: 1\ndata: x\n\n", b"x", "m", "1", data_span=(21, 22)),
    ),
    "of two ids the last": (
        block(b"id: 1\nevent: m\nid: 2\ndata: x\n\n", b"x", "m", "2", data_span=(27, 28)),
    ),
    "several events": (
        block(b"data: a\n\n", b"a", data_span=(6, 7)),
        block(b"data: b\r\n\r\n", b"b", data_span=(6, 7)),
        block(b"data: c\r\r", b"c", data_span=(6, 7)),
        block(b"data: d\n\n", b"d", data_span=(6, 7)),
    ),
    "all line ends in one event": (block(b"id: 1\rdata: a\ndata: b\r\n\n", b"a\nb", id="1"),),
    "a return at the very end": (block(b"data: a\r\r", b"a", data_span=(6, 7)),),
    "two line feeds after returns": (
        block(b"data: a\r\n\r\n", b"a", data_span=(6, 7)),
        block(b"\r\n"),
        block(b"\n"),
        block(b"\r"),
    ),
    "data on several lines": (block(b"data: {\ndata:   1\ndata\ndata:\n\n", b"{\n  1\n\n"),),
    "empty data": (block(b"data\n\n", b"", data_span=(4, 4)), block(b"data:\n\n", b"", data_span=(5, 5))),
    "one space is taken, no more": (
        block(b"data:a\n\n", b"a", data_span=(5, 6)),
        block(b"data:  a\n\n", b" a", data_span=(6, 8)),
    ),
    "colons in the data": (block(b"data: a: b\n\n", b"a: b", data_span=(6, 10)),),
    "comments alone": (block(b": ping\n:\n:  x\n\n", comments=("ping", "", " x")),),
    "a byte order mark": (block(b"\xef\xbb\xbfdata: a\n\n", b"a", data_span=(9, 10)),),
    "a second one is part of a name": (
        block(b"\xef\xbb\xbf: a\n\n", comments=("a",)),
        block(b"\xef\xbb\xbfdata: a\n\n"),
    ),
    "names are as they are": (block(b"Data: a\n data: b\nfoo\nbar: 1\n\n"),),
    "an empty id and event name": (block(b"id\nevent:\n\n", event="", id=""),),
    "an id with NUL": (
        block(b"id: a\0\n\n"),
        block(b"id: 1\nid: a\0\ndata: b\n\n", b"b", id="1", data_span=(19, 20)),
    ),
    "retry is digits alone": (
        block(b"retry: 1x\n\n"),
        block(b"retry: -1\n\n"),
        block(b"retry:\n\n"),
        block(b"retry: 00\n\n", retry=0),
        block(b"retry: 9999999999999999\n\n", retry=9999999999999999),
        block("retry: ²\n\n".encode()),
    ),
    "not UTF-8": (block(b"event: \xff\ndata: \xff\n\n", b"\xff", event="�", data_span=(15, 16)),),
    "no blank line at the end": (block(b"data: a\n", b"a", data_span=(6, 7), complete=False),),
    "cut in a line": (
        block(b"data: a\n\n", b"a", data_span=(6, 7)),
        block(b"data: {", b"{", data_span=(6, 7), complete=False),
    ),
    "cut after a return": (block(b"data: a\r", b"a", data_span=(6, 7), complete=False),),
}

# Held to 24 bytes.
LONG_STREAMS: dict[str, tuple[SseBlock, ...]] = {
    "just the limit": (block(b"data: 7890123456789012\n\n", b"7890123456789012", data_span=(6, 22)),),
    "one byte too long": (
        block(b"data: 78901234567890123\n", complete=False),
        block(b"\n", complete=False),
        block(b"data: a\n\n", b"a", data_span=(6, 7)),
    ),
    "three pieces": (
        block(b"data: 789012345678901234", complete=False),
        block(b"567890123456789012345678", complete=False),
        block(b"9\n\n", complete=False),
        block(b": x\n\n", comments=("x",)),
    ),
    "long and never ended": (
        block(b"data: 789012345678901234", complete=False),
        block(b"5\n", complete=False),
    ),
}


def frame(chunks: list[bytes], limit: int = 64 << 20) -> list[SseBlock]:
    """The blocks of a stream that comes in ``chunks``, each a tick after the one before."""
    framer = SseFramer(limit)
    blocks = [block for at_ns, chunk in enumerate(chunks) for block in framer.feed(chunk, at_ns)]
    return blocks + framer.end(len(chunks))


def untimed(blocks: list[SseBlock]) -> list[SseBlock]:
    return [block._replace(at_ns=0) for block in blocks]


def single_bytes(stream: bytes) -> list[bytes]:
    return [stream[at : at + 1] for at in range(len(stream))]


@pytest.mark.parametrize("blocks", STREAMS.values(), ids=STREAMS)
def test_a_stream_gives_its_blocks(blocks: tuple[SseBlock, ...]) -> None:
    stream = b"".join(block.raw for block in blocks)
    assert untimed(frame([stream])) == list(blocks)
    assert untimed(frame(single_bytes(stream))) == list(blocks)


@pytest.mark.parametrize("blocks", LONG_STREAMS.values(), ids=LONG_STREAMS)
def test_a_block_beyond_the_limit_comes_in_pieces(blocks: tuple[SseBlock, ...]) -> None:
    stream = b"".join(block.raw for block in blocks)
    assert untimed(frame([stream], LIMIT)) == list(blocks)
    assert untimed(frame(single_bytes(stream), LIMIT)) == list(blocks)


def test_a_retry_with_too_many_digits_is_ignored() -> None:
    (block,) = frame([b"retry: " + b"9" * 5000 + b"\n\n"])
    assert block.retry is None


def test_a_block_has_the_time_of_the_chunk_that_completed_it() -> None:
    blocks = frame([b"data: a\n", b"\ndata: b\n\nda", b"", b"ta: c\r\n\r", b"\ndata: d\r\r", b"", b"data: e"])
    assert [(block.data, block.at_ns) for block in blocks] == [
        (b"a", 1),
        (b"b", 1),
        (b"c", 4),
        (b"d", 4),  # complete at its return, although the chunk after next was the first to tell
        (b"e", 7),
    ]


def test_nothing_is_left_after_the_end() -> None:
    framer = SseFramer()
    framer.feed(b"data: a\r", 1)
    assert len(framer.end(2)) == 1
    assert framer.end(3) == []


STREAM = st.lists(
    st.sampled_from([b"\n", b"\r", b"\r\n", b":", b" ", b"data", b"id", b"event", b"retry", b"1", b"\0"])
    | st.sampled_from(
        [b"data: a\n\n", b"data: {}\r\n\r\n", b"\xef\xbb\xbf", b"id: 1\n", b"event: m\r\n", b"\xff"]
    ),
    max_size=40,
).map(b"".join)
CUTS = st.lists(st.integers(0, 200), max_size=12)


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    """``data`` in chunks; two equal cuts make an empty one."""
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[start:stop] for start, stop in pairwise(places)]


@given(STREAM | st.binary(), CUTS, st.sampled_from([1, 2, 9, 1000]))
@example(b"data: a\r\n\r\n", [8], 1000)
@example(b"a\r\r", [2, 2], 2)
def test_the_chunks_do_not_matter(stream: bytes, cuts: list[int], limit: int) -> None:
    whole = untimed(frame([stream], limit))
    assert untimed(frame(split(stream, cuts), limit)) == whole
    assert b"".join(block.raw for block in whole) == stream
    assert all(len(block.raw) <= limit for block in whole)
    assert all(block.data == block.raw[slice(*block.data_span)] for block in whole if block.data_span)


Event = tuple[str, str, str, int | None]
"""Data, event name and last event id at its dispatch, and the last retry."""


def dispatched(stream: bytes) -> list[Event]:
    """The events of a stream, by the letter of the specification's steps: one line after another, on text."""
    text = stream.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    data = event = last_id = id_buffer = ""
    retry: int | None = None
    events: list[Event] = []
    for line in lines[:-1]:
        name, colon, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            last_id = id_buffer
            if data:
                events.append((data.removesuffix("\n"), event or "message", last_id, retry))
            data = event = ""
        elif name == "data":
            data += value + "\n"
        elif name == "event":
            event = value
        elif name == "id" and "\0" not in value:
            id_buffer = value
        elif name == "retry" and value.isascii() and value.isdigit():
            retry = int(value)
        assert name or colon or not line
    return events


@given(STREAM)
def test_the_events_are_those_of_the_specification(stream: bytes) -> None:
    last_id = ""
    retry: int | None = None
    events: list[Event] = []
    for block in frame([stream]):
        last_id = last_id if block.id is None else block.id
        retry = retry if block.retry is None else block.retry
        if block.data is not None and block.complete:
            events.append((block.data.decode("utf-8", "replace"), block.event or "message", last_id, retry))
    assert events == dispatched(stream)
