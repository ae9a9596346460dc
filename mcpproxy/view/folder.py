"""The recordings in a folder: who took part, when each was made, and whether it is running or how it ended.

Only the beginning and the end of every file are read. The header and the handshake say who took part, and the
last record says how the recording ended. Nothing is written; a journal, the file from which a recording is
completed if its recorder was killed, is only read.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias, cast

import orjson

from mcpproxy.base.files import Folder, open_regular
from mcpproxy.base.visible import visible
from mcpproxy.errors import McpProxyError
from mcpproxy.protocol.jsonrpc import Request, Response
from mcpproxy.recorder.liveness import is_relay_alive
from mcpproxy.recorder.lock import is_held
from mcpproxy.relay import journal
from mcpproxy.session.frame import CLIENT, SERVER, Close, Frame
from mcpproxy.trace import chain
from mcpproxy.trace.decode import decode
from mcpproxy.trace.records import CloseRecord, Continued, Header
from mcpproxy.view.index.peers import SessionFacts

SUFFIX: Final = ".jsonl"
JOURNAL_SUFFIX: Final = SUFFIX + ".journal"

_HEAD_BYTES: Final = 64 << 10
_TAIL_BYTES: Final = 16 << 10
_MAX_HEAD_RECORDS: Final = 40
_MAX_TAIL_RECORDS: Final = 200


@dataclass(frozen=True, slots=True)
class RecordingEntry:
    """One recording of a folder. All texts but ``path`` are safe to show.

    ``state`` is ``running``, ``ended``, ``cut`` (the recorder was killed; opening the recording completes
    it), ``starting`` (there is no trace yet), or ``unreadable``. ``ended`` says in words how it ended, or why
    it cannot be read; ``ending`` says the same in a word or two: ``exit 0``, ``signal 9``. ``started_ns`` is
    the time of its start in nanoseconds since 1970, 0 if it is unknown. Counts and the duration are ``None``
    if the beginning and the end of the file do not give them.

    A recording in several files is one entry; ``path`` is the first file, ``files`` is how many there are.
    """

    path: str
    state: str
    ended: str = ""
    ending: str = ""
    label: str = ""
    transport: str = ""
    upstream: str = ""
    command: tuple[str, ...] = ()
    cwd: str = ""
    client: str = ""
    client_version: str = ""
    server: str = ""
    server_version: str = ""
    protocol: str = "mcp"
    revision: str = ""
    imported: str = ""
    started_at: str = ""
    started_ns: int = 0
    active_ns: int = 0
    """When its first message was sent, in nanoseconds since 1970; ``started_ns`` if there is no message."""
    duration_ns: int | None = None
    frames: int | None = None
    findings: Mapping[str, int] | None = None
    size: int = 0
    files: int = 1
    boot: str = ""
    ppid: int = 0
    """The process that started mcpproxy: on stdio the client, or a shell that it uses; 0 if unknown."""

    @property
    def running(self) -> bool:
        """Whether it is still being recorded."""
        return self.state in ("running", "starting")

    @property
    def end_ns(self) -> int | None:
        """When it ended, in nanoseconds since 1970; ``None`` if it is running, or if the end is unknown."""
        if self.running or self.duration_ns is None:
            return None
        return self.started_ns + self.duration_ns


@dataclass(slots=True)
class _Ends:
    """What the beginning and the end of one file say about a recording.

    ``continues`` is the name of the file before it, ``goes_on_in`` that of the file after it; empty if there
    is none.
    """

    name: str
    entry: RecordingEntry
    continues: str = ""
    goes_on_in: str = ""


def recordings(folder: str) -> list[RecordingEntry]:
    """Return the recordings directly in ``folder``, in the order in which they began.

    Raises:
        OSError: the folder cannot be read.
    """
    return RecordingFolder(folder).entries()


class RecordingFolder:
    """The recordings directly in ``folder``. A file that has not changed is not read a second time.

    Without ``follows``, a symbolic link is not a recording.
    """

    def __init__(self, folder: str, *, follows: bool = True) -> None:
        self._folder: Final = folder
        self._follows: Final = follows
        self._known: dict[str, tuple[_FileState, _Ends]] = {}

    def entries(self) -> list[RecordingEntry]:
        """Return the recordings in the order in which they began.

        Raises:
            OSError: the folder cannot be read.
        """
        names = {name for name in os.listdir(self._folder) if name.endswith((SUFFIX, JOURNAL_SUFFIX))}
        if not self._follows:
            names = {name for name in names if not os.path.islink(os.path.join(self._folder, name))}
        known: dict[str, tuple[_FileState, _Ends]] = {}
        ends_of: dict[str, _Ends] = {}
        for name in sorted({name.removesuffix(".journal") for name in names}):
            path = os.path.join(self._folder, name)
            # What is said about a recording with a journal depends on processes, too.
            state = None if f"{name}.journal" in names else _file_state(path)
            before = self._known.get(name)
            ends_of[name] = before[1] if state and before and before[0] == state else _ends(path)
            if state:
                known[name] = state, ends_of[name]
        self._known = known
        entries = [_joined(ends, ends_of) for ends in ends_of.values() if ends.continues not in ends_of]
        return sorted(entries, key=lambda entry: (entry.started_ns, entry.path))


_FileState: TypeAlias = tuple[int, int, int]
"""Inode, size and time of the last change of a file."""


def _file_state(path: str) -> _FileState | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def recording(path: str) -> RecordingEntry:
    """Return the entry of one recording. ``path`` is its first file."""
    first = last = _ends(path)
    ends_of = {first.name: first}
    while last.goes_on_in and last.goes_on_in not in ends_of and chain.is_name(last.goes_on_in):
        following = os.path.join(os.path.dirname(path), last.goes_on_in)
        if not os.path.exists(following):
            break
        last = _ends(following)
        ends_of[last.name] = last
    return _joined(first, ends_of)


def _joined(first: _Ends, ends_of: Mapping[str, _Ends]) -> RecordingEntry:
    """Return the entry of a recording: its first file, with the end that its last file gives.

    ``ends_of`` has the files by name.
    """
    entry, joined_names, last = first.entry, {first.name}, first
    while (following := ends_of.get(last.goes_on_in)) is not None and following.name not in joined_names:
        joined_names.add(following.name)
        last = following
        entry = replace(entry, files=entry.files + 1, size=entry.size + last.entry.size)
    if last is first:
        return entry
    last_entry = last.entry
    return replace(
        entry,
        state=last_entry.state,
        ended=last_entry.ended,
        ending=last_entry.ending,
        duration_ns=last_entry.duration_ns,
        frames=last_entry.frames,
        findings=last_entry.findings,
    )


def _ends(path: str) -> _Ends:
    name = os.path.basename(path)
    shown = visible(path)
    try:
        head, tail, size = _read_ends(path)
    except FileNotFoundError:
        return _Ends(name, _from_journal(path))
    except (OSError, McpProxyError) as fault:
        reason = (fault.strerror or "unreadable").lower() if isinstance(fault, OSError) else str(fault)
        return _Ends(name, RecordingEntry(path, "unreadable", visible(reason), visible(reason)))
    lines = head.splitlines(keepends=True)
    header = _record(lines[0]) if lines else None
    if not isinstance(header, Header):
        fault = f"{os.path.basename(shown)} is not a trace"
        return _Ends(name, RecordingEntry(path, "unreadable", fault, "not a trace", size=size))
    facts, first_ns = _handshake(lines[1:])
    entry = replace(
        _from_header(path, header),
        client=visible(facts.client),
        client_version=visible(facts.client_version),
        server=visible(facts.server),
        server_version=visible(facts.server_version),
        protocol=facts.protocol,
        revision=visible(facts.revision),
        size=size,
    )
    entry = replace(entry, active_ns=entry.started_ns + first_ns)
    last = _record(tail.rstrip(b"\n").rpartition(b"\n")[2]) if tail.endswith(b"\n") else None
    if isinstance(last, CloseRecord | Continued):
        return _ended(name, entry, header, last)
    state = "running" if _is_recording(path, header) else "ended" if header.imported else "cut"
    at_ns, seq = _last_counts(tail)
    # Over HTTP the heads of messages have sequence numbers, too, so the last one does not count the frames.
    frames = None if header.transport == "http" else seq
    entry = replace(entry, state=state, ended=state, ending=state, duration_ns=at_ns, frames=frames)
    return _Ends(name, entry, header.continues)


def _from_header(path: str, header: Header) -> RecordingEntry:
    started_ns = unix_ns(header.started_at)
    return RecordingEntry(
        path=path,
        state="cut",
        label=visible(header.label),
        transport=visible(header.transport),
        upstream=visible(header.upstream),
        command=tuple(map(visible, header.command)),
        cwd=visible(header.cwd),
        imported=visible(header.imported),
        started_at=visible(header.started_at),
        started_ns=started_ns,
        active_ns=started_ns,
        boot=header.boot,
        ppid=header.ppid,
    )


def _from_journal(path: str) -> RecordingEntry:
    """Return the entry of a recording that has a journal but no trace yet."""
    folder = journal.folder(path)
    if not os.path.isdir(folder):
        return RecordingEntry(path, "unreadable", "no such file", "no such file")
    from mcpproxy.recorder.recovery import header_in_journal  # few recordings need it

    try:
        header = header_in_journal(folder)
    except (OSError, McpProxyError):
        header = None
    entry = RecordingEntry(path, "cut") if header is None else _from_header(path, header)
    state = "starting" if _is_recording(path, header) else "cut"
    return replace(entry, state=state, ended=state, ending=state)


def _ended(name: str, entry: RecordingEntry, header: Header, last: CloseRecord | Continued) -> _Ends:
    from mcpproxy.reports.transcripts.ending import ending_text

    tally = last.tally
    entry = replace(
        entry,
        frames=sum(tally.frames.values()) if tally else None,
        findings=dict(tally.total_findings) if tally else None,
    )
    if isinstance(last, Continued):
        state = "running" if _is_recording(entry.path, header) else "cut"
        ended = f"goes on in {visible(last.file)}"
        entry = replace(entry, state=state, ended=ended, ending=ended, duration_ns=last.observed_at_ns)
        return _Ends(name, entry, header.continues, last.file)
    close = last.close
    ended = ending_text(close, header.transport)
    entry = replace(
        entry,
        state="ended",
        ended=ended,
        ending=_ending(close, header.transport),
        duration_ns=close.observed_at_ns,
    )
    return _Ends(name, entry, header.continues)


def _ending(close: Close, transport: str) -> str:
    """Return in a word or two how a recording ended. Over HTTP it ends when mcpproxy does."""
    match close.ending:
        case "exited" if transport == "http" and close.exit_code == 0:
            return "stopped"
        case "exited":
            return f"exit {close.exit_code}"
        case "signalled":
            return f"signal {close.signal}"
        case ending:
            return ending


def _read_ends(path: str) -> tuple[bytes, bytes, int]:
    with open(open_regular(path, follows=True), "rb") as file:
        head = file.read(_HEAD_BYTES)
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _TAIL_BYTES, 0))
        return head, file.read(), size


def _record(line: bytes) -> object:
    try:
        return decode(line)
    except McpProxyError:
        return None


def _handshake(lines: Iterable[bytes]) -> tuple[SessionFacts, int]:
    """Return the peers that the first records name, and the time of the first message."""
    facts, first_ns = SessionFacts(), 0
    for _, line in zip(range(_MAX_HEAD_RECORDS), lines, strict=False):
        frame = _record(line)
        if not isinstance(frame, Frame):
            continue
        first_ns = first_ns or frame.observed_at_ns
        match frame.message:
            case Request(params=dict() as params) if frame.sender == CLIENT:
                members = cast("dict[str, Any]", params)
                if frame.message.method == "initialize":
                    facts.take_initialize(members)
                elif isinstance(meta := members.get("_meta"), dict):
                    facts.take_meta(cast("dict[str, Any]", meta))
            case Response(result=dict() as result) if frame.sender == SERVER:
                facts.take_result(cast("dict[str, Any]", result))
            case _:
                pass
        if facts.client and facts.server:
            break
    return facts, first_ns


def last_frame(path: str) -> int | None:
    """Return the number of the last frame, or head of HTTP, of the recording whose first file is ``path``."""
    try:
        _, tail, _ = _read_ends(chain.files_of(path)[-1])
    except (OSError, McpProxyError):
        return None
    return _last_counts(tail)[1]


def _last_counts(tail: bytes) -> tuple[int | None, int | None]:
    """Return the time of the last record, and the number of the last frame, from the end of a file."""
    at_ns, seq = None, None
    for line in reversed(tail[: tail.rfind(b"\n") + 1].splitlines()[-_MAX_TAIL_RECORDS:]):
        try:
            members: object = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue  # the tail begins in the middle of a line
        if not isinstance(members, dict):
            continue
        record = cast("dict[str, Any]", members)
        if at_ns is None and type(record.get("t")) is int:
            at_ns = record["t"]
        if type(record.get("seq")) is int:
            seq = record["seq"]
            break
    return at_ns, seq


def _is_recording(path: str, header: Header | None) -> bool:
    """Whether a recorder holds the lock of the journal beside a trace, or is about to start."""
    try:
        folder = Folder(journal.folder(path))
    except OSError:
        return False
    return is_held(folder) or (header is not None and is_relay_alive(header, folder.path))


def unix_ns(started_at: str) -> int:
    try:
        start = datetime.fromisoformat(started_at)
    except ValueError:
        return 0
    if start.tzinfo is None:
        start = start.replace(tzinfo=UTC)
    return round((start - _EPOCH).total_seconds() * 1e6) * 1000


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
