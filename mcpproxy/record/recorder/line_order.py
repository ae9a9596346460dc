"""The order of messages on stdio: the place of a message is the end of its JSON, not its line feed.

A receiver may process a message as soon as its JSON is complete, as the decoders of Go do, and some senders
write the line feed separately. The journal (the relay's copy of the traffic) can then have the answer before
the line feed of its request. So while a stream has sent a whole message without its line feed, the later
records of other streams wait until that line ends or continues.

Hardly any session needs this. If the chunks of a stream end at line feeds, no record has to wait.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from mcpproxy.protocol.jsonrpc import Malformed, parse
from mcpproxy.record.framing.lines import BLANKS, LineFramer
from mcpproxy.record.recorder.http.memory_budget import Budget
from mcpproxy.record.recorder.journal_reader import Entry
from mcpproxy.record.relay import journal

_MOST_WAITING: Final = 4 << 20
"""How many bytes of records may wait for a line feed; then the message becomes a piece of a line."""

_PER_RECORD: Final = 200
"""About how many bytes a waiting record takes besides its payload."""

_MOST_IN_VAIN: Final = 64 << 20
"""How many bytes of one line are parsed, all attempts together, in search of a whole message."""

# The kinds of records with the bytes, and with the end, of a stream -> the index of the stream.
_STREAMS: Final[dict[int, int]] = {journal.CLIENT: 0, journal.SERVER: 1}
_ENDS: Final[dict[int, int]] = {journal.CLIENT_EOF: 0, journal.SERVER_EOF: 1}
_PATIENT: Final = frozenset({*_STREAMS, *_ENDS, journal.STDERR, journal.STDERR_EOF, journal.SIGNAL})
"""The kinds of records that can wait. Any other kind ends the waiting, except EXIT, which is due at once."""


class LineOrder:
    """Puts the records of a journal in the order of their messages.

    ``framers`` are those of the client (index 0) and of the server (index 1). ``end_line(stream, continues)``
    writes the incomplete line of a stream, as its last line or, with ``continues``, as a piece of a line.
    """

    def __init__(self, framers: Sequence[LineFramer], end_line: Callable[[int, bool], None]) -> None:
        self._framers = framers
        self._end_line = end_line
        self._awaited: int | None = None
        """The stream for whose line feed the records wait; ``None`` if none waits."""
        self._waiting: list[Entry] = []
        self._waiting_bytes = 0
        self._budget = Budget()
        self._part_bytes = [0, 0]
        """By stream, the length of its incomplete line when that line was last found not to be a message."""
        self._in_vain = [0, 0]
        """By stream, how many bytes of its incomplete line were parsed without finding a whole message."""
        self.is_open = False
        """Whether a stream may have an incomplete line. While no stream has one, ``take`` is not needed."""

    @property
    def is_waiting(self) -> bool:
        return self._awaited is not None

    def take(self, entry: Entry) -> Iterator[Entry]:
        """Take the next record of the journal; yield the records that are due now.

        The caller must write each record before it takes the next one from the iterator.
        """
        kind = entry[0]
        stream = _STREAMS.get(kind)
        if self._awaited is None:
            self._awaited = self._stream_with_message(except_for=stream)
        if self._awaited is None or kind == journal.EXIT:
            yield entry
            if stream is not None and b"\n" in entry[1]:
                self._part_bytes[stream] = self._in_vain[stream] = 0
            self.is_open = any(framer.held_bytes for framer in self._framers)
        elif stream is not None and stream == self._awaited:
            yield from self._continue_line(stream, entry)
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
        """Stop waiting: the message without a line feed becomes a piece of a line, which is not judged."""
        if self._awaited is not None:
            self._end_line(self._awaited, True)
            yield from self._release()

    def drop(self) -> list[Entry]:
        """Remove and return the records that wait."""
        waiting, self._waiting, self._awaited = self._waiting, [], None
        return waiting

    def _continue_line(self, stream: int, entry: Entry) -> Iterator[Entry]:
        """Yield the records that are due when the awaited stream continues or ends its line."""
        kind, payload, at_ns, connection = entry
        end = payload.find(b"\n") + 1  # 0 if the payload does not end the line
        line_part = payload[:end] if end else payload
        if not line_part.strip(BLANKS):
            yield (kind, line_part, at_ns, connection)
            if end or not self._framers[stream].held_bytes:
                yield from self._release()
            if len(line_part) < len(payload):
                yield from self.take((kind, payload[end:], at_ns, connection))
        else:
            self._part_bytes[stream] = self._framers[stream].held_bytes
            yield from self._release(is_over=False)
            yield from self.take(entry)

    def _release(self, *, is_over: bool = True) -> Iterator[Entry]:
        """Stop waiting and yield the records that waited. ``is_over``: the awaited line has ended."""
        stream, waiting = self._awaited, self.drop()
        self._waiting_bytes = 0
        if is_over and stream is not None:
            self._part_bytes[stream] = self._in_vain[stream] = 0
        for entry in waiting:
            yield from self.take(entry)

    def _stream_with_message(self, except_for: int | None) -> int | None:
        """Return the stream whose incomplete line is a whole message; ``None`` if there is none."""
        for stream, framer in enumerate(self._framers):
            if stream != except_for and framer.held_bytes != self._part_bytes[stream]:
                if _may_be_whole(framer) and self._in_vain[stream] <= _MOST_IN_VAIN:
                    raw = framer.held
                    if self._budget.cost(raw) is not None and not isinstance(parse(raw), Malformed):
                        return stream
                    self._in_vain[stream] += len(raw)
                self._part_bytes[stream] = framer.held_bytes
        return None


def _may_be_whole(framer: LineFramer) -> bool:
    """Whether the incomplete line of a framer may be a whole message, judged by the end of its last chunk."""
    return framer.last_chunk.rstrip(BLANKS)[-1:] in (b"", b"}", b"]")
