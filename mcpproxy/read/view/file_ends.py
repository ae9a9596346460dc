"""Read facts about a recording from the beginning and the end of one file.

The header and the handshake name the peers. The last record tells how the recording ended and how many calls
failed. A short recording without an end, which is usually running, is read completely: a user who lists
recordings while a call hangs looks for that call. Nothing is written; a journal, from which a recording is
completed if its recorder was killed, is only read.
"""

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import orjson

from mcpproxy.base.files import Folder, open_regular
from mcpproxy.base.visible import visible
from mcpproxy.errors import McpProxyError
from mcpproxy.judge.session.ending import ending_text, not_begun
from mcpproxy.judge.session.frame import CLIENT, SERVER, Close, Frame
from mcpproxy.judge.session.outcomes import count_calls
from mcpproxy.protocol.jsonrpc import Request, Response
from mcpproxy.read.view.index.columns import Columns
from mcpproxy.read.view.index.peers import SessionFacts
from mcpproxy.read.view.recording_entry import RecordingEntry
from mcpproxy.read.view.summaries import call_outcomes, oldest_unanswered_ns
from mcpproxy.record.recorder.liveness import is_relay_there
from mcpproxy.record.recorder.lock import is_held
from mcpproxy.record.relay import journal
from mcpproxy.record.trace import chain, upgrades
from mcpproxy.record.trace.decode import decode, header_format
from mcpproxy.record.trace.empty_trace import HEAD_BYTES, first_end_in, has_no_message
from mcpproxy.record.trace.records import CloseRecord, Continued, Header, Tally

_TAIL_BYTES: Final = 16 << 10
"""How many bytes are read of the end of a file; of its beginning, ``HEAD_BYTES``."""
_MAX_HEAD_RECORDS: Final = 40
"""How many records of the beginning are searched for the handshake, those of ``_ON_STDERR`` not counted."""
_ON_STDERR: Final = (b'{"type":"stderr"', b'{"type":"lines"')
"""How records of stderr, and of lines too short to be messages, begin."""
_MAX_TAIL_RECORDS: Final = 200
"""How many records of the end are searched for the last time and sequence number."""
_MOST_READ_BYTES: Final = 1 << 20
"""The size up to which the calls of a recording without an end are counted, which takes about 10 ms."""


@dataclass(slots=True)
class FileEnds:
    """Facts about a recording from the beginning and the end of one file.

    ``continues`` is the name of the previous file of the recording, ``goes_on_in`` that of the next; each is
    empty if there is none.
    """

    name: str
    entry: RecordingEntry
    continues: str = ""
    goes_on_in: str = ""


def file_ends(path: str) -> FileEnds:
    """Return the facts in the ends of a file, or in its journal while the file has no complete header.

    If it cannot be read, has a later format or is not a trace, the state of its entry is ``unreadable``.
    """
    name = os.path.basename(path)
    try:
        head, tail, size = _read_ends(path)
        if b"\n" not in head and os.path.isdir(journal.folder(path)):
            raise FileNotFoundError
    except FileNotFoundError:
        return FileEnds(name, _entry_from_journal(path))
    except (OSError, McpProxyError) as fault:
        reason = (fault.strerror or "unreadable").lower() if isinstance(fault, OSError) else str(fault)
        return FileEnds(name, RecordingEntry(path, "unreadable", visible(reason), visible(reason)))
    lines = head.splitlines(keepends=True)
    if lines and (fact := _later_format_words(lines[0])):
        return FileEnds(name, RecordingEntry(path, "unreadable", fact, "later format", size=size))
    header = _decoded(lines[0]) if lines else None
    if not isinstance(header, Header):
        fact = f"{visible(name)} is not a trace"
        return FileEnds(name, RecordingEntry(path, "unreadable", fact, "not a trace", size=size))
    entry = _with_handshake(replace(_entry_from_header(path, header), size=size), lines[1:])
    match _decoded(tail.rstrip(b"\n").rpartition(b"\n")[2]) if tail.endswith(b"\n") else None:
        case CloseRecord() as last:
            is_empty = size <= HEAD_BYTES and has_no_message(head)
            # Without a tally, it is only known whether there was a frame.
            frames = sum(last.tally.frames.values()) if last.tally else not is_empty
            first_end = first_end_in(head if size <= len(head) else head + tail)
            has_not_begun = bool(not_begun(last.close, header, frames, first_end))
            entry = replace(_with_close(entry, header, last), is_empty=is_empty, has_not_begun=has_not_begun)
            return FileEnds(name, entry, header.continues)
        case Continued() as last:
            return FileEnds(name, _with_next_file(entry, header, last), header.continues, last.file)
        case _:
            return FileEnds(name, _without_end(entry, header, tail), header.continues)


def _entry_from_header(path: str, header: Header) -> RecordingEntry:
    started_ns = header.started_unix_ns
    return RecordingEntry(
        path=path,
        state="cut",
        label=visible(header.label),
        transport=visible(header.transport),
        upstream=visible(header.upstream),
        command=tuple(map(visible, header.command)),
        cwd=visible(header.cwd),
        imported=visible(header.imported),
        model=visible(header.model),
        started_at=visible(header.started_at),
        started_ns=started_ns,
        active_ns=started_ns,
        boot=header.boot,
        ppid=header.ppid,
    )


def _entry_from_journal(path: str) -> RecordingEntry:
    """Return the entry of a recording that has a journal but no trace yet; unreadable if it has neither."""
    folder = journal.folder(path)
    if not os.path.isdir(folder):
        return RecordingEntry(path, "unreadable", "no such file", "no such file")
    from mcpproxy.record.recorder.recovery import header_in_journal  # few recordings need it

    try:
        header = header_in_journal(folder)
    except (OSError, McpProxyError):
        header = None
    entry = RecordingEntry(path, "cut") if header is None else _entry_from_header(path, header)
    state = "starting" if _is_recording(path, header) else "cut"
    return replace(entry, state=state, ended=state, ending=state)


def _with_handshake(entry: RecordingEntry, lines: Iterable[bytes]) -> RecordingEntry:
    facts, first_ns = _read_handshake(lines)
    return replace(
        entry,
        client=visible(facts.client),
        client_version=visible(facts.client_version),
        server=visible(facts.server),
        server_version=visible(facts.server_version),
        protocol=facts.protocol,
        revision=visible(facts.revision),
        active_ns=entry.started_ns + first_ns,
    )


def _with_close(entry: RecordingEntry, header: Header, last: CloseRecord) -> RecordingEntry:
    close = last.close
    return replace(
        _with_tally(entry, last.tally),
        state="ended",
        ended=ending_text(close, header),
        ending=_ending(close, header.transport),
        reason=visible(close.reason),
        duration_ns=close.observed_at_ns,
    )


def _with_next_file(entry: RecordingEntry, header: Header, last: Continued) -> RecordingEntry:
    state = "running" if _is_recording(entry.path, header) else "cut"
    ended = f"goes on in {visible(last.file)}"
    entry = _with_tally(entry, last.tally)
    return replace(entry, state=state, ended=ended, ending=ended, duration_ns=last.observed_at_ns)


def _without_end(entry: RecordingEntry, header: Header, tail: bytes) -> RecordingEntry:
    state = "running" if _is_recording(entry.path, header) else "ended" if header.imported else "cut"
    at_ns, seq = _last_time_and_seq(tail)
    # Over HTTP, heads have sequence numbers too, so the last number is not the number of frames.
    frames = None if header.transport == "http" else seq
    if state == "running":  # its duration is until now, and not until its last record
        at_ns = max(_now_ns(header), at_ns or 0)
    entry = replace(entry, state=state, ended=state, ending=state, duration_ns=at_ns, frames=frames)
    return entry if header.continues else _with_calls(entry, header)


def _now_ns(header: Header) -> int:
    """Return the time now, in nanoseconds since a running recording began."""
    return time.monotonic_ns() - header.started_ns


def _with_calls(entry: RecordingEntry, header: Header) -> RecordingEntry:
    """Return the entry with its calls counted; unchanged if the recording is long or cannot be read.

    If it runs, add how long its oldest open call has waited.
    """
    if entry.size > _MOST_READ_BYTES:
        return entry
    from mcpproxy.read.view.index.scan import Scan  # most recordings have an end

    columns = Columns()
    try:
        with open(open_regular(entry.path, follows=True), "rb") as file:
            Scan(columns).feed(line for line in file if line.endswith(b"\n"))
    except (OSError, McpProxyError):
        return entry
    since_ns = oldest_unanswered_ns(columns) if entry.running else None
    waiting_ns = None if since_ns is None else max(_now_ns(header) - since_ns, 0)
    return replace(entry, calls=count_calls(call_outcomes(columns)), waiting_ns=waiting_ns)


def _with_tally(entry: RecordingEntry, tally: Tally | None) -> RecordingEntry:
    if tally is None:
        return entry
    frames = sum(tally.frames.values())
    return replace(entry, frames=frames, findings=dict(tally.total_findings), calls=tally.calls)


def _ending(close: Close, transport: str) -> str:
    """Return in a word or two how a recording ended. A recording over HTTP ends with mcpproxy itself."""
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
        head = file.read(HEAD_BYTES)
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _TAIL_BYTES, 0))
        return head, file.read(), size


def _later_format_words(line: bytes) -> str:
    """Return a sentence if a header is of a later format, which we cannot read; otherwise an empty string."""
    try:
        upgrades.upgrade_steps(header_format(line))
    except LookupError as fault:
        return f"{fault.args[0]}; please update"
    except McpProxyError:
        return ""
    return ""


def _decoded(line: bytes) -> object:
    try:
        return decode(line)
    except McpProxyError:
        return None


def _read_handshake(lines: Iterable[bytes]) -> tuple[SessionFacts, int]:
    """Return the peers that the first records name, and the time of the first message.

    The time is in nanoseconds since the start of the recording; 0 if there is no message.
    """
    facts, first_ns = SessionFacts(), 0
    # Many servers write a lot to stderr before they answer; these records say nothing about the peers.
    candidates = (line for line in lines if not line.startswith(_ON_STDERR))
    for _, line in zip(range(_MAX_HEAD_RECORDS), candidates, strict=False):
        frame = _decoded(line)
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
    """Return the number of the last frame or HTTP head in the recording whose first file is ``path``.

    Return ``None`` if its end cannot be read.
    """
    try:
        _, tail, _ = _read_ends(chain.files_of(path)[-1])
    except (OSError, McpProxyError):
        return None
    return _last_time_and_seq(tail)[1]


def _last_time_and_seq(tail: bytes) -> tuple[int | None, int | None]:
    """Return the time of the last record in ns, and the number of the last frame or HTTP head.

    ``tail`` is the end of a file. Each is ``None`` if it is not in there.
    """
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
    """Whether a recorder holds the lock of the journal beside a trace, or the relay may still be running.

    The relay is the process that forwards the traffic.
    """
    try:
        folder = Folder(journal.folder(path))
    except OSError:
        return False
    return is_held(folder) or is_relay_there(folder, header)
