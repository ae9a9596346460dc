"""The records of a trace. ``encode`` writes each as a line, ``decode`` reads the line back.

A trace is JSON Lines. The first record is the header, the last is the close record or, in a file that another
file continues, a ``Continued``. Between them are the events in the order they were seen; each finding
(violation of a rule) follows the event that caused it.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.session.frame import (
    CLIENT,
    SERVER,
    WORST_FIRST,
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
from mcpproxy.judge.session.outcomes import CallCounts
from mcpproxy.record.trace.repeated_bodies import Shortened
from mcpproxy.record.trace.short_lines import Lines
from mcpproxy.record.trace.upgrades import FORMAT

ARGUMENTS_MASKED: Final = "arguments"
"""The ``redaction`` of a recording in which only secrets in the command's arguments are masked."""

EVERYTHING: Final = "everything"
TOOLS: Final = "tools"
"""Values of ``Header.kept``: the texts in bodies to and from a language model are all recorded, or are masked
unless they concern tools."""


@slotted(frozen=True)
class Header:
    """The facts about a recording that are known before the first byte.

    ``started_at`` (wall clock, UTC, ISO 8601) and ``started_ns`` (monotonic clock) are the origin of all
    other times in the trace. ``label`` is what the server is called, also in a generated file name. ``cwd``
    is the working directory and ``pid`` the process id of mcpproxy. ``redaction`` says what is masked:
    ``none``, ``credentials`` or ``arguments``; ``redact`` and imports add other kinds. Over HTTP ``command``
    is empty; instead there are the ``mode`` (``reverse`` or ``forward``), the URL on which the proxy
    listened, the path of its MCP endpoint, and the server's URL in ``upstream`` (empty in forward mode).
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
    """The parts that were removed on purpose ("trimmed to frames 1-5,12 of 80"); empty if none were."""
    imported: str = ""
    """The program that made the recording, and what it does not record; empty for recordings by mcpproxy."""
    boot: str = ""
    """Linux: the boot id at recording time. After a reboot, ``pid`` belongs to another process."""
    faults: str = ""
    """The rules that altered messages on purpose: their names, seed and SHA-256; empty without such rules."""
    ppid: int = 0
    """The process that started mcpproxy: over stdio the client, or a shell that it uses; 0 if unknown."""
    model: str = ""
    """With ``mcpproxy model``: the dialect (request format) that the user named, or ``any``; else empty."""
    kept: str = ""
    """With ``mcpproxy model``: ``everything``, or ``tools`` if all other texts are masked; else empty."""

    @property
    def started_unix_ns(self) -> int:
        """``started_at`` in nanoseconds since 1970, in UTC if it names no zone; 0 if it is not a time."""
        try:
            start = datetime.fromisoformat(self.started_at)
        except ValueError:
            return 0
        since = start.replace(tzinfo=start.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
        return since // timedelta(microseconds=1) * 1000


HEADER_MEMBERS: Final = Header.__match_args__

OMITTED_IF_EMPTY: Final = HEADER_MEMBERS[HEADER_MEMBERS.index("mode") :]
"""Header members that are written only if they are not empty."""


@slotted()
class Tally:
    """The counts of a trace's content, stored in the close record.

    ``findings`` counts the findings that have a record, ``more`` the findings that were only counted.
    ``judge_error`` says what was not judged, and why. ``calls`` is ``None`` if they were not counted.
    ``own`` counts the frames that mcpproxy sent in a peer's place, which ``frames`` includes.
    ``undecoded`` counts the bodies that could not be read, for each reason; no record has it.
    """

    frames: dict[Sender, int] = field(default_factory=lambda: {CLIENT: 0, SERVER: 0})
    findings: dict[Severity, int] = field(default_factory=lambda: dict.fromkeys(WORST_FIRST, 0))
    judge_error: str | None = None
    more: tuple[Repeated, ...] = ()
    calls: CallCounts | None = None
    own: dict[Sender, int] = field(default_factory=lambda: {CLIENT: 0, SERVER: 0})
    undecoded: Counter[str] = field(default_factory=Counter[str])

    def count(self, frame: Frame) -> None:
        """Count a frame."""
        self.frames[frame.sender] += 1
        if frame.by_proxy:
            self.own[frame.sender] += 1

    @property
    def senders(self) -> str:
        """The number of frames by sender: ``1 from the client, 0 from the server, 1 from mcpproxy``."""
        own = sum(self.own.values())
        sides = [f"{number - self.own[sender]:,} from the {sender}" for sender, number in self.frames.items()]
        return ", ".join([*sides, *([f"{own:,} from mcpproxy"] if own else [])])

    @property
    def not_judged(self) -> str:
        """A sentence about what was not judged, and the command that judges it; empty if all was judged."""
        if self.judge_error is None:
            return ""
        return (
            f"not everything was judged while recording: {self.judge_error}; mcpproxy check judges it again"
        )

    @property
    def total_findings(self) -> dict[Severity, int]:
        """The number of findings of each severity, with or without a record."""
        total = dict(self.findings)
        for repeated in self.more:
            total[repeated.severity] += repeated.count
        return total


NO_MCP: Final = "it is of a model's interface, which is not judged; mcpproxy prompt says what the model saw"
"""Why a recording of a language model's interface has no findings of its own."""


def not_judged(header: Header, tally: Tally | None) -> str:
    """Return why a recording was not judged, or not completely; empty if it was judged."""
    if header.imported:
        return "it was recorded by another program, not judged; mcpproxy check judges what it can"
    if header.model:
        return NO_MCP
    return tally.not_judged if tally else ""


def undecoded_notes(reasons: Mapping[str, int]) -> list[str]:
    """Return, for each reason, a sentence fragment that says how many bodies could not be read."""
    return [
        f"{f'{number:,} bodies were' if number > 1 else 'a body was'} not judged: {why}"
        for why, number in reasons.items()
    ]


@slotted(frozen=True)
class CloseRecord:
    """The last record: how the recording ended, and its counts (``None`` if the record has none)."""

    close: Close
    tally: Tally | None = None


@slotted(frozen=True)
class Continued:
    """The last record of a file whose recording continues in ``file``; it counts all files so far."""

    file: str
    tally: Tally
    observed_at_ns: int = 0


@slotted(frozen=True)
class Encoded:
    """Bytes of a body as they were sent, with a content coding. The frames have the decoded text."""

    exchange: int
    connection: int
    sender: Sender
    data: bytes
    observed_at_ns: int = 0


Recorded: TypeAlias = Frame | Stderr | Eof | Signal | Gap | HttpEvent | Encoded
"""The records between the header and the close record, except findings. A ``Lines`` record stands for several
of these."""

Record: TypeAlias = Header | Recorded | Lines | Shortened | Finding | Continued | CloseRecord


def frame_bytes(frame: Frame) -> bytes:
    """Return the bytes of a frame as they were sent, including the surrounding bytes of its SSE event.

    If the data of the event was on several lines, ``event.before`` holds the complete event.
    """
    event = frame.event
    if event is None:
        return frame.raw
    return event.before if event.after is None else event.before + frame.raw + event.after
