"""Runs of short lines: one record for many lines too short to be messages.

    {"type":"lines","seq":7,"count":4,"t":1200,"from":"server","text":"y\\ny\\n\\ny"}

A separate record needs about eighty bytes for any line. If a peer wrote only line feeds, the trace would have
eighty times the size of the peer's output. So ``SHORTEST_RUN`` or more consecutive lines of at most
``SHORT_BYTES`` from one read share a record. The record has the number and the time of the first line, the
count, and the lines, joined by line feeds. All are complete lines with consecutive numbers. Lines of the
server's stderr have no number.

Nothing is lost: one read completed all lines, and each becomes a frame (or a line of stderr) again when the
trace is read.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from typing import Final, Literal, cast

from mcpproxy.base.slotted import slotted
from mcpproxy.judge.session.frame import CLIENT, SERVER, Frame, Stderr
from mcpproxy.protocol.jsonrpc import JSONObject, parse
from mcpproxy.record.framing.lines import Line
from mcpproxy.record.trace.members import NotARecordError, member, one_of, text_or_base64, text_or_base64_of

SHORTEST_RUN: Final = 4
"""The smallest number of lines in a run."""

SHORT_BYTES: Final = 7
"""The greatest length of a short line. No message is so short: ``{"id":1}`` is one byte longer."""

Source = Literal["client", "server", "stderr"]
SOURCES: Final[tuple[Source, Source, Source]] = (CLIENT, SERVER, "stderr")

parse_short_line: Final = lru_cache(maxsize=4096)(parse)
"""Parse a short line. The cache helps because most lines of a run are equal."""


@slotted(frozen=True)
class Lines:
    """A run of short lines, without their line feeds. ``seq`` is the number of the first line, 0 on
    stderr."""

    seq: int
    source: Source
    raws: tuple[bytes, ...]
    at_ns: int

    def events(self) -> Iterator[Frame | Stderr]:
        """Yield one event per line."""
        for seq, raw in enumerate(self.raws, start=self.seq):
            if self.source == "stderr":
                yield Stderr(raw, self.at_ns)
            else:
                yield Frame(seq, self.source, raw, self.at_ns).with_message(parse_short_line(raw))


def encode_lines(run: Lines) -> bytes:
    """Return a run as a line of the trace."""
    seq = b'"seq":%d,' % run.seq if run.seq else b""
    lines_member = text_or_base64(b"\n".join(run.raws))
    values = (seq, len(run.raws), run.at_ns, run.source.encode("ascii"), lines_member)
    return b'{"type":"lines",%b"count":%d,"t":%d,"from":"%b",%b}\n' % values


def decode_lines(members: JSONObject) -> Lines:
    """Return the run that ``encode_lines`` has written as an object with these members.

    Raises:
        NotARecordError: the members are not those of a run.
    """
    source = cast("Source", one_of(members, "from", SOURCES))
    raws = tuple(text_or_base64_of(members).split(b"\n"))
    if len(raws) != member(members, "count", int):
        raise NotARecordError("a run of lines with a wrong count")
    return Lines(member(members, "seq", int, 0), source, raws, member(members, "t", int))


def runs_in(lines: list[Line]) -> Iterator[list[Line]]:
    """Split ``lines``, in order, into runs and the groups of lines between runs."""
    between: list[Line] = []
    for is_short, group in groupby(lines, _is_short):
        group = list(group)
        if is_short and len(group) >= SHORTEST_RUN:
            if between:
                yield between
            between = []
            yield group
        else:
            between += group
    if between:
        yield between


def is_run(lines: list[Line]) -> bool:
    """Whether these lines share a record."""
    return len(lines) >= SHORTEST_RUN and all(map(_is_short, lines))


def has_run(lines: list[Line]) -> bool:
    """Whether ``SHORTEST_RUN`` or more ``lines`` may contain a run: a quick test, which is usually false."""
    return any(len(raw) <= SHORT_BYTES for raw, _, _, _ in lines)


def _is_short(line: Line) -> bool:
    raw, _, terminated, continues = line
    return len(raw) <= SHORT_BYTES and terminated and not continues
