"""What the records of a trace are. ``encode`` writes each as a line, ``decode`` reads the line back.

A trace is JSON Lines. The first record is the header, the last is the close record. Between them stand the
events in the order in which they were seen; each finding follows the event that caused it.
"""

from collections.abc import Iterable
from typing import Final, TypeAlias, TypeVar

from mcpproxy.base.slotted import field, slotted
from mcpproxy.session.frame import (
    CLIENT,
    SERVER,
    Close,
    Eof,
    Finding,
    Frame,
    Gap,
    HttpEvent,
    Repeated,
    Sender,
    Severity,
    Signal,
    Stderr,
)
from mcpproxy.trace.short_lines import Lines
from mcpproxy.trace.upgrades import FORMAT

T = TypeVar("T")

ARGUMENTS_MASKED: Final = "arguments"
"""The ``redaction`` of a recording where only secrets among the command's arguments are masked."""


@slotted(frozen=True)
class Header:
    """What is known before the first byte.

    ``started_at`` (wall clock, UTC, ISO 8601) and ``started_ns`` (monotonic clock) are the moment from which
    all other times in the trace count. ``pid`` is that of the wrapper. ``redaction`` is ``none``, or what
    is masked: ``credentials`` or ``arguments``. Over HTTP ``command`` is empty; instead there is the ``mode``
    (``reverse`` or ``forward``), the URL on which we listened, the path of the MCP endpoint on it, and the
    server's URL in ``upstream`` (empty in forward mode).
    """

    format: int = FORMAT
    mcpproxy: str = ""
    transport: str = "stdio"
    command: tuple[str, ...] = ()
    label: str = ""
    cwd: str = ""
    pid: int = 0
    started_at: str = ""
    started_ns: int = 0
    redaction: str = "none"
    mode: str = ""
    listen: str = ""
    endpoint: str = ""
    upstream: str = ""
    continues: str = ""
    """The name of the previous file of the recording, in the same folder; ``--rotate`` makes such chains."""
    partial: str = ""
    """What was removed on purpose, as a phrase ("trimmed to frames 1-5,12 of 80"); empty if nothing was."""
    imported: str = ""
    """Which tool made the recording, and what that tool does not keep; empty for our own recordings."""
    boot: str = ""
    """Linux: the id of the boot during which it was recorded. After a reboot, ``pid`` is another process."""


HEADER_MEMBERS: Final = Header.__match_args__

OMITTED_IF_EMPTY: Final = HEADER_MEMBERS[HEADER_MEMBERS.index("mode") :]
"""Members of a header that are written only if they are not empty."""


@slotted()
class Tally:
    """How much a trace holds; the close record carries it.

    ``findings`` counts the findings with a record of their own, ``more`` those that were only counted.
    ``judge_error`` is set if the judge itself failed, which is a fault of ours.
    """

    frames: dict[Sender, int] = field(default_factory=lambda: {CLIENT: 0, SERVER: 0})
    findings: dict[Severity, int] = field(default_factory=lambda: {"error": 0, "warning": 0, "info": 0})
    judge_error: str | None = None
    more: tuple[Repeated, ...] = ()

    @property
    def found(self) -> dict[Severity, int]:
        """How many findings of each severity there were, with or without a record of their own."""
        total = dict(self.findings)
        for one in self.more:
            total[one.severity] += one.count
        return total


@slotted(frozen=True)
class CloseRecord:
    """The last record: how the recording ended, and how much it should hold (``None``: not stated)."""

    close: Close
    tally: Tally | None = None


@slotted(frozen=True)
class Continued:
    """The last record of a file that ``file`` continues; it counts everything since the first file."""

    file: str
    tally: Tally
    observed_at_ns: int = 0


@slotted(frozen=True)
class Encoded:
    """Bytes of a body as they were sent, under a content coding; the frames hold the decoded text."""

    exchange: int
    connection: int
    sender: Sender
    data: bytes
    observed_at_ns: int = 0


Recorded: TypeAlias = Frame | Stderr | Eof | Signal | Gap | HttpEvent | Encoded
"""What may stand between the header and the close record, except findings."""

Record: TypeAlias = Header | Recorded | Lines | Finding | Continued | CloseRecord


def body_bytes(records: Iterable[T], exchange: int, sender: Sender) -> bytes:
    """The exact bytes of one body without its transfer coding, from the records of its trace.

    Credentials in bodies that are not MCP are masked, unless the recording kept them.
    """
    encoded: list[bytes] = []
    framed: list[bytes] = []
    for record in records:
        match record:
            case Encoded(exchange=number, sender=of, data=data) if (number, of) == (exchange, sender):
                encoded.append(data)
            case Frame(exchange=number, sender=of) if (number, of) == (exchange, sender):
                framed.append(frame_bytes(record))
            case _:
                pass
    return b"".join(encoded or framed)


def frame_bytes(frame: Frame) -> bytes:
    """The bytes of the stream from which the frame was made, including what surrounds it in its event."""
    event = frame.event
    if event is None:
        return frame.raw
    return event.before if event.after is None else event.before + frame.raw + event.after
