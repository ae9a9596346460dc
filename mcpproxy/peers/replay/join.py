"""Join two recordings of one server: append the requests that only the later recording contains.

The records of the earlier recording stay as they are, except for its close record, which is written anew at
the end. Each client request that it lacks is appended under an id that it does not use, together with the
response and the messages that both sides sent while the request was open. The messages of a batch keep their
ids.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from mcpproxy.base import files
from mcpproxy.judge.session.call_counter import CallCounter
from mcpproxy.judge.session.frame import Close, Finding, Frame
from mcpproxy.peers.replay.message_paths import ID, OWN_SUBSCRIPTION, REQUEST_ID
from mcpproxy.peers.replay.recording import RecordedSession, SessionMessage, from_trace, load
from mcpproxy.peers.replay.server.matching import Matcher
from mcpproxy.peers.replay.server.replay_source import merged
from mcpproxy.protocol.jsonrpc import Request
from mcpproxy.protocol.raw_json import spliced, written
from mcpproxy.read.opening import open_trace
from mcpproxy.record.trace.encode import encode, encode_close, encode_finding, encode_frame, encode_header
from mcpproxy.record.trace.reader import Trace
from mcpproxy.record.trace.records import Tally

_PAUSE_NS: Final = 1_000_000
"""The time between the earlier recording and the first appended message."""


def join(earlier_path: str, later_path: str, output_path: str) -> bool:
    """Write the earlier recording and the requests that only the later one contains to ``output_path``.

    Both recordings are of stdio. ``output_path`` may be ``earlier_path``: the file is replaced atomically. If
    the later recording contains no further request, write nothing and return false.

    Raises:
        TraceError: a recording cannot be read.
        OSError: the output cannot be written.
    """
    earlier, later = open_trace(earlier_path), open_trace(later_path)
    appended = _appended_frames(_only_session(earlier), _only_session(later))
    if not appended:
        return False
    files.replace(output_path, _joined_lines(earlier, appended))
    return True


def lacks(earlier_path: str, later_path: str) -> bool:
    """Whether the earlier recording lacks a client request that the later one contains, over any transport.

    Raises:
        TraceError: a recording cannot be read.
    """
    earlier, later = merged(load(earlier_path).sessions), merged(load(later_path).sessions)
    return bool(_missing_requests(earlier.messages, later.messages))


def _missing_requests(earlier: Iterable[SessionMessage], later: Iterable[SessionMessage]) -> set[int]:
    """Return the indices of those client requests in ``later`` that ``earlier`` lacks.

    A request that is repeated in ``later`` more often than in ``earlier`` is missing, too.
    """
    matcher = Matcher(entry for entry in earlier if entry.sender == "client")
    return {
        entry.index
        for entry in later
        if entry.sender == "client" and isinstance(entry.message, Request) and not matcher.take(entry.message)
    }


def _only_session(trace: Trace) -> RecordedSession:
    return next(iter(from_trace(trace).sessions), RecordedSession())


def _appended_frames(earlier: RecordedSession, later: RecordedSession) -> list[Frame]:
    """Return the frames of the later session to append, in recorded order."""
    missing = _missing_requests(earlier.messages, later.messages)
    ids = _NewIds(earlier)
    answered = {entry.answers for entry in later.messages}
    open_requests: set[int] = set()  # missing requests whose response comes later
    frames: dict[int, Frame] = {}
    for entry in later.messages:
        if entry.answers is None:
            is_client_request = entry.sender == "client" and isinstance(entry.message, Request)
            is_appended = entry.index in missing if is_client_request else bool(open_requests)
        else:
            is_appended = entry.answers in missing or ids.has(entry.answers)
            open_requests.discard(entry.answers)
        if entry.index in missing and entry.index in answered:
            open_requests.add(entry.index)
        if is_appended:
            raw = entry.raw if entry.batch else ids.with_new_ids(entry)
            frames[entry.seq] = Frame(entry.seq, entry.sender, raw, entry.at_ns, event=None)
    return [_with_whole_batch(frame, later) for frame in frames.values()]


def _with_whole_batch(frame: Frame, session: RecordedSession) -> Frame:
    """Return the frame of a batch with all messages of the batch, and any other frame unchanged."""
    items = [entry.raw for entry in session.messages if entry.batch == frame.seq]
    return replace(frame, raw=b"[" + b",".join(items) + b"]") if items else frame


class _NewIds:
    """Gives requests ids that the earlier recording does not use."""

    def __init__(self, earlier: RecordedSession) -> None:
        ids = [entry.message.id for entry in earlier.messages if isinstance(entry.message, Request)]
        self._next_id = max((id for id in ids if isinstance(id, int)), default=0) + 1
        self._new_by_index: Final[dict[int, bytes]] = {}  # index of a request -> its new id

    def has(self, index: int) -> bool:
        """Whether the request at this index was given a new id."""
        return index in self._new_by_index

    def with_new_ids(self, entry: SessionMessage) -> bytes:
        """Return the message with a new id, or with the new id of the request that it refers to."""
        match entry.message:
            case Request(id=id) if id is not None:
                new_id = written(self._next_id)
                self._next_id += 1
                self._new_by_index[entry.index] = new_id
                return spliced(entry.raw, {ID: new_id})
            case _ if entry.names is not None and (new_id := self._new_by_index.get(entry.names)):
                return spliced(entry.raw, {REQUEST_ID: new_id, OWN_SUBSCRIPTION: new_id})
            case _ if entry.answers is not None and (new_id := self._new_by_index.get(entry.answers)):
                return spliced(entry.raw, {ID: new_id})
            case _:
                return entry.raw


def _joined_lines(earlier: Trace, appended: list[Frame]) -> list[bytes]:
    """Return the lines of the joined trace."""
    lines = [encode_header(earlier.header)]
    tally, calls = Tally(), CallCounter()
    close = Close("cut")
    seq = at_ns = 0
    for event in earlier.events():
        match event:
            case Close():
                close = event
                continue
            case Finding():
                tally.findings[event.severity] += 1
                lines.append(encode_finding(event))
                continue
            case Frame():
                tally.count(event)
                seq = event.seq
            case _:
                pass
        calls.count_event(event)
        at_ns = max(at_ns, event.observed_at_ns)
        lines.append(encode(event))
    shift_ns = at_ns + _PAUSE_NS - appended[0].observed_at_ns
    for frame in appended:
        seq += 1
        tally.count(frame)
        calls.count_frame(frame)
        at_ns = frame.observed_at_ns + shift_ns
        lines.append(encode_frame(replace(frame, seq=seq, observed_at_ns=at_ns)))
    tally.calls = calls.counts
    lines.append(encode_close(replace(close, observed_at_ns=max(at_ns, close.observed_at_ns)), tally))
    return lines
