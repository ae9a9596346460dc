"""The whole lines of a stream: what is left out, and the end."""

from typing import Final

from mcpproxy.peers.replay.whole_lines import WholeLines
from mcpproxy.record.framing.lines import LIMIT_BYTES

LONG: Final = b"x" * (LIMIT_BYTES + 1)


def test_lines_come_whole_from_any_chunks() -> None:
    lines = WholeLines()
    assert [*lines.feed(b"on"), *lines.feed(b"e\ntw"), *lines.feed(b"o\n")] == [b"one", b"two"]
    assert lines.end() == []


def test_the_last_line_needs_no_line_feed() -> None:
    lines = WholeLines()
    assert [*lines.feed(b"one\ntwo"), *lines.end()] == [b"one", b"two"]


def test_no_piece_of_a_line_beyond_the_limit_is_a_line() -> None:
    lines = WholeLines()
    given = [*lines.feed(b"one\n" + LONG), *lines.feed(LONG), *lines.feed(b"rest\ntwo\n")]
    assert given == [b"one", b"two"]
    assert [*lines.feed(LONG), *lines.feed(LONG + b"rest"), *lines.end()] == []
