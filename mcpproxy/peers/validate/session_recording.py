"""Records and judges the messages between our client and a server under test.

The client records in its own process. The trace is as if a proxy between client and server had written it.
"""

import os
import time
from collections.abc import Callable
from typing import Final

from mcpproxy.base import paths
from mcpproxy.errors import McpProxyError
from mcpproxy.judge.ruleset.ruleset import Ruleset
from mcpproxy.judge.session.call_counter import CallCounter
from mcpproxy.judge.session.frame import CLIENT, SERVER, Close, Finding, Frame, RequestHead, ResponseHead
from mcpproxy.peers.validate.padding import without_padding
from mcpproxy.peers.validate.rate_limit import find_limit
from mcpproxy.peers.validate.server_messages import ServerMessages
from mcpproxy.protocol.jsonrpc import Malformed
from mcpproxy.record.recorder.judge import SafeJudge
from mcpproxy.record.trace.encode import encode, encode_close, encode_finding, encode_header, frame_parts
from mcpproxy.record.trace.records import Encoded, Header, Recorded, Tally
from mcpproxy.record.trace.session_labels import SessionNames
from mcpproxy.record.trace.writer import BATCH_BYTES, TraceWriter


class SessionRecording:
    """One recording at ``path``. ``findings`` are the findings so far, by ``rules``.

    ``started_ns`` is the monotonic time from which the times of the recording are counted.
    ``fault`` says why the file is incomplete; it is empty otherwise. ``tally`` counts frames and findings,
    and ``server_messages`` counts the messages of the server by feature.

    Raises:
        McpProxyError: ``path`` cannot be written.
    """

    def __init__(self, path: str, header: Header, rules: Ruleset, started_ns: int) -> None:
        self.path: Final = path
        self.findings: Final[list[Finding]] = []
        self.tally: Final = Tally()
        self.server_messages: Final = ServerMessages()
        self.server_frames = 0
        """How many frames the server sent, without the pages and texts of HTTP error statuses."""
        self.seq = 0
        """The number of the last head or frame."""
        self.fault = ""
        self.limited: Final[dict[int, str]] = {}
        """The refusals because of too many requests: their texts by number of the head or frame."""
        self.was_provoked = False
        """Whether our client sent messages that a client must not send."""
        self._started_ns: Final = started_ns
        self._names: Final = SessionNames()
        self._calls: Final = CallCounter()
        self._judge: Final = SafeJudge(rules.observer)
        self._listeners: Final[list[Callable[[Recorded], None]]] = []
        self._refused: Final[set[int]] = set()
        """The HTTP exchanges with a status from 300 on. Such a response need not come from an MCP server."""
        self._is_closed = False
        folder = os.path.dirname(path)
        try:
            if folder:
                paths.make_private(folder)
            self._writer: Final = TraceWriter(path)
            self._writer.write(encode_header(header))
            is_written = self._writer.flush()
        except OSError as fault:
            raise _unwritable(path, fault.strerror or str(fault)) from None
        if not is_written:
            raise _unwritable(path, self._writer.fault or "nothing can be written there")

    @property
    def frames(self) -> int:
        """The number of frames in both directions."""
        return sum(self.tally.frames.values())

    @property
    def server_findings(self) -> list[Finding]:
        """The findings about the server, without those about refusals because of too many requests."""
        return [
            finding
            for finding in self.findings
            if finding.blame == "server" and finding.frame not in self.limited
        ]

    @property
    def judge_fault(self) -> str:
        """Why mcpproxy stopped judging, which is a fault of ours; empty while it judges."""
        return self._judge.stopped or ""

    def now_ns(self) -> int:
        """Return the time since the recording started, in nanoseconds."""
        return time.monotonic_ns() - self._started_ns

    def add_listener(self, listener: Callable[[Recorded], None]) -> None:
        """Call ``listener`` with every record from now on."""
        self._listeners.append(listener)

    def remove_listener(self, listener: Callable[[Recorded], None]) -> None:
        """Stop calling ``listener``."""
        self._listeners.remove(listener)

    def record(self, event: Recorded) -> None:
        """Write and judge one event, and pass it to the listeners. Heads and frames must have a number.

        A mask is written instead of long padding. ``Encoded`` bytes, those of a compressed body, are not
        judged; the frames with the decoded text are. After ``close``, nothing is recorded.
        """
        if self._is_closed:
            return
        session = self._names.track(event)
        self._calls.count_event(event, session)
        if isinstance(event, Frame | RequestHead | ResponseHead):
            self.seq = event.seq
        if isinstance(event, Frame | ResponseHead) and (text := find_limit(event)):
            self.limited[event.seq] = text
        if isinstance(event, Frame):
            self.tally.count(event)
            is_page = event.exchange in self._refused and isinstance(event.message, Malformed)
            self.server_frames += event.sender == SERVER and not is_page
            self.server_messages.add(event)
        elif isinstance(event, ResponseHead):
            self.server_messages.add_head(event)
            if event.status >= 300:
                self._refused.add(event.exchange)
        written = without_padding(event) if isinstance(event, Frame) else event
        if isinstance(written, Frame) and len(written.raw) >= BATCH_BYTES:
            self._writer.write_large(frame_parts(written, session))
        else:
            self._writer.write(encode(written, session))
        if not isinstance(event, Encoded):
            self._record_findings(self._judge.observe(event))
        for listener in tuple(self._listeners):
            listener(event)

    def record_frame(self, frame: Frame) -> Frame:
        """Give a frame the next number, and record it."""
        frame.seq = self.seq + 1
        self.record(frame)
        return frame

    def say(self, raw: bytes) -> Frame:
        """Record a whole line of our client."""
        return self.record_frame(Frame(0, CLIENT, raw, self.now_ns()))

    def close(self, close: Close) -> None:
        """Write the close record, and close the file."""
        if self._is_closed:
            return
        self._is_closed = True
        self._record_findings(self._judge.observe(close))
        self.tally.calls = self._calls.counts
        self.tally.more = self._judge.more
        self.tally.judge_error = self._judge.error
        self._writer.write(encode_close(close, self.tally))
        if not self._writer.flush():
            self.fault = f"{self.path} is not whole: {self._writer.fault}"
        self._writer.close()

    def _record_findings(self, findings: list[Finding]) -> None:
        for finding in findings:
            self._writer.write(encode_finding(finding))
            self.tally.findings[finding.severity] += 1
        self.findings.extend(findings)


def _unwritable(path: str, why: str) -> McpProxyError:
    return McpProxyError(f"{path}: {why.lower()}; name another file with --trace")
