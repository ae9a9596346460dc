"""The recordings in a folder, without reading them whole: what each is, how it stands, and when it was made.

Of every file the beginning and the end are read. The header and the handshake say who took part, and the last
record says how it ended. Nothing is written, and a journal is only looked at.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, cast

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
from mcpproxy.view.peers import SessionFacts

SUFFIX: Final = ".jsonl"
JOURNAL_SUFFIX: Final = SUFFIX + ".journal"

_HEAD_BYTES: Final = 64 << 10
_TAIL_BYTES: Final = 16 << 10
_MAX_HEAD_RECORDS: Final = 40
_MAX_TAIL_RECORDS: Final = 200


@dataclass(frozen=True, slots=True)
class RecordingEntry:
    """One recording of a folder. All texts but ``path`` are safe to show.

    ``state`` is ``running``, ``ended``, ``cut`` (the recorder was killed; opening it completes it),
    ``starting`` (there is no trace yet), or ``unreadable``; ``ended`` says in words how it ended, or what is
    wrong, and ``ending`` the same in a word or two: ``exit 0``, ``signal 9``. ``started_ns`` is the time of
    its start since 1970 in nanoseconds, 0 if it is unknown. Counts and the duration are ``None`` where the
    ends of the file do not give them.

    A recording in several files is one entry; ``path`` is its first file, ``files`` their number.
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
    """When its first message was sent, since 1970; ``started_ns`` if there is none."""
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
        """Whether it is being recorded."""
        return self.state in ("running", "starting")

    @property
    def end_ns(self) -> int | None:
        """When it ended, since 1970; ``None`` if it is running or that is unknown."""
        if self.running or self.duration_ns is None:
            return None
        return self.started_ns + self.duration_ns


@dataclass(slots=True)
class _Ends:
    """What the beginning and the end of one file say."""

    name: str
    entry: RecordingEntry
    continues: str = ""
    goes_on_in: str = ""


def recordings(folder: str) -> list[RecordingEntry]:
    """Return the recordings directly in ``folder``, by the time of their start, the latest last.

    Raises:
        OSError: the folder cannot be read.
    """
    names = os.listdir(folder)
    files = {name.removesuffix(".journal") for name in names if name.endswith((SUFFIX, JOURNAL_SUFFIX))}
    found = {name: _ends(os.path.join(folder, name)) for name in sorted(files)}
    entries = [_joined(ends, found) for ends in found.values() if ends.continues not in found]
    return sorted(entries, key=lambda entry: (entry.started_ns, entry.path))


def recording(path: str) -> RecordingEntry:
    """Return the entry of one recording. ``path`` is its first file."""
    first = last = _ends(path)
    found = {first.name: first}
    while last.goes_on_in and last.goes_on_in not in found and chain.is_name(last.goes_on_in):
        following = os.path.join(os.path.dirname(path), last.goes_on_in)
        if not os.path.exists(following):
            break
        last = _ends(following)
        found[last.name] = last
    return _joined(first, found)


def _joined(first: _Ends, found: Mapping[str, _Ends]) -> RecordingEntry:
    """Return the entry of a recording with what the files by which it continues say."""
    entry, seen, last = first.entry, {first.name}, first
    while (following := found.get(last.goes_on_in)) is not None and following.name not in seen:
        seen.add(following.name)
        last = following
        entry = replace(entry, files=entry.files + 1, size=entry.size + last.entry.size)
    if last is first:
        return entry
    said = last.entry
    return replace(
        entry,
        state=said.state,
        ended=said.ended,
        ending=said.ending,
        duration_ns=said.duration_ns,
        frames=said.frames,
        findings=said.findings,
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
    # Over HTTP heads have sequence numbers, too.
    frames = None if header.transport == "http" else seq
    entry = replace(entry, state=state, ended=state, ending=state, duration_ns=at_ns, frames=frames)
    return _Ends(name, entry, header.continues)


def _from_header(path: str, header: Header) -> RecordingEntry:
    started_ns = _unix_ns(header.started_at)
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
    """Return the entry of a recording of which there is only a journal."""
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
    from mcpproxy.reports.transcripts.transcript import ending_text

    tally = last.tally
    entry = replace(
        entry,
        frames=sum(tally.frames.values()) if tally else None,
        findings=dict(tally.total_findings) if tally else None,
    )
    if isinstance(last, Continued):
        state = "running" if _is_recording(entry.path, header) else "cut"
        said = f"goes on in {visible(last.file)}"
        entry = replace(entry, state=state, ended=said, ending=said, duration_ns=last.observed_at_ns)
        return _Ends(name, entry, header.continues, last.file)
    close = last.close
    said = ending_text(close, header.transport)
    entry = replace(
        entry,
        state="ended",
        ended=said,
        ending=_ending(close, header.transport),
        duration_ns=close.observed_at_ns,
    )
    return _Ends(name, entry, header.continues)


def _ending(close: Close, transport: str) -> str:
    """Return how a recording ended in a word or two. Over HTTP that is the end of mcpproxy."""
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
    """Return who takes part, from the first records, and the time of the first message."""
    facts, first_ns = SessionFacts(), 0
    for _, line in zip(range(_MAX_HEAD_RECORDS), lines, strict=False):
        frame = _record(line)
        if not isinstance(frame, Frame):
            continue
        first_ns = first_ns or frame.observed_at_ns
        match frame.message:
            case Request(params=dict() as params) if frame.sender == CLIENT:
                said = cast("dict[str, Any]", params)
                if frame.message.method == "initialize":
                    facts.take_initialize(said)
                elif isinstance(meta := said.get("_meta"), dict):
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
            continue  # the first line of the tail is the end of one
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
    return is_held(folder) or (header is not None and is_relay_alive(header))


def _unix_ns(started_at: str) -> int:
    try:
        began = datetime.fromisoformat(started_at)
    except ValueError:
        return 0
    if began.tzinfo is None:
        began = began.replace(tzinfo=UTC)
    return round((began - _EPOCH).total_seconds() * 1e6) * 1000


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
