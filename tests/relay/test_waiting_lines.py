"""Lines for a reader that may be slow: nobody waits for it, and what waits for it is limited."""

import os
from collections.abc import Iterator

import pytest

from mcpproxy.record.relay.stdio.sinks import WaitingLines, own_sink


@pytest.fixture
def pipe() -> Iterator[tuple[int, WaitingLines]]:
    """The end that is read, and lines for the other one: at most 100 bytes wait."""
    reader, writer = os.pipe()
    sink = own_sink(writer)
    yield reader, WaitingLines(sink, 100)
    sink.close()
    os.close(reader)


def fill(lines: WaitingLines) -> int:
    """Write until the pipe has no more room, and return how many bytes it has taken."""
    taken = 0
    while lines.add(b"x" * 99 + b"\n") and lines.flush():
        taken += 100
    return taken + 100 - len(lines.waiting)


def test_lines_are_written_while_there_is_room(pipe: tuple[int, WaitingLines]) -> None:
    reader, lines = pipe
    assert lines.add(b"one\n")
    assert lines.add(b"two\n")
    assert lines.flush()
    assert (os.read(reader, 100), lines.waiting) == (b"one\ntwo\n", b"")


def test_what_has_no_room_waits_and_lines_beyond_the_limit_are_dropped(
    pipe: tuple[int, WaitingLines],
) -> None:
    reader, lines = pipe
    taken = fill(lines)
    assert lines.waiting
    assert not lines.add(b"y" * 100 + b"\n")
    assert lines.add(b"last\n", is_last=True)
    read = 0
    while read < taken:
        read += len(os.read(reader, taken - read))
    assert lines.flush()
    assert os.read(reader, 1000)[-5:] == b"last\n"


def test_what_nobody_reads_is_gone() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    lines = WaitingLines(own_sink(writer), 100)  # which closes it
    lines.add(b"one\n")
    assert lines.flush()
    assert lines.waiting == b""
