"""The order of messages on stdio: a message counts from when its JSON is complete, not from its line feed.

A receiver may read a message as soon as its JSON is complete, as the decoders of Go do, and some senders
write the line feed separately. The answer can then stand in the journal before the line feed of its request.
So while one stream holds a whole message, the records behind it wait until that line ends or goes on.

Hardly any session needs this. A stream whose chunks end at line feeds holds nothing, and costs nothing here.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from mcpproxy.framing.lines import BLANKS, LineFramer
from mcpproxy.protocol.jsonrpc import Malformed, parse
from mcpproxy.recorder.http.memory_budget import Budget
from mcpproxy.recorder.journal_reader import Entry
from mcpproxy.relay import journal

_MOST_WAITING: Final = 4 << 20
"""How many bytes of records wait for a line feed; beyond that the message becomes a piece of a line."""

_PER_RECORD: Final = 200

_MOST_IN_VAIN: Final = 64 << 20
"""How many bytes of one line are parsed without finding a whole message, all attempts together."""

_STREAMS: Final[dict[int, int]] = {journal.CLIENT: 0, journal.SERVER: 1}
_ENDS: Final[dict[int, int]] = {journal.CLIENT_EOF: 0, journal.SERVER_EOF: 1}
_PATIENT: Final = frozenset({*_STREAMS, *_ENDS, journal.STDERR, journal.STDERR_EOF, journal.SIGNAL})
"""The kinds of records that wait. Any other shows that the stream is not one of whole lines."""


class LineOrder:
    """Puts the records of a journal in the order of their messages.

    ``framers`` are those of the client and of the server. ``end_line(place, continues)`` writes what the
    framer at ``place`` holds, as the last line of its stream or as a piece of a line.
    """

    def __init__(self, framers: Sequence[LineFramer], end_line: Callable[[int, bool], None]) -> None:
        self._framers = framers
        self._end_line = end_line
        self._awaited: int | None = None
        self._waiting: list[Entry] = []
        self._waiting_bytes = 0
        self._budget = Budget()
        self._part_bytes = [0, 0]
        """How many bytes each stream held when they were found not to be a whole message."""
        self._in_vain = [0, 0]
        self.is_open = False
        """Whether a stream may hold the beginning of a line. While none does, records need not be taken."""

    @property
    def is_waiting(self) -> bool:
        return self._awaited is not None

    def take(self, entry: Entry) -> Iterator[Entry]:
        """Yield the records that are due now. Each has to be written before the next is asked for."""
        kind = entry[0]
        place = _STREAMS.get(kind)
        if self._awaited is None:
            self._awaited = self._whole(except_for=place)
        if self._awaited is None or kind == journal.EXIT:
            yield entry
            self._look(place, entry[1])
        elif place is not None and place == self._awaited:
            yield from self._go_on(place, entry)
        elif _ENDS.get(kind) == self._awaited:
            self._end_line(self._awaited, False)
            yield from self._release()
            yield from self.take(entry)
        elif kind not in _PATIENT:
            yield from self.give_up()
            yield from self.take(entry)
        else:
            self._waiting.append(entry)
            self._waiting_bytes += len(entry[1]) + _PER_RECORD
            if self._waiting_bytes > _MOST_WAITING:
                yield from self.give_up()

    def give_up(self) -> Iterator[Entry]:
        """Stop waiting: what is held becomes a piece of a line, which is not judged."""
        if self._awaited is not None:
            self._end_line(self._awaited, True)
            yield from self._release()

    def drop(self) -> list[Entry]:
        """Return the records that wait, which are not written any more."""
        waiting, self._waiting, self._awaited = self._waiting, [], None
        return waiting

    def _go_on(self, place: int, entry: Entry) -> Iterator[Entry]:
        """The awaited stream goes on: with the end of its line, or with more of the line."""
        kind, payload, at_ns, connection = entry
        end = payload.find(b"\n") + 1
        if not payload[: end or None].strip(BLANKS):
            yield (kind, payload[: end or None], at_ns, connection)
            if end or not self._framers[place].held_bytes:
                yield from self._release()
            if payload[end:] and end:
                yield from self.take((kind, payload[end:], at_ns, connection))
        else:
            self._part_bytes[place] = self._framers[place].held_bytes
            yield from self._release(is_over=False)
            yield from self.take(entry)

    def _release(self, *, is_over: bool = True) -> Iterator[Entry]:
        place, waiting = self._awaited, self.drop()
        self._waiting_bytes = 0
        if is_over and place is not None:
            self._part_bytes[place] = self._in_vain[place] = 0
        for entry in waiting:
            yield from self.take(entry)

    def _look(self, place: int | None, payload: bytes) -> None:
        """Note what the streams hold after a record."""
        if place is not None and b"\n" in payload:
            self._part_bytes[place] = self._in_vain[place] = 0
        self.is_open = any(framer.held_bytes for framer in self._framers)

    def _whole(self, except_for: int | None) -> int | None:
        """The stream that holds a whole message."""
        for place, framer in enumerate(self._framers):
            if place != except_for and framer.held_bytes != self._part_bytes[place]:
                if _may_be_whole(framer) and self._in_vain[place] <= _MOST_IN_VAIN:
                    raw = framer.held
                    if self._budget.cost(raw) is not None and not isinstance(parse(raw), Malformed):
                        return place
                    self._in_vain[place] += len(raw)
                self._part_bytes[place] = framer.held_bytes
        return None


def _may_be_whole(framer: LineFramer) -> bool:
    """Whether what a framer holds ends as a message does, as far as its last chunk shows."""
    return framer.last_chunk.rstrip(BLANKS)[-1:] in (b"", b"}", b"]")
